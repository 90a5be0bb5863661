//! Arguments of phases, as their functions read them.
//!
//! Templates give text, so that a number or a boolean may be written as text.

use ferroplane_api::Object;
use ferroplane_engine::action::{Address, ArgumentMistake, ResourceName};
use ferroplane_golang::time::duration;
use serde_json::Value;

use super::moves::Failure;

/// The arguments of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a>(pub(super) &'a Object);

impl<'a> Arguments<'a> {
    /// Text that must be there.
    pub(super) fn text(self, name: &str) -> Result<&'a str, Failure> {
        self.optional_text(name)?.ok_or_else(|| Failure::argument(name, "it is required, and empty"))
    }

    /// Text that may be left out, or empty.
    pub(super) fn optional_text(self, name: &str) -> Result<Option<&'a str>, Failure> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(other) => Err(Failure::argument(name, format!("it is {}, and should be text", sort(other)))),
        }
    }

    /// A truth that may be left out.
    pub(super) fn flag(self, name: &str, default: bool) -> Result<bool, Failure> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            Some(other) => {
                Err(Failure::argument(name, format!("it is {}, and should be true or false", sort(other))))
            }
        }
    }

    /// A whole number.
    pub(super) fn integer(self, name: &str) -> Result<i64, Failure> {
        let number = match self.0.get(name) {
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| {
            let found = self.0.get(name).map_or_else(|| "missing".to_owned(), ToString::to_string);
            Failure::argument(name, format!("it is {found}, and should be a whole number"))
        })
    }

    /// Milliseconds, written as Go writes durations.
    pub(super) fn duration(self, name: &str) -> Result<Option<i64>, Failure> {
        self.optional_text(name)?.map(|text| milliseconds(name, text)).transpose()
    }

    /// A list of texts that must not be empty.
    pub(super) fn texts(self, name: &str) -> Result<Vec<String>, Failure> {
        let texts = self.optional_texts(name)?.unwrap_or_default();
        if texts.is_empty() {
            return Err(Failure::argument(name, "it is required, and empty"));
        }
        Ok(texts)
    }

    /// A list of texts that may be left out.
    pub(super) fn optional_texts(self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        let items = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => {
                return Err(Failure::argument(
                    name,
                    format!("it is {}, and should be a list of texts", sort(other)),
                ));
            }
        };
        let text = |(index, item): (usize, &Value)| match item {
            Value::String(text) => Ok(text.clone()),
            Value::Number(_) | Value::Bool(_) => Ok(item.to_string()),
            other => Err(Failure::argument(
                &format!("{name}[{index}]"),
                format!("it is {}, and should be text", sort(other)),
            )),
        };
        items.iter().enumerate().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// A map that may be left out.
    pub(super) fn map(self, name: &str) -> Result<Object, Failure> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(Object::new()),
            Some(Value::Object(map)) => Ok(map.clone()),
            Some(other) => {
                Err(Failure::argument(name, format!("it is {}, and should be a map", sort(other))))
            }
        }
    }

    /// A map of texts that may be left out, such as labels.
    pub(super) fn text_map(self, name: &str) -> Result<Object, Failure> {
        let map = self.map(name)?;
        match map.iter().find(|(_, value)| !value.is_string()) {
            None => Ok(map),
            Some((key, other)) => Err(Failure::argument(
                &format!("{name}.{key}"),
                format!("it is {}, and should be text", sort(other)),
            )),
        }
    }

    /// Text, or a map or list that is written in place of it. Blueprints write specs as text; a user who writes them as YAML means the same.
    pub(super) fn document(self, name: &str) -> Result<String, Failure> {
        match self.0.get(name) {
            Some(Value::Object(_) | Value::Array(_)) => Ok(self.0[name].to_string()),
            _ => self.text(name).map(str::to_owned),
        }
    }
}

/// Milliseconds, written as Go writes durations.
pub(super) fn milliseconds(name: &str, text: &str) -> Result<i64, Failure> {
    let nanoseconds = duration::parse(text).map_err(|error| Failure::argument(name, error))?;
    if nanoseconds < 0 {
        return Err(Failure::argument(name, format!("{text} is negative")));
    }
    Ok(nanoseconds / 1_000_000)
}

/// A mistake that does not need to be rendered to be seen.
pub(super) fn mistake(failure: Failure, argument: impl Into<String>) -> ArgumentMistake {
    ArgumentMistake { argument: argument.into(), message: failure.message }
}

/// Whether text is a template, so that its value is not known yet.
pub(super) fn is_template(text: &str) -> bool {
    text.contains("{{")
}

fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// Kanister's reference to an object: its version without the group, the group, and the plural name of the kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObjectReference {
    pub(super) api_version: String,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
}

/// The fields of a reference.
const KNOWN: [&str; 6] = ["apiVersion", "group", "resource", "kind", "name", "namespace"];

impl ObjectReference {
    pub(super) fn read(name: &str, value: Option<&Value>) -> Result<Self, Failure> {
        let Some(Value::Object(fields)) = value else {
            return Err(Failure::argument(
                name,
                "it should be a reference with name, apiVersion, group and resource",
            ));
        };
        if let Some(unknown) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            let known = KNOWN.join(", ");
            return Err(Failure::argument(
                name,
                format!("a reference has no field `{unknown}`: it has {known}"),
            ));
        }
        let text = |field: &str| match fields.get(field) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(Failure::argument(
                &format!("{name}.{field}"),
                format!("it is {}, and should be text", sort(other)),
            )),
        };
        Ok(Self {
            api_version: text("apiVersion")?,
            group: text("group")?,
            resource: text("resource")?,
            kind: text("kind")?,
            name: text("name")?,
            namespace: text("namespace")?,
        })
    }

    /// Where the object is. A namespace of its own wins over this one.
    pub(super) fn address(&self, argument: &str, namespace: &str) -> Result<Address, Failure> {
        let missing =
            |field: &str| Failure::argument(&format!("{argument}.{field}"), "it is required, and empty");
        if self.name.is_empty() {
            return Err(missing("name"));
        }
        if self.api_version.is_empty() {
            return Err(missing("apiVersion"));
        }
        let api_version = if self.group.is_empty() {
            self.api_version.clone()
        } else {
            // Some write the group twice.
            format!("{}/{}", self.group, self.api_version.rsplit('/').next().unwrap_or_default())
        };
        let kind = match (self.resource.is_empty(), self.kind.is_empty()) {
            (false, _) => ResourceName::resource(api_version, &self.resource),
            (true, false) => ResourceName::kind(api_version, &self.kind),
            (true, true) => return Err(missing("resource")),
        };
        let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
        Ok(Address { kind, namespace: namespace.to_owned(), name: self.name.clone() })
    }
}
