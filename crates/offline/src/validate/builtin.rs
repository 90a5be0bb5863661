//! Kubernetes' own kinds.

use ferroplane_api::meta;
use ferroplane_schema::builtin::{self, Cause, Scope};
use ferroplane_schema::field::Error;
use serde_json::Value;

use super::custom::as_sent;
use super::finding::{Problem, ProblemKind};
use crate::manifest::Manifest;

/// What is wrong with an object. Nothing if Kubernetes does not have the kind.
pub(super) fn check(manifest: &Manifest) -> Option<Vec<Problem>> {
    let object = manifest.object();
    let api_version = meta::api_version(object);
    let (group, version, kind) = (meta::group(api_version), meta::version(api_version), meta::kind(object));
    let known = builtin::kind(group, version, kind)?;
    let resource = builtin::resources()
        .iter()
        .find(|resource| resource.group == group && resource.version == version && resource.kind == kind);
    let is_namespaced = resource.is_none_or(|resource| resource.scope == Scope::Namespaced);
    let object = Value::Object(as_sent(object, is_namespaced));
    // Options and lists are no resources, and are not sent to an API server as objects.
    let errors = if resource.is_some() { refusals(known, &object) } else { Vec::new() };
    let findings = known.check(&object);
    // Both check the same fields. A mistake that both find is reported once, in the words of a server.
    let is_news = |finding: &&builtin::Finding| !errors.iter().any(|error| error.field == finding.field);
    let mut problems: Vec<_> =
        findings.iter().filter(is_news).map(|finding| problem(manifest, finding)).collect();
    problems.extend(errors.iter().map(|error| Problem::of(ProblemKind::Schema, manifest, error)));
    Some(problems)
}

/// What a server says to an object that it can read.
fn refusals(known: builtin::BuiltinKind, object: &Value) -> Vec<Error> {
    let Ok(mut read) = known.read(object) else { return Vec::new() };
    // A server fills it in before it validates.
    if !read.object.contains_key("metadata") {
        read.object.insert("metadata".to_owned(), Value::Object(serde_json::Map::new()));
    }
    known.default(&mut read.object);
    known.validate(&read.object)
}

fn problem(manifest: &Manifest, finding: &builtin::Finding) -> Problem {
    match &finding.cause {
        Cause::Unknown => Problem::unknown_field(ProblemKind::UnknownField, manifest, &finding.field),
        Cause::Type { words, .. } => {
            let message = format!("{}: {words}", finding.field);
            Problem::new(ProblemKind::Schema, manifest, &finding.field, message)
        }
        Cause::Value(error) => Problem::of(ProblemKind::Schema, manifest, error),
    }
}
