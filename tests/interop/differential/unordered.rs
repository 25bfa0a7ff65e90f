//! Lists that Apache fills from hash maps: they come in any order, so both sides are sorted before they are compared.
//! Not here: lists whose order is part of the answer.
//! Pure. Kafka: no counterpart.

use serde_json::Value;

/// Start and part of the request's name, the list, and the field of its elements that they are sorted by.
const UNORDERED: &[(&str, &str, &str, &str)] = &[
    ("ApiVersions ", "", "supportedFeatures", "name"),
    ("ApiVersions ", "", "finalizedFeatures", "name"),
    ("DescribeConfigs ", "", "configs", "name"),
    ("DescribeLogDirs ", "", "partitions", "partitionIndex"),
    ("ListGroups ", "", "groups", "groupId"),
    (
        "ListConfigResources ",
        "",
        "configResources",
        "resourceName",
    ),
    ("OffsetCommit ", "", "partitions", "partitionIndex"),
    ("AlterClientQuotas ", "", "entity", "entityType"),
    ("ElectLeaders ", "all", "replicaElectionResults", "topic"),
    ("ElectLeaders ", "all", "partitionResult", "partitionId"),
    ("Metadata ", "all topics", "topics", "name"),
];

/// The answer with its unordered lists sorted.
pub fn sorted(request: &str, answer: &Value) -> Value {
    let mut answer = answer.clone();
    for (_, _, list, key) in UNORDERED
        .iter()
        .filter(|(start, part, _, _)| request.starts_with(start) && request.contains(part))
    {
        sort(&mut answer, list, key);
    }
    answer
}

fn sort(value: &mut Value, list: &str, key: &str) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields.iter_mut() {
                if name == list
                    && let Value::Array(items) = inner
                {
                    items.sort_by_key(|item| match &item[key] {
                        Value::Number(number) => (number.as_i64().unwrap_or(0), String::new()),
                        other => (0, other.to_string()),
                    });
                }
                sort(inner, list, key);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| sort(item, list, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
