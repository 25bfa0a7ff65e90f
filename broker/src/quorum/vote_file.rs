//! `quorum-state`: the term this node is in, whom it voted for, and whether that vote made a leader.
//! Not here: when votes change (the engine decides).
//! Called by the engine's own task; a vote is durable before the call returns.
//! Kafka: org.apache.kafka.raft.FileQuorumStateStore, QuorumStateData version 1 (KIP-853); version 0 is read.

use super::types::Vote;
use kavka_common::Uuid;
use kavka_common::guards::{Guard, holds};
use kavka_storage::StorageError;
use kavka_storage::vfs::{self, Durability, Vfs};
use openraft::LeaderId;
use serde_json::{Map, Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE_NAME: &str = "quorum-state";
const LENGTH_MAX_BYTES: u64 = 1 << 20;

/// The file in the metadata log's folder.
#[derive(Clone, Debug)]
pub struct VoteFile {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
}

impl VoteFile {
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path) -> Self {
        VoteFile {
            vfs,
            path: dir.join(FILE_NAME),
        }
    }

    /// The last vote; none when the node never voted.
    pub fn read(&self) -> Result<Option<Vote>, StorageError> {
        let content = match vfs::read_file(&*self.vfs, &self.path, LENGTH_MAX_BYTES) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StorageError::io("reading", &self.path, error)),
        };
        parse(&content)
            .map(Some)
            .map_err(|reason| StorageError::corrupt(&self.path, reason))
    }

    /// Replaces the file; on return it survives a power loss.
    pub fn write(&self, vote: &Vote) -> Result<(), StorageError> {
        let durability = match holds(Guard::DurableVote) {
            true => Durability::Synced,
            false => Durability::PageCache,
        };
        vfs::replace_file(&*self.vfs, &self.path, format(vote).as_bytes(), durability)
            .map_err(|error| StorageError::io("writing", &self.path, error))
    }
}

fn parse(content: &[u8]) -> Result<Vote, String> {
    let value: Value = serde_json::from_slice(content).map_err(|error| error.to_string())?;
    let object = value.as_object().ok_or("not a JSON object")?;
    let version = number(object, "data_version")?;
    if !(0..=1).contains(&version) {
        return Err(format!("data_version {version} is not 0 or 1"));
    }
    let epoch = number(object, "leaderEpoch")?;
    let leader = number(object, "leaderId")?;
    let voted = number(object, "votedId")?;
    let term = u64::try_from(epoch.max(0)).map_err(|error| error.to_string())?;
    let node = |id: i64| u64::try_from(id).ok();
    let vote = match (node(leader), node(voted)) {
        (Some(leader), _) => Vote::new_committed(term, leader),
        (None, Some(voted)) => Vote::new(term, voted),
        (None, None) => Vote {
            leader_id: LeaderId {
                term,
                voted_for: None,
            },
            committed: false,
        },
    };
    Ok(vote)
}

fn number(object: &Map<String, Value>, key: &str) -> Result<i64, String> {
    object
        .get(key)
        .and_then(Value::as_i64)
        .ok_or_else(|| format!("no number {key}"))
}

fn format(vote: &Vote) -> String {
    let voted = vote.leader_id.voted_for.map_or(json!(-1), |id| json!(id));
    // Once a leader is known Kafka forgets its own vote: whom it follows in this epoch says as much.
    let (leader, voted) = if vote.committed {
        (voted, json!(-1))
    } else {
        (json!(-1), voted)
    };
    json!({
        "leaderId": leader,
        "leaderEpoch": vote.leader_id.term,
        "votedId": voted,
        "votedDirectoryId": Uuid::ZERO.to_string(),
        "data_version": 1,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_storage::vfs::RealVfs;

    #[test]
    fn the_text_is_kafkas() {
        assert_eq!(
            format(&Vote::new_committed(1, 1)),
            r#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#
        );
        let before_kip_853 = br#"{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":3,"appliedOffset":0,"currentVoters":[{"voterId":3}],"data_version":0}"#;
        assert_eq!(parse(before_kip_853), Ok(Vote::new(5, 3)));
    }

    #[test]
    fn votes_survive_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = VoteFile::new(Arc::new(RealVfs), dir.path());
        assert_eq!(file.read().unwrap(), None);
        let nobody = Vote {
            leader_id: LeaderId {
                term: 9,
                voted_for: None,
            },
            committed: false,
        };
        for vote in [
            Vote::new(1, 0),
            Vote::new_committed(1, 0),
            Vote::new(7, 3),
            nobody,
        ] {
            file.write(&vote).unwrap();
            assert_eq!(file.read().unwrap(), Some(vote));
        }
    }

    #[test]
    fn what_is_not_a_vote_is_refused() {
        for bad in [
            &b""[..],
            b"{}",
            b"[]",
            br#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":7}"#,
        ] {
            assert!(parse(bad).is_err());
        }
    }
}
