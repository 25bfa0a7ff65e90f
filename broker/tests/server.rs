//! Whole servers in one process, on ephemeral ports: start on an empty directory, restart, refusals, the ZooKeeper era.
//! Not here: programs, arguments, signals (tests/e2e).
//! Kafka: kafka.server.KafkaRaftServer and its tests.

use kavka_broker::network::ListenerKind;
use kavka_broker::program::Program;
use kavka_broker::server::{Server, ServerConfig};
use kavka_broker::start_error::StartError;
use kavka_client::{BrokerAddress, ClientConfig, Connection};
use kavka_config::Properties;
use kavka_protocol::messages::create_topics_request::CreatableTopic;
use kavka_protocol::messages::{
    CreateTopicsRequest, DescribeClusterRequest, MetadataRequest, MetadataResponse,
};
use std::path::Path;
use std::time::Duration;

/// Nothing here takes that long unless it hangs.
const HANG: Duration = Duration::from_secs(30);

fn combined(dir: &Path, extra: &str) -> String {
    format!(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n\
         controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=localhost:9093\n\
         offsets.topic.replication.factor=1\nlog.dirs={}\n{extra}",
        dir.display()
    )
}

async fn start_program(program: Program, properties: &str) -> Result<Server, StartError> {
    let properties = Properties::parse(properties.as_bytes()).unwrap();
    let config = ServerConfig::read(program, &properties)?;
    tokio::time::timeout(HANG, Box::pin(Server::start(config)))
        .await
        .expect("the start hangs")
}

async fn start(properties: &str) -> Result<Server, StartError> {
    start_program(Program::KafkaServer, properties).await
}

async fn stop(server: Server) {
    tokio::time::timeout(HANG, Box::pin(server.stop(std::future::pending())))
        .await
        .expect("the stop hangs");
}

fn port(server: &Server, kind: ListenerKind) -> u16 {
    let listener = server.listeners().iter().find(|l| l.kind == kind);
    listener.expect("a listener of that kind").address.port()
}

async fn connect(server: &Server) -> Connection {
    let address = BrokerAddress::new("127.0.0.1", port(server, ListenerKind::Broker));
    Connection::connect(&address, &ClientConfig::default())
        .await
        .unwrap()
}

async fn create_topic(server: &Server, name: &str) -> i16 {
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.into(),
            num_partitions: 2,
            replication_factor: 1,
            ..Default::default()
        }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let response = connect(server).await.call(&request).await.unwrap();
    response.topics[0].error_code
}

async fn metadata(server: &Server) -> MetadataResponse {
    let request = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    connect(server).await.call(&request).await.unwrap()
}

fn topics(metadata: &MetadataResponse) -> Vec<(String, usize)> {
    let name = |name: &Option<kavka_protocol::StrBytes>| name.as_deref().unwrap_or("").to_owned();
    metadata
        .topics
        .iter()
        .map(|topic| (name(&topic.name), topic.partitions.len()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_combined_node_needs_no_format_and_remembers() {
    let dir = tempfile::tempdir().unwrap();
    let properties = combined(dir.path(), "");
    let server = start(&properties).await.unwrap();
    assert_eq!(create_topic(&server, "t").await, 0);
    let before = metadata(&server).await;
    assert_eq!(topics(&before), [("t".to_owned(), 2)]);
    let [broker] = &before.brokers[..] else {
        panic!("{:?}", before.brokers);
    };
    assert_eq!(
        (broker.node_id, broker.port),
        (1, i32::from(port(&server, ListenerKind::Broker)))
    );
    assert!(before.topics[0].partitions.iter().all(|p| p.leader_id == 1));

    let refused = start(&combined(dir.path(), "node.id=2\n"))
        .await
        .err()
        .expect("the directory is in use");
    assert!(
        refused
            .message
            .starts_with("Failed to acquire lock on file .lock in ")
    );
    stop(server).await;
    assert!(dir.path().join(".kafka_cleanshutdown").exists());

    let refused = start(&combined(dir.path(), "node.id=2\n"))
        .await
        .err()
        .unwrap();
    assert!(
        refused
            .message
            .starts_with("Stored node id 1 doesn't match previous node id 2 in "),
        "{refused}"
    );

    let server = start(&properties).await.unwrap();
    let after = metadata(&server).await;
    assert_eq!(topics(&after), [("t".to_owned(), 2)]);
    assert_eq!(after.topics[0].topic_id, before.topics[0].topic_id);
    assert_eq!(after.cluster_id, before.cluster_id);
    assert!(after.topics[0].partitions.iter().all(|p| p.leader_id == 1));
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_of_the_zookeeper_age_joins_a_quorum_node() {
    let (quorum_dir, broker_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let quorum = start_program(
        Program::ZooKeeperServer,
        &format!(
            "dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\n",
            quorum_dir.path().display()
        ),
    )
    .await
    .unwrap();
    let zookeeper_port = port(&quorum, ListenerKind::Controller);
    let broker = start(&format!(
        "broker.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nzookeeper.connect=127.0.0.1:{zookeeper_port}\n\
         offsets.topic.replication.factor=1\nlog.dirs={}\n",
        broker_dir.path().display()
    ))
    .await
    .unwrap();
    assert_eq!(create_topic(&broker, "t").await, 0);
    let described = connect(&broker)
        .await
        .call(&DescribeClusterRequest::default())
        .await
        .unwrap();
    assert_eq!(described.brokers.len(), 1);
    assert_eq!(described.brokers[0].broker_id, 7);
    stop(broker).await;
    stop(quorum).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_that_cannot_work_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = start(&combined(
        dir.path(),
        &format!("listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0\n"),
    ))
    .await
    .err()
    .unwrap();
    assert!(
        refused.message.starts_with(&format!(
            "Socket server failed to bind to 127.0.0.1:{port}: Address already in use."
        )),
        "{refused}"
    );
    assert!(
        !dir.path().join("meta.properties").exists(),
        "nothing was done before"
    );

    let refused = start("log.dirs=/nowhere\n").await.err().unwrap();
    assert_eq!(
        refused.lines().lines().next(),
        Some(
            "org.apache.kafka.common.config.ConfigException: Missing required configuration \"process.roles\" which has no default value."
        )
    );
}
