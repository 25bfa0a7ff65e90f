//! How kafka-metadata-quorum shows a quorum: Apache's lines, tables, JSON.
//! Not here: asking. Pure: time is an argument.
//! Kafka: MetadataQuorumCommand.{handleDescribeStatus, handleDescribeReplication}, ToolsUtils.prettyPrintTable.

use crate::java::Exception;
use crate::table::{Align, Table};
use kavka_client::admin::quorum::{Endpoint, Member, Quorum};
use kavka_common::Uuid;
use serde_json::{Value, json};

pub fn endpoint(endpoint: &Endpoint) -> String {
    let Endpoint {
        listener,
        host,
        port,
    } = endpoint;
    if host.contains(':') {
        format!("{listener}://[{host}]:{port}")
    } else {
        format!("{listener}://{host}:{port}")
    }
}

fn leader(quorum: &Quorum) -> Result<&Member, Exception> {
    let mut voters = quorum.voters.iter();
    voters
        .find(|voter| voter.node_id == quorum.leader_id)
        .ok_or_else(|| Exception::new("java.util.NoSuchElementException", "No value present"))
}

/// How far the hindmost voter is behind the leader: offsets, and ms where times are known.
fn lag(quorum: &Quorum) -> Result<(i64, Option<i64>), Exception> {
    let leader = leader(quorum)?;
    let hindmost = quorum
        .voters
        .iter()
        .min_by_key(|voter| voter.log_end_offset)
        .unwrap_or(leader);
    let time_ms = if hindmost.node_id == leader.node_id {
        Some(0)
    } else {
        match (leader.last_caught_up_ms, hindmost.last_caught_up_ms) {
            (Some(leader), Some(hindmost)) => Some(leader - hindmost),
            (Some(_) | None, _) => None,
        }
    };
    Ok((leader.log_end_offset - hindmost.log_end_offset, time_ms))
}

fn members(members: &[Member], quorum: &Quorum) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|member| {
            let mut out = format!("{{\"id\": {}", member.node_id);
            if member.directory_id != Uuid::ZERO {
                out.push_str(&format!(", \"directoryId\": \"{}\"", member.directory_id));
            }
            let endpoints = quorum.endpoints.get(&member.node_id);
            let endpoints: Vec<String> = endpoints
                .into_iter()
                .flatten()
                .map(|known| format!("\"{}\"", endpoint(known)))
                .collect();
            if !endpoints.is_empty() {
                out.push_str(&format!(", \"endpoints\": [{}]", endpoints.join(", ")));
            }
            out + "}"
        })
        .collect();
    format!("[{}]", members.join(", "))
}

/// `--status`, in Apache's lines.
pub fn status(cluster_id: &str, quorum: &Quorum) -> Result<String, Exception> {
    let (lag, time_ms) = lag(quorum)?;
    Ok(format!(
        "ClusterId:              {cluster_id}
LeaderId:               {}
LeaderEpoch:            {}
HighWatermark:          {}
MaxFollowerLag:         {lag}
MaxFollowerLagTimeMs:   {}
CurrentVoters:          {}
CurrentObservers:       {}
",
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.high_watermark,
        time_ms.unwrap_or(-1),
        members(&quorum.voters, quorum),
        members(&quorum.observers, quorum)
    ))
}

/// The document of `--status`.
pub fn status_document(cluster_id: &str, quorum: &Quorum) -> Result<Value, Exception> {
    let (lag, time_ms) = lag(quorum)?;
    let list = |members: &[Member]| -> Value {
        members
            .iter()
            .map(|member| {
                let endpoints = quorum.endpoints.get(&member.node_id);
                let endpoints: Vec<Value> = endpoints
                    .into_iter()
                    .flatten()
                    .map(|e| json!({"listener": e.listener, "host": e.host, "port": e.port}))
                    .collect();
                json!({
                    "node_id": member.node_id,
                    "directory_id": directory(member),
                    "endpoints": endpoints,
                })
            })
            .collect()
    };
    Ok(json!({
        "cluster_id": cluster_id,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "max_follower_lag": lag,
        "max_follower_lag_time_ms": time_ms,
        "voters": list(&quorum.voters),
        "observers": list(&quorum.observers),
    }))
}

fn directory(member: &Member) -> Option<String> {
    (member.directory_id != Uuid::ZERO).then(|| member.directory_id.to_string())
}

/// The members with what they are, the leader first.
fn replicas(quorum: &Quorum) -> Result<Vec<(&Member, &'static str)>, Exception> {
    let leader = leader(quorum)?;
    let others = quorum
        .voters
        .iter()
        .filter(|voter| voter.node_id != leader.node_id);
    let mut all = vec![(leader, "Leader")];
    all.extend(others.map(|voter| (voter, "Follower")));
    all.extend(
        quorum
            .observers
            .iter()
            .map(|observer| (observer, "Observer")),
    );
    Ok(all)
}

const COLUMNS: [(&str, Align); 7] = [
    ("NodeId", Align::Right),
    ("DirectoryId", Align::Left),
    ("LogEndOffset", Align::Right),
    ("Lag", Align::Right),
    ("LastFetchTimestamp", Align::Right),
    ("LastCaughtUpTimestamp", Align::Right),
    ("Status", Align::Left),
];

