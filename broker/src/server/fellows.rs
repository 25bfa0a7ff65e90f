//! The other controllers as a controller finds them when it starts: whether it belongs to them, and whether they have
//! made a quorum without it.
//! Not here: brokers, which look for controllers in remote.rs; the quorum itself.
//! Runs once at start, before anything is written. Nobody answers when a cluster starts as a whole, and that is no fault.
//! Kafka refuses votes and fetches by cluster id and voter key only once it runs; KIP-595, KIP-853.

use crate::quorum::{Member, hello};
use crate::start_error::StartError;
use kavka_client::BrokerAddress;
use kavka_common::NodeId;
use kavka_config::{BrokerConfig, HostPort};
use std::time::Duration;
use tokio::time::Instant;

/// A controller that is there says so within this time.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// How long a controller that must be added to a quorum looks for one.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(100);

/// What the other controllers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fellows {
    /// Of those that answer; none if nobody does.
    pub cluster_id: Option<String>,
    /// This node is not named as a first voter: members of the quorum have to add it.
    pub joins: bool,
}

/// Where a controller is to be.
struct Place {
    address: BrokerAddress,
    /// By `controller.quorum.voters`.
    expected: Option<i32>,
}

/// `ports`: of this node's controller listeners.
pub async fn look_for(
    config: &BrokerConfig,
    node_id: NodeId,
    stored_cluster_id: Option<&str>,
    ports: &[u16],
) -> Result<Fellows, StartError> {
    let joins = joins(config, ports);
    let places = places(config, ports);
    let own = Member {
        cluster_id: stored_cluster_id.unwrap_or_default().to_owned(),
        node_id: node_id.get(),
        directory_id: String::new(),
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let own = &own;
        let asked = places
            .iter()
            .map(|place| async move { (place, hello(own, &place.address, ANSWER_WITHIN).await) });
        let mut cluster_id: Option<String> = None;
        for (place, answer) in futures::future::join_all(asked).await {
            let Ok(found) = answer else { continue };
            check(place, &found, node_id, stored_cluster_id, ports)?;
            cluster_id.get_or_insert(found.cluster_id);
        }
        if cluster_id.is_some() || stored_cluster_id.is_some() || !joins {
            return Ok(Fellows { cluster_id, joins });
        }
        if Instant::now() >= deadline {
            return Err(alone(config, node_id));
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Without `controller.quorum.voters` a node makes a quorum of its own only if nobody else is named.
fn joins(config: &BrokerConfig, ports: &[u16]) -> bool {
    config.quorum_voters().is_empty()
        && config
            .quorum_bootstrap_servers()
            .iter()
            .any(|server| !is_own(server, config, ports))
}

/// Whether an address is one of this node's controller listeners.
pub fn is_own(address: &HostPort, config: &BrokerConfig, ports: &[u16]) -> bool {
    let own_host = crate::machine::host_name();
    let here = ["localhost", "127.0.0.1", "::1", own_host.as_str()];
    let listens = config
        .controller_listeners()
        .any(|listener| listener.host == address.host);
    // A port of the system's choice cannot be named beforehand: whatever is named here means this node.
    let any_port = config
        .controller_listeners()
        .any(|listener| listener.port == 0);
    (any_port || ports.contains(&address.port))
        && (listens || here.contains(&address.host.as_str()))
}

fn places(config: &BrokerConfig, ports: &[u16]) -> Vec<Place> {
    let place = |at: &HostPort, expected| Place {
        address: BrokerAddress::new(at.host.clone(), at.port),
        expected,
    };
    let voters = config.quorum_voters().iter();
    let named = voters.map(|voter| (&voter.address, Some(voter.id)));
    let servers = config
        .quorum_bootstrap_servers()
        .iter()
        .map(|server| (server, None));
    named
        .chain(servers)
        .filter(|(address, _)| !is_own(address, config, ports))
        .map(|(address, expected)| place(address, expected))
        .collect()
}

fn check(
    place: &Place,
    found: &Member,
    node_id: NodeId,
    stored_cluster_id: Option<&str>,
    ports: &[u16],
) -> Result<(), StartError> {
    let at = &place.address;
    if found.node_id == node_id.get() {
        let own: Vec<String> = ports.iter().map(u16::to_string).collect();
        return Err(StartError::thrown(
            "org.apache.kafka.common.errors.DuplicateVoterException",
            format!(
                "Controller {node_id} runs already at {at}, and this one, at port {}, has the same node.id",
                own.join(",")
            ),
        )
        .with_remedy("Give this node another node.id, or stop the other one first"));
    }
    if let Some(stored) = stored_cluster_id
        && stored != found.cluster_id
    {
        return Err(StartError::thrown(
            "org.apache.kafka.common.errors.InconsistentClusterIdException",
            format!(
                "The controller at {at} is node {} of cluster {}, and the directories of this node belong to cluster {stored}",
                found.node_id, found.cluster_id
            ),
        )
        .with_remedy(
            "Correct controller.quorum.voters or controller.quorum.bootstrap.servers, or give this node an empty log.dirs",
        ));
    }
    if let Some(expected) = place.expected
        && expected != found.node_id
    {
        return Err(StartError::runtime(format!(
            "controller.quorum.voters says that node {expected} listens at {at}, and node {} answers there",
            found.node_id
        ))
        .with_remedy("Correct controller.quorum.voters: it has to be the same on all nodes"));
    }
    Ok(())
}

fn alone(config: &BrokerConfig, node_id: NodeId) -> StartError {
    let servers: Vec<String> = config
        .quorum_bootstrap_servers()
        .iter()
        .map(ToString::to_string)
        .collect();
    StartError::runtime(format!(
        "No controller answers at controller.quorum.bootstrap.servers={}, and nothing says which controllers are the first voters",
        servers.join(",")
    ))
    .with_remedy(format!(
        "For a new quorum either set controller.quorum.voters={node_id}@host:port,… on all of them, or format each with kafka-storage.sh format --initial-controllers; to join one, start its controllers first"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kavka_config::Properties;

    fn config(quorum: &str) -> BrokerConfig {
        let text = format!(
            "process.roles=controller\nnode.id=2\nlisteners=CONTROLLER://:9094\ncontroller.listener.names=CONTROLLER\n{quorum}\n"
        );
        BrokerConfig::from_properties(&Properties::parse_str(&text).unwrap()).unwrap()
    }

    #[test]
    fn a_node_that_is_the_only_one_named_is_a_quorum_of_its_own() {
        let alone = config("controller.quorum.bootstrap.servers=localhost:9094");
        assert!(!joins(&alone, &[9094]));
        assert!(places(&alone, &[9094]).is_empty());
        let one_of_two =
            config("controller.quorum.bootstrap.servers=localhost:9093,localhost:9094");
        assert!(joins(&one_of_two, &[9094]));
        assert_eq!(places(&one_of_two, &[9094]).len(), 1);
        let other_host = config("controller.quorum.bootstrap.servers=elsewhere:9094");
        assert!(joins(&other_host, &[9094]));
        let voters = config("controller.quorum.voters=1@localhost:9093,2@localhost:9094");
        assert!(!joins(&voters, &[9094]));
        assert_eq!(places(&voters, &[9094])[0].expected, Some(1));
    }

    #[test]
    fn both_values_are_named() {
        let place = Place {
            address: BrokerAddress::new("localhost", 9093),
            expected: Some(1),
        };
        let found = |node_id: i32, cluster_id: &str| Member {
            cluster_id: cluster_id.to_owned(),
            node_id,
            directory_id: String::new(),
        };
        let check = |found: Member| check(&place, &found, NodeId(2), Some("ours"), &[9094]);
        check(found(1, "ours")).unwrap();
        for (found, words) in [
            (found(2, "ours"), ["Controller 2", "localhost:9093"]),
            (found(1, "theirs"), ["theirs", "ours"]),
            (found(3, "ours"), ["node 1 listens", "node 3 answers"]),
        ] {
            let said = check(found).unwrap_err().message;
            for word in words {
                assert!(said.contains(word), "{word:?} is missing in: {said}");
            }
        }
    }
}
