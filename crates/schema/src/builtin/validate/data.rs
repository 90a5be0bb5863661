//! Config maps and secrets.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/validation/validation.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::super::table::Type;
use super::read;
use crate::field::{Error, Path};

/// How many bytes all values may have together.
const MAX_BYTES: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let path = Path::new("data");
    let mut size = 0;
    for (key, value) in read::pairs(object, "data") {
        errors.extend(key_problems(key).map(|problem| Error::invalid(&path.key(key), key, problem)));
        if read::object(object, "binaryData").is_some_and(|data| data.contains_key(key)) {
            errors.push(Error::invalid(&path.key(key), key, "duplicate of key present in binaryData"));
        }
        // Keys do not count, and binary data below counts decoded.
        size += value.len();
    }
    let path = Path::new("binaryData");
    for (key, value) in read::pairs(object, "binaryData") {
        errors.extend(key_problems(key).map(|problem| Error::invalid(&path.key(key), key, problem)));
        size += decoded_length(value);
    }
    if size > MAX_BYTES {
        // Kubernetes names no field here, and writes the empty one as `[]`.
        errors.push(Error::too_long(&Path::new(""), 1024 * 1024));
    }
    errors
}

pub(super) fn secret(object: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let path = Path::new("data");
    let mut size = 0;
    for (key, value) in read::pairs(object, "data") {
        errors.extend(key_problems(key).map(|problem| Error::invalid(&path.key(key), key, problem)));
        size += decoded_length(value);
    }
    if size > MAX_BYTES {
        errors.push(Error::too_long(&path, 1024 * 1024));
    }
    let data = read::object(object, "data");
    let lacks = |key: &&&str| !data.is_some_and(|data| data.contains_key(**key));
    let required = |keys: &[&str]| -> Vec<Error> {
        keys.iter().filter(lacks).map(|key| Error::required(&path.key(key), "")).collect()
    };
    match read::text(object, "type") {
        "kubernetes.io/service-account-token" => errors.extend(check_account(object)),
        "kubernetes.io/dockercfg" => errors.extend(required(&[".dockercfg"])),
        "kubernetes.io/dockerconfigjson" => errors.extend(required(&[".dockerconfigjson"])),
        "kubernetes.io/basic-auth" => {
            let missing = required(&["username", "password"]);
            // Either of the two will do, and only then both are reported.
            if missing.len() == 2 {
                errors.extend(missing);
            }
        }
        // Unlike the others, an empty value is refused, too (`ValidateSecret` asks for its length).
        "kubernetes.io/ssh-auth" if data.is_none_or(|data| read::text(data, "ssh-privatekey").is_empty()) => {
            errors.push(Error::required(&path.key("ssh-privatekey"), ""));
        }
        "kubernetes.io/tls" => errors.extend(required(&["tls.crt", "tls.key"])),
        _ => {}
    }
    errors
}

fn check_account(object: &JsonObject) -> Option<Error> {
    const NAME: &str = "kubernetes.io/service-account.name";
    let annotations =
        read::object(object, "metadata").and_then(|metadata| read::object(metadata, "annotations"));
    let name = annotations.map(|annotations| read::text(annotations, NAME)).unwrap_or_default();
    let path = Path::new("metadata");
    name.is_empty().then(|| Error::required(&path.child("annotations").key(NAME), ""))
}

/// What may not change.
pub(super) fn update(of: &Type, object: &JsonObject, old: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let is_secret = of.name == "Secret";
    if is_secret && read::text(object, "type") != read::text(old, "type") {
        errors.push(Error::invalid(&Path::new("type"), read::text(object, "type"), "field is immutable"));
    }
    let is_frozen = |object: &JsonObject| object.get("immutable") == Some(&Value::Bool(true));
    if !is_frozen(old) {
        return errors;
    }
    // There is no way back, or what kubelets no longer watch could change.
    if !is_frozen(object) {
        errors.push(Error::forbidden(&Path::new("immutable"), FROZEN));
    }
    let names: &[&str] = if is_secret { &["data"] } else { &["data", "binaryData"] };
    let changed = names.iter().filter(|name| object.get(**name) != old.get(**name));
    errors.extend(changed.map(|name| Error::forbidden(&Path::new(name), FROZEN)));
    errors
}

fn decoded_length(text: &str) -> usize {
    // The reader has written all bytes anew, so that there are no line breaks and the padding is whole.
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
}

/// What keeps a text from being a key of data.
fn key_problems(key: &str) -> impl Iterator<Item = String> {
    const WORDS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', \
                         \u{20}or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(is_fine) {
        problems.push(WORDS.to_owned());
    }
    match key {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems.into_iter()
}
