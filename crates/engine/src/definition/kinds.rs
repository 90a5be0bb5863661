//! The kinds that a `CompositeResourceDefinition` defines, and how an existing definition is adopted.

use ferroplane_api::{Object, Scope, crds, keys, meta};
use serde_json::Value;

use super::{CATEGORIES, Underivable, claim_definition, composite_definition, scope, spec, text};

/// A kind that a definition defines.
#[derive(Debug, Clone, PartialEq)]
pub struct Defined {
    /// The version that compositions refer to.
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub is_namespaced: bool,
    /// Its `CustomResourceDefinition`.
    pub definition: Object,
}

/// An object that something else controls.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    #[error("the {kind} `{name}` is controlled by {owner_kind} `{owner}`")]
    Controlled { kind: String, name: String, owner_kind: String, owner: String },
    /// A user who may write definitions could otherwise change and delete kinds that an administrator made.
    #[error(
        "the CustomResourceDefinition `{name}` was not made from a CompositeResourceDefinition; to let this definition take it over, \
         annotate the CustomResourceDefinition with `{}: \"true\"`",
        keys::ADOPT
    )]
    Foreign { name: String },
}

/// The group of the kind that an object defines: a `CompositeResourceDefinition`, a `CustomResourceDefinition` or a
/// `ManagedResourceDefinition`. Empty if it does not say.
pub fn defined_group(definition: &Object) -> &str {
    definition.get("spec").and_then(|spec| spec.get("group")?.as_str()).unwrap_or_default()
}

/// Whether a group belongs to Kubernetes or to the control plane. A definition in one of them could replace a kind that decides what
/// the plane does, or gain rights on it.
pub fn is_reserved_group(group: &str) -> bool {
    // Kubernetes protects the same domains, but lets an annotation open them, which the author of a definition can write.
    let is_within =
        |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    ["k8s.io", "kubernetes.io"].into_iter().any(is_within)
        // A right on a kind in the group of all custom resources is one on every custom resource with the same plural.
        || ["", keys::FERROPLANE, keys::CUSTOM_RESOURCES, keys::META_PKG].contains(&group)
        || crds::ALL.iter().any(|crd| crd.group == group)
}

/// The kind of the composite resources.
pub fn defined_composite(xrd: &Object) -> Result<Defined, Underivable> {
    check_group(xrd)?;
    check_name(xrd)?;
    let definition = composite_definition(xrd)?;
    defined(xrd, "names", scope(xrd) == Scope::Namespaced, definition)
}

/// The kind of the claims, if there are any.
pub fn defined_claim(xrd: &Object) -> Result<Option<Defined>, Underivable> {
    let Some(definition) = claim_definition(xrd)? else { return Ok(None) };
    defined(xrd, "claimNames", true, definition).map(Some)
}

/// Update an existing definition. Fields that we do not set stay: other owners, finalizers, and the certificates of its webhook.
pub fn adopt(present: &Object, wanted: &Object, owner: &str) -> Result<Object, NotOurs> {
    refuse_another_owner(present, owner)?;
    refuse_foreign(present)?;
    let mut adopted = present.clone();
    let mut spec = wanted.get("spec").cloned().unwrap_or_default();
    // cert-manager and similar controllers inject the bundle into the CRD; removing it would break conversion until
    // they notice.
    keep_certificates(present, &mut spec);
    adopted.insert("spec".to_owned(), spec);
    let metadata = meta::child(&mut adopted, "metadata");
    for field in ["labels", "annotations"] {
        match wanted.get("metadata").and_then(|metadata| metadata.get(field)) {
            Some(entries) => metadata.insert(field.to_owned(), entries.clone()),
            None => metadata.remove(field),
        };
    }
    if let Some(controller) = meta::controller(wanted) {
        own(&mut adopted, controller);
    }
    Ok(adopted)
}

/// Make an object the controller of another one. Other owners stay.
pub(super) fn own(object: &mut Object, controller: &Object) {
    let owners =
        meta::child(object, "metadata").entry("ownerReferences").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(owners) = owners else { return };
    let controller = Value::Object(controller.clone());
    match owners.iter_mut().find(|present| present.get("uid") == controller.get("uid")) {
        Some(present) => *present = controller,
        None => owners.push(controller),
    }
}

