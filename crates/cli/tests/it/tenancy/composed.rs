//! What the plane is asked to do for a tenant who may not do it: by Compositions of an author of the same team, and by
//! composite resources in the tenant's own namespace.

use serde_json::Value;

use super::ground::{Tenants, Who};

/// A Composition that reaches for what is not the tenant's, and what the composite resource is told.
struct Reach {
    name: &'static str,
    /// The first step of the pipeline.
    step: String,
    /// What one of the conditions that are false says. Empty where the plane puts into the tenant's own namespace what is
    /// asked for in another, as it does for every namespaced composite resource.
    words: &'static str,
    /// What must not exist afterwards.
    absent: &'static str,
}

/// What conditions say about attempts to read.
const READS: [&str; 2] = ["blue", "Secret"];

const NOTHING: &str = "/api/v1/namespaces/blue/configmaps/planted";

fn answering(response: &str) -> String {
    format!(
        "step: reach, functionRef: {{name: function-dummy}}, input: {{apiVersion: dummy.fn.crossplane.io/v1beta1, kind: Response, \
         response: {response}}}"
    )
}

fn composing(name: &'static str, resource: &str, words: &'static str, absent: &'static str) -> Reach {
    let step = answering(&format!("{{desired: {{resources: {{thing: {{resource: {resource}}}}}}}}}"));
    Reach { name, step, words, absent }
}

fn requiring(name: &'static str, selector: &str, words: &'static str) -> Reach {
    let step = answering(&format!("{{requirements: {{resources: {{loot: {selector}}}}}}}"));
    Reach { name, step, words, absent: NOTHING }
}

fn with_step(name: &'static str, rest: &str, words: &'static str) -> Reach {
    let step = format!("{}, {rest}", answering("{}"));
    Reach { name, step, words, absent: NOTHING }
}

const ALL_RIGHTS: &str = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, \
                          subjects: [{kind: ServiceAccount, name: tenant, namespace: red}]";

fn reaches() -> Vec<Reach> {
    vec![
        composing(
            "into-blue",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: planted, namespace: blue}}",
            "",
            NOTHING,
        ),
        composing(
            "over-plans",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: plans, namespace: blue}, data: {plan: x}}",
            "",
            NOTHING,
        ),
        composing(
            "app-in-blue",
            "{apiVersion: tenancy.test.io/v1, kind: App, metadata: {name: planted, namespace: blue}, spec: {crossplane: {compositionRef: {name: app}}}}",
            "",
            "/apis/tenancy.test.io/v1/namespaces/blue/apps/planted",
        ),
        composing(
            "all-rights",
            &format!(
                "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: planted}}, {ALL_RIGHTS}}}"
            ),
            "cluster scoped",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/planted",
        ),
        composing(
            "rights-in-red",
            &format!(
                "{{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {{name: planted}}, {ALL_RIGHTS}}}"
            ),
            "forbidden",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/red/rolebindings/planted",
        ),
        composing(
            "a-namespace",
            "{apiVersion: v1, kind: Namespace, metadata: {name: green}}",
            "cluster scoped",
            "/api/v1/namespaces/green",
        ),
        requiring("one-secret", "{apiVersion: v1, kind: Secret, matchName: payroll, namespace: blue}", "blue"),
        requiring("all-secrets", "{apiVersion: v1, kind: Secret, matchLabels: {labels: {}}}", "Secret"),
        requiring("a-plan", "{apiVersion: v1, kind: ConfigMap, matchName: plans, namespace: blue}", "blue"),
        with_step(
            "credentials",
            "credentials: [{name: c, source: Secret, secretRef: {namespace: blue, name: payroll}}]",
            "blue",
        ),
        with_step(
            "bootstrap",
            "requirements: {requiredResources: [{requirementName: loot, apiVersion: v1, kind: Secret, name: payroll, namespace: blue}]}",
            "blue",
        ),
        Reach {
            name: "input",
            step: "step: reach, functionRef: {name: function-dummy}, inputRef: {apiVersion: v1, kind: ConfigMap, name: plans, namespace: blue}"
                .to_owned(),
            words: "blue",
            absent: NOTHING,
        },
    ]
}

fn composition(reach: &Reach) -> String {
    format!(
        "{{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {{name: {}}}, spec: {{mode: Pipeline, \
         compositeTypeRef: {{apiVersion: tenancy.test.io/v1, kind: App}}, pipeline: [{{{}}}]}}}}",
        reach.name, reach.step
    )
}

