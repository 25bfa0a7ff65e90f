//! Settings of topics, brokers, groups and so on: read them with their sources, change them one by one.
//! Not here: what a setting means (kavka-config), which sources a tool shows.
//! Runs on the caller's task. Kafka: Admin.{describeConfigs, incrementalAlterConfigs}; KIP-133, KIP-226, KIP-339.

use super::{ItemResult, outcome};
use crate::{ClientError, Cluster};
use kavka_common::NodeId;
use kavka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kavka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kavka_protocol::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use kavka_protocol::{ErrorCode, Request};

/// What settings belong to; the numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceType {
    Topic = 2,
    Broker = 4,
    BrokerLogger = 8,
    ClientMetrics = 16,
    Group = 32,
}

/// A thing with settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub resource_type: ResourceType,
    /// Empty: the default of all brokers (or groups).
    pub name: String,
}

impl Resource {
    pub fn topic(name: impl Into<String>) -> Resource {
        Resource {
            resource_type: ResourceType::Topic,
            name: name.into(),
        }
    }

    /// Settings of one broker are asked of and changed on that broker.
    fn node(&self) -> Option<NodeId> {
        match self.resource_type {
            ResourceType::Broker | ResourceType::BrokerLogger => self.name.parse().ok().map(NodeId),
            ResourceType::Topic | ResourceType::ClientMetrics | ResourceType::Group => None,
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    DynamicTopic,
    DynamicBroker,
    DynamicDefaultBroker,
    StaticBroker,
    Default,
    DynamicBrokerLogger,
    ClientMetrics,
    Group,
    Unknown,
}

impl Source {
    fn from_id(id: i8) -> Source {
        match id {
            1 => Source::DynamicTopic,
            2 => Source::DynamicBroker,
            3 => Source::DynamicDefaultBroker,
            4 => Source::StaticBroker,
            5 => Source::Default,
            6 => Source::DynamicBrokerLogger,
            7 => Source::ClientMetrics,
            8 => Source::Group,
            _ => Source::Unknown,
        }
    }

    /// Java's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Source::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
            Source::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            Source::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            Source::StaticBroker => "STATIC_BROKER_CONFIG",
            Source::Default => "DEFAULT_CONFIG",
            Source::DynamicBrokerLogger => "DYNAMIC_BROKER_LOGGER_CONFIG",
            Source::ClientMetrics => "DYNAMIC_CLIENT_METRICS_CONFIG",
            Source::Group => "DYNAMIC_GROUP_CONFIG",
            Source::Unknown => "UNKNOWN",
        }
    }
}

/// A value that a setting has at one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synonym {
    pub name: String,
    pub value: Option<String>,
    pub source: Source,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    pub name: String,
    /// `None` for what is secret.
    pub value: Option<String>,
    pub source: Source,
    pub is_sensitive: bool,
    pub is_read_only: bool,
    pub synonyms: Vec<Synonym>,
}

impl ConfigEntry {
    pub fn is_default(&self) -> bool {
        self.source == Source::Default
    }
}

/// Reads settings; each resource has an outcome of its own.
pub async fn describe(
    cluster: &mut Cluster,
    resources: &[Resource],
    include_synonyms: bool,
) -> Result<Vec<(Resource, ItemResult<Vec<ConfigEntry>>)>, ClientError> {
    let mut found = Vec::with_capacity(resources.len());
    for (node, group) in by_node(resources.iter()) {
        let request = DescribeConfigsRequest {
            resources: group
                .iter()
                .map(|resource| DescribeConfigsResource {
                    resource_type: resource.resource_type as i8,
                    resource_name: resource.name.as_str().into(),
                    configuration_keys: None,
                    ..Default::default()
                })
                .collect(),
            include_synonyms,
            ..Default::default()
        };
        let answer = call(cluster, node, "describeConfigs", &request).await?;
        for result in answer.results {
            let resource = answered(&group, result.resource_type, &result.resource_name)?;
            let entries = outcome(result.error_code, result.error_message.as_ref()).map(|()| {
                result
                    .configs
                    .into_iter()
                    .map(|config| ConfigEntry {
                        name: config.name.to_string(),
                        value: config.value.map(|value| value.to_string()),
                        source: Source::from_id(config.config_source),
                        is_sensitive: config.is_sensitive,
                        is_read_only: config.read_only,
                        synonyms: config
                            .synonyms
                            .into_iter()
                            .map(|synonym| Synonym {
                                name: synonym.name.to_string(),
                                value: synonym.value.map(|value| value.to_string()),
                                source: Source::from_id(synonym.source),
                            })
                            .collect(),
                    })
                    .collect()
            });
            found.push((resource.clone(), entries));
        }
    }
    Ok(found)
}

