//! One row of a settings table and how a text becomes a checked value by it, with Kafka's refusals.
//! Not here: the rows (`generated`, made from tables/*.tsv), rules across several keys (`broker/checks`).
//! Pure data. Kafka: ConfigDef.ConfigKey, ConfigDef.parseValue and its validators.

use crate::error::ConfigError;
use crate::value::{Value, java_double, java_list, java_trim, parse_java_double};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    Int,
    Short,
    Long,
    Double,
    String,
    List,
    Class,
    Password,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "BOOLEAN",
            Kind::Int => "INT",
            Kind::Short => "SHORT",
            Kind::Long => "LONG",
            Kind::Double => "DOUBLE",
            Kind::String => "STRING",
            Kind::List => "LIST",
            Kind::Class => "CLASS",
            Kind::Password => "PASSWORD",
        }
    }

    /// The type number of DescribeConfigs (KIP-569).
    pub const fn wire_type(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::String => 2,
            Kind::Int => 3,
            Kind::Short => 4,
            Kind::Long => 5,
            Kind::Double => 6,
            Kind::List => 7,
            Kind::Class => 8,
            Kind::Password => 9,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// Must be given.
    Required,
    Null,
    Text(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    High,
    Medium,
    Low,
}

/// Whether a running broker takes a new value (KIP-226).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMode {
    ReadOnly,
    PerBroker,
    ClusterWide,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Validator {
    Any,
    AtLeast(i64),
    Between(i64, i64),
    DoubleBetween {
        min: f64,
        max: f64,
        max_text: &'static str,
    },
    OneOf(&'static [&'static str]),
    OneOfIgnoringCase(&'static [&'static str]),
    NonEmptyText,
    NonNullText,
    List {
        one_of: &'static [&'static str],
        empty_allowed: bool,
        null_allowed: bool,
    },
    /// 1 to 9, or -1.
    GzipLevel,
    /// `partition:broker` pairs, or `*`.
    ThrottledReplicas,
    QuorumVoters,
    BootstrapServers,
    ShareOffsetReset,
}

/// A broker setting that a topic setting falls back to; its value times `factor` is the topic's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerSetting {
    pub name: &'static str,
    pub factor: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Definition {
    pub name: &'static str,
    pub kind: Kind,
    pub default: Default,
    pub validator: Validator,
    pub importance: Importance,
    pub update_mode: UpdateMode,
    /// Left out of DescribeConfigs unless set.
    pub internal: bool,
    /// Topic settings: the first one that has a value wins.
    pub broker_settings: &'static [BrokerSetting],
}