fn app(name: &str, rest: &str) -> String {
    format!(
        "{{apiVersion: tenancy.test.io/v1, kind: App, metadata: {{name: {name}, namespace: red}}, \
         spec: {{crossplane: {{compositionRef: {{name: {name}}}{rest}}}}}}}"
    )
}

/// Tries all of them. Returns how many.
pub(super) fn attempt(tenants: &Tenants) -> usize {
    let reaches = reaches();
    for reach in &reaches {
        let path = format!("/apis/apiextensions.crossplane.io/v1/compositions/{}", reach.name);
        tenants.apply(Who::Author, &path, &composition(reach));
        let path = format!("/apis/tenancy.test.io/v1/namespaces/red/apps/{}", reach.name);
        tenants.apply(Who::Red, &path, &app(reach.name, ""));
    }
    for reach in &reaches {
        is_told_and_absent(tenants, reach);
    }
    reaches.len()
}

/// The attempts to read what is not the tenant's. No request is made for them, so that the plane's own log reports them.
pub(super) fn denied_reads() -> Vec<&'static str> {
    reaches().iter().filter(|reach| READS.contains(&reach.words)).map(|reach| reach.name).collect()
}

/// The attempts whose story the audit log does not tell: that the author wrote the Composition and the tenant the composite
/// resource, and that the plane has done something on account of it, as far as it got.
pub(super) fn untold(audit: &[Value]) -> Vec<String> {
    reaches().iter().filter_map(|reach| missing(audit, reach)).collect()
}

/// Whether a line says that the plane denied an object that is not the tenant's.
fn reports_denial(line: &Value, reach: &Reach) -> bool {
    let annotations = &line["annotations"];
    let reason = annotations["audit.ferroplane.io/denied-reason"].as_str().unwrap_or_default();
    annotations["audit.ferroplane.io/denied"] == "AccessNotGranted" && reason.contains(reach.words)
}

