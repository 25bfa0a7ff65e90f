//! The main function of `kafka-server-start` and `zookeeper-server-start`: arguments, configuration, runtime, signals.
//! Not here: what the server consists of (server.rs), the daemon's two processes (daemon.rs).
//! No runtime and no thread exists before arguments and configuration are read.
//! Kafka: kafka.Kafka.main, bin/kafka-server-start.sh, bin/zookeeper-server-start.sh.

use crate::arguments::{self, ArgumentError, Command, StartArguments};
use crate::daemon::{self, Daemon};
use crate::log_file::{LogFile, local_time};
use crate::logging;
use crate::machine;
use crate::pid_file::{Entry, PidFile};
use crate::server::{Server, ServerConfig};
use crate::start_error::StartError;
use kavka_common::{Clock, SystemClock};
use kavka_config::Properties;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

/// The release of Kafka whose behaviour this is.
pub const KAFKA_VERSION: &str = "4.3.1";

/// What `--version` prints.
pub fn version() -> String {
    format!("{KAFKA_VERSION} (Kavka {})", env!("CARGO_PKG_VERSION"))
}

/// Which of the two programs runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    KafkaServer,
    ZooKeeperServer,
}

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Program::KafkaServer => "kafka-server-start",
            Program::ZooKeeperServer => "zookeeper-server-start",
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Program::KafkaServer => {
                "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*"
            }
            Program::ZooKeeperServer => {
                "USAGE: zookeeper-server-start.sh [-daemon] zookeeper.properties [--override property=value]*"
            }
        }
    }

    /// The stem of a daemon's console output, as the scripts name it.
    fn daemon_name(self) -> &'static str {
        match self {
            Program::KafkaServer => "kafkaServer",
            Program::ZooKeeperServer => "zookeeper",
        }
    }
}

const OPTIONS: &str = "\
Option               Description
------               -----------
--override <String>  Optional property that should override values set in
                       the properties file
--version            Print version information and exit.
-daemon              Run in the background; return when the server is ready
                       or has failed
-name <String>       Stem of the console output file of a daemon
-loggc               Accepted for scripts; has no effect";

/// Runs the program to its end.
pub fn main(program: Program) -> ExitCode {
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let start = match arguments::parse(&arguments) {
        Ok(Command::Start(start)) => start,
        Ok(Command::Version) => {
            println!("{}", version());
            return ExitCode::SUCCESS;
        }
        Ok(Command::Help) => {
            println!("{}\n{OPTIONS}", program.usage());
            return ExitCode::SUCCESS;
        }
        Err(e) => return refuse_arguments(program, e),
    };
    if start.daemon {
        let name = start.name.as_deref().unwrap_or(program.daemon_name());
        return daemon::launch(&arguments, name);
    }
    let mut daemon = Daemon::of_this_process();
    let log_file = daemon
        .as_ref()
        .and_then(|d| LogFile::open(&d.log_file, local_time(SystemClock::new().wall_ms())).ok());
    logging::init(log_file);
    machine::raise_descriptor_limit();
    let result =
        read_config(program, &start).and_then(|config| run(program, &start, config, &mut daemon));
    match result {
        Ok(code) => code,
        Err(e) => {
            let during = if e.during_startup {
                " during startup."
            } else {
                ""
            };
            error!(target: "kafka.Kafka$", "Exiting Kafka due to fatal exception{during}");
            logging::print_lines(&e.lines());
            if let Some(daemon) = &mut daemon {
                daemon.failed(&e.lines());
            }
            ExitCode::FAILURE
        }
    }
}

fn refuse_arguments(program: Program, error: ArgumentError) -> ExitCode {
    match error {
        ArgumentError::NoPropertiesFile => eprintln!("{}\n{OPTIONS}", program.usage()),
        ArgumentError::Usage(message) => eprintln!("{message}\n{OPTIONS}"),
        ArgumentError::Option { exception, message } => {
            logging::init(None);
            error!(target: "kafka.Kafka$", "Exiting Kafka due to fatal exception");
            logging::print_lines(&format!("{exception}: {message}"));
        }
    }
    ExitCode::FAILURE
}

