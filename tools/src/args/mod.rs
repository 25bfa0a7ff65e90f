//! Command-line arguments as Kafka's jopt-simple tools take them, and the tables of options they print.
//! Not here: the argparse4j style (perf and verifiable tools), what a tool does with a value.
//! Pure; runs before anything else of a tool starts.
//! Kafka: joptsimple.OptionParser (no abbreviations), org.apache.kafka.server.util.CommandLineUtils.

pub mod argparse;
mod help;
mod spec;

pub use spec::{Argument, Kind, Spec, flag, option};

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;

/// The version of Apache Kafka whose tools these are.
pub const KAFKA_VERSION: &str = "4.3.1";

/// What `--version` prints: Kafka's number first, because scripts read it.
pub fn version_line() -> String {
    format!("{KAFKA_VERSION} (Kavka {})", env!("CARGO_PKG_VERSION"))
}

/// A command line that cannot be understood. The text is jopt-simple's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentError {
    Unrecognized(String),
    MissingArgument(String),
    MultipleArguments(String),
    /// `cause` is the exception behind the failed conversion.
    Conversion {
        option: String,
        argument: String,
        cause: String,
    },
    MissingRequired(Vec<String>),
}

impl ArgumentError {
    /// The exception's class, for tools that let it escape with a stack trace.
    pub fn exception(&self) -> &'static str {
        match self {
            ArgumentError::Unrecognized(_) => "joptsimple.UnrecognizedOptionException",
            ArgumentError::MissingArgument(_) => {
                "joptsimple.OptionMissingRequiredArgumentException"
            }
            ArgumentError::MultipleArguments(_) => "joptsimple.MultipleArgumentsForOptionException",
            ArgumentError::Conversion { .. } => "joptsimple.OptionArgumentConversionException",
            ArgumentError::MissingRequired(_) => "joptsimple.MissingRequiredOptionsException",
        }
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentError::Unrecognized(name) => write!(f, "{name} is not a recognized option"),
            ArgumentError::MissingArgument(name) => {
                write!(f, "Option {name} requires an argument")
            }
            ArgumentError::MultipleArguments(name) => write!(
                f,
                "Found multiple arguments for option {name}, but you asked for only one"
            ),
            ArgumentError::Conversion {
                option, argument, ..
            } => write!(f, "Cannot parse argument '{argument}' of option {option}"),
            ArgumentError::MissingRequired(names) => {
                write!(f, "Missing required option(s) [{}]", names.join(", "))
            }
        }
    }
}

impl std::error::Error for ArgumentError {}

/// The options of one tool.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub specs: &'static [Spec],
}

impl Options {
    pub const fn new(specs: &'static [Spec]) -> Self {
        Options { specs }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|s| s.names.contains(&name))
    }

    /// Takes the arguments after the program's name.
    pub fn parse<I>(&self, arguments: I) -> Result<Parsed, ArgumentError>
    where
        I: IntoIterator<Item = OsString>,
    {
        let mut rest = arguments
            .into_iter()
            .map(|a| a.to_string_lossy().into_owned())
            .peekable();
        let mut parsed = Parsed {
            options: *self,
            found: HashMap::new(),
            order: Vec::new(),
            positional: Vec::new(),
        };
        while let Some(token) = rest.next() {
            if token == "--" {
                parsed.positional.extend(rest.by_ref());
                break;
            }
            let Some(body) = option_body(&token) else {
                parsed.positional.push(token);
                continue;
            };
            let (name, attached) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (body, None),
            };
            let Some(index) = self.find(name) else {
                return Err(ArgumentError::Unrecognized(unrecognized_name(&token, name)));
            };
            let spec = &self.specs[index];
            let value = match spec.argument {
                Argument::None => None,
                Argument::Required => match attached.or_else(|| rest.next()) {
                    Some(value) => Some(value),
                    None => return Err(ArgumentError::MissingArgument(name.to_owned())),
                },
                Argument::Optional => {
                    attached.or_else(|| rest.next_if(|next| option_body(next).is_none()))
                }
            };
            parsed.order.push((index, value.clone()));
            let values = parsed.found.entry(index).or_default();
            if let Some(value) = value {
                match spec.separator {
                    Some(separator) => values.extend(value.split(separator).map(str::to_owned)),
                    None => values.push(value),
                }
            }
        }
        Ok(parsed)
    }

    /// The table of options as jopt-simple lays it out, each line with its newline.
    pub fn table(&self) -> String {
        help::table(self.specs)
    }
}

/// The text after the dashes; `None` for something that is not an option.
fn option_body(token: &str) -> Option<&str> {
    match token.strip_prefix("--") {
        Some(body) => Some(body),
        None => token.strip_prefix('-').filter(|body| !body.is_empty()),
    }
}