/// What the audit log does not say about an attempt.
fn missing(audit: &[Value], reach: &Reach) -> Option<String> {
    let wrote = |account: &str, resource: &str| {
        audit.iter().any(|line| {
            line["user"]["username"] == format!("system:serviceaccount:red:{account}")
                && line["objectRef"]["resource"] == resource
                && line["objectRef"]["name"] == reach.name
                && line["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300)
        })
    };
    let ours: Vec<_> = audit.iter().filter(|line| is_caused_by(line, reach.name)).collect();
    let is_read = READS.contains(&reach.words);
    let denials = ours.iter().filter(|line| reports_denial(line, reach)).count();
    let refusals = ours.iter().filter(|line| line["responseStatus"]["code"] == 403).count();
    let faults = [
        (!wrote("author", "compositions"), "the Composition"),
        (!wrote("tenant", "apps"), "the composite resource"),
        (ours.is_empty(), "what the plane did on account of it"),
        // What the API server refuses the plane is refused on account of the attempt.
        (reach.words == "forbidden" && refusals == 0, "the refusal"),
        // What the plane denies itself is requested of nobody, and is told of by the write that reports it.
        (is_read && denials == 0, "the denial"),
        (!is_read && denials > 0, "that nothing was denied"),
    ];
    let elsewhere = ours.iter().find(|line| touches_others(line));
    let elsewhere = elsewhere.map(|line| format!("{}: written elsewhere: {line}", reach.name));
    let missing = faults.into_iter().find(|(is_missing, _)| *is_missing);
    missing.map(|(_, fault)| format!("{}: {fault}", reach.name)).or(elsewhere)
}

/// Whether the plane did it on account of a composite resource of the attacker.
fn is_caused_by(line: &Value, name: &str) -> bool {
    let annotations = &line["annotations"];
    annotations["audit.ferroplane.io/cause-name"] == name
        && annotations["audit.ferroplane.io/cause-namespace"] == "red"
}

/// Whether something was written that is neither in the attacker's namespace nor an event.
fn touches_others(line: &Value) -> bool {
    let reference = &line["objectRef"];
    let is_write = !["get", "list", "watch"].contains(&line["verb"].as_str().unwrap_or_default());
    let has_happened = line["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
    is_write && has_happened && reference["namespace"] != "red" && !is_review(reference)
}

/// Reviews are asked, and change nothing.
fn is_review(reference: &Value) -> bool {
    reference["resource"].as_str().is_some_and(|resource| resource.ends_with("reviews"))
}

fn is_told_and_absent(tenants: &Tenants, reach: &Reach) {
    let path = format!("/apis/tenancy.test.io/v1/namespaces/red/apps/{}", reach.name);
    let told = tenants.until(&path, |app| {
        app["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
            let says = condition["message"].as_str().is_some_and(|message| message.contains(reach.words));
            reach.words.is_empty() && condition["type"] == "Synced" || condition["status"] == "False" && says
        })
    });
    assert!(!told.to_string().contains(super::SECRET), "{}: {told:#}", reach.name);
    let absent = tenants.ask(Who::Administrator, "GET", reach.absent, &[], "");
    assert_eq!(absent.code, 404, "{}: {} exists", reach.name, reach.absent);
}

/// References that a tenant writes into a composite resource do not make the plane delete what they name.
pub(super) fn claim_to_have_composed(tenants: &Tenants) -> usize {
    let refs = ", resourceRefs: [{apiVersion: v1, kind: ConfigMap, name: plans, namespace: blue}, {apiVersion: v1, kind: ConfigMap, name: own}]";
    let path = "/apis/tenancy.test.io/v1/namespaces/red/apps/empty";
    let step = answering("{results: [{severity: SEVERITY_NORMAL, message: nothing to compose}]}");
    let empty = Reach { name: "empty", step, words: "", absent: NOTHING };
    tenants.apply(
        Who::Author,
        "/apis/apiextensions.crossplane.io/v1/compositions/empty",
        &composition(&empty),
    );
    tenants.apply(Who::Red, path, &app("empty", refs));
    tenants.until(path, |app| app["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty()));
    for object in ["/api/v1/namespaces/blue/configmaps/plans", "/api/v1/namespaces/red/configmaps/own"] {
        assert_eq!(tenants.ask(Who::Administrator, "GET", object, &[], "").code, 200, "{object}");
    }
    1
}

const DEFINITIONS: &str = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions";

/// Definitions that would give their author rights on kinds of others: the plural, the group, the kind, and what their condition says.
/// The first has the name of a kind that an administrator made. In the group of the second, a right on the kind of the tenants would be
/// one in every group.
const TAKING_OVER: &[[&str; 4]] = &[
    ["vaults", "corp.test.io", "Vault", "ferroplane.io/adopt"],
    ["apps", "custom-resources.ferroplane.io", "App", "belongs to Kubernetes or to the control plane"],
];

/// None of these definitions takes over a kind, or the rights on one.
pub(super) fn take_over_kinds(tenants: &Tenants) {
    for [plural, group, kind, why] in TAKING_OVER {
        let name = format!("{plural}.{group}");
        let path = format!("{DEFINITIONS}/{name}");
        let definition = format!(
            "{{apiVersion: apiextensions.crossplane.io/v2, kind: CompositeResourceDefinition, metadata: {{name: {name}}}, \
             spec: {{group: {group}, scope: Namespaced, names: {{kind: {kind}, plural: {plural}}}, versions: [{{name: v1, \
             served: true, referenceable: true, schema: {{openAPIV3Schema: {{type: object}}}}}}]}}}}"
        );
        tenants.apply(Who::Author, &path, &definition);
        tenants.until(&path, |definition| {
            let conditions = definition["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                let says = condition["message"].as_str().is_some_and(|message| message.contains(why));
                condition["type"] == "Established" && condition["status"] == "False" && says
            })
        });
        let role = format!(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/crossplane:composite:{name}:aggregate-to-edit"
        );
        assert_eq!(tenants.ask(Who::Administrator, "GET", &role, &[], "").code, 404, "{name}");
    }
}

/// Whether the audit log has who wrote those definitions.
pub(super) fn is_taking_over_told(audit: &[Value]) -> bool {
    let is_told = |name: &str| {
        audit.iter().any(|line| {
            line["user"]["username"] == "system:serviceaccount:red:author"
                && line["objectRef"]["resource"] == "compositeresourcedefinitions"
                && line["objectRef"]["name"] == name
                && line["verb"] == "patch"
        })
    };
    TAKING_OVER.iter().all(|[plural, group, ..]| is_told(&format!("{plural}.{group}")))
}
