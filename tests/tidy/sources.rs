//! What every source file keeps to, and that config/ names only defined keys.
//! Not here: dependencies (`layers`).
//! The words looked for are put together from parts, so that this file does not accuse itself.

use std::path::Path;

use kavka_config::{BrokerConfig, Properties, ZooKeeperConfig};

use crate::{files, report, root};

/// A file is split by object before it grows past the goal; past the limit it is refused.
const LINES_GOAL: usize = 600;
const LINES_MAX: usize = 800;

struct Source {
    /// Relative to the repository.
    name: String,
    text: String,
}

impl Source {
    fn is_generated(&self) -> bool {
        self.name.contains("/generated/") && !self.name.contains("/config/src/generated/mod.rs")
    }

    /// A test module beside the file it is about: that file's header speaks for it.
    fn is_test_beside(&self) -> bool {
        self.name.ends_with("_test.rs") || self.name.ends_with("/tests.rs")
    }
}

fn sources() -> Vec<Source> {
    let top = root();
    let found = files(&top, ".rs");
    assert!(
        found.len() > 50,
        "the sources were not found from {}",
        top.display()
    );
    found
        .into_iter()
        .map(|path| Source {
            name: path
                .strip_prefix(&top)
                .expect("below the top")
                .to_string_lossy()
                .into_owned(),
            text: std::fs::read_to_string(&path).expect("a source in UTF-8"),
        })
        .collect()
}

#[test]
fn files_say_what_they_own() {
    let mut complaints = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| !source.is_generated() && !source.is_test_beside())
    {
        // A room that nobody has built yet is one line that says so.
        if source.text.lines().count() == 1 && source.name.ends_with("/lib.rs") {
            continue;
        }
        let header = source
            .text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .count();
        // A crate's front page may be longer, a program of a few lines says what it is in one.
        let lines = source.text.lines().count();
        let least = if source.name.contains("/src/bin/") && lines < 40 {
            1
        } else {
            3
        };
        let most = if source.name.ends_with("/lib.rs") {
            30
        } else {
            6
        };
        if !(least..=most).contains(&header) {
            complaints.push(format!(
                "{}: the header has {header} lines; {least} to {most} say what it owns, what is not here, what runs it, \
                 and Kafka's counterpart",
                source.name
            ));
        }
    }
    report(&complaints);
}

#[test]
fn nothing_is_left_unfinished() {
    let words = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "ignore"),
        concat!("allow(", "dead_code"),
        concat!("expect(", "dead_code"),
        concat!("dbg", "!("),
    ];
    let mut complaints = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            // A measurement that a script runs is no test that somebody switched off.
            if line.contains(concat!("#[", "ignore = \"scripts/")) {
                continue;
            }
            for word in words.iter().filter(|word| line.contains(*word)) {
                complaints.push(format!("{}:{}: {word}", source.name, number + 1));
            }
        }
    }
    report(&complaints);
}

#[test]
fn files_have_one_subject() {
    let mut complaints = Vec::new();
    for source in sources().iter().filter(|source| !source.is_generated()) {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            complaints.push(format!(
                "{}: {lines} lines; split it by object, {LINES_GOAL} is the goal",
                source.name
            ));
        }
        for catch_all in ["utils", "util", "helpers", "helper", "misc"] {
            if Path::new(&source.name)
                .iter()
                .any(|part| part.to_string_lossy().trim_end_matches(".rs") == catch_all)
            {
                complaints.push(format!("{}: {catch_all} is no subject", source.name));
            }
        }
    }
    report(&complaints);
}

#[test]
fn the_shipped_properties_are_understood() {
    let mut complaints = Vec::new();
    for path in files(&root().join("config"), ".properties") {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let file =
            Properties::parse(&std::fs::read(&path).expect("a file")).expect("a properties file");
        let shown = path.display();
        complaints.extend(
            file.duplicates()
                .iter()
                .map(|key| format!("{shown}: {key} is given twice")),
        );
        match name.as_str() {
            "server.properties" | "broker.properties" | "controller.properties" => {
                match BrokerConfig::from_properties(&file) {
                    Ok(config) => {
                        complaints.extend(
                            config
                                .unknown_keys()
                                .iter()
                                .map(|key| format!("{shown}: {key} is not defined")),
                        );
                    }
                    Err(error) => complaints.push(format!("{shown}: {error}")),
                }
            }
            "zookeeper.properties" => match ZooKeeperConfig::from_properties(&file) {
                Ok(config) => complaints.extend(
                    config
                        .warnings
                        .iter()
                        .map(|warning| format!("{shown}: {warning}")),
                ),
                Err(error) => complaints.push(format!("{shown}: {error}")),
            },
            "producer.properties" | "consumer.properties" => {
                // The clients' tables are the clients' own; these are the few keys that the files show.
                let known = [
                    "bootstrap.servers",
                    "compression.type",
                    "group.id",
                    "auto.offset.reset",
                    "acks",
                    "linger.ms",
                ];
                complaints.extend(
                    file.iter()
                        .filter(|(key, _)| !known.contains(key))
                        .map(|(key, _)| format!("{shown}: {key} is not a known client setting")),
                );
            }
            other => complaints.push(format!("{shown}: no rule is known for {other}")),
        }
    }
    report(&complaints);
}

/// A commented-out setting is advice; it must be right too.
#[test]
fn commented_out_keys_are_defined() {
    let mut complaints = Vec::new();
    for path in files(&root().join("config"), "server.properties") {
        let text = std::fs::read_to_string(&path).expect("a file");
        for line in text.lines().filter_map(|line| line.strip_prefix('#')) {
            let Some((key, _)) = line.split_once('=') else {
                continue;
            };
            let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '.');
            if is_key
                && !BrokerConfig::definitions()
                    .iter()
                    .any(|known| known.name == key)
            {
                complaints.push(format!("{}: #{key} is not defined", path.display()));
            }
        }
    }
    report(&complaints);
}
