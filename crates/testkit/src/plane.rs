//! A control plane in one line: an API server, and controllers that work on it.
//!
//! The API server is in memory or, if the environment names one, a real one (see [`ApiServer::find`]).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(missing_debug_implementations, reason = "no test prints a plane")]

mod api_server;
mod exec_service;
mod functions;
pub mod registry;
mod signer;
pub mod sites;
mod write_log;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::PackageKind;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::store::Store;
use ferroplane_client::{ApiClient, Query};
use ferroplane_controllers::{
    ActionSettings, COMPOSER, CONTROLLERS, Clock, Controllers, DigestKey, Holdings, PlanError, PlanRequest,
    Planner, Settings, Tuning, install,
};
use ferroplane_engine::action::PodSupport;
use ferroplane_engine::changes::ChangePlan;
use ferroplane_functions::Implementation;
use ferroplane_recorder::{Archive, Recorder, Recording};
use ferroplane_runner::{External, ResponseCache, grpc};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};

use crate::Kubelet;
use write_log::WriteLog;

pub use api_server::{
    ApiServer, RestartableServer, RestartableService, StoredState, master, protection_address,
};
pub use functions::{aged, built_ins};
pub use registry::FakeRegistry;
pub use signer::ImageSigner;

/// How long anything may take on a busy machine. A real garbage collector learns of new kinds every 30 seconds.
const PATIENCE: Duration = Duration::from_secs(90);

/// How much is kept of what was recorded.
const RECORDINGS: u64 = 64 << 20;

/// A control plane, as a user sees it.
#[expect(clippy::struct_excessive_bools, reason = "switches are what they are")]
pub struct Plane {
    client: kube::Client,
    server: ApiServer,
    /// What controllers write, unless that is measured.
    log: Option<WriteLog>,
    controllers: Option<Controllers>,
    functions: Vec<(String, Implementation)>,
    writes_roles: bool,
    recorder: Recorder,
    /// Whether everything that was recorded is replayed in the end.
    replays: bool,
    /// What functions answered, for as long as they said that it holds: over restarts, as in a data directory.
    answers: Arc<ResponseCache>,
    /// How much controllers do at a time, and how often. Counts from the next start on.
    pub tuning: Tuning,
    /// Whether steps may name revisions and labels of functions. Counts from the next start on.
    pub enables_function_revision_selectors: bool,
    /// Whether functions are called that developers serve. Counts from the next start on.
    pub allows_development_functions: bool,
    /// Whether operations are run. Counts from the next start on.
    pub runs_operations: bool,
    /// Whether ActionSets are run. Counts from the next start on.
    pub runs_actions: bool,
    /// How functions are called that are served somewhere. Counts from the next start on.
    pub calls: grpc::Options,
    /// What runs images and calls webhooks. Counts from the next start on; without it, that is off.
    pub external: Option<External>,
    /// Where packages come from. Counts from the next start on; without it, none are installed.
    pub registry: Option<FakeRegistry>,
    /// What runs commands in pods. Counts from the next start on; without it, that is off.
    pub kubelet: Option<Arc<Kubelet>>,
    /// What time controllers think it is. Counts from the next start on.
    pub clock: Clock,
}

impl Plane {
    pub async fn new() -> Self {
        Self::with_functions(Vec::new()).await
    }

    /// A plane that gives rights on what is defined.
    pub async fn with_roles() -> Self {
        let mut plane = Self::new().await;
        plane.stop().await;
        plane.writes_roles = true;
        plane.start().await;
        plane
    }

    /// A plane on which one more function can be called.
    pub async fn with_function(
        name: &str,
        answer: impl Fn(&RunFunctionRequest) -> RunFunctionResponse + Send + Sync + 'static,
    ) -> Self {
        Self::with_functions(vec![(name.to_owned(), Implementation::new(answer))]).await
    }

    async fn with_functions(functions: Vec<(String, Implementation)>) -> Self {
        let mut plane = Self::on(ApiServer::find().await).await;
        plane.functions = functions;
        plane.start().await;
        plane
    }

    async fn on(server: ApiServer) -> Self {
        install(&ApiClient::new(server.client(&master("ferroplane")))).await.unwrap();
        Self::installed(server)
    }

    /// A plane on ground that has all kinds, and that nobody works on, yet.
    pub fn installed(server: ApiServer) -> Self {
        let client = server.client(&master("user"));
        Self {
            client,
            server,
            log: Some(WriteLog::default()),
            controllers: None,
            functions: Vec::new(),
            writes_roles: false,
            recorder: Recorder::in_step(RECORDINGS, [7; 32]),
            replays: true,
            answers: Arc::new(ResponseCache::in_memory()),
            tuning: Tuning::default(),
            enables_function_revision_selectors: true,
            allows_development_functions: true,
            runs_operations: true,
            runs_actions: true,
            calls: grpc::Options::default(),
            external: None,
            registry: None,
            kubelet: None,
            clock: Clock::system(),
        }
    }

