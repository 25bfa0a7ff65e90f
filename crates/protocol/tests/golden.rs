//! Bytes and JSON that the Java classes wrote: each row is read, compared, and written again both ways.
//! Not here: hostile bytes (`hostile.rs`).
//! Kafka 4.3.1's generated classes wrote tests/golden/*.tsv (version, instance, hex, json).

#![allow(clippy::disallowed_methods)] // a test reads its data files

use bytes::Bytes;
use kavka_protocol::{Message, messages};
use std::collections::BTreeMap;
use std::path::Path;

fn unhex(text: &str) -> Bytes {
    let digit = |c: u8| (c as char).to_digit(16).expect("hex") as u8;
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

struct Row {
    version: i16,
    instance: String,
    bytes: Bytes,
    json: serde_json::Value,
}

fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        Row {
            version: cells[0].parse().expect("version"),
            instance: cells[1].to_owned(),
            bytes: unhex(cells[2]),
            json: serde_json::from_str(cells[3]).expect("json"),
        }
    };
    text.split('\n')
        .skip(1)
        .filter(|line| !line.is_empty())
        .map(row)
        .collect()
}

fn check<M: Message>(rows: &[Row], faults: &mut Vec<String>) {
    for row in rows {
        let id = format!("{} v{} {}", M::NAME, row.version, row.instance);
        let message = match M::decode_exact(&row.bytes, row.version) {
            Ok(message) => message,
            Err(e) => {
                faults.push(format!("{id}: {e}"));
                continue;
            }
        };
        let json = message.to_json(row.version);
        if json != row.json {
            faults.push(format!("{id}: json\n  ours {json}\n  java {}", row.json));
        }
        match message.encode_to_bytes(row.version) {
            Ok(bytes) if bytes == row.bytes => {}
            other => faults.push(format!("{id}: {other:?} instead of {:?}", row.bytes)),
        }
        match M::from_json(&row.json, row.version) {
            Ok(parsed) if parsed.encode_to_bytes(row.version).as_ref() == Ok(&row.bytes) => {}
            other => faults.push(format!("{id}: from json {other:?}")),
        }
        if row.instance == "default"
            && M::default().encode_to_bytes(row.version).as_ref() != Ok(&row.bytes)
        {
            faults.push(format!("{id}: defaults differ: {:?}", M::default()));
        }
    }
}

#[test]
fn all_rows_of_java_round_trip() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for file in std::fs::read_dir(folder).expect("golden folder") {
        let path = file.expect("entry").path();
        let name = path
            .file_stem()
            .expect("name")
            .to_string_lossy()
            .into_owned();
        files.insert(name, rows(&std::fs::read_to_string(&path).expect("utf-8")));
    }
    let (mut messages_seen, mut rows_seen) = (0, 0);
    let mut faults = Vec::new();
    macro_rules! check_one {
        ($m:ident) => {
            let rows = files.remove(messages::$m::NAME).expect(messages::$m::NAME);
            for version in messages::$m::VALID_VERSIONS {
                assert!(
                    rows.iter().any(|r| r.version == version),
                    "{} v{version}",
                    messages::$m::NAME
                );
            }
            messages_seen += 1;
            rows_seen += rows.len();
            check::<messages::$m>(&rows, &mut faults);
        };
    }
    kavka_protocol::for_each_message!(check_one);
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults[..faults.len().min(20)].join("\n")
    );
    assert!(files.is_empty(), "no message for {:?}", files.keys());
    assert_eq!((messages_seen, rows_seen), (273, 2217));
}
