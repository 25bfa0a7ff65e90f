//! DeleteTopics, by name or by id.
//! Not here: removing the data (brokers do, when they replay the record).
//! Pure. Kafka: ControllerApis.deleteTopics, ReplicationControlManager.deleteTopics; KIP-516.

use crate::api_error::ApiError;
use crate::controller::Scope;
use kavka_common::Uuid;
use kavka_metadata::MetadataRecord;
use kavka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kavka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, RemoveTopicRecord};
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::{BTreeMap, BTreeSet};

/// A topic as asked for: exactly one of the two is given when the request is sound.
struct Asked {
    name: Option<StrBytes>,
    id: Uuid,
}

pub fn handle(
    scope: &Scope<'_>,
    api_version: i16,
    request: &DeleteTopicsRequest,
) -> (Vec<MetadataRecord>, DeleteTopicsResponse) {
    let mut answer = DeleteTopicsResponse::default();
    if !scope.config.delete_topic_enable {
        let error = if api_version < 3 {
            ErrorCode::InvalidRequest
        } else {
            ErrorCode::TopicDeletionDisabled
        };
        for asked in asked(request) {
            answer
                .responses
                .push(result_of(asked, Err(scope.default_message(error))));
        }
        return (Vec::new(), answer);
    }
    let asked = asked(request);
    let mut names: BTreeMap<StrBytes, usize> = BTreeMap::new();
    let mut ids: BTreeMap<Uuid, usize> = BTreeMap::new();
    for topic in &asked {
        match &topic.name {
            Some(name) => *names.entry(name.clone()).or_default() += 1,
            None => *ids.entry(topic.id).or_default() += 1,
        }
    }
    let mut records = Vec::new();
    // What is asked for twice is refused once.
    let mut refused_names = BTreeSet::new();
    let mut refused_ids = BTreeSet::new();
    for topic in asked {
        let first = match &topic.name {
            Some(name) if names[name] > 1 => refused_names.insert(name.clone()),
            None if ids[&topic.id] > 1 && topic.id != Uuid::ZERO => refused_ids.insert(topic.id),
            Some(_) | None => true,
        };
        if !first {
            continue;
        }
        let resolved = resolve(scope, &topic, &names, &ids);
        let (topic, result) = match resolved {
            Ok((name, id)) => {
                records.push(MetadataRecord::RemoveTopic(RemoveTopicRecord {
                    topic_id: id,
                    ..Default::default()
                }));
                (
                    Asked {
                        name: Some(name),
                        id,
                    },
                    Ok(()),
                )
            }
            Err(refused) => (topic, Err(refused)),
        };
        answer.responses.push(result_of(topic, result));
    }
    (records, answer)
}

fn asked(request: &DeleteTopicsRequest) -> Vec<Asked> {
    let by_name = request.topic_names.iter().map(|name| Asked {
        name: Some(name.clone()),
        id: Uuid::ZERO,
    });
    let by_either = request.topics.iter().map(|topic| Asked {
        name: topic.name.clone(),
        id: topic.topic_id,
    });
    by_name.chain(by_either).collect()
}

fn resolve(
    scope: &Scope<'_>,
    topic: &Asked,
    names: &BTreeMap<StrBytes, usize>,
    ids: &BTreeMap<Uuid, usize>,
) -> Result<(StrBytes, Uuid), ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    match (&topic.name, topic.id) {
        (None, Uuid::ZERO) => invalid("Neither topic name nor id were specified."),
        (Some(name), Uuid::ZERO) => {
            if names[name] > 1 {
                return invalid("Duplicate topic name.");
            }
            let id = scope
                .image
                .topics
                .id_of(name)
                .ok_or_else(|| scope.default_message(ErrorCode::UnknownTopicOrPartition))?;
            if ids.contains_key(&id) {
                return invalid("The provided topic name maps to an ID that was already supplied.");
            }
            Ok((name.clone(), id))
        }
        (Some(_), _) => invalid("You may not specify both topic name and topic id."),
        (None, id) => {
            if ids[&id] > 1 {
                return invalid("Duplicate topic id.");
            }
            let name = scope
                .image
                .topics
                .name_of(&id)
                .ok_or_else(|| scope.default_message(ErrorCode::UnknownTopicId))?;
            Ok(((&**name).into(), id))
        }
    }
}

fn result_of(topic: Asked, result: Result<(), ApiError>) -> DeletableTopicResult {
    let (error, message) = match result {
        Ok(()) => (ErrorCode::None, None),
        Err(refused) => (refused.error, refused.message),
    };
    DeletableTopicResult {
        name: topic.name,
        topic_id: topic.id,
        error_code: error.code(),
        error_message: message.map(Into::into),
        ..Default::default()
    }
}
