//! The paths that Kafka 2.x keeps in ZooKeeper, read from a view of the cluster's metadata.
//! Not here: writing; watches (a client that sets one is answered, but never called back).
//! Pure. Kafka 2.4: kafka.zk.{BrokerIdZNode, ControllerZNode, TopicZNode, TopicPartitionStateZNode, ClusterIdZNode}.

use std::collections::BTreeSet;
use std::fmt::Write;

/// An endpoint of a registered broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointNode {
    pub name: String,
    pub security_protocol: String,
    pub host: String,
    pub port: u16,
}

/// A broker that is registered and not fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerNode {
    pub id: i32,
    pub endpoints: Vec<EndpointNode>,
    pub rack: Option<String>,
    /// The broker epoch, which stands for the transaction that made the node.
    pub broker_epoch: i64,
    pub timestamp_ms: i64,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionNode {
    pub partition: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    pub leader: i32,
    pub leader_epoch: i32,
    pub adding_replicas: Vec<i32>,
    pub removing_replicas: Vec<i32>,
}

/// A topic with its partitions in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicNode {
    pub partitions: Vec<PartitionNode>,
    pub configs: Vec<(String, String)>,
}

/// The active controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerNode {
    pub id: i32,
    pub controller_epoch: i32,
    pub timestamp_ms: i64,
}

/// What the tree needs to know of the cluster.
pub trait ClusterView {
    /// Grows with every change: the offset of the metadata log.
    fn zxid(&self) -> i64;
    fn cluster_id(&self) -> String;
    fn controller(&self) -> Option<ControllerNode>;
    fn broker_ids(&self) -> Vec<i32>;
    fn broker(&self, id: i32) -> Option<BrokerNode>;
    fn topic_names(&self) -> Vec<String>;
    fn topic(&self, name: &str) -> Option<TopicNode>;
}

/// A node of the tree with its children's names in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZNode {
    /// None where ZooKeeper has a node without data.
    pub data: Option<String>,
    pub children: Vec<String>,
    /// Changes of the node, where they are known.
    pub zxid: i64,
    pub timestamp_ms: i64,
    /// The session that owns the node: a number that stands for the broker. Zero when the node is not ephemeral.
    pub owner: i64,
}

/// The tree over one view.
#[derive(Debug)]
pub struct Tree<'a, V: ?Sized>(pub &'a V);

const ROOT: [&str; 9] = [
    "admin",
    "brokers",
    "cluster",
    "config",
    "consumers",
    "controller",
    "controller_epoch",
    "isr_change_notification",
    "zookeeper",
];

