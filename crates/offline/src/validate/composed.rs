//! Kinds of composed resources, as far as patches and bases are checked against them.

use ferroplane_api::{Object, meta};
use ferroplane_schema::builtin::{self, Cause, Scope};
use ferroplane_schema::structural::Props;
use serde_json::{Map, Value};

use super::kinds::Kinds;
use super::patches;

/// A kind of composed resource that is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComposedKind<'k> {
    pub(super) kind: &'k str,
    pub(super) is_namespaced: bool,
    schema: KindSchema<'k>,
}

#[derive(Debug, Clone, Copy)]
enum KindSchema<'k> {
    Custom(&'k Props),
    BuiltIn(builtin::BuiltinKind),
}

/// What is wrong with the kind of a base.
pub(super) enum UnknownKind {
    /// No API server has it.
    Nowhere(String),
    /// It is not among what is given, which may not be all that there is.
    NotGiven(String),
}

impl<'k> ComposedKind<'k> {
    /// The kind of a base, if it is known.
    pub(super) fn of(base: &'k Object, kinds: &'k Kinds) -> Option<Self> {
        let (api_version, kind) = (meta::api_version(base), meta::kind(base));
        let (group, version) = (meta::group(api_version), meta::version(api_version));
        if let Some(known) = kinds.find(group, kind) {
            let schema = KindSchema::Custom(known.definition.schema(version)?);
            return Some(Self { kind, is_namespaced: known.definition.scope == "Namespaced", schema });
        }
        let known = builtin::kind(group, version, kind)?;
        let resource = builtin::resources()
            .iter()
            .find(|it| it.group == group && it.version == version && it.kind == kind)?;
        let is_namespaced = resource.scope == Scope::Namespaced;
        Some(Self { kind, is_namespaced, schema: KindSchema::BuiltIn(known) })
    }

    /// The part of a path up to the first field that the kind does not have, if there is one.
    pub(super) fn missing<'p>(&self, path: &'p str) -> Option<&'p str> {
        match self.schema {
            KindSchema::Custom(schema) => patches::missing(schema, path),
            KindSchema::BuiltIn(kind) => missing_builtin(kind, path),
        }
    }
}

/// Kubernetes' own kinds are asked with an object that has nothing but the field.
fn missing_builtin(kind: builtin::BuiltinKind, path: &str) -> Option<&str> {
    let steps = patches::steps(path);
    let is_ours = |name: &str| ["apiVersion", "kind", "metadata"].contains(&name);
    if steps.iter().any(|(step, _)| *step == "*") || steps.first().is_none_or(|(step, _)| is_ours(step)) {
        return None;
    }
    let is_missing = |count: usize| {
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), api_version(kind).into());
        object.insert("kind".to_owned(), kind.name().into());
        // Null fits every type, so that only the names on the way are judged.
        let nested = steps[1..count].iter().rev().fold(Value::Null, |inner, (step, _)| wrap(step, inner));
        object.insert(steps[0].0.to_owned(), nested);
        let is_unknown = |finding: &builtin::Finding| matches!(finding.cause, Cause::Unknown);
        kind.check(&Value::Object(object)).iter().any(is_unknown)
    };
    let count = (1..=steps.len()).find(|count| is_missing(*count))?;
    path.get(..steps[count - 1].1)
}

fn api_version(kind: builtin::BuiltinKind) -> String {
    if kind.group().is_empty() {
        kind.version().to_owned()
    } else {
        format!("{}/{}", kind.group(), kind.version())
    }
}

fn wrap(step: &str, inner: Value) -> Value {
    if step.bytes().all(|byte| byte.is_ascii_digit()) {
        return Value::Array(vec![inner]);
    }
    let mut object = Map::new();
    object.insert(step.to_owned(), inner);
    Value::Object(object)
}

/// What is wrong with the kind of a base, if anything is.
pub(super) fn unknown_kind(base: &Object, kinds: &Kinds) -> Option<UnknownKind> {
    let (api_version, kind) = (meta::api_version(base), meta::kind(base));
    if api_version.is_empty() || kind.is_empty() {
        return None;
    }
    let (group, version) = (meta::group(api_version), meta::version(api_version));
    if let Some(known) = kinds.find(group, kind) {
        let versions = known.versions();
        let is_there = versions.contains(&version);
        let message = || format!("{kind} ({group}) has no version {version}, only {}", versions.join(", "));
        return (!is_there).then(|| UnknownKind::Nowhere(message()));
    }
    if builtin::kind(group, version, kind).is_some() {
        return None;
    }
    let built_in: Vec<_> = builtin::resources().iter().filter(|it| it.group == group).collect();
    if !built_in.is_empty() {
        let others: Vec<_> = built_in.iter().filter(|it| it.kind == kind).map(|it| it.version).collect();
        let others =
            if others.is_empty() { String::new() } else { format!(", only in {}", others.join(", ")) };
        return Some(UnknownKind::Nowhere(format!("Kubernetes has no kind {kind} in {api_version}{others}")));
    }
    if kinds.is_group_of_ours(group) {
        return Some(UnknownKind::Nowhere(format!("there is no kind {kind} in {api_version}")));
    }
    let is_given = kinds.has_group(group);
    is_given.then(|| {
        UnknownKind::NotGiven(format!("no {}CRD or XRD defines {kind} ({group})", kinds.given_word()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_kubernetes_own_kinds_are_known() {
        let deployment = builtin::kind("apps", "v1", "Deployment").unwrap();
        for (path, expected) in [
            ("spec.replicas", None),
            ("spec.template.spec.containers[0].image", None),
            ("metadata.labels[a.b/c]", None),
            ("spec.template.metadata.labels[app]", None),
            ("spec.replica", Some("spec.replica")),
            ("spec.template.spec.containers[0].imag.x", Some("spec.template.spec.containers[0].imag")),
            ("data.key", Some("data")),
        ] {
            assert_eq!(missing_builtin(deployment, path), expected, "{path}");
        }
        let config_map = builtin::kind("", "v1", "ConfigMap").unwrap();
        assert_eq!(missing_builtin(config_map, "data.key"), None);
        assert_eq!(missing_builtin(config_map, "data[a.b]"), None);
    }
}
