//! Voters of the metadata quorum are added and removed while the cluster runs, the leader among them.
//! Not here: who is refused at start (joining), the tool (its outputs are in tests/cli).
//! Kafka: kafkatest.tests.core.quorum_reconfiguration_test; KIP-853. Fault F46.

use crate::text;
use kavka_client::{BrokerAddress, ClientConfig, Connection};
use kavka_common::Uuid;
use kavka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kavka_protocol::messages::{
    AddRaftVoterRequest, DescribeQuorumRequest, RemoveRaftVoterRequest, add_raft_voter_request,
};
use kavka_protocol::{ErrorCode, Request};
use kavka_testkit::{Broker, Sandbox, cluster_view, eventually, free_port};

fn call<R: Request>(port: u16, request: &R) -> Result<R::Response, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let config = ClientConfig {
        request_timeout_ms: 40_000,
        ..ClientConfig::default()
    };
    let address = BrokerAddress::new("localhost", port);
    let exchange = async {
        let mut connection = Connection::connect(&address, &config).await?;
        connection.call(request).await
    };
    runtime
        .block_on(exchange)
        .map_err(|error| error.to_string())
}

/// Voters and observers with their directories, as the leader tells them.
#[derive(Debug, Default)]
struct Members {
    leader: i32,
    voters: Vec<(i32, Uuid)>,
    observers: Vec<(i32, Uuid)>,
}

impl Members {
    fn voter_ids(&self) -> Vec<i32> {
        self.voters.iter().map(|(id, _)| *id).collect()
    }
}

