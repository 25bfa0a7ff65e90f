use super::lines::Lines;
use super::options::configure;
use super::record_reader::{ReadRecord, RecordReader};
use crate::exit::Stop;
use proptest::prelude::*;
use std::ffi::OsString;
use std::io::BufReader;

fn lines(input: &[u8], buffer_bytes: usize) -> Vec<Vec<u8>> {
    let mut lines = Lines::new(BufReader::with_capacity(buffer_bytes, input));
    let mut out = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        out.push(line.to_vec());
    }
    out
}

/// What `readLine` does, written down character by character.
fn java_lines(input: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut line = Vec::new();
    let mut open = false;
    let mut bytes = input.iter().peekable();
    while let Some(&b) = bytes.next() {
        match b {
            b'\n' | b'\r' => {
                if b == b'\r' && bytes.peek() == Some(&&b'\n') {
                    bytes.next();
                }
                out.push(std::mem::take(&mut line));
                open = false;
            }
            b => {
                line.push(b);
                open = true;
            }
        }
    }
    if open {
        out.push(line);
    }
    out
}

proptest! {
    #[test]
    fn any_bytes_become_javas_lines(
        input in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200),
        buffer_bytes in 1_usize..20,
    ) {
        prop_assert_eq!(lines(&input, buffer_bytes), java_lines(&input));
    }

    #[test]
    fn lines_without_returns_survive_byte_for_byte(
        given in proptest::collection::vec(
            proptest::collection::vec(any::<u8>().prop_filter("no ends", |b| !matches!(b, b'\n' | b'\r')), 0..40),
            0..20,
        ),
        buffer_bytes in 1_usize..20,
    ) {
        let input: Vec<u8> = given.iter().flat_map(|l| [l.as_slice(), b"\n"].concat()).collect();
        prop_assert_eq!(lines(&input, buffer_bytes), given);
    }

    #[test]
    fn reading_a_line_never_panics_and_loses_no_byte(
        line in proptest::collection::vec(prop_oneof![Just(b'\t'), Just(b':'), Just(b','), any::<u8>()], 0..60),
        parse_key: bool,
        parse_headers: bool,
        ignore_error: bool,
    ) {
        let reader = reader(&[
            ("parse.key", if parse_key { "true" } else { "false" }),
            ("parse.headers", if parse_headers { "true" } else { "false" }),
            ("ignore.error", if ignore_error { "true" } else { "false" }),
        ]).unwrap();
        if let Ok(record) = reader.read(&line, 1) {
            let value = record.value.unwrap();
            prop_assert!(line.ends_with(value));
            if !parse_key && !parse_headers {
                prop_assert_eq!(value, &line[..]);
            }
        }
    }
}

#[test]
fn returns_and_long_lines() {
    assert_eq!(
        lines(b"a\rb\r\nc\n\rd", 3),
        [&b"a"[..], b"b", b"c", b"", b"d"]
    );
    assert_eq!(lines(b"", 8), Vec::<Vec<u8>>::new());
    assert_eq!(lines(b"\n", 8), [b""]);
    let long = vec![b'x'; 3_000_000];
    assert_eq!(lines(&long, 64 * 1024), [long]);
}

fn reader(settings: &[(&str, &str)]) -> Result<RecordReader, String> {
    let settings: Vec<_> = settings
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    RecordReader::from_properties(&settings, false).map_err(text)
}

fn text(stop: Stop) -> String {
    match stop {
        Stop::Failed(text) | Stop::Usage(text) => text,
        other => format!("{other:?}"),
    }
}

fn header(name: &str, value: Option<&str>) -> (String, Option<Vec<u8>>) {
    (name.into(), value.map(|v| v.as_bytes().to_vec()))
}

