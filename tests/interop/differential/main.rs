//! Sends the same requests, in every version, to Apache's broker and to ours, and compares the answers field by field.
//! Not here: starting the two (tests/interop/50-differential), the requests themselves (one file per family).
//! One task, one request at a time to both at once, so that both brokers go through the same states.
//! Kafka: the answers of release 4.3.1; ids and times are masked, differences that stay are listed with their reasons.

mod admin;
mod bad_frames;
mod cluster;
mod differences;
mod groups;
mod logs;
mod metadata;
mod side;
mod unordered;

use kavka_client::ClientError;
use kavka_protocol::messages::ApiVersionsRequest;
use kavka_protocol::{ApiKey, Message, Request};
use serde_json::Value;
use side::Side;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

/// Both brokers and what was seen so far.
pub struct Duel {
    theirs: Side,
    ours: Side,
    passed: usize,
    failed: usize,
    excused: BTreeSet<&'static str>,
    /// Names of the APIs that were compared.
    asked: BTreeSet<&'static str>,
}

impl Duel {
    /// Sends the request that `make` builds, in each version that it can be built and encoded for.
    pub async fn each_version<R: Request>(
        &mut self,
        what: &str,
        make: impl Fn(i16, &Side) -> Option<R>,
    ) {
        let Some(versions) = R::API_KEY.versions() else {
            return;
        };
        for version in versions {
            self.one(what, version, &make).await;
        }
    }

    /// Sends one request in one version; gives the two answers.
    pub async fn one<R: Request>(
        &mut self,
        what: &str,
        version: i16,
        make: impl Fn(i16, &Side) -> Option<R>,
    ) -> Option<(R::Response, R::Response)> {
        let (Some(to_theirs), Some(to_ours)) =
            (make(version, &self.theirs), make(version, &self.ours))
        else {
            return None;
        };
        self.asked.insert(R::API_KEY.name());
        let name = format!("{} v{version}: {what}", R::API_KEY.name());
        let (theirs, ours) = tokio::join!(
            self.theirs.call(&to_theirs, version),
            self.ours.call(&to_ours, version)
        );
        if matches!(theirs, Err(ClientError::Unsendable(_))) {
            return None;
        }
        let (left, right) = (
            self.theirs.masked(&theirs, version),
            self.ours.masked(&ours, version),
        );
        self.judge(&name, &left, &right);
        Some((theirs.ok()?, ours.ok()?))
    }

    /// Every API that we say we serve must have been compared.
    async fn judge_coverage(&mut self) {
        let served = match self.ours.call(&ApiVersionsRequest::default(), 0).await {
            Ok(answer) => answer.api_keys,
            Err(e) => return self.judge("all APIs are compared", &Value::Null, &shown_error(&e)),
        };
        let missing: Vec<&str> = served
            .iter()
            .filter_map(|row| ApiKey::try_from(row.api_key).ok())
            .map(ApiKey::name)
            .filter(|name| !self.asked.contains(name))
            .collect();
        self.judge(
            "all APIs that are served are compared",
            &Value::Array(Vec::new()),
            &Value::from(missing),
        );
    }

    /// Compares what both said, and prints the verdict.
    pub fn judge(&mut self, name: &str, theirs: &Value, ours: &Value) {
        let mut found = Vec::new();
        let (mut theirs, ours) = (
            unordered::sorted(name, theirs),
            unordered::sorted(name, ours),
        );
        if name.starts_with("ListGroups ") && differences::without_phantoms(&mut theirs) {
            self.excused.insert(differences::PHANTOM_GROUPS_REASON);
        }
        differences::between("", &theirs, &ours, &mut found);
        found.retain(|difference| match differences::excuse(name, difference) {
            Some(reason) => {
                self.excused.insert(reason);
                false
            }
            None => true,
        });
        if found.is_empty() {
            println!("ok - {name}");
            self.passed += 1;
            return;
        }
        println!("not ok - {name}");
        self.failed += 1;
        for difference in found.iter().take(8) {
            println!(
                "#   {}: Apache {}, ours {}",
                difference.path, difference.theirs, difference.ours
            );
        }
    }
}

/// The answer as JSON in its version, or the word for how the connection ended.
pub fn shown<M: Message>(answer: &Result<M, ClientError>, version: i16) -> Value {
    match answer {
        Ok(message) => message.to_json(version),
        Err(ClientError::Lost { .. }) => Value::from("connection closed"),
        Err(other) => shown_error(other),
    }
}

fn shown_error(error: &ClientError) -> Value {
    Value::from(format!("failed: {error}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [theirs, ours, only @ ..] = arguments.as_slice() else {
        eprintln!("usage: differential APACHE_HOST:PORT OUR_HOST:PORT [family ...]");
        return ExitCode::from(2);
    };
    let (theirs, ours) = match (Side::new(theirs).await, Side::new(ours).await) {
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        (Err(e), _) | (_, Err(e)) => {
            println!("not ok - connecting: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut duel = Duel {
        theirs,
        ours,
        passed: 0,
        failed: 0,
        excused: BTreeSet::new(),
        asked: BTreeSet::new(),
    };
    #[allow(clippy::disallowed_methods)] // tells how long the whole took
    let started = Instant::now();
    let wanted = |family: &str| only.is_empty() || only.iter().any(|name| name == family);
    duel.prepare().await;
    if wanted("metadata") {
        metadata::run(&mut duel).await;
    }
    if wanted("logs") {
        logs::run(&mut duel).await;
    }
    if wanted("groups") {
        groups::run(&mut duel).await;
    }
    if wanted("admin") {
        admin::run(&mut duel).await;
    }
    if wanted("cluster") {
        cluster::run(&mut duel).await;
    }
    if wanted("bad_frames") {
        bad_frames::run(&mut duel).await;
    }
    if wanted("metadata") {
        metadata::unserved_coordinators(&mut duel).await;
    }
    if only.is_empty() {
        duel.judge_coverage().await;
    }
    for reason in &duel.excused {
        println!("# differs: {reason}");
    }
    println!(
        "# {} same, {} different, {} s",
        duel.passed,
        duel.failed,
        started.elapsed().as_secs()
    );
    if duel.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
