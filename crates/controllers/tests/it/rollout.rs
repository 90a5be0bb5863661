//! Design 000: several revisions of a function are active, and steps choose among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_controllers::{PackagedFunction, PackagedFunctions, PackagedImage, PlanRequest};
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_testkit::plane::{FakeRegistry, Plane, condition, master};
use ferroplane_wire::from_json;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::packages::{PKG, package_yaml};

pub(crate) const COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/sites";
pub(crate) const COMPOSITION_REVISIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositionrevisions";
/// A version whose package says that it can run in Operations only.
pub(crate) const OPERATES_ONLY: &str = "v1.20.0";
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";

/// A plane on which a function is installed from a package that is run, and sites that it composes.
pub(crate) struct Rollout {
    pub(crate) plane: Plane,
    pub(crate) functions: Arc<PackagedFunctions>,
    wanted: watch::Receiver<BTreeMap<String, PackagedImage>>,
    /// How many revisions are active.
    pub(crate) limit: i64,
}

impl Rollout {
    pub(crate) async fn begin() -> Self {
        Self::with(true).await
    }

    async fn with(enables_function_revision_selectors: bool) -> Self {
        let registry = FakeRegistry::default();
        let push = |version: &str, capabilities: &[&str]| {
            let package = package_yaml("Function", &json!({"capabilities": capabilities}), &[]);
            let image = format!("registry.example.org/acme/function-own:{version}");
            registry.push(&image, &format!("# {version}\n{package}"));
        };
        for minor in 0..20 {
            push(&format!("v1.{minor}.0"), &["composition", "operation"]);
        }
        push(OPERATES_ONLY, &["operation"]);
        let functions = registry.run_functions();
        let mut plane = Plane::with_registry(&registry).await;
        if !enables_function_revision_selectors {
            plane.stop().await;
            plane.enables_function_revision_selectors = false;
            plane.start().await;
        }
        plane.define_sites().await;
        let wanted = functions.wanted();
        Self { plane, functions, wanted, limit: 2 }
    }

    /// Install a version. Returns the name of its revision.
    pub(crate) async fn install(&self, version: &str, channel: Option<&str>) -> String {
        let image = format!("acme/function-own:{version}");
        install(&self.plane, ("own", &image), channel, self.limit).await
    }

    /// Let a revision answer this color.
    fn serve(&self, revision: &str, color: &str) {
        self.functions.set(revision, Some(PackagedFunction::Serving(runner(color))));
    }

    /// Install a version, and let it answer this color. Returns when it is called.
    async fn install_serving(&mut self, version: &str, channel: Option<&str>, color: &str) -> String {
        self.install_running(version, channel, runner(color)).await
    }

    /// Install a version, and let this run it. Returns when it is called.
    pub(crate) async fn install_running(
        &mut self,
        version: &str,
        channel: Option<&str>,
        runner: Arc<Runner>,
    ) -> String {
        let revision = self.install(version, channel).await;
        self.wanted.wait_for(|wanted| wanted.contains_key(&revision)).await.unwrap();
        self.functions.set(&revision, Some(PackagedFunction::Serving(runner)));
        self.until_in_service(&revision).await;
        revision
    }

    async fn until_in_service(&self, revision: &str) {
        let is_so = |revision: &Value| condition(revision, "InService").as_deref() == Some("True/Answered");
        self.plane.until(&format!("{PKG}/functionrevisions/{revision}"), is_so).await;
    }

    /// The numbers of all revisions, and whether each is active.
    pub(crate) async fn states(&self) -> Vec<(i64, bool)> {
        let list = self.plane.get(&format!("{PKG}/functionrevisions")).await;
        let state =
            |it: &Value| (it["spec"]["revision"].as_i64().unwrap(), it["spec"]["desiredState"] == "Active");
        let mut states: Vec<_> = list["items"].as_array().unwrap().iter().map(state).collect();
        states.sort_unstable();
        states
    }

