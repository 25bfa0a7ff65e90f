//! The first voters of a quorum: `id@host:port:directory`, as `--initial-controllers` and the voter set know them.
//! Not here: the quorum. Pure.
//! Kafka: org.apache.kafka.raft.{DynamicVoter, DynamicVoters}; KIP-853.

use super::Stop;
use crate::java::Exception;
use kavka_common::Uuid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Voter {
    pub(super) id: i32,
    pub(super) directory_id: Uuid,
    pub(super) host: String,
    pub(super) port: u16,
}

fn complain(text: impl Into<String>) -> Stop {
    Stop::Uncaught(Exception::illegal_argument(text))
}

/// Reads the comma-separated list.
pub(super) fn parse_list(text: &str) -> Result<Vec<Voter>, Stop> {
    let mut voters: Vec<Voter> = Vec::new();
    for entry in text.split(',').filter(|entry| !entry.is_empty()) {
        let voter = parse(entry.trim())?;
        if voters.iter().any(|known| known.id == voter.id) {
            return Err(complain(format!(
                "Node id {} was specified more than once.",
                voter.id
            )));
        }
        voters.push(voter);
    }
    if voters.is_empty() {
        return Err(complain("No voters given."));
    }
    voters.sort_by_key(|voter| voter.id);
    Ok(voters)
}

fn parse(text: &str) -> Result<Voter, Stop> {
    let (id, rest) = text
        .split_once('@')
        .ok_or_else(|| complain("No @ found in dynamic voter string."))?;
    if id.is_empty() {
        return Err(complain("Invalid @ at beginning of dynamic voter string."));
    }
    let id: i32 = id
        .parse()
        .map_err(|_| complain("Failed to parse node id in dynamic voter string."))?;
    if id < 0 {
        return Err(complain(format!(
            "Invalid negative node id {id} in dynamic voter string."
        )));
    }
    if rest.is_empty() {
        return Err(complain("No hostname found after node id."));
    }
    let (host, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']').ok_or_else(|| {
            complain("Hostname began with left bracket, but no right bracket was found.")
        })?,
        None => {
            let colon = rest
                .find(':')
                .ok_or_else(|| complain("No colon following hostname could be found."))?;
            rest.split_at(colon)
        }
    };
    let rest = rest
        .strip_prefix(':')
        .ok_or_else(|| complain("Port section must start with a colon."))?;
    let (port, directory) = rest
        .split_once(':')
        .ok_or_else(|| complain("No colon following port could be found."))?;
    let port: i32 = port
        .parse()
        .map_err(|_| complain("Failed to parse port in dynamic voter string."))?;
    let port = u16::try_from(port)
        .map_err(|_| complain(format!("Invalid port {port} in dynamic voter string.")))?;
    let directory_id = directory
        .parse()
        .map_err(|_| complain("Failed to parse directory ID in dynamic voter string."))?;
    Ok(Voter {
        id,
        directory_id,
        host: host.to_owned(),
        port,
    })
}
