//! BrokerHeartbeat: sessions, unfencing, fencing, controlled shutdown.
//! Not here: the timer (the shell calls `on_tick`).
//! Pure. Kafka: BrokerHeartbeatManager.calculateNextBrokerState, ReplicationControlManager.processBrokerHeartbeat; KIP-631, KIP-841, KIP-1066.

use crate::controller::Scope;
use crate::replication::{broker_changes, directories};
use crate::soft::{BrokerSession, Soft};
use kavka_common::{BrokerEpoch, NodeId};
use kavka_metadata::{BrokerRegistration, MetadataRecord};
use kavka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationChangeRecord,
};

/// `fenced` of a BrokerRegistrationChangeRecord.
const FENCE: i8 = 1;
const UNFENCE: i8 = -1;
/// `in_controlled_shutdown` of a BrokerRegistrationChangeRecord.
const IN_CONTROLLED_SHUTDOWN: i8 = 1;

/// Where a broker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fenced,
    Unfenced,
    ControlledShutdown,
    /// It has been told that it may go.
    ShutdownNow,
}

pub fn handle(
    scope: &Scope<'_>,
    soft: &mut Soft,
    request: &BrokerHeartbeatRequest,
) -> (Vec<MetadataRecord>, BrokerHeartbeatResponse) {
    let broker_id = NodeId(request.broker_id);
    let broker = match scope.check_broker_epoch(broker_id, BrokerEpoch(request.broker_epoch)) {
        Ok(broker) => broker,
        Err(refused) => {
            let refusal = BrokerHeartbeatResponse {
                error_code: refused.error.code(),
                ..Default::default()
            };
            return (Vec::new(), refusal);
        }
    };
    let session = soft
        .sessions
        .entry(broker_id)
        .or_insert_with(|| BrokerSession {
            broker_epoch: broker.broker_epoch,
            last_contact_ms: scope.now_ms,
            metadata_offset: -1,
            registration_offset: broker.broker_epoch.get(),
            controlled_shutdown_offset: None,
        });
    session.broker_epoch = broker.broker_epoch;
    session.last_contact_ms = scope.now_ms;
    session.metadata_offset = request.current_metadata_offset;
    let is_caught_up = request.current_metadata_offset >= session.registration_offset;
    let shutdown_offset = session.controlled_shutdown_offset;
    let current = match (broker.fenced, broker.in_controlled_shutdown) {
        (true, _) => State::Fenced,
        (false, true) => State::ControlledShutdown,
        (false, false) => State::Unfenced,
    };
    let next = match current {
        State::Fenced if request.want_shut_down => State::ShutdownNow,
        // One that began to shut down does not come back under the same registration.
        State::Fenced if !request.want_fence && is_caught_up && !broker.in_controlled_shutdown => {
            State::Unfenced
        }
        State::Fenced => State::Fenced,
        State::Unfenced => match (request.want_fence, request.want_shut_down) {
            (true, true) => State::ShutdownNow,
            (true, false) => State::Fenced,
            (false, true) if broker_changes::has_leaderships(scope, broker_id) => {
                State::ControlledShutdown
            }
            (false, true) => State::ShutdownNow,
            (false, false) => State::Unfenced,
        },
        State::ControlledShutdown | State::ShutdownNow => {
            // It may go when nobody sees it as a leader any more.
            let everybody_knows = shutdown_offset
                .is_none_or(|offset| offset <= soft.lowest_active_offset(scope.image));
            if everybody_knows && !broker_changes::has_leaderships(scope, broker_id) {
                State::ShutdownNow
            } else {
                State::ControlledShutdown
            }
        }
    };
    let mut records = Vec::new();
    if current != next {
        match next {
            State::Fenced | State::ShutdownNow => {
                if !broker.fenced {
                    records.extend(fence(scope, soft, broker));
                }
            }
            State::Unfenced => {
                records.push(change(broker, UNFENCE, 0));
                broker_changes::unfenced(scope, broker_id, &mut records);
            }
            State::ControlledShutdown => {
                records.push(change(broker, 0, IN_CONTROLLED_SHUTDOWN));
                broker_changes::remove_from_isrs(scope, broker_id, &mut records);
                let last = scope.next_offset + i64::try_from(records.len()).unwrap_or(i64::MAX) - 1;
                if let Some(session) = soft.sessions.get_mut(&broker_id) {
                    session.controlled_shutdown_offset = Some(last);
                }
            }
        }
    }
    // A broker that is fenced or leaves in this very call is in no in-sync set any more.
    if matches!(next, State::Unfenced | State::Fenced)
        && current == next
        && scope
            .image
            .features
            .metadata_version_or_minimum()
            .is_directory_assignment_supported()
    {
        directories::offline(scope, broker, &request.offline_log_dirs, &mut records);
        cordon(scope, broker, request, &mut records);
    }
    (
        records,
        BrokerHeartbeatResponse {
            is_caught_up,
            is_fenced: matches!(next, State::Fenced | State::ShutdownNow),
            should_shut_down: next == State::ShutdownNow,
            ..Default::default()
        },
    )
}

/// Directories that shall get no more replicas, as the broker's settings say (KIP-1066).
fn cordon(
    scope: &Scope<'_>,
    broker: &BrokerRegistration,
    request: &BrokerHeartbeatRequest,
    records: &mut Vec<MetadataRecord>,
) {
    let Some(cordoned) = &request.cordoned_log_dirs else {
        return;
    };
    let is_supported = scope
        .image
        .features
        .metadata_version_or_minimum()
        .is_cordoned_directories_supported();
    if is_supported && broker.cordoned_directories.as_ref() != Some(cordoned) {
        records.push(MetadataRecord::BrokerRegistrationChange(
            BrokerRegistrationChangeRecord {
                broker_id: broker.broker_id.get(),
                broker_epoch: broker.broker_epoch.get(),
                cordoned_log_dirs: Some(cordoned.clone()),
                ..Default::default()
            },
        ));
    }
}

/// Takes the broker out of everything that it led or was in sync for, and says so.
pub fn fence(
    scope: &Scope<'_>,
    soft: &mut Soft,
    broker: &BrokerRegistration,
) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    broker_changes::remove_from_isrs(scope, broker.broker_id, &mut records);
    records.push(change(broker, FENCE, 0));
    if let Some(session) = soft.sessions.get_mut(&broker.broker_id) {
        session.controlled_shutdown_offset = None;
    }
    records
}

/// An unfenced broker that has not been heard of for too long.
pub fn find_stale<'a>(scope: &Scope<'a>, soft: &Soft) -> Option<&'a BrokerRegistration> {
    scope
        .image
        .cluster
        .unfenced_brokers()
        .find(|broker| {
            !soft.has_valid_session(
                broker.broker_id,
                broker.broker_epoch,
                scope.now_ms,
                scope.config.session_timeout_ms,
            )
        })
        .map(|broker| &**broker)
}

fn change(broker: &BrokerRegistration, fenced: i8, in_controlled_shutdown: i8) -> MetadataRecord {
    MetadataRecord::BrokerRegistrationChange(BrokerRegistrationChangeRecord {
        broker_id: broker.broker_id.get(),
        broker_epoch: broker.broker_epoch.get(),
        fenced,
        in_controlled_shutdown,
        ..Default::default()
    })
}