    /// Sites become what this step says, in a composition of this channel. Returns when its revision can be used.
    pub(crate) async fn compose(&self, channel: &str, more: &Value) {
        let mut step = json!({"step": "own", "functionRef": {"name": "own"}});
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        compose(&self.plane, channel, &json!([step])).await;
    }

    async fn label_of(&self, revision: &str, key: &str) -> Value {
        self.plane.get(&format!("{PKG}/functionrevisions/{revision}")).await["metadata"]["labels"][key]
            .clone()
    }
}

/// A function that makes sites of this color.
fn runner(color: &str) -> Arc<Runner> {
    let answer = answer(color, &json!({}));
    let call = move |_| {
        let answer = answer.clone();
        async move { Ok(from_json(&answer).unwrap()) }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}

fn answer(color: &str, resources: &Value) -> Value {
    json!({"meta": {}, "desired": {
        "composite": {"resource": {"status": {"color": color}}, "ready": "READY_TRUE"}, "resources": resources,
    }})
}

async fn install(plane: &Plane, (name, image): (&str, &str), channel: Option<&str>, limit: i64) -> String {
    let path = format!("{PKG}/functions/{name}");
    let mut function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": name},
        "spec": {
            "package": format!("registry.example.org/{image}"), "revisionHistoryLimit": 4, "activeRevisionLimit": limit,
        },
    });
    if let Some(channel) = channel {
        function["metadata"]["labels"] = json!({"release-channel": channel});
    }
    let applied = plane.apply(&path, &function).await;
    let is_current = |function: &Value| {
        function["status"]["currentIdentifier"] == applied["spec"]["package"]
            && function["status"]["currentRevision"].is_string()
    };
    plane.until(&path, is_current).await["status"]["currentRevision"].as_str().unwrap().to_owned()
}

/// Sites become what these steps say, in a composition of this channel. Returns when its revision can be used.
pub(crate) async fn compose(plane: &Plane, channel: &str, steps: &Value) {
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition",
        "metadata": {"name": "sites", "labels": {"release-channel": channel}},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline", "pipeline": steps,
        },
    });
    plane.apply(COMPOSITION, &composition).await;
    let is_judged = |list: &Value| {
        let of_channel = |it: &&Value| it["metadata"]["labels"]["release-channel"] == channel;
        let mut revisions = list["items"].as_array().unwrap().iter().filter(of_channel);
        revisions.any(|it| condition(it, "ValidPipeline").as_deref() == Some("True/ValidPipeline"))
    };
    plane.until(COMPOSITION_REVISIONS, is_judged).await;
}

/// A site as the design has it: somebody says which revision of the composition it follows.
async fn create_site(plane: &Plane, name: &str, channel: &str) -> String {
    let path = format!("{SITES}/{name}");
    let site = json!({
        "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": name},
        "spec": {"crossplane": {
            "compositionUpdatePolicy": "Manual",
            "compositionRevisionSelector": {"matchLabels": {"release-channel": channel}},
        }},
    });
    plane.apply(&path, &site).await;
    path
}

fn select(channel: &str) -> Value {
    json!({"functionRevisionSelector": {"matchLabels": {"release-channel": channel}}})
}

/// Which revisions composed a site.
pub(crate) fn revisions_of(site: &Value) -> Vec<&str> {
    let functions = site["status"]["ferroplane"]["functions"].as_array();
    functions.into_iter().flatten().map(|it| it["revision"].as_str().unwrap_or_default()).collect()
}

fn code(site: &Value) -> Vec<&str> {
    let conditions = site["status"]["conditions"].as_array();
    conditions.into_iter().flatten().filter_map(|condition| condition["code"].as_str()).collect()
}

