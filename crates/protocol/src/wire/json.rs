//! The JSON form of messages: built and read field by field by the generated code.
//! Not here: the names of the fields (generated), text output of tools (tools/).
//! Pure. Kafka: the generated *JsonConverter classes, MessageUtil.

use super::Wire;
use crate::error::JsonError;
use serde_json::{Map, Value};

/// Collects the fields of one object in the schema's order.
#[derive(Debug)]
pub struct ObjectBuilder {
    version: i16,
    fields: Map<String, Value>,
}

impl ObjectBuilder {
    pub fn new(version: i16) -> Self {
        ObjectBuilder {
            version,
            fields: Map::new(),
        }
    }

    pub fn put<T: Wire>(&mut self, name: &str, value: &T) {
        self.fields
            .insert(name.to_owned(), value.to_value(self.version));
    }

    pub fn end(self) -> Value {
        Value::Object(self.fields)
    }
}

/// Reads the fields of one object.
#[derive(Debug)]
pub struct JsonObject<'a> {
    version: i16,
    fields: &'a Map<String, Value>,
}

impl<'a> JsonObject<'a> {
    pub fn new(value: &'a Value, version: i16) -> Result<Self, JsonError> {
        let fields = value
            .as_object()
            .ok_or_else(|| JsonError::new("expected an object"))?;
        Ok(JsonObject { version, fields })
    }

    /// A field that this version has.
    pub fn get<T: Wire>(&self, name: &str) -> Result<T, JsonError> {
        match self.fields.get(name) {
            None => Err(JsonError::new("missing").at(name)),
            Some(value) => T::from_value(value, self.version).map_err(|e| e.at(name)),
        }
    }

    /// A field that is null only in some versions.
    pub fn get_nullable_if<T: Wire>(
        &self,
        name: &str,
        nullable: bool,
    ) -> Result<Option<T>, JsonError> {
        let value = self.get::<Option<T>>(name)?;
        if value.is_none() && !nullable {
            return Err(JsonError::new("null in a version without null").at(name));
        }
        Ok(value)
    }

    /// A field that may be left out.
    pub fn tagged<T: Wire>(&self, name: &str) -> Result<Option<T>, JsonError> {
        match self.fields.get(name) {
            None => Ok(None),
            Some(_) => self.get(name).map(Some),
        }
    }
}

pub(crate) fn text(value: &Value) -> Result<&str, JsonError> {
    value
        .as_str()
        .ok_or_else(|| JsonError::new("expected a string"))
}

/// A number, or a string that is one, as Java's converters take it.
pub(crate) fn integer(value: &Value) -> Result<i64, JsonError> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| JsonError::new("expected an integer"))
}
