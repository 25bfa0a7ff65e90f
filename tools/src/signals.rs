//! SIGINT and SIGTERM as a flag that a tool's loop looks at.
//! Not here: what the tool does then. Runs a small thread of its own with a signal driver, started on demand.
//! Kafka: Exit.addShutdownHook.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Which signal asked the tool to stop.
#[derive(Clone, Debug, Default)]
pub struct Interruption {
    signal: Arc<AtomicU8>,
}

impl Interruption {
    /// Starts to listen. From then on the signals no longer end the process by themselves; a second one does.
    pub fn listen() -> io::Result<Interruption> {
        let interruption = Interruption::default();
        let flag = interruption.signal.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let (mut int, mut term) = {
            let _entered = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            )
        };
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                runtime.block_on(async move {
                    loop {
                        let number = tokio::select! {
                            _ = int.recv() => 2,
                            _ = term.recv() => 15,
                        };
                        if flag.swap(number, Ordering::SeqCst) != 0 {
                            std::process::exit(128 + i32::from(number));
                        }
                    }
                });
            })?;
        Ok(interruption)
    }

    /// The exit status of a process ended by the signal, if one came.
    pub fn status(&self) -> Option<u8> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            number => Some(128 + number),
        }
    }
}
