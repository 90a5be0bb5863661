//! The rights for the kinds of a definition: four `ClusterRole`s, which other roles aggregate by their labels.
//!
//! Their names and labels are Crossplane's, so that roles that aggregate them continue to do so.

use ferroplane_api::{Object, keys, meta};
use serde_json::{Map, Value, json};

use super::kinds::{NotOurs, own, refuse_another_owner};
use super::{spec, text};

const PREFIX: &str = "crossplane:composite:";
const GATHERED: &str = "rbac.crossplane.io/aggregate-to-";
const ALL: &[&str] = &["*"];
const READ: &[&str] = &["get", "list", "watch"];

/// The `ClusterRole`s of a definition, for those of its kinds whose `CustomResourceDefinition`s it controls. A user who may write
/// definitions must not gain rights on other kinds by naming them: neither those of Kubernetes, nor an administrator's, nor all of a
/// group with the plural `*`. The definition's own status does not count, because its author can write it.
pub fn cluster_roles(xrd: &Object, controls: impl Fn(&str) -> bool) -> Vec<Object> {
    let group = text(xrd, "group").unwrap_or_default();
    let plural = |names: &str| {
        let plural = spec(xrd).and_then(|spec| spec.get(names)?.get("plural")?.as_str())?;
        controls(&format!("{plural}.{group}")).then_some(plural)
    };
    let composites = plural("names");
    let both: Vec<_> = composites.into_iter().chain(plural("claimNames")).collect();
    if both.is_empty() {
        return Vec::new();
    }
    let objects = |plural: &str, verbs: &[&str]| rule(group, &[plural, &format!("{plural}/status")], verbs);
    let rules =
        |plurals: &[&str], verbs: &[&str]| plurals.iter().map(|plural| objects(plural, verbs)).collect();
    let system = both.iter().flat_map(|plural| {
        // `OwnerReferencesPermissionEnforcement` requires this right before an owner may block deletion.
        let finalizers = rule(group, &[&format!("{plural}/finalizers")], &["update"]);
        [objects(plural, ALL), finalizers]
    });
    let only_composites: Vec<_> = composites.into_iter().collect();
    [
        ("crossplane", &["crossplane"][..], system.collect()),
        ("edit", &["admin", "ns-admin", "edit", "ns-edit"], rules(&both, ALL)),
        ("view", &["view", "ns-view"], rules(&both, READ)),
        // Claims are left out, as in Crossplane: they belong to namespaces, and this role is for the cluster.
        ("browse", &["browse"], rules(&only_composites, READ)),
    ]
    .into_iter()
    .map(|(name, gathered_by, rules)| role(xrd, name, gathered_by, rules))
    .collect()
}

/// The `ClusterRole`s that aggregate those of definitions, with the other rights that their users need.
pub fn standing_roles() -> Vec<Object> {
    let mut roles = Vec::new();
    for (name, rules) in standing_rules() {
        let label = format!("{GATHERED}{name}");
        let mut gatherer = blank(&format!("crossplane-{name}"));
        let selectors = json!([{"matchLabels": {label.as_str(): "true"}}]);
        gatherer.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": selectors}));
        let mut base = blank(&format!("crossplane:aggregate-to-{name}"));
        meta::set_label(&mut base, &label, "true");
        base.insert("rules".to_owned(), Value::Array(rules));
        roles.extend([gatherer, base]);
    }
    roles
}

fn standing_rules() -> [(&'static str, Vec<Value>); 4] {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let ours = |verbs: &[&str]| {
        let groups = [keys::APIEXTENSIONS, keys::PKG, keys::PROTECTION, keys::OPS];
        json!({"apiGroups": groups, "resources": ["*"], "verbs": verbs})
    };
    let events = rule("", &["events"], READ);
    let admin = vec![
        events.clone(),
        rule("", &["secrets", "namespaces"], ALL),
        rule(RBAC, &["clusterroles", "roles"], READ),
        rule(RBAC, &["clusterrolebindings", "rolebindings"], ALL),
        ours(ALL),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], READ),
    ];
    let namespaces = rule("", &["namespaces"], READ);
    let edit = vec![events.clone(), rule("", &["secrets"], ALL), namespaces.clone(), ours(ALL)];
    let view = vec![events.clone(), namespaces, ours(READ)];
    let browse = vec![events, rule(keys::APIEXTENSIONS, &["*"], READ)];
    [("admin", admin), ("edit", edit), ("view", view), ("browse", browse)]
}

