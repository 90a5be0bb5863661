//! Kanister's own controller and ours, given the same Blueprints and ActionSets: how do they end, and what do they leave?
//!
//! `cargo xtask compare --actions` runs this beside a kube-apiserver. Both sides use our definitions, each in a namespace of its own, one
//! after the other. `kanister/cases.yaml` has the cases: functions that need the API server alone, at v0.0.0.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ferroplane_client::ApiClient;
use ferroplane_controllers::{Controllers, install};
use ferroplane_testkit::plane::{ApiServer, master, send, settings};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

const CASES: &str = include_str!("kanister/cases.yaml");
const OURS: &str = "actions-of-ferroplane";
const THEIRS: &str = "actions-of-kanister";
const GROUP: &str = "/apis/cr.kanister.io/v1alpha1/namespaces";
/// How long a case may take. Kanister asks again after up to ten seconds.
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(100);

/// A case: objects that are there, and an action that is run on them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    objects: Vec<Value>,
    /// The action of the Blueprint. Without one, there is no Blueprint.
    blueprint: Option<Value>,
    /// Fields of the actions of the ActionSet.
    actions: Vec<Value>,
}

/// How cases ended, by their names.
type Portraits = BTreeMap<String, Value>;

#[tokio::test]
async fn action_sets_end_as_with_kanister() {
    if std::env::var_os("FERROPLANE_COMPARE_ACTIONS").is_none() {
        return;
    }
    let server = ApiServer::find().await;
    let user = server.client(&master("user"));
    let plane = server.client(&master("ferroplane"));
    install(&ApiClient::new(plane.clone())).await.unwrap();
    let controllers = Controllers::start(plane, settings(&[])).await.unwrap();
    let ours = play(&user, OURS).await;
    controllers.stop().await;
    let kanister = Kanister::start(THEIRS);
    let theirs = play(&user, THEIRS).await;
    drop(kanister);
    let differences: Vec<_> =
        ours.iter().filter(|(name, portrait)| theirs.get(*name) != Some(*portrait)).collect();
    for (name, portrait) in &differences {
        eprintln!("{name}\nours: {portrait:#}\nKanister's: {:#}", theirs[*name]);
    }
    assert!(differences.is_empty(), "{} of {} cases end otherwise", differences.len(), ours.len());
    println!("{} cases end as with Kanister", ours.len());
}

/// Kanister's controller. Ends when it is dropped.
struct Kanister(Child);

impl Kanister {
    /// Have it follow a namespace. The environment says where it is, and has the kubeconfig.
    fn start(namespace: &str) -> Self {
        let peers = std::env::var_os("FERROPLANE_PEERS").expect("`cargo xtask compare` says where peers are");
        let mut command = Command::new(PathBuf::from(peers).join("kanister"));
        command.env("POD_NAMESPACE", namespace).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Kanister {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Run all cases in a namespace, one after the other.
async fn play(user: &kube::Client, namespace: &str) -> Portraits {
    let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    apply(user, &format!("/api/v1/namespaces/{namespace}"), &object).await;
    let mut portraits = Portraits::new();
    for case in &cases {
        prepare(user, namespace, case).await;
        let ended = run(user, namespace, case).await;
        let maps = maps(user, namespace, &case.name).await;
        let text =
            json!({"status": portrait(&ended), "maps": maps}).to_string().replace(namespace, "NAMESPACE");
        portraits.insert(case.name.clone(), serde_json::from_str(&text).unwrap());
    }
    portraits
}

async fn prepare(user: &kube::Client, namespace: &str, case: &Case) {
    let target = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "target"}, "data": {"color": "red"}});
    for object in case.objects.iter().chain([&target]) {
        let (place, plural) = match object["kind"].as_str().unwrap() {
            "ConfigMap" => ("/api/v1", "configmaps"),
            "Secret" => ("/api/v1", "secrets"),
            "Deployment" => ("/apis/apps/v1", "deployments"),
            kind => panic!("no case needs a {kind}"),
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        apply(user, &format!("{place}/namespaces/{namespace}/{plural}/{name}"), object).await;
    }
    if let Some(action) = &case.blueprint {
        let blueprint = json!({
            "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": case.name},
            "actions": {"run": action},
        });
        apply(user, &format!("{GROUP}/{namespace}/blueprints/{}", case.name), &blueprint).await;
    }
}

/// Run the actions of a case until they have ended.
async fn run(user: &kube::Client, namespace: &str, case: &Case) -> Value {
    let target = json!({
        "apiVersion": "v1", "group": "", "resource": "configmaps", "name": "target", "namespace": namespace,
    });
    let actions = case.actions.iter().map(|more| {
        let mut action = json!({
            "name": "run", "blueprint": case.name, "object": target, "preferredVersion": "v0.0.0",
        });
        let text = more.to_string().replace("NAMESPACE", namespace);
        let more: Value = serde_json::from_str(&text).unwrap();
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        action
    });
    let action_set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": case.name},
        "spec": {"actions": actions.collect::<Vec<_>>()},
    });
    let path = format!("{GROUP}/{namespace}/actionsets/{}", case.name);
    apply(user, &path, &action_set).await;
    tokio::time::timeout(PATIENCE, ended(user, &path))
        .await
        .unwrap_or_else(|_| panic!("{} never ends", case.name))
}

