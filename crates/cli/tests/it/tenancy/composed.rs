//! What the plane is asked to do for a tenant who may not do it: by Compositions of an author of the same team, and by
//! composite resources in the tenant's own namespace.

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
