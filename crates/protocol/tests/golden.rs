//! Bytes and JSON that the Java classes wrote: each row is read, compared, and written again both ways.
//! Not here: hostile bytes (`hostile.rs`).
//! Kafka 4.3.1's generated classes wrote tests/golden/*.tsv.

#![allow(clippy::disallowed_methods)] // a test reads its data files

mod golden_rows;

use golden_rows::Row;
use kavka_protocol::{Message, messages};

fn check<M: Message>(rows: &[Row], faults: &mut Vec<String>) {
    for row in rows {
        let id = format!("{} v{} {}", M::NAME, row.version, row.instance);
        let golden_json: serde_json::Value = serde_json::from_str(&row.json).expect("json");
        let message = match M::decode_exact(&row.bytes, row.version) {
            Ok(message) => message,
            Err(e) => {
                faults.push(format!("{id}: {e}"));
                continue;
            }
        };
        let json = message.to_json(row.version);
        if json != golden_json {
            faults.push(format!("{id}: json\n  ours {json}\n  java {}", row.json));
        }
        match message.encode_to_bytes(row.version) {
            Ok(bytes) if bytes == row.bytes => {}
            other => faults.push(format!("{id}: {other:?} instead of {:?}", row.bytes)),
        }
        match M::from_json(&golden_json, row.version) {
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
    let mut files = golden_rows::load();
    let (mut messages_seen, mut rows_seen) = (0, 0);
    let mut faults = Vec::new();
    macro_rules! check_one {
        ($m:ident) => {
            let name = messages::$m::NAME;
            let rows = files.remove(name).expect(name);
            for version in messages::$m::VALID_VERSIONS {
                assert!(
                    rows.iter().any(|r| r.version == version),
                    "{name} v{version}"
                );
            }
            messages_seen += 1;
            rows_seen += rows.len();
            check::<messages::$m>(&rows, &mut faults);
        };
    }
    kavka_protocol::for_each_message!(check_one);
    faults.truncate(20);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(files.is_empty(), "no message for {:?}", files.keys());
    assert_eq!((messages_seen, rows_seen), (273, 2217));
}
