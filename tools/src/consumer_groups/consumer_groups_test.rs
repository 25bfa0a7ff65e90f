use super::deleting::{groups_text, offsets_text};
use super::describe::{self, OffsetRow};
use super::options::{self, Refusal};
use super::plan::*;
use super::reset::*;
use super::{Trouble, unlisted};
use crate::exit::Stop;
use crate::json::Format;
use kavka_client::admin::groups::{GroupDescription, GroupListing, MemberDescription};
use kavka_client::{BrokerAddress, ClientError};
use kavka_common::{NodeId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

const NOW_MS: i64 = 1_600_000_000_000;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ')
        .filter(|word| !word.is_empty())
        .map(OsString::from)
        .collect()
}

fn planned(line: &str) -> Result<Plan, Failure> {
    let parsed = options::parse(words(&format!("--bootstrap-server b:1 {line}"))).unwrap();
    Plan::of(&parsed, NOW_MS)
}

fn action(line: &str) -> Action {
    planned(line).unwrap().action
}

fn refused(line: &str) -> String {
    match options::parse(words(line)).unwrap_err() {
        Refusal::Stop(Stop::Usage(text)) => text,
        Refusal::Stop(other) => format!("{other:?}"),
        Refusal::Uncaught(e) => e.trace(),
    }
}

fn target(line: &str) -> Target {
    match action(&format!(
        "--reset-offsets --dry-run --group g --topic t {line}"
    )) {
        Action::Reset(reset) => reset.target,
        other => panic!("{other:?}"),
    }
}

