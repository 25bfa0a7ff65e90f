use super::*;
use crate::api::test_image::{TestImage, broker_config};

fn ask(resource_type: i8, name: &str, keys: &[&str]) -> DescribeConfigsResult {
    let image = TestImage::new()
        .broker(1, "one", 9092)
        .topic("t", 1, 1)
        .config(2, "t", "retention.ms", "60000")
        .config(4, "1", "log.cleaner.threads", "2")
        .image();
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type,
            resource_name: name.into(),
            configuration_keys: Some(keys.iter().map(|key| (*key).into()).collect()),
            ..Default::default()
        }],
        include_synonyms: true,
        ..Default::default()
    };
    answer(&image, &broker_config(""), &request)
        .results
        .remove(0)
}

fn synonyms(result: &DescribeConfigsResult) -> Vec<String> {
    let sources = ["", "TOPIC", "BROKER", "DEFAULT_BROKER", "STATIC", "DEFAULT"];
    result.configs[0]
        .synonyms
        .iter()
        .map(|synonym| {
            let source = sources[usize::try_from(synonym.source).unwrap()];
            format!(
                "{source}:{}={}",
                synonym.name,
                synonym.value.as_deref().unwrap_or("null")
            )
        })
        .collect()
}

#[test]
fn settings_come_with_their_sources() {
    let result = ask(2, "t", &["retention.ms"]);
    let config = &result.configs[0];
    assert_eq!(
        (
            config.value.as_deref(),
            config.config_source,
            config.config_type
        ),
        (Some("60000"), 1, 5)
    );
    assert_eq!(synonyms(&result), ["TOPIC:retention.ms=60000"]);
    // From the first records of the cluster.
    assert_eq!(
        synonyms(&ask(2, "t", &["min.insync.replicas"])),
        [
            "DEFAULT_BROKER:min.insync.replicas=1",
            "DEFAULT:min.insync.replicas=1"
        ]
    );
    assert_eq!(
        synonyms(&ask(4, "1", &["log.cleaner.threads"])),
        [
            "BROKER:log.cleaner.threads=2",
            "DEFAULT:log.cleaner.threads=1"
        ]
    );
    assert_eq!(ask(2, "t", &[]).configs.len(), 33, "no keys ask for all");
    let defaults = ask(4, "", &[]);
    assert_eq!(defaults.configs.len(), 1, "{defaults:?}");
}

#[test]
fn refusals_are_kafkas() {
    use ErrorCode::{InvalidRequest, InvalidTopicException, UnknownTopicOrPartition};
    for (resource_type, name, error, message) in [
        (2, "none", UnknownTopicOrPartition, Some("")),
        (
            2,
            "a b",
            InvalidTopicException,
            Some(
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
        ),
        (
            4,
            "x",
            InvalidRequest,
            Some("Broker id must be an integer, but it is: x"),
        ),
        (
            4,
            "9",
            InvalidRequest,
            Some("Unexpected broker id, expected 1 or empty string, but received 9"),
        ),
        (8, "", InvalidRequest, Some("Broker id must not be empty")),
        (
            16,
            "",
            InvalidRequest,
            Some("Client metrics subscription name must not be empty"),
        ),
        (32, "", InvalidRequest, Some("Group name must not be empty")),
        (3, "x", InvalidRequest, Some(InvalidRequest.message())),
    ] {
        let result = ask(resource_type, name, &[]);
        assert_eq!(ErrorCode::from(result.error_code), error, "{name}");
        assert_eq!(result.error_message.as_deref(), message);
        assert!(result.configs.is_empty());
    }
}
