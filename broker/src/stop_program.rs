//! The main function of `kafka-server-stop` and `zookeeper-server-stop`.
//! Not here: how a server writes its pid file (pid_file.rs), how it stops (server.rs).
//! Sends SIGTERM to servers of this user that are ours, and waits until they are gone.
//! Kafka: bin/kafka-server-stop.sh (`--process-role`, `--node-id`; KIP-979), bin/zookeeper-server-stop.sh.

use crate::pid_file::{self, Entry};
use crate::program::{Program, version};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long the command waits for the servers to end; they go on stopping after it.
const WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug, Default, PartialEq, Eq)]
struct Selection {
    properties_file: Option<PathBuf>,
    process_role: Option<String>,
    node_id: Option<i32>,
}

impl Selection {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Selection, String> {
        let mut selection = Selection::default();
        let mut rest = arguments;
        while let Some(argument) = rest.next() {
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (argument.clone(), None),
            };
            let mut value = || {
                inline
                    .clone()
                    .or_else(|| rest.next())
                    .ok_or_else(|| format!("{name} needs a value"))
            };
            match name.as_str() {
                "--process-role" => {
                    let role = value()?;
                    if role != "broker" && role != "controller" {
                        return Err(format!(
                            "{role} is not a process role: it is broker or controller"
                        ));
                    }
                    selection.process_role = Some(role);
                }
                "--node-id" => {
                    let id = value()?;
                    selection.node_id =
                        Some(id.parse().map_err(|_| format!("{id} is not a node id"))?);
                }
                option if option.starts_with('-') => {
                    return Err(format!("{option} is not a recognized option"));
                }
                _ if selection.properties_file.is_none() => {
                    selection.properties_file = Some(argument.into());
                }
                _ => {
                    return Err(format!(
                        "one properties file, please: {argument} is another"
                    ));
                }
            }
        }
        Ok(selection)
    }

    fn takes(&self, entry: &Entry) -> bool {
        let file = self
            .properties_file
            .as_deref()
            .is_none_or(|file| pid_file::absolute(file) == entry.properties_file);
        let role = self
            .process_role
            .as_deref()
            .is_none_or(|role| entry.roles.split(',').any(|r| r == role));
        let id = self.node_id.is_none_or(|id| entry.node_id == Some(id));
        file && role && id
    }
}

/// Runs the program to its end.
pub fn main(program: Program) -> ExitCode {
    let (what, script) = match program {
        Program::KafkaServer => ("kafka", "kafka-server-stop.sh"),
        Program::ZooKeeperServer => ("zookeeper", "zookeeper-server-stop.sh"),
    };
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    if arguments.iter().any(|a| a == "--help") {
        println!(
            "USAGE: {script} [properties file] [--process-role broker|controller] [--node-id id]\n\
             Stops the {what} servers of this user, or those that the arguments select."
        );
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|a| a == "--version") {
        println!("{}", version());
        return ExitCode::SUCCESS;
    }
    let selection = match Selection::parse(arguments.into_iter()) {
        Ok(selection) => selection,
        Err(e) => {
            eprintln!(
                "{e}\nUSAGE: {script} [properties file] [--process-role broker|controller] [--node-id id]"
            );
            return ExitCode::FAILURE;
        }
    };
    let running = pid_file::running(program.name());
    let (selected, others): (Vec<Entry>, Vec<Entry>) = running
        .into_iter()
        .partition(|entry| selection.takes(entry));
    if selected.is_empty() {
        println!("No {what} server to stop");
        if !others.is_empty() {
            eprintln!("Running, and not selected:");
            for entry in others {
                eprintln!("  {}", described(&entry));
            }
        } else if let Some(file) = selection.properties_file.filter(|f| !exists(f)) {
            eprintln!("{} does not exist", file.display());
        }
        return ExitCode::FAILURE;
    }
    let mut refused = false;
    for entry in &selected {
        let pid = i32::try_from(entry.pid).ok().and_then(Pid::from_raw);
        let sent = match pid {
            Some(pid) => kill_process(pid, Signal::TERM),
            None => Err(rustix::io::Errno::SRCH),
        };
        if let Err(e) = sent
            && e != rustix::io::Errno::SRCH
        {
            eprintln!("Cannot stop {}: {e}", described(entry));
            refused = true;
        }
    }
    for entry in &selected {
        let mut waited = Duration::ZERO;
        while entry.is_running() && waited < WAIT {
            #[allow(clippy::disallowed_methods)]
            // a program of one thread waits for another process
            std::thread::sleep(POLL);
            waited += POLL;
        }
        if entry.is_running() {
            eprintln!("Still stopping: {}", described(entry));
        }
    }
    if refused {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn described(entry: &Entry) -> String {
    format!("pid {} with {}", entry.pid, entry.properties_file.display())
}

#[allow(clippy::disallowed_methods)] // the program's argument, not the broker's storage
fn exists(file: &Path) -> bool {
    file.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Selection, String> {
        Selection::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn servers_are_selected_by_file_role_and_id() {
        let entry = Entry::of_this_process(
            "kafka-server-start",
            Path::new("/no/such.properties"),
            Some(1),
            "broker,controller",
        );
        for line in [
            "",
            "/no/such.properties",
            "--process-role=broker",
            "--process-role controller --node-id 1",
        ] {
            assert!(parsed(line).unwrap().takes(&entry), "{line}");
        }
        for line in ["/no/other.properties", "--node-id=2"] {
            assert!(!parsed(line).unwrap().takes(&entry), "{line}");
        }
    }

    #[test]
    fn bad_selections_are_refused() {
        for line in [
            "a b",
            "--node-id x",
            "--node-id",
            "--process-role both",
            "--all",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
