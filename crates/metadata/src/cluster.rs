//! Registered brokers and controllers: endpoints, epochs, fencing, features, log directories.
//! Not here: sessions and heartbeats (soft state of crates/controller).
//! Pure data. Kafka: ClusterImage, BrokerRegistration, ControllerRegistration; KIP-631, KIP-841, KIP-858, KIP-919.

use crate::Map;
use crate::features::MetadataVersion;
use crate::image::ReplayError;
use kavka_common::{BrokerEpoch, NodeId, Uuid};
use kavka_protocol::messages::{
    BrokerRegistrationChangeRecord, RegisterBrokerRecord, RegisterControllerRecord,
    register_broker_record, register_controller_record,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pub name: Arc<str>,
    pub host: Arc<str>,
    pub port: u16,
    /// SecurityProtocol's number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// Levels of a feature that a node supports, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionRange {
    pub min: i16,
    pub max: i16,
}

impl VersionRange {
    pub fn contains(self, level: i16) -> bool {
        (self.min..=self.max).contains(&level)
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{}-{}", self.min, self.max)
        }
    }
}

/// A broker as it registered, and what the controller has decided about it since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRegistration {
    pub broker_id: NodeId,
    pub broker_epoch: BrokerEpoch,
    pub incarnation_id: Uuid,
    pub endpoints: Vec<Endpoint>,
    pub features: BTreeMap<Arc<str>, VersionRange>,
    pub rack: Option<Arc<str>>,
    pub fenced: bool,
    pub in_controlled_shutdown: bool,
    pub is_migrating_zk_broker: bool,
    /// Ids of the online log directories.
    pub directories: Vec<Uuid>,
    /// Directories that get no new replicas; `None` when the broker has never told.
    pub cordoned_directories: Option<Vec<Uuid>>,
}

impl BrokerRegistration {
    pub fn from_record(record: &RegisterBrokerRecord) -> Self {
        BrokerRegistration {
            broker_id: NodeId(record.broker_id),
            broker_epoch: BrokerEpoch(record.broker_epoch),
            incarnation_id: record.incarnation_id,
            endpoints: record
                .end_points
                .iter()
                .map(|endpoint| Endpoint {
                    name: Arc::from(&*endpoint.name),
                    host: Arc::from(&*endpoint.host),
                    port: endpoint.port,
                    security_protocol: endpoint.security_protocol,
                })
                .collect(),
            features: record
                .features
                .iter()
                .map(|feature| {
                    let range = VersionRange {
                        min: feature.min_supported_version,
                        max: feature.max_supported_version,
                    };
                    (Arc::from(&*feature.name), range)
                })
                .collect(),
            rack: record.rack.as_deref().map(Arc::from),
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
            is_migrating_zk_broker: record.is_migrating_zk_broker,
            directories: record.log_dirs.clone(),
            cordoned_directories: record.cordoned_log_dirs.clone(),
        }
    }

    /// As the log may hold it at `metadata_version`.
    pub fn to_record(&self, metadata_version: MetadataVersion) -> RegisterBrokerRecord {
        let log_dirs = if metadata_version.is_directory_assignment_supported() {
            self.directories.clone()
        } else {
            Vec::new()
        };
        let cordoned_log_dirs = self
            .cordoned_directories
            .clone()
            .filter(|_| metadata_version.is_cordoned_directories_supported());
        RegisterBrokerRecord {
            broker_id: self.broker_id.0,
            is_migrating_zk_broker: self.is_migrating_zk_broker
                && metadata_version.register_broker_record_version() >= 2,
            incarnation_id: self.incarnation_id,
            broker_epoch: self.broker_epoch.0,
            end_points: self
                .endpoints
                .iter()
                .map(|endpoint| register_broker_record::BrokerEndpoint {
                    name: (&*endpoint.name).into(),
                    host: (&*endpoint.host).into(),
                    port: endpoint.port,
                    security_protocol: endpoint.security_protocol,
                    ..Default::default()
                })
                .collect(),
            features: self
                .features
                .iter()
                .map(|(name, range)| register_broker_record::BrokerFeature {
                    name: (&**name).into(),
                    min_supported_version: range.min,
                    max_supported_version: range.max,
                    ..Default::default()
                })
                .collect(),
            rack: self.rack.as_deref().map(Into::into),
            fenced: self.fenced,
            in_controlled_shutdown: self.in_controlled_shutdown,
            log_dirs,
            cordoned_log_dirs,
            ..Default::default()
        }
    }

    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| &*endpoint.name == listener)
    }

    /// Whether the broker may lead partitions and join in-sync sets (KIP-841).
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    pub fn has_online_directory(&self, directory: &Uuid) -> bool {
        // The reserved ids stand for "somewhere on this broker"; only LOST says that the log is gone.
        *directory != Uuid::DIR_LOST
            && (*directory == Uuid::DIR_UNASSIGNED
                || *directory == Uuid::DIR_MIGRATING
                || self.directories.contains(directory))
    }
}

/// A controller as it registered (KIP-919).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerRegistration {
    pub controller_id: NodeId,
    pub incarnation_id: Uuid,
    pub zk_migration_ready: bool,
    pub endpoints: Vec<Endpoint>,
    pub features: BTreeMap<Arc<str>, VersionRange>,
}

