//! The options of kafka-console-producer, from 2.x to 4.x, and what they make of the producer's settings.
//! Not here: reading and sending. Files named on the command line are read here.
//! Runs once, before anything is connected.
//! Kafka: org.apache.kafka.tools.ConsoleProducer.ConsoleProducerOptions.

use crate::args::{Kind, Options, Parsed, Spec, flag, option};
use crate::console_producer::record_reader::RecordReader;
use crate::exit::Stop;
use crate::files;
use crate::output;
use kavka_client::java_properties::JavaProperties;
use std::ffi::OsString;

const READER_PROPERTIES: &str = "Setting of the line reader, key=value; may be repeated. Known are:
 parse.key=false
 parse.headers=false
 ignore.error=false
 key.separator=\\t
 headers.delimiter=\\t
 headers.separator=,
 headers.key.separator=:
 null.marker=
With parse.headers and parse.key a line is
 \"h1:v1,h2:v2...\\tkey\\tvalue\".";

const SPECS: &[Spec] = &[
    option(&["topic"], Kind::String, "topic", "REQUIRED: The topic to write to."),
    option(&["bootstrap-server"], Kind::String, "server to connect to", "REQUIRED unless --broker-list is given: Brokers to ask first, as HOST1:PORT1,HOST2:PORT2."),
    option(&["broker-list"], Kind::String, "broker-list", "The 2.x name of --bootstrap-server; prompts as 2.x did."),
    flag(&["sync"], "Wait for each record's acknowledgement before the next line is read."),
    option(&["compression-codec"], Kind::String, "compression-codec", "none, gzip, snappy, lz4 or zstd; gzip when no value follows.").optional_argument(),
    option(&["batch-size"], Kind::Integer, "size", "Bytes collected for a partition before they are sent: `batch.size`.").default("16384"),
    option(&["message-send-max-retries"], Kind::Integer, "", "How often a failed send is tried again: `retries`.").default("3"),
    option(&["retry-backoff-ms"], Kind::Long, "", "Pause before such a try: `retry.backoff.ms`.").default("100"),
    option(&["timeout"], Kind::Long, "timeout_ms", "How long a record may wait for company: `linger.ms`.").default("1000"),
    option(&["queue-size"], Kind::Integer, "queue_size", "Of 2.x; has no effect.").default("10000"),
    option(&["request-required-acks"], Kind::String, "request required acks", "0, 1, or all (-1): `acks`.").default("-1"),
    option(&["request-timeout-ms"], Kind::Integer, "request timeout ms", "How long the broker may take to acknowledge: `request.timeout.ms`.").default("1500"),
    option(&["metadata-expiry-ms"], Kind::Long, "metadata expiration interval", "How long what is known of the cluster is trusted: `metadata.max.age.ms`.").default("300000"),
    option(&["max-block-ms"], Kind::Long, "max block on send", "How long a record may wait for the topic to be known and for room in memory: `max.block.ms`.").default("60000"),
    option(&["max-memory-bytes"], Kind::Long, "total memory in bytes", "Memory for records on their way: `buffer.memory`.").default("33554432"),
    option(&["max-partition-memory-bytes"], Kind::Integer, "memory in bytes per partition", "(DEPRECATED) Use --batch-size.").default("16384"),
    option(&["line-reader"], Kind::String, "reader_class", "The class that turns lines into records; only Kafka's own is known.").default("org.apache.kafka.tools.LineMessageReader"),
    option(&["socket-buffer-size"], Kind::Integer, "size", "The socket's send buffer: `send.buffer.bytes`.").default("102400"),
    option(&["property"], Kind::String, "prop", "(DEPRECATED) Use --reader-property."),
    option(&["reader-property"], Kind::String, "prop", READER_PROPERTIES),
    option(&["reader-config"], Kind::String, "config file", "File with settings of the line reader; --reader-property wins over it."),
    option(&["producer-property"], Kind::String, "producer_prop", "(DEPRECATED) Use --command-property."),
    option(&["command-property"], Kind::String, "producer_prop", "Setting of the producer, key=value; may be repeated."),
    option(&["producer.config"], Kind::String, "config file", "(DEPRECATED) Use --command-config."),
    option(&["command-config"], Kind::String, "config file", "File with settings of the producer; --command-property wins over it."),
    flag(
        &["strict"],
        "Exit with 1 when a record was lost, 2 for a wrong command line, 3 when no broker answers, 4 when access is denied.",
    ),
    flag(&["help"], "Print this."),
    flag(&["version"], "Print the version of Kafka whose tool this is."),
];

pub const OPTIONS: Options = Options::new(SPECS);

/// What the command line asks for.
#[derive(Debug)]
pub struct Configuration {
    pub topic: String,
    pub sync: bool,
    pub strict: bool,
    /// Called in the 2.x way.
    pub old_style: bool,
    pub reader: RecordReader,
    pub producer: JavaProperties,
}

