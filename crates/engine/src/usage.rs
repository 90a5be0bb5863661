//! Decides what usages protect, their conditions, and why a deletion is refused.

use ferroplane_api::{Object, UsageSelector, UsageSpec, UsageTarget, keys, meta};
use serde_json::{Value, json};

/// The object that a usage protects. The version does not matter: it is the same object in all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Used {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// The spec of a usage, if it is valid.
pub fn usage_spec(usage: &Object) -> Option<UsageSpec> {
    serde_json::from_value(usage.get("spec")?.clone()).ok()
}

/// The object that a usage protects, once it is resolved. None if it is outside of the usage's namespace.
pub fn used_by(usage: &Object) -> Option<Used> {
    let of = usage_spec(usage)?.of;
    let reference = of.reference()?;
    let namespace = usage_reach(usage, reference.namespace.as_deref())?;
    Some(Used {
        group: meta::group(&of.api_version).to_owned(),
        kind: of.kind.clone(),
        namespace: namespace.to_owned(),
        name: reference.name.clone(),
    })
}

/// The namespace of the objects that a usage refers to. A usage in a namespace refers to no other, so that a user who may write usages in
/// one cannot protect objects of others, or have them deleted. Cluster-scoped usages can refer to all namespaces.
pub fn usage_reach<'u>(usage: &'u Object, namespace: Option<&'u str>) -> Option<&'u str> {
    match (meta::namespace(usage), namespace) {
        ("", namespace) => Some(namespace.unwrap_or_default()),
        (own, None | Some("")) => Some(own),
        (own, Some(other)) => (own == other).then_some(own),
    }
}

/// Why a usage protects nothing: it refers to objects in another namespace.
pub fn out_of_namespace(usage: &Object, spec: &UsageSpec) -> Option<String> {
    let named = |target: &UsageTarget| {
        let reference = target.resource_ref.as_ref().and_then(|reference| reference.namespace.clone());
        let selector = target.resource_selector.as_ref().and_then(|selector| selector.namespace.clone());
        [reference, selector].into_iter().flatten().find(|other| usage_reach(usage, Some(other)).is_none())
    };
    let targets = [("of", Some(&spec.of)), ("by", spec.by.as_ref())];
    let (field, other) = targets.into_iter().find_map(|(field, target)| Some((field, named(target?)?)))?;
    let own = meta::namespace(usage);
    Some(format!(
        "spec.{field} is in namespace `{other}`, but a Usage reaches only its own, `{own}`; write the Usage in `{other}`"
    ))
}

/// Why a usage in a namespace protects nothing: it refers to a cluster-scoped kind.
pub fn out_of_scope(spec: &UsageSpec) -> String {
    let (kind, api_version) = (&spec.of.kind, &spec.of.api_version);
    format!(
        "{kind} in {api_version} is cluster scoped, but a Usage reaches only its own namespace; use a ClusterUsage"
    )
}

/// The object that a selector selects, among those with its labels.
pub fn choose<'o>(selector: &UsageSelector, objects: &'o [Object], usage: &Object) -> Option<&'o Object> {
    let wants_relatives = selector.match_controller_ref == Some(true);
    let is_related = |object: &&Object| {
        let controller = meta::controller_uid(object);
        // Two objects without a controller are not related.
        controller.is_some() && controller == meta::controller_uid(usage)
    };
    objects.iter().find(|object| !wants_relatives || is_related(object))
}

/// The usage with everything that the controller sets: resolved references, finalizer, details, and the using object as its owner.
pub fn configured_usage(
    usage: &Object,
    of: Option<&Object>,
    by: Option<&Object>,
    using: Option<&Object>,
) -> Object {
    let mut configured = usage.clone();
    for (field, chosen) in [("of", of), ("by", by)] {
        if let Some(chosen) = chosen {
            let mut reference = json!({"name": meta::name(chosen)});
            // Objects in the usage's own namespace need no namespace in the message.
            if meta::namespace(chosen) != meta::namespace(usage) && field == "of" {
                reference["namespace"] = meta::namespace(chosen).into();
            }
            let target = meta::child(meta::child(&mut configured, "spec"), field);
            target.insert("resourceRef".to_owned(), reference);
        }
    }
    let metadata = meta::child(&mut configured, "metadata");
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|finalizer| finalizer == keys::USAGE_FINALIZER)
    {
        finalizers.push(keys::USAGE_FINALIZER.into());
    }
    if let Some(spec) = usage_spec(&configured) {
        meta::set_annotation(&mut configured, keys::USAGE_DETAILS, &details(&spec));
    }
    if let Some(using) = using {
        add_owner(&mut configured, using);
    }
    configured
}

