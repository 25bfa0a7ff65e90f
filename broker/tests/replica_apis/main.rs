//! Our answers to requests about records, compared with those that Apache Kafka 4.3.1 gave to the same bytes
//! (kafka-4.3.1.jsonl, written by examples/record_replica_apis.rs).
//! Not here: APIs about metadata, groups and transactions; durability.
//! A broker without quorum, on an ephemeral port; the requests go through real sockets.

mod cases;

use kavka_broker::api::api_versions::{ApiVersionsAnswer, Features};
use kavka_broker::api::dispatch::ApiTable;
use kavka_broker::api::table;
use kavka_broker::network::{Dispatch, Endpoint, ListenerKind, NetworkLimits, SocketServer};
use kavka_broker::replica::{
    NoProducerIds, ProducerIdBlock, ProducerIdSource, ProducerIds, ReplicaManager, ReplicaSettings,
};
use kavka_common::{Clock, LeaderEpoch, NodeId, ProducerEpoch, ProducerId, SystemClock, Uuid};
use kavka_config::{BrokerConfig, Layers, Properties, SecurityProtocol};
use kavka_metadata::{MetadataImage, MetadataRecord};
use kavka_protocol::messages::{ConfigRecord, PartitionRecord, TopicRecord};
use kavka_protocol::{AnyResponse, ErrorCode};
use kavka_records::{BatchBuilder, BatchOptions};
use kavka_storage::LogDirs;
use kavka_storage::vfs::{RealVfs, Vfs};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Where we answer otherwise on purpose: case and reason.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "garbage that claims to be gzip",
        "INVALID_RECORD, not an unknown server error",
    ),
    (
        "garbage that claims to be zstd",
        "INVALID_RECORD, not an unknown server error",
    ),
];

struct FirstBlock;

impl ProducerIdSource for FirstBlock {
    fn allocate(
        &self,
    ) -> futures::future::BoxFuture<'static, Result<ProducerIdBlock, NoProducerIds>> {
        Box::pin(async {
            Ok(ProducerIdBlock {
                first: 0,
                count: 1000,
            })
        })
    }
}

fn topic_records(topic_ids: &mut BTreeMap<String, Uuid>) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    for (n, (topic, partitions, settings)) in (1u8..).zip(cases::TOPICS) {
        let topic_id = Uuid::from_bytes([n; 16]);
        topic_ids.insert((*topic).to_owned(), topic_id);
        records.push(MetadataRecord::Topic(TopicRecord {
            name: (*topic).into(),
            topic_id,
            ..Default::default()
        }));
        for partition_id in 0..*partitions {
            records.push(MetadataRecord::Partition(PartitionRecord {
                partition_id,
                topic_id,
                replicas: vec![1],
                isr: vec![1],
                leader: 1,
                leader_epoch: 0,
                partition_epoch: 0,
                directories: vec![Uuid::DIR_UNASSIGNED],
                ..Default::default()
            }));
        }
        for (key, value) in *settings {
            records.push(MetadataRecord::Config(ConfigRecord {
                resource_type: 2,
                resource_name: (*topic).into(),
                name: (*key).into(),
                value: Some((*value).into()),
                ..Default::default()
            }));
        }
    }
    records
}

async fn start(dir: &Path) -> (SocketServer, Arc<ReplicaManager>, BTreeMap<String, Uuid>) {
    let text = b"process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:0,CONTROLLER://:0\ncontroller.quorum.voters=1@localhost:9093\n";
    let config = BrokerConfig::from_properties(&Properties::parse(text).unwrap()).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let (dirs, failed) = LogDirs::open(&vfs, &[dir.to_owned()]);
    assert!(failed.is_empty(), "{failed:?}");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let limits = NetworkLimits::from_config(&config, 1 << 30).unwrap();
    let replicas = ReplicaManager::new(
        NodeId(1),
        ReplicaSettings::from_config(&config),
        Layers::of_file(Arc::new(config)),
        Arc::new(dirs),
        Arc::clone(&clock),
    );
    replicas.recover().await;
    let mut topic_ids = BTreeMap::new();
    let records = topic_records(&mut topic_ids);
    let (image, delta) = MetadataImage::default()
        .apply(records.len() as i64, LeaderEpoch(1), &records)
        .unwrap();
    replicas.apply(&delta, &image).await;
    let endpoint = Endpoint {
        name: "PLAINTEXT".into(),
        security_protocol: SecurityProtocol::Plaintext,
        kind: ListenerKind::Broker,
        host: "127.0.0.1".into(),
        port: 0,
    };
    let sockets = SocketServer::bind(&[endpoint], limits, Arc::clone(&clock)).unwrap();
    let producer_ids = ProducerIds::new(Arc::new(FirstBlock));
    let table: Arc<dyn Dispatch> = Arc::new(ApiTable::new(
        ListenerKind::Broker,
        table::replica_rows(&replicas, &producer_ids),
        ApiVersionsAnswer::new(Features::default),
        clock,
    ));
    sockets.open(ListenerKind::Broker, &table, None);
    (sockets, replicas, topic_ids)
}

