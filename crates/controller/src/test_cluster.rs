//! A controller with its image in one value, for tests: requests go in, records are replayed at once.
//! Not here: quorums, brokers.
//! Test only, one thread.

use super::*;
use kavka_config::Properties;
use kavka_protocol::messages::*;

pub const CLUSTER_ID: &str = "test-cluster";

pub struct TestCluster {
    pub controller: Controller,
    pub image: MetadataImage,
    pub soft: Soft,
    pub now_ms: i64,
    calls: u64,
}

pub fn uuid(number: u8) -> Uuid {
    Uuid::from_bytes([number.wrapping_add(101); 16])
}

impl TestCluster {
    /// A fresh cluster with these extra settings on the controller's node.
    pub fn new(settings: &str) -> Self {
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n{settings}"
        );
        let file = BrokerConfig::from_properties(&Properties::parse_str(&text).unwrap()).unwrap();
        let config = ControllerConfig::new(CLUSTER_ID, vec![NodeId(1)], Arc::new(file));
        let controller = Controller::new(config);
        let mut cluster = TestCluster {
            image: MetadataImage::empty(),
            soft: controller.activate(&MetadataImage::empty(), 0),
            controller,
            now_ms: 1_000,
            calls: 0,
        };
        let bootstrap = kavka_metadata::bootstrap::format_records(
            kavka_metadata::MetadataVersion::LATEST_PRODUCTION,
        );
        let records = cluster
            .controller
            .activation_records(&cluster.image, bootstrap);
        cluster.replay(&records);
        cluster
    }

    /// With brokers 1 to `count`, all unfenced.
    pub fn with_brokers(count: i32, settings: &str) -> Self {
        let mut cluster = TestCluster::new(settings);
        for broker_id in 1..=count {
            assert_eq!(
                cluster.start_broker(broker_id, u8::try_from(broker_id).unwrap()),
                ErrorCode::None
            );
        }
        cluster
    }

    pub fn moment(&mut self) -> Moment {
        self.calls += 1;
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&self.calls.to_le_bytes());
        Moment {
            now_ms: self.now_ms,
            next_offset: self.image.last_offset + 1,
            seed,
        }
    }

    pub fn replay(&mut self, records: &[MetadataRecord]) {
        if records.is_empty() {
            return;
        }
        let last_offset = self.image.last_offset + i64::try_from(records.len()).unwrap();
        self.image = Controller::replay(&self.image, last_offset, LeaderEpoch(1), records)
            .unwrap_or_else(|bad| panic!("{bad}: {records:#?}"));
    }

    pub fn handle(&mut self, api_version: i16, request: AnyRequest) -> Outcome {
        let moment = self.moment();
        let outcome = self
            .controller
            .handle(&self.image, &mut self.soft, &moment, api_version, &request)
            .unwrap();
        self.replay(&outcome.records);
        outcome
    }

    pub fn tick(&mut self) -> Vec<MetadataRecord> {
        let moment = self.moment();
        let records = self
            .controller
            .on_tick(&self.image, &mut self.soft, &moment);
        self.replay(&records);
        records
    }

    pub fn register(
        &mut self,
        broker_id: i32,
        incarnation: u8,
        previous_broker_epoch: i64,
    ) -> ErrorCode {
        let directory = Uuid::from_bytes([u8::try_from(broker_id).unwrap() + 200; 16]);
        self.register_on(
            broker_id,
            incarnation,
            previous_broker_epoch,
            vec![directory],
        )
    }

    pub fn register_on(
        &mut self,
        broker_id: i32,
        incarnation: u8,
        previous_broker_epoch: i64,
        log_dirs: Vec<Uuid>,
    ) -> ErrorCode {
        let features = kavka_metadata::features::supported_features()
            .into_iter()
            .map(|(name, range)| broker_registration_request::Feature {
                name: name.into(),
                min_supported_version: range.min,
                max_supported_version: range.max,
                ..Default::default()
            })
            .collect();
        let request = BrokerRegistrationRequest {
            broker_id,
            cluster_id: CLUSTER_ID.into(),
            incarnation_id: uuid(incarnation),
            listeners: vec![broker_registration_request::Listener {
                name: "PLAINTEXT".into(),
                host: "localhost".into(),
                port: 9092,
                ..Default::default()
            }],
            features,
            log_dirs,
            previous_broker_epoch,
            ..Default::default()
        };
        match self
            .handle(4, AnyRequest::BrokerRegistration(request))
            .response
        {
            AnyResponse::BrokerRegistration(response) => ErrorCode::from(response.error_code),
            other => panic!("{other:?}"),
        }
    }

    pub fn broker_epoch(&self, broker_id: i32) -> i64 {
        self.image
            .cluster
            .broker(NodeId(broker_id))
            .map_or(-1, |broker| broker.broker_epoch.get())
    }

    pub fn heartbeat(
        &mut self,
        broker_id: i32,
        want_fence: bool,
        want_shut_down: bool,
    ) -> BrokerHeartbeatResponse {
        let request = BrokerHeartbeatRequest {
            broker_id,
            broker_epoch: self.broker_epoch(broker_id),
            current_metadata_offset: self.image.last_offset,
            want_fence,
            want_shut_down,
            ..Default::default()
        };
        match self
            .handle(2, AnyRequest::BrokerHeartbeat(request))
            .response
        {
            AnyResponse::BrokerHeartbeat(response) => response,
            other => panic!("{other:?}"),
        }
    }

    /// Registers as a new incarnation after an unclean stop, and unfences.
    pub fn start_broker(&mut self, broker_id: i32, incarnation: u8) -> ErrorCode {
        let error = self.register(broker_id, incarnation, -1);
        if error == ErrorCode::None {
            self.heartbeat(broker_id, false, false);
        }
        error
    }

    pub fn create_topics(&mut self, request: CreateTopicsRequest) -> CreateTopicsResponse {
        match self.handle(7, AnyRequest::CreateTopics(request)).response {
            AnyResponse::CreateTopics(response) => response,
            other => panic!("{other:?}"),
        }
    }

    pub fn create(
        &mut self,
        topic: &str,
        num_partitions: i32,
        replication_factor: i16,
    ) -> ErrorCode {
        let response = self.create_topics(CreateTopicsRequest {
            topics: vec![create_topics_request::CreatableTopic {
                name: topic.into(),
                num_partitions,
                replication_factor,
                ..Default::default()
            }],
            ..Default::default()
        });
        ErrorCode::from(response.topics[0].error_code)
    }

    /// With replicas as given, one partition each.
    pub fn create_assigned(&mut self, topic: &str, assignments: &[&[i32]]) -> ErrorCode {
        let response = self.create_topics(CreateTopicsRequest {
            topics: vec![create_topics_request::CreatableTopic {
                name: topic.into(),
                num_partitions: -1,
                replication_factor: -1,
                assignments: assignments
                    .iter()
                    .zip(0..)
                    .map(
                        |(replicas, index)| create_topics_request::CreatableReplicaAssignment {
                            partition_index: index,
                            broker_ids: replicas.to_vec(),
                            ..Default::default()
                        },
                    )
                    .collect(),
                ..Default::default()
            }],
            ..Default::default()
        });
        ErrorCode::from(response.topics[0].error_code)
    }

    pub fn partition(&self, topic: &str, partition: i32) -> kavka_metadata::PartitionRegistration {
        self.image
            .topics
            .partition(topic, partition)
            .unwrap()
            .clone()
    }

    pub fn alter_partition(&mut self, topic: &str, partition: i32, isr: &[i32]) -> ErrorCode {
        let registration = self.partition(topic, partition);
        let request = AlterPartitionRequest {
            broker_id: registration.leader.get(),
            broker_epoch: self.broker_epoch(registration.leader.get()),
            topics: vec![alter_partition_request::TopicData {
                topic_id: self.image.topics.id_of(topic).unwrap(),
                partitions: vec![alter_partition_request::PartitionData {
                    partition_index: partition,
                    leader_epoch: registration.leader_epoch.get(),
                    partition_epoch: registration.partition_epoch.get(),
                    new_isr_with_epochs: isr
                        .iter()
                        .map(|broker_id| alter_partition_request::BrokerState {
                            broker_id: *broker_id,
                            broker_epoch: self.broker_epoch(*broker_id),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        match self.handle(3, AnyRequest::AlterPartition(request)).response {
            AnyResponse::AlterPartition(response) => match response.topics.first() {
                Some(topic) => ErrorCode::from(topic.partitions[0].error_code),
                None => ErrorCode::from(response.error_code),
            },
            other => panic!("{other:?}"),
        }
    }

    pub fn alter_config(
        &mut self,
        resource: &ConfigResource,
        key: &str,
        operation: i8,
        value: Option<&str>,
    ) -> (ErrorCode, String) {
        let request = IncrementalAlterConfigsRequest {
            resources: vec![incremental_alter_configs_request::AlterConfigsResource {
                resource_type: resource.resource_type.id(),
                resource_name: (&*resource.name).into(),
                configs: vec![incremental_alter_configs_request::AlterableConfig {
                    name: key.into(),
                    config_operation: operation,
                    value: value.map(Into::into),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        match self
            .handle(1, AnyRequest::IncrementalAlterConfigs(request))
            .response
        {
            AnyResponse::IncrementalAlterConfigs(response) => {
                let answer = &response.responses[0];
                let message = answer
                    .error_message
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                (ErrorCode::from(answer.error_code), message)
            }
            other => panic!("{other:?}"),
        }
    }
}
