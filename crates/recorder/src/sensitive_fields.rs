//! Which fields of a composite resource are secret, as its definition says.
//!
//! A schema marks them with `format: password` or `writeOnly: true`; the annotation `ferroplane.io/sensitive-fields` of the definition names
//! further ones. Everything below such a field is secret, too.

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

/// Deeper schemas are not looked into. API servers accept none.
const DEEPEST: usize = 64;

/// The paths to the secret fields of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SensitiveFields(Vec<Vec<Step>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    /// Every item of a list, or every entry of a map.
    Each,
}

impl SensitiveFields {
    /// What a definition (XRD) says, in any of its versions, and which paths of its annotation are none.
    pub fn of(definition: &Object) -> (Self, Vec<String>) {
        let mut fields = Self::default();
        let versions = definition.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
        for version in versions.into_iter().flatten() {
            if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
                fields.read_schema(schema, &mut Vec::new());
            }
        }
        let mut unreadable = Vec::new();
        let named = meta::annotation(definition, keys::SENSITIVE_FIELDS);
        for path in named.split([',', '\n']).map(str::trim).filter(|path| !path.is_empty()) {
            match parse(path) {
                Some(steps) => fields.add(steps),
                None => unreadable.push(path.to_owned()),
            }
        }
        (fields, unreadable)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, path: Vec<Step>) {
        if !self.0.contains(&path) {
            self.0.push(path);
        }
    }

    fn read_schema(&mut self, schema: &Value, path: &mut Vec<Step>) {
        if path.len() > DEEPEST {
            return;
        }
        if schema["format"] == "password" || schema["writeOnly"] == true {
            // Nothing below has to be checked, because all of it is secret.
            return self.add(path.clone());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            self.read_schema_at(Step::Field(name.clone()), property, path);
        }
        for each in ["items", "additionalProperties"] {
            if schema[each].is_object() {
                self.read_schema_at(Step::Each, &schema[each], path);
            }
        }
        // Secret in one alternative is secret in all: which one an object follows is not asked.
        for alternatives in ["allOf", "anyOf", "oneOf"] {
            for alternative in schema[alternatives].as_array().into_iter().flatten() {
                self.read_schema(alternative, path);
            }
        }
    }

    fn read_schema_at(&mut self, step: Step, schema: &Value, path: &mut Vec<Step>) {
        path.push(step);
        self.read_schema(schema, path);
        path.pop();
    }

    /// Put this in place of every text and number in these fields.
    pub fn mark(&self, object: &mut Value, marker: &str) {
        if let Value::Object(object) = object {
            self.each(object, &mut |value| *value = marker.into());
        }
    }

    /// Look at every text and number in these fields.
    pub(crate) fn each(&self, object: &mut Object, look: &mut dyn FnMut(&mut Value)) {
        for path in &self.0 {
            follow_into(object, path, look);
        }
    }
}

fn follow_into(object: &mut Object, path: &[Step], look: &mut dyn FnMut(&mut Value)) {
    match path.split_first() {
        None => object.values_mut().for_each(|value| leaves(value, look)),
        Some((Step::Field(name), rest)) => {
            object.get_mut(name).into_iter().for_each(|value| follow(value, rest, look));
        }
        Some((Step::Each, rest)) => object.values_mut().for_each(|value| follow(value, rest, look)),
    }
}

fn follow(value: &mut Value, path: &[Step], look: &mut dyn FnMut(&mut Value)) {
    match (path.split_first(), value) {
        (None, value) => leaves(value, look),
        (_, Value::Object(object)) => follow_into(object, path, look),
        (Some((Step::Each, rest)), Value::Array(items)) => {
            for value in items {
                follow(value, rest, look);
            }
        }
        _ => {}
    }
}

fn leaves(value: &mut Value, look: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Object(object) => object.values_mut().for_each(|value| leaves(value, look)),
        Value::Array(items) => items.iter_mut().for_each(|value| leaves(value, look)),
        Value::String(_) | Value::Number(_) => look(value),
        Value::Null | Value::Bool(_) => {}
    }
}

/// A path such as `spec.users[*].pin`.
fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let name = part.trim_end_matches("[*]");
        let is_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '/');
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        steps.push(Step::Field(name.to_owned()));
        steps.extend((0..(part.len() - name.len()) / "[*]".len()).map(|_| Step::Each));
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(schema: &Value, annotation: &str) -> (SensitiveFields, Vec<String>) {
        let definition = json!({
            "metadata": {"annotations": {keys::SENSITIVE_FIELDS: annotation}},
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]},
        });
        SensitiveFields::of(definition.as_object().unwrap())
    }

    /// What is found in an object.
    fn found(fields: &SensitiveFields, mut object: Value) -> Vec<String> {
        let mut found = Vec::new();
        fields.each(object.as_object_mut().unwrap(), &mut |value| found.push(value.to_string()));
        found
    }

    #[test]
    fn schemas_and_annotations_say_which_fields_are_secret() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "pin": {"type": "string", "format": "password"},
            "port": {"type": "integer"},
            "users": {"type": "array", "items": {"type": "object", "properties": {"code": {"writeOnly": true}}}},
            "extra": {"type": "object", "additionalProperties": {"allOf": [{"format": "password"}]}},
        }}}});
        let (fields, unreadable) = fields(&schema, "spec.licence, spec.hosts[*].phrase,\n spec..x");
        assert_eq!(unreadable, ["spec..x"]);
        let object = json!({"spec": {
            "pin": "1234", "port": 5432, "licence": {"a": ["x", 7, true], "b": null},
            "users": [{"code": "one", "name": "kept"}, {"code": 22}], "extra": {"k": "v"},
            "hosts": [{"phrase": "open", "host": "kept"}],
        }});
        let mut found = found(&fields, object);
        found.sort();
        assert_eq!(found, ["\"1234\"", "\"one\"", "\"open\"", "\"v\"", "\"x\"", "22", "7"]);
    }

    #[test]
    fn objects_of_another_shape_are_no_obstacle() {
        let (fields, _) = fields(&json!({}), "spec.a[*].b");
        for object in
            [json!({}), json!({"spec": 1}), json!({"spec": {"a": "x"}}), json!({"spec": {"a": [1, {}]}})]
        {
            assert!(found(&fields, object).is_empty());
        }
    }
}
