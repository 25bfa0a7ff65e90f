//! Properties files named on a tool's command line.
//! Not here: their syntax (kavka-config). Runs before anything is connected.
//! Kafka: org.apache.kafka.common.utils.Utils.loadProps.

use crate::exit::Stop;
use kavka_config::properties::Properties;
use std::io;

/// The settings of a file, in its order.
pub fn properties(path: &str) -> Result<Vec<(String, String)>, Stop> {
    #[allow(clippy::disallowed_methods)]
    // a file of the person who called the tool, not one of the broker's
    let bytes = std::fs::read(path).map_err(|e| {
        let class = match e.kind() {
            io::ErrorKind::NotFound => "java.nio.file.NoSuchFileException",
            io::ErrorKind::PermissionDenied => "java.nio.file.AccessDeniedException",
            _ => return Stop::exception("java.io.IOException", format!("{path}: {e}")),
        };
        Stop::exception(class, path)
    })?;
    let properties = Properties::parse(&bytes).map_err(|e| {
        Stop::exception(
            "java.lang.IllegalArgumentException",
            format!("{e} in {path}"),
        )
    })?;
    Ok(properties
        .iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect())
}
