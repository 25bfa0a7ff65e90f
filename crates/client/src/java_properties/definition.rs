//! Shape of one row of the settings tables, and Java's checks of a value with Java's words.
//! Not here: the rows, the translation. Pure.
//! Kafka: org.apache.kafka.common.config.ConfigDef.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    List,
    Int,
    Long,
    Short,
    Double,
    Boolean,
    Class,
    Password,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Valid {
    Any,
    NonEmpty,
    AtLeast(i64),
    Between(i64, i64),
    OneOf(&'static [&'static str]),
    OneOfIgnoringCase(&'static [&'static str]),
}

/// What becomes of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// librdkafka has it, under this name, with the same values.
    As(&'static str),
    /// The translation knows what to do.
    Special,
    /// It governs something that only Java's client has; nothing is lost without it.
    Meaningless,
    /// Somebody who sets it expects an effect that is missing here.
    Unsupported,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) valid: Valid,
    pub(super) becomes: Use,
}

pub(super) const fn row(name: &'static str, kind: Kind, valid: Valid, becomes: Use) -> Row {
    Row {
        name,
        kind,
        valid,
        becomes,
    }
}

impl Row {
    /// The value as Java reads it (numbers, booleans and classes are trimmed), or why it is refused.
    pub(super) fn check<'v>(&self, value: &'v str) -> Result<&'v str, String> {
        let refuse = |why: String| {
            Err(format!(
                "Invalid value {value} for configuration {}: {why}",
                self.name
            ))
        };
        let value = match self.kind {
            Kind::Password | Kind::List => value,
            _ => value.trim(),
        };
        let number = match self.kind {
            Kind::Int => value.parse::<i32>().map(i64::from).ok(),
            Kind::Short => value.parse::<i16>().map(i64::from).ok(),
            Kind::Long => value.parse::<i64>().ok(),
            Kind::Double => value.parse::<f64>().map(|_| 0).ok(),
            Kind::Boolean => {
                if !value.eq_ignore_ascii_case("true") && !value.eq_ignore_ascii_case("false") {
                    return refuse("Expected value to be either true or false".into());
                }
                Some(0)
            }
            Kind::String | Kind::List | Kind::Class | Kind::Password => Some(0),
        };
        let Some(number) = number else {
            let kind = match self.kind {
                Kind::Int => "INT",
                Kind::Short => "SHORT",
                Kind::Long => "LONG",
                _ => "DOUBLE",
            };
            return refuse(format!("Not a number of type {kind}"));
        };
        match self.valid {
            Valid::Any => Ok(value),
            Valid::NonEmpty if value.is_empty() => refuse("String must be non-empty".into()),
            Valid::NonEmpty => Ok(value),
            Valid::AtLeast(min) | Valid::Between(min, _) if number < min => {
                refuse(format!("Value must be at least {min}"))
            }
            Valid::Between(_, max) if number > max => {
                refuse(format!("Value must be no more than {max}"))
            }
            Valid::AtLeast(_) | Valid::Between(..) => Ok(value),
            Valid::OneOf(allowed) => {
                if allowed.contains(&value) {
                    Ok(value)
                } else {
                    refuse(format!("String must be one of: {}", allowed.join(", ")))
                }
            }
            Valid::OneOfIgnoringCase(allowed) => {
                if allowed.iter().any(|a| a.eq_ignore_ascii_case(value)) {
                    Ok(value)
                } else {
                    refuse(format!(
                        "String must be one of (case insensitive): {}",
                        allowed.join(", ")
                    ))
                }
            }
        }
    }
}
