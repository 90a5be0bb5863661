//! `ferroplane audit who-can`, beside what the API server really allows, and what really happens. The API server is that of `ferroplane up` or,
//! if the environment names another one, that one with `ferroplane start` beside it.

use std::time::{Duration, Instant};

use ferroplane_testkit::{ApiAddress, ApiAnswer, ApiClient};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::plane::{Plane, ferroplane, has_oracle};
use crate::sandbox::Ran;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is there to ask about.
const GROUND: &str = include_str!("who_can/ground.yaml");
/// Removes it from an API server that others use afterwards. Definitions last: what is composed goes with its composite resource.
const CLEAN_UP: &str = "
kubectl delete carts.shop.test.io --all -n prod --timeout=60s
kubectl delete -f - --ignore-not-found --timeout=120s
";
/// Whom `ferroplane start` composes as, on an API server that the environment names. It is an administrator by a group, of which
/// no list of members exists: a binding of its own says the same.
const COMPOSER: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: who-can-composer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: oracle}]
";

const USERS: [&str; 10] = [
    "ann",
    "ben",
    "cat",
    "dan",
    "eve",
    "system:serviceaccount:prod:deployer",
    "system:ferroplane",
    "system:ferroplane:composer",
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
];

struct Stage {
    plane: Plane,
    address: ApiAddress,
    runtime: Runtime,
}

impl Drop for Stage {
    fn drop(&mut self) {
        if has_oracle() {
            let _ = self.plane.run(CLEAN_UP, &format!("{GROUND}\n---{COMPOSER}"));
        }
    }
}

impl Stage {
    fn new() -> Self {
        let (plane, address) = if has_oracle() { on_cluster() } else { embedded() };
        Self { plane, address, runtime: Runtime::new().unwrap() }
    }