#[tokio::test]
async fn example_of_design_000_works_with_a_package_that_is_run() {
    let mut rollout = Rollout::begin().await;
    let first = rollout.install_serving("v1.0.0", Some("stable"), "one").await;
    rollout.compose("stable", &select("stable")).await;
    let other = create_site(&rollout.plane, "other", "stable").await;
    let site = rollout.plane.until(&other, is_ready).await;
    assert_eq!(
        site["status"]["ferroplane"]["functions"],
        json!([{"step": "own", "function": "own", "revision": first, "version": "v1.0.0"}])
    );

    // A new version of the function, in a channel of its own.
    let second = rollout.install_serving("v1.1.0", Some("alpha"), "two").await;
    assert_eq!(rollout.states().await, [(1, true), (2, true)]);
    assert_eq!(rollout.label_of(&first, "release-channel").await, "stable", "the old one keeps its own");
    assert_eq!(rollout.label_of(&second, "release-channel").await, "alpha");

    // A new revision of the composition, which calls it, and a site that follows that.
    rollout.compose("alpha", &select("alpha")).await;
    let bucket = create_site(&rollout.plane, "my-bucket", "alpha").await;
    let site = rollout.plane.until(&bucket, is_ready).await;
    assert_eq!((&site["status"]["color"], revisions_of(&site)), (&json!("two"), vec![&*second]));
    rollout.plane.quiet().await;
    let site = rollout.plane.get(&other).await;
    assert_eq!((&site["status"]["color"], revisions_of(&site)), (&json!("one"), vec![&*first]));

    // The other one moves when its user says so.
    let automatic = json!({"spec": {"crossplane": {
        "compositionUpdatePolicy": "Automatic", "compositionRevisionSelector": {"matchLabels": {"release-channel": "alpha"}},
    }}});
    rollout.plane.merge(&other, &automatic).await;
    rollout.plane.until(&other, |site| site["status"]["color"] == "two").await;
    let metrics = rollout.plane.metrics();
    for revision in [&first, &second] {
        let call = format!(
            r#"function_run_function_request_total{{function_name="own",function_revision="{revision}""#
        );
        assert!(metrics.lines().any(|line| line.starts_with(&call)), "{call} is not in\n{metrics}");
    }

    // Nothing changed, nothing happens.
    rollout.plane.quiet().await;
    rollout.plane.restart().await;
    assert_eq!(rollout.plane.quiet().await, Vec::<String>::new());
}

#[tokio::test]
async fn plan_with_another_revision_of_a_function_says_what_it_would_change() {
    let mut rollout = Rollout::begin().await;
    let first = rollout.install_serving("v1.0.0", None, "one").await;
    rollout.compose("stable", &json!({})).await;
    rollout.install_serving("v1.1.0", None, "two").await;
    let site = create_site(&rollout.plane, "blog", "stable").await;
    rollout.plane.until(&site, |site| site["status"]["color"] == "two").await;
    rollout.plane.quiet().await;
    let before = rollout.plane.versions().await;
    let caller = rollout.plane.client_of(&master("user"));
    let with = |revision: &str| PlanRequest {
        function_revisions: BTreeMap::from([("own".to_owned(), revision.to_owned())]),
        ..PlanRequest::default()
    };
    let plan = rollout.plane.planner().plan(&with(&first), &caller).await.unwrap();
    let fields = &plan.composites[0].changes[0].fields;
    assert_eq!(fields.len(), 1, "{plan:#?}");
    assert_eq!((fields[0].path.as_str(), fields[0].after.clone()), ("status.color", Some("one".into())));
    let refused = rollout.plane.planner().plan(&with("own-nothing"), &caller).await.unwrap_err();
    assert!(refused.to_string().contains("own-nothing"), "{refused}");

    // The same by a file with another package, if a revision has it.
    let file = |version: &str| {
        json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "own"},
            "spec": {
                "package": format!("registry.example.org/acme/function-own:{version}"), "revisionHistoryLimit": 4,
                "activeRevisionLimit": 2,
            },
        })
    };
    let plan = rollout.plane.plan(&[file("v1.0.0")]).await.unwrap();
    let mut fields = plan.composites.iter().flat_map(|it| &it.changes).flat_map(|it| &it.fields);
    assert!(fields.any(|it| it.path == "status.color" && it.after == Some("one".into())), "{plan:#?}");
    let refused = rollout.plane.plan(&[file("v9.0.0")]).await.unwrap_err();
    assert!(refused.to_string().contains("has no FunctionRevision yet"), "{refused}");
    assert_eq!(rollout.plane.versions().await, before);
}

