//! An API server to start on, and what a user does there.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferroplane_testkit::{ApiAddress, ApiClient};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::plane::{Plane, Shell};

pub(super) const SITES: &str = "/apis/test.io/v1/namespaces/default/sites";
pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const BLUEPRINTS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/blueprints";
pub(super) const ACTION_SETS: &str = "/apis/cr.kanister.io/v1alpha1/namespaces/default/actionsets";
/// Where certificates are.
pub(super) const SECRETS: &str = "/api/v1/namespaces/crossplane-system/secrets";
const NAMESPACE: &str = "crossplane-system";
const DEFINITIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositeresourcedefinitions";
/// What tests of rollouts make, by the manifests of `crate::rollout`.
pub(super) const BUCKETS: &str = "/apis/custom-api.example.org/v1alpha1/namespaces/default/acmebuckets";
pub(super) const ROLLOUTS: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts";
pub(super) const FUNCTIONS: &str = "/apis/pkg.crossplane.io/v1/functions";
const FUNCTION_REVISIONS: &str = "/apis/pkg.crossplane.io/v1/functionrevisions";
const LOCKS: &str = "/apis/pkg.crossplane.io/v1beta1/locks";
const COMPOSITIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositions";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A real server is shared by all tests.
static TURN: Mutex<()> = Mutex::new(());

pub(super) struct Ground {
    address: ApiAddress,
    kubeconfig: PathBuf,
    plane: Option<Plane>,
    directory: TempDir,
    runtime: Runtime,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Ground {
    /// An API server without controllers, and with a namespace for them.
    pub(super) fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let directory = TempDir::new().unwrap();
        let ground = match std::env::var("FERROPLANE_ORACLE_URL") {
            Ok(url) if !url.is_empty() => {
                let authority = std::fs::read(std::env::var("FERROPLANE_ORACLE_CA").unwrap()).unwrap();
                let token = std::env::var("FERROPLANE_ORACLE_TOKEN").unwrap();
                let address = ApiAddress::with_token(&url, &authority, Some(token));
                let kubeconfig = std::env::var_os("KUBECONFIG").unwrap().into();
                let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
                Self { address, kubeconfig, plane: None, directory, runtime, _turn: Some(turn) }
            }
            _ => {
                let plane = Plane::start(TempDir::new().unwrap(), &["--in-memory", "--no-controllers"]);
                let kubeconfig = plane.path("kubeconfig");
                let address = ApiAddress::from_kubeconfig(&kubeconfig).unwrap();
                Self { address, kubeconfig, plane: Some(plane), directory, runtime, _turn: None }
            }
        };
        ground.sweep();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        ground.send("POST", "/api/v1/namespaces", &namespace);
        if ground.is_embedded() {
            ground.wait_for_defaults();
        }
        ground
    }

