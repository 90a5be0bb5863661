//! Validates custom resources.

use ferroplane_api::{Object, keys, meta};
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::structural::{Coercion, CustomResource};
use serde_json::Value;

use super::finding::{Problem, ProblemKind};
use crate::manifest::Manifest;

/// What is wrong with an object.
///
/// Rules are tried even if there are other mistakes: a user who corrects them all at once is done sooner. Rules that
/// compare with what was before have nothing to compare with.
pub(super) fn check(resource: &CustomResource, manifest: &Manifest) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut object = as_sent(manifest.object(), resource.is_namespaced);
    let unknown = match resource.admit(&mut object, Coercion::Strict) {
        Ok(unknown) => unknown,
        Err(refusal) => {
            problems.push(Problem::new(ProblemKind::Schema, manifest, "metadata", refusal.to_string()));
            // Once more, with the bad metadata dropped: the user should see what else is wrong, too.
            object = as_sent(manifest.object(), resource.is_namespaced);
            match resource.admit(&mut object, Coercion::Dropping) {
                Ok(unknown) => unknown,
                Err(_) => return problems,
            }
        }
    };
    let object = Value::Object(object);
    let errors = resource.validate_shape(&object);
    let is_sound = errors.is_empty();
    problems.extend(errors.iter().map(|error| Problem::of(ProblemKind::Schema, manifest, error)));
    problems.extend(
        unknown.iter().map(|field| Problem::unknown_field(ProblemKind::UnknownField, manifest, field)),
    );
    let errors = resource.schema.validate_rules(&object, None, &Path::NIL);
    let errors = errors.iter().filter(|error| is_sound || !is_unevaluated(error));
    problems.extend(errors.map(|error| Problem::of(ProblemKind::Cel, manifest, error)));
    problems
}

/// A rule that cannot be evaluated says nothing new about an object that is not what the rule takes it for.
fn is_unevaluated(error: &Error) -> bool {
    [" evaluating rule: ", " for rule: "].iter().any(|words| error.detail.contains(words))
}

/// The object as it would be sent: with a namespace if it needs one, and without one if it must not have any. A name
/// that is going to be made up is there.
pub(super) fn as_sent(object: &Object, is_namespaced: bool) -> Object {
    let mut object = object.clone();
    let is_composed = !meta::annotation(&object, keys::RESOURCE_NAME).is_empty();
    let prefix = meta::generate_name(&object).to_owned();
    let needs_name = meta::name(&object).is_empty() && (is_composed || !prefix.is_empty());
    let needs_namespace = is_namespaced && meta::namespace(&object).is_empty();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        if needs_name && metadata.get("name").is_none_or(|name| name.is_null() || name == "") {
            metadata.insert("name".to_owned(), format!("{prefix}xxxxx").into());
        }
        if needs_namespace && metadata.get("namespace").is_none_or(|it| it.is_null() || it == "") {
            metadata.insert("namespace".to_owned(), "default".into());
        }
        if !is_namespaced && metadata.get("namespace").is_some_and(Value::is_string) {
            metadata.remove("namespace");
        }
    }
    object
}
