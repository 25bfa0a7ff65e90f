//! kafka-metadata-quorum: who is in the quorum of controllers and how far each is; votes given and taken.
//! Not here: options (options), what is printed of a quorum (show), the file of a new controller (controller_file).
//! Runs on the main thread; no runtime before the arguments are known to be good.
//! Kafka: org.apache.kafka.tools.MetadataQuorumCommand; KIP-836, KIP-853.

mod controller_file;
mod options;
mod show;

use crate::args::argparse::{Problem, Values};
use crate::exit;
use crate::files;
use crate::java::{Exception, Failure, execution_failure};
use crate::json::{self, Format};
use crate::output;
use crate::session::{BOOTSTRAP_CONTROLLER, BOOTSTRAP_SERVER, Session};
use controller_file::Fault;
use kavka_client::ClientError;
use kavka_client::admin::{nodes, quorum};
use kavka_common::Uuid;
use kavka_common::clock::{Clock, SystemClock};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

pub fn main<I: IntoIterator<Item = OsString>>(arguments: I) -> ExitCode {
    let arguments: Vec<String> = arguments
        .into_iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    match run(&arguments) {
        Ok(text) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(Trouble::Arguments(Problem::Help(text))) => {
            output::print(&text);
            ExitCode::SUCCESS
        }
        Err(Trouble::Arguments(Problem::Refused(text))) => {
            output::error(&text);
            ExitCode::FAILURE
        }
        Err(Trouble::Terse(text)) => {
            output::error(&format!("{text}\n"));
            ExitCode::FAILURE
        }
        Err(Trouble::Told(failure)) => exit::escaped(&failure),
    }
}

#[derive(Debug)]
enum Trouble {
    Arguments(Problem),
    /// A sentence without a trace.
    Terse(String),
    Told(Failure),
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Trouble {
        Trouble::Arguments(problem)
    }
}

impl From<Exception> for Trouble {
    fn from(exception: Exception) -> Trouble {
        Trouble::Told(exception.into())
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        match fault {
            Fault::Terse(text) => Trouble::Terse(text),
            Fault::Told(failure) => Trouble::Told(failure),
        }
    }
}

/// The text for standard output.
fn run(arguments: &[String]) -> Result<String, Trouble> {
    let names = options::SUBCOMMANDS.map(|(name, _)| name);
    let (root, name, rest) = options::ROOT
        .parse_before(&names, arguments)
        .map_err(|problem| match problem {
            Problem::Help(_) => Problem::Help(options::help()),
            refused @ Problem::Refused(_) => refused,
        })?;
    let command = match name {
        "describe" => options::DESCRIBE,
        "add-controller" => options::ADD_CONTROLLER,
        _ => options::REMOVE_CONTROLLER,
    };
    let values = command.parse(rest)?;
    options::ROOT.check_required(&root)?;
    match name {
        "describe" => describe(&root, &values),
        "add-controller" => add(&root, &values),
        _ => remove(&root, &values),
    }
}

fn open(root: &Values) -> Result<Session, Trouble> {
    let config = root.value("--command-config");
    if let Some(path) = config.filter(|path| !exists(path)) {
        return Err(Trouble::Terse(format!(
            "Properties file {path} does not exists!"
        )));
    }
    let (option, servers) = match root.value("--bootstrap-controller") {
        Some(controllers) => (BOOTSTRAP_CONTROLLER, controllers),
        None => (
            BOOTSTRAP_SERVER,
            root.value("--bootstrap-server").unwrap_or_default(),
        ),
    };
    Session::open(servers, option, config).map_err(|error| Trouble::Told(error.into()))
}

fn exists(path: &str) -> bool {
    // A file of the person who called the tool, not one of the broker's.
    Path::new(path).exists()
}

fn failed(session: &Session, error: &ClientError) -> Trouble {
    session.explain(error);
    Trouble::Told(execution_failure(error))
}

fn describe(root: &Values, values: &Values) -> Result<String, Trouble> {
    let format =
        Format::parse(values.value("--output")).map_err(|text| options::DESCRIBE.refuse(&text))?;
    let ages = values.has("--human-readable");
    match (values.has("--status"), values.has("--replication")) {
        (true, true) => {
            return Err(Trouble::Terse(
                "Only one of --status or --replication should be specified with describe sub-command".into(),
            ));
        }
        (false, false) => {
            return Err(Trouble::Terse(
                "One of --status or --replication must be specified with describe sub-command"
                    .into(),
            ));
        }
        (true, false) if ages => {
            return Err(Trouble::Terse(
                "The option --human-readable is only supported along with --replication".into(),
            ));
        }
        (true, false) | (false, true) => {}
    }
    let mut session = open(root)?;
    if values.has("--status") {
        let (described, quorum) = session
            .run(async |cluster| {
                let described = nodes::describe_cluster(cluster, false).await?;
                Ok((described, quorum::describe(cluster).await?))
            })
            .map_err(|error| failed(&session, &error))?;
        let cluster_id = described.cluster_id.unwrap_or_default();
        return Ok(match format {
            Format::Text | Format::Table => show::status(&cluster_id, &quorum)?,
            Format::Json => json::document(&show::status_document(&cluster_id, &quorum)?),
        });
    }
    let quorum = session
        .run(async |cluster| quorum::describe(cluster).await)
        .map_err(|error| failed(&session, &error))?;
    let now_ms = ages.then(|| SystemClock::new().wall_ms());
    Ok(match format {
        Format::Text => show::replication(&quorum, now_ms)?,
        Format::Table => show::replication_table(&quorum, now_ms)?,
        Format::Json => json::document(&show::replication_document(&quorum)?),
    })
}

