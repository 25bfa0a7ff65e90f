//! The options of kafka-console-consumer, from 2.x to 4.x, and what they make of the consumer's settings.
//! Not here: consuming, formatters. Files named on the command line are read here.
//! Runs once, before anything is connected.
//! Kafka: org.apache.kafka.tools.consumer.ConsoleConsumerOptions.

use super::formatter::Formatter;
use super::times;
use crate::args::{ArgumentError, Kind, Options, Parsed, Spec, flag, option};
use crate::exit::Stop;
use crate::files;
use crate::output::{self, Level};
use kavka_client::consumer::Start;
use kavka_client::java_properties::JavaProperties;
use kavka_common::clock::{Clock, SystemClock};
use std::ffi::OsString;

const FORMATTER_PROPERTIES: &str =
    "Setting of the formatter, key=value; may be repeated. The default formatter knows:
 print.timestamp=true|false
 print.key=true|false
 print.offset=true|false
 print.epoch=true|false
 print.partition=true|false
 print.headers=true|false
 print.value=true|false
 key.separator=\\t
 line.separator=\\n
 headers.separator=,
 null.literal=null
 key.deserializer, value.deserializer, headers.deserializer";

const SPECS: &[Spec] = &[
    option(
        &["bootstrap-server"],
        Kind::String,
        "server to connect to",
        "REQUIRED: Brokers to ask first, as HOST1:PORT1,HOST2:PORT2.",
    ),
    option(&["topic"], Kind::String, "topic", "The topic to read."),
    option(
        &["include", "whitelist"],
        Kind::String,
        "Java regex (String)",
        "Read every topic whose name matches.",
    ),
    option(
        &["partition"],
        Kind::Integer,
        "partition",
        "Read only this partition, from its end unless --offset says otherwise.",
    ),
    option(
        &["offset"],
        Kind::String,
        "consume offset",
        "Where to begin in --partition: an offset, earliest or latest.",
    )
    .default("latest"),
    flag(
        &["from-beginning"],
        "Begin with the oldest record where the group has no committed offset.",
    ),
    option(
        &["from-time"],
        Kind::String,
        "time",
        "Begin with the first record of this time or later, in every partition and without a group: milliseconds, 2026-12-01T10:00:00Z, or -15m.",
    ),
    option(
        &["to-time"],
        Kind::String,
        "time",
        "Stop after the last record of this time or earlier.",
    ),
    option(
        &["max-messages"],
        Kind::Integer,
        "num_messages",
        "Stop after so many records.",
    ),
    option(
        &["timeout-ms"],
        Kind::Long,
        "timeout_ms",
        "Stop when no record has come for so long.",
    ),
    option(
        &["group"],
        Kind::String,
        "consumer group id",
        "The consumer group; a fresh one by default.",
    ),
    option(
        &["isolation-level"],
        Kind::String,
        "",
        "read_committed hides records of open and aborted transactions.",
    )
    .default("read_uncommitted"),
    flag(
        &["skip-message-on-error"],
        "Go on after a record that cannot be printed.",
    ),
    option(
        &["formatter"],
        Kind::String,
        "class",
        "The formatter's class name.",
    )
    .default("org.apache.kafka.tools.consumer.DefaultMessageFormatter"),
    option(
        &["formatter-property"],
        Kind::String,
        "prop",
        FORMATTER_PROPERTIES,
    ),
    option(
        &["formatter-config"],
        Kind::String,
        "config file",
        "File with settings of the formatter; --formatter-property wins over it.",
    ),
    option(
        &["format"],
        Kind::String,
        "format string",
        "Print by a format string instead, for example '%t %p %o %k %v %h\\n'; %T is the timestamp, %K and %V are lengths.",
    ),
    option(
        &["property"],
        Kind::String,
        "prop",
        "(DEPRECATED) Use --formatter-property.",
    ),
    option(
        &["key-deserializer"],
        Kind::String,
        "deserializer for keys",
        "Class that reads keys.",
    ),
    option(
        &["value-deserializer"],
        Kind::String,
        "deserializer for values",
        "Class that reads values.",
    ),
    option(
        &["command-property"],
        Kind::String,
        "consumer_prop",
        "Setting of the consumer, key=value; may be repeated.",
    ),
    option(
        &["consumer-property"],
        Kind::String,
        "consumer_prop",
        "(DEPRECATED) Use --command-property.",
    ),
    option(
        &["command-config"],
        Kind::String,
        "config file",
        "File with settings of the consumer; --command-property wins over it.",
    ),
    option(
        &["consumer.config"],
        Kind::String,
        "config file",
        "(DEPRECATED) Use --command-config.",
    ),
    flag(
        &["enable-systest-events"],
        "Print a line when the consumer has shut down.",
    ),
    flag(
        &["strict"],
        "Exit with 1 when the tool ends because of an error, 2 for a wrong command line, 3 when no broker answers, 4 when access is denied.",
    ),
    flag(&["new-consumer"], "Of 1.x; has no effect."),
    flag(&["help"], "Print this."),
    flag(
        &["version"],
        "Print the version of Kafka whose tool this is.",
    ),
];

