//! What happens to metadata when an object is created.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/registry/rest/create.go`, `pkg/registry/rest/meta.go`.

use serde_json::{Map, Value};

use super::text;
use crate::status::Status;

/// The characters that generated names end in. No vowels, so no words.
pub const GENERATED_CHARACTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
/// How many random characters a generated name ends in.
pub const GENERATED_LENGTH: usize = 5;
/// A generated name is at most as long as a label of DNS.
const MAX_PREFIX: usize = 63 - GENERATED_LENGTH;

/// The name for a prefix, given its random end.
pub fn generate_name(prefix: &str, random: &str) -> String {
    let mut end = prefix.len().min(MAX_PREFIX);
    // Go cuts bytes. Names with other than ASCII are refused afterwards, so that this cut need not be the
    // same.
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{random}", &prefix[..end])
}

/// Forgets what only the server may set.
pub fn clear_system_fields(metadata: &mut Map<String, Value>) {
    for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// Sets the namespace of an object to that of the request, which is empty for objects outside of namespaces. An object
/// that names another one is refused.
pub fn match_namespace(metadata: &mut Map<String, Value>, namespace: &str) -> Result<(), Status> {
    let current = text::get(metadata, "namespace");
    if current == namespace {
        return Ok(());
    }
    // An object outside of namespaces loses the namespace that it names, without a word.
    if namespace.is_empty() {
        metadata.remove("namespace");
        return Ok(());
    }
    if current.is_empty() {
        metadata.insert("namespace".to_owned(), Value::from(namespace));
        return Ok(());
    }
    let words = "the namespace of the provided object does not match the namespace sent on the request";
    Err(Status::bad_request(words))
}
