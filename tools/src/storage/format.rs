//! `kafka-storage format`: gives log directories an identity and a new cluster its first records.
//! Not here: bytes of snapshots (checkpoint), levels (features), voters' addresses (voters).
//! Checks everything before it writes anything. Kafka: org.apache.kafka.metadata.storage.Formatter, StorageTool.

use super::features::{self, Levels};
use super::voters::{self, Voter};
use super::{Stop, checkpoint, random_uuid};
use crate::args::argparse::Values;
use crate::java::Exception;
use crate::output;
use kavka_common::clock::{Clock, SystemClock};
use kavka_common::{NodeId, Uuid};
use kavka_config::BrokerConfig;
use kavka_metadata::features::METADATA_VERSION;
use kavka_protocol::MetadataRecord;
use kavka_protocol::messages::FeatureLevelRecord;
use kavka_storage::error::StorageError;
use kavka_storage::meta_properties::MetaProperties;
use kavka_storage::vfs::{Durability, RealVfs, Vfs, replace_file};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

const BOOTSTRAP: &str = "bootstrap.checkpoint";
const VOTER_SET: &str = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint";
const STATIC_AND_DYNAMIC: &str = "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead.";
const WHICH_QUORUM: &str = "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.";
const KRAFT_0: &str = "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing the --feature flag for kraft.version.";
const NO_SCRAM: &str = "--add-scram is not supported yet: nothing was formatted. Format without it, and run the cluster on listeners without SASL.";

/// What a directory is for, in the words of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Data,
    StaticMetadata,
    /// The voter set is written, this node is not among it.
    DynamicMetadata,
    DynamicVoter,
}

impl Purpose {
    fn words(self) -> &'static str {
        match self {
            Purpose::Data => "data directory",
            Purpose::StaticMetadata => "metadata directory",
            Purpose::DynamicMetadata => "dynamic metadata directory",
            Purpose::DynamicVoter => "dynamic metadata voter directory",
        }
    }
}

/// A format that is possible.
#[derive(Debug)]
struct Plan {
    cluster_id: String,
    node_id: NodeId,
    levels: Levels,
    kraft_version: i16,
    voters: Option<Vec<Voter>>,
}

pub(super) fn run(
    values: &Values,
    config: &BrokerConfig,
    directories: &BTreeSet<String>,
) -> Result<(), Stop> {
    let plan = plan(values, config)?;
    let ignore_formatted = values.has("--ignore-formatted");
    let fresh = unformatted(&plan, directories, ignore_formatted)?;
    if fresh.is_empty() {
        output::print("All of the log directories are already formatted.\n");
        return Ok(());
    }
    let records = bootstrap_records(&plan.levels);
    output::print(&format!("Bootstrap metadata: {}\n", described(&records)));
    let metadata_dir = config.metadata_log_dir();
    // The metadata directory comes last: as long as it is missing, the format counts as not done.
    let (data, metadata): (Vec<_>, Vec<_>) = fresh
        .into_iter()
        .partition(|directory| directory != metadata_dir);
    for directory in data {
        write(&plan, config, &records, &directory, Purpose::Data)?;
    }
    for directory in metadata {
        let purpose = match &plan.voters {
            None => Purpose::StaticMetadata,
            Some(voters) if voters.iter().any(|v| v.id == plan.node_id.0) => Purpose::DynamicVoter,
            Some(_) => Purpose::DynamicMetadata,
        };
        write(&plan, config, &records, &directory, purpose)?;
    }
    Ok(())
}

