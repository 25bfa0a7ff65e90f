//! A tool's way to a cluster: addresses and `--command-config` checked as Java checks them, then a runtime, then calls;
//! and what is said while nobody answers.
//! Not here: the calls (kavka-client), a tool's own words. Nothing is started before the arguments are known to be good.
//! Runs on the main thread; the runtime has no threads of its own. Kafka: KafkaAdminClient.createInternal, ClientUtils.

use crate::diagnosis;
use crate::exit::Stop;
use crate::files;
use crate::java::{Exception, Failure};
use crate::output::{self, Level};
use kavka_client::{BrokerAddress, ClientConfig, ClientError, Cluster};
use kavka_config::properties::Properties;
use std::io::{self, IsTerminal};
use std::net::ToSocketAddrs;
use std::time::Duration;

pub const BOOTSTRAP_SERVER: &str = "bootstrap-server";
pub const BOOTSTRAP_CONTROLLER: &str = "bootstrap-controller";
/// Somebody who waits wants to know for what.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// A cluster and the runtime to talk to it.
pub struct Session {
    runtime: tokio::runtime::Runtime,
    pub cluster: Cluster,
    servers: String,
    /// The option that named the servers, for messages.
    option: &'static str,
    /// What answers at the servers has been said.
    explained: bool,
}

/// Why there is no session: `exception` is the outer one, as Java nests them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    pub exception: Exception,
    pub cause: Option<Exception>,
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let mut failure = Failure::from(error.exception);
        failure.chain.extend(error.cause);
        failure
    }
}

impl OpenError {
    fn client(cause: impl Into<String>) -> OpenError {
        OpenError {
            exception: Exception::new(
                "org.apache.kafka.common.KafkaException",
                "Failed to create new KafkaAdminClient",
            ),
            cause: Some(Exception::new(
                "org.apache.kafka.common.config.ConfigException",
                cause,
            )),
        }
    }

    /// The stack trace without its frames.
    pub fn trace(&self) -> String {
        match &self.cause {
            None => self.exception.trace(),
            Some(cause) => format!("{}\nCaused by: {}", self.exception.trace(), cause.trace()),
        }
    }
}

impl Session {
    /// Checks the settings and makes a client; connects to nobody yet.
    pub fn open(
        servers: &str,
        option: &'static str,
        command_config: Option<&str>,
    ) -> Result<Session, OpenError> {
        Session::open_with(servers, option, command_config, &[])
    }

    /// As `open`, with settings of the tool that the file may replace. With the option `bootstrap-controller` the
    /// addresses are those of controllers.
    pub fn open_with(
        servers: &str,
        option: &'static str,
        command_config: Option<&str>,
        defaults: &[(&str, &str)],
    ) -> Result<Session, OpenError> {
        let mut properties = Properties::new();
        for (key, value) in defaults {
            properties.set((*key).to_owned(), (*value).to_owned());
        }
        if let Some(path) = command_config {
            for (key, value) in read_properties(path)? {
                properties.set(key, value);
            }
        }
        let config = ClientConfig::from_properties(&properties)
            .map_err(|error| OpenError::client(error.to_string()))?;
        let addresses = resolve(servers)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| OpenError::client(error.to_string()))?;
        let cluster = match option {
            BOOTSTRAP_CONTROLLER => Cluster::of_controllers(addresses, config),
            _ => Cluster::new(addresses, config),
        };
        Ok(Session {
            runtime,
            cluster,
            servers: servers.to_owned(),
            option,
            explained: false,
        })
    }

    /// Runs calls. While they take long, says who does not answer, and on a terminal that it waits: a script's log should
    /// tell a wrong port from a slow cluster, too.
    pub fn run<T>(&mut self, calls: impl AsyncFnOnce(&mut Cluster) -> T) -> T {
        let Session {
            runtime,
            cluster,
            servers,
            option,
            explained,
        } = self;
        let patience = cluster.config().api_timeout_ms / 1000;
        runtime.block_on(async {
            let mut calls = std::pin::pin!(calls(cluster));
            tokio::select! {
                result = &mut calls => return result,
                () = tokio::time::sleep(NOTICE_AFTER) => {}
            }
            if io::stderr().is_terminal() {
                output::error(&format!(
                    "Waiting for an answer from {servers} (--{option}); giving up after {patience} s. Ctrl-C stops.\n"
                ));
            }
            tokio::select! {
                result = &mut calls => return result,
                told = diagnosis::look(servers, option) => *explained = told,
            }
            calls.await
        })
    }

    /// Runs work that takes as long as it takes: nobody is told to wait for an answer.
    pub fn run_for_long<T>(&mut self, work: impl AsyncFnOnce(&mut Cluster) -> T) -> T {
        self.runtime.block_on(work(&mut self.cluster))
    }

    /// On standard error, what Java's message for this failure leaves unsaid.
    pub fn explain(&self, error: &ClientError) {
        if self.explained && matches!(error, ClientError::NoBroker { .. }) {
            return;
        }
        if let Some(text) = explanation(error) {
            output::hint(&format!("{text} (--{} {})", self.option, self.servers));
        }
    }
}

