//! Client quotas by entity (user, client-id, ip and their defaults).
//! Not here: throttling (broker), validation of changes (crates/controller).
//! Pure data. Kafka: ClientQuotasImage, ClientQuotaEntity; KIP-546.

use crate::Map;
use kavka_protocol::messages::{ClientQuotaRecord, client_quota_record};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Type ("user", "client-id", "ip") to name; a name of `None` is the default entity of that type.
pub type QuotaEntity = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// All quotas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotasImage {
    pub entities: Map<QuotaEntity, Map<Arc<str>, f64>>,
}

impl QuotasImage {
    pub(crate) fn replay(&mut self, record: &ClientQuotaRecord) {
        let entity: QuotaEntity = record
            .entity
            .iter()
            .map(|part| {
                (
                    Arc::from(&*part.entity_type),
                    part.entity_name.as_deref().map(Arc::from),
                )
            })
            .collect();
        let mut quotas = self.entities.get(&entity).cloned().unwrap_or_default();
        if record.remove {
            quotas.remove_mut(&*record.key);
        } else {
            quotas.insert_mut(Arc::from(&*record.key), record.value);
        }
        if quotas.is_empty() {
            self.entities.remove_mut(&entity);
        } else {
            self.entities.insert_mut(entity, quotas);
        }
    }

    pub(crate) fn to_records(&self) -> Vec<ClientQuotaRecord> {
        let mut records = Vec::new();
        for (entity, quotas) in &self.entities {
            let parts: Vec<_> = entity
                .iter()
                .map(|(entity_type, name)| client_quota_record::EntityData {
                    entity_type: (&**entity_type).into(),
                    entity_name: name.as_deref().map(Into::into),
                    ..Default::default()
                })
                .collect();
            records.extend(quotas.iter().map(|(key, value)| ClientQuotaRecord {
                entity: parts.clone(),
                key: (&**key).into(),
                value: *value,
                remove: false,
                ..Default::default()
            }));
        }
        records
    }
}
