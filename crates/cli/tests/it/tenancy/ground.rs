//! A plane with two tenants, and everybody's way to its API server.

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_testkit::{ApiAddress, ApiAnswer, ApiClient, RawConnection};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Runtime;

use crate::plane::Plane;

/// What only the other tenant may know. It stands in a Secret, in a `ConfigMap`, and in what an XR composes.
pub(super) const SECRET: &str = "the-secret-of-blue";

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Everybody who sends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// The process that runs the plane.
    Administrator,
    /// The administrator of the namespace `red`: the attacker.
    Red,
    /// Somebody of the same team who may write the platform's definitions and Compositions.
    Author,
    /// The administrator of the namespace `blue`: the victim.
    Blue,
    /// Somebody who shows no credentials.
    Nobody,
    /// Somebody who shows credentials that nobody issued.
    Forger,
}

impl Who {
    /// As whom the audit log knows them, if they show who they are.
    pub(super) fn account(self) -> Option<&'static str> {
        match self {
            // A client certificate says.
            Self::Administrator | Self::Nobody | Self::Forger => None,
            Self::Red => Some("system:serviceaccount:red:tenant"),
            Self::Author => Some("system:serviceaccount:red:author"),
            Self::Blue => Some("system:serviceaccount:blue:tenant"),
        }
    }
}

/// What every user may ask.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// The plane, and how each of them reaches it.
pub(super) struct Tenants {
    plane: Plane,
    runtime: Runtime,
    administrator: ApiAddress,
    url: String,
    authority: Vec<u8>,
    tokens: [String; 3],
}

impl Tenants {
    pub(super) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("ground.yaml"), include_str!("ground.yaml")).unwrap();
        let plane = Plane::start(directory, &["ground.yaml", "--data-dir", "data"]);
        plane.until("note: applied: ");
        let kubeconfig = plane.path("kubeconfig");
        let administrator = ApiAddress::from_kubeconfig(&kubeconfig).unwrap();
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        let authority = STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap()).unwrap();
        let url = cluster["server"].as_str().unwrap().to_owned();
        let runtime = Runtime::new().unwrap();
        let mut tenants =
            Self { plane, runtime, administrator, url, authority, tokens: [const { String::new() }; 3] };
        tenants.tokens = [("red", "tenant"), ("red", "author"), ("blue", "tenant")]
            .map(|(namespace, name)| tenants.token(namespace, name));
        tenants
    }

    fn token(&self, namespace: &str, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
        let answer = self.json(Who::Administrator, "POST", &path, body);
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    pub(super) fn address(&self, who: Who) -> ApiAddress {
        let token = match who {
            Who::Administrator => return self.administrator.clone(),
            Who::Red => Some(self.tokens[0].clone()),
            Who::Author => Some(self.tokens[1].clone()),
            Who::Blue => Some(self.tokens[2].clone()),
            Who::Nobody => None,
            // The token of somebody real, with another signature.
            Who::Forger => Some(format!("{}AAAA", &self.tokens[2][..self.tokens[2].len() - 4])),
        };
        ApiAddress::with_token(&self.url, &self.authority, token)
    }

    /// The address for one more service account of the attacker, whose administrator makes it.
    pub(super) fn one_more_account(&self, name: &str) -> ApiAddress {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        self.json(Who::Red, "POST", "/api/v1/namespaces/red/serviceaccounts", &account.to_string());
        ApiAddress::with_token(&self.url, &self.authority, Some(self.token("red", name)))
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// What somebody is answered.
    pub(super) fn ask(
        &self,
        who: Who,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> ApiAnswer {
        self.runtime.block_on(async {
            let mut client = ApiClient::connect(&self.address(who)).await.unwrap();
            let asking = client.send_with(method, path, headers, body);
            tokio::time::timeout(PATIENCE, asking).await.expect("an answer in time").unwrap()
        })
    }

    /// Begins a request of the attacker with one byte of its body. The rest never comes.
    pub(super) async fn stall(&self) -> io::Result<RawConnection> {
        let mut connection = self.address(Who::Red).dial(Ipv4Addr::LOCALHOST.into(), "http/1.1").await?;
        let host = self.url.trim_start_matches("https://").trim_end_matches('/');
        let request = format!(
            "POST {REVIEWS} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{",
            self.tokens[0]
        );
        connection.write_all(request.as_bytes()).await?;
        connection.flush().await?;
        Ok(connection)
    }

    /// What somebody is answered who may ask.
    pub(super) fn json(&self, who: Who, method: &str, path: &str, body: &str) -> Value {
        let answer = self.ask(who, method, path, &[("content-type", "application/json")], body);
        assert!(answer.code < 300, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Writes something that somebody may write.
    pub(super) fn apply(&self, who: Who, path: &str, manifest: &str) {
        let path = format!("{path}?fieldManager=tenancy&force=true");
        let headers = [("content-type", "application/apply-patch+yaml")];
        let answer = self.ask(who, "PATCH", &path, &headers, manifest);
        assert!(answer.code < 300, "{path}: {}", String::from_utf8_lossy(&answer.body));
    }

    /// What is at a path once it is as somebody wants it.
    pub(super) fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(Who::Administrator, "GET", path, &[], "");
            let value: Value = serde_json::from_slice(&answer.body).unwrap();
            if answer.code == 200 && is_so(&value) {
                return value;
            }
            assert!(Instant::now() < deadline, "{path} does not become so: {:#}", value["status"]);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Everything that attacks must leave as it is: what belongs to the victim, and what gives rights to anybody.
    pub(super) fn untouched(&self) -> Vec<(String, Vec<String>)> {
        UNTOUCHED.iter().map(|path| ((*path).to_owned(), self.versions_of(path))).collect()
    }

    fn versions_of(&self, path: &str) -> Vec<String> {
        let list = self.json(Who::Administrator, "GET", path, "");
        let items = list["items"].as_array().unwrap().iter();
        let mut versions: Vec<_> = items
            .map(|item| {
                let meta = &item["metadata"];
                format!("{}/{} {}", meta["namespace"], meta["name"], meta["resourceVersion"])
            })
            .collect();
        versions.sort();
        versions
    }

    /// Waits until the plane has said that it denied each of these composite resources an object.
    pub(super) fn hears_denials_of(&self, names: &[&str]) {
        assert!(names.len() >= 6, "{names:?}");
        let mut left: Vec<_> = names.to_vec();
        while !left.is_empty() {
            let line = self.plane.until("denied access to an object");
            assert!(line.contains("AccessNotGranted") && line.contains("red"), "{line}");
            left.retain(|name| !line.contains(&format!("name={name} ")));
        }
    }

    /// The lines of the audit log.
    pub(super) fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.plane.path("data/audit.log")).unwrap();
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

const UNTOUCHED: &[&str] = &[
    "/api/v1/namespaces/blue/secrets",
    "/api/v1/namespaces/blue/configmaps",
    "/api/v1/namespaces/blue/serviceaccounts",
    "/api/v1/namespaces/blue/events",
    "/api/v1/namespaces/blue/resourcequotas",
    "/api/v1/namespaces/red/resourcequotas",
    "/apis/tenancy.test.io/v1/namespaces/blue/apps",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/blue/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/red/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/api/v1/namespaces",
];