/// The cause and, where there is one, the remedy; `None` when the error's own text says it all.
pub fn explanation(error: &ClientError) -> Option<String> {
    match error {
        ClientError::NoBroker { cause, .. } => Some(match &**cause {
            ClientError::Connect { address, source } => match source.kind() {
                io::ErrorKind::ConnectionRefused => format!(
                    "{address} refuses connections: nothing listens there. Is the broker running, and is this its port?"
                ),
                io::ErrorKind::TimedOut => {
                    format!("{address} does not answer: wrong host, or a firewall in between")
                }
                _ => format!("{address} cannot be reached: {source}"),
            },
            other => other.to_string(),
        }),
        ClientError::UnsupportedApi { .. } => Some(
            "The port may belong to a controller, or to a broker of another age; use the port of a broker (9092 by default)".into(),
        ),
        ClientError::Refused { .. }
        | ClientError::Connect { .. }
        | ClientError::NotKafka { .. }
        | ClientError::Lost { .. }
        | ClientError::TimedOut { .. }
        | ClientError::BadAnswer { .. }
        | ClientError::Unsendable(_)
        | ClientError::Config(_) => None,
    }
}

fn read_properties(path: &str) -> Result<Vec<(String, String)>, OpenError> {
    files::properties(path).map_err(|stop| {
        let text = match stop {
            Stop::Failed(text) | Stop::Usage(text) => text,
            Stop::Version | Stop::Silent(_) => String::new(),
        };
        let (class, message) = text
            .split_once(": ")
            .unwrap_or(("java.io.IOException", &text));
        OpenError {
            exception: Exception::new(class, message),
            cause: None,
        }
    })
}

/// The addresses that exist. One that cannot be resolved is left out with a warning, as Java does.
fn resolve(servers: &str) -> Result<Vec<BrokerAddress>, OpenError> {
    let addresses =
        BrokerAddress::parse_list(servers).map_err(|error| OpenError::client(error.to_string()))?;
    let known: Vec<BrokerAddress> = addresses
        .into_iter()
        .filter(|address| {
            let found = (address.host.as_str(), address.port)
                .to_socket_addrs()
                .is_ok_and(|mut found| found.next().is_some());
            if !found {
                output::log(
                    Level::Warn,
                    &format!(
                        "Couldn't resolve server {address} from bootstrap.servers as DNS resolution failed for {}",
                        address.host
                    ),
                    "org.apache.kafka.clients.ClientUtils",
                );
            }
            found
        })
        .collect();
    if known.is_empty() {
        return Err(OpenError::client(
            "No resolvable bootstrap urls given in bootstrap.servers",
        ));
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(servers: &str, config: Option<&str>) -> String {
        match Session::open(servers, "bootstrap-server", config) {
            Ok(_) => String::new(),
            Err(error) => error.trace(),
        }
    }

    #[test]
    fn bad_addresses_and_files_are_refused_in_javas_words() {
        assert_eq!(refused("127.0.0.1:1", None), "");
        assert_eq!(
            refused("notahostport", None),
            "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\nCaused by: org.apache.kafka.common.config.ConfigException: Invalid url in bootstrap.servers: notahostport"
        );
        assert_eq!(
            refused("127.0.0.1:1", Some("missing.properties")),
            "java.nio.file.NoSuchFileException: missing.properties"
        );
    }

    #[test]
    fn a_closed_port_is_explained() {
        let error = ClientError::NoBroker {
            call: "listTopics".into(),
            cause: Box::new(ClientError::Connect {
                address: BrokerAddress::new("h", 1),
                source: io::ErrorKind::ConnectionRefused.into(),
            }),
        };
        assert!(
            explanation(&error)
                .unwrap()
                .contains("h:1 refuses connections")
        );
    }
}
