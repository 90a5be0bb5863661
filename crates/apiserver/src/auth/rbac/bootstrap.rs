//! The roles and bindings that every cluster starts with.
//!
//! Names, rules and labels are those of Kubernetes, so that manifests that refer to them mean the same here. Roles for
//! nodes and for Kubernetes' own controllers are left out: there are none of either.

use serde_json::{Map, Value, json};

use super::{GROUP, Policy, RbacKind};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];
const READ_WRITE: &[&str] =
    &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const ALL: &[&str] = &["*"];
const GET: &[&str] = &["get"];
const CREATE: &[&str] = &["create"];

/// A rule as a row: verbs, groups (none means paths), resources or paths.
struct Row(&'static [&'static str], Option<&'static [&'static str]>, &'static [&'static str]);

/// A role that has rules, and the role it is aggregated to, if any.
const ROLES: &[(&str, &str, &[Row])] = &[
    ("cluster-admin", "", &[Row(ALL, Some(ALL), ALL), Row(ALL, None, ALL)]),
    (
        "system:discovery",
        "",
        &[Row(
            GET,
            None,
            &[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ],
        )],
    ),
    (
        "system:monitoring",
        "",
        &[
            Row(
                GET,
                None,
                &[
                    "/flagz",
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/metrics/slis",
                    "/readyz",
                    "/readyz/*",
                    "/statusz",
                ],
            ),
            Row(GET, Some(&[""]), &["nodes/metrics"]),
        ],
    ),
    (
        "system:basic-user",
        "",
        &[
            Row(
                CREATE,
                Some(&["authorization.k8s.io"]),
                &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            ),
            Row(CREATE, Some(&["authentication.k8s.io"]), &["selfsubjectreviews"]),
        ],
    ),
    (
        "system:public-info-viewer",
        "",
        &[Row(GET, None, &["/healthz", "/livez", "/readyz", "/version", "/version/"])],
    ),
    (
        "system:service-account-issuer-discovery",
        "",
        &[Row(
            GET,
            None,
            &[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ],
        )],
    ),
    (
        "system:auth-delegator",
        "",
        &[
            Row(CREATE, Some(&["authentication.k8s.io"]), &["tokenreviews"]),
            Row(CREATE, Some(&["authorization.k8s.io"]), &["subjectaccessreviews"]),
        ],
    ),
    ("system:aggregate-to-admin", "admin", ADMIN),
    ("system:aggregate-to-edit", "edit", EDIT),
    ("system:aggregate-to-view", "view", VIEW),
];

const ADMIN: &[Row] = &[
    Row(CREATE, Some(&["authorization.k8s.io"]), &["localsubjectaccessreviews"]),
    Row(READ_WRITE, Some(&[GROUP]), &["rolebindings", "roles"]),
];

