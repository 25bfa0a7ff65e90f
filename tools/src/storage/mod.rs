//! kafka-storage: makes log directories ready for a node and looks at them; ids; levels of features.
//! Not here: options (options), what is written (format, checkpoint), tables of levels (kavka-metadata).
//! Runs on the main thread; needs no cluster. Kafka: kafka.tools.StorageTool.

mod checkpoint;
pub(crate) mod features;
mod format;
mod info;
mod options;
#[cfg(test)]
mod storage_test;
mod voters;

use crate::args;
use crate::args::argparse::{Problem, Values};
use crate::files;
use crate::java::Exception;
use crate::output;
use kavka_common::Uuid;
use kavka_config::properties::Properties;
use kavka_config::{BrokerConfig, ConfigError};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

/// Why there is no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A sentence on standard error.
    Terse(String),
    /// An exception that leaves Java's `main`.
    Uncaught(Exception),
    Arguments(Problem),
    /// Everything is said already.
    Failed,
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Stop {
        Stop::Arguments(problem)
    }
}

impl From<Exception> for Stop {
    fn from(exception: Exception) -> Stop {
        Stop::Uncaught(exception)
    }
}

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let arguments: Vec<String> = arguments
        .into_iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    match run(&arguments) {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(Stop::Arguments(Problem::Help(text))) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(Stop::Arguments(Problem::Refused(text))) => {
            output::error(&text);
            ExitCode::FAILURE
        }
        Err(Stop::Terse(text)) => {
            output::error(&format!("{text}\n"));
            ExitCode::FAILURE
        }
        Err(Stop::Uncaught(exception)) => {
            output::error(&format!(
                "Exception in thread \"main\" {}\n",
                exception.trace()
            ));
            ExitCode::FAILURE
        }
        Err(Stop::Failed) => ExitCode::FAILURE,
    }
}

/// The text for standard output.
fn run(arguments: &[String]) -> Result<String, Stop> {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(options::ROOT.refuse("too few arguments").into());
    };
    match command.as_str() {
        "-h" | "--help" => Ok(options::help()),
        "--version" => Ok(format!("{}\n", args::version_line())),
        "info" => {
            let values = options::INFO.parse(rest)?;
            let (_, directories) = configuration(&values)?;
            let (text, sound) = info::report(&directories);
            if sound {
                return Ok(text);
            }
            output::print(&text);
            Err(Stop::Failed)
        }
        "format" => {
            let values = options::FORMAT.parse(rest)?;
            let (config, directories) = configuration(&values)?;
            format::run(&values, &config, &directories).map(|()| String::new())
        }
        "version-mapping" => {
            let values = options::VERSION_MAPPING.parse(rest)?;
            features::version_mapping(values.value("--release-version"))
        }
        "feature-dependencies" => {
            let values = options::FEATURE_DEPENDENCIES.parse(rest)?;
            features::dependencies(values.all("--feature"))
        }
        "random-uuid" => {
            options::RANDOM_UUID.parse(rest)?;
            Ok(format!("{}\n", random_uuid()?))
        }
        other if other.starts_with('-') => Err(options::ROOT
            .refuse(&format!("unrecognized arguments: '{other}'"))
            .into()),
        other => {
            let known: Vec<String> = options::SUBCOMMANDS
                .iter()
                .map(|(name, _)| format!("'{name}'"))
                .collect();
            Err(options::ROOT
                .refuse(&format!(
                    "invalid choice: '{other}' (choose from {})",
                    known.join(", ")
                ))
                .into())
        }
    }
}

/// The server's configuration, and all its log directories, sorted.
fn configuration(values: &Values) -> Result<(BrokerConfig, BTreeSet<String>), Stop> {
    let path = values.value("--config").unwrap_or_default();
    let entries = files::properties(path).map_err(|stop| match stop {
        crate::exit::Stop::Failed(text) | crate::exit::Stop::Usage(text) => {
            let (class, message) = text
                .split_once(": ")
                .unwrap_or(("java.io.IOException", text.as_str()));
            Stop::Uncaught(Exception::new(class, message))
        }
        crate::exit::Stop::Version | crate::exit::Stop::Silent(_) => Stop::Failed,
    })?;
    let mut properties = Properties::new();
    for (key, value) in entries {
        properties.set(key, value);
    }
    let config = BrokerConfig::from_properties(&properties).map_err(refused)?;
    let mut directories: BTreeSet<String> = config.log_dirs().iter().cloned().collect();
    directories.insert(config.metadata_log_dir().to_owned());
    Ok((config, directories))
}

fn refused(error: ConfigError) -> Stop {
    if let Some(remedy) = &error.remedy {
        output::hint(remedy);
    }
    Stop::Uncaught(Exception::new(error.java_class(), error.message))
}

/// A random id that no tool takes for an option.
fn random_uuid() -> Result<Uuid, Stop> {
    loop {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| Stop::Terse(format!("The machine gives no random bytes: {error}")))?;
        if let Some(id) = Uuid::from_random_bytes(bytes) {
            return Ok(id);
        }
    }
}
