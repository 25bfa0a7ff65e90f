//! Properties files under random input: nothing panics, what is written reads back, the last value wins.
//! Not here: agreement with Java byte for byte (tests/golden.rs).
//! Run by `cargo test`; proptest prints the smallest failing case.

use kavka_config::{BrokerConfig, Properties, ZooKeeperConfig};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(read) = Properties::parse(&bytes) {
            let _ = BrokerConfig::from_properties(&read);
            let _ = ZooKeeperConfig::from_properties(&read);
        }
    }

    #[test]
    fn what_is_stored_reads_back(pairs in proptest::collection::vec((any::<String>(), any::<String>()), 0..20)) {
        let properties: Properties = pairs.into_iter().collect();
        let read = Properties::parse_str(&properties.store(&["a comment"])).expect("our own text");
        prop_assert_eq!(read, properties);
    }

    #[test]
    fn the_last_value_of_a_key_wins(values in proptest::collection::vec("[a-z]{0,5}", 1..6)) {
        let text: String = values.iter().map(|value| format!("key={value}\n")).collect();
        let read = Properties::parse_str(&text).expect("a file");
        prop_assert_eq!(read.get("key"), values.last().map(String::as_str));
        prop_assert_eq!(read.duplicates().len(), usize::from(values.len() > 1));
    }

    #[test]
    fn any_value_of_any_setting_is_taken_or_refused(place in 0usize..360, text in any::<String>()) {
        let definition = &BrokerConfig::definitions()[place];
        let _ = definition.value(Some(&text));
        let mut file = Properties::parse(b"broker.id=1\nzookeeper.connect=a:1").expect("a file");
        file.set(definition.name, text);
        let _ = BrokerConfig::from_properties(&file);
    }
}

#[test]
fn removing_keeps_the_order_and_the_rest() {
    let mut properties: Properties = [("a", "1"), ("b", "2"), ("c", "3")].into_iter().collect();
    assert_eq!(properties.remove("b").as_deref(), Some("2"));
    properties.set("a", "4");
    properties.set("d", "5");
    let entries: Vec<(&str, &str)> = properties.iter().collect();
    assert_eq!(entries, [("a", "4"), ("c", "3"), ("d", "5")]);
    assert_eq!(properties.get("c"), Some("3"));
}

#[test]
fn a_malformed_escape_is_refused_with_its_line() {
    let error = Properties::parse(b"a=1\n# \\u1\nb=\\u12x4\n").expect_err("a bad escape");
    assert_eq!(error.line, 3);
}
