//! Which parts of a list or map are secret that stands in a field which is named like a secret: all texts and numbers but those that say
//! where the secret is, or of which form.

use ferroplane_api::Object;
use serde_json::Value;

/// Fields that say where a secret is, or of which form. Their values are settings, which other objects have, too.
const KEPT: [&str; 13] = [
    "apiversion",
    "kind",
    "namespace",
    "source",
    "type",
    "path",
    "optional",
    "algorithm",
    "size",
    "encoding",
    "rotationpolicy",
    "audience",
    "expirationseconds",
];
/// The last words of the names of fields that say which object or entry has the secret.
const REFERENCES: [&str; 7] =
    ["Ref", "Refs", "Selector", "Field", "SecretName", "ExistingSecret", "ValueFrom"];
/// What a schema says of a value.
const KEYWORDS: [&str; 34] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "deprecated",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "properties",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Whether an object is judged as everywhere else: it is an object of its own, which has a kind, or a schema.
pub(super) fn stands_alone(object: &Object) -> bool {
    let is_text = |key: &str| object.get(key).is_some_and(Value::is_string);
    is_text("apiVersion") && is_text("kind") || is_schema(object)
}

/// Whether a text is a word, as settings have it: `Always`. It is hidden where it is, and not looked for in other texts.
pub(super) fn is_word(text: &str) -> bool {
    text.bytes().all(|letter| letter.is_ascii_alphabetic())
}

/// What an object says about the secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    /// Whether `name` and `key` in it are those of an object and its entry.
    has_names: bool,
}

impl Description {
    pub(super) fn of(object: &Object) -> Self {
        let is_about_names = |key: &String| is_name(key) || is_kept(key);
        let names_an_object = object.contains_key("name") && object.keys().all(is_about_names);
        let has_names = names_an_object || object.keys().any(|key| is_reference(key));
        Self { has_names }
    }

    /// Whether a field is no secret, unless its own name says so.
    pub(super) fn keeps(self, key: &str) -> bool {
        is_kept(key) || is_reference(key) || self.has_names && is_name(key)
    }
}

fn is_kept(key: &str) -> bool {
    KEPT.iter().any(|kept| key.eq_ignore_ascii_case(kept))
}

fn is_name(key: &str) -> bool {
    key == "name" || key == "key"
}

fn is_reference(key: &str) -> bool {
    // As a word: `href` ends with the letters of `ref`, and is an address that may have a password in it.
    REFERENCES.iter().any(|word| key.ends_with(word) || key.eq_ignore_ascii_case(word))
}

fn is_schema(object: &Object) -> bool {
    let is_extension = |key: &str| key.starts_with("x-kubernetes-");
    let has_type = object.get("type").and_then(Value::as_str).is_some_and(|kind| TYPES.contains(&kind));
    let has_parts =
        ["allOf", "anyOf", "oneOf"].iter().any(|key| object.get(*key).is_some_and(Value::is_array));
    let says_what_it_is =
        has_type || has_parts || object.keys().any(|key| key == "$ref" || is_extension(key));
    says_what_it_is && object.keys().all(|key| KEYWORDS.contains(&key.as_str()) || is_extension(key))
}