    /// Who writes what is composed.
    fn composer() -> &'static str {
        if has_oracle() { "oracle" } else { "system:ferroplane:composer" }
    }

    /// What a user is answered, whom the administrator impersonates.
    fn ask(&self, user: &str, method: &str, path: &str, kind: &str, body: &str) -> ApiAnswer {
        let mut headers = vec![("content-type", kind)];
        if !user.is_empty() {
            headers.push(("impersonate-user", user));
        }
        self.runtime.block_on(async {
            let mut client = ApiClient::connect(&self.address).await.unwrap();
            let asking = client.send_with(method, path, &headers, body);
            tokio::time::timeout(PATIENCE, asking).await.expect("an answer in time").unwrap()
        })
    }

    fn apply(&self, user: &str, path: &str, manifest: &str) -> u16 {
        let path = format!("{path}?fieldManager=test&force=true");
        self.ask(user, "PATCH", &path, "application/apply-patch+yaml", manifest).code
    }

    fn until_exists(&self, path: &str) {
        let began = Instant::now();
        while self.ask("", "GET", path, "application/json", "").code != 200 {
            assert!(began.elapsed() < PATIENCE, "{path} does not come");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the API server says that a user may do.
    fn is_allowed(&self, user: &str, attributes: &Value) -> bool {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": attributes,
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = self.ask(user, "POST", path, "application/json", &review.to_string());
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        answer["status"]["allowed"].as_bool().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let composer = ["--composer", Self::composer()];
        let known = ["audit", "who-can", "--kubeconfig", "kubeconfig", "--all"];
        let arguments = [&known[..], if has_oracle() { &composer } else { &[] }, arguments].concat();
        let ran = Ran::from(ferroplane(&self.plane.path(""), &arguments).output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        ran
    }

    fn answers(&self, arguments: &[&str]) -> Vec<Value> {
        let ran = self.run(&[arguments, &["-o", "json"]].concat());
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        report["answers"].as_array().unwrap().clone()
    }
}

fn embedded() -> (Plane, ApiAddress) {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("ground.yaml"), GROUND).unwrap();
    let plane = Plane::start(directory, &["ground.yaml", "--data-dir", "data"]);
    plane.until("note: applied: ");
    let address = ApiAddress::from_kubeconfig(&plane.path("kubeconfig")).unwrap();
    (plane, address)
}

fn on_cluster() -> (Plane, ApiAddress) {
    let plane = Plane::find();
    plane.told("kubectl apply -f -", &format!("{GROUND}\n---{COMPOSER}"));
    plane.says("kubectl wait xrd/carts.shop.test.io --for=condition=Established --timeout=60s");
    // A controller of the cluster gathers the rules.
    plane.until_said("kubectl get clusterrole gathering -o jsonpath='{.rules}'", |said| {
        said.contains("/metrics")
    });
    let [url, authority, token] =
        ["URL", "CA", "TOKEN"].map(|name| std::env::var(format!("FERROPLANE_ORACLE_{name}")).unwrap());
    let address = ApiAddress::with_token(&url, &std::fs::read(authority).unwrap(), Some(token));
    (plane, address)
}

/// A question as `who-can` and as the API server is asked it.
struct Asked {
    arguments: Vec<String>,
    attributes: Value,
}

fn resource(verb: &str, group: &str, plural: &str, namespace: &str, name: &str) -> Asked {
    let word = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let word = if name.is_empty() { word } else { format!("{word}/{name}") };
    let mut arguments = vec![verb.to_owned(), word];
    if !namespace.is_empty() {
        arguments.extend(["-n".to_owned(), namespace.to_owned()]);
    }
    let attributes = json!({"resourceAttributes": {
        "verb": verb, "group": group, "resource": plural, "namespace": namespace, "name": name,
    }});
    Asked { arguments, attributes }
}

fn questions() -> Vec<Asked> {
    let mut asked = Vec::new();
    for verb in ["get", "create", "patch", "delete", "impersonate"] {
        for namespace in ["prod", "dev"] {
            for (group, plural, name) in [
                ("", "secrets", ""),
                ("", "secrets", "token"),
                ("", "configmaps", ""),
                ("", "serviceaccounts", "deployer"),
                ("shop.test.io", "carts", ""),
                ("apps", "deployments", ""),
                ("protection.crossplane.io", "usages", ""),
                ("rbac.authorization.k8s.io", "rolebindings", ""),
            ] {
                asked.push(resource(verb, group, plural, namespace, name));
            }
        }
        for (group, plural, name) in [
            ("apiextensions.crossplane.io", "compositions", ""),
            ("apiextensions.crossplane.io", "compositions", "cart"),
            ("apiextensions.crossplane.io", "compositeresourcedefinitions", ""),
            ("pkg.crossplane.io", "functions", ""),
            ("rbac.authorization.k8s.io", "clusterrolebindings", ""),
            ("ferroplane.io", "accessgrants", ""),
            ("", "users", ""),
        ] {
            asked.push(resource(verb, group, plural, "", name));
        }
    }
    let mut log = resource("get", "", "pods", "prod", "");
    log.arguments.extend(["--subresource".to_owned(), "log".to_owned()]);
    log.attributes["resourceAttributes"]["subresource"] = json!("log");
    asked.push(log);
    for path in ["/metrics", "/version", "/healthz/ping"] {
        let arguments = vec!["get".to_owned(), path.to_owned()];
        asked.push(Asked {
            arguments,
            attributes: json!({"nonResourceAttributes": {"verb": "get", "path": path}}),
        });
    }
    asked
}

impl Stage {
    /// For which users the two answers differ, and how many of them may do it.
    fn compare(&self, asked: &Asked) -> (Vec<String>, usize) {
        let arguments: Vec<_> = asked.arguments.iter().map(String::as_str).collect();
        let began = Instant::now();
        loop {
            let answers = self.answers(&arguments);
            let (mut faults, mut granted) = (Vec::new(), 0);
            for user in USERS {
                let told = answers.iter().any(|answer| is_direct_for(answer, user));
                let is_so = self.is_allowed(user, &asked.attributes);
                granted += usize::from(is_so);
                if told != is_so {
                    faults.push(format!("{user}: {arguments:?}: told {told}, allowed {is_so}"));
                }
            }
            // A cluster copies rules of roles, and its authorizer goes by what it has watched: a difference may pass.
            if faults.is_empty() || !has_oracle() || began.elapsed() > PATIENCE {
                return (faults, granted);
            }
        }
    }
}

/// Whether an answer is about a direct right that a user has, alone or with a group that everybody is in. One for some names is no right
/// to all of them.
fn is_direct_for(answer: &Value, user: &str) -> bool {
    let subject = &answer["subject"];
    let name = subject["name"].as_str().unwrap();
    let is_user = match subject["kind"].as_str().unwrap() {
        "ServiceAccount" => {
            format!("system:serviceaccount:{}:{name}", subject["namespace"].as_str().unwrap()) == user
        }
        "Group" => {
            let is_account = user.starts_with("system:serviceaccount:");
            name == "system:authenticated" || is_account && name == "system:serviceaccounts"
        }
        _ => name == user,
    };
    is_user && answer["route"].as_array().unwrap().len() == 1 && answer["names"].is_null()
}

#[test]
fn direct_rights_are_those_that_the_api_server_grants() {
    let stage = Stage::new();
    let mut faults = Vec::new();
    let mut granted = 0;
    for asked in questions() {
        let (wrong, allowed) = stage.compare(&asked);
        faults.extend(wrong);
        granted += allowed;
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(granted > 100, "{granted}: too little is granted to mean anything");
}

/// Ben may change Compositions and nothing else. What the table says that he can cause, he causes; what it does not, he cannot.
#[test]
fn what_is_told_of_a_composition_really_happens() {
    let stage = Stage::new();
    let cart = "{apiVersion: shop.test.io/v1, kind: Cart, metadata: {name: one, namespace: prod}, spec: {crossplane: {compositionRef: {name: cart}}}}";
    assert!(stage.apply("", "/apis/shop.test.io/v1/namespaces/prod/carts/one", cart) < 300);
    stage.until_exists("/api/v1/namespaces/prod/configmaps/cart");
    let bens = |arguments: &[&str]| stage.answers(&[arguments, &["--subject", "ben"]].concat());

    let secrets = bens(&["create", "secrets", "-n", "prod"]);
    assert_eq!(secrets.len(), 1, "{secrets:#?}");
    assert_eq!(secrets[0]["isCertain"], true);
    let table = stage.run(&["create", "secrets", "-n", "prod", "--subject", "ben"]).stdout;
    let route = format!(
        "changes Composition cart of Cart.shop.test.io → User {} may create secrets",
        Stage::composer()
    );
    assert!(table.starts_with("SUBJECT") && table.contains(&route), "{table}");
    let direct = "/api/v1/namespaces/prod/secrets";
    let secret = "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"direct\"}}";
    assert_eq!(stage.ask("ben", "POST", direct, "application/json", secret).code, 403);
    assert!(stage.apply("ben", COMPOSITION, &composition("Secret", "v1", "made", "")) < 300);
    stage.until_exists("/api/v1/namespaces/prod/secrets/made");

    // A namespaced kind leads to nothing that is in no namespace, and to no namespace that has none of it. Where tokens come from Secrets,
    // it might, in a namespace with a mightier account: once there is a Cart.
    let beyond = bens(&["create", "clusterrolebindings"]);
    assert!(beyond.iter().all(|answer| has_oracle() && answer["isCertain"] == false), "{beyond:#?}");
    assert!(bens(&["create", "secrets", "-n", "dev"]).iter().all(|answer| answer["isCertain"] == false));
    // Eve may write Carts in dev alone, which the Composition of before makes ConfigMaps of.
    let overview = stage.run(&["--subject", "ben"]).stdout;
    assert!(
        overview.contains("decides what is composed") && overview.contains("changes Secrets"),
        "{overview}"
    );
    let yaml = stage.run(&["create", "secrets", "-n", "prod", "-o", "yaml"]).stdout;
    assert!(yaml.contains("answers:") && yaml.contains("route:"), "{yaml}");
}

const COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/cart";

fn composition(kind: &str, api_version: &str, name: &str, rest: &str) -> String {
    format!(
        "{{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {{name: cart}}, spec: {{mode: Pipeline, \
         compositeTypeRef: {{apiVersion: shop.test.io/v1, kind: Cart}}, pipeline: [{{step: compose, \
         functionRef: {{name: function-patch-and-transform}}, input: {{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, \
         resources: [{{name: it, base: {{apiVersion: {api_version}, kind: {kind}, metadata: {{name: {name}}}{rest}}}}}]}}}}]}}}}"
    )
}

#[test]
fn questions_without_an_answer_are_refused_with_words() {
    let stage = Stage::new();
    let run = |arguments: &[&str]| {
        let arguments = [&["audit", "who-can", "--kubeconfig", "kubeconfig"], arguments].concat();
        Ran::from(ferroplane(&stage.plane.path(""), &arguments).output().unwrap())
    };
    let ran = run(&["delete"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("name it after the verb"), "{}", ran.stderr);
    let ran = run(&["delete", "secrets", "-n", "prod"]);
    assert!(ran.stderr.contains("--all shows them"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("User system:ferroplane "), "{}", ran.stdout);
}
