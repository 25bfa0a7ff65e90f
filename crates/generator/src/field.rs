//! What the code of one field needs: its Rust type, default, version conditions, least size.
//! Not here: the layout of the generated code (`message`).
//! Pure. Kafka: org.apache.kafka.message.{FieldSpec, FieldType, VersionConditional}.

use crate::names;
use crate::schema::{Field, Kind, Range, Schema, Struct};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

pub(crate) fn show((from, to): Range, max: i16) -> String {
    if from == to {
        format!("{from}")
    } else if to == max {
        format!("{from}+")
    } else {
        format!("{from}-{to}")
    }
}

/// The condition that `v`, which lies in `within`, lies in `range`; `None` if always.
pub(crate) fn condition(range: Range, within: Range) -> Option<String> {
    match (range.0 > within.0, range.1 < within.1) {
        (false, false) => None,
        _ if range.0 == range.1 => Some(format!("v == {}", range.0)),
        (true, false) => Some(format!("v >= {}", range.0)),
        (false, true) => Some(format!("v <= {}", range.1)),
        (true, true) => Some(format!("({}..={}).contains(&v)", range.0, range.1)),
    }
}

fn element_type(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "bool".into(),
        Kind::Int8 => "i8".into(),
        Kind::Int16 => "i16".into(),
        Kind::Uint16 => "u16".into(),
        Kind::Int32 => "i32".into(),
        Kind::Uint32 => "u32".into(),
        Kind::Int64 => "i64".into(),
        Kind::Float64 => "f64".into(),
        Kind::Uuid => "Uuid".into(),
        Kind::String => "StrBytes".into(),
        Kind::Bytes => "Bytes".into(),
        Kind::Records => "Records".into(),
        Kind::Struct(name) => name.clone(),
        Kind::Array(element) => format!("Vec<{}>", element_type(element)),
    }
}

pub(crate) fn rust_type(field: &Field) -> String {
    match field.nullable {
        Some(_) => format!("Option<{}>", element_type(&field.kind)),
        None => element_type(&field.kind),
    }
}

fn number(kind: &Kind, value: &Value) -> Result<String> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        other => bail!("default {other}"),
    };
    Ok(match (kind, text.as_str()) {
        (Kind::Int32, "-2147483648") => "i32::MIN".into(),
        (Kind::Int32, "2147483647") => "i32::MAX".into(),
        (Kind::Int64, "-9223372036854775808") => "i64::MIN".into(),
        (Kind::Int64, "9223372036854775807") => "i64::MAX".into(),
        (Kind::Float64, text) if !text.contains('.') => format!("{text}.0"),
        (_, text) => text.to_owned(),
    })
}

/// The default without `Some`, and whether it is the type's own.
fn bare_default(field: &Field) -> Result<(String, bool)> {
    Ok(match (&field.kind, &field.default) {
        (Kind::Bool, None) => ("false".into(), true),
        (Kind::Bool, Some(Value::Bool(value))) => (value.to_string(), !value),
        (
            Kind::Int8 | Kind::Int16 | Kind::Uint16 | Kind::Int32 | Kind::Uint32 | Kind::Int64,
            None,
        ) => ("0".into(), true),
        (Kind::Float64, None) => ("0.0".into(), true),
        (
            kind @ (Kind::Int8
            | Kind::Int16
            | Kind::Uint16
            | Kind::Int32
            | Kind::Uint32
            | Kind::Int64
            | Kind::Float64),
            Some(value),
        ) => (number(kind, value)?, false),
        (Kind::Uuid, None) => ("Uuid::ZERO".into(), true),
        (Kind::String, None) => ("StrBytes::new()".into(), true),
        (Kind::String, Some(Value::String(text))) => {
            (format!("StrBytes::from_static({text:?})"), text.is_empty())
        }
        (Kind::Bytes, None) => ("Bytes::new()".into(), true),
        (Kind::Records, None) => ("Records::default()".into(), true),
        (Kind::Array(_), None) => ("Vec::new()".into(), true),
        (Kind::Struct(name), None) => (format!("{name}::default()"), true),
        (kind, default) => bail!("{}: default {default:?} of {kind:?}", field.name),
    })
}

pub(crate) fn default(field: &Field) -> Result<(String, bool)> {
    match (field.nullable, &field.default) {
        (Some(_), Some(Value::Null)) => Ok(("None".into(), true)),
        (Some(_), _) => Ok((format!("Some({})", bare_default(field)?.0), false)),
        (None, _) => bare_default(field),
    }
}

/// The condition that a field differs from its default.
pub(crate) fn is_set(field: &Field) -> Result<String> {
    let access = format!("self.{}", names::field(&field.name));
    if field.nullable.is_some() {
        return Ok(match (&field.kind, &field.default) {
            (_, Some(Value::Null)) => format!("{access}.is_some()"),
            (Kind::String | Kind::Bytes | Kind::Records | Kind::Array(_), None) => {
                format!("{access}.as_ref().is_none_or(|x| !x.is_empty())")
            }
            _ => format!("{access} != {}", default(field)?.0),
        });
    }
    Ok(match (&field.kind, &field.default) {
        (Kind::Bool, None | Some(Value::Bool(false))) => access,
        (Kind::Bool, _) => format!("!{access}"),
        (Kind::String | Kind::Bytes | Kind::Records | Kind::Array(_), None) => {
            format!("!{access}.is_empty()")
        }
        _ => format!("{access} != {}", bare_default(field)?.0),
    })
}

pub(crate) fn min_bytes(schema: &Schema, s: &Struct, version: i16, depth: u32) -> Result<usize> {
    ensure!(depth < 16, "{} holds itself", s.name);
    let flexible = schema.flexible_from.is_some_and(|from| version >= from);
    let mut bytes = usize::from(flexible);
    for field in &s.fields {
        if field.tag.is_some() || !(field.versions.0..=field.versions.1).contains(&version) {
            continue;
        }
        let short = flexible && !field.never_flexible;
        bytes += match &field.kind {
            Kind::Bool | Kind::Int8 => 1,
            Kind::Int16 | Kind::Uint16 => 2,
            Kind::Int32 | Kind::Uint32 => 4,
            Kind::Int64 | Kind::Float64 => 8,
            Kind::Uuid => 16,
            Kind::String => {
                if short {
                    1
                } else {
                    2
                }
            }
            Kind::Bytes | Kind::Records | Kind::Array(_) => {
                if short {
                    1
                } else {
                    4
                }
            }
            Kind::Struct(_) if field.nullable.is_some() => 1,
            Kind::Struct(name) => {
                let inner = schema.structs.iter().find(|s| s.name == *name);
                min_bytes(
                    schema,
                    inner.with_context(|| format!("struct {name}"))?,
                    version,
                    depth + 1,
                )?
            }
        };
    }
    Ok(bytes)
}
