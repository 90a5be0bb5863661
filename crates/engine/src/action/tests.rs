//! Actions from their first phase to their last, over a world in memory and functions made for the purpose.
#![expect(clippy::similar_names, reason = "it reads better here as it is")]
#![expect(clippy::needless_pass_by_value, reason = "values read better where tests make them")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ferroplane_api::{ActionSetStatus, ActionState, Blueprint, Cause, Object, PhaseState, meta};
use serde_json::{Value, json};

use super::*;
use crate::Event;
use crate::status_size::{STATUS_LIMIT, json_size};
use crate::versions::{Catalogue, Family, Lifecycle, Version};

/// Puts its arguments out, or fails if one of them is `fail`.
struct Echo(&'static str);

impl PhaseFunction for Echo {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        if let Some(message) = phase.arguments.get("fail").and_then(Value::as_str) {
            return Move::Fail { cause: Cause::PhaseFailed, message: message.to_owned() };
        }
        let mut output = phase.arguments.clone();
        output.insert("ran".to_owned(), self.0.into());
        Move::Done { output }
    }

    fn contract(&self) -> PhaseContract {
        let optional: &[_] = if self.0 == "v0.2.0" { &["text", "fail", "new"] } else { &["text", "fail"] };
        PhaseContract { optional, ..PhaseContract::default() }
    }
}

/// Creates a ConfigMap, and finds its own after a crash.
struct Create;

impl PhaseFunction for Create {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let name = phase.arguments["name"].as_str().unwrap_or_default().to_owned();
        let address = Address {
            kind: ResourceName::kind("v1", "ConfigMap"),
            namespace: phase.namespace.to_owned(),
            name: name.clone(),
        };
        let checkpoint = json!({"name": name});
        match phase.answers {
            // It was not created before the plane stopped.
            [] | [Answer::Absent] if phase.checkpoint.is_null() || phase.answers == [Answer::Absent] => {
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": phase.namespace, "annotations": {PHASE_ANNOTATION: phase.identity}},
                });
                let object = object.as_object().unwrap().clone();
                Move::Perform {
                    checkpoint,
                    requests: vec![Request::Create { object, field_manager: "test".to_owned() }],
                }
            }
            [] => Move::Perform { checkpoint, requests: vec![Request::Get(address)] },
            [Answer::Object { object, .. }]
                if meta::annotation(object, PHASE_ANNOTATION) == phase.identity =>
            {
                Move::Done { output: Object::from_iter([("name".to_owned(), name.into())]) }
            }
            [other] => Move::Fail { cause: Cause::RequestRefused, message: format!("{other:?}") },
            _ => unreachable!("one request has one answer"),
        }
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract { required: &["name"], ..PhaseContract::default() }
    }
}

/// Waits until an object exists, up to a deadline.
struct Await;

impl PhaseFunction for Await {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let deadline = phase.checkpoint["deadline"].as_i64().unwrap_or(phase.now + 10_000);
        let name = phase.arguments["name"].as_str().unwrap_or_default().to_owned();
        let kind = ResourceName::kind("v1", "ConfigMap");
        let address = Address { kind, namespace: phase.namespace.to_owned(), name };
        let checkpoint = json!({"deadline": deadline});
        match phase.answers {
            [Answer::Object { .. }] => Move::Done { output: Object::new() },
            [] => Move::Perform { checkpoint, requests: vec![Request::Get(address)] },
            _ if phase.now >= deadline => {
                Move::Fail { cause: Cause::PhaseTimeout, message: "it did not come".to_owned() }
            }
            _ => Move::Wait { checkpoint, wake_at: Some(deadline), watch: vec![address], progress: Some(50) },
        }
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract { required: &["name"], needs: &[Need::Api], ..PhaseContract::default() }
    }
}

/// Needs pods.
struct Exec;

impl PhaseFunction for Exec {
    fn advance(&self, _: &Phase<'_>) -> Move {
        Move::Done { output: Object::new() }
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract { needs: &[Need::Exec], ..PhaseContract::default() }
    }
}

/// Has a checkpoint as long as it is told to.
struct Long;

impl PhaseFunction for Long {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let length = phase.arguments["length"].as_u64().unwrap_or_default();
        let checkpoint = "x".repeat(usize::try_from(length).unwrap()).into();
        Move::Wait { checkpoint, wake_at: None, watch: Vec::new(), progress: None }
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract { required: &["length"], ..PhaseContract::default() }
    }
}

/// Keeps what it is told in its checkpoint, without Secrets.
struct Note;

impl PhaseFunction for Note {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let words = phase.arguments["words"].as_str().unwrap_or_default();
        let checkpoint = phase.secrets.redact(words).into();
        Move::Wait { checkpoint, wake_at: None, watch: Vec::new(), progress: None }
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract { required: &["words"], ..PhaseContract::default() }
    }
}

/// Panics.
struct Panic;

impl PhaseFunction for Panic {
    fn advance(&self, _: &Phase<'_>) -> Move {
        panic!("a function panics on purpose")
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract::default()
    }
}

/// The next turn of an action, as the controller takes it.
fn next_turn(run: &mut Run<'_>, mut answers: Vec<Answer>, now: i64) -> Turn {
    loop {
        let given = std::mem::take(&mut answers);
        if let Ok(turn) = catch_unwind(AssertUnwindSafe(|| run.next(given, now))) {
            return turn;
        }
        run.fail_after_panic(now);
    }
}

struct Functions;

impl PhaseFunctions for Functions {
    fn phase_function(&self, function: &str, version: &Version) -> Option<Arc<dyn PhaseFunction>> {
        let version = version.to_string();
        Some(match (function, version.as_str()) {
            ("F", "v0.0.0") => Arc::new(Echo("v0.0.0")),
            ("F", "v0.1.0") => Arc::new(Echo("v0.1.0")),
            ("F", "v0.2.0") => Arc::new(Echo("v0.2.0")),
            ("G", "v9.9.9") => Arc::new(Echo("v9.9.9")),
            ("Only", "v1.0.0") => Arc::new(Echo("v1.0.0")),
            ("Plain", "v0.0.0") => Arc::new(Echo("plain")),
            ("Create", "v0.0.0") => Arc::new(Create),
            ("Await", "v0.0.0") => Arc::new(Await),
            ("Exec", "v0.0.0") => Arc::new(Exec),
            ("Long", "v0.0.0") => Arc::new(Long),
            ("Note", "v0.0.0") => Arc::new(Note),
            ("Panic", "v0.0.0") => Arc::new(Panic),
            _ => return None,
        })
    }
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// F has v0.0.0, v0.1.0 (stable unless said otherwise) and v0.2.0. `lifecycle` is that of v0.1.0.
fn catalogue_with(release: &str, stable: &str, lifecycle: Lifecycle) -> Catalogue {
    let mut catalogue = Catalogue::new(version(release));
    let plain = Lifecycle::default;
    let versions = [
        (version("v0.0.0"), plain(), true),
        (version("v0.1.0"), lifecycle, true),
        (version("v0.2.0"), plain(), true),
    ];
    catalogue.alias("F", &Family::built_in("F", version(stable), versions), None);
    let newer = [(version("v9.9.9"), plain(), true), (version("v0.0.0"), plain(), true)];
    catalogue.alias("G", &Family::built_in("G", version("v0.0.0"), newer), None);
    catalogue.alias(
        "Only",
        &Family::built_in("Only", version("v1.0.0"), [(version("v1.0.0"), plain(), true)]),
        None,
    );
    for name in ["Plain", "Create", "Await", "Exec", "Long", "Note", "Panic", "NoPhase"] {
        catalogue.alias(name, &Family::unversioned(name), None);
    }
    catalogue
}

/// A plane in memory: objects by kind, namespace and name, and a clock.
struct World {
    catalogue: Catalogue,
    objects: BTreeMap<String, Object>,
    now: i64,
    is_strict: bool,
    /// How many requests that change something are performed before the plane crashes. None: it does not.
    crash_after: Option<usize>,
    events: Vec<Event>,
    watch: Vec<Address>,
    states: Vec<ActionState>,
}

impl World {
    fn new() -> Self {
        Self::with(catalogue_with("0.3.0", "v0.1.0", Lifecycle::default()))
    }