/// What is done to a setting; the numbers are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Set = 0,
    Delete = 1,
    Append = 2,
    Subtract = 3,
}

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: String,
    pub operation: Operation,
    /// `None` for `Delete`.
    pub value: Option<String>,
}

/// Changes settings; each resource has an outcome of its own.
pub async fn alter(
    cluster: &mut Cluster,
    changes: &[(Resource, Vec<Change>)],
    validate_only: bool,
) -> Result<Vec<(Resource, ItemResult<()>)>, ClientError> {
    let mut found = Vec::with_capacity(changes.len());
    for (node, group) in by_node(changes.iter().map(|(resource, _)| resource)) {
        let request = IncrementalAlterConfigsRequest {
            resources: changes
                .iter()
                .filter(|(resource, _)| group.contains(&resource))
                .map(|(resource, changes)| AlterConfigsResource {
                    resource_type: resource.resource_type as i8,
                    resource_name: resource.name.as_str().into(),
                    configs: changes
                        .iter()
                        .map(|change| AlterableConfig {
                            name: change.name.as_str().into(),
                            config_operation: change.operation as i8,
                            value: change.value.as_deref().map(Into::into),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            validate_only,
            ..Default::default()
        };
        let answer = call(cluster, node, "incrementalAlterConfigs", &request).await?;
        for result in answer.responses {
            let resource = answered(&group, result.resource_type, &result.resource_name)?;
            found.push((
                resource.clone(),
                outcome(result.error_code, result.error_message.as_ref()),
            ));
        }
    }
    Ok(found)
}

async fn call<R: Request>(
    cluster: &mut Cluster,
    node: Option<NodeId>,
    what: &str,
    request: &R,
) -> Result<R::Response, ClientError> {
    match node {
        // Controllers know the settings of all brokers (KIP-919).
        Some(node) if !cluster.is_of_controllers() => cluster.call_node(node, what, request).await,
        Some(_) | None => cluster.call_any_or_active_controller(what, request).await,
    }
}

/// The resource that an answer is about; brokers answer in any order.
fn answered<'a>(
    group: &[&'a Resource],
    resource_type: i8,
    name: &str,
) -> Result<&'a Resource, ClientError> {
    group
        .iter()
        .find(|resource| resource.resource_type as i8 == resource_type && resource.name == name)
        .copied()
        .ok_or_else(|| ClientError::Refused {
            code: ErrorCode::UnknownServerError,
            message: Some(format!(
                "The broker's answer is about {name:?}, which was not asked for"
            )),
        })
}

/// Groups resources by the node that must be asked, keeping their order.
fn by_node<'a>(
    resources: impl Iterator<Item = &'a Resource>,
) -> Vec<(Option<NodeId>, Vec<&'a Resource>)> {
    let mut groups: Vec<(Option<NodeId>, Vec<&Resource>)> = Vec::new();
    for resource in resources {
        let node = resource.node();
        match groups.iter_mut().find(|(known, _)| *known == node) {
            Some((_, group)) => group.push(resource),
            None => groups.push((node, vec![resource])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_any_order() {
        let (a, b) = (Resource::topic("a"), Resource::topic("b"));
        let group = [&a, &b];
        assert_eq!(answered(&group, 2, "b").unwrap(), &b);
        assert!(answered(&group, 4, "b").is_err());
        assert!(answered(&group, 2, "c").is_err());
    }

    #[test]
    fn a_brokers_settings_are_asked_of_that_broker() {
        let broker = |name: &str| Resource {
            resource_type: ResourceType::Broker,
            name: name.into(),
        };
        let all = [broker("2"), Resource::topic("2"), broker(""), broker("2")];
        let groups = by_node(all.iter());
        assert_eq!(
            groups,
            [
                (Some(NodeId(2)), vec![&all[0], &all[3]]),
                (None, vec![&all[1], &all[2]])
            ]
        );
    }
}