    /// A plane to measure, on which these functions can be called: its objects are in a directory, as those of `ferroplane up` are, and it
    /// records with this. Nothing of what it does is noted or replayed besides. Controllers do not run yet.
    pub async fn open(directory: &Path, recorder: Recorder, functions: &[(String, Implementation)]) -> Self {
        let server = ApiServer::open(directory).await;
        // As in `ferroplane up`: with the rights that roles give, which takes a decision for every request.
        server.grant_rights().await;
        install(&ApiClient::new(server.client(&user(CONTROLLERS)))).await.unwrap();
        let mut plane = Self::installed(server);
        (plane.log, plane.recorder, plane.replays) = (None, recorder, false);
        plane.functions = functions.to_vec();
        plane.writes_roles = true;
        plane
    }

    /// A plane that installs packages from this registry.
    pub async fn with_registry(registry: &FakeRegistry) -> Self {
        let mut plane = Self::on(ApiServer::find().await).await;
        plane.registry = Some(registry.clone());
        plane.start().await;
        plane
    }

    /// A plane on a cluster, where programs of packages of these kinds run in pods. Nobody starts the pods: whoever wants a Deployment to
    /// be available writes its status.
    pub async fn with_pods(registry: &FakeRegistry, kinds: &[PackageKind]) -> Self {
        registry.run_in_pods(kinds);
        let mut plane = Self::on(ApiServer::find().await).await;
        let name = registry::NAMESPACE;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        plane.apply(&format!("/api/v1/namespaces/{name}"), &namespace).await;
        plane.registry = Some(registry.clone());
        plane.writes_roles = true;
        // As `start` has it at first: names are Crossplane's.
        plane.enables_function_revision_selectors = false;
        // Roles of providers give rights that controllers do not have where nothing runs in pods.
        plane.start_as(master("ferroplane")).await;
        plane
    }

    /// A plane that runs the providers of packages on this machine, as a caller that follows the registry's list of them wishes.
    pub async fn with_providers(registry: &FakeRegistry) -> Self {
        let mut plane = Self::on(ApiServer::find().await).await;
        plane.registry = Some(registry.clone());
        plane.writes_roles = true;
        plane.start().await;
        plane
    }

    /// What was recorded of all that controllers did.
    pub fn recordings(&self) -> Archive {
        self.recorder.archive()
    }

    /// Whether the API server is a real one. That has controllers of its own, and does not ask our advisor about what is written: the tests
    /// serve no webhooks that it could reach.
    pub fn is_real(&self) -> bool {
        matches!(self.server, ApiServer::Real(_))
    }

    /// What the API server in memory has, if it is that.
    pub fn store(&self) -> Option<&Store> {
        match &self.server {
            ApiServer::Embedded(server) => Some(server.store()),
            ApiServer::Restartable(_) | ApiServer::Real(_) => None,
        }
    }

    /// What controllers hold in memory because of composite resources.
    pub fn holdings(&self) -> Holdings {
        self.controllers.as_ref().unwrap().holdings()
    }

