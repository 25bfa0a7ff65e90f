//! A child process: what it writes, line by line, and its end. Tools are run to their end, servers are watched.
//! Not here: which program, with which environment (sandbox.rs).
//! One thread per stream collects lines, one waits for the end; the test waits on a condition variable.

use crate::wait::DEADLINE;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a tool ended, and what it wrote.
#[derive(Clone, Debug)]
pub struct Finished {
    pub command: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The output of a tool that has to succeed.
    #[track_caller]
    pub fn success(self) -> String {
        assert!(self.status.success(), "{self}");
        self.stdout
    }

    /// Both outputs of a tool that has to fail in order: with an exit status, not by a signal or panic.
    #[track_caller]
    pub fn failure(self) -> String {
        let both = format!("{}{}", self.stdout, self.stderr);
        assert!(
            self.status
                .code()
                .is_some_and(|code| code != 0 && code != 101),
            "{self}"
        );
        assert!(!both.contains("panicked at"), "{self}");
        both
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} ended with {}", self.command, self.status)?;
        writeln!(f, "standard output:\n{}", self.stdout)?;
        write!(f, "standard error:\n{}", self.stderr)
    }
}

/// Runs a tool to its end with `input` as its standard input; panics when it takes longer than the deadline.
#[track_caller]
pub fn run(command: &mut Command, input: &str) -> Finished {
    let shown = format!("{command:?}");
    let mut child = spawn(command.stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    let writing = std::thread::spawn(move || {
        // A tool that ends early does not read everything.
        let _ = stdin.write_all(input.as_bytes());
    });
    let stdout = collect(child.stdout.take().expect("piped"));
    let stderr = collect(child.stderr.take().expect("piped"));
    let pid = pid_of(&child);
    let end = End::watch(child);
    let Some(status) = end.wait(DEADLINE) else {
        let _ = kill_process(pid, Signal::KILL);
        let status = end.wait(DEADLINE);
        panic!(
            "{shown} did not end within {DEADLINE:?} and was killed ({status:?})\nstandard output:\n{}\nstandard error:\n{}",
            text(stdout),
            text(stderr)
        );
    };
    writing.join().expect("the writing thread");
    Finished {
        command: shown,
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

fn spawn(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("a process id")
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        // What came before an error is what there is to show.
        let _ = from.read_to_end(&mut all);
        all
    })
}

fn text(collected: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&collected.join().expect("the reading thread")).into_owned()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of a process, which a thread of its own waits for.
#[derive(Debug)]
struct End(Arc<(Mutex<Option<ExitStatus>>, Condvar)>);

impl End {
    fn watch(mut child: Child) -> End {
        let end = Arc::new((Mutex::new(None), Condvar::new()));
        let told = Arc::clone(&end);
        std::thread::spawn(move || {
            let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(-1));
            *locked(&told.0) = Some(status);
            told.1.notify_all();
        });
        End(end)
    }

    fn wait(&self, at_most: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + at_most;
        let mut ended = locked(&self.0.0);
        while ended.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            ended = self
                .0
                .1
                .wait_timeout(ended, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *ended
    }

    fn seen(&self) -> Option<ExitStatus> {
        *locked(&self.0.0)
    }
}

#[derive(Debug, Default)]
struct Output {
    lines: Vec<String>,
    streams_open: usize,
}

/// A server that runs; killed when dropped.
#[derive(Debug)]
pub struct Server {
    pub command: String,
    pid: Pid,
    output: Arc<(Mutex<Output>, Condvar)>,
    end: End,
}

impl Server {
    pub fn start(command: &mut Command) -> Server {
        let shown = format!("{command:?}");
        let mut child = spawn(command.stdin(Stdio::null()));
        let output = Arc::new((
            Mutex::new(Output {
                lines: Vec::new(),
                streams_open: 2,
            }),
            Condvar::new(),
        ));
        follow(child.stdout.take().expect("piped"), &output);
        follow(child.stderr.take().expect("piped"), &output);
        Server {
            command: shown,
            pid: pid_of(&child),
            output,
            end: End::watch(child),
        }
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The first line that holds `words`, now or later. Panics at the deadline, or when the server ends without it.
    #[track_caller]
    pub fn line(&self, words: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        let mut output = locked(&self.output.0);
        loop {
            if let Some(line) = output.lines.iter().find(|line| line.contains(words)) {
                return line.clone();
            }
            let left = deadline.checked_duration_since(Instant::now());
            let (Some(left), true) = (left, output.streams_open > 0) else {
                let all = output.lines.join("\n");
                drop(output);
                panic!("{} did not say {words:?}; it said:\n{all}", self.command);
            };
            output = self
                .output
                .1
                .wait_timeout(output, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Everything it has written so far; all that it ever wrote once it has ended.
    pub fn output(&self) -> String {
        let mut output = locked(&self.output.0);
        while self.end.seen().is_some() && output.streams_open > 0 {
            output = self
                .output
                .1
                .wait(output)
                .unwrap_or_else(PoisonError::into_inner);
        }
        output.lines.join("\n")
    }

    pub fn is_running(&self) -> bool {
        self.end.seen().is_none()
    }

    pub fn signal(&self, signal: Signal) {
        if self.is_running() {
            // It may have ended just now.
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Waits for its end; panics at the deadline.
    #[track_caller]
    pub fn ended(&self) -> ExitStatus {
        self.end.wait(DEADLINE).unwrap_or_else(|| {
            panic!(
                "{} still runs after {DEADLINE:?}:\n{}",
                self.command,
                self.output()
            )
        })
    }

    /// `kill -9`, and waits until the process is gone.
    #[track_caller]
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        self.ended();
    }

    /// SIGTERM, and the exit status.
    #[track_caller]
    pub fn terminate(&self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.end.wait(DEADLINE);
    }
}

fn follow(from: impl Read + Send + 'static, output: &Arc<(Mutex<Output>, Condvar)>) {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = from.read_until(b'\n', &mut bytes).unwrap_or(0);
            let mut output_now = locked(&output.0);
            if read == 0 {
                output_now.streams_open -= 1;
            } else {
                let line = String::from_utf8_lossy(&bytes);
                output_now
                    .lines
                    .push(line.trim_end_matches('\n').to_owned());
            }
            drop(output_now);
            output.1.notify_all();
            if read == 0 {
                return;
            }
        }
    });
}