/// The order of topics in an answer means nothing.
fn sort_topics(answer: &mut Value) {
    if let Some(Value::Array(topics)) = answer["answer"].get_mut("responses") {
        topics.sort_by_key(|topic| topic["topic"].as_str().map(str::to_owned));
    }
}

/// Where Kafka says nothing we may say why.
fn without_added_texts(ours: &mut Value, kafkas: &Value) {
    match (ours, kafkas) {
        (Value::Object(ours), Value::Object(kafkas)) => {
            for (key, value) in ours {
                match kafkas.get(key) {
                    Some(Value::Null) if key == "errorMessage" => *value = Value::Null,
                    Some(kafkas) => without_added_texts(value, kafkas),
                    None => {}
                }
            }
        }
        (Value::Array(ours), Value::Array(kafkas)) => {
            for (ours, kafkas) in ours.iter_mut().zip(kafkas) {
                without_added_texts(ours, kafkas);
            }
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_kafkas() {
    let dir = tempfile::tempdir().unwrap();
    let (sockets, replicas, topic_ids) = start(dir.path()).await;
    let address = sockets.listeners()[0].address.to_string();
    let mut ours = tokio::task::spawn_blocking(move || {
        let mut answers = Vec::new();
        let mut client = cases::Client::connect(&address);
        cases::run(&mut client, &topic_ids, &mut |answer| answers.push(answer));
        answers
    })
    .await
    .unwrap();
    sockets.shutdown().await;
    replicas.shutdown(None).await;
    let mut kafkas: Vec<Value> = include_str!("kafka-4.3.1.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(ours.len(), kafkas.len());
    let mut differences = Vec::new();
    for (ours, kafkas) in ours.iter_mut().zip(&mut kafkas) {
        sort_topics(kafkas);
        without_added_texts(ours, kafkas);
        sort_topics(ours);
        let case = ours["case"].as_str().unwrap();
        if DIFFERENT.iter().all(|(known, _)| *known != case) && *ours != *kafkas {
            differences.push(format!("ours   {ours}\nkafkas {kafkas}\n"));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} answers differ:\n{}",
        differences.len(),
        ours.len(),
        differences.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_0_is_silent_and_errors_close_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let (sockets, replicas, _) = start(dir.path()).await;
    let address = sockets.listeners()[0].address.to_string();
    tokio::task::spawn_blocking(move || {
        let mut client = cases::Client::connect(&address);
        let mut request = cases::produce_request("plain", Some(cases::good()));
        request.acks = 0;
        client.send(9, &request);
        // the next answer is that of the next request
        request.acks = 1;
        let AnyResponse::Produce(response) = client.call(9, &request) else {
            panic!("not an answer to Produce");
        };
        assert_eq!(response.responses[0].partition_responses[0].base_offset, 1);
        let mut lost = cases::produce_request("absent", Some(cases::good()));
        lost.acks = 0;
        client.send(9, &lost);
        assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    })
    .await
    .unwrap();
    sockets.shutdown().await;
    replicas.shutdown(None).await;
}

/// Nobody could end their transactions: read_committed consumers would wait for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactional_batches_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (sockets, replicas, _) = start(dir.path()).await;
    let address = sockets.listeners()[0].address.to_string();
    tokio::task::spawn_blocking(move || {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(5),
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            transactional: true,
            ..BatchOptions::default()
        });
        builder.append(0, None, Some(b"a"), []).unwrap();
        let batch = builder.build().unwrap().freeze();
        let mut client = cases::Client::connect(&address);
        let mut produce = |transactional_id: Option<&str>, batch| {
            let mut request = cases::produce_request("plain", Some(batch));
            request.transactional_id = transactional_id.map(Into::into);
            let AnyResponse::Produce(response) = client.call(9, &request) else {
                panic!("not an answer to Produce");
            };
            let partition = &response.responses[0].partition_responses[0];
            (ErrorCode::from(partition.error_code), partition.base_offset)
        };
        assert_eq!(
            produce(None, batch.clone()),
            (ErrorCode::TransactionalIdAuthorizationFailed, -1)
        );
        assert_eq!(
            produce(Some("t"), batch),
            (ErrorCode::InvalidProducerIdMapping, -1)
        );
        // Nothing is in the log, and a batch outside of transactions may come with a transactional id.
        assert_eq!(produce(Some("t"), cases::good()), (ErrorCode::None, 0));
    })
    .await
    .unwrap();
    sockets.shutdown().await;
    replicas.shutdown(None).await;
}