#[tokio::test]
async fn example_of_design_000_works_with_a_package_that_is_built_in() {
    let registry = FakeRegistry::default();
    let image = |version: &str| format!("crossplane-contrib/function-patch-and-transform:{version}");
    for version in ["v0.8.1", "v0.8.2", "v0.10.0"] {
        let package = package_yaml("Function", &json!({}), &[]);
        registry
            .push(&format!("registry.example.org/{}", image(version)), &format!("# {version}\n{package}"));
    }
    let plane = Plane::with_registry(&registry).await;
    plane.define_sites().await;
    let name = "function-patch-and-transform";
    let steps = |channel: &str| {
        let resource = json!({"name": "one", "base": {"apiVersion": "v1", "kind": "ConfigMap"},
            "readinessChecks": [{"type": "None"}]});
        let input = json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": [resource]});
        let mut step = json!({"step": "patch-and-transform", "functionRef": {"name": name}, "input": input});
        step.as_object_mut().unwrap().extend(select(channel).as_object().unwrap().clone());
        json!([step])
    };
    let first = install(&plane, (name, &image("v0.8.1")), Some("stable"), 2).await;
    compose(&plane, "stable", &steps("stable")).await;
    let other = create_site(&plane, "other", "stable").await;
    assert_eq!(revisions_of(&plane.until(&other, is_ready).await), [&*first]);

    let second = install(&plane, (name, &image("v0.8.2")), Some("alpha"), 2).await;
    compose(&plane, "alpha", &steps("alpha")).await;
    let bucket = create_site(&plane, "my-bucket", "alpha").await;
    let site = plane.until(&bucket, is_ready).await;
    assert_eq!(
        site["status"]["ferroplane"]["functions"],
        json!([{"step": "patch-and-transform", "function": name, "revision": second, "version": "v0.8.2"}])
    );
    plane.quiet().await;
    assert_eq!(revisions_of(&plane.get(&other).await), [&*first]);

    // Both run the same code, and say so; one that runs other code does not.
    let says = |revision: &Value| {
        let conditions = revision["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let runtime = conditions.into_iter().find(|condition| condition["type"] == "RuntimeHealthy");
        runtime.map(|condition| condition["message"].to_string()).unwrap_or_default()
    };
    let path = |revision: &str| format!("{PKG}/functionrevisions/{revision}");
    for (one, other) in [(&first, &second), (&second, &first)] {
        let same = format!("`{other}` runs the same code, so that nothing changes between them");
        plane.until(&path(one), |revision| says(revision).contains(&same)).await;
    }
    let third = install(&plane, (name, &image("v0.10.0")), Some("beta"), 2).await;
    plane.until(&path(&third), |revision| says(revision).contains("v0.10.8")).await;
    plane.until(&path(&second), |revision| !says(revision).contains("the same code")).await;
    assert!(!says(&plane.get(&path(&third)).await).contains("the same code"));
}

#[tokio::test]
async fn limit_keeps_the_newest_active_and_manual_states_are_the_users() {
    let mut rollout = Rollout::begin().await;
    for (version, color) in [("v1.0.0", "one"), ("v1.1.0", "two"), ("v1.2.0", "three")] {
        rollout.install_serving(version, None, color).await;
    }
    rollout
        .plane
        .until(&format!("{PKG}/functionrevisions"), |list| {
            list["items"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|it| it["spec"]["desiredState"] == "Active")
                .count()
                == 2
        })
        .await;
    assert_eq!(rollout.states().await, [(1, false), (2, true), (3, true)]);
    assert_eq!(rollout.wanted.borrow().len(), 2, "one program for each that is active");
    let list = rollout.plane.get(&format!("{PKG}/functionrevisions")).await;
    let first =
        list["items"].as_array().unwrap().iter().find(|it| it["spec"]["revision"] == 1).unwrap().clone();
    let path = format!("{PKG}/functionrevisions/{}", first["metadata"]["name"].as_str().unwrap());
    rollout
        .plane
        .until(&path, |it| condition(it, "InService").is_none() && condition(it, "RuntimeHealthy").is_none())
        .await;

    rollout.plane.merge(FUNCTION, &json!({"spec": {"revisionActivationPolicy": "Manual"}})).await;
    rollout.plane.merge(&path, &json!({"spec": {"desiredState": "Active"}})).await;
    rollout.wanted.wait_for(|wanted| wanted.len() == 3).await.unwrap();
    rollout.plane.quiet().await;
    let active = rollout.states().await.into_iter().filter(|(_, is_active)| *is_active).count();
    assert_eq!(active, 3, "{:?}", rollout.states().await);
}

#[tokio::test]
async fn limits_that_make_no_sense_are_refused() {
    let plane = Plane::new().await;
    let refuse = async |kind: &str, spec: Value| {
        let path = format!("{PKG}/{}s", kind.to_lowercase());
        let mut package = json!({"apiVersion": "pkg.crossplane.io/v1", "kind": kind, "metadata": {"name": "p"},
            "spec": {"package": "registry.example.org/acme/p:v1"}});
        package["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        plane.send(Method::POST, &path, "application/json", &package).await
    };
    for kind in ["Provider", "Configuration"] {
        let (code, answer) = refuse(kind, json!({"activeRevisionLimit": 2, "revisionHistoryLimit": 4})).await;
        assert_eq!(code, 422, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains("activeRevisionLimit"), "{answer}");
        assert_eq!(refuse(kind, json!({"activeRevisionLimit": 1})).await.0, 201);
    }
    for (limit, history, code) in [(3, 2, 422), (2, 1, 422), (0, 2, 422), (2, 0, 201)] {
        let (answered, answer) =
            refuse("Function", json!({"activeRevisionLimit": limit, "revisionHistoryLimit": history})).await;
        assert_eq!(answered, code, "{limit} of {history}: {answer}");
    }
}

/// What the API server says about a Composition and an Operation with a step that calls a function like this.
async fn refusals(plane: &Plane, function: &Value) -> [String; 2] {
    let mut step = json!({"step": "own", "functionRef": {"name": "own"}});
    step.as_object_mut().unwrap().extend(function.as_object().unwrap().clone());
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline", "pipeline": [step],
        },
    });
    let operation = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": "once"},
        "spec": {"mode": "Pipeline", "pipeline": [step]},
    });
    let refused = async |path: &str, object: &Value| {
        let (code, answer) = plane.send(Method::POST, path, "application/json", object).await;
        assert_eq!(code, 422, "{answer}");
        answer["message"].as_str().unwrap().to_owned()
    };
    [
        refused("/apis/apiextensions.crossplane.io/v1/compositions", &composition).await,
        refused("/apis/ops.crossplane.io/v1alpha1/operations", &operation).await,
    ]
}

