use super::*;

fn properties(text: &str) -> JavaProperties {
    let mut properties = JavaProperties::new();
    properties.put_all(
        text.split_whitespace()
            .map(|entry| entry.split_once('=').unwrap()),
    );
    properties
}

fn producer(text: &str) -> Result<Translated, String> {
    translate(Role::Producer, &properties(text)).map_err(|e| e.to_string())
}

fn consumer(text: &str) -> Result<Translated, String> {
    translate(Role::Consumer, &properties(text)).map_err(|e| e.to_string())
}

#[test]
fn renamed_settings() {
    let p = producer("send.buffer.bytes=102400 delivery.timeout.ms=60000 max.in.flight.requests.per.connection=3").unwrap();
    assert_eq!(p.get("socket.send.buffer.bytes"), Some("102400"));
    assert_eq!(p.get("message.timeout.ms"), Some("60000"));
    assert_eq!(p.get("max.in.flight.requests.per.connection"), Some("3"));
    let c =
        consumer("fetch.max.wait.ms=100 receive.buffer.bytes=1 auto.offset.reset=none").unwrap();
    assert_eq!(c.get("fetch.wait.max.ms"), Some("100"));
    assert_eq!(c.get("socket.receive.buffer.bytes"), Some("1"));
    assert_eq!(c.get("auto.offset.reset"), Some("error"));
}

#[test]
fn javas_defaults_where_librdkafkas_differ() {
    let p = producer("").unwrap();
    assert_eq!(p.get("partitioner"), Some("murmur2_random"));
    assert_eq!(p.get("enable.idempotence"), Some("true"));
    assert_eq!(p.get("batch.size"), Some("16384"));
    assert_eq!(p.get("linger.ms"), Some("5"));
    assert_eq!(p.get("queue.buffering.max.kbytes"), Some("32768"));
    let c = consumer("").unwrap();
    assert_eq!(c.get("isolation.level"), Some("read_uncommitted"));
    assert_eq!(c.get("allow.auto.create.topics"), Some("true"));
    assert_eq!(c.get("partition.assignment.strategy"), Some("range"));
}

#[test]
fn idempotence_follows_acks_unless_asked_for() {
    assert_eq!(
        producer("acks=1").unwrap().get("enable.idempotence"),
        Some("false")
    );
    assert_eq!(
        producer("retries=0").unwrap().get("enable.idempotence"),
        Some("false")
    );
    assert!(
        producer("acks=1 enable.idempotence=true")
            .unwrap_err()
            .contains("Must set acks to all")
    );
    assert!(
        producer("retries=0 enable.idempotence=true")
            .unwrap_err()
            .contains("Must set retries to non-zero")
    );
}

#[test]
fn values_are_refused_in_javas_words() {
    for (text, message) in [
        (
            "linger.ms=notanumber",
            "Invalid value notanumber for configuration linger.ms: Not a number of type LONG",
        ),
        (
            "acks=7",
            "Invalid value 7 for configuration acks: String must be one of: all, -1, 0, 1",
        ),
        (
            "batch.size=-1",
            "Invalid value -1 for configuration batch.size: Value must be at least 0",
        ),
        (
            "compression.type=nonesuch",
            "Invalid value nonesuch for configuration compression.type: String must be one of: none, gzip, snappy, lz4, zstd",
        ),
        (
            "security.protocol=banana",
            "Invalid value banana for configuration security.protocol: String must be one of (case insensitive): SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT",
        ),
        (
            "enable.idempotence=maybe",
            "Invalid value maybe for configuration enable.idempotence: Expected value to be either true or false",
        ),
        (
            "partitioner.class=no.such.Class",
            "Invalid value no.such.Class for configuration partitioner.class: Class no.such.Class could not be found.",
        ),
    ] {
        assert_eq!(
            producer(text).unwrap_err(),
            format!("org.apache.kafka.common.config.ConfigException: {message}")
        );
    }
    assert_eq!(
        consumer("isolation.level=sideways").unwrap_err(),
        "org.apache.kafka.common.config.ConfigException: Invalid value sideways for configuration isolation.level: String must be one of: read_committed, read_uncommitted"
    );
    assert!(
        producer("delivery.timeout.ms=100")
            .unwrap_err()
            .contains("should be equal to or larger")
    );
}

#[test]
fn what_is_lost_is_said() {
    let p =
        producer("no.such.setting=1 interceptor.classes=x key.serializer=y interceptor.classes=x")
            .unwrap();
    let names: Vec<&str> = p.not_honoured.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["no.such.setting", "interceptor.classes"]);
}

#[test]
fn sasl_and_tls() {
    let mut given = properties("security.protocol=SASL_PLAINTEXT sasl.mechanism=SCRAM-SHA-256");
    given.put(
        "sasl.jaas.config",
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" password=\"p\";",
    );
    let t = translate(Role::Consumer, &given).unwrap();
    assert_eq!(t.get("sasl.username"), Some("u"));
    assert_eq!(t.get("sasl.password"), Some("p"));
    assert_eq!(t.get("security.protocol"), Some("SASL_PLAINTEXT"));

    let pem =
        consumer("security.protocol=ssl ssl.truststore.location=/x/ca.pem ssl.truststore.type=PEM")
            .unwrap();
    assert_eq!(pem.get("ssl.ca.location"), Some("/x/ca.pem"));
    let jks = consumer("security.protocol=SSL ssl.truststore.location=/x/trust.jks").unwrap_err();
    assert!(jks.contains("only PEM") && jks.contains("keytool"), "{jks}");
    // As in Java, nothing about TLS matters on a plain connection.
    assert_eq!(
        consumer("ssl.truststore.location=/x/trust.jks")
            .unwrap()
            .get("ssl.ca.location"),
        None
    );
}

#[test]
fn the_new_group_protocol_leaves_session_settings_to_the_broker() {
    let c = consumer("group.protocol=CONSUMER session.timeout.ms=1000").unwrap();
    assert_eq!(c.get("group.protocol"), Some("consumer"));
    assert_eq!(c.get("session.timeout.ms"), None);
    assert_eq!(c.get("partition.assignment.strategy"), None);
    assert_eq!(
        consumer("session.timeout.ms=1000")
            .unwrap()
            .get("session.timeout.ms"),
        Some("1000")
    );
}

/// Every name that the tables map to is one that librdkafka knows.
#[cfg(feature = "rdkafka")]
#[test]
fn librdkafka_knows_the_names() {
    use super::definition::Use;
    for row in rows::COMMON
        .iter()
        .chain(rows::PRODUCER)
        .chain(rows::CONSUMER)
    {
        let Use::As(name) = row.becomes else { continue };
        if name.starts_with("ssl.") || name.starts_with("sasl.oauthbearer") {
            continue; // absent from a build without TLS
        }
        let mut config = rdkafka::ClientConfig::new();
        config.set(name, "nonsense-\u{1}");
        if let Err(rdkafka::error::KafkaError::ClientConfig(kind, text, ..)) =
            config.create_native_config().map(|_| ())
        {
            assert!(
                kind != rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN,
                "{name}: {text}"
            );
        }
    }
}
