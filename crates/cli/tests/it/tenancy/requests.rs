//! Requests that a tenant, an author and strangers send to reach what is not theirs.

use super::ground::Who::{self, Author, Forger, Nobody, Red};

/// One request that must be refused.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) what: &'static str,
    pub(super) who: Who,
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) body: &'static str,
    /// The codes that refuse it.
    pub(super) codes: &'static [u16],
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const FORBIDDEN: &[u16] = &[403];

const fn reads(what: &'static str, path: &'static str) -> Attempt {
    Attempt { what, who: Red, method: "GET", path, headers: &[], body: "", codes: FORBIDDEN }
}

const fn writes(what: &'static str, method: &'static str, path: &'static str, body: &'static str) -> Attempt {
    Attempt { what, who: Red, method, path, headers: JSON, body, codes: FORBIDDEN }
}

impl Attempt {
    const fn by(mut self, who: Who) -> Self {
        self.who = who;
        self
    }

    const fn with(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    const fn is(mut self, codes: &'static [u16]) -> Self {
        self.codes = codes;
        self
    }
}

pub(super) const READING: &[Attempt] = &[
    reads("read a Secret", "/api/v1/namespaces/blue/secrets/payroll"),
    reads("list Secrets of the other namespace", "/api/v1/namespaces/blue/secrets"),
    reads("list all Secrets", "/api/v1/secrets"),
    reads("watch all Secrets", "/api/v1/secrets?watch=true&timeoutSeconds=1"),
    reads("watch by the old path", "/api/v1/watch/namespaces/blue/secrets").is(&[403, 404]),
    reads("find a Secret by its name", "/api/v1/secrets?fieldSelector=metadata.name%3Dpayroll"),
    reads("find a Secret by its namespace", "/api/v1/secrets?fieldSelector=metadata.namespace%3Dred"),
    reads("find a Secret by its label", "/api/v1/secrets?labelSelector=team%3Dblue"),
    reads("read a Secret as a table", "/api/v1/namespaces/blue/secrets/payroll")
        .with(&[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")]),
    reads("read the metadata of a Secret", "/api/v1/namespaces/blue/secrets/payroll")
        .with(&[("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")]),
    reads("read a Secret as protobuf", "/api/v1/namespaces/blue/secrets/payroll")
        .with(&[("accept", "application/vnd.kubernetes.protobuf")]),
    reads("read a ConfigMap", "/api/v1/namespaces/blue/configmaps/plans"),
    reads("list all ConfigMaps", "/api/v1/configmaps"),
    reads("read a composite resource", "/apis/tenancy.test.io/v1/namespaces/blue/apps/shop"),
    reads(
        "read the status of a composite resource",
        "/apis/tenancy.test.io/v1/namespaces/blue/apps/shop/status",
    ),
    reads("list all composite resources", "/apis/tenancy.test.io/v1/apps"),
    reads("read events", "/api/v1/namespaces/blue/events"),
    reads("read all events", "/apis/events.k8s.io/v1/events"),
    reads("read service accounts", "/api/v1/namespaces/blue/serviceaccounts"),
    reads("read who has which rights", "/apis/rbac.authorization.k8s.io/v1/namespaces/blue/rolebindings"),
    reads("read who has rights everywhere", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    reads("read the quota of the other tenant", "/api/v1/namespaces/blue/resourcequotas/limits"),
    reads("read how much of it is used", "/api/v1/namespaces/blue/resourcequotas/limits/status"),
    reads("list the quotas of the other tenant", "/api/v1/namespaces/blue/resourcequotas"),
    reads("list all quotas", "/api/v1/resourcequotas"),
    reads("read the log of a pod", "/api/v1/namespaces/blue/pods/web/log"),
    reads("list namespaces", "/api/v1/namespaces"),
    reads("read webhooks", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
    reads("read metrics", "/metrics"),
    reads("profile the server", "/debug/pprof/profile"),
    reads("climb out of the own namespace", "/api/v1/namespaces/red/../blue/secrets/payroll")
        .is(&[400, 403, 404]),
    reads("climb out with escapes", "/api/v1/namespaces/red/%2e%2e/blue/secrets/payroll")
        .is(&[400, 403, 404]),
    reads("climb out with an escaped slash", "/api/v1/namespaces/red%2f..%2fblue/secrets/payroll")
        .is(&[400, 403, 404]),
    reads("double a slash", "/api/v1/namespaces/red//namespaces/blue/secrets/payroll").is(&[400, 403, 404]),
    reads("escape the name of the namespace", "/api/v1/namespaces/%62lue/secrets/payroll"),
    reads(
        "name two namespaces",
        "/api/v1/namespaces/red/secrets?namespace=blue&fieldSelector=metadata.name%3Dpayroll",
    )
    .is(&[200]),
    reads("read a Secret without credentials", "/api/v1/namespaces/blue/secrets/payroll")
        .by(Nobody)
        .is(&[401, 403]),
    reads("read a Secret with a forged token", "/api/v1/namespaces/blue/secrets/payroll")
        .by(Forger)
        .is(&[401]),
    reads("read Secrets as an author", "/api/v1/secrets").by(Author),
    reads("read composite resources as an author", "/apis/tenancy.test.io/v1/apps").by(Author),
    // What does not exist is refused in the same words as what does, so nobody learns names.
    reads("guess the name of a Secret", "/api/v1/namespaces/blue/secrets/none"),
    reads("guess the name of a namespace", "/api/v1/namespaces/green/secrets/none"),
];

const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"planted"},"data":{"a":"b"}}"#;
const QUOTA: &str = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"limits"},"spec":{"hard":{"configmaps":"1"}}}"#;
const TOKEN: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
const BINDING: &str = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"planted"},
    "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
    "subjects":[{"kind":"ServiceAccount","name":"tenant","namespace":"red"}]}"#;
