//! What administrators ask of the cluster: elections, reassignments, features, quotas, ACLs, names of resources.
//! Not here: topics and settings (admin), the quorum (metadata).
//! Part of the duel; requests are written as JSON, for they are plain lists. Kafka: the answers of 4.3.1.

use crate::Duel;
use kavka_protocol::Request;
use kavka_protocol::messages::{
    AlterClientQuotasRequest, AlterPartitionReassignmentsRequest, CreateAclsRequest,
    DeleteAclsRequest, DescribeAclsRequest, DescribeClientQuotasRequest, ElectLeadersRequest,
    ListConfigResourcesRequest, ListPartitionReassignmentsRequest, UnregisterBrokerRequest,
    UpdateFeaturesRequest,
};
use serde_json::{Value, json};

pub async fn run(duel: &mut Duel) {
    partitions(duel).await;
    features(duel).await;
    quotas(duel).await;
    access(duel).await;
    resources(duel).await;
}

/// The request that `json` describes, in each version; fields that a version does not have are left out.
async fn each<R: Request>(duel: &mut Duel, what: &str, json: Value) {
    duel.each_version(what, |version, _| {
        Some(R::from_json(&json, version).expect("the JSON has all fields of the request"))
    })
    .await;
}

async fn partitions(duel: &mut Duel) {
    let here = duel.theirs.broker_id;
    for (what, topic, partitions) in [
        ("leaders that are there", "d1", vec![0, 1]),
        ("unknown partition", "d1", vec![0, 66]),
        ("unknown topic", "nowhere", vec![0]),
    ] {
        for election in [0, 1] {
            each::<ElectLeadersRequest>(
                duel,
                &format!("{what}, type {election}"),
                json!({
                    "electionType": election,
                    "topicPartitions": [{"topic": topic, "partitions": partitions}],
                    "timeoutMs": 5_000,
                }),
            )
            .await;
        }
    }
    each::<ElectLeadersRequest>(
        duel,
        "all partitions",
        json!({"electionType": 0, "topicPartitions": null, "timeoutMs": 5_000}),
    )
    .await;
    for (what, topic, partition, replicas) in [
        ("where it is", "d1", 0, json!([here])),
        ("to a stranger", "d1", 0, json!([77])),
        ("twice on one broker", "d1", 0, json!([here, here])),
        ("nowhere", "d1", 0, json!([])),
        ("negative broker", "d1", 0, json!([-3])),
        ("cancel nothing", "d1", 0, Value::Null),
        ("unknown partition", "d1", 66, json!([here])),
        ("unknown topic", "nowhere", 0, json!([here])),
    ] {
        each::<AlterPartitionReassignmentsRequest>(
            duel,
            what,
            json!({
                "timeoutMs": 5_000,
                "allowReplicationFactorChange": true,
                "topics": [{
                    "name": topic,
                    "partitions": [{"partitionIndex": partition, "replicas": replicas}],
                }],
            }),
        )
        .await;
    }
    for (what, topics) in [
        ("all", Value::Null),
        ("none", json!([])),
        (
            "some",
            json!([{"name": "d1", "partitionIndexes": [0, 66]}, {"name": "nowhere", "partitionIndexes": [0]}]),
        ),
    ] {
        each::<ListPartitionReassignmentsRequest>(
            duel,
            what,
            json!({"timeoutMs": 5_000, "topics": topics}),
        )
        .await;
    }
}

async fn features(duel: &mut Duel) {
    for (what, feature, level, upgrade_type) in [
        ("unknown feature", "no.such.feature", 1, 1),
        ("level out of range", "metadata.version", 99, 1),
        ("negative level", "metadata.version", -1, 1),
        ("zero without downgrade", "group.version", 0, 1),
        ("downgrade as an upgrade", "metadata.version", 20, 1),
        ("unknown type", "group.version", 1, 9),
    ] {
        each::<UpdateFeaturesRequest>(
            duel,
            what,
            json!({
                "timeoutMs": 5_000,
                "featureUpdates": [{
                    "feature": feature,
                    "maxVersionLevel": level,
                    "allowDowngrade": false,
                    "upgradeType": upgrade_type,
                }],
                "validateOnly": true,
            }),
        )
        .await;
    }
    each::<UnregisterBrokerRequest>(duel, "unknown broker", json!({"brokerId": 77})).await;
}

