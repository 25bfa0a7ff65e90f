//! kafka-features: the levels of features, those of a cluster and those of releases.
//! Not here: options (options), tables of levels (kavka-metadata), which go together (storage::features).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.FeatureCommand; KIP-584, KIP-778, KIP-1022.

mod options;

use crate::args::argparse::{Command, Problem, Values};
use crate::java::Exception;
use crate::json::{self, Format};
use crate::output;
use crate::session::{BOOTSTRAP_CONTROLLER, BOOTSTRAP_SERVER, OpenError, Session};
use crate::storage::{self, features as levels};
use crate::table::{Align, Table};
use kavka_client::ClientError;
use kavka_client::admin::ItemResult;
use kavka_client::admin::features::{self, Features, UpgradeType};
use kavka_common::NodeId;
use kavka_metadata::features::{METADATA_VERSION, MetadataVersion, production_features};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

const DEPRECATED_METADATA: &str =
    " `metadata` flag is deprecated and may be removed in a future release.\n";

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let arguments: Vec<String> = arguments
        .into_iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    match run(&arguments) {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(Trouble::Help(text)) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(Trouble::CommandLine(text)) => {
            output::error(&format!(
                "Command line error: {text}. Type --help for help."
            ));
            ExitCode::FAILURE
        }
        Err(Trouble::Terse(text)) => {
            output::error(&format!("{text}\n"));
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug)]
enum Trouble {
    Help(String),
    CommandLine(String),
    /// A sentence; this tool prints no traces.
    Terse(String),
}