fn add(root: &Values, values: &Values) -> Result<String, Trouble> {
    let path = root.value("--command-config").ok_or_else(|| {
        Trouble::Terse(
            "You must supply the configuration file of the controller you are adding when using add-controller.".into(),
        )
    })?;
    let mut session = open(root)?;
    let settings = files::properties(path)
        .map_err(|_| Trouble::Terse(format!("Properties file {path} does not exists!")))?;
    let controller = controller_file::read(&settings)?;
    let dry = values.has("--dry-run");
    if !dry {
        session
            .run(async |cluster| {
                let (id, directory) = (controller.node_id, controller.directory_id);
                quorum::add_voter(cluster, id, directory, &controller.endpoints).await
            })
            .map_err(|error| failed(&session, &error))?;
    }
    let endpoints: Vec<String> = controller.endpoints.iter().map(show::endpoint).collect();
    Ok(format!(
        "{} controller {} with directory id {} and endpoints: {}\n",
        if dry { "DRY RUN of adding" } else { "Added" },
        controller.node_id,
        controller.directory_id,
        endpoints.join(", ")
    ))
}

fn remove(root: &Values, values: &Values) -> Result<String, Trouble> {
    let id = options::REMOVE_CONTROLLER
        .int(values, "--controller-id")?
        .unwrap_or_default();
    if id < 0 {
        return Err(Trouble::Terse(format!(
            "Invalid negative --controller-id: {id}"
        )));
    }
    let text = values
        .value("--controller-directory-id")
        .unwrap_or_default();
    let directory: Uuid = text.parse().map_err(|_| {
        Trouble::Terse(format!(
            "Failed to parse --controller-directory-id: Input string `{text}` is not the base64 encoding of a 16-byte UUID"
        ))
    })?;
    let mut session = open(root)?;
    let dry = values.has("--dry-run");
    if !dry {
        session
            .run(async |cluster| quorum::remove_voter(cluster, id, directory).await)
            .map_err(|error| failed(&session, &error))?;
    }
    Ok(format!(
        "{} KRaft controller {id} with directory id {directory}\n",
        if dry {
            "DRY RUN of removing "
        } else {
            "Removed "
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match run(&words) {
            Ok(text) => text,
            Err(Trouble::Arguments(Problem::Refused(text) | Problem::Help(text))) => text,
            Err(Trouble::Terse(text)) => text,
            Err(Trouble::Told(failure)) => failure.trace(),
        }
    }

    /// What Apache's tool printed.
    #[test]
    fn refusals_are_javas() {
        for (line, told) in [
            ("", "kafka-metadata-quorum: error: too few arguments\n"),
            (
                "--bootstrap-server b:1",
                "kafka-metadata-quorum: error: too few arguments\n",
            ),
            (
                "describe --status",
                "kafka-metadata-quorum: error: one  of  the  arguments --bootstrap-server --\nbootstrap-controller is required\n",
            ),
            (
                "--bootstrap-server b:1 nonsense",
                "kafka-metadata-quorum:  error:  invalid  choice:  'nonsense'  (choose  from\n'describe', 'add-controller', 'remove-controller')\n",
            ),
            (
                "--bootstrap-server b:1 --bootstrap-controller b:1 describe --status",
                "kafka-metadata-quorum: error: argument  --bootstrap-controller: not allowed\nwith argument --bootstrap-server\n",
            ),
            (
                "--bootstrap-server b:1 describe",
                "One of --status or --replication must be specified with describe sub-command",
            ),
            (
                "--bootstrap-server b:1 describe --status --replication",
                "Only one of --status or --replication should be specified with describe sub-command",
            ),
            (
                "--bootstrap-server b:1 add-controller",
                "You must supply the configuration file of the controller you are adding when using add-controller.",
            ),
            (
                "--bootstrap-server b:1 remove-controller --controller-id x --controller-directory-id y",
                "kafka-metadata-quorum:  error:  argument   --controller-id/-i:   could  not\nconvert 'x' to Integer (For input string: \"x\")\n",
            ),
            (
                "--bootstrap-server b:1 remove-controller --controller-id -1 --controller-directory-id y",
                "Invalid negative --controller-id: -1",
            ),
            (
                "--bootstrap-server b:1 --command-config missing.properties describe --status",
                "Properties file missing.properties does not exists!",
            ),
        ] {
            let text = refused(line);
            assert!(text.ends_with(told), "{line}: {text}");
        }
    }

    #[test]
    fn a_dry_run_says_what_would_be_done() {
        assert_eq!(
            refused(
                "--bootstrap-server 127.0.0.1:1 remove-controller -i 5 -d 3Qu04iBsaEHt7e_rzMximw --dry-run"
            ),
            "DRY RUN of removing  KRaft controller 5 with directory id 3Qu04iBsaEHt7e_rzMximw\n"
        );
    }
}
