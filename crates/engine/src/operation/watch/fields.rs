//! A digest of the fields that a `WatchOperation` watches: it identifies the state of an object.

use std::fmt;

use ferroplane_api::{Object, meta};
use ferroplane_wire::to_hex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// How many bytes of the hash tell two states of one object apart.
const DIGEST: usize = 8;
/// The field with digests of the data of a Secret, in what is cached of it.
const DATA_DIGESTS: &str = "dataDigests";

/// A field of an object, such as `spec.size`, `status.conditions[*].status` or `metadata.labels[example.org/team]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// A field of an object, or an item of a list if it is a number.
    Field(String),
    /// All fields or items.
    All,
}

/// Why a field path is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the path of a field: write it as in spec.items[0].name, spec.items[*].name or metadata.labels[example.org/team]"
)]
pub struct InvalidFieldPath(pub String);

impl FieldPath {
    pub fn parse(text: &str) -> Result<Self, InvalidFieldPath> {
        let invalid = || InvalidFieldPath(text.to_owned());
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(bracket) = rest.strip_prefix('[') {
                let (inside, after) = bracket.split_once(']').ok_or_else(invalid)?;
                segments.push(Segment::in_brackets(inside).ok_or_else(invalid)?);
                // After a bracket comes another one, a dot and a field, or nothing.
                rest = match after.strip_prefix('.') {
                    Some("") => return Err(invalid()),
                    Some(field) => field,
                    None if after.is_empty() || after.starts_with('[') => after,
                    None => return Err(invalid()),
                };
                continue;
            }
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (field, after) = rest.split_at(end);
            if field.is_empty() || field.contains(']') || after == "." {
                return Err(invalid());
            }
            segments.push(Segment::Field(field.to_owned()));
            rest = after.strip_prefix('.').unwrap_or(after);
        }
        if segments.is_empty() {
            return Err(invalid());
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    fn is_in(&self, field: &str) -> bool {
        matches!(self.segments.first(), Some(Segment::Field(first)) if first == field)
            || self.segments.first() == Some(&Segment::All)
    }

    fn hash(&self, value: &Value, hasher: &mut Sha256) {
        hash_at(value, &self.segments, hasher);
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Segment {
    fn in_brackets(text: &str) -> Option<Self> {
        match text {
            "" => None,
            "*" => Some(Self::All),
            text => Some(Self::Field(text.to_owned())),
        }
    }
}

/// The state of an object: the same text as long as none of these fields changes. Without fields, the whole object counts.
///
/// Managed fields do not count. Every operation is a field manager of its own, so that one that changes nothing else still changes them.
///
/// The data of a Secret counts by its [`digests_of_data`]. Where there are none, every version of it is another state.
pub(super) fn state_of(object: &Object, fields: &[FieldPath]) -> String {
    if !is_secret(object) || !fields.is_empty() && !fields.iter().any(|path| path.is_in("data")) {
        return digest(object, fields);
    }
    // Never of the data itself: with a plain digest, a user who can read the status could guess the data until the
    // digest matches.
    let Some(digests) = object.get(DATA_DIGESTS) else { return meta::resource_version(object).to_owned() };
    let mut secret = object.clone();
    secret.remove(DATA_DIGESTS);
    secret.insert("data".to_owned(), digests.clone());
    digest(&secret, fields)
}

/// What is cached in place of the data of a Secret: a digest of each value. `key` must be known to the control plane alone, and outlive the
/// process: states are compared with those of an earlier one.
pub fn digests_of_data(secret: &Object, key: &[u8]) -> Object {
    let data = secret.get("data").and_then(Value::as_object).into_iter().flatten();
    let digests = data.map(|(name, value)| {
        let mut hasher = Sha256::new().chain_update(key);
        // With the Secret itself: otherwise states would tell which Secrets have the same value.
        hash_text('u', meta::uid(secret), &mut hasher);
        hash_value(value, &mut hasher);
        (name.clone(), Value::String(to_hex(&hasher.finalize()[..2 * DIGEST])))
    });
    let mut stand_in = Object::new();
    stand_in.insert(DATA_DIGESTS.to_owned(), Value::Object(digests.collect()));
    stand_in
}

fn digest(object: &Object, fields: &[FieldPath]) -> String {
    let mut hasher = Sha256::new();
    if fields.is_empty() {
        hash_whole(object, &mut hasher);
    } else {
        let value = Value::Object(object.clone());
        for path in fields {
            path.hash(&value, &mut hasher);
        }
    }
    to_hex(&hasher.finalize()[..DIGEST])
}

fn is_secret(object: &Object) -> bool {
    meta::kind(object) == "Secret" && meta::group(meta::api_version(object)).is_empty()
}

fn hash_whole(object: &Object, hasher: &mut Sha256) {
    for (key, value) in sorted(object) {
        hash_text('f', key, hasher);
        match value {
            Value::Object(metadata) if key == "metadata" => {
                let counts = |key: &str| key != "managedFields" && key != "resourceVersion";
                for (key, value) in sorted(metadata).into_iter().filter(|(key, _)| counts(key)) {
                    hash_text('f', key, hasher);
                    hash_value(value, hasher);
                }
            }
            value => hash_value(value, hasher),
        }
    }
}

fn hash_at(value: &Value, segments: &[Segment], hasher: &mut Sha256) {
    let Some((segment, rest)) = segments.split_first() else { return hash_value(value, hasher) };
    match (segment, value) {
        (Segment::Field(field), Value::Object(object)) => match object.get(field) {
            Some(value) => hash_at(value, rest, hasher),
            None => hasher.update(b"-"),
        },
        (Segment::Field(index), Value::Array(list)) => {
            match index.parse().ok().and_then(|index: usize| list.get(index)) {
                Some(value) => hash_at(value, rest, hasher),
                None => hasher.update(b"-"),
            }
        }
        (Segment::All, Value::Object(object)) => {
            for (key, value) in sorted(object) {
                hash_text('f', key, hasher);
                hash_at(value, rest, hasher);
            }
        }
        (Segment::All, Value::Array(list)) => {
            for value in list {
                hasher.update(b",");
                hash_at(value, rest, hasher);
            }
        }
        _ => hasher.update(b"-"),
    }
    hasher.update(b";");
}

/// Each type of value begins with another byte and includes its length, so that no two values hash alike.
fn hash_value(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Null => hasher.update(b"n"),
        Value::Bool(is) => hasher.update(if *is { b"t" } else { b"u" }),
        Value::Number(number) => hash_text('0', &number.to_string(), hasher),
        Value::String(text) => hash_text('s', text, hasher),
        Value::Array(list) => {
            hasher.update(b"[");
            for value in list {
                hash_value(value, hasher);
            }
            hasher.update(b"]");
        }
        Value::Object(object) => {
            hasher.update(b"{");
            for (key, value) in sorted(object) {
                hash_text('f', key, hasher);
                hash_value(value, hasher);
            }
            hasher.update(b"}");
        }
    }
}

fn hash_text(kind: char, text: &str, hasher: &mut Sha256) {
    hasher.update(format!("{kind}{}:", text.len()));
    hasher.update(text);
}

/// The fields in sorted order, whatever order the server sends.
fn sorted(object: &Object) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    fields
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(object: &Value, paths: &[&str]) -> String {
        let paths: Vec<_> = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
        state_of(object.as_object().unwrap(), &paths)
    }

    #[test]
    fn state_changes_with_watched_fields_only() {
        let before = json!({
            "metadata": {"generation": 1, "labels": {"example.org/team": "a"}, "resourceVersion": "1"},
            "spec": {"size": 1, "items": [{"name": "x"}, {"name": "y"}]},
        });
        let cases = [
            ("metadata.generation", "/metadata/generation", true),
            ("metadata.generation", "/spec/size", false),
            ("metadata.labels[example.org/team]", "/metadata/labels/example.org~1team", true),
            ("metadata.labels", "/metadata/labels/example.org~1team", true),
            ("spec.items[*].name", "/spec/items/1/name", true),
            ("spec.items[0].name", "/spec/items/1/name", false),
            ("spec.items[1].name", "/spec/items/1/name", true),
            ("spec.missing", "/spec/size", false),
        ];
        for (path, changed, is_noticed) in cases {
            let mut after = before.clone();
            *after.pointer_mut(changed).unwrap() = json!("new");
            assert_eq!(state(&before, &[path]) != state(&after, &[path]), is_noticed, "{path} {changed}");
        }
        assert_ne!(state(&json!({"a": null}), &["a"]), state(&json!({}), &["a"]));
        assert_ne!(state(&json!({"a": "bc"}), &["a", "b"]), state(&json!({"a": "b", "b": "c"}), &["a", "b"]));
    }

    #[test]
    fn without_fields_everything_counts_but_who_manages_what() {
        let before = json!({"metadata": {"name": "a", "resourceVersion": "1", "managedFields": []}, "data": {"k": "v"}});
        let mut managed = before.clone();
        managed["metadata"]["managedFields"] = json!([{"manager": "m"}]);
        managed["metadata"]["resourceVersion"] = "2".into();
        assert_eq!(state(&before, &[]), state(&managed, &[]));
        for changed in ["/data/k", "/metadata/name"] {
            let mut after = before.clone();
            *after.pointer_mut(changed).unwrap() = json!("new");
            assert_ne!(state(&before, &[]), state(&after, &[]), "{changed}");
        }
    }

    #[test]
    fn nothing_in_a_secret_can_be_guessed_from_its_state() {
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"resourceVersion": "7"}, "data": {"pin": value}});
        let with_digests = |value: &str, key: &str| {
            let secret = secret(value);
            let mut cached = secret.as_object().unwrap().clone();
            cached.remove("data");
            cached.extend(digests_of_data(secret.as_object().unwrap(), key.as_bytes()));
            Value::Object(cached)
        };
        for paths in [&[][..], &["data.pin"], &["[*].pin"]] {
            assert_eq!(state(&secret("MQ=="), paths), "7", "{paths:?}");
            let digest = state(&with_digests("MQ==", "key"), paths);
            assert_ne!(digest, state(&with_digests("MQ==", "another"), paths), "{paths:?}");
            assert_eq!(digest, state(&with_digests("MQ==", "key"), paths), "{paths:?}");
            assert_ne!(digest, state(&with_digests("Mg==", "key"), paths), "{paths:?}");
        }
        assert_eq!(
            state(&secret("MQ=="), &["metadata.labels"]),
            state(&secret("Mg=="), &["metadata.labels"])
        );
    }

    #[test]
    fn secret_whose_managed_fields_alone_change_is_in_the_same_state() {
        let cached = |version: &str, label: &str, uid: &str| {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "data": {"pin": "MQ==", "other": "MQ=="},
                "metadata": {
                    "resourceVersion": version, "uid": uid, "labels": {"l": label},
                    "managedFields": [{"manager": version}],
                },
            });
            let secret = secret.as_object().unwrap();
            let mut cached = secret.clone();
            cached.remove("data");
            cached.extend(digests_of_data(secret, b"key"));
            Value::Object(cached)
        };
        let before = cached("7", "a", "u");
        assert_eq!(state(&before, &[]), state(&cached("8", "a", "u"), &[]));
        assert_ne!(state(&before, &[]), state(&cached("8", "b", "u"), &[]));
        assert_eq!(state(&before, &["data.pin"]), state(&cached("8", "b", "u"), &["data.pin"]));
        assert_ne!(state(&before, &["data.pin"]), state(&cached("7", "a", "v"), &["data.pin"]));
        assert!(!before.to_string().contains("MQ"), "{before}");
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a[0", "a]b", "a[0]b", "a[0]."] {
            assert_eq!(FieldPath::parse(text), Err(InvalidFieldPath(text.to_owned())), "{text}");
        }
        for text in ["a", "a.b", "a[0]", "a[*][1].b", "[a.b/c]"] {
            assert_eq!(FieldPath::parse(text).unwrap().to_string(), text);
        }
    }
}