#[tokio::test]
async fn step_that_names_both_a_revision_and_labels_is_refused() {
    let plane = Plane::new().await;
    let mut function = json!({"functionRevisionRef": {"name": "own-1"}});
    function.as_object_mut().unwrap().extend(select("stable").as_object().unwrap().clone());
    for message in refusals(&plane, &function).await {
        let expected = "functionRevisionRef and functionRevisionSelector exclude each other";
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn step_that_names_a_version_beside_a_revision_or_labels_is_refused() {
    let plane = Plane::new().await;
    for mut function in [json!({"functionRevisionRef": {"name": "own-1"}}), select("stable")] {
        function["functionRef"] = json!({"name": "own", "version": "v1.0.0"});
        for message in refusals(&plane, &function).await {
            let expected = "functionRef.version excludes functionRevisionRef and functionRevisionSelector";
            assert!(message.contains(expected), "{message}");
        }
    }
}

#[tokio::test]
async fn new_revision_takes_over_when_it_answers_and_no_call_fails() {
    let mut rollout = Rollout::begin().await;
    rollout.limit = 1;
    rollout.install_serving("v1.0.0", None, "one").await;
    rollout.compose("all", &json!({})).await;
    let site = |number: u32| format!("{SITES}/site-{number}");
    let create = async |plane: &Plane, number: u32, color: &str| {
        plane.create_site(&format!("site-{number}"), "any").await;
        plane.until(&site(number), |site| is_ready(site) && site["status"]["color"] == color).await;
    };
    create(&rollout.plane, 1, "one").await;

    let second = rollout.install("v1.1.0", None).await;
    rollout.wanted.wait_for(|wanted| wanted.contains_key(&second)).await.unwrap();
    // It is active, but does not answer yet.
    create(&rollout.plane, 2, "one").await;
    rollout.functions.set(&second, Some(PackagedFunction::Down("it ended".to_owned())));
    create(&rollout.plane, 3, "one").await;
    rollout.serve(&second, "two");
    rollout.wanted.wait_for(|wanted| wanted.len() == 1 && wanted.contains_key(&second)).await.unwrap();
    for number in 1..=3 {
        rollout.plane.until(&site(number), |site| is_ready(site) && site["status"]["color"] == "two").await;
        let events = rollout.plane.events(&format!("site-{number}")).await;
        assert!(!events.iter().any(|event| event.starts_with("Warning")), "{events:#?}");
    }
    let metrics = rollout.plane.metrics();
    let failed =
        |line: &&str| line.contains("function_response_total{") && !line.contains(r#"grpc_code="OK""#);
    assert_eq!(metrics.lines().filter(failed).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[tokio::test]
async fn reconcile_ends_with_the_revision_that_it_began_with() {
    let mut rollout = Rollout::begin().await;
    let first = rollout.install("v1.0.0", None).await;
    rollout.wanted.wait_for(|wanted| wanted.contains_key(&first)).await.unwrap();
    let (begun, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let call = {
        let (begun, may_end) = (begun.clone(), may_end.clone());
        // What it composes is new, so that it is called twice in a reconcile.
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": "one"}});
        let answer = answer("one", &json!({"one": {"resource": object, "ready": "READY_TRUE"}}));
        move |_| {
            let (begun, may_end, answer) = (begun.clone(), may_end.clone(), answer.clone());
            async move {
                begun.add_permits(1);
                let _ = may_end.acquire().await;
                Ok(from_json(&answer).unwrap())
            }
        }
    };
    let runner = Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)));
    rollout.functions.set(&first, Some(PackagedFunction::Serving(runner)));
    rollout.until_in_service(&first).await;
    rollout.compose("all", &json!({})).await;
    rollout.plane.create_site("blog", "any").await;
    begun.acquire().await.unwrap().forget();

    // The limit is two, so that the third version ends the first.
    rollout.install_serving("v1.1.0", None, "two").await;
    rollout.install_serving("v1.2.0", None, "three").await;
    rollout.wanted.wait_for(|wanted| !wanted.contains_key(&first)).await.unwrap();
    rollout.functions.set(&first, None);
    may_end.add_permits(100);
    let path = format!("{SITES}/blog");
    rollout.plane.until(&path, |site| is_ready(site) && site["status"]["color"] == "three").await;
    let events = rollout.plane.events("blog").await;
    assert!(!events.iter().any(|event| event.starts_with("Warning")), "{events:#?}");
}

#[tokio::test]
async fn revision_that_fails_later_is_not_replaced_by_an_older_one() {
    let mut rollout = Rollout::begin().await;
    rollout.install_serving("v1.0.0", None, "one").await;
    let second = rollout.install_serving("v1.1.0", None, "two").await;
    rollout.compose("all", &json!({})).await;
    rollout.plane.create_site("blog", "any").await;
    let path = format!("{SITES}/blog");
    rollout.plane.until(&path, |site| site["status"]["color"] == "two").await;
    rollout.functions.set(&second, Some(PackagedFunction::Down("it ended".to_owned())));
    let site = rollout.plane.until(&path, |site| code(site).contains(&"FunctionNotConnectable")).await;
    assert_eq!((&site["status"]["color"], revisions_of(&site)), (&json!("two"), vec![&*second]));
    // Nor after a restart, when the older one may be the first to answer.
    rollout.plane.restart().await;
    rollout.plane.quiet().await;
    assert_eq!(rollout.plane.get(&path).await["status"]["color"], "two");
    rollout.serve(&second, "two");
    rollout.plane.until(&path, is_ready).await;
}

#[tokio::test]
async fn steps_choose_by_name_by_labels_or_get_the_newest() {
    let mut rollout = Rollout::begin().await;
    let first = rollout.install_serving("v1.0.0", Some("stable"), "one").await;
    let second = rollout.install_serving("v1.1.0", Some("stable"), "two").await;
    let step = |name: &str, more: Value| {
        let mut step = json!({"step": name, "functionRef": {"name": "own"}});
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    };
    let steps = json!([
        step("newest", json!({})),
        step("named", json!({"functionRevisionRef": {"name": first}})),
        step("both", select("stable")),
    ]);
    compose(&rollout.plane, "all", &steps).await;
    rollout.plane.create_site("blog", "any").await;
    let path = format!("{SITES}/blog");
    let site = rollout.plane.until(&path, is_ready).await;
    assert_eq!(revisions_of(&site), [&*second, &first, &second], "of two that match, the higher one");

    // No revision has the label: condition and event say so, and what was composed stays.
    rollout.compose("none", &select("nightly")).await;
    let site = rollout.plane.until(&path, |site| code(site).contains(&"FunctionInactive")).await;
    assert_eq!(condition(&site, "Synced").as_deref(), Some("False/ReconcileError"));
    assert_eq!(revisions_of(&site).len(), 3);
    rollout.plane.until_said("blog", "has no active revision with the labels release-channel=nightly").await;
    let events = rollout.plane.events("blog").await;
    assert!(
        events.iter().any(|event| event.starts_with("Warning/") && event.contains("nightly")),
        "{events:#?}"
    );
    // Whoever is named and not active is not replaced.
    rollout.install_serving("v1.2.0", None, "three").await;
    rollout.compose("inactive", &json!({"functionRevisionRef": {"name": first}})).await;
    rollout.plane.until_said("blog", &format!("revision `{first}` of function `own` is not active")).await;
    let names_it = |site: &Value| site["status"]["conditions"].to_string().contains(&*first);
    let site =
        rollout.plane.until(&path, |site| code(site).contains(&"FunctionInactive") && names_it(site)).await;
    assert_eq!(condition(&site, "Synced").as_deref(), Some("False/ReconcileError"));
}

#[tokio::test]
async fn operation_that_names_a_revision_calls_it_and_fails_if_it_is_not_active() {
    const OPERATIONS: &str = "/apis/ops.crossplane.io/v1alpha1/operations";
    let mut rollout = Rollout::begin().await;
    let first = rollout.install_serving("v1.0.0", Some("stable"), "one").await;
    rollout.install_serving("v1.1.0", None, "two").await;
    let operation = |name: &str| {
        let step = json!({
            "step": "own", "functionRef": {"name": "own"}, "functionRevisionRef": {"name": first},
        });
        json!({
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": name},
            "spec": {"mode": "Pipeline", "retryLimit": 1, "pipeline": [step]},
        })
    };
    let path = |name: &str| format!("{OPERATIONS}/{name}");
    rollout.plane.apply(&path("active"), &operation("active")).await;
    let is = |it: &Value, wanted: &str| condition(it, "Succeeded").as_deref() == Some(wanted);
    rollout.plane.until(&path("active"), |it| is(it, "True/PipelineSuccess")).await;
    // The limit is two, so that the third version ends the first.
    rollout.install_serving("v1.2.0", None, "three").await;
    rollout.plane.apply(&path("inactive"), &operation("inactive")).await;
    let failed = rollout.plane.until(&path("inactive"), |it| is(it, "False/PipelineError")).await;
    let conditions = failed["status"]["conditions"].as_array().unwrap();
    let succeeded = conditions.iter().find(|it| it["type"] == "Succeeded").unwrap();
    let words = format!("revision `{first}` of function `own` is not active");
    assert!(succeeded["message"].as_str().unwrap().contains(&words), "{succeeded}");
    assert_eq!((&succeeded["code"], &succeeded["step"]), (&json!("FunctionInactive"), &json!("own")));
    rollout.plane.until_said("inactive", &words).await;
    let events = rollout.plane.events("inactive").await;
    assert!(events.iter().any(|it| it.starts_with("Warning/InvalidPipeline")), "{events:#?}");
}

#[tokio::test]
async fn labels_come_and_go_with_those_of_the_function() {
    let mut rollout = Rollout::begin().await;
    let first = rollout.install_serving("v1.0.0", Some("stable"), "one").await;
    rollout
        .plane
        .merge(FUNCTION, &json!({"metadata": {"labels": {"release-channel": null, "team": "a"}}}))
        .await;
    let path = format!("{PKG}/functionrevisions/{first}");
    let is_so = |revision: &Value| {
        revision["metadata"]["labels"] == json!({"pkg.crossplane.io/package": "own", "team": "a"})
    };
    rollout.plane.until(&path, is_so).await;
    assert_eq!(rollout.states().await.len(), 1, "a label makes no revision");
}

#[tokio::test]
async fn label_of_a_function_beats_that_of_its_package_and_nobody_fights_over_it() {
    let registry = FakeRegistry::default();
    let package = json!({
        "apiVersion": "meta.pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": "p", "labels": {"release-channel": "author", "made-by": "author"}}, "spec": {},
    });
    registry.push("registry.example.org/acme/function-own:v1.0.0", &package.to_string());
    let plane = Plane::with_registry(&registry).await;
    let revision = install(&plane, ("own", "acme/function-own:v1.0.0"), Some("user"), 2).await;
    let path = format!("{PKG}/functionrevisions/{revision}");
    plane.until(&path, |it| it["metadata"]["labels"]["made-by"] == "author").await;
    plane.quiet().await;
    assert_eq!(plane.get(&path).await["metadata"]["labels"]["release-channel"], "user");
}

#[tokio::test]
async fn without_the_flag_steps_cannot_choose_and_one_revision_is_active() {
    let mut rollout = Rollout::with(false).await;
    let first = rollout.install_serving("v1.0.0", Some("stable"), "one").await;
    assert_eq!(rollout.label_of(&first, "release-channel").await, Value::Null);
    let second = rollout.install_serving("v1.1.0", None, "two").await;
    rollout.wanted.wait_for(|wanted| wanted.len() == 1 && wanted.contains_key(&second)).await.unwrap();
    rollout.compose("all", &json!({})).await;
    rollout.plane.create_site("blog", "any").await;
    let path = format!("{SITES}/blog");
    rollout.plane.until(&path, |site| is_ready(site) && site["status"]["color"] == "two").await;
    for (channel, more) in [("a", select("stable")), ("b", json!({"functionRevisionRef": {"name": second}}))]
    {
        rollout.compose(channel, &more).await;
        let is_refused = |site: &Value| code(site).contains(&"FunctionRevisionSelectorsDisabled");
        let site = rollout.plane.until(&path, is_refused).await;
        assert!(site["status"].to_string().contains("--enable-function-revision-selectors"), "{site}");
        rollout.compose(&format!("{channel}-again"), &json!({})).await;
        rollout.plane.until(&path, is_ready).await;
    }
    rollout.plane.until_said("blog", "--enable-function-revision-selectors").await;
}