/// The definition that a `ClusterRole` of this name belongs to.
pub fn definition_of_role(name: &str) -> Option<&str> {
    // Split from the right, because the part before is a name that a user chose.
    let (definition, role) = name.strip_prefix(PREFIX)?.rsplit_once(':')?;
    role.starts_with("aggregate-to-").then_some(definition)
}

/// Update an existing `ClusterRole`: it gets our labels and rules, and keeps everything else.
pub fn adopt_role(present: &Object, wanted: &Object) -> Result<Object, NotOurs> {
    refuse_another_owner(present, meta::controller_uid(wanted).unwrap_or_default())?;
    let mut adopted = present.clone();
    adopted.insert("rules".to_owned(), wanted.get("rules").cloned().unwrap_or_default());
    let labels = wanted.get("metadata").and_then(|metadata| metadata.get("labels")?.as_object());
    for (key, value) in labels.into_iter().flatten() {
        meta::set_label(&mut adopted, key, value.as_str().unwrap_or_default());
    }
    if let Some(controller) = meta::controller(wanted) {
        own(&mut adopted, controller);
    }
    Ok(adopted)
}

fn role(xrd: &Object, name: &str, gathered_by: &[&str], rules: Vec<Value>) -> Object {
    let mut role = blank(&format!("{PREFIX}{}:aggregate-to-{name}", meta::name(xrd)));
    role.insert("rules".to_owned(), Value::Array(rules));
    for gatherer in gathered_by {
        meta::set_label(&mut role, &format!("{GATHERED}{gatherer}"), "true");
    }
    let mut owner = xrd.clone();
    owner.insert("apiVersion".to_owned(), format!("{}/v1", keys::APIEXTENSIONS).into());
    meta::set_controller(&mut role, &owner);
    role
}

