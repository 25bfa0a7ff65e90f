//! `-daemon`: the server in a session of its own, and the command that returns when it is ready or has failed.
//! Not here: what the server does; where log lines are formatted (logging.rs).
//! The parent has no runtime; the child tells it through the socket that is its standard input.
//! Kafka: bin/kafka-run-class.sh (nohup, CONSOLE_OUTPUT_FILE), which returns at once whatever happens.

#![allow(clippy::disallowed_methods)] // files of the program itself, not of the broker's storage

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Tells the child that it is one.
const CHILD_VARIABLE: &str = "KAVKA_DAEMON_CHILD";
/// What the child says when it serves.
const READY: &[u8] = b"ready\n";

/// The folder of `server.log` and the console output: `LOG_DIR`, else `logs` in the distribution's folder.
pub fn log_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("LOG_DIR")
        && !folder.is_empty()
    {
        return folder.into();
    }
    match std::env::var_os("KAVKA_HOME") {
        Some(home) if !home.is_empty() => PathBuf::from(home).join("logs"),
        _ => PathBuf::from("logs"),
    }
}

/// Starts this program again as a daemon with the same arguments, and waits for its word.
pub fn launch(arguments: &[String], name: &str) -> ExitCode {
    match try_launch(arguments, name) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("Cannot start in the background: {e}");
            ExitCode::FAILURE
        }
    }
}

fn try_launch(arguments: &[String], name: &str) -> io::Result<ExitCode> {
    let folder = log_folder();
    std::fs::create_dir_all(&folder)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", folder.display())))?;
    let console = folder.join(format!("{name}.out"));
    // Emptied here, and by the server when it has grown large: a line goes to what is the end then.
    let output = File::create(&console)
        .and_then(|_| OpenOptions::new().append(true).open(&console))
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", console.display())))?;
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(
            arguments
                .iter()
                .filter(|a| !matches!(a.as_str(), "-daemon" | "--daemon")),
        )
        .env(CHILD_VARIABLE, "1")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    // `Command` is gone and with it our copy of the child's end: its death ends the reading.
    let mut word = Vec::new();
    ours.read_to_end(&mut word)?;
    if word == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    let why = String::from_utf8_lossy(&word);
    if why.trim().is_empty() {
        eprintln!(
            "The server ended before it was ready ({status}); see {}",
            console.display()
        );
    } else {
        eprintln!("{}", why.trim_end());
    }
    Ok(ExitCode::FAILURE)
}

/// The child's side.
#[derive(Debug)]
pub struct Daemon {
    parent: Option<UnixStream>,
    pub log_file: PathBuf,
}

impl Daemon {
    /// `Some` in a process that `launch` has started: leaves the parent's session and takes over its socket.
    pub fn of_this_process() -> Option<Daemon> {
        std::env::var_os(CHILD_VARIABLE)?;
        // Fails only for a process group leader, which a spawned child is not; then it keeps its session.
        let _ = rustix::process::setsid();
        let parent = io::stdin().as_fd().try_clone_to_owned().ok();
        if let Ok(null) = File::open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
        }
        Some(Daemon {
            parent: parent.map(UnixStream::from),
            log_file: log_folder().join("server.log"),
        })
    }

    /// The parent returns with success.
    pub fn ready(&mut self) {
        if let Some(mut parent) = self.parent.take() {
            // A parent that was killed has no need to know.
            let _ = parent.write_all(READY);
        }
    }

    /// The parent prints why and fails.
    pub fn failed(&mut self, why: &str) {
        if let Some(mut parent) = self.parent.take() {
            let _ = parent.write_all(why.as_bytes());
        }
    }
}
