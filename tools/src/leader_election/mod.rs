//! kafka-leader-election: has the controller elect leaders of partitions.
//! Not here: options and the file of partitions (options).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.LeaderElectionCommand; KIP-460.

mod options;

use crate::exit;
use crate::java::{Exception, Failure, execution_failure, partition_order};
use crate::json::{self, Format};
use crate::output;
use crate::session::{BOOTSTRAP_SERVER, Session};
use crate::table::{Align, Table};
use kavka_client::ClientError;
use kavka_client::admin::ItemResult;
use kavka_client::admin::elections::{ElectionType, elect_leaders};
use kavka_common::TopicPartition;
use kavka_protocol::ErrorCode;
use options::{Plan, Refusal};
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

const COMMAND_FAILED: &str = "org.apache.kafka.tools.AdminCommandFailedException";
/// Times of this tool's client, where the file of settings has none.
const TIMES: [(&str, &str); 2] = [
    ("default.api.timeout.ms", "30000"),
    ("request.timeout.ms", "15000"),
];
const OLD_CONFIG_OPTION: &str = "Option --admin.config has been deprecated and will be removed in a future version. Use --command-config instead.\n";

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let plan = match options::parse(arguments.into_iter().skip(1)) {
        Ok(plan) => plan,
        Err(Refusal::Stop(stop)) => return stop.report(&options::OPTIONS),
        Err(Refusal::Escaped(failure)) => return exit::escaped(&failure),
    };
    if plan.old_config_option {
        match plan.format {
            Format::Text => output::print(OLD_CONFIG_OPTION),
            Format::Table | Format::Json => output::error(OLD_CONFIG_OPTION),
        }
    }
    let config = plan.command_config.as_deref();
    let mut session = match Session::open_with(&plan.servers, BOOTSTRAP_SERVER, config, &TIMES) {
        Ok(session) => session,
        Err(error) => return exit::escaped(&error.into()),
    };
    let partitions = plan.partitions.as_deref();
    match session.run(async |cluster| elect_leaders(cluster, plan.election_type, partitions).await)
    {
        Ok(results) => show(&plan, results),
        Err(error) => {
            let code = exit::escaped(&told(&error, plan.format));
            session.explain(&error);
            code
        }
    }
}

/// How the tool tells that there was no election at all.
fn told(error: &ClientError, format: Format) -> Failure {
    let denied = error.code() == Some(ErrorCode::ClusterAuthorizationFailed);
    let late = matches!(
        error,
        ClientError::NoBroker { .. } | ClientError::TimedOut { .. }
    ) || error.code() == Some(ErrorCode::RequestTimedOut);
    let text = match (late, denied) {
        (true, _) => "Timeout waiting for election results",
        (false, true) => "Not authorized to perform leader election",
        (false, false) => return execution_failure(error),
    };
    if format == Format::Text {
        output::print(&format!("{text}\n"));
    }
    let mut failure = Failure::from(Exception::new(COMMAND_FAILED, text));
    if late {
        failure.chain.push(Exception::from(error));
    }
    failure
}

/// What became of the partitions, in the order of Java's hash tables.
#[derive(Debug, Default)]
struct Outcome {
    elected: Vec<TopicPartition>,
    /// They have that leader already.
    not_needed: Vec<TopicPartition>,
    failed: Vec<(TopicPartition, Exception)>,
}

impl Outcome {
    fn of(results: Vec<(TopicPartition, ItemResult<()>)>) -> Outcome {
        let mut outcome = Outcome::default();
        for (partition, result) in partition_order(results, |(partition, _)| partition) {
            match result {
                Ok(()) => outcome.elected.push(partition),
                Err(error) if error.code() == Some(ErrorCode::ElectionNotNeeded) => {
                    outcome.not_needed.push(partition);
                }
                Err(error) => outcome.failed.push((partition, Exception::from(&error))),
            }
        }
        outcome
    }

