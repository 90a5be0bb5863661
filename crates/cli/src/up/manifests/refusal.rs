//! Locates the errors of the API server about an object in the lines of its file.

use ferroplane_client::{Error, StatusError};

use super::{Located, Manifest};

/// An error with its location.
pub(super) fn locate(error: &Error, manifest: &Manifest) -> Vec<Located> {
    let Error::Refused(status) = error else {
        return vec![manifest.error(&["metadata", "name"], error.to_string())];
    };
    let located: Vec<_> = status
        .causes
        .iter()
        .filter(|cause| !cause.field.is_empty())
        .map(|cause| at(manifest, &cause.field, format!("{}: {}", cause.field, cause.message)))
        .collect();
    if located.is_empty() {
        vec![at(manifest, field_in(&status.message), status.message.clone())]
    } else {
        located
    }
}

/// Whose fields are taken over.
pub(super) fn conflicts(status: &StatusError, manifest: &Manifest) -> Vec<Located> {
    let told = status.causes.iter().map(|cause| {
        let words = format!("{}: {}; the value of the file is applied", cause.field, cause.message);
        at(manifest, &cause.field, words)
    });
    told.collect()
}

fn at(manifest: &Manifest, field: &str, words: String) -> Located {
    Located::new(manifest.source(), Some(manifest.line_at(field)), words)
}

/// The field that a message is about: that of `unknown field "spec.nme"` and of `…: .spec.replicas: expected …`. Without one,
/// it is about the object.
fn field_in(message: &str) -> &str {
    let quoted = message.split_once("field \"").and_then(|(_, rest)| rest.split_once('"'));
    let bare = || message.split(": ").map(str::trim).find(|part| part.starts_with('.'));
    quoted.map(|(field, _)| field).or_else(bare).unwrap_or("metadata.name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_is_found_in_what_the_server_says() {
        for (message, field) in [
            ("strict decoding error: unknown field \"spec.mood\"", "spec.mood"),
            ("cannot (a/b; v1, Kind=App): .spec.list[0].size: expected numeric", ".spec.list[0].size"),
            ("namespaces \"x\" not found", "metadata.name"),
        ] {
            assert_eq!(field_in(message), field);
        }
    }
}
