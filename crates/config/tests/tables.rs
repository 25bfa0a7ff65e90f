//! Makes src/generated/*.rs from tables/*.tsv and fails when the committed files differ.
//! Not here: what the rows do (tests/parse.rs). `KAVKA_REGENERATE=1` writes instead of comparing.
//! Run by `cargo test` and by scripts/regenerate. The tables' source is ConfigDef of 4.3.1, see tables/README.md.
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads and writes the repository's files"
)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

fn rows(text: &str) -> Vec<HashMap<&str, &str>> {
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().expect("a header line").split('\t').collect();
    lines
        .map(|line| heads.iter().copied().zip(line.split('\t')).collect())
        .collect()
}

/// `[a, b]` as a Rust slice of strings.
fn names(list: &str) -> String {
    let inner = list.trim_start_matches('[').trim_end_matches(']');
    let quoted: Vec<String> = inner
        .split(", ")
        .filter(|name| !name.is_empty())
        .map(|name| format!("{name:?}"))
        .collect();
    format!("&[{}]", quoted.join(", "))
}

fn validator(set: &str, row: &HashMap<&str, &str>, lists: &[HashMap<&str, &str>]) -> String {
    let (name, kind, valid) = (row["name"], row["type"], row["valid"]);
    if let Some(rule) = lists
        .iter()
        .find(|rule| rule["set"] == set && rule["name"] == name)
    {
        return format!(
            "V::List {{ one_of: {}, empty_allowed: {}, null_allowed: {} }}",
            names(valid),
            rule["empty_allowed"],
            rule["null_allowed"]
        );
    }
    match (name, valid) {
        ("controller.quorum.voters", _) => return "V::QuorumVoters".to_owned(),
        ("controller.quorum.bootstrap.servers", _) => return "V::BootstrapServers".to_owned(),
        ("share.auto.offset.reset", _) => return "V::ShareOffsetReset".to_owned(),
        (_, "") => return "V::Any".to_owned(),
        (_, "[1,...,9] or -1") => return "V::GzipLevel".to_owned(),
        (_, "non-empty string") => return "V::NonEmptyText".to_owned(),
        (_, "non-null string") => return "V::NonNullText".to_owned(),
        _ => {}
    }
    if valid.starts_with("[partitionId]") {
        return "V::ThrottledReplicas".to_owned();
    }
    if let Some(list) = valid.strip_prefix("(case insensitive) ") {
        return format!("V::OneOfIgnoringCase({})", names(list));
    }
    let inner = valid.trim_start_matches('[').trim_end_matches(']');
    match inner.split(",").collect::<Vec<_>>().as_slice() {
        [min, "...", max] if kind == "DOUBLE" => format!(
            "V::DoubleBetween {{ min: {:?}, max: {:?}, max_text: {max:?} }}",
            min.parse::<f64>().expect("a number"),
            max.parse::<f64>().expect("a number")
        ),
        [min, "..."] => format!("V::AtLeast({min})"),
        [min, "...", max] => format!("V::Between({min}, {max})"),
        _ => {
            assert_eq!(kind, "STRING", "{name}: no rule is known for {valid}");
            format!("V::OneOf({})", names(valid))
        }
    }
}

fn broker_settings(cell: &str) -> String {
    let settings: Vec<String> = cell
        .split(',')
        .filter(|setting| !setting.is_empty())
        .map(|setting| {
            let (name, factor) = match setting.split_once(" (x") {
                Some((name, factor)) => (name, factor.trim_end_matches(')')),
                None => (setting, "1"),
            };
            format!("B {{ name: {name:?}, factor: {factor} }}")
        })
        .collect();
    format!("&[{}]", settings.join(", "))
}

fn generate(set: &str, what: &str, table: &str, lists: &[HashMap<&str, &str>]) -> String {
    let mut rows = rows(table);
    rows.sort_by_key(|row| row["name"]);
    let mut out = format!(
        "//! The {what} settings of Apache Kafka 4.3.1, sorted by name.\n\
         //! Generated from tables/{set}-configs.tsv by tests/tables.rs (scripts/regenerate); do not edit.\n\
         //! Pure data.\n\n\
         use crate::definition::BrokerSetting as B;\n\
         use crate::definition::{{Default as D, Definition, Importance as I, Kind as K, UpdateMode as U, Validator as V}};\n\n\
         #[rustfmt::skip]\n\
         #[allow(clippy::too_many_arguments, reason = \"one argument for each column\")]\n\
         const fn row(\n    name: &'static str, kind: K, default: D, validator: V, importance: I, update_mode: U, internal: bool,\n    \
         broker_settings: &'static [B],\n) -> Definition {{\n    \
         Definition {{ name, kind, default, validator, importance, update_mode, internal, broker_settings }}\n}}\n\n\
         #[rustfmt::skip]\n\
         pub static DEFINITIONS: &[Definition] = &[\n"
    );
    for row in &rows {
        let kind = match row["type"] {
            "BOOLEAN" => "Boolean",
            "INT" => "Int",
            "SHORT" => "Short",
            "LONG" => "Long",
            "DOUBLE" => "Double",
            "STRING" => "String",
            "LIST" => "List",
            "CLASS" => "Class",
            "PASSWORD" => "Password",
            other => panic!("unknown type {other}"),
        };
        let default = match row["default"] {
            "(required)" => "D::Required".to_owned(),
            "null" => "D::Null".to_owned(),
            text => format!("D::Text({text:?})"),
        };
        let importance = match row["importance"] {
            "HIGH" => "High",
            "MEDIUM" => "Medium",
            "LOW" => "Low",
            other => panic!("unknown importance {other}"),
        };
        let mode = match row.get("dynamic").copied() {
            Some("read-only") => "ReadOnly",
            Some("per-broker") => "PerBroker",
            Some("cluster-wide") | None => "ClusterWide",
            Some(other) => panic!("unknown update mode {other}"),
        };
        let internal = row.get("internal").copied() == Some("yes");
        writeln!(
            out,
            "    row({:?}, K::{kind}, {default}, {}, I::{importance}, U::{mode}, {internal}, {}),",
            row["name"],
            validator(set, row, lists),
            broker_settings(row.get("broker_settings").copied().unwrap_or("")),
        )
        .expect("text");
    }
    out.push_str("];\n");
    out
}

#[test]
fn generated_tables_follow_the_tsv() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lists =
        std::fs::read_to_string(root.join("tables/list-rules.tsv")).expect("list-rules.tsv");
    let lists = rows(&lists);
    for (set, what) in [
        ("broker", "broker"),
        ("topic", "topic"),
        ("group", "group"),
        ("client-metrics", "client metrics"),
    ] {
        let table = std::fs::read_to_string(root.join(format!("tables/{set}-configs.tsv")))
            .expect("a table");
        let made = generate(set, what, &table, &lists);
        let place = root.join(format!("src/generated/{}.rs", set.replace('-', "_")));
        if std::env::var_os("KAVKA_REGENERATE").is_some() {
            std::fs::write(&place, &made).expect("write the generated file");
        }
        let committed = std::fs::read_to_string(&place).unwrap_or_default();
        assert!(
            committed == made,
            "{} is not what its table gives; run scripts/regenerate",
            place.display()
        );
    }
}
