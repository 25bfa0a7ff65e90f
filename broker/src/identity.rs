//! Who this node is, and to which cluster it belongs: what `meta.properties` of its log directories says.
//! Not here: the files (kavka_storage::{LogDir, MetaProperties}), `kafka-storage format`.
//! Runs once at start, on directories that are locked.
//! Kafka: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble; KIP-631, KIP-785, KIP-858.

use crate::start_error::{SettingNames, StartError};
use kavka_common::{BrokerEpoch, NodeId, Uuid};
use kavka_config::Voter;
use kavka_storage::names::META_PROPERTIES;
use kavka_storage::vfs::Vfs;
use kavka_storage::{LogDir, LogDirError, LogDirs, MetaProperties};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info};

/// The log directories of this node, locked.
pub struct OpenDirs {
    /// Those of `log.dirs`.
    pub log_dirs: LogDirs,
    /// `metadata.log.dir`, where it is not one of them.
    pub metadata_dir: Option<LogDirs>,
}

/// What the directories say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `None`: no directory is formatted yet.
    pub cluster_id: Option<String>,
    pub node_id: NodeId,
    /// A directory names it; else it is what the configuration says.
    pub node_id_is_stored: bool,
}

/// Locks and opens every directory. A directory that another server uses stops the start; one that fails otherwise is
/// left out as long as another is there.
pub fn open_dirs(
    vfs: &Arc<dyn Vfs>,
    log_dirs: &[PathBuf],
    metadata_log_dir: &Path,
    needs_metadata_dir: bool,
    names: SettingNames,
) -> Result<OpenDirs, StartError> {
    let (dirs, failed) = LogDirs::open(vfs, log_dirs);
    let mut last = None;
    for (path, error) in failed {
        if matches!(error, LogDirError::Locked(_)) {
            return Err(locked(&error, names));
        }
        if needs_metadata_dir && path == metadata_log_dir {
            return Err(unusable(&path, &error, names));
        }
        error!(target: "kafka.log.LogManager", "Log directory {} is offline: {error}", path.display());
        last = Some((path, error));
    }
    if dirs.dirs.is_empty() {
        return Err(match last {
            Some((path, error)) => unusable(&path, &error, names),
            None => StartError::runtime("log.dirs names no directory"),
        });
    }
    let metadata_dir = if needs_metadata_dir && !log_dirs.iter().any(|dir| dir == metadata_log_dir)
    {
        let (own, failed) = LogDirs::open(vfs, &[metadata_log_dir.to_owned()]);
        if let Some((path, error)) = failed.first() {
            return Err(match error {
                LogDirError::Locked(_) => locked(error, names),
                LogDirError::Storage(_) => unusable(path, error, names),
            });
        }
        Some(own)
    } else {
        None
    };
    Ok(OpenDirs {
        log_dirs: dirs,
        metadata_dir,
    })
}

fn locked(error: &LogDirError, names: SettingNames) -> StartError {
    StartError::thrown("org.apache.kafka.common.KafkaException", error.to_string()).with_remedy(
        format!(
            "Stop that server first, or give this one another {}",
            names.directories
        ),
    )
}

fn unusable(path: &Path, error: &LogDirError, names: SettingNames) -> StartError {
    StartError::thrown(
        "java.io.IOException",
        format!("Failed to load or create {}: {error}", path.display()),
    )
    .with_remedy(format!(
        "Correct {}, or the permissions of that directory",
        names.directories
    ))
}

impl OpenDirs {
    fn each(&self) -> impl Iterator<Item = &LogDir> {
        self.log_dirs
            .dirs
            .iter()
            .chain(self.metadata_dir.iter().flat_map(|dirs| dirs.dirs.iter()))
    }

    /// The ids of the directories that hold replicas, sorted as a registration wants them.
    pub fn log_dir_ids(&self) -> Vec<Uuid> {
        let mut ids: Vec<Uuid> = self
            .log_dirs
            .live()
            .filter_map(|dir| dir.meta()?.directory_id)
            .collect();
        ids.sort();
        ids
    }

    /// The broker epoch at the last stop, where it was a clean one of all directories.
    pub fn previous_broker_epoch(&self) -> Option<BrokerEpoch> {
        let mut epochs = self
            .log_dirs
            .dirs
            .iter()
            .map(|dir| dir.previous_broker_epoch());
        let first = epochs.next()??;
        epochs.all(|epoch| epoch == Some(first)).then_some(first)
    }