/// The cells of `--replication`; with a time, ages in place of times.
fn cells(quorum: &Quorum, now_ms: Option<i64>) -> Result<Vec<Vec<String>>, Exception> {
    let end = leader(quorum)?.log_end_offset;
    let time = |time_ms: Option<i64>, what: &str| match (time_ms, now_ms) {
        (None, _) => Ok("-1".to_owned()),
        (Some(time_ms), None) => Ok(time_ms.to_string()),
        (Some(time_ms), Some(now_ms)) if time_ms <= now_ms => {
            Ok(format!("{} ms ago", now_ms - time_ms))
        }
        (Some(time_ms), Some(now_ms)) => Err(Exception::new(
            "org.apache.kafka.common.KafkaException",
            format!(
                "Error while computing relative time, possible drift in system clock.\nCurrent timestamp is {now_ms}, {what} timestamp is {time_ms}"
            ),
        )),
    };
    replicas(quorum)?
        .into_iter()
        .map(|(member, kind)| {
            Ok(vec![
                member.node_id.to_string(),
                member.directory_id.to_string(),
                member.log_end_offset.to_string(),
                (end - member.log_end_offset).to_string(),
                time(member.last_fetch_ms, "last fetch")?,
                time(member.last_caught_up_ms, "last caught up")?,
                kind.to_owned(),
            ])
        })
        .collect()
}

/// `--replication`, in Apache's columns: filled up to the widest cell, with tabs behind.
pub fn replication(quorum: &Quorum, now_ms: Option<i64>) -> Result<String, Exception> {
    let mut lines = vec![COLUMNS.map(|(name, _)| name.to_owned()).to_vec()];
    lines.extend(cells(quorum, now_ms)?);
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].len())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for line in lines {
        for (cell, width) in line.iter().zip(&widths) {
            out.push_str(&format!("{cell:<width$}\t"));
        }
        out.push('\n');
    }
    Ok(out)
}

pub fn replication_table(quorum: &Quorum, now_ms: Option<i64>) -> Result<String, Exception> {
    let mut table = Table::new(&COLUMNS);
    for cells in cells(quorum, now_ms)? {
        table.row(cells);
    }
    Ok(table.render())
}

/// The document of `--replication`.
pub fn replication_document(quorum: &Quorum) -> Result<Value, Exception> {
    let end = leader(quorum)?.log_end_offset;
    let all: Vec<Value> = replicas(quorum)?
        .into_iter()
        .map(|(member, kind)| {
            json!({
                "node_id": member.node_id,
                "directory_id": directory(member),
                "log_end_offset": member.log_end_offset,
                "lag": end - member.log_end_offset,
                "last_fetch_timestamp_ms": member.last_fetch_ms,
                "last_caught_up_timestamp_ms": member.last_caught_up_ms,
                "status": kind.to_ascii_lowercase(),
            })
        })
        .collect();
    Ok(json!({ "replicas": all }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn quorum() -> Quorum {
        let member = |node_id, id: &str, log_end_offset, time| Member {
            node_id,
            directory_id: id.parse().unwrap(),
            log_end_offset,
            last_fetch_ms: time,
            last_caught_up_ms: time,
        };
        Quorum {
            leader_id: 1,
            leader_epoch: 2,
            high_watermark: 201,
            voters: vec![
                member(1, "3Qu04iBsaEHt7e_rzMximw", 211, Some(1_796_104_435_552)),
                member(2, "eVP-sLC1hzcRC-8mxRIx6w", 209, Some(1_796_104_435_232)),
            ],
            observers: vec![member(4, "AAAAAAAAAAAAAAAAAAAAAA", 200, None)],
            endpoints: BTreeMap::from([(
                1,
                vec![Endpoint {
                    listener: "CONTROLLER".into(),
                    host: "127.0.0.1".into(),
                    port: 19142,
                }],
            )]),
        }
    }

    #[test]
    fn the_status_is_javas() {
        assert_eq!(
            status("qhqNlZEvQ-JuMdsh5chBYw", &quorum()).unwrap(),
            "ClusterId:              qhqNlZEvQ-JuMdsh5chBYw
LeaderId:               1
LeaderEpoch:            2
HighWatermark:          201
MaxFollowerLag:         2
MaxFollowerLagTimeMs:   320
CurrentVoters:          [{\"id\": 1, \"directoryId\": \"3Qu04iBsaEHt7e_rzMximw\", \"endpoints\": [\"CONTROLLER://127.0.0.1:19142\"]}, {\"id\": 2, \"directoryId\": \"eVP-sLC1hzcRC-8mxRIx6w\"}]
CurrentObservers:       [{\"id\": 4}]
"
        );
    }

    #[test]
    fn the_replication_has_javas_columns() {
        assert_eq!(
            replication(&quorum(), None).unwrap(),
            "NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t
1     \t3Qu04iBsaEHt7e_rzMximw\t211         \t0  \t1796104435552     \t1796104435552        \tLeader  \t
2     \teVP-sLC1hzcRC-8mxRIx6w\t209         \t2  \t1796104435232     \t1796104435232        \tFollower\t
4     \tAAAAAAAAAAAAAAAAAAAAAA\t200         \t11 \t-1                \t-1                   \tObserver\t
"
        );
        let ages = replication(&quorum(), Some(1_796_104_435_600)).unwrap();
        assert!(
            ages.contains("\t48 ms ago         \t48 ms ago            \tLeader"),
            "{ages}"
        );
        let drift = replication(&quorum(), Some(1_796_104_435_000)).unwrap_err();
        assert!(drift.message.contains("drift in system clock"));
    }

    #[test]
    fn no_leader_is_an_error() {
        let lost = Quorum {
            leader_id: -1,
            ..quorum()
        };
        assert!(status("c", &lost).is_err() && replication_document(&lost).is_err());
    }
}