pub const OPTIONS: Options = Options::new(SPECS);

const LOGGER: &str = "org.apache.kafka.tools.consumer.DefaultMessageFormatter";

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Topic(String),
    Matching(String),
    Partition(String, i32, Start),
}

/// A part of the log between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from_ms: Option<i64>,
    pub to_ms: Option<i64>,
}

/// What the command line asks for.
#[derive(Debug)]
pub struct Configuration {
    pub source: Source,
    pub window: Option<Window>,
    /// An unreadable number is complained about only once there is a consumer.
    pub max_messages: Result<Option<u64>, String>,
    pub timeout_ms: Option<i64>,
    pub skip_on_error: bool,
    pub systest_events: bool,
    pub strict: bool,
    pub formatter: Formatter,
    pub consumer: JavaProperties,
}

fn usage(error: ArgumentError) -> Stop {
    Stop::Usage(error.to_string())
}

/// The exception of a failed conversion with its causes, as Java prints the chain.
pub fn exception_chain(error: &ArgumentError) -> String {
    match error {
        ArgumentError::Conversion { cause, .. } => format!(
            "{}: {error}\nCaused by: joptsimple.internal.ReflectionException: {cause}\nCaused by: {cause}",
            error.exception()
        ),
        _ => format!("{}: {error}", error.exception()),
    }
}

fn uncaught(error: ArgumentError) -> Stop {
    Stop::Failed(format!(
        "Exception in thread \"main\" {}",
        exception_chain(&error)
    ))
}

pub fn configure<I: IntoIterator<Item = OsString>>(arguments: I) -> Result<Configuration, Stop> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let nothing = arguments.is_empty();
    let parsed = OPTIONS.parse(arguments).map_err(usage)?;
    if nothing || parsed.has("help") {
        return Err(Stop::Usage(
            "This tool reads records from Kafka topics and prints them on standard output.".into(),
        ));
    }
    if parsed.has("version") {
        return Err(Stop::Version);
    }
    parsed.require(&["bootstrap-server"]).map_err(Stop::Usage)?;
    let source = source(&parsed)?;
    let window = window(&parsed)?;
    warn_deprecated(&parsed);
    let formatter = formatter(&parsed)?;
    let consumer = consumer_properties(&parsed)?;
    Ok(Configuration {
        source,
        window,
        max_messages: match parsed.int("max-messages") {
            // A negative count means no limit.
            Ok(count) => Ok(count.and_then(|n| u64::try_from(n).ok())),
            Err(e) => Err(exception_chain(&e)),
        },
        timeout_ms: parsed.long("timeout-ms").map_err(uncaught)?,
        skip_on_error: parsed.has("skip-message-on-error"),
        systest_events: parsed.has("enable-systest-events"),
        strict: parsed.has("strict"),
        formatter,
        consumer,
    })
}

