//! DeleteGroups. Not here: the group's rules (crates/coordinator).
//! One write per shard; the answers come back in the order of the request.
//! Kafka: KafkaApis.handleDeleteGroupsRequest.

use crate::api::RequestContext;
use crate::coordinator::GroupCoordinator;
use crate::network::Pending;
use kavka_coordinator::group::{GroupRequest, GroupResponse};
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kavka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn handle(
    groups: &Arc<GroupCoordinator>,
    context: RequestContext,
    request: DeleteGroupsRequest,
) -> Pending {
    let mut order = Vec::new();
    let mut by_shard: BTreeMap<Option<i32>, Vec<_>> = BTreeMap::new();
    let image = groups.image();
    for group_id in request.groups_names {
        if !order.contains(&group_id) {
            let shard = GroupCoordinator::partition_of(&image, &group_id);
            by_shard.entry(shard).or_default().push(group_id.clone());
            order.push(group_id);
        }
    }
    let answers: Vec<_> = by_shard
        .into_values()
        .map(|names| {
            let first = names.first().cloned().unwrap_or_default();
            let answer = groups.submit(&first, GroupRequest::DeleteGroups(names.clone()));
            (names, answer)
        })
        .collect();
    context.later(async move {
        let mut codes = BTreeMap::new();
        for (names, answer) in answers {
            match answer.await {
                Ok(GroupResponse::DeleteGroups(response)) => codes.extend(
                    response
                        .results
                        .into_iter()
                        .map(|result| (result.group_id, result.error_code)),
                ),
                Ok(_) => {}
                Err(code) => codes.extend(names.into_iter().map(|name| (name, code.code()))),
            }
        }
        let results = order
            .into_iter()
            .map(|group_id| DeletableGroupResult {
                error_code: codes
                    .get(&group_id)
                    .copied()
                    .unwrap_or(ErrorCode::UnknownServerError.code()),
                group_id,
                ..Default::default()
            })
            .collect();
        DeleteGroupsResponse {
            results,
            ..Default::default()
        }
    })
}