    /// What a namespace comes with is made a little later: until then, not every write is one of the test.
    fn wait_for_defaults(&self) {
        for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/{path}");
            self.until(&path, |object| object["metadata"]["name"].is_string());
        }
    }

    /// Removes what tests have left on a real server, on which it would be in the way of others. Controllers must not run.
    pub(super) fn sweep(&self) {
        if self.is_embedded() {
            return;
        }
        let left = |list: &str| {
            let items = self.get(list)["items"].as_array().cloned().unwrap_or_default();
            let paths = items.iter().map(|it| format!("{list}/{}", it["metadata"]["name"].as_str().unwrap()));
            paths.collect::<Vec<_>>()
        };
        // ActionSets first: without their Blueprint they would end in another way.
        let of_users = [ACTION_SETS, BLUEPRINTS, SITES, BUCKETS, ROLLOUTS].into_iter().flat_map(left);
        // Nobody deletes revisions together with their Function here.
        let packages = [FUNCTIONS, FUNCTION_REVISIONS, LOCKS].into_iter().flat_map(left);
        let others = [
            format!("{HOOKS}/crossplane-no-usages"),
            format!("{HOOKS}/ferroplane-function-versions"),
            format!("{COMPOSITIONS}/sites"),
            format!("{COMPOSITIONS}/example"),
            format!("{DEFINITIONS}/sites.test.io"),
            format!("{DEFINITIONS}/acmebuckets.custom-api.example.org"),
        ];
        for path in of_users.chain(others).chain(packages) {
            self.remove(&path);
        }
        for kind in ["sites.test.io", "acmebuckets.custom-api.example.org"] {
            let kind = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}");
            self.send("DELETE", &kind, &Value::Null);
            self.until(&kind, Value::is_null);
        }
        for path in [
            SECRETS.to_owned(),
            format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
            format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"),
            MAPS.to_owned(),
            "/apis/protection.crossplane.io/v1beta1/namespaces/default/usages".to_owned(),
            "/apis/apiextensions.crossplane.io/v1/compositionrevisions".to_owned(),
        ] {
            self.send("DELETE", &path, &Value::Null);
        }
    }

    /// Deletes an object, whatever holds it: those who would let go of it are gone.
    fn remove(&self, path: &str) {
        loop {
            let mut object = self.get(path);
            if object.is_null() {
                return;
            }
            object["metadata"]["finalizers"] = json!([]);
            self.send("PUT", path, &object);
            self.send("DELETE", path, &Value::Null);
        }
    }

    pub(super) fn is_embedded(&self) -> bool {
        self.plane.is_some()
    }

    /// A shell for commands of users.
    pub(super) fn shell(&self) -> Shell {
        Shell { directory: self.path(""), kubeconfig: self.kubeconfig.clone() }
    }

    pub(super) fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A token of a service account that there was not before.
    pub(super) fn token_of(&self, account: &str) -> String {
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        let new = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
        self.send("POST", &accounts, &new);
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let (_, answer) = self.send("POST", &format!("{accounts}/{account}/token"), &request);
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Lets a service account read a path that is not a resource.
    pub(super) fn let_read(&self, account: &str, path: &str) {
        self.allow(account, &json!([{"verbs": ["get"], "nonResourceURLs": [path]}]));
    }

    /// Gives a service account these rights, and no others that it had, and waits until they count.
    pub(super) fn allow(&self, account: &str, rules: &Value) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let role = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": account},
            "rules": rules,
        });
        let binding = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": account},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": account},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": account}],
        });
        // Another test may have left a role of this name on a server that they share.
        for (plural, object) in [("clusterrolebindings", &binding), ("clusterroles", &role)] {
            let path = format!("/apis/{GROUP}/v1/{plural}");
            self.send("DELETE", &format!("{path}/{account}"), &Value::Null);
            self.send("POST", &path, object);
        }
        for rule in rules.as_array().unwrap() {
            self.until_allowed(account, rule);
        }
    }

    /// A real API server hears of rights a moment after they are written.
    fn until_allowed(&self, account: &str, rule: &Value) {
        let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
        let mut spec = json!({"user": user, "groups": ["system:serviceaccounts", "system:authenticated"]});
        let verb = &rule["verbs"][0];
        match rule["nonResourceURLs"][0].as_str() {
            Some(path) => spec["nonResourceAttributes"] = json!({"path": path, "verb": verb}),
            None => {
                spec["resourceAttributes"] =
                    json!({"group": rule["apiGroups"][0], "resource": rule["resources"][0], "verb": verb});
            }
        }
        let review =
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let began = Instant::now();
        loop {
            let (_, answer) =
                self.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review);
            if answer["status"]["allowed"] == true {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{answer:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a request. Returns the code and the answer.
    pub(super) fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.runtime.block_on(async {
            let mut client = ApiClient::connect(&self.address).await.unwrap();
            client.send(method, path, &body).await.unwrap()
        });
        (answer.code, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Applies an object as a user does. A kind that is not served yet is waited for.
    pub(super) fn apply(&self, path: &str, object: &Value) {
        let path = format!("{path}?fieldManager=user&force=true");
        let headers = [("content-type", "application/apply-patch+yaml")];
        let began = Instant::now();
        loop {
            let answer = self.runtime.block_on(async {
                let mut client = ApiClient::connect(&self.address).await.unwrap();
                client.send_with("PATCH", &path, &headers, &object.to_string()).await.unwrap()
            });
            if answer.code < 300 {
                return;
            }
            let text = String::from_utf8_lossy(&answer.body);
            let is_early = matches!(answer.code, 404 | 409 | 500) && began.elapsed() < PATIENCE;
            assert!(is_early, "{} {text}", answer.code);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// An object; null if there is none.
    pub(super) fn get(&self, path: &str) -> Value {
        match self.send("GET", path, &Value::Null) {
            (200, object) => object,
            _ => Value::Null,
        }
    }

    pub(super) fn create(&self, path: &str, object: &Value) {
        let began = Instant::now();
        loop {
            let (code, answer) = self.send("POST", path, object);
            if code < 300 || code == 409 {
                return;
            }
            // The kind may not be served yet.
            assert!(code == 404 && began.elapsed() < PATIENCE, "{code} {answer:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until an object is refused: kinds and webhooks count a moment after they are written. Returns why.
    pub(super) fn until_refused(&self, path: &str, object: &Value) -> String {
        let began = Instant::now();
        loop {
            let (code, answer) = self.send("POST", path, object);
            if code >= 400 && code != 404 {
                return answer["message"].as_str().unwrap_or_default().to_owned();
            }
            assert!(began.elapsed() < PATIENCE, "{code} {answer:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until an object is as it should be (null if it should be gone).
    pub(super) fn until(&self, path: &str, is_well: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let object = self.get(path);
            if is_well(&object) {
                return object;
            }
            assert!(began.elapsed() < PATIENCE, "{path}: {object:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn is_ready(object: &Value) -> bool {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    /// Defines sites: each becomes a `ConfigMap` of its colour.
    pub(super) fn define(&self) {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"colour": {"type": "string"}}}}});
        let definition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
            "metadata": {"name": "sites.test.io"},
            "spec": {"scope": "Namespaced", "group": "test.io", "names": {"kind": "Site", "plural": "sites"}, "versions": [
                {"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema}},
            ]},
        });
        let patch = json!({"type": "FromCompositeFieldPath", "fromFieldPath": "spec.colour", "toFieldPath": "data.colour"});
        let resources =
            json!([{"name": "map", "base": {"apiVersion": "v1", "kind": "ConfigMap"}, "patches": [patch]}]);
        let input =
            json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources});
        let composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
            "spec": {"compositeTypeRef": {"apiVersion": "test.io/v1", "kind": "Site"}, "mode": "Pipeline", "pipeline": [
                {"step": "make", "functionRef": {"name": "function-patch-and-transform"}, "input": input},
                {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
            ]},
        });
        self.create(DEFINITIONS, &definition);
        self.create(COMPOSITIONS, &composition);
    }

    pub(super) fn create_site(&self, name: &str, colour: &str) {
        let site = json!({"apiVersion": "test.io/v1", "kind": "Site", "metadata": {"name": name}, "spec": {"colour": colour}});
        self.create(SITES, &site);
    }

    /// Gives a site another colour.
    pub(super) fn paint(&self, name: &str, colour: &str) {
        let path = format!("{SITES}/{name}");
        loop {
            let mut site = self.get(&path);
            site["spec"]["colour"] = colour.into();
            // Whoever was faster only wrote the status.
            match self.send("PUT", &path, &site) {
                (409, _) => {}
                (code, answer) => return assert!(code < 300, "{code} {answer:#}"),
            }
        }
    }

    /// What a start may write, apart from the lease.
    pub(super) fn everything(&self) -> Vec<String> {
        let secrets = ["crossplane-root-ca", "crossplane-tls-server", "crossplane-tls-client"];
        let hooks = ["crossplane-no-usages", "ferroplane-function-versions"];
        let secrets = secrets.map(|name| format!("{SECRETS}/{name}"));
        let hooks = hooks.map(|name| format!("{HOOKS}/{name}"));
        let lists = [
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            DEFINITIONS,
            COMPOSITIONS,
            "/apis/apiextensions.crossplane.io/v1/compositionrevisions",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        ];
        let lists = lists.iter().flat_map(|list| {
            let items = self.get(list)["items"].as_array().cloned().unwrap_or_default();
            // A real server gathers rights in roles of its own, a moment later.
            let is_theirs = |item: &Value| {
                let label = &item["metadata"]["labels"]["kubernetes.io/bootstrapping"];
                !self.is_embedded() && label.is_string()
            };
            items
                .into_iter()
                .filter(move |item| !is_theirs(item))
                .map(move |item| format!("{list}/{}", item["metadata"]["name"].as_str().unwrap()))
        });
        secrets.into_iter().chain(hooks).chain(lists.collect::<Vec<_>>()).collect()
    }

    /// The versions of objects.
    pub(super) fn versions(&self, paths: &[String]) -> Vec<(String, String)> {
        let version = |path: &String| {
            let object = self.get(path);
            let version = object["metadata"]["resourceVersion"].as_str();
            (path.clone(), version.unwrap_or_else(|| panic!("there is no {path}")).to_owned())
        };
        paths.iter().map(version).collect()
    }

    /// Who holds the lease.
    pub(super) fn lease(&self) -> Value {
        let path = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/crossplane-leader-election-core"
        );
        self.get(&path)["spec"].clone()
    }
}

/// The path of what a site became.
pub(super) fn composed(site: &Value) -> String {
    let reference = &site["spec"]["crossplane"]["resourceRefs"][0];
    format!("{MAPS}/{}", reference["name"].as_str().unwrap_or_else(|| panic!("no reference in {site:#}")))
}