fn members(port: u16) -> Result<Members, String> {
    let request = DescribeQuorumRequest {
        topics: vec![TopicData {
            topic_name: "__cluster_metadata".into(),
            partitions: vec![PartitionData::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = call(port, &request)?;
    let partition = response
        .topics
        .into_iter()
        .flat_map(|topic| topic.partitions)
        .next()
        .ok_or("no partition")?;
    if partition.error_code != 0 || partition.leader_id < 0 {
        return Err(format!("{partition:?}"));
    }
    let keys = |states: Vec<kavka_protocol::messages::describe_quorum_response::ReplicaState>| {
        let mut keys: Vec<(i32, Uuid)> = states
            .iter()
            .map(|state| (state.replica_id, state.replica_directory_id))
            .collect();
        keys.sort_unstable_by_key(|(id, _)| *id);
        keys
    };
    Ok(Members {
        leader: partition.leader_id,
        voters: keys(partition.current_voters),
        observers: keys(partition.observers),
    })
}

fn directory_id(node: &Broker) -> Uuid {
    let meta = std::fs::read_to_string(node.data.join("meta.properties")).expect("a file");
    let id = meta
        .lines()
        .find_map(|line| line.strip_prefix("directory.id="));
    id.and_then(|id| id.parse().ok()).expect("an id")
}

/// Adds a controller through a broker; what is in the way for a moment is tried again, as an operator would.
#[track_caller]
fn add(through: u16, id: i32, directory_id: Uuid, controller_port: u16) {
    eventually("the voter is added", || {
        let response = call(
            through,
            &AddRaftVoterRequest {
                cluster_id: None,
                timeout_ms: 20_000,
                voter_id: id,
                voter_directory_id: directory_id,
                listeners: vec![add_raft_voter_request::Listener {
                    name: "CONTROLLER".into(),
                    host: "localhost".into(),
                    port: controller_port,
                    ..Default::default()
                }],
                ..Default::default()
            },
        )?;
        match ErrorCode::from(response.error_code) {
            ErrorCode::None | ErrorCode::DuplicateVoter => Ok(()),
            code => Err(format!("{}: {:?}", code.name(), response.error_message)),
        }
    });
}

fn remove(through: u16, id: i32, directory_id: Uuid) -> Result<ErrorCode, String> {
    let request = RemoveRaftVoterRequest {
        cluster_id: None,
        voter_id: id,
        voter_directory_id: directory_id,
        ..Default::default()
    };
    call(through, &request).map(|response| ErrorCode::from(response.error_code))
}

#[test]
fn a_quorum_of_one_grows_to_three_and_loses_its_first_leader() {
    let sandbox = Sandbox::new();
    let controllers = [free_port(), free_port(), free_port()];
    let bootstrap = controllers
        .map(|port| format!("localhost:{port}"))
        .join(",");
    let node = |id: usize, servers: &str| {
        let port = free_port();
        let data = sandbox.path(format!("node-{id}"));
        Broker {
            properties_file: sandbox.config("kraft/server.properties"),
            overrides: Vec::new(),
            port,
            data: data.clone(),
        }
        .with("node.id", id.to_string())
        .with("controller.quorum.voters", "")
        .with("controller.quorum.bootstrap.servers", servers)
        .with(
            "listeners",
            format!("PLAINTEXT://:{port},CONTROLLER://:{}", controllers[id - 1]),
        )
        .with(
            "advertised.listeners",
            format!("PLAINTEXT://localhost:{port}"),
        )
        .with("log.dirs", text(&data))
    };
    // The first one makes the quorum, because it names nobody else.
    let one = node(1, &format!("localhost:{}", controllers[0]));
    let first = one.start(&sandbox);
    let (two, three) = (node(2, &bootstrap), node(3, &bootstrap));
    let second = two.start(&sandbox);
    let third = three.start(&sandbox);
    let found = eventually("the new ones follow", || {
        let found = members(one.port)?;
        match found.observers.len() {
            2 => Ok(found),
            _ => Err(format!("{found:?}")),
        }
    });
    assert_eq!(found.voter_ids(), [1]);
    assert_eq!(
        found.observers,
        [(2, directory_id(&two)), (3, directory_id(&three))]
    );
    cluster_view::create_topic(&[BrokerAddress::new("localhost", two.port)], "before", 3, 3)
        .expect("a topic through a broker that is no voter");

    add(two.port, 2, directory_id(&two), controllers[1]);
    add(one.port, 3, directory_id(&three), controllers[2]);
    let found = members(three.port).expect("the quorum");
    assert_eq!(
        found.voters,
        [
            (1, directory_id(&one)),
            (2, directory_id(&two)),
            (3, directory_id(&three))
        ]
    );
    let wrong = remove(one.port, 1, Uuid::from_bytes([7; 16]));
    assert_eq!(wrong, Ok(ErrorCode::VoterNotFound));

    // The leader goes; the other two go on.
    let removed = remove(
        two.port,
        found.leader,
        found.voters[usize::try_from(found.leader - 1).expect("1 to 3")].1,
    );
    assert!(
        matches!(removed, Ok(ErrorCode::None)),
        "{removed:?}\n{}",
        first.output()
    );
    let rest = eventually("the other two have a leader", || {
        let rest = members(three.port)?;
        if rest.voters.len() == 2 && rest.leader != found.leader {
            Ok(rest)
        } else {
            Err(format!("{rest:?}"))
        }
    });
    assert_eq!(rest.voter_ids(), [2, 3]);
    first.kill();
    eventually("they decide without the first", || {
        cluster_view::create_topic(&[BrokerAddress::new("localhost", two.port)], "after", 1, 1)
    });
    // Started again, it follows.
    let first = one
        .clone()
        .with("controller.quorum.bootstrap.servers", bootstrap.as_str());
    let again = first.launch(&sandbox);
    eventually("the first knows what it missed", || {
        cluster_view::partitions(&BrokerAddress::new("localhost", one.port), "after").map_err(
            |error| {
                format!(
                    "{error}\n{}\n— node 3 —\n{}",
                    again.output(),
                    third.output()
                )
            },
        )
    });
    again.line("Kafka Server started");
    drop((again, second, third));
}
