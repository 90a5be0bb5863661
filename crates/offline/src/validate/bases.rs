//! Checks the bases of patch-and-transform, as far as patches cannot change them.

use ferroplane_api::{Object, meta};
use ferroplane_schema::builtin::{self, Cause};
use ferroplane_schema::field::{ErrorKind, Path};
use ferroplane_schema::structural::CustomResource;
use serde_json::Value;

use super::composed::{ComposedKind, UnknownKind, unknown_kind};
use super::finding::{Problem, ProblemKind};
use super::kinds::Kinds;
use super::patches::{Composite, named_of_composed, patches_of};
use crate::manifest::Manifest;

/// What is wrong with the kinds of the bases in an input of patch-and-transform, and what may be: whether they exist, and
/// whether what is made of them has a namespace if it needs one.
pub(super) fn check_kinds(
    input: &Object,
    at: &str,
    kinds: &Kinds,
    composite: Option<Composite<'_>>,
    manifest: &Manifest,
) -> (Vec<Problem>, Vec<Problem>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let resources = input.get("resources").and_then(Value::as_array);
    for (index, resource) in resources.into_iter().flatten().enumerate() {
        let Some(base) = resource.get("base").and_then(Value::as_object) else { continue };
        let place = format!("resources[{index}]");
        let problem = |field: &str, message: &str| {
            let field = format!("{at}.{place}.base.{field}");
            Problem::new(ProblemKind::FunctionInput, manifest, &field, format!("{field}: {message}"))
        };
        match unknown_kind(base, kinds) {
            Some(UnknownKind::Nowhere(message)) => errors.push(problem("apiVersion", &message)),
            Some(UnknownKind::NotGiven(message)) => warnings.push(problem("kind", &message)),
            None => {}
        }
        let needs_namespace = composite.filter(|composite| !composite.is_namespaced).zip(
            ComposedKind::of(base, kinds)
                .filter(|kind| kind.is_namespaced && !has_namespace(resource, base, &place, input)),
        );
        if let Some((composite, kind)) = needs_namespace {
            let (kind, composite) = (kind.kind, composite.kind);
            let message = format!(
                "Required value: {kind} is namespaced and {composite} is cluster scoped, so the namespace has to be set"
            );
            errors.push(problem("metadata.namespace", &message));
        }
    }
    (errors, warnings)
}

/// Whether a base has a namespace, or a patch may give it one.
fn has_namespace(template: &Value, base: &Object, place: &str, input: &Object) -> bool {
    !meta::namespace(base).is_empty()
        || patches_of(template, place, input).iter().any(|(_, patch)| may_set_namespace(patch))
}

fn may_set_namespace(patch: &Value) -> bool {
    let named = named_of_composed(patch);
    named.iter().any(|(_, path, is_set)| *is_set && ["metadata", "metadata.namespace"].contains(path))
}

/// What is wrong with the bases in an input of patch-and-transform.
pub(super) fn check(input: &Object, at: &str, kinds: &Kinds, manifest: &Manifest) -> Vec<Problem> {
    let resources = input.get("resources").and_then(Value::as_array);
    let mut problems = Vec::new();
    for (index, resource) in resources.into_iter().flatten().enumerate() {
        let Some(base) = resource.get("base").and_then(Value::as_object) else { continue };
        let at = format!("{at}.resources[{index}].base");
        let api_version = meta::api_version(base);
        let (group, version, kind) = (meta::group(api_version), meta::version(api_version), meta::kind(base));
        if let Some(resource) = kinds.find(group, kind).and_then(|known| known.resource(version)) {
            problems.extend(check_custom(resource, base, &at, manifest));
        } else if let Some(known) = builtin::kind(group, version, kind) {
            problems.extend(check_builtin(known, base, &at, manifest));
        }
    }
    problems
}

/// What is missing, too short or not allowed may yet be patched. Fields that are unknown and values of other types
/// stay what they are.
fn check_custom(resource: &CustomResource, base: &Object, at: &str, manifest: &Manifest) -> Vec<Problem> {
    let mut base = base.clone();
    let unknown =
        if resource.preserves_unknown_fields { Vec::new() } else { resource.schema.prune(&mut base) };
    resource.schema.drop_nulls(&mut base);
    let errors = resource.schema.validate(&Value::Object(base), &Path::new(at));
    let errors = errors.iter().filter(|error| error.kind == ErrorKind::TypeInvalid);
    let errors = errors.map(|error| Problem::of(ProblemKind::FunctionInput, manifest, error));
    let unknown = unknown
        .iter()
        .map(|field| Problem::unknown_field(ProblemKind::FunctionInput, manifest, &format!("{at}.{field}")));
    errors.chain(unknown).collect()
}

fn check_builtin(known: builtin::BuiltinKind, base: &Object, at: &str, manifest: &Manifest) -> Vec<Problem> {
    let findings = known.check(&Value::Object(base.clone()));
    let problem = |finding: &builtin::Finding| {
        let field = format!("{at}.{}", finding.field);
        match &finding.cause {
            Cause::Unknown => Some(Problem::unknown_field(ProblemKind::FunctionInput, manifest, &field)),
            Cause::Type { words, .. } => {
                Some(Problem::new(ProblemKind::FunctionInput, manifest, &field, format!("{field}: {words}")))
            }
            Cause::Value(_) => None,
        }
    };
    findings.iter().filter_map(problem).collect()
}