async fn quotas(duel: &mut Duel) {
    let user = json!([{"entityType": "user", "entityName": "u"}]);
    let change = |entity: &Value, key: &str, value: f64, remove: bool, validate_only: bool| {
        json!({
            "entries": [{
                "entity": entity,
                "ops": [{"key": key, "value": value, "remove": remove}],
            }],
            "validateOnly": validate_only,
        })
    };
    for (what, json) in [
        (
            "only validated",
            change(&user, "producer_byte_rate", 10.0, false, true),
        ),
        (
            "set",
            change(&user, "producer_byte_rate", 1024.0, false, false),
        ),
        (
            "unknown key",
            change(&user, "no_such_rate", 1.0, false, false),
        ),
        (
            "negative value",
            change(&user, "consumer_byte_rate", -1.0, false, false),
        ),
        (
            "not whole",
            change(&user, "consumer_byte_rate", 1.5, false, false),
        ),
        (
            "unknown kind",
            change(
                &json!([{"entityType": "animal", "entityName": "u"}]),
                "producer_byte_rate",
                1.0,
                false,
                false,
            ),
        ),
        (
            "nobody",
            change(&json!([]), "producer_byte_rate", 1.0, false, false),
        ),
        (
            "empty name",
            change(
                &json!([{"entityType": "user", "entityName": ""}]),
                "producer_byte_rate",
                1.0,
                false,
                false,
            ),
        ),
        (
            "address and user",
            change(
                &json!([{"entityType": "ip", "entityName": "127.0.0.1"}, {"entityType": "user", "entityName": "u"}]),
                "connection_creation_rate",
                1.0,
                false,
                false,
            ),
        ),
    ] {
        each::<AlterClientQuotasRequest>(duel, what, json).await;
    }
    for (what, components, strict) in [
        ("all", json!([]), false),
        ("nothing, strictly", json!([]), true),
        (
            "one user",
            json!([{"entityType": "user", "matchType": 0, "match": "u"}]),
            false,
        ),
        (
            "default user",
            json!([{"entityType": "user", "matchType": 1, "match": null}]),
            false,
        ),
        (
            "any user",
            json!([{"entityType": "user", "matchType": 2, "match": null}]),
            true,
        ),
        (
            "unknown match",
            json!([{"entityType": "user", "matchType": 9, "match": null}]),
            false,
        ),
        (
            "unknown kind",
            json!([{"entityType": "animal", "matchType": 2, "match": null}]),
            false,
        ),
        (
            "one kind twice",
            json!([
                {"entityType": "user", "matchType": 2, "match": null},
                {"entityType": "user", "matchType": 0, "match": "u"},
            ]),
            false,
        ),
    ] {
        each::<DescribeClientQuotasRequest>(
            duel,
            what,
            json!({"components": components, "strict": strict}),
        )
        .await;
    }
    each::<AlterClientQuotasRequest>(
        duel,
        "removed",
        change(&user, "producer_byte_rate", 0.0, true, false),
    )
    .await;
}

/// Neither broker has an authorizer.
async fn access(duel: &mut Duel) {
    let filter = json!({
        "resourceTypeFilter": 2,
        "resourceNameFilter": "d1",
        "patternTypeFilter": 3,
        "principalFilter": null,
        "hostFilter": null,
        "operation": 3,
        "permissionType": 3,
    });
    each::<DescribeAclsRequest>(duel, "without an authorizer", filter.clone()).await;
    each::<DeleteAclsRequest>(
        duel,
        "without an authorizer",
        json!({"filters": [filter, filter]}),
    )
    .await;
    each::<CreateAclsRequest>(
        duel,
        "without an authorizer",
        json!({"creations": [{
            "resourceType": 2,
            "resourceName": "d1",
            "resourcePatternType": 3,
            "principal": "User:u",
            "host": "*",
            "operation": 3,
            "permissionType": 3,
        }]}),
    )
    .await;
}

async fn resources(duel: &mut Duel) {
    for (what, kinds) in [
        ("client metrics", json!([16])),
        ("groups", json!([32])),
        ("brokers", json!([4])),
        ("unknown", json!([99])),
    ] {
        each::<ListConfigResourcesRequest>(duel, what, json!({"resourceTypes": kinds})).await;
    }
}
