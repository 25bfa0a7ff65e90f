//! `--output`: text as Apache's tools print it, a table, or one JSON document.
//! Not here: what a tool's document holds (docs/tool-output.md has the schemas).
//! Pure. Kafka: no counterpart.

use crate::args::{Kind, Spec, option};
use serde_json::Value;

/// How a tool shows its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Table,
    Json,
}

/// The row for a tool's table of options.
pub const OUTPUT: Spec = option(
    &["output"],
    Kind::String,
    "format",
    "How the result is shown: text, table or json.",
);

impl Format {
    /// Reads the argument of `--output`; the error is a whole sentence.
    pub fn parse(text: Option<&str>) -> Result<Format, String> {
        match text {
            None | Some("text") => Ok(Format::Text),
            Some("table") => Ok(Format::Table),
            Some("json") => Ok(Format::Json),
            Some(other) => Err(format!(
                "--output {other} is not known; it is one of text, table, json"
            )),
        }
    }
}

/// A document as it is printed: indented, with a newline at its end.
pub fn document(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn formats_have_names() {
        assert_eq!(Format::parse(None), Ok(Format::Text));
        assert_eq!(Format::parse(Some("json")), Ok(Format::Json));
        assert!(Format::parse(Some("yaml")).unwrap_err().contains("yaml"));
    }

    #[test]
    fn keys_keep_their_order() {
        assert_eq!(
            document(&json!({"b": [1], "a": null})),
            "{\n  \"b\": [\n    1\n  ],\n  \"a\": null\n}\n"
        );
    }
}