/// After one dash jopt-simple complains about the first letter that is no option of its own.
fn unrecognized_name(token: &str, name: &str) -> String {
    if token.starts_with("--") {
        name.to_owned()
    } else {
        token[1..].chars().take(1).collect()
    }
}

/// The command line after parsing. Names in its methods are any of an option's names.
#[derive(Clone, Debug)]
pub struct Parsed {
    options: Options,
    found: HashMap<usize, Vec<String>>,
    order: Vec<(usize, Option<String>)>,
    positional: Vec<String>,
}

impl Parsed {
    fn index(&self, name: &str) -> usize {
        self.options
            .find(name)
            .unwrap_or_else(|| panic!("--{name} is not in this tool's table of options"))
    }

    /// Was the option given?
    pub fn has(&self, name: &str) -> bool {
        self.found.contains_key(&self.index(name))
    }

    /// Was the option given with a value? (Differs from `has` where the value is optional.)
    pub fn has_argument(&self, name: &str) -> bool {
        self.found
            .get(&self.index(name))
            .is_some_and(|values| !values.is_empty())
    }

    /// Its one value, else the default of the table.
    pub fn value(&self, name: &str) -> Result<Option<&str>, ArgumentError> {
        let index = self.index(name);
        match self.found.get(&index).map(Vec::as_slice) {
            None | Some([]) => Ok(self.options.specs[index].default),
            Some([one]) => Ok(Some(one)),
            Some(_) => Err(ArgumentError::MultipleArguments(name.to_owned())),
        }
    }

    /// Its last value, for options where repeating overrides.
    pub fn last(&self, name: &str) -> Option<&str> {
        let index = self.index(name);
        self.found
            .get(&index)
            .and_then(|values| values.last())
            .map(String::as_str)
            .or(self.options.specs[index].default)
    }

    /// Every value, in order; the default does not count.
    pub fn values(&self, name: &str) -> &[String] {
        self.found.get(&self.index(name)).map_or(&[], Vec::as_slice)
    }

    /// The value as Java's Integer.
    pub fn int(&self, name: &str) -> Result<Option<i32>, ArgumentError> {
        self.number(name)
    }

    /// The value as Java's Long.
    pub fn long(&self, name: &str) -> Result<Option<i64>, ArgumentError> {
        self.number(name)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ArgumentError> {
        let Some(text) = self.value(name)? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| ArgumentError::Conversion {
                option: name.to_owned(),
                argument: text.to_owned(),
                cause: format!(
                    "java.lang.NumberFormatException: For input string: \"{}\"",
                    text
                ),
            })
    }

    /// What is not an option, in order.
    pub fn positional(&self) -> &[String] {
        &self.positional
    }

    /// `key=value` arguments of a repeatable option; a value may contain `=`. An argument without `=` has an empty
    /// value.
    pub fn properties(&self, name: &str) -> Vec<(String, String)> {
        self.values(name)
            .iter()
            .map(|argument| match argument.split_once('=') {
                Some((key, value)) => (key.to_owned(), value.to_owned()),
                None => (argument.clone(), String::new()),
            })
            .collect()
    }

    /// As `properties`, but an argument without a value is refused.
    pub fn full_properties(&self, name: &str) -> Result<Vec<(String, String)>, String> {
        let properties = self.properties(name);
        match properties.iter().find(|(_, value)| value.is_empty()) {
            None => Ok(properties),
            Some((key, _)) => Err(format!("Missing value for key {key}")),
        }
    }

    /// Options given, with their values, in the order of the command line.
    pub fn in_order(&self) -> impl Iterator<Item = (&'static Spec, Option<&str>)> {
        self.order
            .iter()
            .map(|(index, value)| (&self.options.specs[*index], value.as_deref()))
    }

    /// What jopt-simple itself checks for options marked required.
    pub fn check_required(&self) -> Result<(), ArgumentError> {
        let missing: Vec<String> = self
            .options
            .specs
            .iter()
            .enumerate()
            .filter(|(index, spec)| spec.required && !self.found.contains_key(index))
            .map(|(_, spec)| spec.names[0].to_owned())
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(ArgumentError::MissingRequired(missing))
        }
    }

    /// What `CommandLineUtils.checkRequiredArgs` says about the first of `names` that is missing.
    pub fn require(&self, names: &[&str]) -> Result<(), String> {
        match names.iter().find(|name| !self.has(name)) {
            None => Ok(()),
            Some(name) => Err(format!("Missing required argument \"[{name}]\"")),
        }
    }

    /// What `CommandLineUtils.checkInvalidArgs` says when `used` is combined with one of `invalid`.
    pub fn forbid(&self, used: &str, invalid: &[&str]) -> Result<(), String> {
        if !self.has(used) {
            return Ok(());
        }
        match invalid.iter().find(|name| self.has(name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "Option \"[{used}]\" can't be used with option \"[{name}]\""
            )),
        }
    }
}

#[cfg(test)]
#[path = "args_test.rs"]
mod args_test;
