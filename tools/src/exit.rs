//! How a tool ends before or after its work: usage, version, failure.
//! Not here: the words of a particular tool.
//! Runs on the main thread, last. Kafka: org.apache.kafka.server.util.CommandLineUtils, org.apache.kafka.common.utils.Exit.

use crate::args::{self, Options};
use crate::output;
use std::process::ExitCode;

/// Why a tool stops without having done its work, and what it says.
#[derive(Debug)]
pub enum Stop {
    /// A message and the table of options on standard error, status 1.
    Usage(String),
    /// A message alone on standard error, status 1.
    Failed(String),
    /// `--version`: status 0.
    Version,
    /// Everything is said already.
    Silent(u8),
}

impl Stop {
    /// A Java exception as an uncaught one is printed, without the frames.
    pub fn exception(class: &str, message: impl std::fmt::Display) -> Stop {
        Stop::Failed(format!("{class}: {message}"))
    }

    /// Says it and gives the status for `main` to return.
    pub fn report(&self, options: &Options) -> ExitCode {
        match self {
            Stop::Usage(message) => {
                output::error(&format!("{message}\n{}", options.table()));
                ExitCode::FAILURE
            }
            Stop::Failed(message) => {
                output::error(&format!("{message}\n"));
                ExitCode::FAILURE
            }
            Stop::Version => {
                output::print(&format!("{}\n", args::version_line()));
                ExitCode::SUCCESS
            }
            Stop::Silent(status) => ExitCode::from(*status),
        }
    }
}
