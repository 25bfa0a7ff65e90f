//! AlterClientQuotas: limits for users, clients and addresses.
//! Not here: throttling (broker), describing them (broker/src/api).
//! Pure. Kafka: ClientQuotaControlManager, QuotaConfig; KIP-546, KIP-599, KIP-612.

use crate::api_error::ApiError;
use crate::controller::Scope;
use kavka_metadata::{MetadataRecord, QuotaEntity};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::alter_client_quotas_request::EntryData;
use kavka_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, ClientQuotaRecord,
};
use kavka_protocol::messages::{alter_client_quotas_response as response, client_quota_record};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

const USER: &str = "user";
const CLIENT_ID: &str = "client-id";
const IP: &str = "ip";

/// What a quota's number must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    Long,
    Int,
    Double,
}

const OF_USERS_AND_CLIENTS: [(&str, Number); 4] = [
    ("consumer_byte_rate", Number::Long),
    ("controller_mutation_rate", Number::Double),
    ("producer_byte_rate", Number::Long),
    ("request_percentage", Number::Double),
];
const OF_ADDRESSES: [(&str, Number); 1] = [("connection_creation_rate", Number::Int)];

pub fn handle(
    scope: &Scope<'_>,
    request: &AlterClientQuotasRequest,
) -> (Vec<MetadataRecord>, AlterClientQuotasResponse) {
    let mut records = Vec::new();
    let mut answer = AlterClientQuotasResponse::default();
    let mut seen = BTreeSet::new();
    for entry in &request.entries {
        let (error, message) = match alter(scope, entry, &mut seen) {
            Ok(new_records) => {
                records.extend(new_records);
                (ErrorCode::None, None)
            }
            Err(refused) => (refused.error, refused.message),
        };
        answer.entries.push(response::EntryData {
            error_code: error.code(),
            error_message: message.map(Into::into),
            entity: entry
                .entity
                .iter()
                .map(|part| response::EntityData {
                    entity_type: part.entity_type.clone(),
                    entity_name: part.entity_name.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
    }
    if request.validate_only {
        records.clear();
    }
    (records, answer)
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

fn alter(
    scope: &Scope<'_>,
    entry: &EntryData,
    seen: &mut BTreeSet<QuotaEntity>,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let entity = entity(entry)?;
    if !seen.insert(entity.clone()) {
        return Err(invalid(format!(
            "Ignoring duplicate entity {}",
            shown(&entity)
        )));
    }
    let keys = keys(&entity)?;
    let current = scope.image.quotas.entities.get(&entity);
    let mut wishes: BTreeMap<&str, Option<f64>> = BTreeMap::new();
    for op in &entry.ops {
        if wishes
            .insert(&op.key, (!op.remove).then_some(op.value))
            .is_some()
        {
            return Err(invalid(format!(
                "Duplicate quota key {} not updating quota for this entity {}",
                op.key,
                shown(&entity)
            )));
        }
    }
    let mut records = Vec::new();
    for (key, value) in wishes {
        let old = current.and_then(|quotas| quotas.get(key)).copied();
        match value {
            None if old.is_some() => records.push(record(&entity, key, None)),
            None => {}
            Some(value) => {
                validate(keys, key, value)?;
                if old != Some(value) {
                    records.push(record(&entity, key, Some(value)));
                }
            }
        }
    }
    Ok(records)
}

fn entity(entry: &EntryData) -> Result<QuotaEntity, ApiError> {
    if entry.entity.is_empty() {
        return Err(invalid("Invalid empty client quota entity"));
    }
    let mut entity = QuotaEntity::new();
    for part in &entry.entity {
        let entity_type = &*part.entity_type;
        if !matches!(entity_type, USER | CLIENT_ID | IP) {
            return Err(invalid(format!(
                "Unhandled client quota entity type: {entity_type}"
            )));
        }
        if part
            .entity_name
            .as_ref()
            .is_some_and(|name| name.is_empty())
        {
            return Err(invalid(format!("Empty {entity_type} not supported")));
        }
        let name = part.entity_name.as_deref().map(Arc::from);
        if entity.insert(Arc::from(entity_type), name).is_some() {
            return Err(invalid(format!(
                "Invalid client quota entity, duplicate entity entry {entity_type}"
            )));
        }
    }
    Ok(entity)
}

fn keys(entity: &QuotaEntity) -> Result<&'static [(&'static str, Number)], ApiError> {
    let Some(address) = entity.get(IP) else {
        return Ok(&OF_USERS_AND_CLIENTS);
    };
    if entity.len() > 1 {
        return Err(invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ));
    }
    match address {
        // Names are not resolved here: an answer must not depend on when and where it is decided.
        Some(address) if address.parse::<IpAddr>().is_err() => Err(invalid(format!(
            "{address} is not a valid IP or resolvable host."
        ))),
        Some(_) | None => Ok(&OF_ADDRESSES),
    }
}

fn validate(keys: &[(&str, Number)], key: &str, value: f64) -> Result<(), ApiError> {
    let Some((_, number)) = keys.iter().find(|(known, _)| *known == key) else {
        return Err(invalid(format!("Invalid configuration key {key}")));
    };
    // Not a number is not above 0 either.
    if value.is_nan() || value <= 0.0 {
        return Err(invalid(format!("Quota {key} must be greater than 0")));
    }
    let (max, kind) = match number {
        Number::Double => return Ok(()),
        Number::Int => (f64::from(i32::MAX), "an INT"),
        Number::Long => (9_223_372_036_854_775_807.0, "a LONG"),
    };
    if value > max {
        return Err(invalid(format!(
            "Proposed value for {key} is too large for {kind}."
        )));
    }
    if (value % 1.0).abs() > 1e-6 {
        return Err(invalid(format!("{key} cannot be a fractional value.")));
    }
    Ok(())
}

/// As Java prints a ClientQuotaEntity.
fn shown(entity: &QuotaEntity) -> String {
    let parts: Vec<String> = entity
        .iter()
        .map(|(kind, name)| format!("{kind}={}", name.as_deref().unwrap_or("null")))
        .collect();
    format!("ClientQuotaEntity(entries={{{}}})", parts.join(", "))
}

fn record(entity: &QuotaEntity, key: &str, value: Option<f64>) -> MetadataRecord {
    MetadataRecord::ClientQuota(ClientQuotaRecord {
        entity: entity
            .iter()
            .map(|(kind, name)| client_quota_record::EntityData {
                entity_type: kind.into(),
                entity_name: name.as_ref().map(Into::into),
                ..Default::default()
            })
            .collect(),
        key: key.into(),
        value: value.unwrap_or(0.0),
        remove: value.is_none(),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Controller, ControllerConfig, Moment};
    use kavka_common::{LeaderEpoch, NodeId};
    use kavka_config::{BrokerConfig, Properties};
    use kavka_metadata::MetadataImage;
    use kavka_protocol::messages::alter_client_quotas_request::{EntityData, OpData};

    struct Quotas {
        controller: Controller,
        image: MetadataImage,
    }

    impl Quotas {
        fn new() -> Self {
            let text = "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\nlisteners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n";
            let file =
                BrokerConfig::from_properties(&Properties::parse_str(text).unwrap()).unwrap();
            let config = ControllerConfig::new("c", vec![NodeId(1)], Arc::new(file));
            Quotas {
                controller: Controller::new(config),
                image: MetadataImage::empty(),
            }
        }

        fn alter(
            &mut self,
            entity: &[(&str, Option<&str>)],
            ops: &[(&str, Option<f64>)],
        ) -> String {
            let request = AlterClientQuotasRequest {
                entries: vec![EntryData {
                    entity: entity
                        .iter()
                        .map(|(kind, name)| EntityData {
                            entity_type: (*kind).into(),
                            entity_name: name.map(Into::into),
                            ..Default::default()
                        })
                        .collect(),
                    ops: ops
                        .iter()
                        .map(|(key, value)| OpData {
                            key: (*key).into(),
                            value: value.unwrap_or(0.0),
                            remove: value.is_none(),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            let moment = Moment {
                now_ms: 0,
                next_offset: self.image.last_offset + 1,
                seed: [0; 32],
            };
            let scope = Scope::new(&self.controller.config, &self.image, &moment);
            let (records, answer) = handle(&scope, &request);
            let last = self.image.last_offset + i64::try_from(records.len()).unwrap();
            self.image = self.image.apply(last, LeaderEpoch(1), &records).unwrap().0;
            answer.entries[0]
                .error_message
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default()
        }
    }

    #[test]
    fn quotas_are_set_changed_and_removed() {
        let mut quotas = Quotas::new();
        let alice = [("user", Some("alice")), ("client-id", None)];
        assert_eq!(
            quotas.alter(&alice, &[("producer_byte_rate", Some(1024.0))]),
            ""
        );
        let offset = quotas.image.last_offset;
        assert_eq!(
            quotas.alter(&alice, &[("producer_byte_rate", Some(1024.0))]),
            ""
        );
        assert_eq!(quotas.image.last_offset, offset, "no record for no change");
        assert_eq!(quotas.image.quotas.entities.size(), 1);
        assert_eq!(
            quotas.alter(
                &alice,
                &[("producer_byte_rate", None), ("request_percentage", None)]
            ),
            ""
        );
        assert!(quotas.image.quotas.entities.is_empty());
    }

    #[test]
    fn refusals_are_kafkas() {
        let rate = |value: f64| vec![("producer_byte_rate", Some(value))];
        for (entity, ops, message) in [
            (vec![], rate(1.0), "Invalid empty client quota entity"),
            (
                vec![("planet", Some("x"))],
                rate(1.0),
                "Unhandled client quota entity type: planet",
            ),
            (
                vec![("user", Some(""))],
                rate(1.0),
                "Empty user not supported",
            ),
            (
                vec![("user", Some("a")), ("user", Some("b"))],
                rate(1.0),
                "Invalid client quota entity, duplicate entity entry user",
            ),
            (
                vec![("ip", Some("127.0.0.1")), ("user", Some("a"))],
                rate(1.0),
                "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
            ),
            (
                vec![("ip", Some("nowhere"))],
                rate(1.0),
                "nowhere is not a valid IP or resolvable host.",
            ),
            (
                vec![("user", None)],
                rate(-5.0),
                "Quota producer_byte_rate must be greater than 0",
            ),
            (
                vec![("user", None)],
                rate(f64::NAN),
                "Quota producer_byte_rate must be greater than 0",
            ),
            (
                vec![("user", None)],
                rate(1.5),
                "producer_byte_rate cannot be a fractional value.",
            ),
            (
                vec![("user", None)],
                rate(1e300),
                "Proposed value for producer_byte_rate is too large for a LONG.",
            ),
            (
                vec![("user", None)],
                vec![("nonsense", Some(1.0))],
                "Invalid configuration key nonsense",
            ),
            (
                vec![("ip", None)],
                vec![("connection_creation_rate", Some(1e10))],
                "Proposed value for connection_creation_rate is too large for an INT.",
            ),
        ] {
            assert_eq!(Quotas::new().alter(&entity, &ops), message);
        }
    }
}
