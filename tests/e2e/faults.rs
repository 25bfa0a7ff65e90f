//! Faults under a running broker: what it does when the machine takes away what it stands on.
//! Not here: faults of one log (crates/storage has a simulated disk for that).
//! Kafka: LogManager.handleLogDirFailure.

use kavka_testkit::Sandbox;

/// A broker that only says that it has failed keeps its leaderships, and nothing restarts it.
#[test]
fn without_a_log_directory_it_ends() {
    let sandbox = Sandbox::new();
    let broker = sandbox
        .broker()
        .with("replica.high.watermark.checkpoint.interval.ms", "100");
    let server = broker.start(&sandbox);
    std::fs::remove_dir_all(&broker.data).expect("the folder is removed");
    assert_eq!(server.ended().code(), Some(1), "{}", server.output());
    // The folder is the last that held logs, and the one that holds the metadata: either is noticed first.
    let output = server.output();
    assert!(
        output.contains("Halting: all log directories have failed")
            || output.contains("Halting: the metadata log directory"),
        "{output}"
    );
}
