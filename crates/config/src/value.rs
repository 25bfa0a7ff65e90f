//! A setting's parsed value, and the text Kafka prints for it.
//! Not here: which type a setting has (`definition`), where its value came from (`source`).
//! Pure data. Kafka: ConfigDef.parseType and ConfigDef.convertToString.

/// A parsed value. `Null` is a setting without a value and without a default.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Boolean(bool),
    Int(i32),
    Short(i16),
    Long(i64),
    Double(f64),
    Text(String),
    List(Vec<String>),
    /// Printed nowhere.
    Password(String),
}

impl Value {
    /// The text of DescribeConfigs; none for null and for passwords.
    pub fn to_text(&self) -> Option<String> {
        Some(match self {
            Value::Null | Value::Password(_) => return None,
            Value::Boolean(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Short(value) => value.to_string(),
            Value::Long(value) => value.to_string(),
            Value::Double(value) => java_double(*value),
            Value::Text(value) => value.clone(),
            Value::List(values) => values.join(","),
        })
    }
}

/// `Double.toString`: plain between 1e-3 and 1e7, otherwise with an exponent, always with a decimal point.
pub fn java_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    format!("{mantissa}{point}E{exponent}")
}

/// `Double.parseDouble` less the hexadecimal forms: blanks around, a sign, `NaN`, `Infinity`, a suffix `f` or `d`.
pub(crate) fn parse_java_double(trimmed: &str) -> Option<f64> {
    let unsigned = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    let negative = trimmed.starts_with('-');
    let magnitude = match unsigned {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => {
            let digits = unsigned
                .strip_suffix(['f', 'F', 'd', 'D'])
                .unwrap_or(unsigned);
            // Rust also takes "inf" and "nan" in any case, Java does not.
            if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                return None;
            }
            digits.parse::<f64>().ok()?
        }
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// `String.trim`: everything up to and including the blank, at both ends.
pub(crate) fn java_trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// `\s*,\s*` with empty pieces kept; an empty text is an empty list.
pub(crate) fn java_list(text: &str) -> Vec<String> {
    let trimmed = java_trim(text);
    if trimmed.is_empty() {
        return Vec::new();
    }
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r');
    let pieces: Vec<&str> = trimmed.split(',').collect();
    let last = pieces.len() - 1;
    pieces
        .iter()
        .enumerate()
        .map(|(place, piece)| {
            // Only blanks that touch a comma go; the outer ends were trimmed above.
            let piece = if place > 0 {
                piece.trim_start_matches(blank)
            } else {
                piece
            };
            if place < last {
                piece.trim_end_matches(blank)
            } else {
                piece
            }
            .to_owned()
        })
        .collect()
}
