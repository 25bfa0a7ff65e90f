//! Access control entries by id.
//! Not here: matching them against requests (crates/security), validation of new ones (crates/controller).
//! Pure data. Kafka: AclsImage, StandardAcl; KIP-801.

use crate::Map;
use crate::image::ReplayError;
use kavka_common::Uuid;
use kavka_protocol::messages::AccessControlEntryRecord;
use std::sync::Arc;

/// One entry. The numbers are those of the wire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    pub resource_type: i8,
    pub resource_name: Arc<str>,
    pub pattern_type: i8,
    pub principal: Arc<str>,
    pub host: Arc<str>,
    pub operation: i8,
    pub permission_type: i8,
}

/// All entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AclsImage {
    pub by_id: Map<Uuid, Arc<Acl>>,
}

impl AclsImage {
    pub(crate) fn replay(&mut self, record: &AccessControlEntryRecord) {
        let acl = Acl {
            resource_type: record.resource_type,
            resource_name: Arc::from(&*record.resource_name),
            pattern_type: record.pattern_type,
            principal: Arc::from(&*record.principal),
            host: Arc::from(&*record.host),
            operation: record.operation,
            permission_type: record.permission_type,
        };
        self.by_id.insert_mut(record.id, Arc::new(acl));
    }

    pub(crate) fn replay_remove(&mut self, id: Uuid) -> Result<(), ReplayError> {
        if self.by_id.remove_mut(&id) {
            Ok(())
        } else {
            Err(ReplayError::UnknownAcl(id))
        }
    }

    pub(crate) fn to_records(&self) -> Vec<AccessControlEntryRecord> {
        self.by_id
            .iter()
            .map(|(id, acl)| AccessControlEntryRecord {
                id: *id,
                resource_type: acl.resource_type,
                resource_name: (&*acl.resource_name).into(),
                pattern_type: acl.pattern_type,
                principal: (&*acl.principal).into(),
                host: (&*acl.host).into(),
                operation: acl.operation,
                permission_type: acl.permission_type,
                ..Default::default()
            })
            .collect()
    }
}