    /// End all controllers, and start others that know nothing of what those did.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    pub async fn stop(&mut self) {
        if let Some(controllers) = self.controllers.take() {
            controllers.stop().await;
        }
    }

    /// Start controllers, on an API server in memory with the rights that they have there.
    pub async fn start(&mut self) {
        let controllers = match &self.server {
            ApiServer::Embedded(_) => {
                self.server.grant_rights().await;
                self.controllers_of(&user(CONTROLLERS), Some(&user(COMPOSER))).await
            }
            ApiServer::Restartable(_) | ApiServer::Real(_) => {
                self.controllers_of(&master("ferroplane"), None).await
            }
        };
        self.server.protect(controllers.protection()).await;
        self.server.advise(controllers.advisor()).await;
        self.controllers = Some(controllers);
    }

    /// Start controllers that are asked about nothing that others write.
    pub async fn start_unasked(&mut self) {
        self.controllers = Some(self.controllers_of(&user(CONTROLLERS), Some(&user(COMPOSER))).await);
    }

    /// End everything, and wait until all objects are stored.
    pub async fn close(mut self) {
        self.stop().await;
        let ApiServer::Embedded(server) = &self.server else { return };
        server.stop();
        let store = server.store().clone();
        drop(self);
        store.close().await;
    }

    /// Start controllers that have the rights of somebody, and protect nothing.
    pub async fn start_as(&mut self, who: Identity) {
        self.controllers = Some(self.controllers_of(&who, None).await);
    }

    async fn controllers_of(&self, who: &Identity, composer: Option<&Identity>) -> Controllers {
        let kubelet = self.kubelet.as_deref();
        let client_of = |who: &Identity| match &self.log {
            Some(log) => self.server.logged_client(who, log, kubelet),
            None => self.server.client(who),
        };
        let client = client_of(who);
        let (writes_roles, recorder) = (self.writes_roles, self.recorder.clone());
        let (tuning, allows_development_functions) = (self.tuning.clone(), self.allows_development_functions);
        let composer = composer.map(|composer| ApiClient::new(client_of(composer)));
        let mut settings = Settings {
            clock: self.clock.clone(),
            composer,
            writes_roles,
            recorder,
            tuning,
            allows_development_functions,
            runs_operations: self.runs_operations,
            calls: self.calls.clone(),
            answers: self.answers.clone(),
            enables_function_revision_selectors: self.enables_function_revision_selectors,
            packages: self.registry.as_ref().map(FakeRegistry::manager),
            ..settings(&self.functions)
        };
        if kubelet.is_some() {
            settings.actions =
                Some(ActionSettings { has_exec: true, pods: PodSupport::Cluster, ..actions() });
        }
        if !self.runs_actions {
            settings.actions = Some(ActionSettings { runs: false, ..actions() });
        }
        if let Some(external) = &self.external {
            settings.built_ins.directory.enable_external(external);
        }
        Controllers::start(client, settings).await.unwrap()
    }

    /// What plans changes on it.
    pub fn planner(&self) -> Planner {
        self.controllers.as_ref().expect("controllers run").planner()
    }

    /// The API server as an administrator sees it.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The API server as somebody sees it.
    pub fn client_of(&self, who: &Identity) -> ApiClient {
        ApiClient::new(self.server.client(who))
    }

    /// What a change would do, as an administrator sees it.
    pub async fn plan(&self, objects: &[Value]) -> Result<ChangePlan, PlanError> {
        let objects = objects.iter().map(|object| object.as_object().unwrap().clone()).collect();
        let request = PlanRequest { objects, ..PlanRequest::default() };
        self.planner().plan(&request, &self.client_of(&master("user"))).await
    }

    /// The versions of everything there is, by what it is called.
    pub async fn versions(&self) -> BTreeMap<String, String> {
        let client = self.client_of(&master("user"));
        let mut versions = BTreeMap::new();
        // A real API server has controllers, which renew leases and make themselves accounts, whatever happens.
        let is_theirs = |plural: &str, namespace: &str| {
            self.is_real() && plural == "serviceaccounts" && namespace == "kube-system"
        };
        for resource in client.catalogue().await.unwrap().resources().filter(|it| it.plural != "leases") {
            let objects = client.list_objects(resource, "", &Query::default()).await;
            for object in objects.unwrap_or_default() {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                if is_theirs(&resource.plural, &text("namespace")) {
                    continue;
                }
                let name = format!("{} {}/{}", resource.plural, text("namespace"), text("name"));
                versions.insert(name, text("resourceVersion"));
            }
        }
        versions
    }

    /// What controllers have asked to be changed since the last time this was asked, as `METHOD /path`, without events.
    pub fn writes(&self) -> Vec<String> {
        self.log.as_ref().map(WriteLog::take).unwrap_or_default()
    }

    /// Wait until controllers have nothing to change any more. Returns what they have changed.
    pub async fn quiet(&self) -> Vec<String> {
        let mut writes = self.writes();
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            match self.writes() {
                more if more.is_empty() => return writes,
                more => writes.extend(more),
            }
        }
    }

    /// Send a request. Returns the code and the body of the answer.
    /// Send a request. Returns the code and the body of the answer.
    pub async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        send(&self.client, method, path, kind, body).await
    }

    /// Send a request as somebody else.
    pub async fn send_as(&self, who: Identity, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let client = self.server.client(&who);
        send(&client, method, path, "application/json", body).await
    }

    /// What the API server warns of when somebody applies an object.
    pub async fn warnings(&self, path: &str, object: &Value) -> Vec<String> {
        let request = Request::patch(format!("{path}?fieldManager=user&force=true"))
            .header("content-type", "application/apply-patch+yaml")
            .body(Body::from(object.to_string().into_bytes()));
        let response = self.client.send(request.unwrap()).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        let warnings = response.headers().get_all("warning").iter();
        warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect()
    }

    /// What the controllers have counted.
    pub fn metrics(&self) -> String {
        let mut page = ferroplane_metrics::Exposition::default();
        if let Some(controllers) = &self.controllers {
            controllers.metrics().write(&mut page);
        }
        page.into_text()
    }

    /// Read an object; null if there is none.
    pub async fn get(&self, path: &str) -> Value {
        match self.send(Method::GET, path, "application/json", &Value::Null).await {
            (200, object) => object,
            _ => Value::Null,
        }
    }

    /// Apply an object as a user would.
    pub async fn apply(&self, path: &str, object: &Value) -> Value {
        let path = format!("{path}?fieldManager=user&force=true");
        let (code, answer) = self.send(Method::PATCH, &path, "application/apply-patch+yaml", object).await;
        assert!(code < 300, "{code} {answer}");
        answer
    }

    /// Change some fields of an object as a user would.
    pub async fn merge(&self, path: &str, change: &Value) -> Value {
        let (code, answer) = self.send(Method::PATCH, path, "application/merge-patch+json", change).await;
        assert!(code < 300, "{code} {answer}");
        answer
    }

    pub async fn delete(&self, path: &str) {
        self.send(Method::DELETE, path, "application/json", &json!(null)).await;
    }

    /// Wait until an object is as it should be (null if it should be gone). Returns it.
    pub async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let object = self.get(path).await;
            if is_so(&object) {
                return object;
            }
            assert!(tokio::time::Instant::now() < deadline, "never came to be: {path}: {object:#}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Wait until an event about an object says so, as in `Normal/Reason: text`.
    pub async fn until_said(&self, name: &str, words: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let events = self.events(name).await;
            if events.iter().any(|event| event.contains(words)) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "nobody said `{words}`: {events:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// All events about an object, as `Normal/Reason: text`.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let list = self.get("/api/v1/events").await;
        let events = list["items"].as_array().unwrap().iter();
        let events = events.filter(|event| event["involvedObject"]["name"] == name);
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let line =
            |event| format!("{}/{}: {}", text(event, "type"), text(event, "reason"), text(event, "message"));
        events.map(line).collect()
    }

    /// The codes of the failures that events about an object report, as `Reason: Code`.
    pub async fn event_codes(&self, name: &str) -> Vec<String> {
        let list = self.get("/api/v1/events").await;
        let events = list["items"].as_array().unwrap().iter();
        let events = events.filter(|event| event["involvedObject"]["name"] == name);
        let line = |event: &Value| {
            let code = event["metadata"]["annotations"]["ferroplane.io/cause"].as_str()?;
            Some(format!("{}: {code}", event["reason"].as_str()?))
        };
        events.filter_map(line).collect()
    }
}

