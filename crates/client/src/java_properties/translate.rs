//! From checked Java settings to librdkafka's names and values, and the list of what is lost on the way.
//! Not here: the tables of settings. Pure.
//! Kafka: the post-processing in ProducerConfig and ConsumerConfig.

use super::definition::{Row, Use};
use super::{ConfigError, JavaProperties, Role, jaas};

/// Settings for librdkafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    pub settings: Vec<(String, String)>,
    /// Java settings that have no effect here, each with the reason.
    pub not_honoured: Vec<(String, String)>,
}

impl Translated {
    fn set(&mut self, name: &str, value: impl ToString) {
        self.settings.push((name.to_owned(), value.to_string()));
    }

    fn lose(&mut self, name: &str, why: impl Into<String>) {
        self.not_honoured.push((name.to_owned(), why.into()));
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.settings
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

const REQUEST_TIMEOUT_MS: i64 = 30_000;

/// Checks every setting, then translates.
pub fn translate(role: Role, properties: &JavaProperties) -> Result<Translated, ConfigError> {
    let mut out = Translated::default();
    let mut protocol = "PLAINTEXT".to_owned();
    if let Some(value) = properties.get("security.protocol") {
        protocol = value.trim().to_ascii_uppercase();
    }
    let mut known: Vec<(&'static Row, &str)> = Vec::new();
    for (name, value) in properties.iter() {
        match role.find(name) {
            Some(row) => known.push((row, row.check(value).map_err(ConfigError::Invalid)?)),
            None => out.lose(name, "no such setting"),
        }
    }
    for (row, value) in known {
        // Java reads these only when the protocol needs them; librdkafka refuses them in a build without TLS.
        if row.name.starts_with("ssl.") && !protocol.ends_with("SSL")
            || row.name.starts_with("sasl.") && !protocol.starts_with("SASL")
        {
            continue;
        }
        match row.becomes {
            Use::As(name) => out.set(name, value),
            Use::Meaningless | Use::Special => {}
            Use::Unsupported if value.is_empty() => {}
            Use::Unsupported => out.lose(row.name, "librdkafka has no such setting"),
        }
    }
    security(role, properties, &protocol, &mut out)?;
    match role {
        Role::Producer => producer(properties, &mut out)?,
        Role::Consumer => consumer(properties, &mut out)?,
    }
    Ok(out)
}

fn producer(properties: &JavaProperties, out: &mut Translated) -> Result<(), ConfigError> {
    let acks_all = matches!(
        properties.get("acks").map(str::trim),
        None | Some("all" | "-1")
    );
    let retries = properties.number("retries", i64::from(i32::MAX));
    let in_flight = properties.number("max.in.flight.requests.per.connection", 5);
    let can_be_idempotent = acks_all && retries > 0 && in_flight <= 5;
    let idempotent = properties.is_true("enable.idempotence", can_be_idempotent);
    if idempotent && !can_be_idempotent {
        return Err(ConfigError::Invalid(
            if !acks_all {
                "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."
            } else if retries == 0 {
                "Must set retries to non-zero when using the idempotent producer."
            } else {
                "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
            }
            .into(),
        ));
    }
    out.set("enable.idempotence", idempotent);
    if properties.contains("transactional.id") {
        out.lose(
            "transactional.id",
            "this tool writes outside of transactions",
        );
    }

    let linger_ms = properties.number("linger.ms", 5);
    let request_ms = properties.number("request.timeout.ms", REQUEST_TIMEOUT_MS);
    let delivery_ms = properties.number("delivery.timeout.ms", 120_000);
    if delivery_ms < linger_ms.saturating_add(request_ms)
        && properties.contains("delivery.timeout.ms")
    {
        return Err(ConfigError::Construct {
            role: Role::Producer.name(),
            cause: "org.apache.kafka.common.config.ConfigException: delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms".into(),
        });
    }
    drop_setting(out, &["linger.ms", "message.timeout.ms", "batch.size"]);
    out.set("linger.ms", linger_ms.min(900_000));
    out.set(
        "message.timeout.ms",
        delivery_ms
            .max(linger_ms.saturating_add(request_ms))
            .clamp(1, i64::from(i32::MAX)),
    );
    out.set("request.timeout.ms", request_ms.clamp(1, 900_000));
    out.set("batch.size", properties.number("batch.size", 16_384).max(1));

    // Overhead per message is not in librdkafka's count of bytes, so that the number of messages is bounded as well.
    let buffer_bytes = properties.number("buffer.memory", 33_554_432);
    out.set(
        "queue.buffering.max.kbytes",
        (buffer_bytes / 1024).clamp(1, i64::from(i32::MAX)),
    );
    out.set("queue.buffering.max.messages", 200_000);
    // The size of a record is checked as Java counts it before librdkafka sees it.
    out.set(
        "message.max.bytes",
        (properties.number("max.request.size", 1_048_576) + 1024).clamp(1000, 1_000_000_000),
    );

    let compression = properties.get("compression.type").map_or("none", str::trim);
    out.set("compression.type", compression);
    let level_name = format!("compression.{compression}.level");
    if let Some(level) = properties.get(&level_name) {
        let wanted: i64 = level.trim().parse().unwrap_or(-1);
        let given = wanted.clamp(-1, 12);
        if given != wanted {
            out.lose(&level_name, format!("librdkafka's levels end at {given}"));
        }
        out.set("compression.level", given);
    }

    let partitioner = match properties.get("partitioner.class").map(str::trim) {
        None | Some("" | "org.apache.kafka.clients.producer.internals.DefaultPartitioner") => {
            if properties.is_true("partitioner.ignore.keys", false) {
                "random"
            } else {
                "murmur2_random"
            }
        }
        Some(
            "org.apache.kafka.clients.producer.RoundRobinPartitioner"
            | "org.apache.kafka.clients.producer.UniformStickyPartitioner",
        ) => "random",
        Some(class) => {
            return Err(ConfigError::Invalid(format!(
                "Invalid value {class} for configuration partitioner.class: Class {class} could not be found."
            )));
        }
    };
    out.set("partitioner", partitioner);
    Ok(())
}

fn consumer(properties: &JavaProperties, out: &mut Translated) -> Result<(), ConfigError> {
    let wait_ms = properties.number("fetch.max.wait.ms", 500);
    let request_ms = properties.number("request.timeout.ms", REQUEST_TIMEOUT_MS);
    // librdkafka refuses a request timeout within a second of the fetch's wait.
    out.set(
        "socket.timeout.ms",
        request_ms
            .max(wait_ms.saturating_add(1000))
            .clamp(10, 300_000),
    );
    out.set("fetch.queue.backoff.ms", 10);
    if !properties.contains("isolation.level") {
        out.set("isolation.level", "read_uncommitted");
    }
    if !properties.contains("allow.auto.create.topics") {
        out.set("allow.auto.create.topics", "true");
    }
    let reset = properties
        .get("auto.offset.reset")
        .map_or("latest", str::trim);
    match reset {
        "latest" | "earliest" => out.set("auto.offset.reset", reset),
        "none" => out.set("auto.offset.reset", "error"),
        _ if reset.starts_with("by_duration:") => {
            out.lose(
                "auto.offset.reset",
                "by_duration is not known to librdkafka; latest is used",
            );
            out.set("auto.offset.reset", "latest");
        }
        _ => {
            return Err(ConfigError::Invalid(format!(
                "Invalid value {reset} for configuration auto.offset.reset: Invalid value `{reset}` for configuration auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
            )));
        }
    }

    let new_protocol = properties
        .get("group.protocol")
        .is_some_and(|p| p.trim().eq_ignore_ascii_case("consumer"));
    drop_setting(out, &["group.protocol"]);
    out.set(
        "group.protocol",
        if new_protocol { "consumer" } else { "classic" },
    );
    if new_protocol {
        // The broker decides these there.
        return Ok(());
    }
    for name in ["session.timeout.ms", "heartbeat.interval.ms"] {
        if let Some(value) = properties.get(name) {
            out.set(name, value.trim());
        }
    }
    let mut strategies = Vec::new();
    if let Some(list) = properties.get("partition.assignment.strategy") {
        for class in list.split(',').map(str::trim) {
            match class.rsplit('.').next().unwrap_or(class) {
                "RangeAssignor" | "range" => strategies.push("range"),
                "RoundRobinAssignor" | "roundrobin" => strategies.push("roundrobin"),
                "CooperativeStickyAssignor" | "cooperative-sticky" => {
                    strategies.push("cooperative-sticky");
                }
                _ => out.lose(
                    "partition.assignment.strategy",
                    format!("{class} is not known to librdkafka"),
                ),
            }
        }
    }
    // librdkafka cannot offer eager and cooperative strategies together, as Java does by default.
    if strategies.iter().any(|s| *s != "cooperative-sticky") {
        strategies.retain(|s| *s != "cooperative-sticky");
    }
    if strategies.is_empty() {
        strategies.push("range");
    }
    out.set("partition.assignment.strategy", strategies.join(","));
    Ok(())
}

fn security(
    role: Role,
    properties: &JavaProperties,
    protocol: &str,
    out: &mut Translated,
) -> Result<(), ConfigError> {
    drop_setting(out, &["security.protocol"]);
    out.set("security.protocol", protocol);
    let construct = |cause: String| ConfigError::Construct {
        role: role.name(),
        cause,
    };
    if protocol.ends_with("SSL") {
        stores(properties, out).map_err(construct)?;
    }
    if !protocol.starts_with("SASL") {
        return Ok(());
    }
    let Some(line) = properties.get("sasl.jaas.config") else {
        return Ok(());
    };
    let jaas = jaas::parse(line)
        .map_err(|why| construct(format!("java.lang.IllegalArgumentException: {why}")))?;
    match jaas.module.rsplit('.').next() {
        Some("PlainLoginModule" | "ScramLoginModule") => {
            for (option, name) in [("username", "sasl.username"), ("password", "sasl.password")] {
                match jaas.option(option) {
                    Some(value) => out.set(name, value),
                    None => {
                        return Err(construct(format!(
                            "org.apache.kafka.common.KafkaException: sasl.jaas.config has no {option}"
                        )));
                    }
                }
            }
        }
        Some("Krb5LoginModule") => {
            for (option, name) in [
                ("keyTab", "sasl.kerberos.keytab"),
                ("principal", "sasl.kerberos.principal"),
            ] {
                if let Some(value) = jaas.option(option) {
                    out.set(name, value);
                }
            }
        }
        Some("OAuthBearerLoginModule") => {
            for (option, name) in [
                ("clientId", "sasl.oauthbearer.client.id"),
                ("clientSecret", "sasl.oauthbearer.client.secret"),
                ("scope", "sasl.oauthbearer.scope"),
            ] {
                if let Some(value) = jaas.option(option) {
                    out.set(name, value);
                }
            }
        }
        _ => {
            return Err(construct(format!(
                "javax.security.auth.login.LoginException: No LoginModule found for {}",
                jaas.module
            )));
        }
    }
    Ok(())
}

/// Trust and key stores: PEM (and PKCS#12 for keys) can be read here, Java's own format cannot.
fn stores(properties: &JavaProperties, out: &mut Translated) -> Result<(), String> {
    let store_type = |name: &str, location: &str| {
        properties.get(name).map_or_else(
            || {
                if [".pem", ".crt", ".cer"]
                    .iter()
                    .any(|end| location.ends_with(end))
                {
                    "PEM".to_owned()
                } else {
                    "JKS".to_owned()
                }
            },
            |given| given.trim().to_ascii_uppercase(),
        )
    };
    if let Some(location) = properties.get("ssl.truststore.location") {
        match store_type("ssl.truststore.type", location).as_str() {
            "PEM" => out.set("ssl.ca.location", location),
            other => {
                return Err(format!(
                    "ssl.truststore.location={location} is read as {other}, but only PEM can be read here. Export the certificates \
                     (keytool -exportcert -rfc -keystore {location} -alias NAME -file ca.pem) and set \
                     ssl.truststore.location=ca.pem and ssl.truststore.type=PEM"
                ));
            }
        }
    }
    if let Some(location) = properties.get("ssl.keystore.location") {
        match store_type("ssl.keystore.type", location).as_str() {
            "PEM" => {
                out.set("ssl.certificate.location", location);
                out.set("ssl.key.location", location);
            }
            "PKCS12" => out.set("ssl.keystore.location", location),
            other => {
                return Err(format!(
                    "ssl.keystore.location={location} is read as {other}, but only PKCS12 and PEM can be read here. Convert it \
                     (keytool -importkeystore -srckeystore {location} -destkeystore keys.p12 -deststoretype PKCS12) and set \
                     ssl.keystore.location=keys.p12 and ssl.keystore.type=PKCS12"
                ));
            }
        }
    }
    if let Some(list) = properties.get("ssl.endpoint.identification.algorithm") {
        drop_setting(out, &["ssl.endpoint.identification.algorithm"]);
        let off = list.trim().is_empty();
        out.set(
            "ssl.endpoint.identification.algorithm",
            if off { "none" } else { "https" },
        );
    }
    if let Some(suites) = properties.get("ssl.cipher.suites") {
        drop_setting(out, &["ssl.cipher.suites"]);
        out.set("ssl.cipher.suites", suites.replace(',', ":"));
    }
    Ok(())
}

fn drop_setting(out: &mut Translated, names: &[&str]) {
    out.settings
        .retain(|(name, _)| !names.contains(&name.as_str()));
}
