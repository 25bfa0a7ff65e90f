//! JSON files named on a command line: read, parsed and picked apart with the complaints of Java's tools.
//! Not here: JSON that tools print (json).
//! Runs before anything is sent. Kafka: org.apache.kafka.server.util.{Json, json.JsonObject}, Utils.readFileAsString.

use crate::java::{Exception, Failure};
use serde_json::Value;
use std::io;

const MAPPING: &str = "com.fasterxml.jackson.databind.JsonMappingException";

/// The text of a file.
pub fn read(path: &str) -> Result<String, Failure> {
    #[allow(clippy::disallowed_methods)]
    // a file of the person who called the tool, not one of the broker's
    let bytes = std::fs::read(path).map_err(|error| {
        let cause = match error.kind() {
            io::ErrorKind::NotFound => Exception::new("java.nio.file.NoSuchFileException", path),
            io::ErrorKind::PermissionDenied => {
                Exception::new("java.nio.file.AccessDeniedException", path)
            }
            _ => Exception::new("java.io.IOException", error.to_string()),
        };
        Failure {
            chain: vec![
                Exception::new("java.io.IOException", format!("Unable to read file {path}")),
                cause,
            ],
        }
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Why a text is no JSON: what our parser says, where Java's tools say what theirs does.
pub fn fault(text: &str) -> Option<String> {
    serde_json::from_str::<Value>(text)
        .err()
        .map(|error| error.to_string())
}

/// The document, `None` when the text is not JSON. As with Java's parser, what follows the document does not count.
pub fn parse(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .next()
        .and_then(Result::ok)
}

fn mapping(text: String) -> Failure {
    Exception::new(MAPPING, text).into()
}

/// A field that must be there.
pub fn field<'a>(object: &'a Value, name: &str) -> Result<&'a Value, Failure> {
    optional(object, name)?.ok_or_else(|| mapping(format!("No such field exists: `{name}`")))
}

/// A field that may be left out.
pub fn optional<'a>(object: &'a Value, name: &str) -> Result<Option<&'a Value>, Failure> {
    match object {
        Value::Object(fields) => Ok(fields.get(name)),
        other => Err(mapping(format!("Expected JSON object, received {other}"))),
    }
}

pub fn items(value: &Value) -> Result<&[Value], Failure> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(mapping(format!("Expected JSON array, received {other}"))),
    }
}

pub fn string(value: &Value) -> Result<&str, Failure> {
    value
        .as_str()
        .ok_or_else(|| mapping(format!("Expected `String` value, received {value}")))
}

pub fn int(value: &Value) -> Result<i32, Failure> {
    value
        .as_i64()
        .and_then(|number| i32::try_from(number).ok())
        .ok_or_else(|| mapping(format!("Expected `Int` value, received {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn complaints_are_javas() {
        let value = json!({"partition": "x", "topics": 3});
        let message = |failure: Failure| failure.message().to_owned();
        assert_eq!(
            message(field(&value, "topic").unwrap_err()),
            "No such field exists: `topic`"
        );
        assert_eq!(
            message(int(&value["partition"]).unwrap_err()),
            "Expected `Int` value, received \"x\""
        );
        assert!(items(&value["topics"]).is_err() && field(&json!([]), "x").is_err());
        assert_eq!(
            read("/nonexistent/file").unwrap_err().trace(),
            "java.io.IOException: Unable to read file /nonexistent/file\nCaused by: java.nio.file.NoSuchFileException: /nonexistent/file"
        );
    }

    #[test]
    fn what_is_no_json_is_none() {
        assert_eq!(parse("not json"), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("{\"a\": 1}\n"), Some(json!({"a": 1})));
    }
}
