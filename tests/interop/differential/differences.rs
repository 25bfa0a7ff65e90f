//! Finding the places where two answers differ, and the list of differences that stay, each with its reason.
//! Not here: masking of what differs by nature (side).
//! Pure. Kafka: no counterpart.

use serde_json::Value;

/// One place where the answers differ.
pub struct Difference {
    /// `/topics/0/errorCode`
    pub path: String,
    pub theirs: String,
    pub ours: String,
}

/// Collects the differences below `path`.
pub fn between(path: &str, theirs: &Value, ours: &Value, found: &mut Vec<Difference>) {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let inner = format!("{path}/{key}");
                between(&inner, value, b.get(key).unwrap_or(&Value::Null), found);
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                between(&format!("{path}/{key}"), &Value::Null, value, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                between(&format!("{path}/{i}"), x, y, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(Difference {
            path: path.to_owned(),
            theirs: brief(a),
            ours: brief(b),
        }),
    }
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A difference that stays: start and part of the request's name, end of the path, start of Apache's value, and why.
struct Excuse {
    api: &'static str,
    what: &'static str,
    path: &'static str,
    theirs: &'static str,
    reason: &'static str,
}

const EXCUSES: &[Excuse] = &[
    Excuse {
        api: "AddRaftVoter ",
        what: "another cluster",
        path: "/errorMessage",
        theirs: "\"The given id",
        reason: "each names the id of its own cluster",
    },
    Excuse {
        api: "RemoveRaftVoter ",
        what: "another cluster",
        path: "/errorMessage",
        theirs: "\"The given id",
        reason: "each names the id of its own cluster",
    },
    Excuse {
        api: "Produce ",
        what: "",
        path: "/errorMessage",
        theirs: "null",
        reason: "ours says what is wrong with a refused batch where Apache's leaves the message empty",
    },
    Excuse {
        api: "Produce ",
        what: "no records",
        path: "",
        theirs: "\"failed: Produce to",
        reason: "records of null are refused; Apache's broker trips over them and never answers",
    },
    Excuse {
        api: "",
        what: "",
        path: "/errorCode",
        theirs: "-1",
        reason: "ours names the fault in a request that Apache's broker trips over (UNKNOWN_SERVER_ERROR)",
    },
    Excuse {
        api: "FindCoordinator ",
        what: "transactional id",
        path: "",
        theirs: "",
        reason: "transactions are not served yet: clients are told so, instead of the name of a broker that coordinates nothing",
    },
    Excuse {
        api: "FindCoordinator ",
        what: "share partition",
        path: "",
        theirs: "",
        reason: "share groups are not served yet: clients are told so, instead of the name of a broker that coordinates nothing",
    },
    Excuse {
        api: "Produce ",
        what: "unknown codec",
        path: "/logStartOffset",
        theirs: "0",
        reason: "ours names the fault in a request that Apache's broker trips over (UNKNOWN_SERVER_ERROR)",
    },
    Excuse {
        api: "frame: ",
        what: "header cut",
        path: "",
        theirs: "",
        reason: "a newer ApiVersions request is answered even when its header cannot be read; Apache's closes",
    },
    Excuse {
        api: "IncrementalAlterConfigs ",
        what: "unknown operation",
        path: "/errorMessage",
        theirs: "null",
        reason: "ours names the fault in a request that Apache's broker trips over (UNKNOWN_SERVER_ERROR)",
    },
];

/// The reason why this difference may stay.
pub fn excuse(request: &str, difference: &Difference) -> Option<&'static str> {
    EXCUSES
        .iter()
        .find(|excuse| {
            request.starts_with(excuse.api)
                && request.contains(excuse.what)
                && difference.path.ends_with(excuse.path)
                && difference.theirs.starts_with(excuse.theirs)
        })
        .map(|excuse| excuse.reason)
}

/// Groups that only Apache's broker lists.
pub const PHANTOM_GROUPS: &str = "refused-";
pub const PHANTOM_GROUPS_REASON: &str = "a JoinGroup that is refused leaves no group behind; Apache's lists an empty one until the next restart";

/// Takes the phantom groups out of a list of groups; whether there were any.
pub fn without_phantoms(answer: &mut Value) -> bool {
    let Some(Value::Array(groups)) = answer.get_mut("groups") else {
        return false;
    };
    let before = groups.len();
    groups.retain(|group| {
        let id = group["groupId"].as_str();
        !id.is_some_and(|id| id.starts_with(PHANTOM_GROUPS))
    });
    groups.len() < before
}