    /// The id of one of the directories.
    pub fn directory_id(&self, path: &Path) -> Option<Uuid> {
        self.each()
            .find(|dir| dir.path() == path)
            .and_then(|dir| dir.meta()?.directory_id)
    }

    /// Checks that all directories tell the same, and that it is what the configuration says. With `stored_wins` (no id
    /// is configured) the stored node id is taken.
    pub fn identify(&self, configured: NodeId, stored_wins: bool) -> Result<Identity, StartError> {
        let mut identity = Identity {
            cluster_id: None,
            node_id: configured,
            node_id_is_stored: false,
        };
        let mut cluster_from: Option<PathBuf> = None;
        let mut node_from: Option<(NodeId, PathBuf)> = None;
        for dir in self.each() {
            let Some(meta) = dir.meta() else { continue };
            let file = dir.path().join(META_PROPERTIES);
            if let Some(stored) = &meta.cluster_id {
                match (&identity.cluster_id, &cluster_from) {
                    (Some(known), Some(first)) if known != stored => {
                        return Err(cluster_mismatch(known, first, stored, &file));
                    }
                    _ => {
                        identity.cluster_id = Some(stored.clone());
                        cluster_from = Some(file.clone());
                    }
                }
            }
            if let Some(stored) = meta.node_id {
                let expected = match (&node_from, stored_wins) {
                    (Some((known, _)), _) => *known,
                    (None, true) => stored,
                    (None, false) => configured,
                };
                if stored != expected {
                    return Err(node_mismatch(stored, expected, &file));
                }
                identity.node_id = stored;
                identity.node_id_is_stored = true;
                node_from = Some((stored, file));
            }
        }
        Ok(identity)
    }

    /// No directory holds anything: a new node may be made of them without being asked to format them.
    pub fn check_empty(&self) -> Result<(), StartError> {
        match self.each().find(|dir| !dir.logs().is_empty()) {
            None => Ok(()),
            Some(dir) => Err(StartError::runtime("No readable meta.properties files found.")
                .with_remedy(format!(
                    "{} holds logs and no meta.properties, so it is not known whose they are. Bring the file back, or format the directory as that cluster's: kafka-storage.sh format --cluster-id <id> --config <file> --ignore-formatted",
                    dir.path().display()
                ))),
        }
    }

    /// Writes `meta.properties` where it is missing, or lacks something.
    pub fn format(
        &mut self,
        cluster_id: &str,
        node_id: NodeId,
        now_ms: i64,
    ) -> Result<(), StartError> {
        let dirs = self.log_dirs.dirs.iter_mut().chain(
            self.metadata_dir
                .iter_mut()
                .flat_map(|dirs| dirs.dirs.iter_mut()),
        );
        for dir in dirs {
            let directory_id = match dir.meta().and_then(|meta| meta.directory_id) {
                Some(id) => id,
                None => random_uuid()?,
            };
            let wanted = MetaProperties {
                version: 1,
                cluster_id: Some(cluster_id.to_owned()),
                node_id: Some(node_id),
                directory_id: Some(directory_id),
            };
            if dir.meta() == Some(&wanted) {
                continue;
            }
            let is_new = dir.meta().is_none();
            dir.set_meta(wanted, now_ms)
                .map_err(|e| StartError::thrown("java.io.IOException", e.to_string()))?;
            info!(
                target: "org.apache.kafka.metadata.storage.Formatter",
                "{} {} for node {node_id} of cluster {cluster_id}.",
                if is_new { "Formatting" } else { "Rewriting" },
                dir.path().join(META_PROPERTIES).display()
            );
        }
        Ok(())
    }
}

fn cluster_mismatch(known: &str, first: &Path, stored: &str, file: &Path) -> StartError {
    StartError::runtime(format!(
        "Invalid cluster.id in: {}. Expected {known}, but read {stored}",
        file.display()
    ))
    .with_remedy(format!(
        "{} says {known}. Directories of two clusters cannot serve one node: correct log.dirs, or move the data of one of them away",
        first.display()
    ))
}

fn node_mismatch(stored: NodeId, expected: NodeId, file: &Path) -> StartError {
    StartError::runtime(format!(
        "Stored node id {stored} doesn't match previous node id {expected} in {}. If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories.",
        file.display()
    ))
    .with_remedy(format!(
        "This is node {stored}'s directory. Node {expected} needs one of its own: give it another log.dirs. If it is the same node, set its id back to {stored} (node.id, or broker.id in a file of the ZooKeeper age)"
    ))
}

