//! Groups of consumers: list them over all brokers, describe them in either protocol, delete them.
//! Not here: their committed offsets (offsets), share and streams groups.
//! Runs on the caller's task.
//! Kafka: Admin.{listGroups, describeConsumerGroups, deleteConsumerGroups}; KIP-88, KIP-518, KIP-848, KIP-1043.

use super::{ItemResult, outcome};
use crate::{BrokerAddress, ClientError, Cluster, Coordinator};
use bytes::{Buf, Bytes};
use kavka_common::{NodeId, TopicPartition};
use kavka_protocol::messages::consumer_group_describe_response::{self, Assignment, Member};
use kavka_protocol::messages::describe_groups_response::{self, DescribedGroupMember};
use kavka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerProtocolAssignment, DeleteGroupsRequest,
    DescribeGroupsRequest, ListGroupsRequest,
};
use kavka_protocol::{ErrorCode, Message, StrBytes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The protocol type of groups of consumers.
pub const CONSUMER: &str = "consumer";

/// A group as the broker that coordinates it lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupListing {
    pub group_id: String,
    pub protocol_type: String,
    /// As the broker writes it; empty from brokers before 2.6.
    pub state: String,
    /// As the broker writes it (`classic`, `consumer`); empty from brokers before 3.8.
    pub group_type: String,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberDescription {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub client_id: String,
    pub host: String,
    pub assignment: BTreeSet<TopicPartition>,
    /// The rest is known of members of KIP-848's protocol only.
    pub target_assignment: Option<BTreeSet<TopicPartition>>,
    pub member_epoch: Option<i32>,
    /// Does the member of a migrating group speak the new protocol already?
    pub upgraded: Option<bool>,
}

/// A group with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    pub group_id: String,
    pub state: String,
    pub coordinator_id: NodeId,
    pub coordinator: BrokerAddress,
    pub assignor: String,
    pub members: Vec<MemberDescription>,
    /// Both epochs are `None` for classic groups.
    pub group_epoch: Option<i32>,
    pub target_assignment_epoch: Option<i32>,
}

/// The groups of consumers of all brokers, in the order in which they tell them, each once. Filters that are not empty
/// are the brokers' to apply.
pub async fn list_consumer_groups(
    cluster: &mut Cluster,
    states: &[&str],
    types: &[&str],
) -> Result<Vec<GroupListing>, ClientError> {
    cluster.metadata("findAllBrokers", Some(&[])).await?;
    let nodes: Vec<NodeId> = cluster.brokers().keys().copied().collect();
    let mut found: Vec<GroupListing> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let strings = |values: &[&str]| values.iter().map(|value| StrBytes::from(*value)).collect();
    for node in nodes {
        let answer = cluster
            .retrying("listGroups", async |cluster| {
                let answer = cluster
                    .call_node_versioned(node, "listGroups", i16::MAX, |version| {
                        ListGroupsRequest {
                            states_filter: strings(states),
                            // Brokers without the filter have one type only, or one that they cannot tell from it.
                            types_filter: if version < LIST_TYPES_FROM {
                                Vec::new()
                            } else {
                                strings(types)
                            },
                            ..Default::default()
                        }
                    })
                    .await?;
                ClientError::check(answer.error_code, None).map(|()| answer)
            })
            .await?;
        for group in answer.groups {
            let protocol_type: &str = &group.protocol_type;
            if protocol_type.is_empty() || protocol_type == CONSUMER {
                let listing = GroupListing {
                    group_id: group.group_id.to_string(),
                    protocol_type: group.protocol_type.to_string(),
                    state: group.group_state.to_string(),
                    group_type: group.group_type.to_string(),
                };
                // While a group moves, two brokers may list it; the later word counts.
                match known.get(&listing.group_id) {
                    Some(index) => found[*index] = listing,
                    None => {
                        known.insert(listing.group_id.clone(), found.len());
                        found.push(listing);
                    }
                }
            }
        }
    }
    Ok(found)
}

const LIST_TYPES_FROM: i16 = 5;