impl Drop for Plane {
    /// Whatever a test is about, everything that was recorded meanwhile can be obtained again.
    fn drop(&mut self) {
        if self.replays && !std::thread::panicking() {
            assert_same(&self.recordings());
        }
    }
}

/// A client that has what roles give it.
fn user(name: &str) -> Identity {
    Identity::authenticated(name, [])
}

/// Every recording has the same result again, byte for byte.
pub fn assert_same(archive: &Archive) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let replay = |recording: Recording| {
        for take in &recording.takes {
            let replayed = take.replay();
            let (unlike, astray) = (&replayed.unlike, &replayed.astray);
            let (recorded, now) = (text(&take.outcome), text(&replayed.outcome));
            assert!(
                replayed.is_same,
                "{:?}\nunlike {unlike:?}, astray {astray:?}\n{recorded}\n{now}",
                recording.head
            );
        }
    };
    archive.each(|recording| replay(recording.unwrap())).unwrap();
}

/// Send a request. Returns the code and the body of the answer.
pub async fn send(
    client: &kube::Client,
    method: Method,
    path: &str,
    kind: &str,
    body: &Value,
) -> (u16, Value) {
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let response = client.send(request.body(Body::from(text)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Controllers with these functions besides those that are built in, and nothing recorded.
pub fn settings(functions: &[(String, Implementation)]) -> Settings {
    Settings {
        clock: Clock::system(),
        built_ins: built_ins(functions),
        calls: grpc::Options::default(),
        local_functions: Arc::default(),
        answers: Arc::new(ResponseCache::in_memory()),
        recorder: Recorder::off(),
        writes_roles: false,
        runs_operations: true,
        digest_key: DigestKey::new([7; 32]),
        actions: Some(actions()),
        composer: None,
        allows_development_functions: true,
        tuning: Tuning::default(),
        enables_function_revision_selectors: true,
        packages: None,
    }
}

/// How actions of Blueprints are run: without pods.
pub fn actions() -> ActionSettings {
    ActionSettings {
        runs: true,
        has_exec: false,
        pods: PodSupport::None,
        containers: None,
        is_strict: false,
        seed: [7; 32],
    }
}

/// The status and reason of a condition of an object, as `True/Reason`.
pub fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(format!("{}/{}", condition["status"].as_str()?, condition["reason"].as_str()?))
}

/// The code of the failure that a condition of an object reports. Empty if it reports none.
pub fn condition_code(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let condition = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    condition.and_then(|condition| condition["code"].as_str()).unwrap_or_default().to_owned()
}
