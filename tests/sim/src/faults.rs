//! Faults: which one happens next, to whom, and whether it may.
//! Not here: how nodes crash, pause and start (world.rs), how messages are lost (network.rs).
//! Draws from the schedule's random numbers. What may happen is bounded by what replication promises: no more than
//! min.insync.replicas - 1 brokers at a time may have lost what they had not fsynced (KIP-966). Controllers may always.
//! Kafka: trogdor's and ducktape's faults; Jepsen's nemesis.

use crate::message::Address;
use crate::plan::FaultKind;
use crate::producer::TOPIC;
use crate::world::{UncleanEnd, World};
use kavka_common::NodeId;
use kavka_storage::testing::Loss;
use std::io::ErrorKind;

impl World {
    fn draw(&mut self, bound: usize) -> usize {
        self.random.below(bound.max(1))
    }

    fn draw_ms(&mut self, from: i64, to: i64) -> i64 {
        let span = usize::try_from(to - from).unwrap_or(1);
        from + i64::try_from(self.draw(span)).unwrap_or(0)
    }

    fn one_of(&mut self, nodes: &[Address]) -> Option<Address> {
        if nodes.is_empty() {
            return None;
        }
        let at = self.draw(nodes.len());
        Some(nodes[at])
    }

    fn running_broker(&mut self) -> Option<Address> {
        let running: Vec<Address> = self
            .brokers
            .iter()
            .filter(|(id, broker)| broker.life.is_some() && !self.is_paused(**id))
            .map(|(id, _)| *id)
            .collect();
        self.one_of(&running)
    }

    fn running_controller(&mut self) -> Option<Address> {
        let running: Vec<Address> = self
            .controllers
            .keys()
            .copied()
            .filter(|id| !self.down.contains_key(id) && !self.is_paused(*id))
            .collect();
        self.one_of(&running)
    }

    /// Brokers that are back in sync with everything that they hold may be forgotten.
    fn forgive(&mut self) {
        let image = self.oracle.image();
        let running = self.oracle.running.clone();
        let idle = self.admin.is_idle();
        self.unclean.retain(|id, end| {
            let registered = image.cluster.broker(NodeId(*id));
            let current = registered.is_some_and(|broker| {
                broker.is_active() && running.get(id) == Some(&broker.broker_epoch.get())
            });
            let in_sync = image.topics.iter().all(|topic| {
                topic.partitions.values().all(|partition| {
                    !partition.replicas.contains(&NodeId(*id))
                        || partition.isr.contains(&NodeId(*id))
                })
            });
            *end == UncleanEnd::Armed || !current || !in_sync || !idle
        });
    }

    /// Whether this broker may end without a clean stop, and lose what it has not fsynced. Nobody can tell a killed process
    /// from a machine without power: as soon as one broker has lost something, all that ended uncleanly count.
    fn may_end(&mut self, id: Address, losing: bool) -> bool {
        self.forgive();
        let others = self.unclean.iter().filter(|(other, _)| **other != id);
        let loses = losing || others.clone().any(|(_, end)| *end != UncleanEnd::Killed);
        let most = usize::try_from(self.plan.min_isr - 1).unwrap_or(0);
        !loses || others.count() < most
    }

    pub fn fault(&mut self) {
        let interval_ms = self.plan.fault_interval_ms;
        let next_ms = self.draw_ms(interval_ms / 4, interval_ms * 2);
        if self.now + next_ms < self.plan.chaos_ms {
            self.fault_at(next_ms);
        }
        if self.plan.faults.is_empty() {
            return;
        }
        let kinds = self.plan.faults.clone();
        let kind = kinds[self.draw(kinds.len())];
        let number = i64::try_from(kinds.iter().position(|k| *k == kind).unwrap_or(0)).unwrap_or(0);
        self.trace.step(self.now, [number, 0, 0, 0], "fault");
        if let Some(name) = self.carry_out(kind) {
            self.stats.fault(name);
        }
        // links that were cut do not stay so for long
        if self.draw(3) == 0 {
            self.network.heal();
        }
    }

