//! Spelling of names: schema → Rust and JSON.
//! Not here: which names there are.
//! Pure. Kafka: org.apache.kafka.message.MessageGenerator (name conversions).

/// `FetchRequest` → `fetch_request`, `V3AndBelowTopics` → `v3_and_below_topics`, `KRaftVersion` → `kraft_version`.
pub(crate) fn snake(name: &str) -> String {
    let name = name.replace("KRaft", "Kraft");
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::with_capacity(name.len() + 8);
    for (i, c) in chars.iter().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            let after_lower = !chars[i - 1].is_ascii_uppercase();
            let before_lower = chars.get(i + 1).is_some_and(char::is_ascii_lowercase);
            if after_lower || before_lower {
                out.push('_');
            }
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A field's identifier.
pub(crate) fn field(name: &str) -> String {
    let snake = snake(name);
    match snake.as_str() {
        "type" | "match" | "ref" | "move" | "use" | "loop" | "in" => format!("r#{snake}"),
        _ => snake,
    }
}

/// The key in JSON: the first letter is small.
pub(crate) fn json(name: &str) -> String {
    let mut chars = name.chars();
    match chars.next() {
        Some(first) => first.to_ascii_lowercase().to_string() + chars.as_str(),
        None => String::new(),
    }
}

/// `UNKNOWN_TOPIC_OR_PARTITION` → `UnknownTopicOrPartition`.
pub(crate) fn camel_of_constant(name: &str) -> String {
    let word = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_string() + &rest.to_ascii_lowercase(),
        None => String::new(),
    };
    name.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelt_as_documented() {
        for (from, to) in [
            ("FetchRequest", "fetch_request"),
            ("V3AndBelowTopics", "v3_and_below_topics"),
            ("KRaftVersionRecord", "kraft_version_record"),
            ("Enable2Pc", "enable2_pc"),
            ("TopicId", "topic_id"),
        ] {
            assert_eq!(snake(from), to);
        }
        assert_eq!(field("Type"), "r#type");
        assert_eq!(json("KRaftVersion"), "kRaftVersion");
        assert_eq!(
            camel_of_constant("NOT_LEADER_OR_FOLLOWER"),
            "NotLeaderOrFollower"
        );
    }
}