const CLUSTER_BINDING: &str = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding",
    "metadata":{"name":"planted"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
    "subjects":[{"kind":"ServiceAccount","name":"tenant","namespace":"red"}]}"#;
const ROLE: &str = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"planted"},
    "rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}"#;
const CLUSTER_ROLE: &str = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"planted",
    "labels":{"rbac.authorization.k8s.io/aggregate-to-admin":"true"}},
    "rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]}"#;
const EVENT: &str = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"planted"},"reason":"Planted","type":"Warning",
    "message":"m","involvedObject":{"kind":"App","namespace":"blue","name":"shop","apiVersion":"tenancy.test.io/v1"}}"#;
const USAGE: &str = r#"{"apiVersion":"protection.crossplane.io/v1beta1","kind":"Usage","metadata":{"name":"planted"},
    "spec":{"reason":"r","of":{"apiVersion":"v1","kind":"ConfigMap","resourceRef":{"name":"plans","namespace":"blue"}}}}"#;
const CLUSTER_USAGE: &str = r#"{"apiVersion":"protection.crossplane.io/v1beta1","kind":"ClusterUsage","metadata":{"name":"planted"},
    "spec":{"reason":"r","of":{"apiVersion":"v1","kind":"Namespace","resourceRef":{"name":"blue"}}}}"#;
const WEBHOOK: &str = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration",
    "metadata":{"name":"planted"},"webhooks":[]}"#;
const FUNCTION: &str = r#"{"apiVersion":"pkg.crossplane.io/v1","kind":"Function","metadata":{"name":"planted"},
    "spec":{"package":"registry.example/evil:v1"}}"#;
const REVIEW: &str = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",
    "spec":{"user":"system:serviceaccount:blue:tenant","resourceAttributes":{"verb":"get","resource":"secrets","namespace":"blue"}}}"#;
const TOKEN_REVIEW: &str =
    r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"guess"}}"#;
const CSR: &str = r#"{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"planted"},
    "spec":{"request":"","signerName":"kubernetes.io/kube-apiserver-client","usages":["client auth"]}}"#;

