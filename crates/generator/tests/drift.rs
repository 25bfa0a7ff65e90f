//! The generated code that is checked in is what the generator makes of the schemas and tables.
//! Not here: whether that code is right (crates/protocol/tests).
//! Kafka has no counterpart: its build generates on the fly.

#![allow(clippy::disallowed_methods)] // a test reads the source tree

use std::path::Path;

#[test]
fn checked_in_code_is_up_to_date() {
    let protocol = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol");
    let files = kavka_generator::generate(&protocol).expect("schemas are readable");
    let folder = protocol.join("src/generated");
    let mut drift = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("generated folder") {
        let name = entry
            .expect("entry")
            .file_name()
            .to_string_lossy()
            .into_owned();
        if !files.contains_key(&name) {
            drift.push(format!("{name} is not generated any more"));
        }
    }
    for (name, code) in &files {
        match std::fs::read_to_string(folder.join(name)) {
            Ok(checked_in) if checked_in == *code => {}
            Ok(_) => drift.push(format!("{name} differs")),
            Err(e) => drift.push(format!("{name}: {e}")),
        }
    }
    assert!(drift.is_empty(), "run scripts/regenerate: {drift:?}");
}
