//! The schema files as data: messages, structs, fields, version ranges.
//! Not here: Rust code (`message`, `enums`).
//! Pure, but for reading the files. Kafka: org.apache.kafka.message.{MessageSpec, StructSpec, FieldSpec, Versions}.

#![allow(clippy::disallowed_methods)] // a build tool: it reads the source tree

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// First and last version, both in the range.
pub(crate) type Range = (i16, i16);

#[derive(Debug)]
pub(crate) struct Schema {
    /// Relative to the schema folder.
    pub(crate) path: String,
    pub(crate) family: String,
    pub(crate) name: String,
    pub(crate) api_key: Option<i16>,
    /// `None` where no version is left.
    pub(crate) versions: Option<Range>,
    pub(crate) flexible_from: Option<i16>,
    /// The top struct first, then those it holds, in the order of their first use.
    pub(crate) structs: Vec<Struct>,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) versions: Range,
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) versions: Range,
    pub(crate) nullable: Option<Range>,
    pub(crate) tag: Option<u32>,
    pub(crate) ignorable: bool,
    pub(crate) map_key: bool,
    /// Written without compact encodings in all versions.
    pub(crate) never_flexible: bool,
    pub(crate) default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    Uuid,
    String,
    Bytes,
    Records,
    Struct(String),
    Array(Box<Kind>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSchema {
    name: String,
    api_key: Option<i16>,
    valid_versions: String,
    flexible_versions: String,
    fields: Vec<RawField>,
    #[serde(default)]
    common_structs: Vec<RawStruct>,
}

#[derive(Deserialize)]
struct RawStruct {
    name: String,
    versions: String,
    fields: Vec<RawField>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawField {
    name: String,
    r#type: String,
    versions: String,
    nullable_versions: Option<String>,
    tagged_versions: Option<String>,
    flexible_versions: Option<String>,
    tag: Option<u32>,
    #[serde(default)]
    ignorable: bool,
    #[serde(default)]
    map_key: bool,
    #[serde(default, deserialize_with = "present")]
    default: Option<Value>,
    #[serde(default)]
    fields: Vec<RawField>,
}

/// Keeps a default of null apart from no default.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}

/// All schemas below a folder, by path.
pub(crate) fn load_all(root: &Path) -> Result<Vec<Schema>> {
    let mut paths = Vec::new();
    for family in std::fs::read_dir(root).with_context(|| root.display().to_string())? {
        let family = family?.path();
        if family.is_dir() {
            for file in std::fs::read_dir(&family)? {
                paths.push(file?.path());
            }
        }
    }
    paths.sort();
    let mut schemas = Vec::with_capacity(paths.len());
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        let relative = path
            .strip_prefix(root)?
            .to_string_lossy()
            .replace('\\', "/");
        schemas.push(parse(&relative, &text).with_context(|| relative.clone())?);
    }
    Ok(schemas)
}

fn parse(path: &str, text: &str) -> Result<Schema> {
    let raw: RawSchema = serde_json::from_str(text)?;
    let versions = range(&raw.valid_versions, i16::MAX)?;
    let mut structs = Vec::new();
    let mut flexible_from = None;
    if let Some((min, max)) = versions {
        if let Some((from, _)) = range(&raw.flexible_versions, max)? {
            flexible_from = Some(from.max(min));
        }
        collect(&mut structs, raw.name.clone(), (min, max), raw.fields, max)?;
        for common in raw.common_structs {
            let versions = range(&common.versions, max)?.context("struct without versions")?;
            collect(&mut structs, common.name, versions, common.fields, max)?;
        }
    }
    let (family, _) = path.split_once('/').context("schema outside of a family")?;
    Ok(Schema {
        path: path.to_owned(),
        family: family.to_owned(),
        name: raw.name,
        api_key: raw.api_key,
        versions,
        flexible_from,
        structs,
    })
}

fn collect(
    structs: &mut Vec<Struct>,
    name: String,
    versions: Range,
    raw: Vec<RawField>,
    max: i16,
) -> Result<()> {
    let index = structs.len();
    structs.push(Struct {
        name,
        versions,
        fields: Vec::new(),
    });
    for field in raw {
        let kind = kind(&field.r#type)?;
        let versions = range(&field.versions, max)?.context("field without versions")?;
        ensure!(
            field.tagged_versions.is_none()
                || field.tagged_versions.as_ref() == Some(&field.versions),
            "{}: tagged in a part of its versions only",
            field.name
        );
        if !field.fields.is_empty() {
            let inner = match &kind {
                Kind::Struct(name) => name,
                Kind::Array(element) => match &**element {
                    Kind::Struct(name) => name,
                    _ => bail!("{}: fields in a primitive", field.name),
                },
                _ => bail!("{}: fields in a primitive", field.name),
            };
            collect(structs, inner.clone(), versions, field.fields, max)?;
        }
        let nullable = match &field.nullable_versions {
            Some(text) => range(text, max)?,
            None => None,
        };
        structs[index].fields.push(Field {
            name: field.name,
            kind,
            versions,
            nullable,
            tag: field.tag,
            ignorable: field.ignorable,
            map_key: field.map_key,
            never_flexible: field.flexible_versions.as_deref() == Some("none"),
            default: field.default,
        });
    }
    Ok(())
}

fn kind(text: &str) -> Result<Kind> {
    if let Some(element) = text.strip_prefix("[]") {
        return Ok(Kind::Array(Box::new(kind(element)?)));
    }
    Ok(match text {
        "bool" => Kind::Bool,
        "int8" => Kind::Int8,
        "int16" => Kind::Int16,
        "uint16" => Kind::Uint16,
        "int32" => Kind::Int32,
        "uint32" => Kind::Uint32,
        "int64" => Kind::Int64,
        "float64" => Kind::Float64,
        "uuid" => Kind::Uuid,
        "string" => Kind::String,
        "bytes" => Kind::Bytes,
        "records" => Kind::Records,
        name if name.starts_with(|c: char| c.is_ascii_uppercase()) => Kind::Struct(name.to_owned()),
        other => bail!("unknown type {other}"),
    })
}

/// `3-12`, `3`, `none`, or `3+` up to `max`.
fn range(text: &str, max: i16) -> Result<Option<Range>> {
    let number = |text: &str| {
        text.parse::<i16>()
            .with_context(|| format!("version {text}"))
    };
    Ok(if text == "none" {
        None
    } else if let Some(from) = text.strip_suffix('+') {
        Some((number(from)?, max))
    } else if let Some((from, to)) = text.split_once('-') {
        Some((number(from)?, number(to)?))
    } else {
        Some((number(text)?, number(text)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(range("3-12", 20).unwrap(), Some((3, 12)));
        assert_eq!(range("3", 20).unwrap(), Some((3, 3)));
        assert_eq!(range("3+", 20).unwrap(), Some((3, 20)));
        assert_eq!(range("none", 20).unwrap(), None);
        assert!(range("x", 20).is_err());
    }

    #[test]
    fn null_as_default_differs_from_no_default() {
        let text = r#"{"name":"M","validVersions":"0","flexibleVersions":"none","fields":[
            {"name":"A","type":"string","versions":"0+","nullableVersions":"0+","default":null},
            {"name":"B","type":"string","versions":"0+","nullableVersions":"0+"}]}"#;
        let schema = parse("data/M.json", text).unwrap();
        let fields = &schema.structs[0].fields;
        assert_eq!(fields[0].default, Some(Value::Null));
        assert_eq!(fields[1].default, None);
    }
}