/// Wait until an ActionSet and all of its deferred phases have ended. Kanister says `failed` before it runs those.
async fn ended(user: &kube::Client, path: &str) -> Value {
    loop {
        let (_, found) = send(user, Method::GET, path, "application/json", &Value::Null).await;
        let status = &found["status"];
        let is_final = status["state"] == "complete" || status["state"] == "failed";
        let mut actions = status["actions"].as_array().into_iter().flatten();
        let waits = |phase: &Value| phase["state"] == "pending" || phase["state"] == "running";
        if is_final && !actions.any(|action| waits(&action["deferPhase"])) {
            return found;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What both sides have to agree on: states, outputs, artifacts and progress, in Kanister's fields.
fn portrait(action_set: &Value) -> Value {
    let status = &action_set["status"];
    let is_complete = status["state"] == "complete";
    let actions = status["actions"].as_array().into_iter().flatten().map(|action| {
        let phases = action["phases"].as_array().into_iter().flatten().map(phase);
        // Kanister shows templates as artifacts until an action has succeeded.
        let artifacts = action["artifacts"].as_object().into_iter().flatten().filter(|_| is_complete);
        let artifacts: BTreeMap<_, _> = artifacts.map(|(name, it)| (name, &it["keyValue"])).collect();
        json!({
            "name": action["name"], "phases": phases.collect::<Vec<_>>(),
            "deferPhase": phase(&action["deferPhase"]), "artifacts": artifacts,
        })
    });
    // An error at the start leaves no actions with Kanister, or some of them. Ours lists all.
    let actions: Vec<_> = actions.filter(has_run).collect();
    json!({
        "state": status["state"], "actions": actions,
        "hasError": status["error"]["message"].as_str().is_some_and(|message| !message.is_empty()),
        "percentCompleted": is_complete.then(|| status["progress"]["percentCompleted"].clone()),
    })
}

/// Whether a phase of an action has begun.
fn has_run(action: &Value) -> bool {
    let mut phases = action["phases"].as_array().into_iter().flatten();
    phases.any(|phase| phase["state"] == "complete" || phase["state"] == "failed")
}

/// What is compared of a phase. Without a deferred phase, Kanister has one without a name.
fn phase(phase: &Value) -> Value {
    let text = |field: &str| phase[field].as_str().unwrap_or_default().to_owned();
    let output = phase["output"].as_object().into_iter().flatten().filter(|(_, value)| !is_empty(value));
    // Numbers are numbers with one side, and texts with the other: templates see the same.
    let output: BTreeMap<_, _> = output.map(|(key, value)| (key, as_text(value))).collect();
    json!({"name": text("name"), "state": text("state"), "output": output})
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The data of the maps that a case has made: their names begin with that of the case.
async fn maps(user: &kube::Client, namespace: &str, case: &str) -> BTreeMap<String, Value> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let (_, list) = send(user, Method::GET, &path, "application/json", &Value::Null).await;
    let maps = list["items"].as_array().into_iter().flatten();
    let maps = maps.map(|map| (map["metadata"]["name"].as_str().unwrap().to_owned(), map["data"].clone()));
    maps.filter(|(name, _)| name.starts_with(case)).collect()
}

async fn apply(user: &kube::Client, path: &str, object: &Value) {
    let path = format!("{path}?fieldManager=user&force=true");
    let (code, answer) = send(user, Method::PATCH, &path, "application/apply-patch+yaml", object).await;
    assert!(code < 300, "{code} {answer}");
}

#[test]
fn cases_have_names_of_their_own_and_name_what_they_make() {
    let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
    let names: std::collections::BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len());
    // A name that another one begins with would count its maps, too.
    for name in &names {
        assert!(names.iter().all(|other| other == name || !other.starts_with(name.as_str())), "{name}");
    }
}

#[test]
fn portrait_tells_states_outputs_and_artifacts_apart() {
    let action_set = |state: &str, output: &Value| {
        let phases = json!([{"name": "p", "state": "complete", "output": {"count": output}}]);
        let actions =
            json!([{"name": "run", "phases": phases, "artifacts": {"a": {"keyValue": {"k": "v"}}}}]);
        portrait(
            &json!({"status": {"state": state, "actions": actions, "progress": {"percentCompleted": "100"}}}),
        )
    };
    assert_eq!(action_set("complete", &json!(3)), action_set("complete", &json!("3")));
    assert_ne!(action_set("complete", &json!(3)), action_set("complete", &json!(4)));
    assert_ne!(action_set("complete", &json!(3)), action_set("failed", &json!(3)));
}
