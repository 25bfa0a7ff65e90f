//! ListGroups: the groups that this broker coordinates.
//! Not here: what a group is (crates/coordinator).
//! Runs in the connection's task; looks at one shard after the other.
//! Kafka: KafkaApis.handleListGroupsRequest; KIP-518, KIP-848.

use crate::coordinator::GroupCoordinator;
use kavka_protocol::ErrorCode;
use kavka_protocol::messages::{ListGroupsRequest, ListGroupsResponse};

pub fn handle(groups: &GroupCoordinator, request: &ListGroupsRequest) -> ListGroupsResponse {
    let mut response = ListGroupsResponse::default();
    for host in groups.hosts() {
        let listed =
            host.read(|shard| shard.list_groups(&request.states_filter, &request.types_filter));
        match listed {
            Ok(listed) => response.groups.extend(listed),
            // A shard that moves away is listed by its next broker.
            Err(ErrorCode::NotCoordinator) => {}
            Err(code) => {
                response.error_code = code.code();
                response.groups.clear();
                return response;
            }
        }
    }
    response
}