#[test]
fn keys_headers_and_null() {
    let read = |settings: &[(&str, &str)], line: &'static str| {
        reader(settings)?.read(line.as_bytes(), 1).map_err(text)
    };
    let record = |key: Option<&'static str>, value: Option<&'static str>, headers| ReadRecord {
        key: key.map(str::as_bytes),
        value: value.map(str::as_bytes),
        headers,
    };
    let keys = [("parse.key", "true"), ("key.separator", ":")];
    assert_eq!(
        read(&keys, "k2:v2:more"),
        Ok(record(Some("k2"), Some("v2:more"), vec![]))
    );
    assert_eq!(read(&keys, ":v"), Ok(record(Some(""), Some("v"), vec![])));
    assert_eq!(read(&keys, "k:"), Ok(record(Some("k"), Some(""), vec![])));
    assert_eq!(
        read(&keys, "noseparator"),
        Err("org.apache.kafka.common.KafkaException: No key separator found on line number 1: 'noseparator'".into())
    );
    let lenient = [keys[0], keys[1], ("ignore.error", "true")];
    assert_eq!(
        read(&lenient, "nosep"),
        Ok(record(None, Some("nosep"), vec![]))
    );
    let null = [keys[0], keys[1], ("null.marker", "NULL")];
    assert_eq!(read(&null, "k:NULL"), Ok(record(Some("k"), None, vec![])));
    assert_eq!(read(&null, "NULL:v"), Ok(record(None, Some("v"), vec![])));

    let heads = [("parse.headers", "true"), ("null.marker", "NULL")];
    assert_eq!(
        read(&heads, "h:a,h:b,i:NULL\tv"),
        Ok(record(
            None,
            Some("v"),
            vec![
                header("h", Some("a")),
                header("h", Some("b")),
                header("i", None)
            ]
        ))
    );
    assert_eq!(read(&heads, "NULL\tv"), Ok(record(None, Some("v"), vec![])));
    assert_eq!(
        read(&heads, "\tv"),
        Err("org.apache.kafka.common.KafkaException: No header key separator found in pair '' on line number 1".into())
    );
    assert_eq!(
        read(
            &[
                ("parse.headers", "true"),
                ("parse.key", "true"),
                ("headers.delimiter", "!"),
                ("headers.separator", ";"),
                ("headers.key.separator", "="),
                ("key.separator", "!")
            ],
            "h1=a;h2=b!k!v"
        ),
        Ok(record(
            Some("k"),
            Some("v"),
            vec![header("h1", Some("a")), header("h2", Some("b"))]
        ))
    );
}

#[test]
fn separators_must_differ() {
    for (settings, message) in [
        (
            &[("parse.headers", "true"), ("headers.delimiter", ":")][..],
            "headers.delimiter and headers.key.separator",
        ),
        (
            &[("parse.headers", "true"), ("headers.separator", ":")],
            "headers.separator and headers.key.separator",
        ),
        (
            &[("parse.headers", "true"), ("headers.delimiter", ",")],
            "headers.delimiter and headers.separator",
        ),
        (
            &[
                ("parse.key", "true"),
                ("null.marker", "x"),
                ("key.separator", "x"),
            ],
            "null.marker and key.separator",
        ),
        (
            &[("parse.headers", "true"), ("null.marker", ",")],
            "null.marker and headers.separator",
        ),
    ] {
        assert_eq!(
            reader(settings).unwrap_err(),
            format!("org.apache.kafka.common.KafkaException: {message} may not be equal")
        );
    }
    assert!(reader(&[("headers.delimiter", ":")]).is_ok());
}

fn arguments(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

#[test]
fn options_become_settings() {
    let c = configure(arguments("--bootstrap-server h:1 --topic t")).unwrap();
    for (name, value) in [
        ("linger.ms", "1000"),
        ("acks", "-1"),
        ("request.timeout.ms", "1500"),
        ("retries", "3"),
        ("batch.size", "16384"),
        ("send.buffer.bytes", "102400"),
        ("max.block.ms", "60000"),
        ("client.id", "console-producer"),
        ("bootstrap.servers", "h:1"),
    ] {
        assert_eq!(c.producer.get(name), Some(value), "{name}");
    }
    assert_eq!(c.producer.get("compression.type"), None);
    let c = configure(arguments("--bootstrap-server h:1 --topic t --compression-codec --sync --timeout 7 --command-property linger.ms=9 --command-property acks=1")).unwrap();
    assert_eq!(c.producer.get("compression.type"), Some("gzip"));
    assert_eq!(c.producer.get("linger.ms"), Some("7"));
    assert_eq!(c.producer.get("acks"), Some("1"));
    assert!(c.sync && !c.old_style);
    let old = configure(arguments(
        "--broker-list h:1 --topic t --property parse.key=true",
    ))
    .unwrap();
    assert!(old.old_style);
}

#[test]
fn refusals() {
    for (line, message) in [
        (
            "--topic t",
            "Error while validating the bootstrap address\n",
        ),
        (
            "--bootstrap-server h:1",
            "Missing required argument \"[topic]\"",
        ),
        (
            "--bootstrap-server nohost --topic t",
            "Please provide valid host:port like host1:9091,host2:9092\n",
        ),
        (
            "--bootstrap-server h:1 --topic t --nonsense",
            "nonsense is not a recognized option",
        ),
        (
            "--bootstrap-server h:1 --topic t --batch-size abc",
            "Cannot parse argument 'abc' of option batch-size",
        ),
        (
            "--bootstrap-server h:1 --topic t --line-reader no.such.Reader",
            "java.lang.ClassNotFoundException: no.such.Reader",
        ),
        (
            "--bootstrap-server h:1 --topic t --command-config /nonexistent/x",
            "java.nio.file.NoSuchFileException: /nonexistent/x",
        ),
    ] {
        assert_eq!(text(configure(arguments(line)).unwrap_err()), message);
    }
    assert!(matches!(
        configure(arguments("--version")),
        Err(Stop::Version)
    ));
}
