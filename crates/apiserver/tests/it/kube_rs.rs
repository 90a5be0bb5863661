//! `kube`, the client library of Rust, speaks with the server in its own process.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::listeners::HttpService;
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event as RecordedEvent;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizing, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Controller, WatchStreamExt as _};
use kube::{Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cluster::Cluster;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.org",
    version = "v1",
    kind = "Gadget",
    namespaced,
    status = "GadgetStatus",
    shortname = "gd",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(name = "Size", type_ = "string", json_path = ".spec.size")
)]
struct GadgetSpec {
    size: String,
    #[serde(default)]
    replicas: i32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct GadgetStatus {
    replicas: Option<i32>,
}

async fn client() -> Client {
    let cluster = Cluster::new().await;
    let identity = Identity::authenticated("admin", ["system:masters".to_owned()]);
    Client::new(HttpService::in_process(cluster.server(), identity), "default")
}

/// Installs the definition of gadgets, and waits until they are served.
async fn gadgets(client: &Client) -> Api<Gadget> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("tests").force();
    definitions.patch("gadgets.example.org", &apply, &Patch::Apply(Gadget::crd())).await.unwrap();
    let established = await_condition(definitions, "gadgets.example.org", conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established).await.unwrap().unwrap();
    Api::default_namespaced(client.clone())
}

fn settings(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}})).unwrap()
}

fn gadget(name: &str) -> Gadget {
    Gadget::new(name, GadgetSpec { size: "small".to_owned(), replicas: 1 })
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let api: Api<ConfigMap> = Api::default_namespaced(client().await);
    let made = api.create(&PostParams::default(), &settings("one")).await.unwrap();
    assert!(made.uid().is_some());
    let again = api.create(&PostParams::default(), &settings("one")).await.unwrap_err();
    assert!(matches!(&again, kube::Error::Api(status) if status.is_already_exists()), "{again:?}");

    let mut changed = made.clone();
    changed.data.get_or_insert_default().insert("b".to_owned(), "2".to_owned());
    let replaced = api.replace("one", &PostParams::default(), &changed).await.unwrap();
    let late = api.replace("one", &PostParams::default(), &made).await.unwrap_err();
    assert!(matches!(&late, kube::Error::Api(status) if status.is_conflict()), "{late:?}");
    assert_eq!(replaced.data.unwrap().len(), 2);

    for name in ["two", "three"] {
        api.create(&PostParams::default(), &settings(name)).await.unwrap();
    }
    let page = api.list(&ListParams::default().limit(2)).await.unwrap();
    let rest =
        api.list(&ListParams::default().continue_token(&page.metadata.continue_.unwrap())).await.unwrap();
    assert_eq!(page.items.len() + rest.items.len(), 3);
    let metadata: PartialObjectMeta<ConfigMap> = api.get_metadata("two").await.unwrap();
    assert_eq!(metadata.name_any(), "two");

    api.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("one").await.unwrap().is_none());
    api.delete_collection(&DeleteParams::default(), &ListParams::default().fields("metadata.name=two"))
        .await
        .unwrap();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

/// Follows what a watcher says until it has seen a name.
async fn seen(api: Api<ConfigMap>, config: watcher::Config) -> Vec<String> {
    let mut stream = pin!(watcher(api.clone(), config).default_backoff().applied_objects());
    let mut names = vec![stream.try_next().await.unwrap().unwrap().name_any()];
    api.create(&PostParams::default(), &settings("live")).await.unwrap();
    while names.last().is_none_or(|name| name != "live") {
        names.push(stream.try_next().await.unwrap().unwrap().name_any());
    }
    names
}

#[tokio::test]
async fn watchers_see_what_is_there_and_what_comes() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let api: Api<ConfigMap> = Api::default_namespaced(client().await);
        api.create(&PostParams::default(), &settings("early")).await.unwrap();
        let names = tokio::time::timeout(PATIENCE, seen(api, config)).await.unwrap();
        assert_eq!(names, ["early", "live"]);
    }
}

