//! Where output goes that cannot go anywhere: a full device is a failure, a closed pipe is none. And exit codes that
//! were asked for.
//! Not here: what the tools print (tests/cli).
//! Kafka: no counterpart; its tools end with 0 when their output is lost.

use crate::produce;
use kavka_testkit::Sandbox;
use std::fs::OpenOptions;
use std::process::Stdio;

/// Status and standard error of a tool that writes to a device that is always full.
fn to_full_device(sandbox: &Sandbox, script: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let full = OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let output = sandbox
        .script(script)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process")
        .wait_with_output()
        .expect("its end");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn lost_output_is_a_failure() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let server = broker.start(&sandbox);
    let bootstrap = broker.bootstrap();
    sandbox
        .tool(
            "kafka-topics",
            &["--create", "--topic", "t", "--bootstrap-server", &bootstrap],
        )
        .success();
    produce(&sandbox, &bootstrap, "t", "one\ntwo\n");
    let at = ["--bootstrap-server", bootstrap.as_str()];
    let consume = [
        &at[..],
        &[
            "--topic",
            "t",
            "--from-beginning",
            "--max-messages",
            "2",
            "--timeout-ms",
            "30000",
        ],
    ]
    .concat();
    for (tool, arguments) in [
        ("kafka-console-consumer", consume.clone()),
        ("kafka-topics", [&at[..], &["--list"]].concat()),
        ("kafka-consumer-groups", [&at[..], &["--list"]].concat()),
        ("kafka-storage", vec!["random-uuid"]),
    ] {
        let (status, said) = to_full_device(&sandbox, tool, &arguments);
        assert_eq!(status, Some(1), "{tool}: {said}");
        assert!(
            said.contains("Standard output could not be written: No space left on device"),
            "{tool}: {said}"
        );
    }

    let mut child = sandbox
        .script("kafka-console-consumer")
        .args(&consume)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("could not be written"), "{said}");
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
}

#[test]
fn strict_exit_codes_of_groups() {
    let sandbox = Sandbox::new();
    let broker = sandbox.broker();
    let server = broker.start(&sandbox);
    let status = |servers: &str, arguments: &[&str]| {
        let output = sandbox
            .script("kafka-consumer-groups")
            .args(["--bootstrap-server", servers])
            .args(arguments)
            .output()
            .expect("a process");
        output.status.code()
    };
    let bootstrap = broker.bootstrap();
    let missing = ["--describe", "--group", "nobody"];
    assert_eq!(status(&bootstrap, &missing), Some(0), "as Apache's");
    let strict = |arguments: &[&'static str]| [arguments, &["--strict"]].concat();
    assert_eq!(status(&bootstrap, &strict(&missing)), Some(1));
    assert_eq!(status(&bootstrap, &strict(&["--list"])), Some(0));
    assert_eq!(status(&bootstrap, &strict(&["--nonsense"])), Some(2));
    assert_eq!(server.terminate().code(), Some(143), "{}", server.output());
    let nowhere = strict(&["--list", "--timeout", "500"]);
    assert_eq!(status(&bootstrap, &nowhere), Some(3));
}
