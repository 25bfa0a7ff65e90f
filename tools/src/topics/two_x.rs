//! `--zookeeper host:port`, the way of 2.x: finds the brokers through that port, works with them, prints as 2.x did.
//! Not here: options, layout of descriptions.
//! The port is a controller listener of zookeeper-server-start, or a real ZooKeeper: both are asked in their language.
//! Kafka: kafka.admin.TopicCommand.ZookeeperTopicService, AdminZkClient (2.4).

use super::describe::Style;
use super::plan::{Action, DescribePlan, Plan, TopicPlan};
use super::{COLLISIONS, Trouble, escaped, finish, new_topic, plan, present, report, selected};
use crate::args::Parsed;
use crate::exit::Stop;
use crate::java::Exception;
use crate::json::{self, Format};
use crate::output;
use crate::session::Session;
use kavka_client::admin::configs::{self, Change, Operation, Resource};
use kavka_client::admin::{describe_topics, nodes, topics};
use kavka_client::{BrokerAddress, ClientError, Cluster, zookeeper};
use kavka_config::quorum::ZooKeeperConnect;
use kavka_protocol::ErrorCode;
use std::process::ExitCode;

const LOGGER: &str = "kafka.admin.TopicCommand$";
const ALTER_CONFIG: &str = "WARNING: Altering topic configuration from this script has been deprecated and may be removed in future releases.
         Going forward, please use kafka-configs.sh for this functionality
";
const ALTER_PARTITIONS: &str = "WARNING: If partitions are increased for a topic that has a key, the partition logic or ordering of the messages will be affected\n";

pub(super) fn run(parsed: &Parsed) -> ExitCode {
    let text = match parsed.value("zookeeper") {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => return escaped(&error.to_string(), &error.to_string()),
    };
    let connect = match ZooKeeperConnect::parse(text) {
        Ok(connect) => connect,
        Err(error) => return Stop::Failed(error.message).report(&super::options::OPTIONS),
    };
    let plan = match Plan::of(parsed) {
        Ok(plan) => plan,
        Err(failure) => return report(&failure, LOGGER),
    };
    let servers: Vec<String> = connect.servers.iter().map(ToString::to_string).collect();
    let config = parsed.last("command-config");
    let mut session = match Session::open(&servers.join(","), "zookeeper", config) {
        Ok(session) => session,
        Err(error) => return escaped(&error.exception.message, &error.trace()),
    };
    finish(&mut session, LOGGER, |session| {
        session.run(async |cluster| {
            let found = find_brokers(cluster, &connect).await?;
            let mut brokers = Cluster::new(found, cluster.config().clone());
            work(&mut brokers, &plan).await
        })
    })
}

/// Asks the controller behind the port for its brokers, else ZooKeeper for those registered there.
async fn find_brokers(
    cluster: &mut Cluster,
    connect: &ZooKeeperConnect,
) -> Result<Vec<BrokerAddress>, Trouble> {
    let refusal = match nodes::brokers_by_controller(cluster).await {
        Ok(found) if !found.is_empty() => return Ok(found),
        Ok(_) => None,
        Err(error @ ClientError::NoBroker { .. }) => return Err(error.into()),
        Err(error) => Some(error),
    };
    let mut is_zookeeper = false;
    for server in &connect.servers {
        let address = BrokerAddress::new(server.host.clone(), server.port);
        let chroot = connect.chroot.as_deref();
        if let Ok(found) = zookeeper::brokers(&address, chroot, cluster.config()).await {
            if !found.is_empty() {
                return Ok(found);
            }
            is_zookeeper = true;
        }
    }
    match refusal {
        Some(error) if !is_zookeeper => Err(error.into()),
        _ => Err(Exception::new(
            "kafka.admin.AdminOperationException",
            "No live broker is registered there: start one with kafka-server-start, and look at its log if it runs",
        )
        .into()),
    }
}

async fn work(cluster: &mut Cluster, plan: &Plan) -> Result<(), Trouble> {
    match &plan.action {
        Action::Create(topic) => create(cluster, topic).await,
        Action::List => super::list(cluster, plan).await,
        Action::Describe(describe) => show(cluster, plan, describe).await,
        Action::Alter(topic) => alter(cluster, plan, topic).await,
        Action::Delete => delete(cluster, plan).await,
    }
}

fn refusal(class: &str, message: String) -> Trouble {
    Exception::new(format!("org.apache.kafka.common.errors.{class}"), message).into()
}

async fn create(cluster: &mut Cluster, topic: &TopicPlan) -> Result<(), Trouble> {
    if plan::has_collision_chars(&topic.name) {
        output::print(COLLISIONS);
    }
    let result = create_checked(cluster, topic).await;
    match result {
        Ok(()) => {
            topics::settle(cluster, &[(&topic.name, 1)]).await;
            output::print(&format!("Created topic {}.\n", topic.name));
        }
        Err(Trouble::Client(error))
            if topic.if_not_exists && error.code() == Some(ErrorCode::TopicAlreadyExists) => {}
        Err(other) => return Err(other),
    }
    Ok(())
}