/// Describes groups; each has an outcome of its own, in the order given.
pub async fn describe_consumer_groups(
    cluster: &mut Cluster,
    group_ids: &[String],
) -> Result<Vec<(String, ItemResult<GroupDescription>)>, ClientError> {
    let mut found = Vec::with_capacity(group_ids.len());
    for group_id in group_ids {
        let described = match describe_new(cluster, group_id).await {
            Err(ClientError::UnsupportedApi { .. }) => describe_classic(cluster, group_id).await,
            Err(error)
                if matches!(
                    error.code(),
                    Some(ErrorCode::GroupIdNotFound | ErrorCode::UnsupportedVersion)
                ) =>
            {
                describe_classic(cluster, group_id).await
            }
            result => result,
        };
        found.push((group_id.clone(), item(described)?));
    }
    Ok(found)
}

/// A refusal belongs to the one item, anything else to the whole operation.
pub(super) fn item<T>(result: Result<T, ClientError>) -> Result<ItemResult<T>, ClientError> {
    match result {
        Err(error) if error.code().is_none() => Err(error),
        result => Ok(result),
    }
}

async fn describe_new(
    cluster: &mut Cluster,
    group_id: &str,
) -> Result<GroupDescription, ClientError> {
    const WHAT: &str = "describeConsumerGroups";
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec![group_id.into()],
        ..Default::default()
    };
    cluster
        .retrying(WHAT, async |cluster| {
            let node = cluster
                .coordinator(WHAT, Coordinator::Group, group_id)
                .await?;
            let answer = cluster.call_node(node, WHAT, &request).await?;
            let group = only(answer.groups)?;
            outcome(group.error_code, group.error_message.as_ref())?;
            Ok(of_new(group, node, address(cluster, node)?))
        })
        .await
}

async fn describe_classic(
    cluster: &mut Cluster,
    group_id: &str,
) -> Result<GroupDescription, ClientError> {
    const WHAT: &str = "describeClassicGroups";
    let request = DescribeGroupsRequest {
        groups: vec![group_id.into()],
        ..Default::default()
    };
    cluster
        .retrying(WHAT, async |cluster| {
            let node = cluster
                .coordinator(WHAT, Coordinator::Group, group_id)
                .await?;
            let answer = cluster.call_node(node, WHAT, &request).await?;
            let group = only(answer.groups)?;
            outcome(group.error_code, group.error_message.as_ref())?;
            of_classic(group, node, address(cluster, node)?)
        })
        .await
}

fn only<T>(items: Vec<T>) -> Result<T, ClientError> {
    items.into_iter().next().ok_or(ClientError::Refused {
        code: ErrorCode::UnknownServerError,
        message: Some("The broker's answer does not name the group.".into()),
    })
}

fn address(cluster: &Cluster, node: NodeId) -> Result<BrokerAddress, ClientError> {
    cluster
        .brokers()
        .get(&node)
        .cloned()
        .ok_or(ClientError::Refused {
            code: ErrorCode::CoordinatorNotAvailable,
            message: None,
        })
}

fn of_new(
    group: consumer_group_describe_response::DescribedGroup,
    coordinator_id: NodeId,
    coordinator: BrokerAddress,
) -> GroupDescription {
    GroupDescription {
        group_id: group.group_id.to_string(),
        state: group.group_state.to_string(),
        coordinator_id,
        coordinator,
        assignor: group.assignor_name.to_string(),
        members: group.members.into_iter().map(member_of_new).collect(),
        group_epoch: Some(group.group_epoch),
        target_assignment_epoch: Some(group.assignment_epoch),
    }
}