pub(crate) fn refuse_another_owner(present: &Object, owner: &str) -> Result<(), NotOurs> {
    let Some(controller) = meta::controller(present) else { return Ok(()) };
    let text = |key: &str| controller.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text("uid") == owner {
        return Ok(());
    }
    Err(NotOurs::Controlled {
        kind: meta::kind(present).to_owned(),
        name: meta::name(present).to_owned(),
        owner_kind: text("kind"),
        owner: text("name"),
    })
}

/// A definition without a controller may be one that was made from an XRD, and was orphaned or restored from a backup. It has the category
/// and the fields of all these kinds. The category alone proves nothing: a user may have written it by hand, so that `kubectl get claim`
/// lists the kind. Nor do managed fields: a backup may leave them out.
fn refuse_foreign(present: &Object) -> Result<(), NotOurs> {
    let categories = present.get("spec").and_then(|spec| spec.get("names")?.get("categories")?.as_array());
    let has_category = categories
        .into_iter()
        .flatten()
        .any(|category| CATEGORIES.iter().any(|made_here| category == *made_here));
    let is_derived = has_category && chooses_compositions(present);
    if meta::controller(present).is_some() || is_derived || meta::annotation(present, keys::ADOPT) == "true" {
        return Ok(());
    }
    Err(NotOurs::Foreign { name: meta::name(present).to_owned() })
}

/// Whether objects of the kind choose a Composition: those of all kinds do that Crossplane and we make from XRDs.
fn chooses_compositions(definition: &Object) -> bool {
    let versions = definition.get("spec").and_then(|spec| spec.get("versions")?.as_array());
    versions.into_iter().flatten().any(|version| {
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        // Claims and composite resources of the legacy scope have the fields in `spec`, and all others below it.
        [spec, &spec["crossplane"]["properties"]].into_iter().any(|fields| {
            ["compositionRef", "compositionSelector"].iter().all(|field| fields[*field]["type"] == "object")
        })
    })
}

pub(crate) fn keep_certificates(present: &Object, spec: &mut Value) {
    const CLIENT: &str = "/conversion/webhook/clientConfig";
    let bundle = present.get("spec").and_then(|spec| spec.pointer(CLIENT)?.get("caBundle"));
    if let (Some(bundle), Some(Value::Object(client))) = (bundle, spec.pointer_mut(CLIENT)) {
        client.entry("caBundle").or_insert_with(|| bundle.clone());
    }
}

fn defined(
    xrd: &Object,
    names: &str,
    is_namespaced: bool,
    definition: Object,
) -> Result<Defined, Underivable> {
    let version = referenceable_version(xrd)?;
    let name = |field: &str| {
        let name = spec(xrd).and_then(|spec| spec.get(names)?.get(field)?.as_str());
        name.unwrap_or_default().to_owned()
    };
    let group = text(xrd, "group").unwrap_or_default();
    Ok(Defined {
        api_version: format!("{group}/{version}"),
        kind: name("kind"),
        plural: name("plural"),
        is_namespaced,
        definition,
    })
}

fn check_group(xrd: &Object) -> Result<(), Underivable> {
    let group = text(xrd, "group").unwrap_or_default();
    if !is_reserved_group(group) {
        return Ok(());
    }
    let problem =
        format!("the group `{group}` belongs to Kubernetes or to the control plane, choose another one");
    Err(Underivable { field: "spec.group".to_owned(), problem })
}

/// Check the name. The API server would refuse the derived definition, with an error about an object that the user never wrote.
fn check_name(xrd: &Object) -> Result<(), Underivable> {
    let plural = spec(xrd).and_then(|spec| spec.get("names")?.get("plural")?.as_str());
    let (plural, group) = (plural.unwrap_or_default(), text(xrd, "group").unwrap_or_default());
    let wanted = format!("{plural}.{group}");
    if meta::name(xrd) == wanted {
        return Ok(());
    }
    let problem = format!("has to be `{wanted}`, the plural and the group of what is defined");
    Err(Underivable { field: "metadata.name".to_owned(), problem })
}

