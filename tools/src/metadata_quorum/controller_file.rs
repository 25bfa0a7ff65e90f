//! What `add-controller` reads of the new controller: its properties file, and the directory id that its metadata log has.
//! Not here: adding it. Pure but for reading files.
//! Kafka: MetadataQuorumCommand.{getControllerId, getMetadataDirectory, getMetadataDirectoryId, getControllerAdvertisedListeners}.

use crate::files;
use crate::java::{Exception, Failure};
use kavka_client::admin::quorum::Endpoint;
use kavka_common::Uuid;
use std::collections::BTreeMap;

const VALID: &str = "Is this a valid controller configuration file?";

/// A controller that is to get a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewController {
    pub node_id: i32,
    pub directory_id: Uuid,
    pub endpoints: Vec<Endpoint>,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Terse(String),
    Told(Failure),
}

fn terse(text: impl Into<String>) -> Fault {
    Fault::Terse(text.into())
}

/// Reads the settings of a controller and its `meta.properties`.
pub fn read(settings: &[(String, String)]) -> Result<NewController, Fault> {
    let settings: BTreeMap<&str, &str> = settings
        .iter()
        .map(|(key, value)| (key.as_str(), value.trim()))
        .collect();
    let node_id = node_id(&settings)?;
    let roles = settings.get("process.roles").copied().unwrap_or_default();
    if !roles.split(',').any(|role| role.trim() == "controller") {
        return Err(terse(format!(
            "process.roles did not contain 'controller' in configuration file. {VALID}"
        )));
    }
    let directory = directory(&settings)?;
    Ok(NewController {
        node_id,
        directory_id: directory_id(directory)?,
        endpoints: endpoints(&settings)?,
    })
}

fn node_id(settings: &BTreeMap<&str, &str>) -> Result<i32, Fault> {
    let text = settings
        .get("node.id")
        .ok_or_else(|| terse(format!("node.id not found in configuration file. {VALID}")))?;
    let id: i32 = text.parse().map_err(|_| {
        Fault::Told(
            Exception::new(
                "java.lang.NumberFormatException",
                format!("For input string: \"{text}\""),
            )
            .into(),
        )
    })?;
    if id < 0 {
        return Err(terse(format!(
            "node.id was negative in configuration file. {VALID}"
        )));
    }
    Ok(id)
}

fn directory<'a>(settings: &BTreeMap<&str, &'a str>) -> Result<&'a str, Fault> {
    let logs = || {
        settings
            .get("log.dirs")
            .and_then(|dirs| dirs.split(',').next())
    };
    settings
        .get("metadata.log.dir")
        .copied()
        .or_else(logs)
        .map(str::trim)
        .ok_or_else(|| {
            terse(format!(
                "Neither metadata.log.dir nor log.dirs were found. {VALID}"
            ))
        })
}

fn directory_id(directory: &str) -> Result<Uuid, Fault> {
    let path = format!("{directory}/meta.properties");
    let meta = files::properties(&path)
        .map_err(|_| terse(format!("Unable to read meta.properties from {directory}")))?;
    let id = meta.iter().find(|(key, _)| key == "directory.id");
    id.and_then(|(_, id)| id.parse().ok())
        .ok_or_else(|| terse(format!("No directory id found in {directory}")))
}

/// `NAME://host:port`, one or several with commas between.
fn listeners(text: &str) -> Vec<Endpoint> {
    text.split(',')
        .filter_map(|listener| {
            let (name, address) = listener.trim().split_once("://")?;
            let (host, port) = address.rsplit_once(':')?;
            Some(Endpoint {
                listener: name.to_owned(),
                host: host.trim_matches(['[', ']']).to_owned(),
                port: port.parse().ok()?,
            })
        })
        .collect()
}

fn endpoints(settings: &BTreeMap<&str, &str>) -> Result<Vec<Endpoint>, Fault> {
    let of = |key| listeners(settings.get(key).copied().unwrap_or_default());
    let (bound, advertised) = (of("listeners"), of("advertised.listeners"));
    settings
        .get("controller.listener.names")
        .ok_or_else(|| terse(format!("controller.listener.names was not found. {VALID}")))?
        .split(',')
        .map(str::trim)
        .map(|name| {
            let mut all = advertised.iter().chain(&bound);
            let found = all
                .find(|endpoint| endpoint.listener == name)
                .ok_or_else(|| {
                    terse(format!(
                        "Cannot find information about controller listener name: {name}"
                    ))
                })?;
            let mut endpoint = found.clone();
            if endpoint.host.is_empty() {
                endpoint.host = "localhost".into();
            }
            Ok(endpoint)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(lines: &str) -> Result<NewController, Fault> {
        let settings: Vec<(String, String)> = lines
            .split_whitespace()
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        read(&settings)
    }

    /// What Apache's tool printed.
    #[test]
    fn faults_are_told_in_javas_words() {
        for (lines, told) in [
            (
                "x=1",
                "node.id not found in configuration file. Is this a valid controller configuration file?",
            ),
            (
                "node.id=-5",
                "node.id was negative in configuration file. Is this a valid controller configuration file?",
            ),
            (
                "node.id=5 process.roles=broker",
                "process.roles did not contain 'controller' in configuration file. Is this a valid controller configuration file?",
            ),
            (
                "node.id=5 process.roles=controller",
                "Neither metadata.log.dir nor log.dirs were found. Is this a valid controller configuration file?",
            ),
            (
                "node.id=5 process.roles=controller metadata.log.dir=/nonexistent",
                "Unable to read meta.properties from /nonexistent",
            ),
        ] {
            assert_eq!(from(lines), Err(terse(told)), "{lines}");
        }
    }

    #[test]
    fn advertised_listeners_come_first() {
        let dir = tempfile::tempdir().unwrap();
        #[allow(clippy::disallowed_methods)] // a test's own file
        std::fs::write(
            dir.path().join("meta.properties"),
            "version=1\nnode.id=5\ndirectory.id=3Qu04iBsaEHt7e_rzMximw\n",
        )
        .unwrap();
        let base = format!(
            "node.id=5 process.roles=broker,controller log.dirs={},other listeners=CONTROLLER://:9093,C2://0.0.0.0:9095",
            dir.path().display()
        );
        let read = from(&format!(
            "{base} controller.listener.names=CONTROLLER,C2 advertised.listeners=C2://adv:9099"
        ))
        .unwrap();
        assert_eq!(read.directory_id.to_string(), "3Qu04iBsaEHt7e_rzMximw");
        let shown: Vec<String> = read
            .endpoints
            .iter()
            .map(super::super::show::endpoint)
            .collect();
        assert_eq!(shown, ["CONTROLLER://localhost:9093", "C2://adv:9099"]);
        assert_eq!(
            from(&format!("{base} controller.listener.names=X")),
            Err(terse(
                "Cannot find information about controller listener name: X"
            ))
        );
    }
}