#[test]
fn list_and_describe_have_their_filters() {
    assert_eq!(action("--list"), Action::List(ListPlan::default()));
    assert_eq!(
        action("--list --state stable,Empty --type classic"),
        Action::List(ListPlan {
            with_state: true,
            with_type: true,
            states: vec![State::Stable, State::Empty],
            types: vec!["Classic"],
        })
    );
    assert_eq!(
        action("--list --state --type"),
        Action::List(ListPlan {
            with_state: true,
            with_type: true,
            ..Default::default()
        })
    );
    for (line, view, verbose) in [
        ("--describe --group g", View::Offsets, false),
        (
            "--describe --group g --offsets --verbose",
            View::Offsets,
            true,
        ),
        ("--describe --group g --members", View::Members, false),
        ("--describe --all-groups --state", View::State, false),
    ] {
        assert_eq!(action(line), Action::Describe { view, verbose }, "{line}");
    }
    let plan = planned("--describe --group a --group b --timeout 5000 --output json").unwrap();
    assert_eq!(plan.groups, Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!((plan.timeout_ms, plan.format), (5000, Format::Json));
    assert_eq!(planned("--delete --all-groups").unwrap().groups, None);
    assert_eq!(planned("--list").unwrap().timeout_ms, 30_000);
}

#[test]
fn resets_have_a_scope_and_a_target() {
    for (line, expected) in [
        ("--to-earliest", Target::Earliest),
        ("--to-latest", Target::Latest),
        ("--to-current", Target::Current),
        ("--to-offset 7", Target::Offset(7)),
        ("--shift-by -2", Target::ShiftBy(-2)),
        (
            "--to-datetime 2020-01-01T00:00:00.000",
            Target::Timestamp(1_577_836_800_000),
        ),
        ("--by-duration PT1H", Target::Timestamp(NOW_MS - 3_600_000)),
    ] {
        assert_eq!(target(line), expected, "{line}");
    }
    let Action::Reset(reset) =
        action("--reset-offsets --group g --topic t:0,2 --topic u --to-latest --execute --export")
    else {
        panic!()
    };
    assert!(reset.execute && reset.export && reset.single_group);
    assert_eq!(
        reset.scope,
        Scope::Topics(vec![
            TopicArgument {
                topic: "t".into(),
                partitions: Some(vec![0, 2]),
            },
            TopicArgument {
                topic: "u".into(),
                partitions: None,
            },
        ])
    );
    let Action::Reset(reset) =
        action("--reset-offsets --dry-run --all-groups --all-topics --to-current")
    else {
        panic!()
    };
    assert_eq!(reset.scope, Scope::AllTopics);
    assert!(!reset.single_group && !reset.execute);
}

#[test]
fn values_are_refused_in_javas_words() {
    for (line, usage, text) in [
        (
            "--list --state nonsense",
            true,
            "Invalid state list 'nonsense'. Valid states are: Stable, PreparingRebalance, Reconciling, CompletingRebalance, Empty, Dead, Assigning",
        ),
        (
            "--list --type nonsense",
            true,
            "Invalid types list 'nonsense'. Valid types are: Consumer, Classic",
        ),
        (
            "--reset-offsets --dry-run --group g --to-earliest",
            true,
            "One of the reset scopes should be defined: --all-topics, --topic.",
        ),
        (
            "--reset-offsets --dry-run --group g --topic t",
            true,
            "Option '[reset-offsets]' requires one of the following scenarios: [[to-datetime], [by-duration], [to-latest], [to-current], [to-earliest], [to-offset], [shift-by], [from-file]]",
        ),
        (
            "--reset-offsets --dry-run --group g --topic t:x --to-latest",
            true,
            "Invalid partition 'x' specified in topic arg 't:x''",
        ),
        (
            "--reset-offsets --dry-run --group g --topic t --to-datetime yesterday",
            false,
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format",
        ),
        (
            "--reset-offsets --dry-run --group g --topic t --by-duration 1h",
            false,
            "Text cannot be parsed to a Duration",
        ),
        (
            "--reset-offsets --dry-run --group g --from-file missing.csv",
            false,
            "java.io.IOException: Unable to read file missing.csv",
        ),
        (
            "--list --timeout abc",
            false,
            "Cannot parse argument 'abc' of option timeout",
        ),
    ] {
        let failure = planned(line).unwrap_err();
        assert_eq!(
            (super::plan::is_usage(&failure), failure.message()),
            (usage, text),
            "{line}"
        );
    }
    assert_eq!(
        planned("--reset-offsets --dry-run --group g --from-file missing.csv")
            .unwrap_err()
            .trace(),
        "java.lang.RuntimeException: java.io.IOException: Unable to read file missing.csv
Caused by: java.io.IOException: Unable to read file missing.csv
Caused by: java.nio.file.NoSuchFileException: missing.csv"
    );
}

#[test]
fn options_that_do_not_go_together() {
    for (line, text) in [
        ("--list", "Missing required argument \"[bootstrap-server]\""),
        (
            "--bootstrap-server b:1",
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex",
        ),
        (
            "--bootstrap-server b:1 --describe",
            "Option [describe] takes one of these options: [group], [all-groups]",
        ),
        (
            "--bootstrap-server b:1 --delete",
            "Option [delete] takes one of these options: [group], [all-groups]",
        ),
        (
            "--bootstrap-server b:1 --list --nonsense",
            "joptsimple.UnrecognizedOptionException: nonsense is not a recognized option",
        ),
        (
            "--bootstrap-server b:1 --describe --group x --members --state",
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        (
            "--bootstrap-server b:1 --describe --group x --state Stable",
            "Option [describe] does not take a value for [state]",
        ),
        (
            "--bootstrap-server b:1 --delete --group x --topic t",
            "The consumer does not support topic-specific offset deletion from a consumer group.",
        ),
        (
            "--bootstrap-server b:1 --delete-offsets --group x",
            "Option [delete-offsets] takes the following options: [group], [topic]",
        ),
        (
            "--bootstrap-server b:1 --reset-offsets --group x --topic t --to-earliest --dry-run --execute",
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
        (
            "--bootstrap-server b:1 --reset-offsets --dry-run --group x --topic t --to-earliest --to-latest",
            "Option \"[to-earliest]\" can't be used with option \"[to-latest]\"",
        ),
        (
            "--bootstrap-server b:1 --describe --group x --all-groups",
            "Option \"[group]\" can't be used with option \"[all-groups]\"",
        ),
    ] {
        assert_eq!(refused(line), text, "{line}");
    }
    assert!(options::parse(words("--validate-regex a.*b")).is_ok());
}

#[test]
fn plans_are_read_back_from_their_csv() {
    let partition = |topic: &str, index| TopicPartition::new(topic, index);
    assert_eq!(
        parse_plan("t,1,0\nt,0,5\n\n", true).unwrap(),
        FilePlan::from([(None, vec![(partition("t", 1), 0), (partition("t", 0), 5)])])
    );
    let plan = parse_plan("g,t,1,0\r\nh,\"u\",0,5\n", false).unwrap();
    assert_eq!(plan[&Some("g".to_owned())], [(partition("t", 1), 0)]);
    assert_eq!(plan[&Some("h".to_owned())], [(partition("u", 0), 5)]);
    for (text, single) in [
        ("t,1,0", false),
        ("t,1", true),
        ("t,x,0", true),
        ("t,1,x", true),
    ] {
        assert!(
            parse_plan(text, single)
                .unwrap_err()
                .message
                .contains("Line 1"),
            "{text}"
        );
    }
    let reset = |group: &str, topic: &str, index, new| GroupReset {
        group: group.into(),
        offsets: vec![PartitionReset {
            partition: partition(topic, index),
            current: None,
            new,
        }],
    };
    let resets = [reset("g", "t", 1, 0), reset("h", "u", 0, 5)];
    assert_eq!(csv(&resets[..1], true), "t,1,0\n\n");
    assert_eq!(csv(&resets, false), "g,t,1,0\nh,u,0,5\n\n");
    assert_eq!(
        text(&resets),
        "
GROUP           TOPIC           PARTITION  NEW-OFFSET
g               t               1          0
h               u               0          5
"
    );
    assert_eq!(text(&[]), "\n");
}

#[test]
fn partitions_come_in_the_order_of_javas_hash_tables() {
    let partitions = ["t-0", "t-1", "u-0"].map(|name| {
        let (topic, index) = name.split_once('-').unwrap();
        TopicPartition::new(topic, index.parse().unwrap())
    });
    let order = java_order(partitions.to_vec(), |partition| partition);
    let names: Vec<String> = order.iter().map(TopicPartition::to_string).collect();
    assert_eq!(names, ["t-1", "t-0", "u-0"]);
}

#[test]
fn new_offsets_stay_within_the_log() {
    let partition = TopicPartition::new("t", 1);
    assert_eq!(into_range(&partition, 3, (0, 4)), (3, None));
    assert_eq!(into_range(&partition, 4, (0, 4)), (4, None));
    let (offset, warning) = into_range(&partition, 999, (0, 4));
    assert_eq!(
        (offset, warning.as_deref()),
        (
            4,
            Some(
                "New offset (999) is higher than latest offset for topic partition t-1. Value will be set to 4"
            )
        )
    );
    let (offset, warning) = into_range(&partition, -197, (0, 4));
    assert_eq!(
        (offset, warning.as_deref()),
        (
            0,
            Some(
                "New offset (-197) is lower than earliest offset for topic partition t-1. Value will be set to 0"
            )
        )
    );
}

fn listings() -> Vec<GroupListing> {
    let group = |id: &str, state: &str, group_type: &str| GroupListing {
        group_id: id.into(),
        protocol_type: "consumer".into(),
        state: state.into(),
        group_type: group_type.into(),
    };
    vec![
        group("idle", "Empty", "classic"),
        group("live8", "stable", "Consumer"),
        group("old", "", ""),
    ]
}

#[test]
fn lists_have_javas_columns() {
    let list = |with_state, with_type| {
        describe::listing(
            &listings(),
            &ListPlan {
                with_state,
                with_type,
                ..Default::default()
            },
        )
    };
    assert_eq!(list(false, false), "idle\nlive8\nold\n");
    assert_eq!(
        list(true, false).replace(' ', "."),
        "GROUP.....................STATE...............
idle......................Empty...............
live8.....................Stable..............
old.......................Unknown.............
"
    );
    assert_eq!(
        list(true, true).lines().nth(2),
        Some("live8                     Consumer             Stable              ")
    );
}

fn rows(member: bool) -> Vec<OffsetRow> {
    let row = |topic: &str, index, offset| OffsetRow {
        partition: TopicPartition::new(topic, index),
        leader_epoch: Some(0),
        offset,
        log_end_offset: Some(4),
        member: member.then(|| ["6TDexDmWRySXanrFplusXQ", "/127.0.0.1", "me"].map(String::from)),
    };
    vec![row("t", 0, Some(1)), row("t", 1, None)]
}

#[test]
fn offsets_have_javas_columns() {
    assert_eq!(
        describe::offsets("idle", &rows(false), false),
        "
GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID
idle            t               0          1               4               3               -               -               -
idle            t               1          -               4               -               -               -               -
"
    );
    assert_eq!(
        describe::offsets("live8", &rows(true)[..1], true),
        "
GROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID            HOST            CLIENT-ID
live8           t               0          0               1               4               3               6TDexDmWRySXanrFplusXQ /127.0.0.1      me
"
    );
}

fn description(new: bool) -> GroupDescription {
    let assignment = BTreeSet::from([TopicPartition::new("t", 0), TopicPartition::new("t", 1)]);
    GroupDescription {
        group_id: "live8".into(),
        state: "Stable".into(),
        coordinator_id: NodeId(1),
        coordinator: BrokerAddress::new("127.0.0.1", 19092),
        assignor: "uniform".into(),
        members: vec![MemberDescription {
            member_id: "6TDexDmWRySXanrFplusXQ".into(),
            client_id: "me".into(),
            host: "/127.0.0.1".into(),
            target_assignment: new.then(|| assignment.clone()),
            assignment,
            member_epoch: new.then_some(2),
            ..Default::default()
        }],
        group_epoch: new.then_some(2),
        target_assignment_epoch: new.then_some(2),
    }
}

#[test]
fn members_have_javas_columns() {
    assert_eq!(
        describe::members(&description(false), false).replace(' ', "."),
        "
GROUP...........CONSUMER-ID............HOST............CLIENT-ID.......#PARTITIONS.....
live8...........6TDexDmWRySXanrFplusXQ./127.0.0.1......me..............2...............
"
    );
    assert_eq!(
        describe::members(&description(true), true).replace(' ', "."),
        "
GROUP...........CONSUMER-ID............HOST............CLIENT-ID.......#PARTITIONS.....CURRENT-EPOCH...CURRENT-ASSIGNMENT...TARGET-EPOCH....TARGET-ASSIGNMENT...
live8...........6TDexDmWRySXanrFplusXQ./127.0.0.1......me..............2...............2...............t:0,1................2...............t:0,1...............
"
    );
    let mut static_member = description(false);
    static_member.members[0].group_instance_id = Some("inst1".into());
    assert!(
        describe::members(&static_member, false)
            .contains("6TDexDmWRySXanrFplusXQ inst1             /127.0.0.1")
    );
    let mut migrating = description(true);
    migrating.members.push(migrating.members[0].clone());
    migrating.members[0].upgraded = Some(true);
    migrating.members[1].upgraded = Some(false);
    assert!(
        describe::members(&migrating, true)
            .lines()
            .nth(1)
            .is_some_and(|line| line.ends_with(" UPGRADED"))
    );
}

#[test]
fn states_have_javas_columns() {
    assert_eq!(
        describe::state(&description(true), true),
        "
GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH   #MEMBERS
live8           127.0.0.1:19092  (1)      uniform              Stable               2               2                         1
"
    );
    let mut idle = description(false);
    idle.assignor.clear();
    assert_eq!(
        describe::state(&idle, false),
        "
GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS
live8           127.0.0.1:19092  (1)      -                    Stable               1
"
    );
}

#[test]
fn deletions_are_summed_up() {
    let result = |group: &str, error: Option<&str>| (group.to_owned(), error.map(str::to_owned));
    assert_eq!(
        groups_text(&[result("a", None), result("b", None)]),
        "Deletion of requested consumer groups ('a', 'b') was successful.\n"
    );
    assert_eq!(
        groups_text(&[result("live", Some("E: not empty.")), result("idle", None)]),
        "
Error: Deletion of some consumer groups failed:
* Group 'live' could not be deleted due to: E: not empty.

These consumer groups were deleted successfully: 'idle'
"
    );
    let outcomes = BTreeMap::from([
        (("t".to_owned(), 0), None),
        (("u".to_owned(), -1), Some("E: m".to_owned())),
    ]);
    assert_eq!(
        offsets_text(&outcomes),
        "
TOPIC           PARTITION  STATUS         
t               0          Successful     
u               -          Error: E: m    
"
    );
}

#[test]
fn nobody_to_ask_is_told_as_java_does() {
    let error = ClientError::NoBroker {
        call: "findAllBrokers".into(),
        cause: Box::new(ClientError::Config("x".into())),
    };
    let Trouble::Both(failure, _) = unlisted(error, true) else {
        panic!()
    };
    assert_eq!(
        failure.message(),
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.KafkaException: Failed to find brokers to send ListGroups"
    );
    assert_eq!(
        failure.trace(),
        "java.lang.RuntimeException: java.util.concurrent.ExecutionException: org.apache.kafka.common.KafkaException: Failed to find brokers to send ListGroups
Caused by: java.util.concurrent.ExecutionException: org.apache.kafka.common.KafkaException: Failed to find brokers to send ListGroups
Caused by: org.apache.kafka.common.KafkaException: Failed to find brokers to send ListGroups
Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: findAllBrokers"
    );
}