impl ControllerRegistration {
    pub fn from_record(record: &RegisterControllerRecord) -> Self {
        ControllerRegistration {
            controller_id: NodeId(record.controller_id),
            incarnation_id: record.incarnation_id,
            zk_migration_ready: record.zk_migration_ready,
            endpoints: record
                .end_points
                .iter()
                .map(|endpoint| Endpoint {
                    name: Arc::from(&*endpoint.name),
                    host: Arc::from(&*endpoint.host),
                    port: endpoint.port,
                    security_protocol: endpoint.security_protocol,
                })
                .collect(),
            features: record
                .features
                .iter()
                .map(|feature| {
                    let range = VersionRange {
                        min: feature.min_supported_version,
                        max: feature.max_supported_version,
                    };
                    (Arc::from(&*feature.name), range)
                })
                .collect(),
        }
    }

    pub fn to_record(&self) -> RegisterControllerRecord {
        RegisterControllerRecord {
            controller_id: self.controller_id.0,
            incarnation_id: self.incarnation_id,
            zk_migration_ready: self.zk_migration_ready,
            end_points: self
                .endpoints
                .iter()
                .map(|endpoint| register_controller_record::ControllerEndpoint {
                    name: (&*endpoint.name).into(),
                    host: (&*endpoint.host).into(),
                    port: endpoint.port,
                    security_protocol: endpoint.security_protocol,
                    ..Default::default()
                })
                .collect(),
            features: self
                .features
                .iter()
                .map(
                    |(name, range)| register_controller_record::ControllerFeature {
                        name: (&**name).into(),
                        min_supported_version: range.min,
                        max_supported_version: range.max,
                        ..Default::default()
                    },
                )
                .collect(),
            ..Default::default()
        }
    }
}

/// All registered nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterImage {
    pub brokers: Map<NodeId, Arc<BrokerRegistration>>,
    pub controllers: Map<NodeId, Arc<ControllerRegistration>>,
}

impl ClusterImage {
    pub fn broker(&self, broker_id: NodeId) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&broker_id)
    }

    /// Registered and not fenced: what clients get to see.
    pub fn unfenced_brokers(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values().filter(|broker| !broker.fenced)
    }

    /// Whether the broker may lead partitions and join in-sync sets.
    pub fn is_active(&self, broker_id: NodeId) -> bool {
        self.brokers
            .get(&broker_id)
            .is_some_and(|broker| broker.is_active())
    }

    pub(crate) fn replay_register_broker(&mut self, record: &RegisterBrokerRecord) {
        let registration = BrokerRegistration::from_record(record);
        self.brokers
            .insert_mut(registration.broker_id, Arc::new(registration));
    }

    pub(crate) fn replay_unregister_broker(
        &mut self,
        broker_id: i32,
        broker_epoch: i64,
    ) -> Result<(), ReplayError> {
        self.registered(broker_id, broker_epoch)?;
        self.brokers.remove_mut(&NodeId(broker_id));
        Ok(())
    }

    pub(crate) fn replay_fenced(
        &mut self,
        broker_id: i32,
        broker_epoch: i64,
        fenced: bool,
    ) -> Result<(), ReplayError> {
        let mut registration = BrokerRegistration::clone(self.registered(broker_id, broker_epoch)?);
        registration.fenced = fenced;
        self.brokers
            .insert_mut(NodeId(broker_id), Arc::new(registration));
        Ok(())
    }

    pub(crate) fn replay_change(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), ReplayError> {
        let mut registration =
            BrokerRegistration::clone(self.registered(record.broker_id, record.broker_epoch)?);
        match record.fenced {
            0 => {}
            1 => registration.fenced = true,
            -1 => registration.fenced = false,
            other => return Err(ReplayError::UnknownValue("fencing change", other.into())),
        }
        match record.in_controlled_shutdown {
            0 => {}
            1 => registration.in_controlled_shutdown = true,
            other => {
                return Err(ReplayError::UnknownValue(
                    "controlled shutdown change",
                    other.into(),
                ));
            }
        }
        if !record.log_dirs.is_empty() {
            registration.directories = record.log_dirs.clone();
        }
        if let Some(cordoned) = &record.cordoned_log_dirs {
            registration.cordoned_directories = Some(cordoned.clone());
        }
        self.brokers
            .insert_mut(NodeId(record.broker_id), Arc::new(registration));
        Ok(())
    }

    pub(crate) fn replay_register_controller(&mut self, record: &RegisterControllerRecord) {
        let registration = ControllerRegistration::from_record(record);
        self.controllers
            .insert_mut(registration.controller_id, Arc::new(registration));
    }

    fn registered(
        &self,
        broker_id: i32,
        broker_epoch: i64,
    ) -> Result<&Arc<BrokerRegistration>, ReplayError> {
        let registration = self
            .brokers
            .get(&NodeId(broker_id))
            .ok_or(ReplayError::UnknownBroker(broker_id))?;
        if registration.broker_epoch.0 == broker_epoch {
            Ok(registration)
        } else {
            Err(ReplayError::StaleBrokerEpoch(
                broker_id,
                broker_epoch,
                registration.broker_epoch.0,
            ))
        }
    }
}