/// Finds a row; the tables are sorted by name.
pub fn find(table: &'static [Definition], name: &str) -> Option<&'static Definition> {
    place(table, name).map(|place| &table[place])
}

pub(crate) fn place(table: &'static [Definition], name: &str) -> Option<usize> {
    table.binary_search_by(|row| row.name.cmp(name)).ok()
}

impl Definition {
    /// Values of these are never shown.
    pub const fn is_sensitive(&self) -> bool {
        matches!(self.kind, Kind::Password)
    }

    /// The value of `given`, or of the default; checked either way, as Kafka does.
    pub fn value(&self, given: Option<&str>) -> Result<Value, ConfigError> {
        let value = match (given, self.default) {
            (Some(text), _) | (None, Default::Text(text)) => self.parse(text)?,
            (None, Default::Null) => Value::Null,
            (None, Default::Required) => return Err(ConfigError::missing(self.name)),
        };
        self.check(&value)?;
        Ok(value)
    }

    fn parse(&self, text: &str) -> Result<Value, ConfigError> {
        let trimmed = java_trim(text);
        let not_a_number = || {
            ConfigError::invalid(
                self.name,
                text,
                format!("Not a number of type {}", self.kind.name()),
            )
        };
        Ok(match self.kind {
            Kind::Boolean if trimmed.eq_ignore_ascii_case("true") => Value::Boolean(true),
            Kind::Boolean if trimmed.eq_ignore_ascii_case("false") => Value::Boolean(false),
            Kind::Boolean => {
                return Err(ConfigError::invalid(
                    self.name,
                    text,
                    "Expected value to be either true or false",
                ));
            }
            Kind::Int => Value::Int(trimmed.parse().map_err(|_| not_a_number())?),
            Kind::Short => Value::Short(trimmed.parse().map_err(|_| not_a_number())?),
            Kind::Long => Value::Long(trimmed.parse().map_err(|_| not_a_number())?),
            Kind::Double => Value::Double(parse_java_double(trimmed).ok_or_else(not_a_number)?),
            Kind::String => Value::Text(trimmed.to_owned()),
            // Kafka loads the class; ours are named, not loaded, so any name without inner blanks will do.
            Kind::Class if trimmed.is_empty() || text.contains(|c: char| c <= ' ') => {
                return Err(ConfigError::invalid(
                    self.name,
                    text,
                    format!("Class {text} could not be found."),
                ));
            }
            Kind::Class => Value::Text(text.to_owned()),
            Kind::Password => Value::Password(trimmed.to_owned()),
            Kind::List => {
                // Kafka drops repeated items only where its list validator looks at them.
                let all_kept = !matches!(self.validator, Validator::List { .. });
                let mut distinct: Vec<String> = Vec::new();
                for item in java_list(text) {
                    if all_kept || !distinct.contains(&item) {
                        distinct.push(item);
                    }
                }
                Value::List(distinct)
            }
        })
    }

    fn check(&self, value: &Value) -> Result<(), ConfigError> {
        let invalid = |shown: String, why: String| Err(ConfigError::invalid(self.name, shown, why));
        let whole = match *value {
            Value::Int(number) => Some(i64::from(number)),
            Value::Short(number) => Some(i64::from(number)),
            Value::Long(number) => Some(number),
            _ => None,
        };
        match (self.validator, value) {
            (Validator::Any, _) => Ok(()),
            (Validator::AtLeast(min) | Validator::Between(min, _), _)
                if whole.is_some_and(|n| n < min) =>
            {
                invalid(
                    value.to_text().unwrap_or_default(),
                    format!("Value must be at least {min}"),
                )
            }
            (Validator::Between(_, max), _) if whole.is_some_and(|n| n > max) => invalid(
                value.to_text().unwrap_or_default(),
                format!("Value must be no more than {max}"),
            ),
            (Validator::AtLeast(_) | Validator::Between(..), Value::Null) => {
                invalid("null".to_owned(), "Value must be non-null".to_owned())
            }
            (Validator::AtLeast(_) | Validator::Between(..), _) => Ok(()),
            (Validator::DoubleBetween { min, .. }, &Value::Double(number)) if number < min => {
                invalid(java_double(number), format!("Value must be at least {min}"))
            }
            (Validator::DoubleBetween { max, max_text, .. }, &Value::Double(number))
                if number > max =>
            {
                invalid(
                    java_double(number),
                    format!("Value must be no more than {max_text}"),
                )
            }
            (Validator::DoubleBetween { .. }, _) => Ok(()),
            (Validator::GzipLevel, _) if whole.is_some_and(|n| n == -1 || (1..=9).contains(&n)) => {
                Ok(())
            }
            (Validator::GzipLevel, _) => invalid(
                value.to_text().unwrap_or_default(),
                "Value must be between 1 and 9 or equal to -1".to_owned(),
            ),
            (Validator::OneOf(names), Value::Text(text)) if !names.contains(&text.as_str()) => {
                invalid(
                    text.clone(),
                    format!("String must be one of: {}", names.join(", ")),
                )
            }
            (Validator::OneOfIgnoringCase(names), Value::Text(text))
                if !names.iter().any(|name| name.eq_ignore_ascii_case(text)) =>
            {
                invalid(
                    text.clone(),
                    format!(
                        "String must be one of (case insensitive): {}",
                        names.join(", ")
                    ),
                )
            }
            (Validator::OneOf(_) | Validator::OneOfIgnoringCase(_), _) => Ok(()),
            (Validator::NonEmptyText, Value::Text(text)) if text.is_empty() => {
                invalid(text.clone(), "String must be non-empty".to_owned())
            }
            (Validator::NonEmptyText | Validator::NonNullText, _) => Ok(()),
            (
                Validator::List {
                    one_of,
                    empty_allowed,
                    null_allowed,
                },
                value,
            ) => self.check_list(value, one_of, empty_allowed, null_allowed),
            (Validator::ThrottledReplicas, Value::List(items)) => {
                let pair = |item: &String| {
                    item.split_once(':').is_some_and(|(partition, broker)| {
                        [partition, broker].iter().all(|part| {
                            !part.is_empty() && part.chars().all(|c| c.is_ascii_digit())
                        })
                    })
                };
                let wildcard = matches!(items.as_slice(), [only] if only == "*");
                if wildcard || items.iter().all(pair) {
                    return Ok(());
                }
                invalid(
                    format!("[{}]", items.join(", ")),
                    format!(
                        "{} must be the literal '*' or a list of replicas in the following format: \
                         [partitionId]:[brokerId],[partitionId]:[brokerId],...",
                        self.name
                    ),
                )
            }
            (Validator::QuorumVoters, Value::List(items)) => {
                crate::quorum::parse_voters(items).map(|_| ())
            }
            (Validator::BootstrapServers, Value::List(items)) => {
                crate::quorum::parse_bootstrap_servers(items).map(|_| ())
            }
            (Validator::ShareOffsetReset, Value::Text(text)) if !is_share_offset_reset(text) => {
                invalid(
                    text.clone(),
                    format!(
                        "Invalid value `{text}` for configuration {}. The value must be either 'earliest', \
                     'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
                        self.name
                    ),
                )
            }
            (
                Validator::ThrottledReplicas
                | Validator::QuorumVoters
                | Validator::BootstrapServers
                | Validator::ShareOffsetReset,
                _,
            ) => Ok(()),
        }
    }

    fn check_list(
        &self,
        value: &Value,
        one_of: &[&str],
        empty_allowed: bool,
        null_allowed: bool,
    ) -> Result<(), ConfigError> {
        let items = match value {
            Value::List(items) => items,
            _ if null_allowed => return Ok(()),
            _ => {
                return Err(ConfigError::new(format!(
                    "Configuration '{}' values must not be null.",
                    self.name
                )));
            }
        };
        if items.is_empty() && !empty_allowed {
            let valid = match one_of {
                [] => "any non-empty value".to_owned(),
                names => format!("[{}]", names.join(", ")),
            };
            return Err(ConfigError::new(format!(
                "Configuration '{}' must not be empty. Valid values include: {valid}",
                self.name
            )));
        }
        for item in items {
            if item.is_empty() {
                return Err(ConfigError::new(format!(
                    "Configuration '{}' values must not be empty.",
                    self.name
                )));
            }
            if !one_of.is_empty() && !one_of.contains(&item.as_str()) {
                return Err(ConfigError::invalid(
                    self.name,
                    item,
                    format!("String must be one of: {}", one_of.join(", ")),
                ));
            }
        }
        Ok(())
    }
}

/// `earliest`, `latest` or `by_duration:` and a non-negative ISO-8601 duration of days and smaller.
fn is_share_offset_reset(text: &str) -> bool {
    match text.split_once(':') {
        None => text == "earliest" || text == "latest",
        Some(("by_duration", duration)) => is_iso_duration(duration),
        Some(_) => false,
    }
}

fn is_iso_duration(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let Some(rest) = upper.strip_prefix('P') else {
        return false;
    };
    let (days, time) = match rest.split_once('T') {
        Some((_, "")) => return false,
        Some((days, time)) => (days, time),
        None => (rest, ""),
    };
    if days.is_empty() && time.is_empty() {
        return false;
    }
    takes_units(days, &['D']) && takes_units(time, &['H', 'M', 'S'])
}

/// Numbers each followed by one of `units`, in that order, each at most once; only seconds have a fraction.
fn takes_units(mut text: &str, mut units: &[char]) -> bool {
    while !text.is_empty() {
        let Some(end) = text.find(|c: char| c.is_ascii_alphabetic()) else {
            return false;
        };
        let (number, rest) = text.split_at(end);
        let unit = rest.chars().next().unwrap_or(' ');
        let Some(place) = units.iter().position(|&known| known == unit) else {
            return false;
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit());
        if whole.is_empty()
            || !digits(whole)
            || !digits(fraction)
            || (number.contains('.') && unit != 'S')
        {
            return false;
        }
        units = &units[place + 1..];
        text = &rest[1..];
    }
    true
}
