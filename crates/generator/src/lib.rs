//! Turns the schema facts and tables in crates/protocol into the Rust code in crates/protocol/src/generated.
//! Not here: the encodings themselves (crates/protocol/src/wire); nothing here is linked into a program that users run.
//! Run by `scripts/regenerate`; a test compares its output with what is checked in.
//! Kafka: org.apache.kafka.message.MessageGenerator (generator module).

#![allow(clippy::disallowed_methods)] // a build tool: it reads the source tree

mod enums;
mod field;
mod message;
mod names;
mod schema;
mod tables;

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// The files to be written: name in the generated folder and content.
pub type Generated = BTreeMap<String, String>;

/// Reads `schemas/` and `tables/` below the protocol crate's folder and makes all generated files.
pub fn generate(protocol_crate: &Path) -> Result<Generated> {
    let schemas = schema::load_all(&protocol_crate.join("schemas"))?;
    let mut files = Generated::new();
    for schema in schemas.iter().filter(|schema| schema.versions.is_some()) {
        let code = message::generate(schema).with_context(|| schema.path.clone())?;
        files.insert(format!("{}.rs", names::snake(&schema.name)), code);
    }
    files.insert("mod.rs".into(), enums::module_list(&schemas));
    files.insert("any_request.rs".into(), enums::any_request(&schemas));
    files.insert("any_response.rs".into(), enums::any_response(&schemas));
    files.insert(
        "metadata_record.rs".into(),
        enums::metadata_record(&schemas),
    );
    files.insert(
        "coordinator_record.rs".into(),
        enums::coordinator_records(&schemas),
    );
    let read = |name: &str| {
        let path = protocol_crate.join("tables").join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    files.insert("api_key.rs".into(), tables::api_key(&read("apis.tsv")?)?);
    files.insert(
        "error_code.rs".into(),
        tables::error_code(&read("errors.tsv")?, &read("error-messages.tsv")?)?,
    );
    Ok(files)
}
