//! `kafka-storage info`: what the log directories of a node say of themselves, and where they disagree.
//! Not here: writing them. Reads the directories, changes nothing.
//! Kafka: kafka.tools.StorageTool.infoCommand, MetaPropertiesEnsemble.verify.

use kavka_storage::meta_properties::MetaProperties;
use kavka_storage::vfs::{RealVfs, Vfs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The text, and whether nothing is wrong.
pub(super) fn report(directories: &BTreeSet<String>) -> (String, bool) {
    let vfs = RealVfs;
    let mut found = Vec::new();
    let mut problems = Vec::new();
    let mut metadata: Vec<(&String, MetaProperties)> = Vec::new();
    for directory in directories {
        let path = Path::new(directory);
        match vfs.exists(path) {
            Ok(false) => {
                problems.push(format!("{directory} does not exist"));
                continue;
            }
            Err(error) => {
                problems.push(format!("{directory} cannot be read: {error}"));
                continue;
            }
            Ok(true) => {}
        }
        if vfs.list(path).is_err() {
            problems.push(format!("{directory} is not a directory"));
            continue;
        }
        found.push(directory.clone());
        match MetaProperties::read(&vfs, path) {
            Ok(Some(meta)) => metadata.push((directory, meta)),
            Ok(None) => problems.push(format!("{directory} is not formatted.")),
            Err(error) => problems.push(format!("Unable to read {directory}: {error}")),
        }
    }
    if let Some((_, first)) = metadata.first() {
        if metadata.iter().any(|(_, m)| m.node_id != first.node_id) {
            problems.push("Mismatched node IDs between storage directories.".into());
        }
        if metadata
            .iter()
            .any(|(_, m)| m.cluster_id != first.cluster_id)
        {
            problems.push("Mismatched cluster IDs between storage directories.".into());
        }
    }
    let mut out = list("Found log director", ("y", "ies"), &found);
    if let Some((_, first)) = metadata.first() {
        out.push_str(&format!("Found metadata: {}\n\n", summary(first)));
    }
    out.push_str(&list("Found problem", ("", "s"), &problems));
    (out, problems.is_empty())
}

fn list(title: &str, (one, many): (&str, &str), items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let ending = if items.len() == 1 { one } else { many };
    let lines: String = items.iter().map(|item| format!("  {item}\n")).collect();
    format!("{title}{ending}:\n{lines}\n")
}

/// `{cluster.id=…, directory.id=…, node.id=…, version=1}`
fn summary(meta: &MetaProperties) -> String {
    let mut fields = BTreeMap::from([("version", meta.version.to_string())]);
    if let Some(id) = &meta.cluster_id {
        fields.insert("cluster.id", id.clone());
    }
    if let Some(id) = meta.directory_id {
        fields.insert("directory.id", id.to_string());
    }
    if let Some(id) = meta.node_id {
        let key = if meta.version == 0 {
            "broker.id"
        } else {
            "node.id"
        };
        fields.insert(key, id.to_string());
    }
    let fields: Vec<String> = fields
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    format!("{{{}}}", fields.join(", "))
}