fn plan(values: &Values, config: &BrokerConfig) -> Result<Plan, Stop> {
    let terse = |text: &str| Err(Stop::Terse(text.to_owned()));
    let asked = features::parse_levels(values.all("--feature"))?;
    let voters_text = values.value("--initial-controllers");
    let standalone = values.has("--standalone");
    let static_quorum = !config.quorum_voters().is_empty();
    let is_controller = config.mode().has_controller();
    // The release is looked up before anything else is judged.
    if let Some(text) = values.value("--release-version") {
        features::release(text, false)?;
    }
    let voters = match voters_text {
        Some(text) => Some(voters::parse_list(text)?),
        None if standalone && !is_controller => {
            return terse("You can only use --standalone on a controller.");
        }
        None if standalone => Some(vec![standalone_voter(config)?]),
        None => None,
    };
    if static_quorum && voters.is_some() {
        return terse(STATIC_AND_DYNAMIC);
    }
    let chosen = voters.is_some() || values.has("--no-initial-controllers");
    if is_controller && !static_quorum && !chosen && config.zookeeper_connect().is_none() {
        return terse(WHICH_QUORUM);
    }
    let levels = features::effective(values.value("--release-version"), asked)?;
    let dynamic = !static_quorum && chosen;
    let kraft_version = match levels.kraft_version {
        Some(0) if dynamic => return terse(KRAFT_0),
        Some(level) if level > 0 && !dynamic => {
            return Err(Stop::Terse(format!(
                "Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters."
            )));
        }
        Some(level) => level,
        None => i16::from(dynamic),
    };
    if values.has("--add-scram") {
        return terse(NO_SCRAM);
    }
    Ok(Plan {
        cluster_id: values.value("--cluster-id").unwrap_or_default().to_owned(),
        node_id: config.node_id(),
        levels,
        kraft_version,
        voters,
    })
}

/// This node, by the address of its first controller listener.
fn standalone_voter(config: &BrokerConfig) -> Result<Voter, Stop> {
    let listener = config
        .controller_listener_names()
        .first()
        .and_then(|name| {
            let advertised = config.advertised_listener(name);
            advertised.or_else(|| config.listeners().iter().find(|l| l.name == *name))
        })
        .ok_or_else(|| Stop::Terse("No controller listener is configured.".into()))?;
    Ok(Voter {
        id: config.node_id().0,
        directory_id: random_uuid()?,
        host: listener.host.clone(),
        port: listener.port,
    })
}

/// The directories to format. Those that are formatted already must belong to this node and cluster.
fn unformatted(
    plan: &Plan,
    directories: &BTreeSet<String>,
    ignore_formatted: bool,
) -> Result<Vec<String>, Stop> {
    let mut fresh = Vec::new();
    let mut formatted = Vec::new();
    let mut seen: Option<NodeId> = None;
    for directory in directories {
        match MetaProperties::read(&RealVfs, Path::new(directory)) {
            Ok(None) => fresh.push(directory.clone()),
            Ok(Some(meta)) => {
                check_identity(plan, directory, &meta, seen)?;
                seen = seen.or(meta.node_id);
                formatted.push(directory);
            }
            Err(error) => return Err(storage_failure(&error)),
        }
    }
    match formatted.first() {
        Some(first) if !ignore_formatted => Err(Stop::Terse(format!(
            "Log directory {first} is already formatted. Use --ignore-formatted to ignore this directory and format the others."
        ))),
        _ => Ok(fresh),
    }
}

fn check_identity(
    plan: &Plan,
    directory: &str,
    meta: &MetaProperties,
    seen: Option<NodeId>,
) -> Result<(), Stop> {
    let file = format!("{directory}/meta.properties");
    let complain = |text: String| Err(Exception::new("java.lang.RuntimeException", text).into());
    if let (Some(seen), Some(stored)) = (seen, meta.node_id)
        && seen != stored
    {
        return complain(format!(
            "Stored node id {stored} doesn't match previous node id {seen} in {file}. If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories."
        ));
    }
    if let Some(stored) = &meta.cluster_id
        && *stored != plan.cluster_id
    {
        return complain(format!(
            "Invalid cluster.id in: {file}. Expected {}, but read {stored}",
            plan.cluster_id
        ));
    }
    if let Some(stored) = meta.node_id
        && stored != plan.node_id
    {
        return complain(format!(
            "Stored node id {stored} doesn't match previous node id {} in {file}. If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories.",
            plan.node_id
        ));
    }
    Ok(())
}

