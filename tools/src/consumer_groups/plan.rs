//! What a command line of kafka-consumer-groups asks for.
//! Not here: which options go together (options), the plan of a reset (reset).
//! Pure. Kafka: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.ConsumerGroupService.

use super::reset::{ResetPlan, TopicArgument};
use crate::args::Parsed;
use crate::java::{Exception, ILLEGAL_ARGUMENT};
use crate::json::Format;

pub use crate::java::Failure;

/// Java's tool answers these with its table of options.
pub fn is_usage(failure: &Failure) -> bool {
    let first = failure.chain.first();
    first.is_some_and(|first| first.class == ILLEGAL_ARGUMENT)
}

/// A state of a group, in Java's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Stable,
    PreparingRebalance,
    Reconciling,
    CompletingRebalance,
    Empty,
    Dead,
    Assigning,
    Unknown,
}

impl State {
    /// Those that can be asked for, in the order in which Java's message names them.
    const KNOWN: [State; 7] = [
        State::Stable,
        State::PreparingRebalance,
        State::Reconciling,
        State::CompletingRebalance,
        State::Empty,
        State::Dead,
        State::Assigning,
    ];

    pub fn parse(text: &str) -> State {
        State::KNOWN
            .into_iter()
            .find(|state| state.name().eq_ignore_ascii_case(text))
            .unwrap_or(State::Unknown)
    }

    pub fn name(self) -> &'static str {
        match self {
            State::Stable => "Stable",
            State::PreparingRebalance => "PreparingRebalance",
            State::Reconciling => "Reconciling",
            State::CompletingRebalance => "CompletingRebalance",
            State::Empty => "Empty",
            State::Dead => "Dead",
            State::Assigning => "Assigning",
            State::Unknown => "Unknown",
        }
    }

    fn parse_list(text: &str) -> Result<Vec<State>, Exception> {
        let states: Vec<State> = text
            .split(',')
            .map(|name| State::parse(name.trim()))
            .collect();
        if states.contains(&State::Unknown) {
            return Err(Exception::illegal_argument(format!(
                "Invalid state list '{text}'. Valid states are: {}",
                State::KNOWN.map(State::name).join(", ")
            )));
        }
        Ok(states)
    }
}

/// The types of groups that have consumers, in the order in which Java's message names them.
pub const TYPES: [&str; 2] = ["Consumer", "Classic"];

/// A type in Java's spelling.
pub fn type_name(text: &str) -> &'static str {
    TYPES
        .into_iter()
        .find(|name| name.eq_ignore_ascii_case(text))
        .unwrap_or("Unknown")
}

fn parse_types(text: &str) -> Result<Vec<&'static str>, Exception> {
    let types: Vec<&str> = text.split(',').map(|name| type_name(name.trim())).collect();
    if types.contains(&"Unknown") {
        return Err(Exception::illegal_argument(format!(
            "Invalid types list '{text}'. Valid types are: {}",
            TYPES.join(", ")
        )));
    }
    Ok(types)
}

/// Which columns `--list` has, and which groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPlan {
    pub with_state: bool,
    pub with_type: bool,
    /// Empty: all.
    pub states: Vec<State>,
    /// Empty: all.
    pub types: Vec<&'static str>,
}

/// What `--describe` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Offsets,
    Members,
    State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    List(ListPlan),
    Describe {
        view: View,
        verbose: bool,
    },
    Delete,
    Reset(ResetPlan),
    DeleteOffsets {
        group: String,
        topics: Vec<TopicArgument>,
    },
}

/// The whole command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub action: Action,
    /// `None`: all.
    pub groups: Option<Vec<String>>,
    pub timeout_ms: u64,
    pub format: Format,
}

impl Plan {
    /// Reads the values; `now_ms` is what durations are counted from.
    pub fn of(parsed: &Parsed, now_ms: i64) -> Result<Plan, Failure> {
        let format = Format::parse(parsed.value("output")?).map_err(Exception::illegal_argument)?;
        // Java reads these first, whatever the action.
        parsed.long("shift-by")?;
        let timeout_ms = parsed.long("timeout")?.unwrap_or_default();
        let timeout_ms = u64::try_from(timeout_ms).unwrap_or_default();
        let groups = (!parsed.has("all-groups")).then(|| parsed.values("group").to_vec());
        let action = if parsed.has("list") {
            Action::List(list_plan(parsed)?)
        } else if parsed.has("describe") {
            let view = if parsed.has("members") {
                View::Members
            } else if parsed.has("state") {
                View::State
            } else {
                View::Offsets
            };
            Action::Describe {
                view,
                verbose: parsed.has("verbose"),
            }
        } else if parsed.has("delete") {
            Action::Delete
        } else if parsed.has("reset-offsets") {
            Action::Reset(ResetPlan::of(parsed, now_ms)?)
        } else {
            Action::DeleteOffsets {
                group: parsed.value("group")?.unwrap_or_default().to_owned(),
                topics: TopicArgument::parse_all(parsed.values("topic"))?,
            }
        };
        Ok(Plan {
            action,
            groups,
            timeout_ms,
            format,
        })
    }
}

fn list_plan(parsed: &Parsed) -> Result<ListPlan, Failure> {
    let mut plan = ListPlan {
        with_state: parsed.has("state"),
        with_type: parsed.has("type"),
        ..Default::default()
    };
    if let Some(text) = parsed.value("type")?.filter(|text| !text.is_empty()) {
        plan.types = parse_types(text)?;
    }
    if let Some(text) = parsed.value("state")?.filter(|text| !text.is_empty()) {
        plan.states = State::parse_list(text)?;
    }
    Ok(plan)
}