pub fn configure<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<Configuration, Stop> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let nothing = arguments.is_empty();
    let usage = |e: crate::args::ArgumentError| Stop::Usage(e.to_string());
    let parsed = OPTIONS.parse(arguments).map_err(usage)?;
    if nothing || parsed.has("help") {
        return Err(Stop::Usage(
            "This tool reads lines from standard input and writes them to a Kafka topic.".into(),
        ));
    }
    if parsed.has("version") {
        return Err(Stop::Version);
    }
    let old_style = parsed.has("broker-list") && !parsed.has("bootstrap-server");
    parsed.require(&["topic"]).map_err(Stop::Usage)?;
    let topic = parsed
        .value("topic")
        .map_err(usage)?
        .unwrap_or_default()
        .to_owned();
    let servers = parsed
        .value(if old_style {
            "broker-list"
        } else {
            "bootstrap-server"
        })
        .map_err(usage)?;
    let servers = match servers {
        Some(servers) => servers.to_owned(),
        None => {
            return Err(Stop::Usage(
                "Error while validating the bootstrap address\n".into(),
            ));
        }
    };
    check_host_ports(&servers)?;
    if !old_style {
        warn_deprecated(&parsed);
    }

    let mut reader_properties = Vec::new();
    if let Some(path) = parsed.value("reader-config").map_err(usage)? {
        reader_properties.extend(files::properties(path)?);
    }
    reader_properties.extend(parsed.properties("property"));
    reader_properties.extend(parsed.properties("reader-property"));
    let reader_class = parsed
        .value("line-reader")
        .map_err(usage)?
        .unwrap_or_default();
    if !matches!(
        reader_class,
        "org.apache.kafka.tools.LineMessageReader"
            | "kafka.tools.ConsoleProducer$LineMessageReader"
            | "org.apache.kafka.tools.ConsoleProducer$LineMessageReader"
    ) {
        return Err(Stop::exception(
            "java.lang.ClassNotFoundException",
            reader_class,
        ));
    }
    let producer = producer_properties(&parsed, &servers)?;
    let reader = RecordReader::from_properties(&reader_properties, old_style)?;
    Ok(Configuration {
        topic,
        sync: parsed.has("sync"),
        strict: parsed.has("strict"),
        old_style,
        reader,
        producer,
    })
}

fn warn_deprecated(parsed: &Parsed) {
    let mut warnings = String::new();
    for (old, new, when) in [
        ("property", "reader-property", "a future version"),
        ("producer-property", "command-property", "a future version"),
        ("producer.config", "command-config", "a future version"),
        (
            "max-partition-memory-bytes",
            "batch-size",
            "Apache Kafka 5.0",
        ),
    ] {
        if parsed.has(old) {
            warnings.push_str(&format!(
                "Warning: --{old} is deprecated and will be removed in {when}. Use --{new} instead.\n"
            ));
        }
    }
    // Standard output is for data, here and in the consumer.
    output::error(&warnings);
}

/// Every server needs a host and a port.
fn check_host_ports(servers: &str) -> Result<(), Stop> {
    let valid = servers.split(',').map(str::trim).all(|server| {
        server
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    });
    if valid {
        Ok(())
    } else {
        Err(Stop::Usage(
            "Please provide valid host:port like host1:9091,host2:9092\n".into(),
        ))
    }
}

fn producer_properties(parsed: &Parsed, servers: &str) -> Result<JavaProperties, Stop> {
    let usage = |e: crate::args::ArgumentError| Stop::Usage(e.to_string());
    let mut properties = JavaProperties::new();
    for option in ["producer.config", "command-config"] {
        if let Some(path) = parsed.value(option).map_err(usage)? {
            properties.put_all(files::properties(path)?);
        }
    }
    properties.put_all(parsed.properties("producer-property"));
    properties.put_all(parsed.properties("command-property"));
    properties.put("bootstrap.servers", servers);
    if parsed.has("compression-codec") {
        let codec = parsed.value("compression-codec").map_err(usage)?;
        properties.put(
            "compression.type",
            codec.filter(|c| !c.is_empty()).unwrap_or("gzip"),
        );
    }
    properties.put_if_absent("client.id", "console-producer");

    // An option wins over a property, a property over the option's default.
    let text = |option: &str| -> Result<Option<String>, Stop> {
        Ok(parsed.value(option).map_err(usage)?.map(str::to_owned))
    };
    let int = |option: &str| -> Result<Option<String>, Stop> {
        Ok(parsed.int(option).map_err(usage)?.map(|n| n.to_string()))
    };
    let long = |option: &str| -> Result<Option<String>, Stop> {
        Ok(parsed.long(option).map_err(usage)?.map(|n| n.to_string()))
    };
    let mut merge = |name: &str, option: &str, value: Option<String>| {
        if let Some(value) = value
            && (parsed.has(option) || !properties.contains(name))
        {
            properties.put(name, value);
        }
    };
    merge("linger.ms", "timeout", long("timeout")?);
    merge(
        "acks",
        "request-required-acks",
        text("request-required-acks")?,
    );
    merge(
        "request.timeout.ms",
        "request-timeout-ms",
        int("request-timeout-ms")?,
    );
    merge(
        "retries",
        "message-send-max-retries",
        int("message-send-max-retries")?,
    );
    merge(
        "retry.backoff.ms",
        "retry-backoff-ms",
        long("retry-backoff-ms")?,
    );
    merge(
        "send.buffer.bytes",
        "socket-buffer-size",
        int("socket-buffer-size")?,
    );
    merge(
        "buffer.memory",
        "max-memory-bytes",
        long("max-memory-bytes")?,
    );
    merge("batch.size", "batch-size", int("batch-size")?);
    if parsed.has("max-partition-memory-bytes") {
        merge(
            "batch.size",
            "max-partition-memory-bytes",
            int("max-partition-memory-bytes")?,
        );
    }
    merge(
        "metadata.max.age.ms",
        "metadata-expiry-ms",
        long("metadata-expiry-ms")?,
    );
    merge("max.block.ms", "max-block-ms", long("max-block-ms")?);
    Ok(properties)
}