const EDIT: &[Row] = &[
    Row(
        READ,
        Some(&[""]),
        &["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"],
    ),
    Row(&["impersonate"], Some(&[""]), &["serviceaccounts"]),
    Row(WRITE, Some(&[""]), &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
    Row(CREATE, Some(&[""]), &["pods/eviction"]),
    Row(
        WRITE,
        Some(&[""]),
        &[
            "configmaps",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    Row(CREATE, Some(&[""]), &["serviceaccounts/token"]),
    Row(WRITE, Some(&["", "events.k8s.io"]), &["events"]),
    Row(
        WRITE,
        Some(&["apps"]),
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    Row(WRITE, Some(&["autoscaling"]), &["horizontalpodautoscalers"]),
    Row(WRITE, Some(&["batch"]), &["cronjobs", "jobs"]),
    Row(
        WRITE,
        Some(&["extensions"]),
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "ingresses",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicationcontrollers/scale",
        ],
    ),
    Row(WRITE, Some(&["policy"]), &["poddisruptionbudgets"]),
    Row(WRITE, Some(&["networking.k8s.io"]), &["ingresses", "networkpolicies"]),
    Row(READ_WRITE, Some(&["coordination.k8s.io"]), &["leases"]),
    Row(WRITE, Some(&["resource.k8s.io"]), &["resourceclaims", "resourceclaimtemplates"]),
];

const VIEW: &[Row] = &[
    Row(
        READ,
        Some(&[""]),
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    Row(
        READ,
        Some(&[""]),
        &[
            "bindings",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
    ),
    Row(READ, Some(&[""]), &["namespaces"]),
    Row(READ, Some(&["", "events.k8s.io"]), &["events"]),
    Row(READ, Some(&["discovery.k8s.io"]), &["endpointslices"]),
    Row(
        READ,
        Some(&["apps"]),
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    Row(READ, Some(&["autoscaling"]), &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    Row(READ, Some(&["batch"]), &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    Row(
        READ,
        Some(&["extensions"]),
        &[
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "ingresses",
            "ingresses/status",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "replicationcontrollers/scale",
        ],
    ),
    Row(READ, Some(&["policy"]), &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    Row(READ, Some(&["networking.k8s.io"]), &["ingresses", "ingresses/status", "networkpolicies"]),
    Row(
        READ,
        Some(&["resource.k8s.io"]),
        &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"],
    ),
];

/// Roles that gather the rules of others, and the role they are aggregated to themselves.
const AGGREGATED: &[(&str, &str)] = &[("admin", ""), ("edit", "admin"), ("view", "edit")];

/// Bindings: a role of the same name, and the groups that have it.
const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["system:masters"]),
    ("system:monitoring", &["system:monitoring"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
    ("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
];

/// The objects to create where they are missing.
pub fn bootstrap_objects() -> Vec<(RbacKind, Map<String, Value>)> {
    let mut roles: Vec<_> = ROLES.iter().map(|(name, to, rows)| role(name, to, rows)).collect();
    roles.extend(AGGREGATED.iter().map(|(name, to)| aggregated(name, to)));
    // The controller that aggregates would do the same a moment later. A client that asks before must not be refused.
    fill_aggregated(&mut roles);
    let roles = roles.into_iter().map(|role| (RbacKind::ClusterRole, role));
    let bindings =
        BINDINGS.iter().map(|(name, groups)| (RbacKind::ClusterRoleBinding, binding(name, groups)));
    roles.chain(bindings).collect()
}

fn role(name: &str, aggregate_to: &str, rows: &[Row]) -> Map<String, Value> {
    let mut role = object("ClusterRole", name, aggregate_to);
    let to_json = |Row(verbs, groups, things): &Row| match groups {
        Some(groups) => json!({"verbs": verbs, "apiGroups": groups, "resources": things}),
        None => json!({"verbs": verbs, "nonResourceURLs": things}),
    };
    role.insert("rules".to_owned(), rows.iter().map(to_json).collect());
    role
}

fn aggregated(name: &str, aggregate_to: &str) -> Map<String, Value> {
    let mut role = object("ClusterRole", name, aggregate_to);
    let selector = json!({"matchLabels": {aggregation_label(name): "true"}});
    role.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": [selector]}));
    role
}

fn binding(name: &str, groups: &[&str]) -> Map<String, Value> {
    let mut binding = object("ClusterRoleBinding", name, "");
    let reference = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
    binding.insert("roleRef".to_owned(), reference);
    let subject = |group| json!({"apiGroup": GROUP, "kind": "Group", "name": group});
    binding.insert("subjects".to_owned(), groups.iter().map(subject).collect());
    binding
}

fn object(kind: &str, name: &str, aggregate_to: &str) -> Map<String, Value> {
    let mut labels = Map::from_iter([("kubernetes.io/bootstrapping".to_owned(), json!("rbac-defaults"))]);
    if !aggregate_to.is_empty() {
        labels.insert(aggregation_label(aggregate_to), json!("true"));
    }
    let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
    let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
    Map::from_iter([
        ("apiVersion".to_owned(), json!(format!("{GROUP}/v1"))),
        ("kind".to_owned(), json!(kind)),
        ("metadata".to_owned(), metadata),
    ])
}

fn aggregation_label(role: &str) -> String {
    format!("{GROUP}/aggregate-to-{role}")
}

/// Writes into aggregated roles what they gather, so that they are complete from the first moment.
fn fill_aggregated(roles: &mut [Map<String, Value>]) {
    let mut policy = Policy::default();
    for role in roles.iter() {
        // Aggregated by the policy itself, so that the start and the controller cannot gather differently.
        policy.put(RbacKind::ClusterRole, role).expect("the table is fixed");
    }
    for (name, gathered) in policy.stale_aggregations() {
        let is_meant = |role: &&mut Map<String, Value>| role["metadata"]["name"] == name;
        if let Some(role) = roles.iter_mut().find(is_meant) {
            role.insert("rules".to_owned(), json!(gathered.as_ref()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::identity::Identity;
    use crate::auth::rbac::Attributes;

    fn policy() -> Policy {
        let mut policy = Policy::default();
        for (kind, object) in bootstrap_objects() {
            policy.put(kind, &object).unwrap();
        }
        policy
    }

    fn path<'a>(verb: &'a str, path: &'a str) -> Attributes<'a> {
        Attributes { verb, path: Some(path), ..Attributes::default() }
    }

    #[test]
    fn anonymous_sees_only_health_and_version() {
        let (policy, anonymous) = (policy(), Identity::anonymous());
        for visible in ["/healthz", "/livez", "/readyz", "/version"] {
            assert!(policy.decide(&anonymous, &path("get", visible)).is_allowed(), "{visible}");
        }
        for hidden in ["/metrics", "/apis", "/openapi/v3", "/healthz/log", "/", "/openid/v1/jwks"] {
            assert!(!policy.decide(&anonymous, &path("get", hidden)).is_allowed(), "{hidden}");
        }
        let pods =
            Attributes { verb: "list", resource: "pods", namespace: "default", ..Attributes::default() };
        assert!(!policy.decide(&anonymous, &pods).is_allowed());
    }

    #[test]
    fn user_discovers_and_asks_what_they_may_do_and_no_more() {
        let (policy, bob) = (policy(), Identity::authenticated("bob", []));
        assert!(policy.decide(&bob, &path("get", "/apis/apps/v1")).is_allowed());
        let review = Attributes {
            verb: "create",
            group: "authorization.k8s.io",
            resource: "selfsubjectaccessreviews",
            ..Attributes::default()
        };
        assert!(policy.decide(&bob, &review).is_allowed());
        assert!(
            !policy.decide(&bob, &Attributes { resource: "subjectaccessreviews", ..review }).is_allowed()
        );
    }

    #[test]
    fn nothing_is_left_to_aggregate() {
        assert!(policy().stale_aggregations().is_empty());
    }

    #[test]
    fn admin_may_do_what_edit_and_view_may() {
        let policy = policy();
        let rules = |role| policy.cluster_role(role).unwrap();
        let (admin, edit, view) = (rules("admin"), rules("edit"), rules("view"));
        assert!(view.iter().all(|rule| edit.contains(rule)));
        assert!(edit.iter().all(|rule| admin.contains(rule)));
        assert_eq!(admin.len(), ADMIN.len() + EDIT.len() + VIEW.len());
    }
}
