//! Settings, features, producer ids.
use super::test_cluster::*;
use super::*;
use kavka_metadata::ConfigResourceType;
use kavka_metadata::topics::raw_ids;
use kavka_protocol::messages::*;

#[test]
fn settings_are_altered_and_checked() {
    let mut cluster = TestCluster::with_brokers(1, "");
    cluster.create("t", 1, 1);
    let topic = ConfigResource::topic("t");
    let (set, delete, append, subtract) = (0, 1, 2, 3);
    let ok = (ErrorCode::None, String::new());
    assert_eq!(
        cluster.alter_config(&topic, "cleanup.policy", append, Some("compact")),
        ok
    );
    assert_eq!(
        cluster
            .image
            .configs
            .value(&topic, "cleanup.policy")
            .map(|value| &**value),
        Some("delete,compact")
    );
    assert_eq!(
        cluster.alter_config(&topic, "cleanup.policy", subtract, Some("delete")),
        ok
    );
    assert_eq!(
        cluster
            .image
            .configs
            .value(&topic, "cleanup.policy")
            .map(|value| &**value),
        Some("compact")
    );
    assert_eq!(
        cluster.alter_config(&topic, "cleanup.policy", delete, None),
        ok
    );
    assert_eq!(
        cluster.alter_config(&topic, "no.such.thing", delete, None),
        ok,
        "as Kafka"
    );
    assert!(cluster.image.configs.get(&topic).is_none());
    let group = ConfigResource::new(ConfigResourceType::Group, "g");
    let metrics = ConfigResource::new(ConfigResourceType::ClientMetrics, "m");
    assert_eq!(
        cluster.alter_config(&group, "consumer.session.timeout.ms", set, Some("50000")),
        ok
    );
    assert_eq!(
        cluster.alter_config(&metrics, "interval.ms", set, Some("30000")),
        ok
    );
    let broker = ConfigResource::broker(NodeId(1));
    for (resource, key, operation, value, error, message) in [
        (
            &topic,
            "no.such.thing",
            set,
            Some("1"),
            ErrorCode::InvalidConfig,
            "Unknown topic config name: no.such.thing",
        ),
        (
            &topic,
            "retention.ms",
            set,
            Some("abc"),
            ErrorCode::InvalidConfig,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            &ConfigResource::topic("missing"),
            "retention.ms",
            set,
            Some("1"),
            ErrorCode::UnknownTopicOrPartition,
            "The topic 'missing' does not exist.",
        ),
        (
            &topic,
            "retention.ms",
            append,
            Some("1"),
            ErrorCode::InvalidConfig,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            &topic,
            "retention.ms",
            9,
            Some("1"),
            ErrorCode::InvalidRequest,
            "Unknown operations type 9",
        ),
        (
            &topic,
            "retention.ms",
            set,
            None,
            ErrorCode::InvalidRequest,
            "Null value not supported for : retention.ms",
        ),
        (
            &group,
            "consumer.session.timeout.ms",
            set,
            Some("1"),
            ErrorCode::InvalidConfig,
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            &metrics,
            "interval.ms",
            set,
            Some("1"),
            ErrorCode::InvalidConfig,
            "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            &broker,
            "min.insync.replicas",
            set,
            Some("1"),
            ErrorCode::InvalidConfig,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            &ConfigResource::broker_default(),
            "min.insync.replicas",
            delete,
            None,
            ErrorCode::InvalidConfig,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
    ] {
        let before = cluster.image.clone();
        assert_eq!(
            cluster.alter_config(resource, key, operation, value),
            (error, message.to_owned())
        );
        assert_eq!(cluster.image, before);
    }
}

#[test]
fn a_new_minimum_of_in_sync_replicas_clears_the_eligible_ones() {
    let mut cluster = TestCluster::with_brokers(3, "");
    cluster.create_assigned("t", &[&[1, 2, 3]]);
    let topic = ConfigResource::topic("t");
    assert_eq!(
        cluster
            .alter_config(&topic, "min.insync.replicas", 0, Some("2"))
            .0,
        ErrorCode::None
    );
    cluster.heartbeat(2, true, false);
    assert!(
        cluster.partition("t", 0).elr.is_empty(),
        "two are in sync: that is enough"
    );
    cluster.heartbeat(3, true, false);
    assert_eq!(raw_ids(&cluster.partition("t", 0).elr), [3]);
    assert_eq!(
        cluster
            .alter_config(&topic, "min.insync.replicas", 0, Some("1"))
            .0,
        ErrorCode::None
    );
    assert!(cluster.partition("t", 0).elr.is_empty());
}

#[test]
fn features_move_by_kafkas_rules() {
    let mut cluster = TestCluster::with_brokers(1, "");
    let update = |cluster: &mut TestCluster, feature: &str, level: i16, upgrade_type: i8| {
        let request = UpdateFeaturesRequest {
            feature_updates: vec![update_features_request::FeatureUpdateKey {
                feature: feature.into(),
                max_version_level: level,
                upgrade_type,
                ..Default::default()
            }],
            ..Default::default()
        };
        match cluster
            .handle(2, AnyRequest::UpdateFeatures(request))
            .response
        {
            AnyResponse::UpdateFeatures(response) => response
                .error_message
                .map(|text| text.to_string())
                .unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    };
    let prefix = "The update failed for all features since the following feature had an error: ";
    for (feature, level, upgrade_type, message) in [
        (
            "group.version",
            99,
            1,
            "Invalid update version 99 for feature group.version. Local controller 1 only supports versions 0-1",
        ),
        (
            "nonsense",
            1,
            1,
            "Invalid update version 1 for feature nonsense. Local controller 1 does not support this feature.",
        ),
        (
            "metadata.version",
            25,
            1,
            "Invalid update version 25 for feature metadata.version. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            "metadata.version",
            25,
            2,
            "Invalid metadata.version 25. Refusing to perform the requested downgrade because it might delete metadata information.",
        ),
    ] {
        assert_eq!(
            update(&mut cluster, feature, level, upgrade_type),
            format!("{prefix}{message}")
        );
    }
    assert_eq!(update(&mut cluster, "group.version", 0, 2), "");
    assert_eq!(cluster.image.features.level("group.version"), 0);
    assert_eq!(update(&mut cluster, "group.version", 1, 1), "");
    assert_eq!(cluster.image.features.level("group.version"), 1);
}

#[test]
fn producer_ids_come_in_blocks() {
    let mut cluster = TestCluster::with_brokers(1, "");
    let allocate = |cluster: &mut TestCluster, broker_epoch: i64| {
        let request = AllocateProducerIdsRequest {
            broker_id: 1,
            broker_epoch,
            ..Default::default()
        };
        match cluster
            .handle(0, AnyRequest::AllocateProducerIds(request))
            .response
        {
            AnyResponse::AllocateProducerIds(response) => response,
            other => panic!("{other:?}"),
        }
    };
    let epoch = cluster.broker_epoch(1);
    assert_eq!(allocate(&mut cluster, epoch).producer_id_start, 0);
    let second = allocate(&mut cluster, epoch);
    assert_eq!(
        (second.producer_id_start, second.producer_id_len),
        (1000, 1000)
    );
    assert_eq!(
        allocate(&mut cluster, epoch + 1).error_code,
        ErrorCode::StaleBrokerEpoch.code()
    );
}
