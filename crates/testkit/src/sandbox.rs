//! A temporary folder with everything a cluster of our programs needs: data, pid files, logs, ports, commands.
//! Not here: what the commands do. A sandbox's stop commands see its own servers only.
//! Owned by one test; everything in it is gone with it.

use crate::ports::free_port;
use crate::process::{Finished, Server, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Variables of the caller that would change what the programs do.
const VARIABLES: &[&str] = &[
    "KAVKA_BIN",
    "KAVKA_HOME",
    "KAVKA_RUN_DIR",
    "CARGO_TARGET_DIR",
    "KAFKA_OPTS",
    "KAFKA_HEAP_OPTS",
    "LOG_DIR",
    "RUST_LOG",
];

#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    /// The folder whose `bin/` and `config/` are used.
    pub home: PathBuf,
    /// The folder of the built programs; `None` leaves it to `bin/kavka-run` to find them.
    pub programs: Option<PathBuf>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Sandbox::new()
    }
}

impl Sandbox {
    pub fn new() -> Sandbox {
        Sandbox {
            folder: tempfile::Builder::new()
                .prefix("kavka-e2e.")
                .tempdir()
                .expect("a temporary folder"),
            home: workspace(),
            programs: Some(built_programs()),
        }
    }

    /// A path in the sandbox.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `bin/<script>.sh` with an environment that belongs to this sandbox.
    pub fn script(&self, script: &str) -> Command {
        let mut command = Command::new(self.home.join("bin").join(format!("{script}.sh")));
        self.adopt(&mut command);
        command
    }

    /// Gives a command the environment of this sandbox.
    pub fn adopt(&self, command: &mut Command) {
        for name in VARIABLES {
            command.env_remove(name);
        }
        command
            .env("KAVKA_RUN_DIR", self.path("run"))
            .env("LOG_DIR", self.path("logs"));
        if let Some(programs) = &self.programs {
            command.env("KAVKA_BIN", programs);
        }
    }

    /// Runs `bin/<script>.sh` to its end.
    #[track_caller]
    pub fn tool(&self, script: &str, arguments: &[&str]) -> Finished {
        self.tool_with_input(script, arguments, "")
    }

    #[track_caller]
    pub fn tool_with_input(&self, script: &str, arguments: &[&str], input: &str) -> Finished {
        run(self.script(script).args(arguments), input)
    }

    /// A file of `config/`.
    pub fn config(&self, name: &str) -> PathBuf {
        self.home.join("config").join(name)
    }

    /// Whether the program behind a script is built.
    pub fn has(&self, program: &str) -> bool {
        self.programs
            .as_deref()
            .unwrap_or(&built_programs())
            .join(program)
            .is_file()
    }

    /// A node of broker and controller on ports of its own, from config/kraft/server.properties.
    pub fn broker(&self) -> Broker {
        Broker::combined(self, "kraft-data")
    }
}

/// The repository.
pub fn workspace() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    crates.join("../..").canonicalize().expect("the workspace")
}

/// Where cargo put the programs: beside the `deps` folder of the running test.
pub fn built_programs() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let folder = test
        .parent()
        .and_then(Path::parent)
        .expect("target/<profile>/deps/<test>")
        .to_owned();
    assert!(
        folder.join("kafka-server-start").is_file(),
        "{} holds no built programs; scripts/test builds them first, by itself: cargo build -p kavka-broker -p kavka-tools",
        folder.display()
    );
    folder
}

/// How a broker is started, as often as wanted.
#[derive(Clone, Debug)]
pub struct Broker {
    pub properties_file: PathBuf,
    pub overrides: Vec<(String, String)>,
    pub port: u16,
    pub data: PathBuf,
}

impl Broker {
    /// Broker and controller in one process.
    pub fn combined(sandbox: &Sandbox, data: &str) -> Broker {
        let (port, controller) = (free_port(), free_port());
        let data = sandbox.path(data);
        let broker = Broker {
            properties_file: sandbox.config("kraft/server.properties"),
            overrides: Vec::new(),
            port,
            data: data.clone(),
        };
        broker
            .with(
                "listeners",
                format!("PLAINTEXT://:{port},CONTROLLER://:{controller}"),
            )
            .with(
                "advertised.listeners",
                format!("PLAINTEXT://localhost:{port}"),
            )
            .with(
                "controller.quorum.voters",
                format!("1@localhost:{controller}"),
            )
            .with("log.dirs", data.display().to_string())
    }

    /// A broker of the ZooKeeper age, beside a server at `zookeeper_port`.
    pub fn of_zookeeper(sandbox: &Sandbox, data: &str, zookeeper_port: u16) -> Broker {
        let port = free_port();
        let data = sandbox.path(data);
        let broker = Broker {
            properties_file: sandbox.config("server.properties"),
            overrides: Vec::new(),
            port,
            data: data.clone(),
        };
        broker
            .with("listeners", format!("PLAINTEXT://:{port}"))
            .with("zookeeper.connect", format!("localhost:{zookeeper_port}"))
            .with("log.dirs", data.display().to_string())
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Broker {
        self.overrides.retain(|(known, _)| known != key);
        self.overrides.push((key.to_owned(), value.into()));
        self
    }

    /// Arguments of kafka-server-start.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![self.properties_file.display().to_string()];
        for (key, value) in &self.overrides {
            arguments.push("--override".to_owned());
            arguments.push(format!("{key}={value}"));
        }
        arguments
    }

    pub fn bootstrap(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Starts it without waiting.
    pub fn launch(&self, sandbox: &Sandbox) -> Server {
        Server::start(sandbox.script("kafka-server-start").args(self.arguments()))
    }

    /// Starts it and waits until it serves.
    #[track_caller]
    pub fn start(&self, sandbox: &Sandbox) -> Server {
        let server = self.launch(sandbox);
        server.line("Kafka Server started");
        server
    }

    /// Runs it to an end that has to come by itself: a start that is refused.
    #[track_caller]
    pub fn refused(&self, sandbox: &Sandbox) -> Finished {
        run(
            sandbox.script("kafka-server-start").args(self.arguments()),
            "",
        )
    }
}
