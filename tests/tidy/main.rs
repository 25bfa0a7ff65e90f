//! House rules as a test: layers, file headers, unfinished work, file length and names, keys in config/.
//! Not here: format and lints (scripts/check runs cargo fmt and clippy), licences (deny.toml).
//! Run by `cargo test` and scripts/check; reads the repository's files, starts only `cargo metadata`.

#![allow(
    clippy::disallowed_methods,
    reason = "a test that reads the repository's files"
)]

mod layers;
mod sources;

use std::path::{Path, PathBuf};

/// The repository's top folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("tests/ lies in the repository")
        .to_owned()
}

/// Every file under `folder` whose name ends in `suffix`, build products and hidden folders left out; sorted.
fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let entry = entry.expect("a folder's entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if entry.file_type().expect("a file type").is_dir() {
                folders.push(entry.path());
            } else if name.ends_with(suffix) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Fails with every complaint at once, so that one run shows all there is to mend.
fn report(complaints: &[String]) {
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}
