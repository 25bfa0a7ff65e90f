//! What a failed log directory means for the process: the controller is told, or the process ends.
//! Not here: finding the failure and taking replicas offline (replica/log_dirs.rs), the heartbeat (lifecycle.rs).
//! One task. Kafka: ReplicaManager.handleLogDirFailure, BrokerLifecycleManager.propagateDirectoryFailure; KIP-112, KIP-858.

use crate::lifecycle::BrokerLifecycle;
use kavka_common::Uuid;
use kavka_config::BrokerConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub struct FailedDirsSettings {
    /// `metadata.log.dir`, where this node is a controller.
    metadata_log_dir: Option<PathBuf>,
    /// `log.dir.failure.timeout.ms`.
    telling_ms_max: u64,
}

impl FailedDirsSettings {
    pub const KEYS: &'static [&'static str] = &["log.dir.failure.timeout.ms"];

    pub fn from_config(config: &BrokerConfig) -> FailedDirsSettings {
        let is_controller = config.mode().has_controller();
        FailedDirsSettings {
            metadata_log_dir: is_controller.then(|| config.metadata_log_dir().into()),
            telling_ms_max: config.unsigned("log.dir.failure.timeout.ms"),
        }
    }
}

/// The task; ends when it is aborted. `fail` gets the reason for which the process must end.
pub async fn run(
    mut failed: watch::Receiver<BTreeMap<PathBuf, Option<Uuid>>>,
    lifecycle: Arc<BrokerLifecycle>,
    settings: FailedDirsSettings,
    fail: watch::Sender<Option<String>>,
) {
    let mut known = BTreeSet::new();
    let mut telling = JoinSet::new();
    loop {
        let failed_now = failed.borrow_and_update().clone();
        for (path, directory_id) in failed_now {
            if !known.insert(path.clone()) {
                continue;
            }
            if settings.metadata_log_dir.as_ref() == Some(&path) {
                let why = format!("the metadata log directory {} has failed", path.display());
                fail.send_replace(Some(why));
            }
            let Some(directory_id) = directory_id else {
                continue;
            };
            lifecycle.directory_failed(directory_id);
            let (lifecycle, fail) = (Arc::clone(&lifecycle), fail.clone());
            let patience = Duration::from_millis(settings.telling_ms_max);
            telling.spawn(async move {
                let told = lifecycle.directory_failure_told(directory_id);
                if tokio::time::timeout(patience, told).await.is_err() {
                    let why = format!(
                        "log directory {} has failed, and no controller could be told within {} ms (log.dir.failure.timeout.ms)",
                        path.display(),
                        patience.as_millis()
                    );
                    fail.send_replace(Some(why));
                }
            });
        }
        if failed.changed().await.is_err() {
            return;
        }
    }
}
