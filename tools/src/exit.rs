//! How a tool ends before or after its work: usage, version, failure.
//! Not here: the words of a particular tool.
//! Runs on the main thread, last. Kafka: org.apache.kafka.server.util.CommandLineUtils, org.apache.kafka.common.utils.Exit.

use crate::args::{self, Options};
use crate::java::Failure;
use crate::output;
use kavka_client::ClientError;
use kavka_protocol::ErrorCode;
use std::ffi::OsString;
use std::process::ExitCode;

/// With `--strict`, exit statuses say more than Kafka's 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// Something that was asked for was not done.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// No broker answered.
    Unreachable = 3,
    /// The cluster knows us, or does not, and refuses.
    Denied = 4,
}

impl Strict {
    /// The status for a call that failed.
    pub fn of(error: &ClientError) -> Strict {
        match error {
            ClientError::Refused { code, .. } => match code {
                ErrorCode::TopicAuthorizationFailed
                | ErrorCode::GroupAuthorizationFailed
                | ErrorCode::ClusterAuthorizationFailed
                | ErrorCode::TransactionalIdAuthorizationFailed
                | ErrorCode::DelegationTokenAuthorizationFailed
                | ErrorCode::SaslAuthenticationFailed => Strict::Denied,
                _ => Strict::Failed,
            },
            ClientError::Connect { .. }
            | ClientError::NotKafka { .. }
            | ClientError::Lost { .. }
            | ClientError::NoBroker { .. }
            | ClientError::TimedOut { .. } => Strict::Unreachable,
            ClientError::UnsupportedApi { .. }
            | ClientError::BadAnswer { .. }
            | ClientError::Unsendable(_)
            | ClientError::Config(_) => Strict::Failed,
        }
    }
}

impl From<Strict> for ExitCode {
    fn from(status: Strict) -> ExitCode {
        ExitCode::from(status as u8)
    }
}

/// Is `--strict` among the arguments? Asked before they are parsed, because a wrong command line counts, too.
pub fn is_strict(arguments: &[OsString]) -> bool {
    arguments.iter().any(|a| a == "--strict" || a == "-strict")
}

/// An exception that leaves Java's `execute`: its message, its trace, an empty line, all on standard error.
pub fn escaped(failure: &Failure) -> ExitCode {
    output::error(&format!("{}\n{}\n\n", failure.message(), failure.trace()));
    ExitCode::FAILURE
}

/// An exception that leaves Java's `main`.
pub fn uncaught(failure: &Failure) -> ExitCode {
    output::error(&format!(
        "Exception in thread \"main\" {}\n",
        failure.trace()
    ));
    ExitCode::FAILURE
}

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
        self.report_as(options, false)
    }

    /// As `report`, for tools that know `--strict`.
    pub fn report_as(&self, options: &Options, strict: bool) -> ExitCode {
        match self {
            Stop::Usage(message) => {
                output::error(&format!("{message}\n{}", options.table()));
                if strict {
                    Strict::Usage.into()
                } else {
                    ExitCode::FAILURE
                }
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