fn add_owner(usage: &mut Object, owner: &Object) {
    let owners = meta::child(usage, "metadata").entry("ownerReferences").or_insert_with(|| json!([]));
    let Value::Array(owners) = owners else { return };
    if owners.iter().any(|present| present["uid"] == meta::uid(owner)) {
        return;
    }
    // No `controller` here: the usage may be composed, and then has one.
    owners.push(json!({
        "apiVersion": meta::api_version(owner), "kind": meta::kind(owner), "name": meta::name(owner),
        "uid": meta::uid(owner),
    }));
}

fn details(spec: &UsageSpec) -> String {
    if let Some(reason) = spec.reason.as_ref().filter(|reason| !reason.is_empty()) {
        return reason.clone();
    }
    let of = spec.of.reference();
    let (Some(by), Some(of)) = (&spec.by, of) else { return "undefined".to_owned() };
    let details = format!("{} uses {}/{}", short(by), spec.of.kind, of.name);
    match of.namespace.as_deref() {
        None | Some("") => details,
        Some(namespace) => format!("{details} in namespace {namespace}"),
    }
}

fn short(target: &UsageTarget) -> String {
    let name = target.reference().map_or("", |reference| &reference.name);
    format!("{}/{name}", target.kind)
}

/// Why an object cannot be deleted. There is at least one usage.
pub fn in_use_message(usages: &[Object]) -> String {
    let count = usages.len();
    let others = if count == 1 { "1 usage".to_owned() } else { format!("{count} usages") };
    let Some(first) = usages.first() else { return format!("this resource is in-use by {others}") };
    let place = match meta::namespace(first) {
        "" => String::new(),
        namespace => format!(" in namespace `{namespace}`"),
    };
    let message = format!(
        "this resource is in-use by {others}, including {} `{}`{place}",
        meta::kind(first),
        meta::name(first)
    );
    let spec = usage_spec(first);
    let reason = spec.as_ref().and_then(|spec| spec.reason.as_ref()).filter(|reason| !reason.is_empty());
    match (spec.as_ref().and_then(|spec| spec.by.as_ref()), reason) {
        (Some(by), _) => format!("{message} by resource {}", short(by)),
        (None, Some(reason)) => format!("{message} with reason: {reason}"),
        (None, None) => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn usage(spec: &Value) -> Object {
        object(json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage",
            "metadata": {"name": "u", "namespace": "n"}, "spec": spec}))
    }

    fn candidate(namespace: &str, name: &str, controller: &str) -> Object {
        object(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace,
            "uid": name, "ownerReferences": [{"uid": controller, "controller": true}]}}),
        )
    }

    #[test]
    fn details_say_who_uses_what() {
        let of = json!({"kind": "Database", "resourceRef": {"name": "db"}});
        let far = json!({"kind": "Database", "resourceRef": {"name": "db", "namespace": "other"}});
        let by = json!({"kind": "App", "resourceRef": {"name": "web"}});
        let cases = [
            (json!({"of": of, "reason": "production"}), "production"),
            (json!({"of": of, "by": by}), "App/web uses Database/db"),
            (json!({"of": far, "by": by}), "App/web uses Database/db in namespace other"),
            (json!({"of": of}), "undefined"),
        ];
        for (spec, details) in cases {
            let configured = configured_usage(&usage(&spec), None, None, None);
            assert_eq!(meta::annotation(&configured, keys::USAGE_DETAILS), details);
        }
    }

    #[test]
    fn selectors_become_references() {
        let spec = json!({
            "of": {"kind": "ConfigMap", "resourceSelector": {"matchLabels": {"a": "b"}}},
            "by": {"kind": "ConfigMap", "resourceSelector": {"matchLabels": {"a": "c"}}},
        });
        let (of, by) = (candidate("other", "x", ""), candidate("n", "y", ""));
        let configured = configured_usage(&usage(&spec), Some(&of), Some(&by), Some(&by));
        assert_eq!(configured["spec"]["of"]["resourceRef"], json!({"name": "x", "namespace": "other"}));
        assert_eq!(configured["spec"]["by"]["resourceRef"], json!({"name": "y"}));
        assert_eq!(configured["metadata"]["ownerReferences"][0]["uid"], "y");
        assert_eq!(configured["metadata"]["finalizers"], json!([keys::USAGE_FINALIZER]));
        // A namespaced usage cannot refer to it.
        assert_eq!(used_by(&configured), None);
        assert_eq!(configured_usage(&configured, None, None, Some(&by)), configured);
    }

    #[test]
    fn usage_of_a_namespace_reaches_no_other_and_one_of_the_cluster_reaches_all() {
        let of = |namespace: Value| json!({"of": {"kind": "ConfigMap", "resourceRef": {"name": "x", "namespace": namespace}}});
        for (namespace, reached) in [
            (json!(null), Some("n")),
            (json!(""), Some("n")),
            (json!("n"), Some("n")),
            (json!("other"), None),
        ] {
            let usage = usage(&of(namespace));
            assert_eq!(used_by(&usage).map(|used| used.namespace).as_deref(), reached);
            let spec = usage_spec(&usage).unwrap();
            assert_eq!(out_of_namespace(&usage, &spec).is_some(), reached.is_none());
        }
        let mut wide = usage(&of(json!("other")));
        wide["metadata"] = json!({"name": "u"});
        assert_eq!(used_by(&wide).unwrap().namespace, "other");
        assert_eq!(out_of_namespace(&wide, &usage_spec(&wide).unwrap()), None);
    }

    #[test]
    fn what_uses_something_is_in_the_same_namespace_too() {
        let by = json!({"kind": "ConfigMap", "resourceSelector": {"namespace": "other", "matchLabels": {"a": "b"}}});
        let usage = usage(&json!({"of": {"kind": "ConfigMap", "resourceRef": {"name": "x"}}, "by": by}));
        let message = out_of_namespace(&usage, &usage_spec(&usage).unwrap()).unwrap();
        assert_eq!(
            message,
            "spec.by is in namespace `other`, but a Usage reaches only its own, `n`; write the Usage in `other`"
        );
    }

    #[test]
    fn selector_may_want_the_same_controller() {
        let mut owned = usage(&json!({"of": {}}));
        owned["metadata"]["ownerReferences"] = json!([{"uid": "xr", "controller": true}]);
        let objects = [candidate("n", "a", "other"), candidate("n", "b", "xr")];
        let selector = |same| UsageSelector {
            match_labels: std::collections::BTreeMap::new(),
            match_controller_ref: same,
            namespace: None,
        };
        assert_eq!(choose(&selector(None), &objects, &owned).map(meta::name), Some("a"));
        assert_eq!(choose(&selector(Some(true)), &objects, &owned).map(meta::name), Some("b"));
        assert_eq!(choose(&selector(Some(true)), &objects, &usage(&json!({"of": {}}))), None);
    }

    #[test]
    fn refusal_names_the_first_usage() {
        let of = json!({"kind": "Database", "resourceRef": {"name": "db"}});
        let by = usage(&json!({"of": of, "by": {"kind": "App", "resourceRef": {"name": "web"}}}));
        let reason = usage(&json!({"of": of, "reason": "production"}));
        assert_eq!(
            in_use_message(&[by.clone(), reason.clone()]),
            "this resource is in-use by 2 usages, including Usage `u` in namespace `n` by resource App/web"
        );
        assert!(
            in_use_message(&[reason])
                .ends_with("by 1 usage, including Usage `u` in namespace `n` with reason: production")
        );
    }
}