/// The one version that compositions refer to.
pub fn referenceable_version(xrd: &Object) -> Result<&str, Underivable> {
    let versions = spec(xrd).and_then(|spec| spec.get("versions")?.as_array());
    let is = |version: &Value, field: &str| version.get(field) == Some(&Value::Bool(true));
    let referenceable: Vec<_> =
        versions.into_iter().flatten().filter(|version| is(version, "referenceable")).collect();
    let name =
        |version: &'_ Value| version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let refuse = |problem| Err(Underivable { field: "spec.versions".to_owned(), problem });
    match referenceable.as_slice() {
        [version] if !is(version, "served") => {
            refuse(format!("the version `{}` is referenceable and has to be served", name(version)))
        }
        [version] => Ok(version.get("name").and_then(Value::as_str).unwrap_or_default()),
        [] => refuse("one version has to be referenceable, and none is".to_owned()),
        several => {
            let names: Vec<_> = several.iter().map(|version| name(version)).collect();
            refuse(format!("one version has to be referenceable, not several: {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn xrd(versions: &Value) -> Object {
        object(&json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
            "metadata": {"name": "xs.example.org", "uid": "u"},
            "spec": {
                "group": "example.org", "scope": "LegacyCluster", "names": {"kind": "X", "plural": "xs"},
                "claimNames": {"kind": "C", "plural": "cs"}, "versions": versions,
            },
        }))
    }

    fn version(name: &str, is_referenceable: bool, is_served: bool) -> Value {
        json!({
            "name": name, "referenceable": is_referenceable, "served": is_served,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        })
    }

    #[test]
    fn the_referenceable_version_is_the_one_that_counts() {
        let xrd = xrd(&json!([version("v1", false, true), version("v2", true, true)]));
        let composite = defined_composite(&xrd).unwrap();
        assert_eq!((composite.api_version.as_str(), composite.kind.as_str()), ("example.org/v2", "X"));
        assert!(!composite.is_namespaced);
        let claim = defined_claim(&xrd).unwrap().unwrap();
        assert_eq!((claim.api_version.as_str(), claim.plural.as_str()), ("example.org/v2", "cs"));
        assert!(claim.is_namespaced);
    }

    #[test]
    fn what_an_api_server_would_refuse_is_said_of_the_field_that_is_wrong() {
        let cases = [
            (
                json!([version("v1", false, true)]),
                "spec.versions: one version has to be referenceable, and none is",
            ),
            (
                json!([version("v1", true, true), version("v2", true, true)]),
                "spec.versions: one version has to be referenceable, not several: v1, v2",
            ),
            (
                json!([version("v1", true, false)]),
                "spec.versions: the version `v1` is referenceable and has to be served",
            ),
        ];
        for (versions, words) in cases {
            assert_eq!(defined_composite(&xrd(&versions)).unwrap_err().to_string(), words);
        }
        let mut wrong = xrd(&json!([version("v1", true, true)]));
        wrong["metadata"]["name"] = json!("x.example.org");
        assert_eq!(
            defined_composite(&wrong).unwrap_err().to_string(),
            "metadata.name: has to be `xs.example.org`, the plural and the group of what is defined"
        );
    }

    /// What a version of a kind has that was made from an XRD.
    fn derived() -> Value {
        let fields = json!({"compositionRef": {"type": "object"}, "compositionSelector": {"type": "object"}});
        let spec = json!({"properties": {"crossplane": {"properties": fields}}});
        json!({"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}})
    }

    #[test]
    fn kinds_of_every_layout_are_adopted_when_nothing_controls_them_any_more() {
        let is_adopted = |mut definition: Object| {
            definition["metadata"].as_object_mut().unwrap().remove("ownerReferences");
            adopt(&definition, &Object::new(), "u").is_ok()
        };
        for scope in ["LegacyCluster", "Cluster", "Namespaced"] {
            let mut xrd = xrd(&json!([version("v1", true, true)]));
            xrd["spec"]["scope"] = json!(scope);
            assert!(is_adopted(composite_definition(&xrd).unwrap()), "{scope}");
        }
        let xrd = xrd(&json!([version("v1", true, true)]));
        assert!(is_adopted(claim_definition(&xrd).unwrap().unwrap()));
    }

    #[test]
    fn definition_is_adopted_with_what_others_gave_it() {
        let present = object(&json!({
            "metadata": {
                "name": "xs.example.org", "resourceVersion": "7", "labels": {"old": "1"}, "finalizers": ["f"],
                "ownerReferences": [{"uid": "other", "kind": "K", "name": "k"}],
            },
            "spec": {
                "group": "old", "names": {"categories": ["all", "composite"]}, "versions": [derived()],
                "conversion": {"webhook": {"clientConfig": {"caBundle": "QQ=="}}},
            },
            "status": {"storedVersions": ["v1"]},
        }));
        let wanted = object(&json!({
            "metadata": {
                "name": "xs.example.org", "annotations": {"new": "1"},
                "ownerReferences": [{"uid": "u", "controller": true}],
            },
            "spec": {"group": "new", "conversion": {"webhook": {"clientConfig": {"url": "https://a"}}}},
        }));
        let adopted = adopt(&present, &wanted, "u").unwrap();
        assert_eq!(
            Value::Object(adopted.clone()),
            json!({
                "metadata": {
                    "name": "xs.example.org", "resourceVersion": "7", "annotations": {"new": "1"}, "finalizers": ["f"],
                    "ownerReferences": [
                        {"uid": "other", "kind": "K", "name": "k"}, {"uid": "u", "controller": true},
                    ],
                },
                "spec": {
                    "group": "new",
                    "conversion": {"webhook": {"clientConfig": {"caBundle": "QQ==", "url": "https://a"}}},
                },
                "status": {"storedVersions": ["v1"]},
            })
        );
        assert_eq!(adopt(&adopted, &wanted, "u").unwrap(), adopted);
    }

    #[test]
    fn definition_that_was_written_by_hand_is_taken_over_only_if_it_says_so() {
        // Neither the category nor the fields alone are proof.
        for (category, version) in
            [("all", json!({})), ("claim", json!({})), ("composite", json!({})), ("all", derived())]
        {
            let mut present = object(&json!({
                "metadata": {"name": "xs.example.org"}, "spec": {"names": {"categories": [category]}, "versions": [version]},
            }));
            let refusal = adopt(&present, &Object::new(), "u").unwrap_err().to_string();
            assert!(
                refusal.contains("annotate the CustomResourceDefinition with `ferroplane.io/adopt"),
                "{category}: {refusal}"
            );
            meta::set_annotation(&mut present, keys::ADOPT, "true");
            assert!(adopt(&present, &Object::new(), "u").is_ok());
        }
    }

    #[test]
    fn groups_of_kubernetes_and_of_the_control_plane_are_not_for_definitions() {
        let of_kubernetes = ["rbac.authorization.k8s.io", "k8s.io", "node.kubernetes.io"];
        let of_ours = ["custom-resources.ferroplane.io", "ferroplane.io", "meta.pkg.crossplane.io"];
        let of_others = ["not-k8s.io", "k8s.io.example.org", "demo.ferroplane.io", "example.org"];
        assert!(!of_others.into_iter().any(is_reserved_group));
        for group in crds::ALL.iter().map(|crd| crd.group).chain(of_kubernetes).chain(of_ours) {
            let mut definition = xrd(&json!([version("v1", true, true)]));
            definition["spec"]["group"] = json!(group);
            definition["metadata"]["name"] = json!(format!("xs.{group}"));
            let refusal = defined_composite(&definition).unwrap_err().to_string();
            assert!(refusal.starts_with("spec.group: the group"), "{refusal}");
        }
    }

    #[test]
    fn definition_of_somebody_else_is_left_alone() {
        let owner = json!({"uid": "other", "kind": "Provider", "name": "p", "controller": true});
        let present = object(&json!({
            "kind": "CustomResourceDefinition", "metadata": {"name": "xs.example.org", "ownerReferences": [owner]},
        }));
        let refusal = adopt(&present, &Object::new(), "u").unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the CustomResourceDefinition `xs.example.org` is controlled by Provider `p`"
        );
    }
}
