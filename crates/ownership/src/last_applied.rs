//! Takes over from `kubectl apply`, which notes in an annotation what it applied.
//!
//! Follows apimachinery 0.36.4, `pkg/util/managedfields/internal/lastappliedmanager.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::conflict::Taken;
use super::{Request, VersionedKind};
use crate::merge::compare::compare;
use crate::merge::fieldset::field_set;
use crate::merge::is_too_deep;
use crate::merge::set::Set;
use crate::merge::text::push_json_object;
use crate::merge::validate::{Duplicates, validate};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The one manager that takes over. To stay out of this, use another name.
pub(super) const MANAGER: &str = "kubectl";
// The limit of the API server on all annotations together (`TotalAnnotationSizeLimitB`).
const MAX_ANNOTATIONS: usize = 256 << 10;

/// The fields that may be taken in spite of conflicts: those that are as they were applied on the client.
pub(super) fn allowed(
    live: &JsonObject,
    kind: &VersionedKind,
    request: &Request<'_>,
) -> Option<Set<'static>> {
    let shape = kind.shape(request.api_version)?;
    validate(live, shape, Duplicates::Refused).ok()?;
    let applied: JsonObject = serde_json::from_str(annotation(live)?).ok()?;
    let text = |name: &str| applied.get(name).and_then(Value::as_str);
    // What was applied in another version cannot be compared without converting it, which upstream does not
    // do here.
    if text("apiVersion") != Some(request.api_version) || text("kind") != Some(&kind.name) {
        return None;
    }
    if is_too_deep(&applied) {
        return None;
    }
    validate(&applied, shape, Duplicates::Refused).ok()?;
    let mut fields = field_set(&applied, shape);
    let comparison = compare(&applied, live, shape).ok()?;
    for other in [&comparison.modified, &comparison.added, &comparison.removed] {
        // What a client changed since is no longer what `kubectl` applied, and stays a conflict.
        fields.subtract(other);
    }
    Some(fields.into_owned())
}

/// Whether all conflicts are about fields that may be taken.
pub(super) fn covers(allowed: &Set<'_>, taken: &Taken<'_>) -> bool {
    taken.iter().all(|(_, fields)| {
        let mut is_covered = true;
        fields.for_each(&mut |path| is_covered &= allowed.contains(path));
        is_covered
    })
}

/// The annotation of an object whose annotations are all text.
fn annotation(object: &JsonObject) -> Option<&str> {
    let annotations = annotations(object)?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

fn annotations(object: &JsonObject) -> Option<&JsonObject> {
    let annotations = object.get("metadata")?.get("annotations")?.as_object()?;
    // Go reads annotations as a map of texts: with one that is none, there are no annotations at all.
    annotations.values().all(|text| text.is_string() || text.is_null()).then_some(annotations)
}

/// Annotations are written back as they were read: as text.
fn make_texts(annotations: &mut JsonObject) {
    for text in annotations.values_mut().filter(|text| text.is_null()) {
        *text = "".into();
    }
}

/// Keeps the annotation in step with what is applied, if there is one.
pub(super) fn follow(object: &mut JsonObject, applied: &JsonObject) {
    if annotation(object).is_none() {
        return;
    }
    let text = describe(applied);
    let annotations = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(Value::Object(annotations)) = annotations else { return };
    make_texts(annotations);
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let size = |(name, text): (&String, &Value)| name.len() + text.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > MAX_ANNOTATIONS {
        // Dropped rather than refused, as upstream does: client-side apply loses its memory, but the apply
        // succeeds.
        annotations.remove(ANNOTATION);
    }
}

/// Whether [`follow`] would change an object.
pub(super) fn is_behind(object: &JsonObject, applied: &JsonObject) -> bool {
    let has_null = || annotations(object).is_some_and(|texts| texts.values().any(Value::is_null));
    annotation(object).is_some_and(|text| has_null() || text != describe(applied))
}

fn describe(applied: &JsonObject) -> String {
    let mut applied = applied.clone();
    let is_readable = annotations(&applied).is_some();
    if let Some(Value::Object(metadata)) = applied.get_mut("metadata") {
        match metadata.get_mut("annotations") {
            Some(Value::Object(annotations)) if is_readable => {
                annotations.remove(ANNOTATION);
                make_texts(annotations);
            }
            _ => {
                // What Go cannot read is nil there, and setting nil removes it.
                metadata.remove("annotations");
            }
        }
    }
    let mut text = String::new();
    push_json_object(&mut text, &applied);
    // The encoder of Kubernetes ends documents with a line break, and `kubectl` compares the bytes.
    text.push('\n');
    text
}