/// What 2.x checked by itself is checked here in its order and words; the rest is the broker's.
async fn create_checked(cluster: &mut Cluster, topic: &TopicPlan) -> Result<(), Trouble> {
    if topic.assignment.is_none() {
        if let Some(factor) = topic.replication_factor {
            let brokers = nodes::live_brokers(cluster).await?.len();
            if factor < 1 {
                return Err(refusal(
                    "InvalidReplicationFactorException",
                    "Replication factor must be larger than 0.".into(),
                ));
            }
            if usize::try_from(factor).is_ok_and(|factor| factor > brokers) {
                return Err(refusal(
                    "InvalidReplicationFactorException",
                    format!(
                        "Replication factor: {factor} larger than available brokers: {brokers}."
                    ),
                ));
            }
        }
        if topic.partitions.is_some_and(|partitions| partitions < 1) {
            return Err(refusal(
                "InvalidPartitionsException",
                "Number of partitions must be larger than 0.".into(),
            ));
        }
    }
    check_name(&topic.name)?;
    let outcome = super::only(topics::create(cluster, &[new_topic(topic)], false).await?);
    match outcome {
        Ok(_) => Ok(()),
        Err(ClientError::Refused {
            code: ErrorCode::InvalidTopicException,
            message: Some(text),
        }) => Err(refusal(
            "InvalidTopicException",
            text.replace(
                "collides with existing topic:",
                "collides with existing topics:",
            ),
        )),
        Err(error) => Err(error.into()),
    }
}

fn check_name(name: &str) -> Result<(), Trouble> {
    const LENGTH_MAX: usize = 249;
    let illegal = |text: String| Err(refusal("InvalidTopicException", text));
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() {
        return illegal("Topic name is illegal, it can't be empty".into());
    }
    if matches!(name, "." | "..") {
        return illegal("Topic name cannot be \".\" or \"..\"".into());
    }
    if name.chars().count() > LENGTH_MAX {
        return illegal(format!(
            "Topic name is illegal, it can't be longer than {LENGTH_MAX} characters, topic name: {name}"
        ));
    }
    if !name.chars().all(legal) {
        return illegal(format!(
            "Topic name \"{name}\" is illegal, it contains a character other than ASCII alphanumerics, '.', '_' and '-'"
        ));
    }
    Ok(())
}

async fn show(cluster: &mut Cluster, plan: &Plan, describe: &DescribePlan) -> Result<(), Trouble> {
    let found = selected(cluster, plan).await?;
    super::ensure_exists(plan, &found)?;
    let names: Vec<String> = found.into_iter().map(|topic| topic.name).collect();
    let limit = describe.partitions_per_response;
    let topics = present(describe_topics::by_name(cluster, &names, limit).await?)?;
    let (topics, view) = super::with_details(cluster, topics, describe, Style::TwoX).await?;
    output::print(&match plan.format {
        Format::Text => topics.iter().map(|topic| topic.text(&view)).collect(),
        Format::Table => super::describe::table(&topics, &view),
        Format::Json => json::document(&super::describe::document(&topics, &view)),
    });
    Ok(())
}

async fn alter(cluster: &mut Cluster, plan: &Plan, topic: &TopicPlan) -> Result<(), Trouble> {
    let found = selected(cluster, plan).await?;
    super::ensure_exists(plan, &found)?;
    let names: Vec<String> = found.into_iter().map(|topic| topic.name).collect();
    for name in &names {
        if !topic.configs.is_empty() || !topic.deleted_configs.is_empty() {
            output::print(ALTER_CONFIG);
            alter_configs(cluster, name, topic).await?;
            output::print(&format!("Updated config for topic {name}.\n"));
        }
        if topic.partitions.is_some() {
            output::print(ALTER_PARTITIONS);
            add_partitions(cluster, name, topic).await?;
            output::print("Adding partitions succeeded!\n");
        }
    }
    Ok(())
}

async fn alter_configs(
    cluster: &mut Cluster,
    name: &str,
    topic: &TopicPlan,
) -> Result<(), Trouble> {
    let set = topic.configs.iter().map(|(key, value)| Change {
        name: key.clone(),
        operation: Operation::Set,
        value: Some(value.clone()),
    });
    let deleted = topic.deleted_configs.iter().map(|key| Change {
        name: key.clone(),
        operation: Operation::Delete,
        value: None,
    });
    let changes = [(Resource::topic(name), set.chain(deleted).collect())];
    for (_, outcome) in configs::alter(cluster, &changes, false).await? {
        outcome?;
    }
    Ok(())
}

async fn add_partitions(
    cluster: &mut Cluster,
    name: &String,
    topic: &TopicPlan,
) -> Result<(), Trouble> {
    let names = std::slice::from_ref(name);
    let limit = describe_topics::PARTITIONS_PER_RESPONSE;
    let known = present(describe_topics::by_name(cluster, names, limit).await?)?;
    let count = known.first().map_or(0, |topic| topic.partitions.len());
    let wanted = topic.partitions.unwrap_or_default();
    if usize::try_from(wanted).unwrap_or(0) <= count {
        return Err(refusal(
            "InvalidPartitionsException",
            format!(
                "The number of partitions for a topic can only be increased. Topic {name} currently has {count} partitions, {wanted} would not be an increase."
            ),
        ));
    }
    for (_, outcome) in super::add_partitions(cluster, names, topic).await? {
        outcome?;
    }
    let wanted = usize::try_from(wanted).unwrap_or_default();
    topics::settle(cluster, &[(name, wanted)]).await;
    Ok(())
}

async fn delete(cluster: &mut Cluster, plan: &Plan) -> Result<(), Trouble> {
    let found = selected(cluster, plan).await?;
    super::ensure_exists(plan, &found)?;
    for topic in found {
        if plan::is_internal(&topic.name) {
            return Err(Exception::new(
                "kafka.admin.AdminOperationException",
                format!(
                    "Topic {} is a kafka internal topic and is not allowed to be marked for deletion.",
                    topic.name
                ),
            )
            .into());
        }
        super::only(topics::delete(cluster, std::slice::from_ref(&topic.name)).await?)?;
        topics::settle(cluster, &[(&topic.name, 0)]).await;
        output::print(&format!(
            "Topic {} is marked for deletion.\nNote: This will have no impact if delete.topic.enable is not set to true.\n",
            topic.name
        ));
    }
    Ok(())
}