/// The complaint alone: this tool prints no usage before it, and sets it in one line.
fn command_line(problem: Problem) -> Trouble {
    match problem {
        Problem::Help(text) => Trouble::Help(text),
        Problem::Refused(text) => {
            let told = text.split_once("error:").map_or("", |(_, told)| told);
            // A line that ends with a hyphen was broken within a word.
            let told = told.replace("-\n", "-");
            Trouble::CommandLine(told.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

impl From<storage::Stop> for Trouble {
    fn from(stop: storage::Stop) -> Trouble {
        match stop {
            storage::Stop::Terse(text) => Trouble::Terse(text),
            storage::Stop::Uncaught(exception) => Trouble::Terse(exception.message),
            storage::Stop::Arguments(problem) => command_line(problem),
            storage::Stop::Failed => Trouble::Terse(String::new()),
        }
    }
}

impl From<OpenError> for Trouble {
    fn from(error: OpenError) -> Trouble {
        Trouble::Terse(error.exception.message)
    }
}

/// The text for standard output.
fn run(arguments: &[String]) -> Result<String, Trouble> {
    let names = options::SUBCOMMANDS.map(|(name, _)| name);
    let (root, name, rest) = options::ROOT
        .parse_before(&names, arguments)
        .map_err(|problem| match problem {
            Problem::Help(_) => Trouble::Help(options::help()),
            refused @ Problem::Refused(_) => command_line(refused),
        })?;
    let command = match name {
        "describe" => options::DESCRIBE,
        "upgrade" => options::UPGRADE,
        "downgrade" => options::DOWNGRADE,
        "disable" => options::DISABLE,
        "version-mapping" => options::VERSION_MAPPING,
        _ => options::FEATURE_DEPENDENCIES,
    };
    let values = command.parse(rest).map_err(command_line)?;
    match name {
        "describe" => {
            let node = command.int(&values, "--node-id").map_err(command_line)?;
            describe(&root, node, format(&command, &values)?)
        }
        "upgrade" => {
            let kind = UpgradeType::Upgrade;
            change(&root, &values, "upgrade", kind, format(&command, &values)?)
        }
        "downgrade" | "disable" => {
            let kind = if values.has("--unsafe") {
                UpgradeType::UnsafeDowngrade
            } else {
                UpgradeType::SafeDowngrade
            };
            change(&root, &values, name, kind, format(&command, &values)?)
        }
        "version-mapping" => Ok(levels::version_mapping(values.value("--release-version"))?),
        _ => {
            levels::parse_levels(values.all("--feature"))?;
            Ok(levels::dependencies(values.all("--feature"))?)
        }
    }
}

fn format(command: &Command, values: &Values) -> Result<Format, Trouble> {
    Format::parse(values.value("--output")).map_err(|text| command_line(command.refuse(&text)))
}

fn open(root: &Values) -> Result<Session, Trouble> {
    let controllers = root.value("--bootstrap-controller");
    let (option, servers) = match (controllers, root.value("--bootstrap-server")) {
        (Some(controllers), _) => (BOOTSTRAP_CONTROLLER, controllers),
        (None, Some(servers)) => (BOOTSTRAP_SERVER, servers),
        (None, None) => {
            return Err(Trouble::CommandLine(
                "You must specify either --bootstrap-controller or --bootstrap-server.".into(),
            ));
        }
    };
    Ok(Session::open(
        servers,
        option,
        root.value("--command-config"),
    )?)
}

/// What Java's `ExecutionException` says.
fn failed(session: &Session, error: &ClientError) -> Trouble {
    session.explain(error);
    Trouble::Terse(Exception::from(error).trace())
}

/// A level as people know it.
fn level(feature: &str, level: i16) -> String {
    if feature != METADATA_VERSION {
        return level.to_string();
    }
    MetadataVersion::from_level(level).map_or_else(
        || format!("UNKNOWN {level}"),
        |known| known.name().to_owned(),
    )
}

fn describe(root: &Values, node: Option<i32>, format: Format) -> Result<String, Trouble> {
    let mut session = open(root)?;
    if let Some(node) = node.filter(|node| *node < 0) {
        return Err(Trouble::Terse(format!(
            "Invalid node id {node}: must be non-negative."
        )));
    }
    let found = session
        .run(async |cluster| features::describe(cluster, node.map(NodeId)).await)
        .map_err(|error| failed(&session, &error))?;
    Ok(show(&found, format))
}

fn show(found: &Features, format: Format) -> String {
    let rows = found.supported.iter().map(|(name, range)| {
        let finalized = found.finalized.get(name).copied().unwrap_or_default();
        (name, range, finalized)
    });
    let epoch = found
        .epoch
        .map_or_else(|| "-".into(), |epoch| epoch.to_string());
    match format {
        Format::Text => rows
            .map(|(name, range, finalized)| {
                format!(
                    "Feature: {name:<40}  SupportedMinVersion: {:<15}  SupportedMaxVersion: {:<15}  FinalizedVersionLevel: {:<15}  Epoch: {epoch}\n",
                    level(name, range.min),
                    level(name, range.max),
                    level(name, finalized)
                )
            })
            .collect(),
        Format::Table => {
            let mut table = Table::new(&[
                ("feature", Align::Left),
                ("min", Align::Right),
                ("max", Align::Right),
                ("level", Align::Right),
            ]);
            for (name, range, finalized) in rows {
                table.row(vec![
                    name.clone(),
                    level(name, range.min),
                    level(name, range.max),
                    level(name, finalized),
                ]);
            }
            table.render()
        }
        Format::Json => {
            let all: Vec<_> = rows
                .map(|(name, range, finalized)| {
                    json!({
                        "feature": name,
                        "supported_min_version": range.min,
                        "supported_max_version": range.max,
                        "finalized_version_level": finalized,
                    })
                })
                .collect();
            json::document(&json!({"features": all, "epoch": found.epoch}))
        }
    }
}

/// The levels that are asked for.
fn asked(values: &Values, command: &str, format: Format) -> Result<BTreeMap<String, i16>, Trouble> {
    let mut asked = BTreeMap::new();
    let mut ask = |name: &str, level: i16| match asked.insert(name.to_owned(), level) {
        None => Ok(()),
        Some(_) => Err(Trouble::Terse(format!(
            "Feature {name} was specified more than once."
        ))),
    };
    let metadata = values.value("--metadata");
    let features: Vec<&str> = values.all("--feature").collect();
    if let Some(release) = values.value("--release-version") {
        if metadata.is_some() || !features.is_empty() {
            return Err(Trouble::Terse(
                "Can not specify `release-version` with other feature flags.".into(),
            ));
        }
        let release = levels::release(release, true)?;
        ask(METADATA_VERSION, release.0)?;
        for (name, _) in production_features(MetadataVersion::LATEST_PRODUCTION) {
            let level = levels::default_level(name, release);
            // A feature that the release lacks is not upgraded to 0.
            if name != METADATA_VERSION && (command != "upgrade" || level > 0) {
                ask(name, level)?;
            }
        }
        let kraft = kavka_metadata::features::KRAFT_VERSION;
        let level = levels::default_level(kraft, release);
        if command != "upgrade" || level > 0 {
            ask(kraft, level)?;
        }
        return Ok(asked);
    }
    if let Some(text) = metadata {
        match format {
            Format::Text => output::print(DEPRECATED_METADATA),
            Format::Table | Format::Json => output::error(DEPRECATED_METADATA),
        }
        ask(METADATA_VERSION, levels::release(text, true)?.0)?;
    }
    for feature in features {
        if command == "disable" {
            ask(feature, 0)?;
            continue;
        }
        for (name, level) in levels::parse_levels(std::iter::once(feature))? {
            ask(&name, level)?;
        }
    }
    if asked.is_empty() {
        return Err(Trouble::Terse(format!(
            "You must specify at least one feature to {command}"
        )));
    }
    Ok(asked)
}

fn change(
    root: &Values,
    values: &Values,
    command: &str,
    kind: UpgradeType,
    format: Format,
) -> Result<String, Trouble> {
    let mut session = open(root)?;
    let asked = asked(values, command, format)?;
    let dry_run = values.has("--dry-run");
    let results = session
        .run(async |cluster| features::update(cluster, &asked, kind, dry_run).await)
        .map_err(|error| failed(&session, &error))?;
    let failures = results.iter().filter(|(_, result)| result.is_err()).count();
    let text = match format {
        Format::Text | Format::Table => outcome(&results, &asked, command, dry_run),
        Format::Json => {
            let all: Vec<_> = results
                .iter()
                .map(|(name, result)| {
                    let error = result.as_ref().err().map(ToString::to_string);
                    json!({
                        "feature": name,
                        "level": asked.get(name),
                        "updated": error.is_none() && !dry_run,
                        "error": error,
                    })
                })
                .collect();
            json::document(&json!({"dry_run": dry_run, "features": all}))
        }
    };
    if failures == 0 {
        return Ok(text);
    }
    output::print(&text);
    Err(Trouble::Terse(format!(
        "{failures} out of {} operation(s) failed.",
        asked.len()
    )))
}

fn outcome(
    results: &[(String, ItemResult<()>)],
    asked: &BTreeMap<String, i16>,
    command: &str,
    dry_run: bool,
) -> String {
    let line = |(name, result): &(String, ItemResult<()>)| {
        let level = asked.get(name).copied().unwrap_or_default();
        let disable = command == "disable";
        match result {
            Ok(()) => {
                let verb = if dry_run { "can be" } else { "was" };
                if disable {
                    format!("{name} {verb} disabled.\n")
                } else {
                    format!("{name} {verb} {command}d to {level}.\n")
                }
            }
            Err(error) => {
                let verb = if dry_run { "Can not" } else { "Could not" };
                if disable {
                    format!("{verb} disable {name}. {error}\n")
                } else {
                    format!("{verb} {command} {name} to {level}. {error}\n")
                }
            }
        }
    };
    results.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_client::admin::features::Supported;
    use kavka_protocol::ErrorCode;

    fn told(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match run(&words) {
            Ok(text) | Err(Trouble::Help(text) | Trouble::Terse(text)) => text,
            Err(Trouble::CommandLine(text)) => format!("Command line error: {text}"),
        }
    }

    /// What Apache's tool printed.
    #[test]
    fn refusals_are_javas() {
        const SERVER: &str = "--bootstrap-server 127.0.0.1:1 ";
        for (line, text) in [
            ("", "Command line error: too few arguments"),
            (
                "describe",
                "Command line error: You must specify either --bootstrap-controller or --bootstrap-server.",
            ),
            (
                "nonsense",
                "Command line error: invalid choice: 'nonsense' (choose from 'describe', 'upgrade', 'downgrade', 'disable', 'version-mapping', 'feature-dependencies')",
            ),
            (
                "--nonsense describe",
                "Command line error: unrecognized arguments: '--nonsense'",
            ),
            (
                "--bootstrap-server a:1 --bootstrap-controller b:1 describe",
                "Command line error: argument --bootstrap-controller: not allowed with argument --bootstrap-server",
            ),
            (
                "SERVER describe --nonsense",
                "Command line error: unrecognized arguments: '--nonsense'",
            ),
            (
                "SERVER describe --node-id -3",
                "Invalid node id -3: must be non-negative.",
            ),
            (
                "SERVER upgrade",
                "You must specify at least one feature to upgrade",
            ),
            (
                "SERVER downgrade --unsafe",
                "You must specify at least one feature to downgrade",
            ),
            (
                "SERVER disable",
                "You must specify at least one feature to disable",
            ),
            (
                "SERVER upgrade --feature x",
                "Can't parse feature=level string x: equals sign not found.",
            ),
            (
                "SERVER upgrade --feature x=y",
                "Can't parse feature=level string x=y: unable to parse y as a short.",
            ),
            (
                "SERVER upgrade --feature x=1 --feature x=2",
                "Feature x was specified more than once.",
            ),
            (
                "SERVER disable --feature x --feature x",
                "Feature x was specified more than once.",
            ),
            (
                "SERVER upgrade --metadata 4.0 --release-version 4.0",
                "Can not specify `release-version` with other feature flags.",
            ),
            (
                "feature-dependencies",
                "Command line error: argument --feature is required",
            ),
            (
                "feature-dependencies --feature x",
                "Can't parse feature=level string x: equals sign not found.",
            ),
            ("feature-dependencies --feature x=1", "Unknown feature: x"),
            (
                "feature-dependencies --feature metadata.version=99",
                "Unknown metadata.version 99",
            ),
            (
                "feature-dependencies --feature group.version=1",
                "group.version=1 has no dependencies.\n",
            ),
        ] {
            assert_eq!(told(&line.replace("SERVER ", SERVER)), text, "{line}");
        }
        assert!(told("version-mapping --release-version 9").contains("4.3-IV0, 4.4-IV0"));
        assert!(
            told("version-mapping").starts_with("metadata.version=30 (4.3-IV0)\nkraft.version=1\n")
        );
    }

    #[test]
    fn levels_are_shown_as_by_java() {
        let mut found = Features {
            epoch: Some(64),
            ..Default::default()
        };
        found
            .supported
            .insert("metadata.version".into(), Supported { min: 7, max: 30 });
        found.finalized.insert("metadata.version".into(), 30);
        assert_eq!(
            show(&found, Format::Text),
            "Feature: metadata.version                          SupportedMinVersion: 3.3-IV3          SupportedMaxVersion: 4.3-IV0          FinalizedVersionLevel: 4.3-IV0          Epoch: 64\n"
        );
    }

    #[test]
    fn a_release_asks_for_all_its_levels() {
        let words: Vec<String> = ["--release-version", "4.3"].map(str::to_owned).to_vec();
        let values = options::UPGRADE.parse(&words).unwrap();
        let levels = asked(&values, "upgrade", Format::Text).unwrap();
        let names: Vec<&str> = levels.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "eligible.leader.replicas.version",
                "group.version",
                "kraft.version",
                "metadata.version",
                "share.version",
                "streams.version",
                "transaction.version"
            ]
        );
    }

    #[test]
    fn outcomes_are_javas() {
        let asked = BTreeMap::from([("group.version".to_owned(), 99)]);
        let refused = || {
            vec![(
                "group.version".to_owned(),
                Err(ClientError::Refused {
                    code: ErrorCode::InvalidUpdateVersion,
                    message: Some("No.".into()),
                }),
            )]
        };
        let done = || vec![("group.version".to_owned(), Ok(()))];
        for (results, command, dry_run, text) in [
            (
                refused(),
                "upgrade",
                false,
                "Could not upgrade group.version to 99. No.\n",
            ),
            (
                refused(),
                "disable",
                true,
                "Can not disable group.version. No.\n",
            ),
            (
                done(),
                "upgrade",
                true,
                "group.version can be upgraded to 99.\n",
            ),
            (
                done(),
                "downgrade",
                false,
                "group.version was downgraded to 99.\n",
            ),
            (done(), "disable", false, "group.version was disabled.\n"),
        ] {
            assert_eq!(outcome(&results, &asked, command, dry_run), text);
        }
    }
}