/// The cluster that the directories belong to is not the one that the controller has.
pub fn check_cluster(stored: &str, of_controller: &str, from: &str) -> Result<(), StartError> {
    if stored == of_controller {
        return Ok(());
    }
    Err(StartError::thrown(
        "org.apache.kafka.common.errors.InconsistentClusterIdException",
        format!(
            "The Cluster ID {of_controller} doesn't match stored clusterId Some({stored}) in meta.properties. The broker is trying to join the wrong cluster."
        ),
    )
    .with_remedy(format!(
        "{from} serves cluster {of_controller}, and log.dirs holds data of cluster {stored}. Correct the address, or give this broker an empty log.dirs"
    )))
}

/// A new id.
pub fn random_uuid() -> Result<Uuid, StartError> {
    loop {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|e| StartError::runtime(format!("No random numbers: {e}")))?;
        if let Some(id) = Uuid::from_random_bytes(bytes) {
            return Ok(id);
        }
    }
}

/// The id of a new cluster with several controllers: all of them must come to the same one without talking, so it
/// follows from `controller.quorum.voters`. Whoever wants two clusters of the same addresses in succession to differ
/// formats the directories.
pub fn cluster_id_of_voters(voters: &[Voter]) -> String {
    let mut text: Vec<String> = voters
        .iter()
        .map(|voter| format!("{}@{}", voter.id, voter.address))
        .collect();
    text.sort_unstable();
    // FNV-1a of 128 bits, started anew while the id would be one that Kafka does not give out.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    loop {
        for byte in text.join(",").bytes() {
            hash =
                (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        if let Some(id) = Uuid::from_random_bytes(hash.to_be_bytes()) {
            return id.to_string();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_storage::vfs::RealVfs;

    fn vfs() -> Arc<dyn Vfs> {
        Arc::new(RealVfs)
    }

    fn open(dirs: &[PathBuf]) -> Result<OpenDirs, StartError> {
        open_dirs(&vfs(), dirs, &dirs[0], true, SettingNames::OF_BROKER)
    }

    #[test]
    fn an_empty_directory_becomes_a_node_and_stays_it() {
        let root = tempfile::tempdir().unwrap();
        let dirs = [root.path().join("a"), root.path().join("b")];
        let mut opened = open(&dirs).unwrap();
        assert_eq!(
            opened.identify(NodeId(1), false).unwrap(),
            Identity {
                cluster_id: None,
                node_id: NodeId(1),
                node_id_is_stored: false,
            }
        );
        opened.check_empty().unwrap();
        opened.format("c", NodeId(1), 0).unwrap();
        drop(opened);

        let opened = open(&dirs).unwrap();
        let identity = opened.identify(NodeId(1), false).unwrap();
        assert_eq!(identity.cluster_id.as_deref(), Some("c"));
        let ids: Vec<_> = opened
            .each()
            .map(|d| d.meta().unwrap().directory_id.unwrap())
            .collect();
        assert_ne!(ids[0], ids[1]);
        assert_eq!(
            opened.identify(NodeId(9), true).unwrap().node_id,
            NodeId(1),
            "the stored id wins where none is configured"
        );
        let refused = opened.identify(NodeId(2), false).unwrap_err();
        assert!(
            refused
                .message
                .starts_with("Stored node id 1 doesn't match previous node id 2 in "),
            "{refused}"
        );
    }

    #[test]
    fn a_directory_in_use_is_refused_in_kafkas_words() {
        let root = tempfile::tempdir().unwrap();
        let dirs = [root.path().to_owned()];
        let _first = open(&dirs).unwrap();
        let refused = open(&dirs).err().unwrap();
        assert!(
            refused
                .message
                .starts_with("Failed to acquire lock on file .lock in "),
            "{refused}"
        );
    }

    #[test]
    fn directories_of_two_clusters_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        for (dir, cluster) in [(&a, "one"), (&b, "two")] {
            let mut opened = open(std::slice::from_ref(dir)).unwrap();
            opened.format(cluster, NodeId(1), 0).unwrap();
        }
        let refused = open(&[a, b])
            .unwrap()
            .identify(NodeId(1), false)
            .unwrap_err();
        assert!(
            refused.message.ends_with("Expected one, but read two"),
            "{refused}"
        );
    }

    #[test]
    fn logs_without_an_identity_are_not_taken_over() {
        let root = tempfile::tempdir().unwrap();
        vfs().create_dir_all(&root.path().join("topic-0")).unwrap();
        let opened = open(&[root.path().to_owned()]).unwrap();
        let refused = opened.check_empty().unwrap_err();
        assert_eq!(refused.message, "No readable meta.properties files found.");
    }
}