fn source(parsed: &Parsed) -> Result<Source, Stop> {
    let refuse = |text: &str| Err(Stop::Usage(text.into()));
    let single = |name: &str| -> Result<String, Stop> {
        Ok(parsed
            .value(name)
            .map_err(|e| unknown_error(&exception_chain(&e)))?
            .unwrap_or_default()
            .to_owned())
    };
    if parsed.has("topic") == parsed.has("include") {
        if parsed.has("partition") && !parsed.has("topic") {
            return refuse("The topic is required when partition is specified.");
        }
        return refuse("Exactly one of the following arguments is required: [topic], [include]");
    }
    if !parsed.has("partition") {
        if parsed.has("offset") {
            return refuse("The partition is required when offset is specified.");
        }
        return Ok(if parsed.has("topic") {
            Source::Topic(single("topic")?)
        } else {
            Source::Matching(single("include")?)
        });
    }
    if !parsed.has("topic") {
        return refuse("The topic is required when partition is specified.");
    }
    if parsed.has("from-beginning") && parsed.has("offset") {
        return refuse("Options from-beginning and offset cannot be specified together.");
    }
    if parsed.has("group") {
        return refuse("Options group and partition cannot be specified together.");
    }
    let text = parsed.value("offset").map_err(usage)?.unwrap_or("latest");
    let start = match text.to_ascii_lowercase().as_str() {
        _ if parsed.has("from-beginning") => Start::Earliest,
        "earliest" => Start::Earliest,
        "latest" => Start::Latest,
        number => match number.parse() {
            Ok(offset) if offset >= 0 => Start::At(offset),
            _ => {
                return Err(Stop::Usage(format!(
                    "The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
                )));
            }
        },
    };
    let partition = parsed.int("partition").map_err(uncaught)?.unwrap_or(0);
    Ok(Source::Partition(single("topic")?, partition, start))
}

fn window(parsed: &Parsed) -> Result<Option<Window>, Stop> {
    let now_ms = SystemClock::new().wall_ms();
    let moment = |name: &str| -> Result<Option<i64>, Stop> {
        let Some(text) = parsed.value(name).map_err(usage)? else {
            return Ok(None);
        };
        times::parse(text, now_ms).map(Some).ok_or_else(|| {
            Stop::Usage(format!(
                "--{name} {text} is not a time: give milliseconds since 1970, a date like 2026-12-01T10:00:00Z, or a while ago like -15m."
            ))
        })
    };
    let window = Window {
        from_ms: moment("from-time")?,
        to_ms: moment("to-time")?,
    };
    if window.from_ms.is_none() && window.to_ms.is_none() {
        return Ok(None);
    }
    for other in ["group", "offset"] {
        if parsed.has(other) {
            return Err(Stop::Usage(format!(
                "Options from-time and to-time cannot be specified together with {other}: they say themselves where to begin."
            )));
        }
    }
    if let (Some(from), Some(to)) = (window.from_ms, window.to_ms)
        && from > to
    {
        return Err(Stop::Usage("--from-time is later than --to-time.".into()));
    }
    Ok(Some(window))
}

fn warn_deprecated(parsed: &Parsed) {
    let mut warnings = String::new();
    for (old, new) in [
        ("property", "formatter-property"),
        ("consumer-property", "command-property"),
        ("consumer.config", "command-config"),
    ] {
        if parsed.has(old) {
            warnings.push_str(&format!(
                "Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.\n"
            ));
        }
    }
    // Standard output is for records.
    output::error(&warnings);
}

