//! Which crate may depend on which, compared with `cargo metadata`; the table of docs/architecture.md.
//! Not here: which library is fenced into which crate (deny.toml).
//! A new edge between crates is a change of the design: edit the table and the page in the same commit.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::{report, root};

const BASE: &[&str] = &[
    "kavka-common",
    "kavka-config",
    "kavka-protocol",
    "kavka-records",
];

/// Crate, crates of ours it may use, whether it is pure (then `PURE` limits its other dependencies).
fn table() -> BTreeMap<&'static str, (Vec<&'static str>, bool)> {
    let with = |more: &[&'static str]| BASE.iter().chain(more).copied().collect::<Vec<_>>();
    BTreeMap::from([
        ("kavka-common", (vec![], true)),
        ("kavka-config", (vec!["kavka-common"], true)),
        ("kavka-protocol", (vec!["kavka-common"], true)),
        ("kavka-records", (vec!["kavka-common"], true)),
        ("kavka-metadata", (with(&[]), true)),
        ("kavka-replication", (with(&[]), true)),
        ("kavka-coordinator", (with(&[]), true)),
        ("kavka-controller", (with(&["kavka-metadata"]), true)),
        ("kavka-zookeeper", (with(&["kavka-metadata"]), true)),
        ("kavka-generator", (vec![], false)),
        ("kavka-storage", (with(&[]), false)),
        ("kavka-client", (with(&[]), false)),
        (
            "kavka-testkit",
            (with(&["kavka-storage", "kavka-client"]), false),
        ),
        (
            "kavka-tools",
            (
                with(&["kavka-storage", "kavka-metadata", "kavka-client"]),
                false,
            ),
        ),
        (
            "kavka-broker",
            (
                with(&[
                    "kavka-metadata",
                    "kavka-controller",
                    "kavka-replication",
                    "kavka-coordinator",
                    "kavka-zookeeper",
                    "kavka-storage",
                    "kavka-client",
                ]),
                false,
            ),
        ),
        (
            "kavka-sim",
            (
                with(&[
                    "kavka-metadata",
                    "kavka-controller",
                    "kavka-replication",
                    "kavka-storage",
                    "kavka-broker",
                ]),
                false,
            ),
        ),
        (
            "kavka-tests",
            (
                with(&[
                    "kavka-storage",
                    "kavka-client",
                    "kavka-testkit",
                    "kavka-metadata",
                ]),
                false,
            ),
        ),
    ])
}

/// What pure crates may use besides: no runtime, files, sockets, clocks or random numbers among them.
const PURE: &[&str] = &[
    "base64",
    "bytes",
    "crc-fast",
    "flate2",
    "lz4_flex",
    "regex",
    "rpds",
    "serde_json",
    "snap",
    "thiserror",
    "zstd",
];

/// Binaries are named after Kafka's scripts; a tool that needs the broker's code would pull all of it in.
#[test]
fn dependencies_point_downward_only() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let table = table();
    let mut complaints = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some((allowed, pure)) = table.get(name) else {
            complaints.push(format!(
                "{name} is not in the table of layers (tests/tidy/layers.rs)"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            // Tests may use what they like: the clusters of the testkit, a client against the broker.
            if dependency["kind"].as_str() == Some("dev") {
                continue;
            }
            let used = dependency["name"].as_str().expect("a name");
            if used.starts_with("kavka-") {
                if !allowed.contains(&used) {
                    complaints.push(format!("{name} must not depend on {used}"));
                }
            } else if *pure && !PURE.contains(&used) {
                complaints.push(format!("{name} is pure and must not depend on {used}"));
            }
        }
    }
    report(&complaints);
}
