//! Kafka's deserializers, as far as their results are printed: bytes in, the text of Java's `toString` out.
//! Not here: which field is printed. Pure.
//! Kafka: org.apache.kafka.common.serialization.

use super::{FormatError, push_number};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deserializer {
    /// Bytes as they are, also for strings: text that is not UTF-8 survives.
    Raw,
    Integer,
    Long,
    Short,
    Float,
    Double,
    Boolean,
    Uuid,
    Bytes,
    Void,
}

const SERIALIZATION: &str = "org.apache.kafka.common.errors.SerializationException";

fn serialization(message: impl Into<String>) -> FormatError {
    FormatError {
        class: SERIALIZATION,
        message: message.into(),
    }
}

impl Deserializer {
    /// By class name, with or without Kafka's package.
    pub(super) fn of_class(class: &str) -> Option<Deserializer> {
        let name = class
            .strip_prefix("org.apache.kafka.common.serialization.")
            .unwrap_or(class);
        Some(match name {
            "StringDeserializer" | "ByteArrayDeserializer" | "ByteBufferDeserializer" => {
                Deserializer::Raw
            }
            "IntegerDeserializer" => Deserializer::Integer,
            "LongDeserializer" => Deserializer::Long,
            "ShortDeserializer" => Deserializer::Short,
            "FloatDeserializer" => Deserializer::Float,
            "DoubleDeserializer" => Deserializer::Double,
            "BooleanDeserializer" => Deserializer::Boolean,
            "UUIDDeserializer" => Deserializer::Uuid,
            "BytesDeserializer" => Deserializer::Bytes,
            "VoidDeserializer" => Deserializer::Void,
            _ => return None,
        })
    }

    pub(super) fn write(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
        match self {
            Deserializer::Raw => out.extend_from_slice(bytes),
            Deserializer::Integer => {
                let bytes = sized::<4>(bytes, "IntegerDeserializer")?;
                push_number(out, i64::from(i32::from_be_bytes(bytes)));
            }
            Deserializer::Long => {
                push_number(out, i64::from_be_bytes(sized(bytes, "LongDeserializer")?));
            }
            Deserializer::Short => {
                let bytes = sized::<2>(bytes, "ShortDeserializer")?;
                push_number(out, i64::from(i16::from_be_bytes(bytes)));
            }
            Deserializer::Float => {
                let number = f32::from_be_bytes(sized(bytes, "Deserializer")?);
                out.extend_from_slice(
                    java_float(&format!("{number:e}"), number.is_finite()).as_bytes(),
                );
            }
            Deserializer::Double => {
                let number = f64::from_be_bytes(sized(bytes, "Deserializer")?);
                out.extend_from_slice(
                    java_float(&format!("{number:e}"), number.is_finite()).as_bytes(),
                );
            }
            Deserializer::Boolean => match sized::<1>(bytes, "BooleanDeserializer")? {
                [0] => out.extend_from_slice(b"false"),
                [1] => out.extend_from_slice(b"true"),
                [other] => {
                    return Err(serialization(format!(
                        "Unexpected byte received by BooleanDeserializer: {}",
                        i8::from_be_bytes([other])
                    )));
                }
            },
            Deserializer::Uuid => {
                let text = String::from_utf8_lossy(bytes);
                let uuid = java_uuid(&text).ok_or_else(|| {
                    serialization(format!(
                        "Error parsing data into UUID\nCaused by: java.lang.IllegalArgumentException: Invalid UUID string: {text}"
                    ))
                })?;
                out.extend_from_slice(uuid.as_bytes());
            }
            Deserializer::Bytes => {
                for &b in bytes {
                    if (b' '..=b'~').contains(&b) && b != b'\\' {
                        out.push(b);
                    } else {
                        out.extend_from_slice(format!("\\x{b:02X}").as_bytes());
                    }
                }
            }
            Deserializer::Void => {
                return Err(FormatError {
                    class: "java.lang.IllegalArgumentException",
                    message: "Data should be null for a VoidDeserializer.".into(),
                });
            }
        }
        Ok(())
    }
}

fn sized<const N: usize>(bytes: &[u8], name: &str) -> Result<[u8; N], FormatError> {
    bytes
        .try_into()
        .map_err(|_| serialization(format!("Size of data received by {name} is not {N}")))
}

/// `Double.toString` for a number given as `d.ddde±n`: plain between 10^-3 and 10^7, else with an exponent.
fn java_float(scientific: &str, finite: bool) -> String {
    if !finite {
        return match scientific {
            "inf" => "Infinity".into(),
            "-inf" => "-Infinity".into(),
            _ => "NaN".into(),
        };
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let or_zero = |text: &str| {
        if text.is_empty() {
            "0".to_owned()
        } else {
            text.to_owned()
        }
    };
    if digits.bytes().all(|d| d == b'0') {
        return format!("{sign}0.0");
    }
    if !(-3..7).contains(&exponent) {
        return format!("{sign}{whole}.{}E{exponent}", or_zero(fraction));
    }
    match usize::try_from(exponent) {
        Err(_) => {
            let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
            format!("{sign}0.{}{digits}", "0".repeat(zeros))
        }
        Ok(places) if digits.len() <= places + 1 => {
            format!("{sign}{digits}{}.0", "0".repeat(places + 1 - digits.len()))
        }
        Ok(places) => {
            let (whole, fraction) = digits.split_at(places + 1);
            format!("{sign}{whole}.{fraction}")
        }
    }
}

/// `UUID.fromString` and back: groups may be short.
fn java_uuid(text: &str) -> Option<String> {
    let groups: Vec<&str> = text.split('-').collect();
    let widths = [8, 4, 4, 4, 12];
    if groups.len() != widths.len() {
        return None;
    }
    let mut out = Vec::new();
    for (group, width) in groups.iter().zip(widths) {
        if group.is_empty() || group.len() > width || !group.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return None;
        }
        out.push(format!("{:0>width$}", group.to_ascii_lowercase()));
    }
    Some(out.join("-"))
}