fn formatter(parsed: &Parsed) -> Result<Formatter, Stop> {
    if let Some(template) = parsed.value("format").map_err(usage)? {
        return Formatter::of_template(template).map_err(Stop::Usage);
    }
    let mut properties = Vec::new();
    if let Some(path) = parsed.value("formatter-config").map_err(usage)? {
        properties.extend(files::properties(path)?);
    }
    properties.extend(parsed.properties("property"));
    properties.extend(parsed.properties("formatter-property"));
    for (option, name) in [
        ("key-deserializer", "key.deserializer"),
        ("value-deserializer", "value.deserializer"),
    ] {
        if let Some(class) = parsed.value(option).map_err(usage)?
            && !class.is_empty()
        {
            properties.push((name.into(), class.to_owned()));
        }
    }
    let class = parsed
        .value("formatter")
        .map_err(usage)?
        .unwrap_or_default();
    Formatter::of_class(class, &properties, &mut |class| {
        output::log_with(
            Level::Error,
            &format!("Unable to instantiate a deserializer from {class}"),
            LOGGER,
            Some(&format!("java.lang.ClassNotFoundException: {class}")),
        );
    })
    .ok_or_else(|| Stop::Usage(class.to_owned()))
}

fn consumer_properties(parsed: &Parsed) -> Result<JavaProperties, Stop> {
    let mut properties = JavaProperties::new();
    let mut file = Vec::new();
    for option in ["consumer.config", "command-config"] {
        if let Some(path) = parsed.value(option).map_err(usage)? {
            file.extend(files::properties(path).map_err(|stop| match stop {
                Stop::Failed(text) => Stop::Failed(format!("Exception in thread \"main\" {text}")),
                other => other,
            })?);
        }
    }
    let mut given = parsed.properties("consumer-property");
    given.extend(parsed.properties("command-property"));
    let group = group(parsed, &file, &given)?;
    properties.put_all(file);
    properties.put_all(given);

    let servers = parsed
        .value("bootstrap-server")
        .map_err(usage)?
        .unwrap_or_default();
    properties.put("bootstrap.servers", servers);
    properties.put_if_absent("client.id", "console-consumer");
    let isolation = parsed
        .value("isolation-level")
        .map_err(usage)?
        .unwrap_or_default();
    if parsed.has("isolation-level") || !properties.contains("isolation.level") {
        properties.put("isolation.level", isolation);
    }
    if parsed.has("from-time") || parsed.has("to-time") {
        // Looking at the past creates nothing.
        properties.put_if_absent("allow.auto.create.topics", "false");
    }
    let from_beginning = parsed.has("from-beginning");
    match properties.get("auto.offset.reset").map(str::to_owned) {
        Some(reset) if from_beginning && reset != "earliest" => {
            return Err(Stop::Failed(format!(
                "Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
            )));
        }
        Some(_) => {}
        None => properties.put(
            "auto.offset.reset",
            if from_beginning { "earliest" } else { "latest" },
        ),
    }
    match group {
        Some(group) => properties.put("group.id", group),
        None => {
            // Nobody can go on from a group whose name is drawn by lot.
            let mut seed = [0; 4];
            let _ = getrandom::fill(&mut seed);
            let number = u32::from_ne_bytes(seed) % 100_000;
            properties.put("group.id", format!("console-consumer-{number}"));
            properties.put_if_absent("enable.auto.commit", "false");
        }
    }
    Ok(properties)
}

/// The group's name, which all places that name one must agree on.
fn group(
    parsed: &Parsed,
    file: &[(String, String)],
    given: &[(String, String)],
) -> Result<Option<String>, Stop> {
    let named = |properties: &[(String, String)]| {
        properties
            .iter()
            .rev()
            .find(|(name, _)| name == "group.id")
            .map(|(_, value)| value.clone())
    };
    let option = parsed.value("group").map_err(usage)?.map(str::to_owned);
    let mut groups: Vec<String> = Vec::new();
    for group in [option, named(given), named(file)].into_iter().flatten() {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    if groups.len() > 1 {
        let list: Vec<String> = groups.iter().map(|g| format!("'{g}'")).collect();
        return Err(Stop::Usage(format!(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer.config') do not match. Detected group ids: {}",
            list.join(", ")
        )));
    }
    Ok(groups.pop())
}

/// What Java's main says about an exception that nothing expected.
pub fn unknown_error(exception: &str) -> Stop {
    output::log_with(
        Level::Error,
        "Unknown error when running consumer: ",
        super::LOGGER,
        Some(exception),
    );
    Stop::Silent(1)
}