fn member_of_new(member: Member) -> MemberDescription {
    MemberDescription {
        member_id: member.member_id.to_string(),
        group_instance_id: member.instance_id.map(|id| id.to_string()),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assignment: partitions_of(&member.assignment),
        target_assignment: Some(partitions_of(&member.target_assignment)),
        member_epoch: Some(member.member_epoch),
        upgraded: match member.member_type {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
    }
}

fn partitions_of(assignment: &Assignment) -> BTreeSet<TopicPartition> {
    assignment
        .topic_partitions
        .iter()
        .flat_map(|topic| expand(&topic.topic_name, &topic.partitions))
        .collect()
}

fn expand(topic: &str, partitions: &[i32]) -> impl Iterator<Item = TopicPartition> {
    let topic: Arc<str> = Arc::from(topic);
    partitions
        .iter()
        .map(move |partition| TopicPartition::new(topic.clone(), *partition))
}

fn of_classic(
    group: describe_groups_response::DescribedGroup,
    coordinator_id: NodeId,
    coordinator: BrokerAddress,
) -> Result<GroupDescription, ClientError> {
    let protocol_type: &str = &group.protocol_type;
    if !protocol_type.is_empty() && protocol_type != CONSUMER {
        return Err(ClientError::Refused {
            code: ErrorCode::InconsistentGroupProtocol,
            message: Some(format!(
                "GroupId {} is not a consumer group ({protocol_type}).",
                group.group_id
            )),
        });
    }
    let members = group
        .members
        .into_iter()
        .map(member_of_classic)
        .collect::<Result<_, _>>()?;
    Ok(GroupDescription {
        group_id: group.group_id.to_string(),
        state: group.group_state.to_string(),
        coordinator_id,
        coordinator,
        assignor: group.protocol_data.to_string(),
        members,
        group_epoch: None,
        target_assignment_epoch: None,
    })
}

fn member_of_classic(member: DescribedGroupMember) -> Result<MemberDescription, ClientError> {
    Ok(MemberDescription {
        member_id: member.member_id.to_string(),
        group_instance_id: member.group_instance_id.map(|id| id.to_string()),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        assignment: assignment_of_classic(member.member_assignment)?,
        ..Default::default()
    })
}

/// What the leader of the group assigned: a version, then the message in that version. Empty before the first rebalance.
fn assignment_of_classic(mut bytes: Bytes) -> Result<BTreeSet<TopicPartition>, ClientError> {
    if bytes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let unreadable = || ClientError::Refused {
        code: ErrorCode::UnknownServerError,
        message: Some("A member's assignment is not that of a consumer.".into()),
    };
    if bytes.remaining() < 2 {
        return Err(unreadable());
    }
    // Later versions only add fields at the end.
    let version = bytes.get_i16().min(ConsumerProtocolAssignment::MAX_VERSION);
    let assignment =
        ConsumerProtocolAssignment::decode(&mut bytes, version).map_err(|_| unreadable())?;
    Ok(assignment
        .assigned_partitions
        .iter()
        .flat_map(|topic| expand(&topic.topic, &topic.partitions))
        .collect())
}

/// Deletes groups without members; each has an outcome of its own, in the order given.
pub async fn delete(
    cluster: &mut Cluster,
    group_ids: &[String],
) -> Result<Vec<(String, ItemResult<()>)>, ClientError> {
    const WHAT: &str = "deleteConsumerGroups";
    let mut found = Vec::with_capacity(group_ids.len());
    for group_id in group_ids {
        let request = DeleteGroupsRequest {
            groups_names: vec![group_id.as_str().into()],
            ..Default::default()
        };
        let deleted = cluster
            .retrying(WHAT, async |cluster| {
                let node = cluster
                    .coordinator(WHAT, Coordinator::Group, group_id)
                    .await?;
                let answer = cluster.call_node(node, WHAT, &request).await?;
                let result = only(answer.results)?;
                ClientError::check(result.error_code, None)
            })
            .await;
        found.push((group_id.clone(), item(deleted)?));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_members_assignment_is_read_in_its_version() {
        let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2];
        bytes.extend([0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
        let expected = BTreeSet::from([TopicPartition::new("t", 1), TopicPartition::new("t", 3)]);
        assert_eq!(
            assignment_of_classic(bytes.clone().into()).unwrap(),
            expected
        );
        // From a client of the future.
        bytes[1] = 9;
        assert_eq!(
            assignment_of_classic(bytes.clone().into()).unwrap(),
            expected
        );
        assert_eq!(
            assignment_of_classic(Bytes::new()).unwrap(),
            BTreeSet::new()
        );
        for length in 1..bytes.len() {
            bytes.truncate(length);
            let _ = assignment_of_classic(bytes.clone().into());
        }
        assert!(assignment_of_classic(Bytes::from_static(&[0])).is_err());
        assert!(assignment_of_classic(Bytes::from_static(&[0, 0, 0x7f, 0, 0, 0])).is_err());
    }

    #[test]
    fn a_refusal_is_the_items_own() {
        let refused = ClientError::Refused {
            code: ErrorCode::NonEmptyGroup,
            message: None,
        };
        assert!(item::<()>(Err(refused)).unwrap().is_err());
        assert!(item::<()>(Err(ClientError::Config("x".into()))).is_err());
    }
}