#[tokio::test]
async fn derived_kinds_are_defined_applied_scaled_and_given_a_status() {
    let client = client().await;
    let api = gadgets(&client).await;
    let apply = PatchParams::apply("one");
    let made = api.patch("g", &apply, &Patch::Apply(gadget("g"))).await.unwrap();
    assert_eq!((made.spec.replicas, made.meta().generation), (1, Some(1)));

    let other = json!({"apiVersion": "example.org/v1", "kind": "Gadget", "spec": {"size": "large"}});
    let conflict = api.patch("g", &PatchParams::apply("two"), &Patch::Apply(&other)).await.unwrap_err();
    assert!(conflict.to_string().contains("conflict with \"one\": .spec.size"), "{conflict}");
    let forced = api.patch("g", &PatchParams::apply("two").force(), &Patch::Apply(&other)).await.unwrap();
    assert_eq!(forced.spec.size, "large");

    let scale =
        api.patch_scale("g", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 3}}))).await;
    assert_eq!(scale.unwrap().spec.unwrap().replicas, Some(3));
    assert_eq!(api.get_scale("g").await.unwrap().spec.unwrap().replicas, Some(3));

    let status = json!({"status": {"replicas": 2}, "spec": {"size": "ignored"}});
    let told = api.patch_status("g", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!((told.status.unwrap().replicas, told.spec.size.as_str()), (Some(2), "large"));
}

#[tokio::test]
async fn deployments_are_scaled_and_patched() {
    let api: Api<Deployment> = Api::default_namespaced(client().await);
    let web = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template":
        {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}});
    let web: Deployment = serde_json::from_value(web).unwrap();
    api.create(&PostParams::default(), &web).await.unwrap();
    let scale = Patch::Merge(json!({"spec": {"replicas": 4}}));
    api.patch_scale("web", &PatchParams::default(), &scale).await.unwrap();
    let containers = json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "i:2"}]}}}});
    api.patch("web", &PatchParams::default(), &Patch::Strategic(containers)).await.unwrap();
    let spec = api.get("web").await.unwrap().spec.unwrap();
    assert_eq!(spec.replicas, Some(4));
    assert_eq!(spec.template.spec.unwrap().containers.len(), 2);
}

#[derive(Clone)]
struct Context {
    client: Client,
    recorder: Recorder,
}

/// Says what it sees, and notes in the status of a gadget that it was seen.
async fn reconcile(
    gadget: Arc<Gadget>,
    context: Arc<Context>,
) -> Result<Action, kube::runtime::finalizer::Error<kube::Error>> {
    let api: Api<Gadget> = Api::default_namespaced(context.client.clone());
    finalizer(&api, "example.org/cleanup", gadget, |event| async {
        let (gadget, reason) = match &event {
            Finalizing::Apply(gadget) => (gadget, "Seen"),
            Finalizing::Cleanup(gadget) => (gadget, "Gone"),
        };
        let said = Event {
            type_: EventType::Normal,
            reason: reason.to_owned(),
            note: Some("as it should be".to_owned()),
            action: "Reconciling".to_owned(),
            secondary: None,
        };
        context.recorder.publish(&said, &gadget.object_ref(&())).await?;
        if let Finalizing::Apply(gadget) = event {
            let status = Patch::Merge(json!({"status": {"replicas": gadget.spec.replicas}}));
            api.patch_status(&gadget.name_any(), &PatchParams::default(), &status).await?;
        }
        Ok(Action::await_change())
    })
    .await
}

#[tokio::test]
async fn a_controller_reconciles_cleans_up_and_records_events() {
    let client = client().await;
    let api = gadgets(&client).await;
    let recorder = Recorder::new(client.clone(), Reporter { controller: "tests".into(), instance: None });
    let context = Arc::new(Context { client: client.clone(), recorder });
    let controller = Controller::new(api.clone(), watcher::Config::default());
    let running = controller.run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), context);
    let running = tokio::spawn(running.for_each(|_| async {}));

    api.create(&PostParams::default(), &gadget("g")).await.unwrap();
    let is_seen = |gadget: Option<&Gadget>| gadget.is_some_and(|gadget| gadget.status.is_some());
    tokio::time::timeout(PATIENCE, await_condition(api.clone(), "g", is_seen)).await.unwrap().unwrap();
    assert_eq!(api.get("g").await.unwrap().finalizers(), ["example.org/cleanup"]);
    let uid = api.get("g").await.unwrap().uid().unwrap();
    api.delete("g", &DeleteParams::default()).await.unwrap();
    let gone = await_condition(api.clone(), "g", conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
    running.abort();

    let events: Api<RecordedEvent> = Api::default_namespaced(client.clone());
    let mut reasons: Vec<_> = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|it| it.reason)
        .collect();
    reasons.sort();
    assert_eq!(reasons, ["Gone", "Seen"]);
    let old: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(client);
    let fields = ListParams::default().fields("involvedObject.kind=Gadget,reason=Gone");
    assert_eq!(old.list(&fields).await.unwrap().items[0].message.as_deref(), Some("as it should be"));
}