    fn with(catalogue: Catalogue) -> Self {
        Self {
            catalogue,
            objects: BTreeMap::new(),
            now: 1_767_323_045_000,
            is_strict: false,
            crash_after: None,
            events: Vec::new(),
            watch: Vec::new(),
            states: Vec::new(),
        }
    }

    fn add(&mut self, object: Value) {
        let object = object.as_object().unwrap().clone();
        self.objects.insert(key(meta::kind(&object), meta::namespace(&object), meta::name(&object)), object);
    }

    fn facilities(&self) -> Facilities<'_> {
        Facilities {
            catalogue: &self.catalogue,
            functions: &Functions,
            has_exec: false,
            pods: PodSupport::None,
            no_containers: None,
            is_strict: self.is_strict,
        }
    }

    fn perform(objects: &mut BTreeMap<String, Object>, request: &Request) -> Answer {
        match request {
            Request::Get(address) => {
                let (NamedBy::Kind(kind) | NamedBy::Resource(kind)) = &address.kind.by;
                let namespace = if address.namespace.is_empty() { "shop" } else { &address.namespace };
                match objects.get(&key(singular(kind), namespace, &address.name)) {
                    Some(object) => Answer::Object { object: object.clone(), resource: String::new() },
                    None => Answer::Absent,
                }
            }
            Request::List { kind, namespace, .. } => {
                let NamedBy::Kind(kind) = &kind.by else { return Answer::List(Vec::new()) };
                let listed =
                    objects.values().filter(|it| meta::kind(it) == kind && meta::namespace(it) == namespace);
                Answer::List(listed.cloned().collect())
            }
            Request::Create { object, .. } => {
                let key = key(meta::kind(object), meta::namespace(object), meta::name(object));
                assert!(objects.insert(key, object.clone()).is_none(), "an object is created twice");
                Answer::Object { object: object.clone(), resource: String::new() }
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reconcile once, as the controller does. Returns whether something may be left to do.
    fn reconcile(&mut self, action_set: &mut Object) -> bool {
        let now = self.now;
        let begun = begin_action_set(action_set);
        let spec = spec_of(action_set);
        match begun {
            BeginActionSet::Start => {
                let blueprints = self.blueprints();
                let mut prepared = prepare(&spec, &blueprints, &self.facilities(), now);
                report_conditions(action_set, &mut prepared.status, now);
                self.events.extend(prepared.events);
                if prepared.has_to_clean_up {
                    meta::child(action_set, "metadata")
                        .insert("finalizers".to_owned(), json!([ferroplane_api::keys::ACTION_SET_FINALIZER]));
                }
                self.write(action_set, &prepared.status);
                true
            }
            BeginActionSet::Run | BeginActionSet::Cancel => {
                self.run(action_set, begun == BeginActionSet::Cancel);
                false
            }
            BeginActionSet::Release => {
                meta::child(action_set, "metadata").remove("finalizers");
                false
            }
            BeginActionSet::Ended | BeginActionSet::Paused => false,
        }
    }

    fn run(&mut self, action_set: &mut Object, is_cancelled: bool) {
        let spec = spec_of(action_set).unwrap();
        let blueprints = self.blueprints();
        let (catalogue, is_strict) = (self.catalogue.clone(), self.is_strict);
        let facilities = Facilities {
            catalogue: &catalogue,
            functions: &Functions,
            has_exec: false,
            pods: PodSupport::None,
            no_containers: None,
            is_strict,
        };
        let mut objects = std::mem::take(&mut self.objects);
        let mut status = status_of(action_set);
        let (uid, mut events, mut watch) = (meta::uid(action_set).to_owned(), Vec::new(), Vec::new());
        loop {
            let open = runnable(&spec, &status);
            let mut has_crashed = false;
            for index in open.clone() {
                let action = &spec.actions[index];
                let found = find_action(action, blueprints.get(&action.blueprint)).unwrap();
                let own = |status: &ActionSetStatus| {
                    status
                        .errors
                        .iter()
                        .filter(|it| it.action == i64::try_from(index).unwrap())
                        .cloned()
                        .collect::<Vec<_>>()
                };
                let known = own(&status).len();
                let identity = RunIdentity { uid: &uid, namespace: "shop", index, seed: [1; 32] };
                let mut run = Run::resume(
                    action,
                    found,
                    facilities,
                    identity,
                    status.actions[index].clone(),
                    own(&status),
                    Vec::new(),
                );
                if is_cancelled {
                    run.cancel(Cause::ActionCancelled, "the ActionSet was deleted");
                }
                let mut answers = Vec::new();
                loop {
                    match next_turn(&mut run, std::mem::take(&mut answers), self.now) {
                        Turn::Perform(requests) => {
                            // As it would be written before something is changed.
                            status.actions[index] = run.status.clone();
                            if !requests.iter().all(Request::is_read) {
                                Self::store(action_set, &mut status, &spec, self.now, &mut self.states);
                                if let Some(left) = &mut self.crash_after {
                                    if *left == 0 {
                                        has_crashed = true;
                                        break;
                                    }
                                    *left -= 1;
                                }
                            }
                            answers =
                                requests.iter().map(|request| Self::perform(&mut objects, request)).collect();
                            if self.crash_after == Some(0) && !requests.iter().all(Request::is_read) {
                                has_crashed = true;
                                break;
                            }
                        }
                        Turn::Wait { watch: mut more, .. } => {
                            watch.append(&mut more);
                            break;
                        }
                        Turn::Ended => break,
                    }
                }
                if has_crashed {
                    break;
                }
                status.errors.extend(run.errors.split_off(known));
                events.append(&mut run.events);
                status.actions[index] = run.status.clone();
            }
            if has_crashed {
                self.objects = objects;
                return;
            }
            events.extend(settle_action_set(action_set, &spec, &mut status, self.now));
            if runnable(&spec, &status) == open || status.state.is_final() {
                break;
            }
        }
        Self::store(action_set, &mut status, &spec, self.now, &mut self.states);
        self.objects = objects;
        self.events.append(&mut events);
        self.watch = watch;
    }

    fn store(
        action_set: &mut Object,
        status: &mut ActionSetStatus,
        spec: &ferroplane_api::ActionSetSpec,
        now: i64,
        states: &mut Vec<ActionState>,
    ) {
        settle_action_set(&action_set.clone(), spec, status, now);
        states.push(status.state);
        action_set.insert("status".to_owned(), serde_json::to_value(&*status).unwrap());
    }

    fn write(&mut self, action_set: &mut Object, status: &ActionSetStatus) {
        self.states.push(status.state);
        action_set.insert("status".to_owned(), serde_json::to_value(status).unwrap());
    }

    fn blueprints(&self) -> BTreeMap<String, Blueprint> {
        let blueprints = self.objects.values().filter(|it| meta::kind(it) == "Blueprint");
        blueprints.map(|it| (meta::name(it).to_owned(), Blueprint::of(it).unwrap())).collect()
    }

    /// Reconcile until it waits or ends.
    fn settle(&mut self, action_set: &mut Object) -> ActionSetStatus {
        while self.reconcile(action_set) {}
        status_of(action_set)
    }

    fn reasons(&self) -> Vec<&str> {
        self.events.iter().map(|event| event.reason.as_str()).collect()
    }
}

fn key(kind: &str, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind.to_lowercase())
}

fn singular(kind: &str) -> &str {
    kind.strip_suffix('s').unwrap_or(kind)
}

fn blueprint(action: Value) -> Value {
    json!({"kind": "Blueprint", "metadata": {"name": "b", "namespace": "shop"}, "actions": {"backup": action}})
}

fn phase(func: &str, name: &str, args: Value) -> Value {
    json!({"func": func, "name": name, "args": args})
}

fn action_set(action: Value) -> Object {
    let mut whole = json!({"name": "backup", "blueprint": "b"});
    whole.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
    action_set_of(json!([whole]))
}

fn action_set_of(actions: Value) -> Object {
    let object = json!({
        "kind": "ActionSet", "metadata": {"name": "s", "namespace": "shop", "uid": "u-1", "generation": 1},
        "spec": {"actions": actions},
    });
    object.as_object().unwrap().clone()
}

/// Run an action with these phases to where it waits or ends.
fn check(world: &mut World, action: Value, spec: Value) -> (Object, ActionSetStatus) {
    world.add(blueprint(action));
    let mut object = action_set(spec);
    let status = world.settle(&mut object);
    (object, status)
}

fn run(action: Value, spec: Value) -> ActionSetStatus {
    check(&mut World::new(), action, spec).1
}

/// The versions that ran, by phase.
fn versions(status: &ActionSetStatus) -> Vec<String> {
    let phases = status.actions.iter().flat_map(|action| action.phases.iter().chain([&action.defer_phase]));
    phases.filter_map(|phase| phase.output.get("ran")?.as_str().map(str::to_owned)).collect()
}

fn states(status: &ActionSetStatus) -> Vec<PhaseState> {
    status.actions.iter().flat_map(|action| &action.phases).map(|phase| phase.state).collect()
}

fn one(phase: Value) -> Value {
    json!({"phases": [phase]})
}

#[test]
fn phases_run_in_order_and_states_go_from_pending_over_running_to_complete() {
    let mut world = World::new();
    let action =
        json!({"phases": [phase("Create", "one", json!({"name": "x"})), phase("F", "two", json!({}))]});
    let (_, status) = check(&mut world, action, json!({}));
    world.states.dedup();
    assert_eq!(world.states, [ActionState::Pending, ActionState::Running, ActionState::Complete]);
    assert_eq!(states(&status), [PhaseState::Complete, PhaseState::Complete]);
    assert_eq!(status.progress.percent_completed, "100");
    assert_eq!(status.progress.running_phase, "");
    let reasons =
        ["StartedAction", "StartedPhase", "EndedPhase", "StartedPhase", "EndedPhase", "UpdateComplete"];
    assert_eq!(world.reasons(), reasons);
}

#[test]
fn function_without_a_version_runs_stable_or_unversioned() {
    assert_eq!(versions(&run(one(phase("F", "p", json!({}))), json!({}))), ["v0.1.0"]);
    assert_eq!(versions(&run(one(phase("Plain", "p", json!({}))), json!({}))), ["plain"]);
}

#[test]
fn version_of_a_phase_beats_the_preferred_one_and_that_beats_stable() {
    let pinned = |version: &str| {
        let mut phase = phase("F", "p", json!({}));
        phase["funcVersion"] = version.into();
        one(phase)
    };
    assert_eq!(versions(&run(pinned("v0.2.0"), json!({"preferredVersion": "v0.0.0"}))), ["v0.2.0"]);
    assert_eq!(
        versions(&run(one(phase("F", "p", json!({}))), json!({"preferredVersion": "v0.2.0"}))),
        ["v0.2.0"]
    );
    let status = run(pinned("0.2.0"), json!({}));
    assert_eq!(versions(&status), ["v0.2.0"]);
    assert!(status.warnings.is_empty());
    assert_eq!(status.actions[0].phases[0].function.as_ref().unwrap().version, "v0.2.0");
}

#[test]
fn fallback_is_decided_by_phase_and_told() {
    let mut world = World::new();
    let action = json!({"phases": [phase("G", "one", json!({})), phase("F", "two", json!({}))]});
    let (_, status) = check(&mut world, action, json!({"preferredVersion": "v9.9.9"}));
    assert_eq!(versions(&status), ["v9.9.9", "v0.0.0"]);
    let [warning] = &status.warnings[..] else { panic!("{:?}", status.warnings) };
    assert_eq!((warning.phase.as_str(), warning.reason.as_str()), ("two", "FunctionVersionFallback"));
    assert!(warning.message.contains("v9.9.9") && warning.message.contains("v0.0.0"), "{warning:?}");
    assert_eq!(world.reasons().iter().filter(|reason| **reason == "FunctionVersionFallback").count(), 1);
}

#[test]
fn defer_phase_gets_its_version_as_other_phases_do() {
    for (pinned, preferred, expected, is_fallback) in [
        ("", "", "v0.1.0", false),
        ("v0.2.0", "v0.0.0", "v0.2.0", false),
        ("", "v0.2.0", "v0.2.0", false),
        ("v9.9.9", "", "v0.0.0", true),
    ] {
        let mut end = phase("F", "end", json!({}));
        end["funcVersion"] = pinned.into();
        let action = json!({"phases": [phase("Plain", "p", json!({}))], "deferPhase": end});
        let status = run(action, json!({"preferredVersion": preferred}));
        let ran = status.actions[0].defer_phase.function.as_ref().unwrap();
        assert_eq!(ran.version, expected, "{pinned} {preferred}");
        assert_eq!(
            status.warnings.iter().any(|warning| warning.phase == "end"),
            is_fallback,
            "{pinned} {preferred}"
        );
    }
}

#[test]
fn version_that_does_not_exist_falls_back_unless_strict() {
    let mut pinned = phase("F", "p", json!({}));
    pinned["funcVersion"] = "v9.9.9".into();
    assert_eq!(versions(&run(one(pinned.clone()), json!({}))), ["v0.0.0"]);
    let mut world = World::new();
    world.is_strict = true;
    let (_, status) =
        check(&mut world, json!({"phases": [phase("F", "first", json!({})), pinned]}), json!({}));
    assert_eq!(status.state, ActionState::Failed);
    assert_eq!(status.errors[0].code, "FunctionVersionNotFound");
    assert!(status.error.message.contains("v0.2.0"), "{}", status.error.message);
    assert_eq!(versions(&status), [""; 0]);
}

#[test]
fn version_that_cannot_be_found_stops_everything_before_the_first_phase() {
    let first = phase("Create", "first", json!({"name": "x"}));
    let mut banana = phase("F", "p", json!({}));
    banana["funcVersion"] = "banana".into();
    let cases = [
        (phase("Only", "p", json!({})), "v1.2.3", "FunctionVersionNotFound"),
        (banana, "", "FunctionVersionInvalid"),
        (phase("Nope", "p", json!({})), "", "FunctionNotFound"),
        (phase("NoPhase", "p", json!({})), "", "FunctionCapabilityMissing"),
        (phase("Exec", "p", json!({})), "", "PhaseNeedsUnmet"),
    ];
    for (last, preferred, code) in cases {
        let mut world = World::new();
        let action =
            json!({"phases": [first, last], "deferPhase": phase("Create", "end", json!({"name": "y"}))});
        let (object, status) = check(&mut world, action, json!({"preferredVersion": preferred}));
        assert_eq!((status.state, status.errors[0].code.as_str()), (ActionState::Failed, code));
        assert_eq!(world.objects.len(), 1, "nothing but the Blueprint is there");
        assert!(
            meta::name(&object) == "s" && !object["metadata"].as_object().unwrap().contains_key("finalizers")
        );
        assert!(status.error.message.contains("phase `p`"), "{}", status.error.message);
        let condition = &status.conditions[0];
        assert_eq!((condition["type"].as_str(), condition["code"].as_str()), (Some("Succeeded"), Some(code)));
    }
}

#[test]
fn deprecated_version_runs_with_one_warning_on_every_surface() {
    let lifecycle = Lifecycle {
        deprecated_in: Some(version("0.3.0")),
        removed_in: Some(version("0.5.0")),
        replaced_by: Some(version("v0.2.0")),
        ..Lifecycle::default()
    };
    let mut pinned = phase("F", "p", json!({}));
    pinned["funcVersion"] = "v0.1.0".into();
    for release in ["0.3.0", "0.4.0"] {
        let mut world = World::with(catalogue_with(release, "v0.2.0", lifecycle.clone()));
        let (mut object, status) = check(&mut world, one(pinned.clone()), json!({}));
        for _ in 0..10 {
            world.reconcile(&mut object);
        }
        assert_eq!(versions(&status), ["v0.1.0"]);
        let [warning] = &status.warnings[..] else { panic!("{:?}", status.warnings) };
        let told = (warning.removed_in.as_str(), warning.replaced_by.as_str(), warning.version.as_str());
        assert_eq!(told, ("0.5.0", "v0.2.0", "v0.1.0"));
        assert_eq!(world.reasons().iter().filter(|it| **it == "FunctionVersionDeprecated").count(), 1);
        let current = status.conditions.iter().find(|it| it["type"] == "FunctionVersionsCurrent").unwrap();
        assert_eq!(current["status"], "False");
    }
    // After its end of support it is an error before anything runs, and nothing else runs in its place.
    let mut world = World::with(catalogue_with("0.5.0", "v0.2.0", lifecycle));
    let action = json!({"phases": [phase("Create", "first", json!({"name": "x"})), pinned]});
    let (_, status) = check(&mut world, action, json!({}));
    assert_eq!(status.errors[0].code, "FunctionVersionRemoved");
    assert!(
        status.error.message.contains("0.5.0") && status.error.message.contains("v0.2.0"),
        "{}",
        status.error.message
    );
    assert_eq!(world.objects.len(), 1);
}

#[test]
fn versions_that_were_chosen_stay_when_the_plane_is_upgraded() {
    let mut world = World::new();
    let action =
        json!({"phases": [phase("Await", "one", json!({"name": "x"})), phase("F", "two", json!({}))]});
    let (mut object, _) = check(&mut world, action, json!({}));
    world.catalogue = catalogue_with("0.4.0", "v0.2.0", Lifecycle::default());
    world.add(json!({"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "shop"}}));
    assert_eq!(versions(&world.settle(&mut object)), ["v0.1.0"]);
}

#[test]
fn two_actions_make_progress_at_once_and_all_have_to_complete() {
    let mut world = World::new();
    world.add(blueprint(json!({"phases": [phase("Await", "wait", json!({"name": "{{ .Options.name }}"}))]})));
    let action = |name: &str| json!({"name": "backup", "blueprint": "b", "options": {"name": name}});
    let mut object = action_set_of(json!([action("a"), action("b")]));
    world.settle(&mut object);
    assert_eq!(world.watch.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    world.add(json!({"kind": "ConfigMap", "metadata": {"name": "b", "namespace": "shop"}}));
    let status = world.settle(&mut object);
    assert_eq!(
        (status.state, states(&status)),
        (ActionState::Running, vec![PhaseState::Running, PhaseState::Complete])
    );
    assert_eq!(status.progress.percent_completed, "75");
    world.add(json!({"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}));
    assert_eq!(world.settle(&mut object).state, ActionState::Complete);
}

#[test]
fn sequential_actions_run_one_after_the_other_and_stop_at_a_failure() {
    let mut world = World::new();
    world.add(blueprint(json!({"phases": [phase("Await", "wait", json!({"name": "{{ .Options.name }}"}))]})));
    let action = |name: &str| json!({"name": "backup", "blueprint": "b", "options": {"name": name}});
    let mut object = action_set_of(json!([action("a"), action("b")]));
    object["spec"]["executionMode"] = "Sequential".into();
    assert_eq!(states(&world.settle(&mut object)), [PhaseState::Running, PhaseState::Pending]);
    world.now += 20_000;
    let status = world.settle(&mut object);
    assert_eq!(
        (status.state, states(&status)),
        (ActionState::Failed, vec![PhaseState::Failed, PhaseState::Pending])
    );
}

#[test]
fn failed_phase_stops_its_action_and_is_named() {
    let action = json!({"phases": [
        phase("F", "one", json!({})), phase("F", "two", json!({"fail": "boom"})), phase("F", "three", json!({})),
    ]});
    let status = run(action, json!({}));
    assert_eq!(states(&status), [PhaseState::Complete, PhaseState::Failed, PhaseState::Pending]);
    assert_eq!(status.state, ActionState::Failed);
    assert_eq!(status.error.message, "phase `two`: function `F` v0.1.0: boom");
    let error = &status.errors[0];
    assert_eq!(
        (error.phase.as_str(), error.function.as_str(), error.version.as_str()),
        ("two", "F", "v0.1.0")
    );
}

#[test]
fn output_of_a_phase_reaches_later_ones_and_a_missing_key_is_named() {
    let action = |key: &str| {
        let text = format!("{{{{ .Phases.one.Output.{key} }}}}");
        json!({"phases": [phase("F", "one", json!({"text": "v"})), phase("F", "two", json!({"text": text}))]})
    };
    assert_eq!(run(action("text"), json!({})).actions[0].phases[1].output["text"], "v");
    let status = run(action("nope"), json!({}));
    assert_eq!(status.errors[0].code, "PhaseTemplateFailed");
    let message = &status.error.message;
    assert!(
        message.contains("phase `two`") && message.contains("args.text") && message.contains("nope"),
        "{message}"
    );
}

#[test]
fn missing_blueprint_or_action_is_told_and_nothing_runs() {
    let status = run(one(phase("F", "p", json!({}))), json!({"blueprint": "nope"}));
    assert_eq!((status.state, status.errors[0].code.as_str()), (ActionState::Failed, "BlueprintNotFound"));
    let status = run(one(phase("F", "p", json!({}))), json!({"name": "restore"}));
    assert!(
        status.error.message.contains("`restore`") && status.error.message.contains("`backup`"),
        "{:?}",
        status.error
    );
}

#[test]
fn what_a_blueprint_asks_for_has_to_be_supplied() {
    let base = phase("Create", "p", json!({"name": "x"}));
    let cases = [
        (json!({"phases": [base], "inputArtifactNames": ["a"]}), json!({}), "artifact `a`"),
        (json!({"phases": [base], "secretNames": ["s"]}), json!({}), "Secret `s`"),
        (json!({"phases": [base], "configMapNames": ["c"]}), json!({}), "ConfigMap `c`"),
        (
            json!({"phases": [base], "kind": "Deployment"}),
            json!({"object": {"kind": "StatefulSet", "name": "d"}}),
            "kind Deployment",
        ),
    ];
    for (action, spec, words) in cases {
        let mut world = World::new();
        let (_, status) = check(&mut world, action, spec);
        assert_eq!((status.state, status.errors[0].code.as_str()), (ActionState::Failed, "ActionInvalid"));
        assert!(status.error.message.contains(words), "{}", status.error.message);
        assert_eq!(world.objects.len(), 1);
    }
}

#[test]
fn templates_see_the_object_secrets_config_maps_options_artifacts_and_pods() {
    let mut world = World::new();
    world.add(json!({
        "kind": "Deployment", "metadata": {"name": "db", "namespace": "shop"}, "spec": {"selector": {"matchLabels": {"app": "db"}}},
    }));
    let pod = |name: &str, phase: &str| {
        json!({
            "kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "status": {"phase": phase},
            "spec": {
                "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/data"}]}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}],
            },
        })
    };
    world.add(pod("db-1", "Running"));
    world.add(pod("db-0", "Pending"));
    world.add(json!({"kind": "Secret", "metadata": {"name": "login", "namespace": "shop"}, "data": {"password": "aHVudGVyMg=="}}));
    world.add(json!({"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}, "data": {"path": "/b"}}));
    world.add(json!({
        "kind": "Profile", "metadata": {"name": "store", "namespace": "shop"},
        "location": {"type": "s3Compliant", "bucket": "k"},
        "credential": {"type": "keyPair", "keyPair": {"idField": "user", "secretField": "password", "secret": {"name": "login"}}},
    }));
    let text = "{{ .Deployment.Name }} {{ index .Deployment.Pods 0 }} {{ .Deployment.PersistentVolumeClaims }} \
                {{ .Object.metadata.name }} {{ .Secrets.login.Data.password | toString }} {{ .ConfigMaps.settings.Data.path }} \
                {{ .Options.o }} {{ .ArtifactsIn.a.KeyValue.k }} {{ .Profile.Location.Bucket }} {{ .Profile.Credential.KeyPair.Secret }} \
                {{ index .Phases.p.Secrets.own.Data \"password\" | toString }} {{ .CurrentPhase.ConfigMaps.cm.Data.path }}";
    let mut it = phase("F", "p", json!({"text": text}));
    it["objects"] = json!({
        "own": {"kind": "Secret", "name": "{{ .Options.secret }}"}, "cm": {"kind": "ConfigMap", "name": "settings"},
    });
    let spec = json!({
        "object": {"kind": "Deployment", "name": "db", "namespace": "shop"},
        "secrets": {"login": {"name": "login"}}, "configMaps": {"settings": {"name": "settings"}},
        "options": {"o": "x", "secret": "login"}, "artifacts": {"a": {"keyValue": {"k": "v"}}}, "profile": {"name": "store"},
    });
    let (_, status) = check(&mut world, one(it), spec);
    assert_eq!(status.error.message, "");
    let expected = "db db-1 map[db-1:map[claim:/data]] db hunter2 /b x v k hunter2 hunter2 /b";
    assert_eq!(status.actions[0].phases[0].output["text"], expected);
    assert_eq!(status.actions[0].workload.as_ref().unwrap().pods, ["db-1"]);
}

#[test]
fn profile_with_several_credentials_gives_templates_that_of_its_type() {
    let mut world = World::new();
    world.add(json!({"kind": "Secret", "metadata": {"name": "account", "namespace": "shop"}, "data": {"token": "c2VjcmV0"}}));
    world.add(json!({
        "kind": "Profile", "metadata": {"name": "store", "namespace": "shop"},
        "credential": {
            "type": "secret", "secret": {"name": "account"},
            "keyPair": {"idField": "token", "secretField": "token", "secret": {"name": "gone"}},
        },
    }));
    let text =
        "{{ .Profile.Credential.Secret.Name }}{{ if .Profile.Credential.KeyPair }} and a pair{{ end }}";
    let action = one(phase("F", "p", json!({"text": text})));
    let (_, status) = check(&mut world, action, json!({"profile": {"name": "store"}}));
    assert_eq!(status.error.message, "");
    assert_eq!(status.actions[0].phases[0].output["text"], "account");
}

#[test]
fn values_of_secrets_are_kept_out_of_messages() {
    let mut world = World::new();
    world.add(json!({"kind": "Secret", "metadata": {"name": "login", "namespace": "shop"}, "data": {"password": "aHVudGVyMg=="}}));
    let fail =
        phase("F", "p", json!({"fail": "cannot log in with {{ .Secrets.login.Data.password | toString }}"}));
    let (object, status) = check(&mut world, one(fail), json!({"secrets": {"login": {"name": "login"}}}));
    assert!(status.error.message.ends_with("cannot log in with ***"), "{}", status.error.message);
    assert!(!Value::Object(object).to_string().contains("hunter2"));
    assert!(world.events.iter().all(|event| !event.message.contains("hunter2")));
}

#[test]
fn functions_know_what_no_checkpoint_may_have() {
    let mut world = World::new();
    for name in ["given", "own"] {
        let data =
            json!({"password": ferroplane_golang::base64::encode(format!("hunter2-{name}").as_bytes())});
        world.add(json!({"kind": "Secret", "metadata": {"name": name, "namespace": "shop"}, "data": data}));
    }
    let words =
        "{{ .Secrets.it.Data.password | toString }} {{ .CurrentPhase.Secrets.own.Data.password | toString }}";
    let mut note = phase("Note", "p", json!({"words": words}));
    note["objects"] = json!({"own": {"kind": "Secret", "name": "own"}});
    let (_, status) = check(&mut world, one(note), json!({"secrets": {"it": {"name": "given"}}}));
    assert_eq!(status.error.message, "");
    assert_eq!(status.actions[0].phases[0].checkpoint, "*** ***");
}

#[test]
fn objects_that_cannot_be_rendered_or_read_are_told() {
    let mut it = phase("F", "p", json!({}));
    it["objects"] = json!({"own": {"kind": "Secret", "name": "{{ .Options.nope }}"}});
    let action = json!({"phases": [phase("Create", "first", json!({"name": "x"})), it]});
    let mut world = World::new();
    let (_, status) = check(&mut world, action, json!({}));
    assert!(status.error.message.contains("objects.own.name"), "{}", status.error.message);
    assert_eq!(world.objects.len(), 1, "references are rendered before the first phase");

    let status = run(one(phase("F", "p", json!({}))), json!({"secrets": {"login": {"name": "gone"}}}));
    assert_eq!(status.errors[0].code, "ActionInputUnavailable");
    assert!(status.error.message.contains("Secret `gone`"), "{}", status.error.message);
}

#[test]
fn objects_of_complete_phases_may_go_and_are_missed_by_templates_only() {
    let action = |text: &str| {
        let mut first = phase("F", "first", json!({}));
        first["objects"] = json!({"login": {"kind": "Secret", "name": "login"}});
        json!({"phases": [first, phase("Await", "wait", json!({"name": "x"})), phase("F", "last", json!({"text": text}))]})
    };
    let finish = |text: &str| {
        let mut world = World::new();
        world.add(json!({"kind": "Secret", "metadata": {"name": "login", "namespace": "shop"}, "data": {"password": "aHVudGVyMg=="}}));
        let (mut object, status) = check(&mut world, action(text), json!({}));
        assert_eq!(status.state, ActionState::Running);
        world.objects.remove("secret/shop/login");
        world.add(json!({"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "shop"}}));
        world.settle(&mut object)
    };
    let status = finish("done");
    assert_eq!((status.state, status.error.message.as_str()), (ActionState::Complete, ""));
    let status = finish("{{ .Phases.first.Secrets.login.Data.password | toString }}");
    assert_eq!(status.errors[0].code, "PhaseTemplateFailed");
    assert!(status.error.message.contains("login"), "{}", status.error.message);
}

#[test]
fn artifacts_are_rendered_after_success_only() {
    let action = |fail: bool| {
        let args = if fail { json!({"fail": "no"}) } else { json!({"text": "v"}) };
        json!({
            "phases": [phase("F", "p", args)],
            "deferPhase": phase("F", "end", json!({"text": "w"})),
            "outputArtifacts": {"a": {"keyValue": {"k": "{{ .Phases.p.Output.text }}{{ .DeferPhase.Output.text }}"}}},
        })
    };
    let status = run(action(false), json!({}));
    assert_eq!(status.actions[0].artifacts["a"].key_value["k"], "vw");
    assert!(run(action(true), json!({})).actions[0].artifacts.is_empty());
    let mut broken = action(false);
    broken["outputArtifacts"]["a"]["keyValue"]["k"] = "{{ .Phases.p.Output.nope }}".into();
    let status = run(broken, json!({}));
    assert_eq!((status.state, status.errors[0].code.as_str()), (ActionState::Failed, "PhaseTemplateFailed"));
    assert!(status.error.message.contains("outputArtifacts.a.keyValue.k"), "{}", status.error.message);
}

#[test]
fn defer_phase_runs_after_success_and_failure_and_keeps_the_first_error() {
    let action = |phase_args: Value, defer_args: Value| {
        let mut defer = phase("F", "end", defer_args);
        defer["funcVersion"] = "v0.2.0".into();
        json!({"phases": [phase("F", "p", phase_args)], "deferPhase": defer})
    };
    let defer = |status: &ActionSetStatus| status.actions[0].defer_phase.state;
    let status = run(action(json!({}), json!({})), json!({}));
    assert_eq!((status.state, defer(&status)), (ActionState::Complete, PhaseState::Complete));
    assert_eq!(versions(&status), ["v0.1.0", "v0.2.0"]);

    let status = run(action(json!({"fail": "first"}), json!({})), json!({}));
    assert_eq!((status.state, defer(&status)), (ActionState::Failed, PhaseState::Complete));
    assert!(status.error.message.ends_with("first"));
    assert_eq!(status.progress.running_phase, "");

    let status = run(action(json!({"fail": "first"}), json!({"fail": "second"})), json!({}));
    assert_eq!((status.state, defer(&status)), (ActionState::Failed, PhaseState::Failed));
    let messages: Vec<_> = status.errors.iter().map(|it| it.message.rsplit(' ').next().unwrap()).collect();
    assert_eq!(messages, ["first", "second"]);
    assert!(status.error.message.ends_with("first"));

    let status = run(action(json!({}), json!({"fail": "second"})), json!({}));
    assert_eq!((status.state, states(&status)), (ActionState::Failed, vec![PhaseState::Complete]));
}

#[test]
fn answers_are_kept_until_their_phase_is_asked_and_never_reach_the_next() {
    let mut world = World::new();
    world.add(json!({"kind": "Secret", "metadata": {"name": "login", "namespace": "shop"}}));
    let action = json!({
        "phases": [phase("Await", "wait", json!({"name": "x"}))], "deferPhase": phase("Await", "end", json!({"name": "y"})),
    });
    let (object, status) = check(&mut world, action, json!({"secrets": {"login": {"name": "login"}}}));
    let (spec, blueprints) = (spec_of(&object).unwrap(), world.blueprints());
    let found = find_action(&spec.actions[0], blueprints.get("b")).unwrap();
    let resume = || {
        let identity = RunIdentity { uid: "u-1", namespace: "shop", index: 0, seed: [1; 32] };
        let answers = vec![Answer::Object { object: Object::new(), resource: String::new() }];
        let status = status.actions[0].clone();
        Run::resume(&spec.actions[0], found, world.facilities(), identity, status, Vec::new(), answers)
    };
    let login = || Answer::Object { object: Object::new(), resource: String::new() };
    let mut run = resume();
    // What the action is given is read first.
    assert!(matches!(run.next(Vec::new(), world.now), Turn::Perform(_)));
    assert!(run.has_answers());
    run.next(vec![login()], world.now);
    assert!(!run.has_answers());
    assert_eq!(run.status.phases[0].state, PhaseState::Complete);

    let mut run = resume();
    run.next(Vec::new(), world.now);
    let (reason, message) = ("Forbidden".to_owned(), "no".to_owned());
    let refused = Refused { code: 403, reason, message, cause: Cause::RequestRefused };
    let turn = run.next(vec![Answer::Refused(refused)], world.now);
    assert!(matches!(turn, Turn::Perform(_)), "{turn:?}");
    assert_eq!(run.status.defer_phase.state, PhaseState::Running);
}

#[test]
fn action_whose_blueprint_loses_phases_ends() {
    let wait = phase("Await", "wait", json!({"name": "x"}));
    let whole =
        json!({"phases": [wait, phase("F", "last", json!({}))], "deferPhase": phase("F", "end", json!({}))});
    for is_cancelled in [true, false] {
        let mut world = World::new();
        let (mut object, _) = check(&mut world, whole.clone(), json!({}));
        world.add(blueprint(one(wait.clone())));
        world.add(json!({"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "shop"}}));
        if is_cancelled {
            meta::set_annotation(&mut object, ferroplane_api::keys::CANCEL, "true");
        }
        let status = world.settle(&mut object);
        assert_eq!(status.state, ActionState::Failed, "{:?}", status.errors);
        assert_eq!(status.actions[0].defer_phase.state, PhaseState::Failed);
        let last = status.errors.last().unwrap();
        assert_eq!((last.phase.as_str(), last.code.as_str()), ("end", "BlueprintInvalid"));
        assert!(last.message.contains("does not have it any more"), "{}", last.message);
    }
}

#[test]
fn deleted_action_set_runs_its_defer_phase_before_it_goes() {
    let mut world = World::new();
    let action = json!({
        "phases": [phase("Await", "wait", json!({"name": "x"})), phase("F", "never", json!({}))],
        "deferPhase": phase("Create", "end", json!({"name": "y"})),
    });
    let (mut object, status) = check(&mut world, action, json!({}));
    assert_eq!(status.state, ActionState::Running);
    object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    let status = world.settle(&mut object);
    assert_eq!(states(&status), [PhaseState::Failed, PhaseState::Pending]);
    assert_eq!(status.actions[0].defer_phase.state, PhaseState::Complete);
    assert_eq!(status.errors[0].code, "ActionCancelled");
    assert!(world.objects.contains_key("configmap/shop/y"));
    assert_eq!(begin_action_set(&object), BeginActionSet::Release);
    world.settle(&mut object);
    assert_eq!(begin_action_set(&object), BeginActionSet::Ended);
}

#[test]
fn paused_action_set_does_nothing_and_a_final_one_stays() {
    let mut world = World::new();
    world.add(blueprint(one(phase("F", "p", json!({})))));
    let mut object = action_set(json!({}));
    meta::set_annotation(&mut object, ferroplane_api::keys::PAUSED, "true");
    assert_eq!(world.settle(&mut object).actions.len(), 0);
    meta::set_annotation(&mut object, ferroplane_api::keys::PAUSED, "false");
    assert_eq!(world.settle(&mut object).state, ActionState::Complete);
    object["spec"]["actions"][0]["name"] = "other".into();
    assert_eq!(begin_action_set(&object), BeginActionSet::Ended);
}

#[test]
fn action_set_that_is_cancelled_before_it_begins_fails_also_while_it_is_paused() {
    for is_paused in ["false", "true"] {
        let mut world = World::new();
        let end = phase("Create", "end", json!({"name": "y"}));
        world.add(blueprint(
            json!({"phases": [phase("Create", "p", json!({"name": "x"}))], "deferPhase": end}),
        ));
        let mut object = action_set(json!({}));
        meta::set_annotation(&mut object, ferroplane_api::keys::PAUSED, is_paused);
        meta::set_annotation(&mut object, ferroplane_api::keys::CANCEL, "true");
        let status = world.settle(&mut object);
        assert_eq!((status.state, states(&status)), (ActionState::Failed, vec![PhaseState::Pending]));
        assert_eq!(status.errors[0].code, "ActionCancelled");
        assert_eq!(world.objects.len(), 1, "nothing but the Blueprint is there");
    }
}

#[test]
fn phase_that_is_interrupted_anywhere_goes_on_and_creates_one_object() {
    for crash_after in 0..3 {
        let mut world = World::new();
        world.crash_after = Some(crash_after);
        let action = json!({"phases": [phase("Create", "one", json!({"name": "x"})), phase("Create", "two", json!({"name": "y"}))]});
        let (mut object, _) = check(&mut world, action, json!({}));
        world.crash_after = None;
        let status = world.settle(&mut object);
        assert_eq!(status.error.message, "", "after {crash_after}");
        assert_eq!((status.state, world.objects.len()), (ActionState::Complete, 3), "after {crash_after}");
    }
}

#[test]
fn waiting_phase_keeps_its_deadline_over_a_restart() {
    let mut world = World::new();
    let (mut object, _) = check(&mut world, one(phase("Await", "p", json!({"name": "x"}))), json!({}));
    world.now += 9_000;
    let status = world.settle(&mut object);
    assert_eq!(status.state, ActionState::Running);
    world.now += 1_000;
    let status = world.settle(&mut object);
    assert_eq!((status.state, status.errors[0].code.as_str()), (ActionState::Failed, "PhaseTimeout"));
}

#[test]
fn checkpoints_have_a_limit() {
    let limit = CHECKPOINT_LIMIT - 2;
    assert_eq!(run(one(phase("Long", "p", json!({"length": limit}))), json!({})).state, ActionState::Running);
    let status = run(one(phase("Long", "p", json!({"length": limit + 1}))), json!({}));
    assert_eq!(status.state, ActionState::Failed);
    assert!(status.error.message.contains("checkpoint"), "{}", status.error.message);
}

#[test]
fn phase_that_panics_fails_and_the_deferred_phase_runs() {
    let action = |defer: &str| {
        json!({
            "phases": [phase("F", "one", json!({})), phase("Panic", "two", json!({})), phase("F", "never", json!({}))],
            "deferPhase": phase(defer, "end", json!({})),
        })
    };
    let status = run(action("F"), json!({}));
    assert_eq!(states(&status), [PhaseState::Complete, PhaseState::Failed, PhaseState::Pending]);
    assert_eq!(status.actions[0].defer_phase.state, PhaseState::Complete);
    assert_eq!((status.state, status.errors[0].code.as_str()), (ActionState::Failed, "PhaseFailed"));
    let message =
        "phase `two`: function `Panic` v0.0.0: it panicked; the log of the control plane says where";
    assert_eq!(status.error.message, message);

    let status = run(action("Panic"), json!({}));
    assert_eq!(status.actions[0].defer_phase.state, PhaseState::Failed);
    assert_eq!((status.state, status.errors.len()), (ActionState::Failed, 2));
}

/// What becomes of an action whose only phase has this `funcVersion`, and whose status was written to by a user before it ran.
fn run_forged(world: &mut World, func_version: &str, forge: impl FnOnce(&mut Value)) -> ActionSetStatus {
    let mut honest = phase("F", "p", json!({}));
    honest["funcVersion"] = func_version.into();
    world.add(blueprint(one(honest)));
    let mut object = action_set(json!({}));
    assert!(world.reconcile(&mut object), "it has begun");
    forge(&mut object["status"]["actions"][0]["phases"][0]["function"]);
    world.settle(&mut object)
}

#[test]
fn function_that_a_user_writes_to_the_status_is_not_called() {
    let (v1, v2, plain) = ("v0.1.0", "v0.2.0", "v0.0.0");
    let cases = [
        ("G", plain, v1, "its Blueprint names `F`"),
        ("F", v2, v1, "its Blueprint names v0.1.0"),
        ("F", plain, v1, "its Blueprint names v0.1.0"),
        ("F", v1, "v9.9.9", "its Blueprint names v9.9.9"),
        ("F", "banana", "", "that is no version"),
    ];
    for (function, version, func_version, why) in cases {
        let forge = |callee: &mut Value| *callee = json!({"name": function, "version": version});
        let status = run_forged(&mut World::new(), func_version, forge);
        assert_eq!((status.state, versions(&status).len()), (ActionState::Failed, 0), "{function} {version}");
        assert_eq!(status.errors[0].code, "FunctionVersionInvalid");
        assert!(status.error.message.ends_with(why), "{}", status.error.message);
    }
    // What the Blueprint and the ActionSet leave open may be in the status, which keeps it over upgrades.
    for (version, func_version) in [(v2, ""), (v1, "0.1.0"), (plain, "v9.9.9")] {
        let forge = |callee: &mut Value| callee["version"] = version.into();
        assert_eq!(
            versions(&run_forged(&mut World::new(), func_version, forge)),
            [version],
            "{func_version}"
        );
    }
    assert_eq!(versions(&run_forged(&mut World::new(), v2, |callee| *callee = Value::Null)), [v2]);
}

#[test]
fn version_in_the_status_that_was_removed_is_not_called() {
    let lifecycle = Lifecycle { removed_in: Some(version("0.3.0")), ..Lifecycle::default() };
    let mut world = World::with(catalogue_with("0.3.0", "v0.2.0", lifecycle));
    let status = run_forged(&mut world, "", |callee| callee["version"] = "v0.1.0".into());
    assert_eq!((versions(&status).len(), status.errors[0].code.as_str()), (0, "FunctionVersionRemoved"));
}

#[test]
fn outputs_that_do_not_fit_into_the_status_fail_a_phase_and_the_deferred_phase_runs() {
    let phases: Vec<_> =
        (0..20).map(|it| phase("F", &format!("p{it}"), json!({"text": "x".repeat(60_000)}))).collect();
    let status = run(json!({"phases": phases, "deferPhase": phase("F", "end", json!({}))}), json!({}));
    assert_eq!(status.state, ActionState::Failed);
    assert_eq!(status.actions[0].defer_phase.state, PhaseState::Complete);
    assert!(status.error.message.contains("the status of the ActionSet has room for"), "{:?}", status.error);
    assert!(json_size(&status) < STATUS_LIMIT + (64 << 10), "{}", json_size(&status));
}

#[test]
fn artifacts_that_do_not_fit_into_the_status_fail_the_action() {
    let key_value: BTreeMap<_, _> =
        (0..20).map(|it| (format!("k{it}"), "{{ .Phases.p.Output.text }}")).collect();
    let action = json!({
        "phases": [phase("F", "p", json!({"text": "x".repeat(60_000)}))],
        "outputArtifacts": {"a": {"keyValue": key_value}},
    });
    let status = run(action, json!({}));
    assert_eq!(status.state, ActionState::Failed);
    assert!(status.error.message.contains("its output artifacts have"), "{:?}", status.error);
    assert!(status.actions[0].artifacts.is_empty());
}

#[test]
fn failure_of_any_length_leaves_a_small_status() {
    let status = run(one(phase("F", "p", json!({"fail": "x".repeat(100_000)}))), json!({}));
    assert!(json_size(&status) < 64 << 10, "{}", json_size(&status));
}

#[test]
fn room_in_the_status_is_shared_by_all_actions() {
    let mut status = run(one(phase("F", "p", json!({"text": "x".repeat(10_000)}))), json!({}));
    status.actions.push(status.actions[0].clone());
    let room = StatusRoom::of(&status);
    let lent = room.lend(&status.actions[0]);
    assert_eq!(lent, STATUS_LIMIT - json_size(&status) + json_size(&status.actions[0]));
    assert_eq!(room.without(lent, &status.actions[0]).lend(&status.actions[1]), lent);
    status.actions[0].phases.clear();
    assert!(room.without(lent, &status.actions[0]).lend(&status.actions[1]) > lent);
}

#[test]
fn action_set_whose_status_is_not_stored_ends_without_its_outputs() {
    let mut world = World::new();
    let action = json!({
        "phases": [phase("F", "one", json!({"text": "kept?"})), phase("Await", "wait", json!({"name": "x"}))],
        "deferPhase": phase("F", "end", json!({})),
    });
    let (mut object, running) = check(&mut world, action, json!({}));
    for (left_out, actions) in [(LeftOut::Results, 1), (LeftOut::Actions, 0)] {
        let mut status = running.clone();
        let event = end_too_large(&object, &mut status, left_out, world.now);
        assert_eq!((status.state, status.actions.len()), (ActionState::Failed, actions));
        assert_eq!((event.reason.as_str(), &event.message), ("ActionSetFailed", &status.error.message));
        assert!(!serde_json::to_string(&status).unwrap().contains("kept?"));
        assert_eq!(status.conditions[0]["status"], "False");
        if left_out == LeftOut::Results {
            assert_eq!(states(&status), [PhaseState::Complete, PhaseState::Failed]);
        }
        object.insert("status".to_owned(), serde_json::to_value(&status).unwrap());
        meta::child(&mut object, "metadata").remove("finalizers");
        assert_eq!(begin_action_set(&object), BeginActionSet::Ended);
    }
}

#[test]
fn action_set_without_actions_is_complete() {
    let mut object = action_set_of(json!([]));
    assert_eq!(World::new().settle(&mut object).state, ActionState::Complete);
}

#[test]
fn blueprints_are_judged_by_the_versions_that_their_phases_call() {
    let catalogue = catalogue_with("0.3.0", "v0.1.0", Lifecycle::default());
    let judge = |action: Value| {
        let object = blueprint(action);
        let blueprint = Blueprint::of(object.as_object().unwrap()).unwrap();
        validate_blueprint(&blueprint, &catalogue, &Functions, false)
    };
    let pinned = |version: &str, args: Value| {
        let mut phase = phase("F", "p", args);
        phase["funcVersion"] = version.into();
        one(phase)
    };
    assert_eq!(judge(pinned("v0.2.0", json!({"new": 1}))), BlueprintFindings::default());
    let errors = judge(pinned("v0.1.0", json!({"new": 1}))).errors.concat();
    assert!(
        errors.contains("`new`")
            && errors.contains("`F` v0.1.0")
            && errors.contains("actions.backup.phases[0]"),
        "{errors}"
    );
    assert!(judge(pinned("banana", json!({}))).errors.concat().contains("banana"));
    let fallback = judge(pinned("v9.9.9", json!({})));
    assert!(fallback.errors.is_empty() && fallback.warnings.concat().contains("v9.9.9"), "{fallback:?}");
    assert!(
        judge(one(phase("Create", "p", json!({})))).errors.concat().contains("argument `name` is required")
    );
    assert!(judge(one(phase("Nope", "p", json!({})))).errors.concat().contains("`Nope`"));
    let twice = json!({"phases": [phase("F", "p", json!({}))], "deferPhase": phase("F", "p", json!({}))});
    assert!(
        judge(twice)
            .errors
            .concat()
            .contains("actions.backup.deferPhase: actions.backup.phases[0] has the name `p`, too")
    );
}

#[test]
fn blueprint_is_judged_by_each_release_that_reads_it() {
    let lifecycle = Lifecycle {
        deprecated_in: Some(version("0.3.0")),
        removed_in: Some(version("0.5.0")),
        replaced_by: Some(version("v0.2.0")),
        ..Lifecycle::default()
    };
    let mut pinned = phase("F", "p", json!({}));
    pinned["funcVersion"] = "v0.1.0".into();
    let object = blueprint(one(pinned));
    let blueprint = Blueprint::of(object.as_object().unwrap()).unwrap();
    let judge = |release: &str| {
        let catalogue = catalogue_with(release, "v0.2.0", lifecycle.clone());
        validate_blueprint(&blueprint, &catalogue, &Functions, false)
    };
    for release in ["0.3.0", "0.4.0"] {
        let BlueprintFindings { errors, warnings } = judge(release);
        let warnings = warnings.concat();
        assert!(errors.is_empty(), "{errors:?}");
        assert!(["v0.1.0", "0.5.0", "v0.2.0"].iter().all(|it| warnings.contains(it)), "{warnings}");
    }
    let errors = judge("0.5.0").errors.concat();
    assert!(errors.contains("v0.1.0") && errors.contains("v0.2.0"), "{errors}");
}

#[test]
fn phase_that_runs_an_image_needs_a_machine_that_can() {
    let world = World::new();
    let needing: ferroplane_api::BlueprintPhase =
        serde_json::from_value(phase("KubeTask", "p", json!({}))).unwrap();
    let check = |pods, no_containers| {
        let facilities = Facilities { pods, no_containers, ..world.facilities() };
        compile::check_needs(&needing, &Version::UNVERSIONED, &[Need::Pods], &facilities)
    };
    assert!(check(PodSupport::Containers, None).is_ok());
    let refused = check(PodSupport::Containers, Some("there is no crun")).unwrap_err();
    assert_eq!(refused.cause, Cause::PhaseNeedsUnmet);
    assert!(refused.message.contains("cannot run it: there is no crun; or run the ActionSet on a cluster"));
    assert_eq!(check(PodSupport::None, None).unwrap_err().cause, Cause::PhaseNeedsUnmet);
    // What needs both, as PrepareData does, is not run by containers.
    let facilities = Facilities { pods: PodSupport::Containers, ..world.facilities() };
    let both = [Need::Pods, Need::Exec];
    let refused = compile::check_needs(&needing, &Version::UNVERSIONED, &both, &facilities).unwrap_err();
    assert!(refused.message.contains("this control plane has no pods"), "{}", refused.message);
}

#[test]
fn noted_call_can_be_repeated_and_its_secrets_are_known() {
    let mut world = World::new();
    let login = json!({
        "kind": "Secret", "metadata": {"name": "login", "namespace": "shop"}, "data": {"password": "c2VzYW1lLW9wZW4="},
    });
    world.add(login.clone());
    let name = "{{ .Secrets.login.Data.password | toString | upper }}";
    let action = json!({"phases": [phase("Await", "wait", json!({"name": name}))]});
    let (object, status) = check(&mut world, action, json!({"secrets": {"login": {"name": "login"}}}));
    let (spec, blueprints) = (spec_of(&object).unwrap(), world.blueprints());
    let found = find_action(&spec.actions[0], blueprints.get("b")).unwrap();
    let identity = RunIdentity { uid: "u-1", namespace: "shop", index: 0, seed: [1; 32] };
    let there = |object: &Object| Answer::Object { object: object.clone(), resource: String::new() };
    let answers = vec![there(&Object::new())];
    let status = status.actions[0].clone();
    let mut run =
        Run::resume(&spec.actions[0], found, world.facilities(), identity, status, Vec::new(), answers);
    run.note_calls();
    run.next(Vec::new(), world.now);
    run.next(vec![there(login.as_object().unwrap())], world.now);
    let notes = run.take_notes();
    assert_eq!(notes.calls.len(), 1);
    let call = &notes.calls[0];
    assert_eq!((call.phase.as_str(), call.function.as_str()), ("wait", "Await"));
    assert_eq!(call.decided, json!({"done": {"output": {}}}));
    assert_eq!(call.input.repeat("wait", &Await), call.decided);
    assert!(!serde_json::to_string(&call.input.data).unwrap().contains("c2VzYW1l"));
    for secret in ["sesame-open", "SESAME-OPEN"] {
        assert!(notes.secrets.contains(secret.as_bytes()), "{secret}");
    }
    assert!(run.take_notes().calls.is_empty());
}
