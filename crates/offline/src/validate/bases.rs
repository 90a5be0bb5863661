//! The bases that patches fill in: what is certainly wrong with them, however they are filled in.

use ferroplane_api::{Object, meta};
use ferroplane_schema::builtin::{self, Cause};
use ferroplane_schema::field::{ErrorKind, Path};
use ferroplane_schema::structural::CustomResource;
use serde_json::Value;

use super::finding::{Kind, Problem};
use super::kinds::Kinds;
use crate::manifest::Manifest;

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
    let errors = errors.map(|error| Problem::of(Kind::FunctionInput, manifest, error));
    let unknown = unknown
        .iter()
        .map(|field| Problem::unknown_field(Kind::FunctionInput, manifest, &format!("{at}.{field}")));
    errors.chain(unknown).collect()
}

fn check_builtin(known: builtin::Kind, base: &Object, at: &str, manifest: &Manifest) -> Vec<Problem> {
    let findings = known.check(&Value::Object(base.clone()));
    let problem = |finding: &builtin::Finding| {
        let field = format!("{at}.{}", finding.field);
        match &finding.cause {
            Cause::Unknown => Some(Problem::unknown_field(Kind::FunctionInput, manifest, &field)),
            Cause::Type { words, .. } => {
                Some(Problem::new(Kind::FunctionInput, manifest, &field, format!("{field}: {words}")))
            }
            Cause::Value(_) => None,
        }
    };
    findings.iter().filter_map(problem).collect()
}
