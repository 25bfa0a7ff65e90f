//! DescribeClientQuotas: the limits that match a filter.
//! Not here: changing them (crates/controller), keeping them (throttling).
//! Answers at once from the image.
//! Kafka: ClientQuotasImage.describe; KIP-546, KIP-612.

use crate::api::RequestContext;
use crate::metadata::MetadataCache;
use kavka_metadata::{MetadataImage, QuotaEntity};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use kavka_protocol::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};
use std::collections::BTreeMap;

/// How a part of the filter matches the entity of its type.
enum Match<'a> {
    /// This name; `None` is the default entity.
    Exact(Option<&'a str>),
    /// Any.
    Specified,
}

pub fn handle(
    cache: &MetadataCache,
    _context: &RequestContext,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    answer(&cache.image(), &request)
}

/// The answer from an image.
pub fn answer(
    image: &MetadataImage,
    request: &DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let filter = match filter(request) {
        Ok(filter) => filter,
        Err((error, message)) => {
            return DescribeClientQuotasResponse {
                error_code: error.code(),
                error_message: Some(message.into()),
                entries: None,
                ..Default::default()
            };
        }
    };
    let entries = image
        .quotas
        .entities
        .iter()
        .filter(|(entity, _)| matches(entity, &filter, request.strict))
        .map(|(entity, quotas)| EntryData {
            entity: entity
                .iter()
                .map(|(kind, name)| EntityData {
                    entity_type: kind.into(),
                    entity_name: name.as_ref().map(Into::into),
                    ..Default::default()
                })
                .collect(),
            values: quotas
                .iter()
                .map(|(key, value)| ValueData {
                    key: key.into(),
                    value: *value,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    DescribeClientQuotasResponse {
        entries: Some(entries),
        ..Default::default()
    }
}

type Filter<'a> = BTreeMap<&'a str, Match<'a>>;

fn filter(request: &DescribeClientQuotasRequest) -> Result<Filter<'_>, (ErrorCode, String)> {
    let invalid = |message: &str| Err((ErrorCode::InvalidRequest, message.to_owned()));
    let mut filter = Filter::new();
    for component in &request.components {
        let kind = &*component.entity_type;
        if kind.is_empty() {
            return invalid("Invalid empty entity type.");
        }
        if filter.contains_key(kind) {
            return invalid(&format!(
                "Entity type {kind} cannot appear more than once in the filter."
            ));
        }
        if !matches!(kind, "user" | "client-id" | "ip") {
            return Err((
                ErrorCode::UnsupportedVersion,
                format!("Unsupported entity type {kind}"),
            ));
        }
        let matched = match (component.match_type, component.r#match.as_deref()) {
            (0, Some(name)) => Match::Exact(Some(name)),
            (0, None) => {
                return invalid(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.",
                );
            }
            (1, None) => Match::Exact(None),
            (1, Some(_)) => {
                return invalid(
                    "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
                );
            }
            (2, None) => Match::Specified,
            (2, Some(_)) => {
                return invalid(
                    "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
                );
            }
            (unknown, _) => return invalid(&format!("Unknown match type {unknown}")),
        };
        filter.insert(kind, matched);
    }
    if filter.contains_key("ip") && filter.len() > 1 {
        return invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.",
        );
    }
    Ok(filter)
}

fn matches(entity: &QuotaEntity, filter: &Filter<'_>, strict: bool) -> bool {
    if strict && entity.len() != filter.len() {
        return false;
    }
    filter
        .iter()
        .all(|(kind, wanted)| match (entity.get(*kind), wanted) {
            (None, _) => false,
            (Some(_), Match::Specified) => true,
            (Some(name), Match::Exact(wanted)) => name.as_deref() == *wanted,
        })
}
