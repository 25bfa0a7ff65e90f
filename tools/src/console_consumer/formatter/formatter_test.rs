use super::*;
use bytes::Bytes;
use kavka_protocol::messages::{GroupRecordKey, GroupRecordValue};
use serde_json::json;

#[derive(Clone)]
struct Sample {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(&'static str, Option<&'static str>)>,
    timestamp: Stamp,
}

impl Record for Sample {
    fn topic(&self) -> &str {
        "t"
    }

    fn partition(&self) -> i32 {
        3
    }

    fn offset(&self) -> i64 {
        42
    }

    fn timestamp(&self) -> Stamp {
        self.timestamp
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    fn headers(&self, each: EachHeader<'_>) {
        for (name, value) in &self.headers {
            each(name.as_bytes(), value.map(str::as_bytes));
        }
    }
}

fn sample() -> Sample {
    Sample {
        key: Some(b"k".to_vec()),
        value: Some(b"v\xff".to_vec()),
        headers: vec![("h", Some("1")), ("h", None)],
        timestamp: Stamp::CreateTime(1_796_103_571_423),
    }
}

fn formatter(class: &str, settings: &[(&str, &str)]) -> Option<Formatter> {
    let settings: Vec<_> = settings
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    Formatter::of_class(class, &settings, &mut |_| {})
}

const DEFAULT: &str = "org.apache.kafka.tools.consumer.DefaultMessageFormatter";

fn print(settings: &[(&str, &str)], record: &Sample) -> Vec<u8> {
    let mut out = Vec::new();
    formatter(DEFAULT, settings)
        .unwrap()
        .write(record, &mut out)
        .unwrap();
    out
}

#[test]
fn the_default_formatter_prints_bytes_as_they_are() {
    assert_eq!(print(&[], &sample()), b"v\xff\n");
    assert_eq!(
        print(&[("print.key", "true"), ("print.headers", "true"), ("print.timestamp", "true"), ("print.partition", "true"), ("print.offset", "true"), ("print.delivery", "true"), ("print.epoch", "true")], &sample()),
        b"CreateTime:1796103571423\tPartition:3\tOffset:42\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\th:1,h:null\tk\tv\xff\n"
    );
    assert_eq!(
        print(
            &[("print.key", "true"), ("print.value", "false")],
            &sample()
        ),
        b"k\n"
    );
    assert_eq!(print(&[("print.value", "false")], &sample()), b"");
    assert_eq!(print(&[("line.separator", ";")], &sample()), b"v\xff;");
    let empty = Sample {
        key: None,
        value: None,
        headers: vec![],
        timestamp: Stamp::None,
    };
    assert_eq!(
        print(
            &[
                ("print.key", "true"),
                ("print.headers", "true"),
                ("print.timestamp", "true"),
                ("null.literal", "NIL"),
                ("key.separator", "|")
            ],
            &empty
        ),
        b"NO_TIMESTAMP|NO_HEADERS|NIL|NIL\n"
    );
    let appended = Sample {
        timestamp: Stamp::LogAppendTime(7),
        ..empty
    };
    assert_eq!(
        print(
            &[("print.timestamp", "true"), ("print.value", "false")],
            &appended
        ),
        b"LogAppendTime:7\n"
    );
}

#[test]
fn deserializers() {
    let show = |class: &str, bytes: &[u8]| {
        let record = Sample {
            value: Some(bytes.to_vec()),
            ..sample()
        };
        let class = format!("org.apache.kafka.common.serialization.{class}");
        let mut out = Vec::new();
        formatter(
            DEFAULT,
            &[("value.deserializer", &class), ("line.separator", "")],
        )
        .unwrap()
        .write(&record, &mut out)
        .map(|()| String::from_utf8(out).unwrap())
        .map_err(|e| e.to_string())
    };
    for (class, bytes, text) in [
        ("StringDeserializer", &b"abc"[..], "abc"),
        ("ByteArrayDeserializer", b"abc", "abc"),
        ("IntegerDeserializer", &(-5_i32).to_be_bytes(), "-5"),
        (
            "LongDeserializer",
            &i64::MAX.to_be_bytes(),
            "9223372036854775807",
        ),
        ("ShortDeserializer", &300_i16.to_be_bytes(), "300"),
        ("DoubleDeserializer", &1.0_f64.to_be_bytes(), "1.0"),
        ("DoubleDeserializer", &0.1_f64.to_be_bytes(), "0.1"),
        ("DoubleDeserializer", &1e-3_f64.to_be_bytes(), "0.001"),
        ("DoubleDeserializer", &1.25e-4_f64.to_be_bytes(), "1.25E-4"),
        ("DoubleDeserializer", &1e7_f64.to_be_bytes(), "1.0E7"),
        (
            "DoubleDeserializer",
            &1_234_567.5_f64.to_be_bytes(),
            "1234567.5",
        ),
        ("DoubleDeserializer", &(-0.0_f64).to_be_bytes(), "-0.0"),
        (
            "DoubleDeserializer",
            &f64::NEG_INFINITY.to_be_bytes(),
            "-Infinity",
        ),
        ("DoubleDeserializer", &f64::NAN.to_be_bytes(), "NaN"),
        ("FloatDeserializer", &3.4e10_f32.to_be_bytes(), "3.4E10"),
        ("FloatDeserializer", &100.0_f32.to_be_bytes(), "100.0"),
        ("BooleanDeserializer", &[1], "true"),
        (
            "UUIDDeserializer",
            b"67E55044-10b1-426f-9247-bb680e5fe0c8",
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
        ),
        (
            "UUIDDeserializer",
            b"1-2-3-4-5",
            "00000001-0002-0003-0004-000000000005",
        ),
        ("BytesDeserializer", b"a\\\x00\xff~", "a\\x5C\\x00\\xFF~"),
    ] {
        assert_eq!(show(class, bytes).as_deref(), Ok(text), "{class}");
    }
    let serialization = "org.apache.kafka.common.errors.SerializationException: ";
    assert_eq!(
        show("LongDeserializer", b"abc"),
        Err(format!(
            "{serialization}Size of data received by LongDeserializer is not 8"
        ))
    );
    assert_eq!(
        show("DoubleDeserializer", b"abc"),
        Err(format!(
            "{serialization}Size of data received by Deserializer is not 8"
        ))
    );
    assert_eq!(
        show("BooleanDeserializer", b"v"),
        Err(format!(
            "{serialization}Unexpected byte received by BooleanDeserializer: 118"
        ))
    );
    assert!(
        show("UUIDDeserializer", b"v")
            .unwrap_err()
            .contains("Invalid UUID string: v")
    );
}

#[test]
fn classes_of_every_age() {
    for class in [
        DEFAULT,
        "org.apache.kafka.tools.consumer.LoggingMessageFormatter",
        "org.apache.kafka.tools.consumer.NoOpMessageFormatter",
        "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
        "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
        "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter",
        "kafka.tools.DefaultMessageFormatter",
        "kafka.tools.NoOpMessageFormatter",
        "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter",
    ] {
        assert!(formatter(class, &[]).is_some(), "{class}");
    }
    for class in [
        "no.such.Formatter",
        "kafka.tools.OffsetsMessageFormatter",
        "DefaultMessageFormatter",
    ] {
        assert!(formatter(class, &[]).is_none(), "{class}");
    }
}

#[test]
fn committed_offsets_as_json() {
    let key = GroupRecordKey::from_json(1, &json!({"group": "g", "topic": "t", "partition": 0}), 0)
        .unwrap();
    let value = GroupRecordValue::from_json(
        1,
        &json!({"offset": 4, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 1_796_103_715_159_i64, "topicId": "Ffk3YwhuRAmw37F6cNu6Fg"}),
        4,
    )
    .unwrap();
    let record = Sample {
        key: Some(key.encode().unwrap().to_vec()),
        value: Some(value.encode(4).unwrap().to_vec()),
        ..sample()
    };
    let show = |class: &str, record: &Sample| {
        let mut out = Vec::new();
        formatter(class, &[])
            .unwrap()
            .write(record, &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    };
    let offsets = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter";
    assert_eq!(
        show(offsets, &record),
        r#"{"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":4,"data":{"offset":4,"leaderEpoch":0,"metadata":"","commitTimestamp":1796103715159,"topicId":"Ffk3YwhuRAmw37F6cNu6Fg"}}}"#
    );
    assert_eq!(
        show(
            "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
            &record
        ),
        ""
    );
    assert_eq!(
        show(
            "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter",
            &record
        ),
        "[g,t,0]::OffsetAndMetadata(offset=4, leaderEpoch=Optional[0], metadata=, commitTimestamp=1796103715159, expireTimestamp=None)\n"
    );
    let tombstone = Sample {
        value: None,
        ..record.clone()
    };
    assert!(show(offsets, &tombstone).ends_with(r#""value":null}"#));
    // Anything may lie in a topic: no panic, an error that says where.
    let broken = Sample {
        value: Some(Bytes::from_static(b"\0\x04x").to_vec()),
        ..record
    };
    let mut out = Vec::new();
    let error = formatter(offsets, &[])
        .unwrap()
        .write(&broken, &mut out)
        .unwrap_err();
    assert!(error.message.contains("t-3 at offset 42"), "{error}");
}

#[test]
fn format_strings() {
    let show = |text: &str| {
        let mut out = Vec::new();
        Formatter::of_template(text).map(|f| {
            f.write(&sample(), &mut out).unwrap();
            out
        })
    };
    assert_eq!(
        show("%t %p %o %k %v %h %T %K %S%%\\n\\x41\\t").unwrap(),
        b"t 3 42 k v\xff h=1,h=NULL 1796103571423 1 2%\nA\t"
    );
    assert!(show("%q").unwrap_err().contains("%q"));
    assert!(show("%").is_err());
    assert!(show("\\xzz").is_err());
}