fn read_config(program: Program, start: &StartArguments) -> Result<ServerConfig, StartError> {
    let path = &start.properties_file;
    #[allow(clippy::disallowed_methods)] // the program's own file, not the broker's storage
    let bytes = std::fs::read(path).map_err(|e| {
        let exception = match e.kind() {
            std::io::ErrorKind::NotFound => "java.nio.file.NoSuchFileException",
            std::io::ErrorKind::PermissionDenied => "java.nio.file.AccessDeniedException",
            _ => "java.io.IOException",
        };
        let mut error = StartError::thrown(exception, path.display().to_string());
        error.during_startup = false;
        match e.kind() {
            std::io::ErrorKind::NotFound => error,
            _ => error.with_remedy(e.to_string()),
        }
    })?;
    let mut properties = Properties::parse(&bytes).map_err(|e| {
        let mut error = StartError::thrown("java.lang.IllegalArgumentException", e.to_string());
        error.during_startup = false;
        error.with_remedy(format!("in {}", path.display()))
    })?;
    for (key, value) in &start.overrides {
        properties.set(key.as_str(), value.as_str());
    }
    ServerConfig::read(program, &properties)
}

fn run(
    program: Program,
    start: &StartArguments,
    config: ServerConfig,
    daemon: &mut Option<Daemon>,
) -> Result<ExitCode, StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads())
        .max_blocking_threads(32)
        .thread_keep_alive(Duration::from_secs(5))
        .thread_name("kavka")
        .enable_all()
        .build()
        .map_err(|e| StartError::runtime(format!("Cannot start threads: {e}")))?;
    let code = runtime.block_on(serve(program, start, config, daemon))?;
    // Blocking work that is still going on (a cold read of a closed connection) is not waited for.
    runtime.shutdown_background();
    Ok(code)
}

/// As many as there are processors, within reason: a broker waits more than it computes.
fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 32))
}

async fn serve(
    program: Program,
    start: &StartArguments,
    config: ServerConfig,
    daemon: &mut Option<Daemon>,
) -> Result<ExitCode, StartError> {
    // Signals are caught from here on: a stop during the start is a stop, too.
    let mut stop = StopSignals::listen()
        .map_err(|e| StartError::runtime(format!("Cannot listen for signals: {e}")))?;
    let entry = Entry::of_this_process(
        program.name(),
        &start.properties_file,
        config.node_id(),
        &config.roles(),
    );
    let pid_file = PidFile::write(&entry)
        .inspect_err(|e| warn!("No pid file, so the stop command will not find this server: {e}"))
        .ok();
    let started = tokio::select! {
        started = Box::pin(Server::start(config)) => started?,
        code = stop.next() => return Ok(ExitCode::from(code)),
    };
    if let Some(daemon) = daemon {
        daemon.ready();
    }
    let mut failed = started.failure();
    let code = tokio::select! {
        code = stop.next() => {
            info!(target: "org.apache.kafka.common.utils.LoggingSignalHandler", "Terminating process due to signal {}", code - 128);
            code
        }
        why = &mut failed => {
            error!(target: "kafka.Kafka$", "Halting: {why}");
            1
        }
    };
    drop(failed);
    Box::pin(started.stop(stop.again())).await;
    drop(pid_file);
    Ok(ExitCode::from(code))
}

/// Signals that come so soon after the first one belong to it.
const SAME_STOP: Duration = Duration::from_secs(1);

/// The signals that end a JVM in order, with the exit status that it has then.
struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: Option<tokio::signal::unix::Signal>,
}

impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            // nohup(1) ignores it, and that must stay so.
            hangup: if is_hangup_ignored() {
                None
            } else {
                Some(signal(SignalKind::hangup())?)
            },
        })
    }

    /// Completes when somebody asks once more to stop. Supervisors signal a process and its group at once, and that is
    /// one request.
    async fn again(&mut self) {
        let mut same_request = std::pin::pin!(tokio::time::sleep(SAME_STOP));
        loop {
            tokio::select! {
                _ = self.next() => {}
                () = &mut same_request => break,
            }
        }
        self.next().await;
    }

    /// The exit status to end with.
    async fn next(&mut self) -> u8 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => 143,
            _ = self.interrupt.recv() => 130,
            _ = hangup => 129,
        }
    }
}

#[allow(clippy::disallowed_methods)] // the kernel's own file, not the broker's storage
fn is_hangup_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        })
        .is_some_and(|mask| mask & 1 != 0)
}

/// What ends a server from inside.
pub type Failure = std::pin::Pin<Box<dyn Future<Output = String> + Send>>;
