//! `kavka-generator PROTOCOL_CRATE`: writes the generated code of crates/protocol.
//! Not here: what is generated (the library).
//! Run by `scripts/regenerate`. Kafka: org.apache.kafka.message.MessageGenerator.

#![allow(clippy::disallowed_methods)] // a build tool: it reads and writes the source tree

use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

fn main() -> Result<()> {
    let root = std::env::args_os()
        .nth(1)
        .context("usage: kavka-generator PROTOCOL_CRATE")?;
    let root = PathBuf::from(root);
    let target = root.join("src/generated");
    let files = kavka_generator::generate(&root)?;
    fs::create_dir_all(&target)?;
    for entry in fs::read_dir(&target)? {
        let entry = entry?;
        if !files.contains_key(&*entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    let mut changed = 0;
    for (name, code) in &files {
        let path = target.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == *code) {
            continue;
        }
        fs::write(&path, code).with_context(|| path.display().to_string())?;
        changed += 1;
    }
    println!("{} files, {changed} changed", files.len());
    Ok(())
}