fn bootstrap_records(levels: &Levels) -> Vec<MetadataRecord> {
    std::iter::once((METADATA_VERSION, levels.metadata_version.0))
        .chain(
            levels
                .features
                .iter()
                .map(|(name, level)| (name.as_str(), *level)),
        )
        .map(|(name, level)| {
            MetadataRecord::FeatureLevel(FeatureLevelRecord {
                name: name.into(),
                feature_level: level,
                ..Default::default()
            })
        })
        .collect()
}

/// The records as Java's `toString` shows them.
fn described(records: &[MetadataRecord]) -> String {
    let mut level_of_version = 0;
    let texts: Vec<String> = records
        .iter()
        .filter_map(|record| match record {
            MetadataRecord::FeatureLevel(feature) => Some(feature),
            _ => None,
        })
        .map(|feature| {
            if &*feature.name == METADATA_VERSION {
                level_of_version = feature.feature_level;
            }
            format!(
                "ApiMessageAndVersion(FeatureLevelRecord(name='{}', featureLevel={}) at version 0)",
                &*feature.name, feature.feature_level
            )
        })
        .collect();
    format!(
        "BootstrapMetadata(records=[{}], metadataVersionLevel={level_of_version}, source=format command)",
        texts.join(", ")
    )
}

fn write(
    plan: &Plan,
    config: &BrokerConfig,
    records: &[MetadataRecord],
    directory: &str,
    purpose: Purpose,
) -> Result<(), Stop> {
    output::print(&format!(
        "Formatting {} {directory} with {METADATA_VERSION} {}.\n",
        purpose.words(),
        plan.levels.metadata_version.name()
    ));
    let now_ms = SystemClock::new().wall_ms();
    let fault = || Stop::Terse("The first records of the cluster cannot be encoded.".into());
    let vfs = RealVfs;
    let path = Path::new(directory);
    let failed = |what: &Path, error: io::Error| {
        Stop::Terse(format!("Error while writing {}: {error}", what.display()))
    };
    vfs.create_dir_all(path).map_err(|e| failed(path, e))?;
    let put = |name: &str, content: &[u8]| {
        let file = path.join(name);
        replace_file(&vfs, &file, content, Durability::Synced).map_err(|e| failed(&file, e))
    };
    let bootstrap = checkpoint::bootstrap(records, now_ms).ok_or_else(fault)?;
    put(BOOTSTRAP, &bootstrap)?;
    if let (Purpose::DynamicMetadata | Purpose::DynamicVoter, Some(voters)) =
        (purpose, &plan.voters)
    {
        let listener = config.controller_listener_names();
        let listener = listener.first().map_or("CONTROLLER", String::as_str);
        let content = checkpoint::voter_set(voters, listener, plan.kraft_version, now_ms)
            .ok_or_else(fault)?;
        let folder = path.join("__cluster_metadata-0");
        vfs.create_dir_all(&folder)
            .map_err(|e| failed(&folder, e))?;
        put(VOTER_SET, &content)?;
    }
    // The identity comes last: with it the directory counts as formatted.
    let meta = MetaProperties {
        version: 1,
        cluster_id: Some(plan.cluster_id.clone()),
        node_id: Some(plan.node_id),
        directory_id: Some(directory_id(plan, purpose)?),
    };
    meta.write(&vfs, path, now_ms)
        .map_err(|e| failed(&path.join("meta.properties"), e))
}

/// A voter's metadata directory has the id under which it votes.
fn directory_id(plan: &Plan, purpose: Purpose) -> Result<Uuid, Stop> {
    let voting = plan
        .voters
        .iter()
        .flatten()
        .find(|voter| purpose == Purpose::DynamicVoter && voter.id == plan.node_id.0);
    match voting {
        Some(voter) => Ok(voter.directory_id),
        None => random_uuid(),
    }
}

fn storage_failure(error: &StorageError) -> Stop {
    Stop::Uncaught(Exception::new("java.io.IOException", error.to_string()))
}