fn blank(name: &str) -> Object {
    let mut role = Map::from_iter([
        ("apiVersion".to_owned(), "rbac.authorization.k8s.io/v1".into()),
        ("kind".to_owned(), "ClusterRole".into()),
    ]);
    meta::set_field(&mut role, "name", name);
    role
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xrd(has_claims: bool) -> Object {
        let mut xrd = json!({
            "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
            "metadata": {"name": "xs.example.org", "uid": "u"},
            "spec": {"group": "example.org", "names": {"plural": "xs"}},
        });
        if has_claims {
            xrd["spec"]["claimNames"] = json!({"plural": "cs"});
        }
        xrd.as_object().unwrap().clone()
    }

    /// The roles of a definition that controls everything that it names.
    fn all_roles(xrd: &Object) -> Vec<Object> {
        cluster_roles(xrd, |_| true)
    }

    fn summary(role: &Object) -> Value {
        json!({
            "name": meta::name(role), "labels": role["metadata"]["labels"].as_object().unwrap().keys().collect::<Vec<_>>(),
            "rules": role["rules"].as_array().unwrap().iter().map(|rule| {
                let words = |field: &str| {
                    let words: Vec<_> = rule[field].as_array().unwrap().iter().filter_map(Value::as_str).collect();
                    words.join(",")
                };
                format!("{} {} {}", words("verbs"), words("apiGroups"), words("resources"))
            }).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn definition_has_four_roles_that_others_gather() {
        let roles: Vec<_> = all_roles(&xrd(true)).iter().map(summary).collect();
        let label = |name: &str| format!("rbac.crossplane.io/aggregate-to-{name}");
        assert_eq!(
            Value::Array(roles),
            json!([
                {
                    "name": "crossplane:composite:xs.example.org:aggregate-to-crossplane", "labels": [label("crossplane")],
                    "rules": [
                        "* example.org xs,xs/status", "update example.org xs/finalizers",
                        "* example.org cs,cs/status", "update example.org cs/finalizers",
                    ],
                },
                {
                    "name": "crossplane:composite:xs.example.org:aggregate-to-edit",
                    "labels": [label("admin"), label("edit"), label("ns-admin"), label("ns-edit")],
                    "rules": ["* example.org xs,xs/status", "* example.org cs,cs/status"],
                },
                {
                    "name": "crossplane:composite:xs.example.org:aggregate-to-view",
                    "labels": [label("ns-view"), label("view")],
                    "rules": ["get,list,watch example.org xs,xs/status", "get,list,watch example.org cs,cs/status"],
                },
                {
                    "name": "crossplane:composite:xs.example.org:aggregate-to-browse", "labels": [label("browse")],
                    "rules": ["get,list,watch example.org xs,xs/status"],
                },
            ])
        );
        let claimless: Vec<_> = all_roles(&xrd(false)).iter().map(|role| role["rules"].clone()).collect();
        assert!(!json!(claimless).to_string().contains("cs"), "{claimless:?}");
    }

    #[test]
    fn naming_a_kind_gives_no_rights_on_it() {
        assert!(cluster_roles(&xrd(true), |_| false).is_empty());
        let only_composites = cluster_roles(&xrd(true), |name| name == "xs.example.org");
        assert_eq!(only_composites, all_roles(&xrd(false)));
        let mut greedy = xrd(true);
        greedy["spec"]["names"]["plural"] = json!("*");
        let roles = cluster_roles(&greedy, |name| ["xs.example.org", "cs.example.org"].contains(&name));
        let granted = json!(roles.iter().map(|role| &role["rules"]).collect::<Vec<_>>());
        assert!(!granted.to_string().contains("\"*/status\""), "{granted}");
    }

    #[test]
    fn role_is_adopted_with_the_labels_that_others_gave_it() {
        let wanted = &all_roles(&xrd(false))[3];
        let present = json!({"metadata": {"labels": {"theirs": "1"}, "resourceVersion": "7"}, "rules": []});
        let adopted = adopt_role(present.as_object().unwrap(), wanted).unwrap();
        assert_eq!(adopted["rules"], wanted["rules"]);
        assert_eq!(
            adopted["metadata"]["labels"],
            json!({"theirs": "1", "rbac.crossplane.io/aggregate-to-browse": "true"})
        );
        assert_eq!(meta::controller_uid(&adopted), Some("u"));
        assert_eq!(adopt_role(&adopted, wanted).unwrap(), adopted);
        let other = &all_roles(&{
            let mut other = xrd(false);
            other["metadata"]["uid"] = json!("v");
            other
        })[3];
        assert!(adopt_role(&adopted, other).is_err());
    }

    #[test]
    fn standing_roles_gather_what_comes_with_definitions() {
        let standing = standing_roles();
        assert_eq!(standing.len(), 8);
        for gatherer in standing.iter().filter(|role| role.contains_key("aggregationRule")) {
            let selector = &gatherer["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"];
            let labels = |role: &Object| role["metadata"]["labels"].clone();
            let gathers = |role: &Object| {
                let label = selector.as_object().unwrap().keys().next().unwrap();
                labels(role)[label] == "true"
            };
            assert!(all_roles(&xrd(true)).iter().any(gathers), "{selector}");
            let others = standing.iter().filter(|role| !role.contains_key("aggregationRule"));
            assert_eq!(others.filter(|role| gathers(role)).count(), 1, "{selector}");
        }
    }

    #[test]
    fn roles_know_their_definition() {
        for role in all_roles(&xrd(true)) {
            assert_eq!(definition_of_role(meta::name(&role)), Some("xs.example.org"));
        }
        for name in ["crossplane-admin", "crossplane:composite:", "crossplane:composite:a:b", "edit"] {
            assert_eq!(definition_of_role(name), None, "{name}");
        }
    }
}