impl<V: ClusterView + ?Sized> Tree<'_, V> {
    /// The node at a path; none where ZooKeeper would say NoNode.
    pub fn node(&self, path: &str) -> Option<ZNode> {
        let path = path.strip_prefix('/')?;
        let parts: Vec<&str> = if path.is_empty() {
            Vec::new()
        } else {
            path.split('/').collect()
        };
        let folder = |children: &[&str]| {
            Some(ZNode {
                children: children.iter().map(|name| (*name).to_owned()).collect(),
                ..ZNode::default()
            })
        };
        match parts.as_slice() {
            [] => folder(&ROOT),
            ["admin"] => folder(&["delete_topics"]),
            ["admin", "delete_topics"]
            | ["brokers", "seqid"]
            | ["consumers"]
            | ["isr_change_notification"]
            | ["config", "changes" | "clients" | "users" | "brokers"] => folder(&[]),
            ["zookeeper"] => folder(&["config", "quota"]),
            ["zookeeper", "config" | "quota"] => folder(&[]),
            ["brokers"] => folder(&["ids", "seqid", "topics"]),
            ["brokers", "ids"] => Some(ZNode {
                children: self.0.broker_ids().iter().map(i32::to_string).collect(),
                ..ZNode::default()
            }),
            ["brokers", "ids", id] => self.broker(id),
            ["brokers", "topics"] => Some(ZNode {
                children: self.0.topic_names(),
                ..ZNode::default()
            }),
            ["brokers", "topics", topic] => self.topic(topic),
            ["brokers", "topics", topic, "partitions"] => {
                let topic = self.0.topic(topic)?;
                Some(ZNode {
                    children: topic
                        .partitions
                        .iter()
                        .map(|partition| partition.partition.to_string())
                        .collect(),
                    ..ZNode::default()
                })
            }
            ["brokers", "topics", topic, "partitions", id] => {
                self.partition(topic, id)?;
                folder(&["state"])
            }
            ["brokers", "topics", topic, "partitions", id, "state"] => self.state(topic, id),
            ["cluster"] => folder(&["id"]),
            ["cluster", "id"] => Some(ZNode {
                data: Some(format!(
                    r#"{{"version":"1","id":{}}}"#,
                    json(&self.0.cluster_id())
                )),
                ..ZNode::default()
            }),
            ["config"] => folder(&["brokers", "changes", "clients", "topics", "users"]),
            ["config", "topics"] => Some(ZNode {
                children: self.0.topic_names(),
                ..ZNode::default()
            }),
            ["config", "topics", topic] => {
                let topic = self.0.topic(topic)?;
                let configs: Vec<String> = topic
                    .configs
                    .iter()
                    .map(|(key, value)| format!("{}:{}", json(key), json(value)))
                    .collect();
                Some(ZNode {
                    data: Some(format!(
                        r#"{{"version":1,"config":{{{}}}}}"#,
                        configs.join(",")
                    )),
                    ..ZNode::default()
                })
            }
            ["controller"] => {
                let controller = self.0.controller()?;
                Some(ZNode {
                    data: Some(format!(
                        r#"{{"version":1,"brokerid":{},"timestamp":"{}"}}"#,
                        controller.id, controller.timestamp_ms
                    )),
                    timestamp_ms: controller.timestamp_ms,
                    owner: session_of(controller.id),
                    ..ZNode::default()
                })
            }
            ["controller_epoch"] => Some(ZNode {
                data: Some(self.0.controller()?.controller_epoch.to_string()),
                ..ZNode::default()
            }),
            _ => None,
        }
    }

    /// How many nodes the tree has, for `srvr`.
    pub fn node_count(&self) -> u64 {
        let topics = self.0.topic_names();
        let partitions: usize = topics
            .iter()
            .filter_map(|name| self.0.topic(name))
            .map(|topic| topic.partitions.len())
            .sum();
        // Each topic: its node, `partitions` and its configuration; each partition: its node and its state.
        let nodes = 22 + self.0.broker_ids().len() + topics.len() * 3 + partitions * 2;
        u64::try_from(nodes).unwrap_or(u64::MAX)
    }

    fn broker(&self, id: &str) -> Option<ZNode> {
        let broker = self.0.broker(number(id)?)?;
        // Kafka fills host and port from the first PLAINTEXT endpoint, for readers of version 1.
        let plaintext = broker
            .endpoints
            .iter()
            .find(|endpoint| endpoint.security_protocol == "PLAINTEXT");
        let mut data = String::from(r#"{"listener_security_protocol_map":{"#);
        let map: Vec<String> = broker
            .endpoints
            .iter()
            .map(|endpoint| {
                format!(
                    "{}:{}",
                    json(&endpoint.name),
                    json(&endpoint.security_protocol)
                )
            })
            .collect();
        let urls: Vec<String> = broker
            .endpoints
            .iter()
            .map(|endpoint| {
                json(&format!(
                    "{}://{}:{}",
                    endpoint.name, endpoint.host, endpoint.port
                ))
            })
            .collect();
        let _ = write!(
            data,
            r#"{}}},"endpoints":[{}],"jmx_port":-1,"port":{},"host":{},"version":4,"timestamp":"{}""#,
            map.join(","),
            urls.join(","),
            plaintext.map_or(-1, |endpoint| i32::from(endpoint.port)),
            plaintext.map_or("null".into(), |endpoint| json(&endpoint.host)),
            broker.timestamp_ms,
        );
        if let Some(rack) = &broker.rack {
            let _ = write!(data, r#","rack":{}"#, json(rack));
        }
        data.push('}');
        Some(ZNode {
            data: Some(data),
            children: Vec::new(),
            zxid: broker.broker_epoch,
            timestamp_ms: broker.timestamp_ms,
            owner: session_of(broker.id),
        })
    }

    fn topic(&self, name: &str) -> Option<ZNode> {
        let topic = self.0.topic(name)?;
        let all: Vec<String> = topic
            .partitions
            .iter()
            .map(|partition| format!(r#""{}":{:?}"#, partition.partition, partition.replicas))
            .map(|text| text.replace(", ", ","))
            .collect();
        let moving = |pick: fn(&PartitionNode) -> &Vec<i32>| -> String {
            topic
                .partitions
                .iter()
                .filter(|partition| !pick(partition).is_empty())
                .map(|partition| format!(r#""{}":{:?}"#, partition.partition, pick(partition)))
                .map(|text| text.replace(", ", ","))
                .collect::<Vec<_>>()
                .join(",")
        };
        Some(ZNode {
            data: Some(format!(
                r#"{{"version":2,"partitions":{{{}}},"adding_replicas":{{{}}},"removing_replicas":{{{}}}}}"#,
                all.join(","),
                moving(|partition| &partition.adding_replicas),
                moving(|partition| &partition.removing_replicas),
            )),
            children: vec!["partitions".into()],
            ..ZNode::default()
        })
    }

    fn partition(&self, topic: &str, id: &str) -> Option<PartitionNode> {
        let id = number(id)?;
        self.0
            .topic(topic)?
            .partitions
            .into_iter()
            .find(|partition| partition.partition == id)
    }

    fn state(&self, topic: &str, id: &str) -> Option<ZNode> {
        let partition = self.partition(topic, id)?;
        let controller_epoch = self
            .0
            .controller()
            .map_or(0, |controller| controller.controller_epoch);
        let isr = format!("{:?}", partition.isr).replace(", ", ",");
        Some(ZNode {
            data: Some(format!(
                r#"{{"controller_epoch":{controller_epoch},"leader":{},"version":1,"leader_epoch":{},"isr":{isr}}}"#,
                partition.leader, partition.leader_epoch,
            )),
            ..ZNode::default()
        })
    }

    /// All paths, for tests and for the data size of `mntr`.
    pub fn paths(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![String::from("/")];
        while let Some(path) = open.pop() {
            if let Some(node) = self.node(&path) {
                let base = if path == "/" { "" } else { path.as_str() };
                open.extend(node.children.iter().map(|child| format!("{base}/{child}")));
                found.insert(path);
            }
        }
        found
    }
}

fn session_of(id: i32) -> i64 {
    0x0100_0000_0000_0000 | i64::from(id)
}

/// A number as the tree writes it, without sign or leading zeros.
fn number(text: &str) -> Option<i32> {
    let number: i32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A JSON string.
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The cluster of which a real Kafka 2.4.1 wrote the nodes below.
    pub(crate) struct Recorded;

    impl ClusterView for Recorded {
        fn zxid(&self) -> i64 {
            0x35
        }
        fn cluster_id(&self) -> String {
            "hIBIL8OqS2ulyPPIzOwweg".into()
        }
        fn controller(&self) -> Option<ControllerNode> {
            Some(ControllerNode {
                id: 1,
                controller_epoch: 1,
                timestamp_ms: 1796126979149,
            })
        }
        fn broker_ids(&self) -> Vec<i32> {
            vec![1]
        }
        fn broker(&self, id: i32) -> Option<BrokerNode> {
            (id == 1).then(|| BrokerNode {
                id,
                endpoints: vec![EndpointNode {
                    name: "PLAINTEXT".into(),
                    security_protocol: "PLAINTEXT".into(),
                    host: "127.0.0.1".into(),
                    port: 24792,
                }],
                rack: None,
                broker_epoch: 24,
                timestamp_ms: 1796126979008,
            })
        }
        fn topic_names(&self) -> Vec<String> {
            vec!["test".into()]
        }
        fn topic(&self, name: &str) -> Option<TopicNode> {
            let partition = |partition| PartitionNode {
                partition,
                replicas: vec![1],
                isr: vec![1],
                leader: 1,
                leader_epoch: 0,
                adding_replicas: vec![],
                removing_replicas: vec![],
            };
            (name == "test").then(|| TopicNode {
                partitions: vec![partition(0), partition(1)],
                configs: vec![],
            })
        }
    }

    #[test]
    fn nodes_are_those_that_kafka_2_4_writes() {
        let tree = Tree(&Recorded);
        let data = |path: &str| tree.node(path).unwrap().data.unwrap();
        assert_eq!(
            data("/brokers/ids/1"),
            r#"{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:24792"],"jmx_port":-1,"port":24792,"host":"127.0.0.1","version":4,"timestamp":"1796126979008"}"#
        );
        assert_eq!(
            data("/controller"),
            r#"{"version":1,"brokerid":1,"timestamp":"1796126979149"}"#
        );
        assert_eq!(data("/controller_epoch"), "1");
        assert_eq!(
            data("/brokers/topics/test"),
            r#"{"version":2,"partitions":{"0":[1],"1":[1]},"adding_replicas":{},"removing_replicas":{}}"#
        );
        assert_eq!(
            data("/brokers/topics/test/partitions/0/state"),
            r#"{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}"#
        );
        assert_eq!(
            data("/cluster/id"),
            r#"{"version":"1","id":"hIBIL8OqS2ulyPPIzOwweg"}"#
        );
        assert_eq!(data("/config/topics/test"), r#"{"version":1,"config":{}}"#);
        assert_eq!(tree.node("/brokers/ids").unwrap().children, ["1"]);
        assert_eq!(tree.node("/brokers/topics").unwrap().children, ["test"]);
    }

    #[test]
    fn what_is_not_there_is_none() {
        let tree = Tree(&Recorded);
        for path in [
            "",
            "brokers",
            "/nope",
            "/brokers/ids/2",
            "/brokers/ids/01",
            "/brokers/topics/test/partitions/7/state",
            "/controller/x",
            "//",
        ] {
            assert_eq!(tree.node(path), None, "{path}");
        }
    }

    #[test]
    fn every_child_that_is_listed_exists_and_is_counted() {
        let tree = Tree(&Recorded);
        let paths = tree.paths();
        for path in &paths {
            for child in tree.node(path).unwrap().children {
                let child = format!("{}/{child}", path.trim_end_matches('/'));
                assert!(paths.contains(&child), "{child}");
            }
        }
        assert_eq!(u64::try_from(paths.len()).unwrap(), tree.node_count());
    }
}
