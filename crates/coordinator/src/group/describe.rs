//! ListGroups, DescribeGroups and DeleteGroups for the groups of one shard.
//! Not here: merging the answers of several shards (the API).
//! Reads run inside a call into the shard. Kafka: GroupMetadataManager.{listGroups, describeGroups}, GroupCoordinatorShard.deleteGroups.

use super::turn::{PendingWrite, Turn};
use super::{ClassicGroup, GroupRecord, GroupResponse, GroupShard, GroupState, Hard, no_bytes};
use crate::shard::Token;
use kavka_protocol::messages::DeleteGroupsResponse;
use kavka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kavka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kavka_protocol::messages::list_groups_response::ListedGroup;
use kavka_protocol::{ErrorCode, StrBytes};
use std::collections::BTreeMap;

/// The type of every group of this shard, as KIP-848 spells it.
const GROUP_TYPE: &str = "classic";

impl GroupShard {
    /// Groups in one of the states and of one of the types; an empty filter lets all pass. Words are compared
    /// without case.
    pub fn list_groups(&self, states: &[StrBytes], types: &[StrBytes]) -> Vec<ListedGroup> {
        let passes = |filter: &[StrBytes], value: &str| {
            filter.is_empty() || filter.iter().any(|f| f.eq_ignore_ascii_case(value))
        };
        if !passes(types, GROUP_TYPE) {
            return Vec::new();
        }
        self.groups
            .values()
            .filter(|group| passes(states, &group.state.to_string()))
            .map(|group| ListedGroup {
                group_id: group.id.clone(),
                protocol_type: group.protocol_type.clone().unwrap_or_default(),
                group_state: group.state.to_string().into(),
                group_type: GROUP_TYPE.into(),
                ..Default::default()
            })
            .collect()
    }

    /// One group. `report_missing`: version 6 and later say GROUP_ID_NOT_FOUND, earlier ones a dead group.
    pub fn describe_group(&self, group_id: &StrBytes, report_missing: bool) -> DescribedGroup {
        let Some(group) = self.groups.get(group_id) else {
            return missing(group_id, report_missing);
        };
        let stable = group.state == GroupState::Stable;
        let protocol = group.protocol_name.clone().unwrap_or_default();
        DescribedGroup {
            group_id: group_id.clone(),
            group_state: group.state.to_string().into(),
            protocol_type: group.protocol_type.clone().unwrap_or_default(),
            members: group
                .members
                .values()
                .map(|member| DescribedGroupMember {
                    member_id: member.id.clone(),
                    group_instance_id: member.instance_id.clone(),
                    client_id: member.client_id.clone(),
                    client_host: member.client_host.clone(),
                    member_metadata: if stable {
                        member.metadata(&protocol)
                    } else {
                        no_bytes()
                    },
                    member_assignment: member.assignment.clone(),
                    ..Default::default()
                })
                .collect(),
            protocol_data: if stable {
                protocol
            } else {
                StrBytes::default()
            },
            ..Default::default()
        }
    }
}

/// The answer for a group that does not exist.
fn missing(group_id: &StrBytes, report_missing: bool) -> DescribedGroup {
    let (code, message) = if report_missing {
        (
            ErrorCode::GroupIdNotFound,
            Some(StrBytes::from(format!("Group {group_id} not found."))),
        )
    } else {
        (ErrorCode::None, None)
    };
    DescribedGroup {
        error_code: code.code(),
        error_message: message,
        group_id: group_id.clone(),
        group_state: GroupState::Dead.to_string().into(),
        ..Default::default()
    }
}

/// Deletes empty groups with their offsets; one write for all of them.
pub(super) fn delete_groups(
    hard: &Hard,
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    turn: &mut Turn<'_>,
    token: Token,
    names: Vec<StrBytes>,
) {
    let mut records = Vec::new();
    let mut deleted = Vec::new();
    let mut results = Vec::new();
    for group_id in names {
        let code = match groups.get_mut(&group_id) {
            None => ErrorCode::GroupIdNotFound,
            Some(group) => match group.state {
                GroupState::Dead => ErrorCode::GroupIdNotFound,
                // A commit that is under way would leave an offset behind without its group.
                GroupState::Empty if group.pending_offset_commits > 0 => ErrorCode::NonEmptyGroup,
                GroupState::Empty => {
                    group.state = GroupState::Dead;
                    records.extend(tombstones(hard, &group_id));
                    deleted.push(group_id.clone());
                    ErrorCode::None
                }
                GroupState::PreparingRebalance
                | GroupState::CompletingRebalance
                | GroupState::Stable => ErrorCode::NonEmptyGroup,
            },
        };
        results.push(DeletableGroupResult {
            group_id,
            error_code: code.code(),
            ..Default::default()
        });
    }
    let response = GroupResponse::DeleteGroups(DeleteGroupsResponse {
        results,
        ..Default::default()
    });
    if records.is_empty() {
        for group_id in &deleted {
            groups.remove(group_id);
        }
        turn.reply(token, response);
    } else {
        turn.write(
            records,
            PendingWrite::Deleted {
                group_ids: deleted,
                next: Some((token, response)),
            },
        );
    }
}

fn tombstones(hard: &Hard, group_id: &StrBytes) -> Vec<GroupRecord> {
    let offsets = hard.offsets.get(group_id).into_iter().flatten();
    let mut records: Vec<GroupRecord> = offsets
        .flat_map(|(topic, partitions)| {
            partitions.keys().map(|partition| GroupRecord::Offset {
                group_id: group_id.clone(),
                topic: topic.clone(),
                partition: *partition,
                value: None,
            })
        })
        .collect();
    if hard.groups.contains_key(group_id) {
        records.push(GroupRecord::Group {
            group_id: group_id.clone(),
            value: None,
        });
    }
    records
}

/// The tombstones of a group are durable, or could not be written.
pub(super) fn deletion_written(
    groups: &mut BTreeMap<StrBytes, ClassicGroup>,
    group_id: &StrBytes,
    result: Result<(), ErrorCode>,
) {
    match (result, groups.get_mut(group_id)) {
        (Ok(()), Some(group)) if group.state == GroupState::Dead => {
            groups.remove(group_id);
        }
        (Err(_), Some(group)) if group.state == GroupState::Dead => group.state = GroupState::Empty,
        (_, _) => {}
    }
}