    fn text(&self, election_type: ElectionType) -> String {
        let names = |partitions: &[TopicPartition]| {
            let names: Vec<String> = partition_order(partitions.to_vec(), |partition| partition)
                .iter()
                .map(ToString::to_string)
                .collect();
            names.join(", ")
        };
        let kind = election_type.name();
        let mut out = String::new();
        if !self.elected.is_empty() {
            out.push_str(&format!(
                "Successfully completed leader election ({kind}) for partitions {}\n",
                names(&self.elected)
            ));
        }
        if !self.not_needed.is_empty() {
            out.push_str(&format!(
                "Valid replica already elected for partitions {}\n",
                names(&self.not_needed)
            ));
        }
        for (partition, error) in &self.failed {
            out.push_str(&format!(
                "Error completing leader election ({kind}) for partition: {partition}: {}\n",
                error.trace()
            ));
        }
        out
    }

    /// Rows of partition, result and error.
    fn rows(&self) -> Vec<(&TopicPartition, &'static str, Option<&Exception>)> {
        let elected = self.elected.iter().map(|p| (p, "elected", None));
        let not_needed = self.not_needed.iter().map(|p| (p, "not_needed", None));
        let failed = self.failed.iter().map(|(p, e)| (p, "failed", Some(e)));
        let mut rows: Vec<_> = elected.chain(not_needed).chain(failed).collect();
        rows.sort_by_key(|(partition, _, _)| *partition);
        rows
    }
}

fn show(plan: &Plan, results: Vec<(TopicPartition, ItemResult<()>)>) -> ExitCode {
    let outcome = Outcome::of(results);
    output::print(&match plan.format {
        Format::Text => outcome.text(plan.election_type),
        Format::Table => {
            let mut table = Table::new(&[
                ("topic", Align::Left),
                ("partition", Align::Right),
                ("result", Align::Left),
                ("error", Align::Left),
            ]);
            for (partition, result, error) in outcome.rows() {
                table.row(vec![
                    partition.topic.to_string(),
                    partition.partition.to_string(),
                    result.replace('_', " "),
                    error.map(|error| error.message.clone()).unwrap_or_default(),
                ]);
            }
            table.render()
        }
        Format::Json => {
            let partitions: Vec<_> = outcome
                .rows()
                .into_iter()
                .map(|(partition, result, error)| {
                    json!({
                        "topic": &*partition.topic,
                        "partition": partition.partition,
                        "result": result,
                        "error": error.map(|error| &error.message),
                    })
                })
                .collect();
            json::document(&json!({
                "election_type": plan.election_type.name().to_ascii_lowercase(),
                "partitions": partitions,
            }))
        }
    });
    if outcome.failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    let message = format!("{} replica(s) could not be elected", outcome.failed.len());
    let mut trace = format!("{message}\n{COMMAND_FAILED}: {message}\n");
    for (_, error) in &outcome.failed {
        trace.push_str(&format!("\tSuppressed: {}\n", error.trace()));
    }
    output::error(&format!("{trace}\n"));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_told_in_javas_words() {
        let at = |partition| TopicPartition::new("t", partition);
        let refused = |code: ErrorCode, message: &str| {
            Err(ClientError::Refused {
                code,
                message: Some(message.into()),
            })
        };
        let outcome = Outcome::of(vec![
            (at(0), refused(ErrorCode::ElectionNotNeeded, "")),
            (at(1), Ok(())),
            (at(2), refused(ErrorCode::ElectionNotNeeded, "")),
            (
                at(3),
                refused(ErrorCode::UnknownTopicOrPartition, "No such topic as t"),
            ),
        ]);
        assert_eq!(
            outcome.text(ElectionType::Preferred),
            "Successfully completed leader election (PREFERRED) for partitions t-1
Valid replica already elected for partitions t-2, t-0
Error completing leader election (PREFERRED) for partition: t-3: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: No such topic as t
"
        );
        let rows: Vec<_> = outcome
            .rows()
            .iter()
            .map(|row| (row.0.partition, row.1))
            .collect();
        assert_eq!(
            rows,
            [
                (0, "not_needed"),
                (1, "elected"),
                (2, "not_needed"),
                (3, "failed")
            ]
        );
    }
}
