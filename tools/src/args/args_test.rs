use super::*;

const SPECS: &[Spec] = &[
    option(&["topic"], Kind::String, "topic", "The topic."),
    option(
        &["partitions"],
        Kind::Integer,
        "# of partitions",
        "How many.",
    ),
    option(&["config"], Kind::String, "name=value", "A setting."),
    option(
        &["compression-codec"],
        Kind::String,
        "codec",
        "Compression.",
    )
    .optional_argument(),
    option(&["ids"], Kind::String, "id,id", "Some ids.").separated_by(','),
    option(&["timeout"], Kind::Long, "ms", "Patience.").default("1000"),
    flag(&["sync"], "One at a time."),
    flag(&["help"], "This text."),
];
const OPTIONS: Options = Options::new(SPECS);

fn parse(line: &str) -> Result<Parsed, ArgumentError> {
    OPTIONS.parse(
        line.split(' ')
            .filter(|s| !s.is_empty())
            .map(OsString::from),
    )
}

fn value(line: &str, name: &str) -> Option<String> {
    parse(line).unwrap().value(name).unwrap().map(str::to_owned)
}

#[test]
fn one_dash_two_dashes_equals_sign_or_blank() {
    for line in ["--topic t", "-topic t", "--topic=t", "-topic=t"] {
        assert_eq!(value(line, "topic").as_deref(), Some("t"), "{line}");
    }
    assert_eq!(value("--topic=a=b", "topic").as_deref(), Some("a=b"));
    assert_eq!(value("--topic= x", "topic").as_deref(), Some(""));
}

#[test]
fn a_required_argument_takes_whatever_comes_next() {
    assert_eq!(value("--topic --sync", "topic").as_deref(), Some("--sync"));
    assert_eq!(value("--topic -- x", "topic").as_deref(), Some("--"));
    assert_eq!(
        parse("--partitions -1").unwrap().int("partitions"),
        Ok(Some(-1))
    );
    assert!(!parse("--topic --sync").unwrap().has("sync"));
}

#[test]
fn an_optional_argument_leaves_options_alone() {
    let parsed = parse("--compression-codec --sync").unwrap();
    assert!(parsed.has("compression-codec") && parsed.has("sync"));
    assert!(!parsed.has_argument("compression-codec"));
    assert_eq!(
        value("--compression-codec lz4 --sync", "compression-codec").as_deref(),
        Some("lz4")
    );
    assert_eq!(
        value("--compression-codec=lz4", "compression-codec").as_deref(),
        Some("lz4")
    );
}

#[test]
fn refusals_have_jopts_words() {
    let message = |line: &str| parse(line).unwrap_err().to_string();
    assert_eq!(message("--nonsense"), "nonsense is not a recognized option");
    assert_eq!(message("--top t"), "top is not a recognized option");
    assert_eq!(message("-x"), "x is not a recognized option");
    assert_eq!(message("-tpoic=1"), "t is not a recognized option");
    assert_eq!(message("---sync"), "-sync is not a recognized option");
    assert_eq!(message("--topic"), "Option topic requires an argument");
    assert_eq!(message("-topic"), "Option topic requires an argument");
    let parsed = parse("--topic a --topic b").unwrap();
    assert_eq!(
        parsed.value("topic").unwrap_err().to_string(),
        "Found multiple arguments for option topic, but you asked for only one"
    );
    assert_eq!(
        parse("--partitions abc")
            .unwrap()
            .int("partitions")
            .unwrap_err()
            .to_string(),
        "Cannot parse argument 'abc' of option partitions"
    );
}

#[test]
fn flags_swallow_values_and_positionals_are_kept() {
    assert!(parse("--sync=whatever").unwrap().has("sync"));
    let parsed = parse("one - --sync two -- --topic").unwrap();
    assert_eq!(parsed.positional(), ["one", "-", "two", "--topic"]);
    assert!(!parsed.has("topic"));
}

#[test]
fn repeats_separators_defaults() {
    let parsed = parse("--config a=1 --config b=2=3 --ids 1,2 --ids 3").unwrap();
    assert_eq!(
        parsed.properties("config"),
        [
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "2=3".to_owned())
        ]
    );
    assert_eq!(parsed.values("ids"), ["1", "2", "3"]);
    assert_eq!(parsed.long("timeout"), Ok(Some(1000)));
    assert!(!parsed.has("timeout"));
    assert_eq!(
        parse("--config a").unwrap().properties("config"),
        [("a".to_owned(), String::new())]
    );
    assert_eq!(
        parse("--config a=").unwrap().full_properties("config"),
        Err("Missing value for key a".into())
    );
}

#[test]
fn required_and_forbidden_combinations() {
    let parsed = parse("--sync").unwrap();
    assert_eq!(
        parsed.require(&["topic"]),
        Err("Missing required argument \"[topic]\"".into())
    );
    let parsed = parse("--sync --topic t").unwrap();
    assert_eq!(
        parsed.forbid("topic", &["sync"]),
        Err("Option \"[topic]\" can't be used with option \"[sync]\"".into())
    );
}

#[test]
fn the_table_is_laid_out_as_jopt_does() {
    const SPECS: &[Spec] = &[
        flag(&["sync"], "Short."),
        option(
            &["metadata-expiry-ms"],
            Kind::Long,
            "metadata expiration interval",
            "How long what is known of the cluster is trusted: `metadata.max.age.ms`.",
        )
        .default("300000"),
        option(
            &["compression-codec"],
            Kind::String,
            "compression-codec",
            "x",
        )
        .optional_argument(),
    ];
    let expected = "\
Option                                   Description                            
------                                   -----------                            
--compression-codec [String:             x                                      
  compression-codec]                                                            
--metadata-expiry-ms <Long: metadata     How long what is known of the cluster  
  expiration interval>                     is trusted: `metadata.max.age.ms`.   
                                           (default: 300000)                    
--sync                                   Short.                                 
";
    assert_eq!(Options::new(SPECS).table(), expected);
}
