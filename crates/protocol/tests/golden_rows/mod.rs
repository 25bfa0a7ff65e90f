//! The rows of tests/golden/*.tsv: version, instance, bytes, JSON, as the Java classes wrote them.
//! Not here: what is checked with them (`golden.rs`, `hostile.rs`).
//! Tests only.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;

pub struct Row {
    pub version: i16,
    pub instance: String,
    pub bytes: Bytes,
    /// JSON, not parsed yet.
    pub json: String,
}

fn unhex(text: &str) -> Bytes {
    let digit = |c: u8| (c as char).to_digit(16).expect("hex") as u8;
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| (digit(pair[0]) << 4) | digit(pair[1]))
        .collect()
}

fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        Row {
            version: cells[0].parse().expect("version"),
            instance: cells[1].to_owned(),
            bytes: unhex(cells[2]),
            json: cells[3].to_owned(),
        }
    };
    text.split('\n')
        .skip(1)
        .filter(|line| !line.is_empty())
        .map(row)
        .collect()
}

/// All rows by message.
pub fn load() -> BTreeMap<String, Vec<Row>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files = BTreeMap::new();
    for file in std::fs::read_dir(folder).expect("golden folder") {
        let path = file.expect("entry").path();
        let name = path
            .file_stem()
            .expect("name")
            .to_string_lossy()
            .into_owned();
        files.insert(name, rows(&std::fs::read_to_string(&path).expect("utf-8")));
    }
    files
}
