//! Records how Apache Kafka answers the cases of tests/replica_apis: one JSON line each, to standard output.
//! Not here: starting Kafka and making the topics (`--topics` prints the kafka-topics arguments for them).
//! Run by hand when a case is added. Kafka: 4.3.1.

#[path = "../tests/replica_apis/cases.rs"]
mod cases;

use kavka_common::Uuid;
use kavka_protocol::messages::{InitProducerIdRequest, MetadataRequest, metadata_request};
use kavka_protocol::{AnyResponse, ErrorCode};
use std::collections::BTreeMap;

fn main() {
    let address = std::env::args().nth(1).expect("HOST:PORT or --topics");
    if address == "--topics" {
        for (topic, partitions, settings) in cases::TOPICS {
            let settings: String = settings
                .iter()
                .map(|(key, value)| format!(" --config {key}={value}"))
                .collect();
            println!("--create --topic {topic} --partitions {partitions}{settings}");
        }
        return;
    }
    let mut client = cases::Client::connect(&address);
    let topic_ids = topic_ids(&mut client);
    wait_for_producer_ids(&mut client);
    cases::run(&mut client, &topic_ids, &mut |answer| println!("{answer}"));
}

/// A broker's first block of producer ids is still on its way when it is first asked.
fn wait_for_producer_ids(client: &mut cases::Client) {
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    loop {
        let AnyResponse::InitProducerId(response) = client.call(4, &request) else {
            panic!("not an answer to InitProducerId");
        };
        if response.error_code == ErrorCode::None.code() {
            return;
        }
    }
}

/// Topic names and ids, by a Metadata request.
fn topic_ids(client: &mut cases::Client) -> BTreeMap<String, Uuid> {
    let request = MetadataRequest {
        topics: Some(
            cases::TOPICS
                .iter()
                .map(|(topic, ..)| metadata_request::MetadataRequestTopic {
                    name: Some((*topic).into()),
                    ..Default::default()
                })
                .collect(),
        ),
        ..Default::default()
    };
    let AnyResponse::Metadata(response) = client.call(12, &request) else {
        panic!("not an answer to Metadata");
    };
    response
        .topics
        .iter()
        .map(|topic| {
            assert_eq!(topic.error_code, ErrorCode::None.code(), "{:?}", topic.name);
            (topic.name.as_deref().unwrap().to_owned(), topic.topic_id)
        })
        .collect()
}