    fn carry_out(&mut self, kind: FaultKind) -> Option<&'static str> {
        match kind {
            FaultKind::KillBroker => {
                let id = self.running_broker()?;
                if !self.may_end(id, false) {
                    return None;
                }
                self.crash_broker(id, Loss::Nothing, false);
                Some("kill-broker")
            }
            FaultKind::PowerLossBroker => {
                let id = self.running_broker()?;
                if !self.may_end(id, true) {
                    return None;
                }
                let loss = match self.draw(2) {
                    0 => Loss::Unsynced,
                    _ => Loss::Random(self.random.next_u64()),
                };
                self.crash_broker(id, loss, false);
                Some("power-loss-broker")
            }
            FaultKind::CrashInDiskStep => {
                let id = self.running_broker()?;
                if !self.may_end(id, true) {
                    return None;
                }
                self.unclean.insert(id, UncleanEnd::Armed);
                let steps = u64::try_from(self.draw(40)).unwrap_or(0);
                let broker = self.brokers.get(&id)?;
                broker.disk.crash_at(broker.disk.steps() + steps);
                Some("crash-in-disk-step")
            }
            FaultKind::DiskError => {
                let id = self.running_broker()?;
                if !self.may_end(id, true) {
                    return None;
                }
                self.unclean.insert(id, UncleanEnd::Armed);
                let steps = u64::try_from(self.draw(40)).unwrap_or(0);
                let broker = self.brokers.get(&id)?;
                let step = broker.disk.steps() + steps;
                broker.disk.fail_at(step, ErrorKind::Other);
                Some("disk-error")
            }
            FaultKind::StopBroker => {
                let id = self.running_broker()?;
                self.brokers.get_mut(&id)?.life.as_mut()?.wants_shutdown = true;
                Some("stop-broker")
            }
            FaultKind::PauseBroker => {
                let id = self.running_broker()?;
                let for_ms = self.draw_ms(50, 2 * self.plan.session_timeout_ms);
                self.pause(id, for_ms);
                Some("pause-broker")
            }
            FaultKind::KillController => {
                let id = self.running_controller()?;
                let away_ms = self.draw_ms(10, 900);
                self.crash_controller(id, Loss::Unsynced, away_ms);
                Some("power-loss-controller")
            }
            FaultKind::PauseController => {
                let id = self.running_controller()?;
                let for_ms = self.draw_ms(50, 1_200);
                self.pause(id, for_ms);
                Some("pause-controller")
            }
            FaultKind::Isolate => {
                let nodes: Vec<Address> = self.nodes().collect();
                let node = self.one_of(&nodes)?;
                let (hears, speaks) = match self.draw(3) {
                    0 => (false, false),
                    1 => (true, false),
                    _ => (false, true),
                };
                for other in nodes {
                    if !hears {
                        self.network.cut(other, node);
                    }
                    if !speaks {
                        self.network.cut(node, other);
                    }
                }
                Some(match (hears, speaks) {
                    (false, false) => "isolate",
                    _ => "isolate-one-way",
                })
            }
            FaultKind::Bridge => {
                let nodes: Vec<Address> = self.nodes().collect();
                let bridge = self.one_of(&nodes)?;
                let sides: Vec<(Address, usize)> =
                    nodes.into_iter().map(|node| (node, self.draw(2))).collect();
                for (a, side_a) in &sides {
                    for (b, side_b) in &sides {
                        if side_a != side_b && *a != bridge && *b != bridge {
                            self.network.cut(*a, *b);
                        }
                    }
                }
                Some("bridge")
            }
            FaultKind::CutPair => {
                let nodes: Vec<Address> = self.nodes().collect();
                let (a, b) = (self.one_of(&nodes)?, self.one_of(&nodes)?);
                self.network.cut(a, b);
                if self.draw(2) == 0 {
                    self.network.cut(b, a);
                }
                Some("cut-pair")
            }
            FaultKind::CutFromControllers => {
                let id = self.running_broker()?;
                let controllers: Vec<Address> = self.controllers.keys().copied().collect();
                for controller in controllers {
                    self.network.cut(id, controller);
                    self.network.cut(controller, id);
                }
                Some("cut-from-controllers")
            }
            FaultKind::Reassign | FaultKind::CancelReassignment => {
                let partitions = usize::try_from(self.plan.partitions).unwrap_or(1);
                let partition = i32::try_from(self.draw(partitions)).unwrap_or(0);
                if kind == FaultKind::CancelReassignment {
                    self.admin.reassign(self.now, partition, None);
                    return Some("cancel-reassignment");
                }
                let mut brokers: Vec<i32> = self.brokers.keys().copied().collect();
                self.random.shuffle(&mut brokers);
                brokers.truncate(usize::try_from(self.plan.replication_factor).unwrap_or(1));
                self.admin.reassign(self.now, partition, Some(brokers));
                Some("reassign")
            }
            FaultKind::ElectPreferred => {
                self.admin.elect_preferred(self.now);
                Some("elect-preferred")
            }
            FaultKind::Unregister => {
                let brokers: Vec<Address> = self.brokers.keys().copied().collect();
                let id = self.one_of(&brokers)?;
                if !self.down.contains_key(&id) {
                    if self.draw(3) > 0 && self.may_end(id, true) {
                        self.crash_broker(id, Loss::Unsynced, false);
                    } else if self.may_end(id, false) {
                        self.crash_broker(id, Loss::Nothing, false);
                    } else {
                        return None;
                    }
                }
                self.admin.unregister(self.now, id);
                Some("unregister")
            }
            // carried out when a vote is given
            FaultKind::CrashAfterVote => None,
        }
    }

    /// A controller has just given its vote.
    pub fn voted(&mut self, id: Address) {
        let known = self.plan.faults.contains(&FaultKind::CrashAfterVote);
        if known && self.now < self.plan.chaos_ms && self.draw(3) == 0 {
            let away_ms = self.draw_ms(0, 15);
            self.crash_controller(id, Loss::Unsynced, away_ms);
            self.stats.fault("crash-after-vote");
        }
    }

    /// The partitions of the topic as registered.
    pub fn registered(
        &self,
    ) -> Vec<(
        crate::oracle::PartitionKey,
        kavka_metadata::PartitionRegistration,
    )> {
        let image = self.oracle.image();
        let Some(topic) = image.topics.by_name(TOPIC) else {
            return Vec::new();
        };
        topic
            .partitions
            .iter()
            .map(|(partition, registration)| ((topic.id, *partition), registration.clone()))
            .collect()
    }
}