pub(super) const WRITING: &[Attempt] = &[
    writes("create in the other namespace", "POST", "/api/v1/namespaces/blue/configmaps", MAP),
    writes("try a creation that is not stored", "POST", "/api/v1/namespaces/blue/configmaps?dryRun=All", MAP),
    writes(
        "name the other namespace in the body",
        "POST",
        "/api/v1/namespaces/red/configmaps",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"planted","namespace":"blue"}}"#,
    )
    .is(&[400]),
    writes(
        "climb out with a name",
        "POST",
        "/api/v1/namespaces/red/configmaps",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../../blue/configmaps/plans"}}"#,
    )
    .is(&[422]),
    writes("replace", "PUT", "/api/v1/namespaces/blue/configmaps/plans", MAP),
    writes("patch", "PATCH", "/api/v1/namespaces/blue/configmaps/plans", r#"{"data":{"plan":"x"}}"#)
        .with(&[("content-type", "application/merge-patch+json")]),
    writes("apply", "PATCH", "/api/v1/namespaces/blue/configmaps/plans?fieldManager=red&force=true", MAP)
        .with(&[("content-type", "application/apply-patch+yaml")]),
    writes("delete", "DELETE", "/api/v1/namespaces/blue/configmaps/plans", ""),
    writes("delete all of a kind", "DELETE", "/api/v1/namespaces/blue/secrets", ""),
    writes(
        "create a composite resource",
        "POST",
        "/apis/tenancy.test.io/v1/namespaces/blue/apps",
        r#"{"apiVersion":"tenancy.test.io/v1","kind":"App","metadata":{"name":"planted"}}"#,
    ),
    writes(
        "change a status",
        "PATCH",
        "/apis/tenancy.test.io/v1/namespaces/blue/apps/shop/status",
        r#"{"status":{"a":"b"}}"#,
    )
    .with(&[("content-type", "application/merge-patch+json")]),
    writes(
        "hold an object with a finalizer",
        "PATCH",
        "/apis/tenancy.test.io/v1/namespaces/blue/apps/shop",
        r#"{"metadata":{"finalizers":["red.io/hold"]}}"#,
    )
    .with(&[("content-type", "application/merge-patch+json")]),
    writes(
        "delete the quota of the other tenant",
        "DELETE",
        "/api/v1/namespaces/blue/resourcequotas/limits",
        "",
    ),
    writes("limit the other tenant", "POST", "/api/v1/namespaces/blue/resourcequotas", QUOTA),
    writes("limit the other tenant more", "PATCH", "/api/v1/namespaces/blue/resourcequotas/limits", QUOTA)
        .with(&[("content-type", "application/merge-patch+json")]),
    writes("raise the own quota", "PATCH", "/api/v1/namespaces/red/resourcequotas/limits", QUOTA)
        .with(&[("content-type", "application/merge-patch+json")]),
    writes(
        "say that less of the own quota is used",
        "PATCH",
        "/api/v1/namespaces/red/resourcequotas/limits/status",
        r#"{"status":{"used":{"configmaps":"0"}}}"#,
    )
    .with(&[("content-type", "application/merge-patch+json")]),
    writes("delete the own quota", "DELETE", "/api/v1/namespaces/red/resourcequotas/limits", ""),
    writes("delete the other namespace", "DELETE", "/api/v1/namespaces/blue", ""),
    writes(
        "create a namespace",
        "POST",
        "/api/v1/namespaces",
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"green"}}"#,
    ),
    writes(
        "finalize the other namespace",
        "PUT",
        "/api/v1/namespaces/blue/finalize",
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"blue"},"spec":{"finalizers":[]}}"#,
    ),
    writes(
        "issue a token of the other tenant",
        "POST",
        "/api/v1/namespaces/blue/serviceaccounts/tenant/token",
        TOKEN,
    ),
    writes(
        "take all rights in the own namespace",
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/red/roles",
        ROLE,
    ),
    writes(
        "bind all rights in the own namespace",
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/red/rolebindings",
        BINDING,
    ),
    writes(
        "bind rights in the other namespace",
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/blue/rolebindings",
        BINDING,
    ),
    writes(
        "bind rights everywhere",
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        CLUSTER_BINDING,
    ),
    writes(
        "aggregate rights into a role",
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        CLUSTER_ROLE,
    ),
    writes("impersonate a user", "GET", "/api/v1/namespaces/blue/secrets", "")
        .with(&[("impersonate-user", "admin")]),
    writes("impersonate the administrators", "GET", "/api/v1/secrets", "")
        .with(&[("impersonate-user", "red"), ("impersonate-group", "system:masters")]),
    writes("impersonate the other tenant", "GET", "/api/v1/namespaces/blue/secrets", "")
        .with(&[("impersonate-user", "system:serviceaccount:blue:tenant")]),
    writes("be whom a proxy names", "GET", "/api/v1/namespaces/blue/secrets", "")
        .with(&[("x-remote-user", "admin"), ("x-remote-group", "system:masters")]),
    writes("ask what others may do", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", REVIEW),
    writes("try tokens", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", TOKEN_REVIEW),
    writes("request a certificate", "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", CSR)
        .is(&[403, 404]),
    writes("define a kind", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "{}"),
    writes(
        "define a composite resource",
        "POST",
        "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions",
        "{}",
    ),
    writes("write a Composition", "POST", "/apis/apiextensions.crossplane.io/v1/compositions", "{}"),
    writes("install a Function", "POST", "/apis/pkg.crossplane.io/v1/functions", FUNCTION),
    writes("install a Function as an author", "POST", "/apis/pkg.crossplane.io/v1/functions", FUNCTION)
        .by(Author),
    writes(
        "install a webhook",
        "POST",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        WEBHOOK,
    ),
    writes(
        "install a webhook as an author",
        "POST",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        WEBHOOK,
    )
    .by(Author),
    writes("run a command in a pod", "POST", "/api/v1/namespaces/blue/pods/web/exec?command=id", ""),
    writes(
        "evict a pod",
        "POST",
        "/api/v1/namespaces/blue/pods/web/eviction",
        r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web"}}"#,
    ),
    writes("send through the server to a service", "GET", "/api/v1/namespaces/blue/services/db/proxy/", ""),
    writes("tell an event of the other's object", "POST", "/api/v1/namespaces/red/events", EVENT)
        .is(&[403, 422]),
    writes("tell an event in the other namespace", "POST", "/api/v1/namespaces/blue/events", EVENT),
    writes(
        "hold the other's object with a Usage",
        "POST",
        "/apis/protection.crossplane.io/v1beta1/namespaces/red/usages",
        USAGE,
    )
    .is(&[403, 422]),
    writes(
        "hold the other namespace with a ClusterUsage",
        "POST",
        "/apis/protection.crossplane.io/v1beta1/clusterusages",
        CLUSTER_USAGE,
    ),
    writes(
        "lease the lock of the controllers",
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"ferroplane"}}"#,
    ),
];

const STAR: &str = r#"{"apiVersion":"apiextensions.crossplane.io/v2","kind":"CompositeResourceDefinition","metadata":{"name":"*.corp.test.io"},
    "spec":{"group":"corp.test.io","scope":"Namespaced","names":{"kind":"Vault","plural":"*"},"versions":[{"name":"v1","served":true,
    "referenceable":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;

/// What an author writes to gain rights. All of it is refused when it is written.
pub(super) const DEFINING: &[Attempt] = &[
    writes(
        "define all resources of a group",
        "POST",
        "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions",
        STAR,
    )
    .by(Author)
    .is(&[400, 422]),
    writes("define a kind directly", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "{}")
        .by(Author),
    writes(
        "take over a kind directly",
        "PATCH",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/vaults.corp.test.io",
        r#"{"metadata":{"annotations":{"ferroplane.io/adopt":"true"}}}"#,
    )
    .by(Author)
    .with(&[("content-type", "application/merge-patch+json")]),
];
