//! Redacts the values of sensitive fields.

use ferroplane_api::Object;
use ferroplane_engine::changes::{Change, REDACTED, compare};
use ferroplane_recorder::SensitiveFields;
use serde_json::Value;

/// A value that no object has.
const MARKER: &str = "\u{0}sensitive\u{0}";

/// Redact sensitive fields in a change of a composite resource.
pub(super) fn redact(
    change: &mut Change,
    fields: &SensitiveFields,
    before: Option<&Object>,
    after: Option<&Object>,
) {
    let mut paths = sensitive_paths(fields, before);
    paths.extend(sensitive_paths(fields, after));
    for field in &mut change.fields {
        // A value that is replaced as a whole may contain one.
        let is_sensitive = |path: &String| path.starts_with(&field.path);
        if paths.iter().any(is_sensitive) {
            for value in [&mut field.before, &mut field.after].into_iter().flatten() {
                *value = REDACTED.into();
            }
        }
    }
}

fn sensitive_paths(fields: &SensitiveFields, object: Option<&Object>) -> Vec<String> {
    let Some(object) = object else { return Vec::new() };
    let mut marked = Value::Object(object.clone());
    fields.mark(&mut marked, MARKER);
    let Value::Object(marked) = marked else { return Vec::new() };
    let is_marked = |value: &Option<Value>| value.as_ref().and_then(Value::as_str) == Some(MARKER);
    let found = compare(None, Some(&marked)).into_iter().filter(|field| is_marked(&field.after));
    found.map(|field| field.path).collect()
}
