//! Holds conversations with the engine and reads what they come to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferroplane_api::{Cause, meta};
use ferroplane_engine::{
    Answer, CompositeSubject, EventKind, Failure, Inputs, Layout, MAX_CALLS, Observed, Outcome, Pipeline,
    Requirement, SettleFacts, Target, Turn, Want, chain, conditions_in, settle, start,
};
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{ResourceSelector, RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{MAX_ENTRIES, Struct, from_json, to_json};
use proptest::prelude::*;
use serde_json::{Value, json};

const UID: &str = "75e4a668-035f-4ce8-8c45-f4d3ac850155";

fn object(value: Value) -> Struct {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    Struct::try_from(object).expect("it is shallow")
}

fn response(value: &Value) -> RunFunctionResponse {
    from_json(value).expect("it is a response")
}

fn cluster_xr() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "XR",
        "metadata": {"name": "parent", "uid": UID, "labels": {"crossplane.io/composite": "parent"}},
        "spec": {}
    })
}

fn namespaced_xr() -> Value {
    let mut xr = cluster_xr();
    xr["metadata"]["namespace"] = "team".into();
    xr
}

fn composed(key: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("observed-{key}"), "generateName": "parent-",
            "annotations": {"crossplane.io/composition-resource-name": key},
            "ownerReferences": [{"apiVersion": "example.org/v1", "kind": "XR", "name": "parent", "uid": UID, "controller": true}]
        }
    })
}

/// One conversation: what is there, which steps run, what functions answer, what can be read.
struct Conversation {
    xr: Value,
    steps: Value,
    observed: BTreeMap<String, Value>,
    remembered: Vec<Requirement>,
    world: Box<dyn Fn(&Want) -> Answer>,
    /// Everything that functions were asked.
    requests: Vec<(String, RunFunctionRequest)>,
}

impl Conversation {
    fn with(xr: Value) -> Self {
        let is_namespaced = xr["metadata"]["namespace"].is_string();
        Self {
            xr,
            steps: json!([{"step": "one", "functionRef": {"name": "f"}}]),
            observed: BTreeMap::new(),
            remembered: Vec::new(),
            world: Box::new(move |want| match want {
                Want::Resources(_) | Want::ClusterResources(_) => Answer::Resources(Vec::new()),
                Want::Schema(_) => Answer::Schema(None),
                Want::Secret { .. } => Answer::Secret(None),
                Want::Scope { kind, .. } if is_namespaced => {
                    Answer::Scope { is_namespaced: kind != "ClusterRole" }
                }
                Want::Scope { .. } => Answer::Failed("nothing is known of the kind".to_owned()),
            }),
            requests: Vec::new(),
        }
    }

    fn steps(mut self, names: &[&str]) -> Self {
        self.steps = names.iter().map(|name| json!({"step": name, "functionRef": {"name": "f"}})).collect();
        self
    }

    fn observing(mut self, key: &str, object: Value) -> Self {
        self.observed.insert(key.to_owned(), object);
        self
    }

    /// Answers in turn; the last one is given again and again.
    fn converse(&mut self, answers: &[Value]) -> Outcome {
        let steps: Vec<ferroplane_api::Step> =
            serde_json::from_value(self.steps.clone()).expect("they are steps");
        let observed = self.observed.iter().map(|(key, value)| {
            (key.clone(), Observed { object: object(value.clone()), connection_details: BTreeMap::new() })
        });
        let mut turn = start(Inputs {
            subject: CompositeSubject {
                observed: observed.collect(),
                ..CompositeSubject::new(object(self.xr.clone()), Layout::Modern)
            }
            .into(),
            pipeline: Arc::new(Pipeline::new(&steps).expect("they are a pipeline")),
            remembered: self.remembered.clone(),
            context: None,
            grants: std::sync::Arc::default(),
        });
        loop {
            turn = match turn {
                Turn::Call(call) => {
                    let answer = &answers[self.requests.len().min(answers.len() - 1)];
                    self.requests.push((call.step().to_owned(), call.request().clone()));
                    match (answer["fails"].as_str(), answer.get("recalled")) {
                        (Some(code), _) => call.fail(code.parse().expect("it is a code"), "no"),
                        (None, Some(recalled)) => call.accept(response(recalled)),
                        (None, None) => call.answer(response(answer)),
                    }
                }
                Turn::Fetch(fetch) => {
                    let answers = fetch.wants().iter().map(&self.world).collect();
                    fetch.provide(answers)
                }
                Turn::Done(outcome) => return *outcome,
            }
        }
    }
}

fn desires(resources: Value) -> Value {
    let mut answer = json!({"desired": {}});
    answer["desired"]["resources"] = resources;
    answer
}

fn config_map() -> Value {
    json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap"}})
}

fn failure(outcome: Outcome) -> Failure {
    outcome.result.expect_err("the run fails")
}

#[test]
fn composed_resource_is_named_and_owned() {
    let outcome = Conversation::with(namespaced_xr()).converse(&[desires(json!({"database": config_map()}))]);
    let plan = outcome.result.unwrap();
    assert_eq!(
        Value::Object(plan.apply[0].object.clone()),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "parent-38ce86992a27", "generateName": "parent-", "namespace": "team",
                "annotations": {"crossplane.io/composition-resource-name": "database"},
                "labels": {"crossplane.io/composite": "parent"},
                "ownerReferences": [{
                    "apiVersion": "example.org/v1", "kind": "XR", "name": "parent", "uid": UID,
                    "controller": true, "blockOwnerDeletion": true
                }]
            }
        })
    );
    assert_eq!(plan.references[0].name, "parent-38ce86992a27");
    assert_eq!(plan.references[0].namespace, None);
    assert_eq!(plan.apply[0].step, "one");
}

#[test]
fn composed_resource_is_deleted_when_no_function_desires_it() {
    let mut conversation = Conversation::with(cluster_xr())
        .observing("bucket", composed("bucket"))
        .observing("user", composed("user"));
    let plan = conversation.converse(&[desires(json!({"bucket": config_map()}))]).result.unwrap();
    let deleted: Vec<_> = plan.delete.iter().map(|deletion| deletion.resource.as_str()).collect();
    assert_eq!(deleted, ["user"]);
    assert_eq!(plan.references.len(), 1);
}

#[test]
fn resource_that_is_not_proven_ours_is_never_deleted() {
    let mut orphan = composed("orphan");
    orphan["metadata"]["ownerReferences"] = json!([]);
    let mut foreign = composed("foreign");
    foreign["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    let mut conversation =
        Conversation::with(cluster_xr()).observing("orphan", orphan).observing("foreign", foreign);
    assert_eq!(conversation.converse(&[json!({})]).result.unwrap().delete, []);
}

#[test]
fn empty_desired_state_deletes_everything() {
    let mut conversation = Conversation::with(cluster_xr()).observing("bucket", composed("bucket"));
    let plan = conversation.converse(&[json!({})]).result.unwrap();
    assert_eq!(plan.delete.len(), 1);
    assert_eq!(plan.references, []);
}

#[test]
fn function_cannot_rename_or_move_an_existing_resource() {
    let mut conversation = Conversation::with(cluster_xr()).observing("bucket", composed("bucket"));
    let renamed = json!({"bucket": {"resource": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "namespace": "elsewhere"}
    }}});
    let plan = conversation.converse(&[desires(renamed)]).result.unwrap();
    assert_eq!(plan.apply[0].object["metadata"]["name"], "observed-bucket");
    assert_eq!(plan.apply[0].object["metadata"].get("namespace"), None);
}

#[test]
fn resource_that_changes_its_kind_is_replaced() {
    let mut conversation = Conversation::with(cluster_xr()).observing("bucket", composed("bucket"));
    let other = json!({"bucket": {"resource": {"apiVersion": "v1", "kind": "Secret"}}});
    let plan = conversation.converse(&[desires(other)]).result.unwrap();
    assert_eq!(plan.delete[0].resource, "bucket");
    assert_eq!(plan.apply[0].object["kind"], "Secret");
    assert_ne!(plan.apply[0].object["metadata"]["name"], "observed-bucket");
}

#[test]
fn each_step_sees_the_same_observed_state_and_what_came_before() {
    let mut conversation =
        Conversation::with(cluster_xr()).steps(&["one", "two"]).observing("bucket", composed("bucket"));
    conversation.converse(&[
        json!({"desired": {"resources": {"a": config_map()}}, "context": {"key": 1}}),
        desires(json!({"b": config_map()})),
    ]);
    let [(_, first), (_, second)] = &conversation.requests[..] else { panic!("two calls") };
    assert_eq!(first.observed, second.observed);
    assert_eq!(to_json(first).unwrap()["desired"], json!({}));
    assert_eq!(to_json(first).unwrap()["context"], json!({}));
    assert_eq!(first.input, None);
    assert_eq!(to_json(second).unwrap()["desired"]["resources"]["a"], config_map());
    assert_eq!(to_json(second).unwrap()["context"], json!({"key": 1}));
    assert_ne!(first.meta.as_ref().unwrap().tag, second.meta.as_ref().unwrap().tag);
    assert_eq!(first.meta.as_ref().unwrap().capabilities, [1, 2, 3, 4, 5]);
}

#[test]
fn step_after_one_that_says_nothing_about_desired_state_finds_none() {
    let mut conversation = Conversation::with(cluster_xr()).steps(&["one", "two", "three"]);
    let plan =
        conversation.converse(&[desires(json!({"a": config_map()})), json!({}), json!({})]).result.unwrap();
    assert_eq!(conversation.requests[2].1.desired, None);
    assert_eq!(plan.apply, []);
}

#[test]
fn later_step_replaces_what_an_earlier_one_wanted() {
    let mut conversation = Conversation::with(cluster_xr()).steps(&["one", "two"]);
    let plan = conversation
        .converse(&[desires(json!({"a": config_map()})), desires(json!({"b": config_map()}))])
        .result
        .unwrap();
    let names: Vec<_> =
        plan.apply.iter().map(|wanted| (wanted.resource.as_str(), wanted.step.as_str())).collect();
    assert_eq!(names, [("b", "two")]);
}

#[test]
fn fatal_result_stops_the_pipeline_and_keeps_what_was_said_before() {
    let mut conversation = Conversation::with(cluster_xr()).steps(&["one", "two"]);
    let outcome = conversation.converse(&[json!({
        "results": [
            {"severity": "SEVERITY_NORMAL", "message": "a"},
            {"severity": "SEVERITY_FATAL", "message": "b"},
            {"severity": "SEVERITY_NORMAL", "message": "c"}
        ],
        "conditions": [{"type": "Fine", "status": "STATUS_CONDITION_FALSE", "reason": "No"}]
    })]);
    assert_eq!(conversation.requests.len(), 1);
    let said: Vec<_> = outcome.events.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(said, ["a"]);
    assert_eq!(outcome.conditions[0].condition.kind, "Fine");
    let failure = failure(outcome);
    assert!(failure.is_fatal_result());
    assert_eq!(failure.to_string(), "pipeline step `one` returned a fatal result: b");
}

#[test]
fn results_become_events() {
    let outcome = Conversation::with(cluster_xr()).converse(&[json!({"results": [
        {"severity": "SEVERITY_NORMAL", "message": "plain"},
        {"severity": "SEVERITY_WARNING", "message": "told", "reason": "Because", "target": "TARGET_COMPOSITE_AND_CLAIM"},
        {"message": "unknown", "target": "TARGET_COMPOSITE_AND_CLAIM"},
        {"severity": 77, "message": "newer"}
    ]})]);
    let events: Vec<_> = outcome
        .events
        .iter()
        .map(|event| (event.kind, event.reason.as_str(), event.target, event.detailed()))
        .collect();
    assert_eq!(
        events,
        [
            (
                EventKind::Normal,
                "ComposeResources",
                Target::Composite,
                r#"Pipeline step "one": plain"#.to_owned()
            ),
            (
                EventKind::Warning,
                "Because",
                Target::CompositeAndClaim,
                r#"Pipeline step "one": told"#.to_owned()
            ),
            (
                EventKind::Warning,
                "ComposeResources",
                Target::Composite,
                r#"Pipeline step "one" returned a result of unknown severity (assuming warning): unknown"#
                    .to_owned()
            ),
            (
                EventKind::Warning,
                "ComposeResources",
                Target::Composite,
                r#"Pipeline step "one" returned a result of unknown severity (assuming warning): newer"#
                    .to_owned()
            ),
        ]
    );
}

fn requires(name: &str) -> Value {
    json!({"requirements": {"resources": {"settings": {
        "apiVersion": "v1", "kind": "ConfigMap", "matchName": name
    }}}})
}

fn found(name: &str) -> Struct {
    object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}))
}

#[test]
fn function_is_called_again_with_what_it_requires() {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.world = Box::new(|want| {
        let Want::Resources(ResourceSelector { .. }) = want else { panic!("{want:?}") };
        Answer::Resources(vec![found("s")])
    });
    let outcome = conversation.converse(&[requires("s")]);
    assert_eq!(conversation.requests.len(), 2);
    let (_, second) = &conversation.requests[1];
    assert_eq!(second.required_resources["settings"].items.len(), 1);
    assert_eq!(second.meta, conversation.requests[0].1.meta);
    assert_eq!(outcome.ran[0].calls, 2);
    assert_eq!(outcome.requirements.len(), 1);
}

#[test]
fn requirement_that_does_not_exist_is_answered_with_an_empty_entry() {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.converse(&[requires("s")]);
    assert_eq!(to_json(&conversation.requests[1].1).unwrap()["requiredResources"], json!({"settings": {}}));
}

#[test]
fn remembered_requirement_saves_a_call() {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.remembered = conversation.converse(&[requires("s")]).requirements;
    conversation.requests.clear();
    conversation.converse(&[requires("s")]);
    assert_eq!(conversation.requests.len(), 1);
}

#[test]
fn remembered_requirement_that_cannot_be_read_is_asked_for_again() {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.remembered = conversation.converse(&[requires("s")]).requirements;
    conversation.requests.clear();
    let reads = std::cell::Cell::new(0);
    conversation.world = Box::new(move |_| {
        reads.set(reads.get() + 1);
        if reads.get() == 1 { Answer::Failed("gone".into()) } else { Answer::Resources(vec![found("s")]) }
    });
    assert!(conversation.converse(&[requires("s")]).result.is_ok());
    assert_eq!(conversation.requests.len(), 2);
}

/// A conversation in which the step asked for `s` in the run before.
fn after_asking_for_s() -> Conversation {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.world = Box::new(|want| {
        let Want::Resources(selector) = want else { panic!("{want:?}") };
        let Some(Match::MatchName(name)) = &selector.r#match else { panic!("{selector:?}") };
        Answer::Resources(vec![found(name)])
    });
    conversation.remembered = conversation.converse(&[requires("s")]).requirements;
    conversation.requests.clear();
    conversation
}

fn fatal(mut answer: Value) -> Value {
    answer["results"] = json!([{"severity": "SEVERITY_FATAL", "message": "no"}]);
    answer
}

#[test]
fn answer_to_an_older_question_is_never_taken_for_that_to_a_new_one() {
    let mut conversation = after_asking_for_s();
    let outcome = conversation.converse(&[fatal(requires("t")), requires("t")]);
    let seen = conversation.requests.iter().map(|(_, request)| {
        let found = request.required_resources.get("settings")?;
        Some(meta::name(found.items[0].resource.as_ref().unwrap().json().unwrap()))
    });
    assert_eq!(seen.collect::<Vec<_>>(), [Some("s"), None, Some("t")]);
    assert_eq!(outcome.ran[0].calls, 3);
    assert!(outcome.result.is_ok());
    // The answer that was thrown away left nothing behind.
    assert_ne!(conversation.requests[0].1.meta, conversation.requests[1].1.meta);
    assert_eq!(outcome.requirements.len(), 1);
}

/// A call that fails.
fn fails(cause: Cause) -> Value {
    json!({"fails": cause.code()})
}

#[test]
fn function_that_fails_with_the_answer_to_an_older_question_is_asked_again_without_it() {
    let mut conversation = after_asking_for_s();
    let outcome = conversation.converse(&[fails(Cause::FunctionCallFailed), requires("t")]);
    let given = conversation.requests.iter().map(|(_, request)| request.required_resources.len());
    assert_eq!(given.collect::<Vec<_>>(), [1, 0, 1]);
    assert_eq!(outcome.ran[0].calls, 3);
    assert!(outcome.result.is_ok());
}

#[test]
fn function_that_fails_is_asked_again_once_and_only_if_an_older_answer_can_be_to_blame() {
    let calls = |mut conversation: Conversation, cause: Cause| {
        let outcome = conversation.converse(&[fails(cause)]);
        assert!(matches!(failure(outcome), Failure::Call { .. }));
        conversation.requests.len()
    };
    for cause in MISLED {
        assert_eq!(calls(after_asking_for_s(), cause), 2, "{cause:?}");
        assert_eq!(calls(Conversation::with(cluster_xr()), cause), 1, "{cause:?}");
    }
    // It has seen no answer, or would let us wait as long again.
    for cause in [Cause::FunctionUnreachable, Cause::FunctionTlsFailed, Cause::FunctionTimeout] {
        assert_eq!(calls(after_asking_for_s(), cause), 1, "{cause:?}");
    }
}

/// How a call can fail because of what the function was given.
const MISLED: [Cause; 6] = [
    Cause::FunctionCallFailed,
    Cause::FunctionExited,
    Cause::FunctionConnectionLost,
    Cause::FunctionRequestTooLarge,
    Cause::FunctionResponseTooLarge,
    Cause::FunctionResponseInvalid,
];

/// Everything that a function can say, with these requirements.
fn says_everything(requirements: &Value) -> Value {
    json!({
        "requirements": requirements["requirements"],
        "meta": {"ttl": "1s"},
        "desired": {"composite": {"resource": {"status": {"color": "old"}}}},
        "results": [{"severity": "SEVERITY_WARNING", "message": "old"}],
        "conditions": [{"type": "Old", "status": "STATUS_CONDITION_TRUE", "reason": "Old"}],
        "context": {"color": "old"},
        "output": {"color": "old"},
    })
}

/// Every way to answer a request that holds the answer to a question that the step does not ask any more.
fn misled_answers() -> Vec<Value> {
    let mut other_name = requires("s");
    let settings = other_name["requirements"]["resources"]["settings"].take();
    other_name["requirements"]["resources"] = json!({"other": settings});
    let mut answers = Vec::new();
    for asked in [requires("t"), json!({"requirements": {}}), other_name] {
        let said = says_everything(&asked);
        let mut too_much = said.clone();
        too_much["results"] = vec![json!({"message": "old"}); MAX_ENTRIES + 1].into();
        answers.extend([fatal(said.clone()), too_much, json!({"recalled": said.clone()}), said]);
    }
    answers.extend(MISLED.map(fails));
    answers
}

/// Whether two runs have the same outcome, however often they called functions.
fn is_same(one: &Outcome, other: &Outcome) -> bool {
    let failure = |outcome: &Outcome| outcome.result.as_ref().err().map(|failure| chain(failure));
    one.result.as_ref().ok() == other.result.as_ref().ok()
        && failure(one) == failure(other)
        && one.events == other.events
        && one.conditions == other.conditions
        && one.requirements == other.requirements
        && one.schemas == other.schemas
        && one.context == other.context
        && one.ttl == other.ttl
        && one.outputs == other.outputs
}

#[test]
fn nothing_that_a_function_makes_of_an_older_answer_is_ever_used() {
    let mut takes_t = requires("t");
    takes_t["desired"] = json!({"composite": {"resource": {"status": {"color": "t"}}}});
    let mut asks_nothing = takes_t.clone();
    asks_nothing["requirements"] = json!({});
    // What it says to today's question: it succeeds, fails, or does not ask any more.
    for today in [takes_t, fatal(requires("t")), asks_nothing] {
        let mut fresh = after_asking_for_s();
        fresh.remembered.clear();
        let expected = fresh.converse(std::slice::from_ref(&today));
        for misled in misled_answers() {
            let mut conversation = after_asking_for_s();
            let outcome = conversation.converse(&[misled.clone(), today.clone()]);
            assert!(is_same(&outcome, &expected), "{misled}, then {today}: {outcome:#?}");
            // The calls that count saw what they see in a run that remembers nothing.
            let counted: Vec<_> = conversation.requests.iter().skip(1).cloned().collect();
            assert_eq!(counted, fresh.requests, "{misled}, then {today}");
            let calls = counted.len() + usize::from(misled.get("recalled").is_none());
            assert_eq!(outcome.ran[0].calls as usize, calls, "{misled}, then {today}");
        }
    }
}

#[test]
fn step_that_asks_for_nothing_any_more_is_shown_nothing() {
    let mut conversation = after_asking_for_s();
    let outcome = conversation.converse(&[json!({})]);
    assert_eq!(conversation.requests.len(), 2);
    assert!(conversation.requests[1].1.required_resources.is_empty());
    assert!(outcome.requirements.is_empty());
}

#[test]
fn step_starts_over_once_and_then_has_all_its_calls() {
    let mut conversation = after_asking_for_s();
    let answers: Vec<_> = (0..20).map(|n| requires(&format!("t{n}"))).collect();
    assert!(matches!(failure(conversation.converse(&answers)), Failure::NeverSettles { .. }));
    assert_eq!(conversation.requests.len(), 1 + MAX_CALLS as usize);
}

#[test]
fn fatal_result_is_final_if_the_step_was_given_what_it_asks_for() {
    let mut conversation = after_asking_for_s();
    assert!(failure(conversation.converse(&[fatal(requires("s"))])).is_fatal_result());
    assert_eq!(conversation.requests.len(), 1);
}

#[test]
fn step_that_asks_for_more_than_before_does_not_start_over() {
    let mut conversation = after_asking_for_s();
    let mut more = requires("s");
    more["requirements"]["resources"]["more"] = more["requirements"]["resources"]["settings"].clone();
    conversation.converse(&[more]);
    assert_eq!(conversation.requests.len(), 2);
    assert_eq!(conversation.requests[1].1.required_resources.len(), 2);
}

#[test]
fn deprecated_extra_resources_are_followed_but_not_given_up_front() {
    let mut conversation = Conversation::with(cluster_xr());
    let asks = json!({"requirements": {"extraResources": {"all": {
        "apiVersion": "v1", "kind": "Pod", "matchLabels": {"labels": {}}
    }}}});
    conversation.remembered = conversation.converse(std::slice::from_ref(&asks)).requirements;
    assert_eq!(conversation.remembered.len(), 1);
    conversation.requests.clear();
    conversation.converse(&[asks]);
    assert_eq!(conversation.requests.len(), 2);
    assert!(conversation.requests[0].1.required_resources.is_empty());
}

#[test]
fn function_that_never_settles_is_given_up_on() {
    let mut conversation = Conversation::with(cluster_xr());
    let answers: Vec<_> = (0..20).map(|n| requires(&format!("s{n}"))).collect();
    let outcome = conversation.converse(&answers);
    assert_eq!(conversation.requests.len(), MAX_CALLS as usize);
    assert_eq!(
        failure(outcome).to_string(),
        "pipeline step `one` never settles: it changed its requirements after each of 6 calls"
    );
}

#[test]
fn fatal_result_is_final_whatever_is_required() {
    let mut conversation = Conversation::with(cluster_xr());
    assert!(failure(conversation.converse(&[fatal(requires("s"))])).is_fatal_result());
    assert_eq!(conversation.requests.len(), 1);
}

#[test]
fn composition_requirements_are_there_at_the_first_call_and_stay() {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.steps = json!([{
        "step": "one", "functionRef": {"name": "f"},
        "requirements": {
            "requiredResources": [{"requirementName": "boot", "apiVersion": "v1", "kind": "ConfigMap", "name": "b"}],
            "requiredSchemas": [{"requirementName": "own", "apiVersion": "v1", "kind": "ConfigMap"}]
        }
    }]);
    conversation.converse(&[requires("s")]);
    let names: Vec<Vec<_>> = conversation
        .requests
        .iter()
        .map(|(_, request)| request.required_resources.keys().collect())
        .collect();
    assert_eq!(names, [vec!["boot"], vec!["boot", "settings"]]);
    assert!(conversation.requests[1].1.required_schemas.contains_key("own"));
}

#[test]
fn unreadable_requirement_fails_the_run_and_is_named() {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.world = Box::new(|_| Answer::Failed("forbidden".into()));
    assert_eq!(
        failure(conversation.converse(&[requires("s")])).to_string(),
        "cannot fetch `settings`, which pipeline step `one` requires: forbidden"
    );
}

#[test]
fn credentials_reach_their_step_or_are_named() {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.steps = json!([{
        "step": "one", "functionRef": {"name": "f"},
        "credentials": [{"name": "cloud", "source": "Secret", "secretRef": {"namespace": "ns", "name": "key"}}]
    }]);
    assert_eq!(
        failure(conversation.converse(&[json!({})])).to_string(),
        "cannot get credential `cloud` of pipeline step `one` from Secret `ns/key`: there is no such Secret"
    );
    conversation.world =
        Box::new(|_| Answer::Secret(Some(BTreeMap::from([("token".to_owned(), "abc".into())]))));
    conversation.converse(&[json!({})]);
    assert_eq!(
        to_json(&conversation.requests[0].1).unwrap()["credentials"],
        json!({"cloud": {"credentialData": {"data": {"token": "YWJj"}}}})
    );
}

#[test]
fn deprecated_extra_resources_are_answered_where_they_were_asked() {
    let mut conversation = Conversation::with(cluster_xr());
    conversation.converse(&[json!({"requirements": {"extraResources": {
        "all": {"apiVersion": "v1", "kind": "Pod", "matchLabels": {"labels": {}}}
    }}})]);
    let (_, second) = &conversation.requests[1];
    assert!(second.extra_resources.contains_key("all"));
    assert!(second.required_resources.is_empty());
}

#[test]
fn namespaced_composite_may_not_compose_cluster_scoped_resources() {
    for metadata in [json!({}), json!({"namespace": "team"})] {
        let role = json!({"role": {"resource": {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata
        }}});
        let outcome = Conversation::with(namespaced_xr()).converse(&[desires(role.clone())]);
        assert!(matches!(failure(outcome), Failure::ClusterScoped { .. }));
        assert!(Conversation::with(cluster_xr()).converse(&[desires(role)]).result.is_ok());
    }
}

#[test]
fn cluster_scoped_composite_has_to_say_where_namespaced_resources_go() {
    let composing = |mut wanted: Value, namespace: &str| {
        if !namespace.is_empty() {
            wanted["resource"]["metadata"]["namespace"] = namespace.into();
        }
        let mut conversation = Conversation::with(cluster_xr());
        conversation.world = Box::new(|want| {
            let Want::Scope { kind, .. } = want else { panic!("{want:?}") };
            Answer::Scope { is_namespaced: kind != "ClusterRole" }
        });
        conversation.converse(&[desires(json!({"it": wanted}))])
    };
    let failure = failure(composing(config_map(), ""));
    assert_eq!(failure.point().cause, Cause::ComposedResourceNamespaceMissing);
    assert_eq!(
        failure.to_string(),
        "composed resource `it` of step `one` lives in a namespace (ConfigMap), but has no metadata.namespace, and the composite \
         resource is cluster scoped: set metadata.namespace, or make the composite resource namespaced"
    );
    assert!(composing(config_map(), "team").result.is_ok());
    let role = json!({"resource": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}});
    assert!(composing(role, "").result.is_ok());
}

#[test]
fn kind_of_which_nothing_is_known_is_left_to_the_api_server() {
    let mut conversation = Conversation::with(cluster_xr());
    assert!(conversation.converse(&[desires(json!({"it": config_map()}))]).result.is_ok());
}

#[test]
fn kind_of_the_same_name_in_another_group_is_another_kind() {
    let observed = json!({
        "apiVersion": "acme.example.org/v1", "kind": "ClusterRole",
        "metadata": {
            "name": "mine", "namespace": "team", "annotations": {"crossplane.io/composition-resource-name": "it"},
        },
    });
    let role = json!({"resource": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}});
    let mut conversation = Conversation::with(namespaced_xr()).observing("it", observed);
    let failure = failure(conversation.converse(&[desires(json!({"it": role}))]));
    assert_eq!(failure.point().cause, Cause::ComposedResourceClusterScoped);
}

#[test]
fn foreign_namespace_is_overridden_with_a_warning() {
    let with_namespace = |namespace: &str| {
        json!({"a": {"resource": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace}
        }}})
    };
    let outcome = Conversation::with(namespaced_xr()).converse(&[desires(with_namespace("elsewhere"))]);
    assert_eq!(outcome.events[0].reason, "NamespaceOverridden");
    assert_eq!(outcome.result.unwrap().apply[0].object["metadata"]["namespace"], "team");
    assert_eq!(Conversation::with(namespaced_xr()).converse(&[desires(with_namespace("team"))]).events, []);
}

#[test]
fn references_are_sorted_and_keep_namespaces_of_cluster_composites() {
    let resource = |name: &str, namespace: &str| {
        json!({"resource": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}
        }})
    };
    let outcome = Conversation::with(cluster_xr())
        .converse(&[desires(json!({"a": resource("z", "one"), "b": resource("y", "two")}))]);
    let references: Vec<_> = outcome
        .result
        .unwrap()
        .references
        .into_iter()
        .map(|reference| (reference.name, reference.namespace.unwrap()))
        .collect();
    assert_eq!(references, [("y".to_owned(), "two".to_owned()), ("z".to_owned(), "one".to_owned())]);
}

#[test]
fn bad_desired_resources_are_refused_by_name() {
    let named = |metadata: Value| json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}});
    let cases = [
        (json!({"a": {"resource": {"apiVersion": "v1"}}}), "composed resource `a` of step `one` has no kind"),
        (
            json!({"a": {"resource": {"kind": "ConfigMap"}}}),
            "composed resource `a` of step `one` has no apiVersion",
        ),
        (json!({"a": {}}), "composed resource `a` of step `one` is not an object"),
        (
            json!({"a": named(json!("text"))}),
            "metadata of composed resource `a` of step `one` is not an object",
        ),
        (
            json!({"a": named(json!({"name": "Not_Valid"}))}),
            "composed resource `a` of step `one` has the invalid name `Not_Valid`: use lower-case letters, digits, \
             `-` and `.`, starting and ending with a letter or digit",
        ),
        (
            json!({"a": named(json!({"name": "same"})), "b": named(json!({"name": "same"}))}),
            "composed resources `a` and `b` are the same object, ConfigMap `same`: give them different names",
        ),
        (
            json!({"a": named(json!({"ownerReferences": [{"kind": "X", "name": "x", "uid": "u", "controller": true}]}))}),
            "composed resource `a` of step `one` already names a controller, X `x`",
        ),
    ];
    for (resources, message) in cases {
        let outcome = Conversation::with(cluster_xr()).converse(&[desires(resources)]);
        assert_eq!(chain(&failure(outcome)), message);
    }
}

/// Server-side apply would merge them with ours, and the next request would show the secret in these.
#[test]
fn webhooks_of_the_control_plane_itself_are_not_composed() {
    let compose = |name: &str| {
        let hooks = json!({"resource": {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
        }});
        Conversation::with(cluster_xr()).converse(&[desires(json!({"hooks": hooks}))])
    };
    for name in ["crossplane-no-usages", "ferroplane-function-versions"] {
        let failure = failure(compose(name));
        assert_eq!(failure.point().cause, Cause::ObjectControlled);
        let message = format!(
            "composed resource `hooks` of step `one` is ValidatingWebhookConfiguration `{name}`, which belongs to the \
             control plane: give it another name"
        );
        assert_eq!(failure.to_string(), message);
    }
    assert!(compose("mine").result.is_ok());
}

#[test]
fn metadata_that_is_null_is_none() {
    let resource = json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": null}});
    let plan = Conversation::with(cluster_xr()).converse(&[desires(json!({"a": resource}))]).result.unwrap();
    assert_eq!(plan.apply[0].object["metadata"]["generateName"], "parent-");
}

#[test]
fn shortest_positive_ttl_wins() {
    let ttl = |ttl: &str| json!({"meta": {"ttl": ttl}});
    let mut conversation = Conversation::with(cluster_xr()).steps(&["one", "two", "three", "four"]);
    let outcome = conversation.converse(&[ttl("300s"), ttl("60s"), ttl("0s"), ttl("-1s")]);
    assert_eq!(outcome.ttl.unwrap().as_secs(), 60);
}

#[test]
fn same_answers_give_the_same_plan() {
    let run = || {
        let mut conversation = Conversation::with(namespaced_xr()).observing("old", composed("old"));
        let resources: serde_json::Map<_, _> = (0..50).map(|n| (format!("r{n}"), config_map())).collect();
        let outcome = conversation.converse(&[desires(Value::Object(resources))]);
        (outcome.result.unwrap(), conversation.requests[0].1.meta.clone())
    };
    assert_eq!(run(), run());
}

fn conditions(outcome: &Outcome, world: SettleFacts) -> Vec<(String, String, String, String)> {
    let settlement = settle(outcome, world);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = settlement.status["conditions"].as_array().expect("conditions are a list").iter();
    conditions
        .map(|condition| {
            let [kind, status, reason, message] =
                ["type", "status", "reason", "message"].map(|key| text(&condition[key]));
            (kind, status, reason, message)
        })
        .collect()
}

fn row(kind: &str, status: &str, reason: &str, message: &str) -> (String, String, String, String) {
    (kind.to_owned(), status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn composite_is_ready_when_all_it_composes_is() {
    let resource =
        |ready: &str| json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap"}, "ready": ready});
    let outcome = Conversation::with(cluster_xr()).converse(&[desires(
        json!({"a": resource("READY_TRUE"), "b": resource("READY_FALSE"), "c": config_map()}),
    )]);
    assert_eq!(
        conditions(&outcome, SettleFacts::default()),
        [
            row("Synced", "True", "ReconcileSuccess", ""),
            row("Ready", "False", "Creating", "Unready resources: b, c")
        ]
    );
    let outcome = Conversation::with(cluster_xr()).converse(&[json!({})]);
    assert_eq!(conditions(&outcome, SettleFacts::default())[1], row("Ready", "True", "Available", ""));
}

#[test]
fn readiness_of_the_composite_itself_wins() {
    let answer =
        |ready: &str| json!({"desired": {"composite": {"ready": ready}, "resources": {"a": config_map()}}});
    for (ready, status, reason) in [("READY_TRUE", "True", "Available"), ("READY_FALSE", "False", "Creating")]
    {
        let outcome = Conversation::with(cluster_xr()).converse(&[answer(ready)]);
        assert_eq!(conditions(&outcome, SettleFacts::default())[1], row("Ready", status, reason, ""));
    }
}

#[test]
fn refused_resources_are_named() {
    let outcome = Conversation::with(cluster_xr()).converse(&[desires(json!({"a": config_map()}))]);
    let world = SettleFacts { unsynced: BTreeSet::from(["a".to_owned()]), ..SettleFacts::default() };
    assert_eq!(
        conditions(&outcome, world)[0],
        row("Synced", "False", "ReconcileError", "Unsynced resources: a")
    );
}

#[test]
fn functions_may_not_set_the_planes_own_conditions() {
    let kinds = ["Ready", "Synced", "Healthy", "UpToDate", "Responsive", "Fine"];
    let set: Vec<_> = kinds
        .iter()
        .map(|kind| json!({"type": kind, "status": "STATUS_CONDITION_FALSE", "reason": "No"}))
        .collect();
    let outcome = Conversation::with(cluster_xr()).converse(&[json!({"conditions": set})]);
    let kinds: Vec<_> =
        conditions(&outcome, SettleFacts::default()).into_iter().map(|condition| condition.0).collect();
    assert_eq!(kinds, ["Fine", "Synced", "Ready"]);
}

#[test]
fn claim_gets_conditions_in_the_order_in_which_functions_set_them() {
    let set = |kind: &str, target: &str| json!({"type": kind, "status": "STATUS_CONDITION_TRUE", "reason": "Yes", "target": target});
    let both = "TARGET_COMPOSITE_AND_CLAIM";
    let set =
        [set("Z", both), set("Own", "TARGET_COMPOSITE"), set("A", both), set("Z", both), set("Ready", both)];
    let outcome = Conversation::with(cluster_xr()).converse(&[json!({"conditions": set})]);
    assert_eq!(settle(&outcome, SettleFacts::default()).claim_conditions, ["Z", "A"]);
}

#[test]
fn condition_without_time_keeps_having_none() {
    let found = json!([{"type": "Fine", "status": "True", "lastTransitionTime": null, "message": null}, "not one", {}]);
    let outcome = Conversation::with(cluster_xr()).converse(&[json!({})]);
    let world =
        SettleFacts { conditions: conditions_in(&found), now: "now".into(), ..SettleFacts::default() };
    assert_eq!(
        settle(&outcome, world).status["conditions"][0],
        json!({"type": "Fine", "status": "True", "lastTransitionTime": null, "reason": ""})
    );
}

#[test]
fn condition_that_a_failed_run_did_not_reach_becomes_unknown() {
    let set = json!({"conditions": [{"type": "Fine", "status": "STATUS_CONDITION_TRUE", "reason": "Yes"}]});
    let before = Conversation::with(cluster_xr()).converse(&[set]);
    let conditions_before = conditions_in(&settle(&before, SettleFacts::default()).status["conditions"]);
    let failed = Conversation::with(cluster_xr())
        .converse(&[json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]})]);
    let world = SettleFacts { conditions: conditions_before.clone(), ..SettleFacts::default() };
    let after = conditions(&failed, world);
    assert_eq!((after[0].1.as_str(), after[0].2.as_str()), ("Unknown", "FatalError"));
    assert_eq!(
        after[1],
        row(
            "Synced",
            "False",
            "ReconcileError",
            "cannot compose resources: pipeline step `one` returned a fatal result: no"
        )
    );
    assert_eq!(after[2].0, "Ready");

    let quiet = Conversation::with(cluster_xr()).converse(&[json!({})]);
    let world = SettleFacts { conditions: conditions_before, ..SettleFacts::default() };
    assert_eq!(conditions(&quiet, world)[0], row("Fine", "True", "Yes", ""));
}

#[test]
fn failing_again_for_the_same_reason_changes_nothing() {
    let failed = || {
        Conversation::with(cluster_xr())
            .converse(&[json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]})])
    };
    let custom = ferroplane_api::Condition::new("Fine", ferroplane_api::Status::True, "Yes");
    let first = settle(
        &failed(),
        SettleFacts { conditions: vec![custom], now: "then".into(), ..SettleFacts::default() },
    );
    let conditions = conditions_in(&first.status["conditions"]);
    let second = settle(&failed(), SettleFacts { conditions, now: "now".into(), ..SettleFacts::default() });
    assert_eq!(first.status, second.status);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn any_answer() -> impl Strategy<Value = Value> {
        let name = prop_oneof![Just(json!({})), "[a-zA-Z.-]{0,6}".prop_map(|name| json!({"name": name}))];
        let kind = prop_oneof![Just("ConfigMap"), Just("Secret"), Just("ClusterRole"), Just("")];
        let resource = (name, kind, 0..4_i32).prop_map(|(metadata, kind, ready)| {
            json!({"resource": {"apiVersion": "v1", "kind": kind, "metadata": metadata}, "ready": ready})
        });
        let resources = prop::collection::btree_map("[a-c]{1,2}", resource, 0..5);
        let results =
            prop::collection::vec((0..5_i32).prop_map(|severity| json!({"severity": severity})), 0..3);
        let asks = prop_oneof![3 => Just(json!({})), 1 => "[a-b]".prop_map(|name| requires(&name)["requirements"].clone())];
        (resources, results, asks).prop_map(|(resources, results, requirements)| {
            json!({"desired": {"resources": resources}, "results": results, "requirements": requirements})
        })
    }

    proptest! {
        /// Whatever a function makes of the answer to an older question, the run is one that remembers nothing.
        #[test]
        fn older_answers_leave_no_trace(
            misled in any_answer(),
            answers in prop::collection::vec(any_answer(), 1..4),
        ) {
            let mut fresh = Conversation::with(namespaced_xr());
            let expected = fresh.converse(&answers);
            let mut conversation = Conversation::with(namespaced_xr());
            // No answer asks for it.
            conversation.remembered = conversation.converse(&[requires("s")]).requirements;
            conversation.requests.clear();
            let outcome = conversation.converse(&[vec![misled], answers].concat());
            prop_assert!(is_same(&outcome, &expected), "{:#?}", outcome);
            prop_assert_eq!(&conversation.requests[1..], &fresh.requests[..]);
        }

        #[test]
        fn plans_keep_their_promises(
            answers in prop::collection::vec(any_answer(), 1..8),
            observed in prop::collection::btree_set("[a-c]{1,2}", 0..4),
            is_namespaced in any::<bool>(),
        ) {
            let run = || {
                let xr = if is_namespaced { namespaced_xr() } else { cluster_xr() };
                let mut conversation = Conversation::with(xr).steps(&["one", "two"]);
                for key in &observed {
                    conversation = conversation.observing(key, composed(key));
                }
                conversation.converse(&answers)
            };
            let (outcome, again) = (run(), run());
            prop_assert_eq!(outcome.result.as_ref().ok(), again.result.as_ref().ok());
            let Ok(plan) = &outcome.result else { return Ok(()) };
            // Everything that is applied is referred to, and nothing else.
            let applied: BTreeSet<_> = plan.apply.iter().map(|wanted| {
                (wanted.object["kind"].as_str().unwrap(), wanted.object["metadata"]["name"].as_str().unwrap())
            }).collect();
            let referred: BTreeSet<_> =
                plan.references.iter().map(|reference| (reference.kind.as_str(), reference.name.as_str())).collect();
            prop_assert_eq!(applied, referred);
            // Only what was observed is deleted, and never what is applied under the same name and kind.
            for deletion in &plan.delete {
                prop_assert!(observed.contains(&deletion.resource));
                let same = |wanted: &&ferroplane_engine::Wanted| {
                    wanted.resource == deletion.resource && wanted.object["kind"] == "ConfigMap"
                };
                prop_assert_eq!(plan.apply.iter().find(same), None);
            }
        }
    }
}

/// Kinds that differ in as little as a group or a version, with whether they live in namespaces.
const KINDS: &[(&str, &str, bool)] = &[
    ("v1", "ConfigMap", true),
    ("v1", "Namespace", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", false),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding", false),
    ("acme.example.org/v1", "ClusterRoleBinding", true),
    ("acme.example.org/v1", "Namespace", true),
    ("other.example.org/v1", "ConfigMap", false),
];

fn is_namespaced(api_version: &str, kind: &str) -> bool {
    KINDS.iter().any(|known| (known.0, known.1, known.2) == (api_version, kind, true))
}

fn any_kind() -> impl Strategy<Value = (&'static str, &'static str)> {
    proptest::sample::select(KINDS).prop_map(|(api_version, kind, _)| (api_version, kind))
}

fn any_namespace() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&["", "team", "elsewhere"][..])
}

proptest! {
    /// Whatever was composed before and whatever functions want now: nothing is written outside the namespace.
    #[test]
    fn namespaced_composite_never_writes_outside_its_namespace(
        observed in proptest::collection::btree_map("[abc]", (any_kind(), any_namespace()), 0..3),
        desired in proptest::collection::btree_map("[abc]", (any_kind(), any_namespace()), 0..4),
    ) {
        let mut conversation = Conversation::with(namespaced_xr());
        conversation.world = Box::new(|want| match want {
            Want::Scope { api_version, kind } => Answer::Scope { is_namespaced: is_namespaced(api_version, kind) },
            _ => Answer::Failed("nobody asks for this".to_owned()),
        });
        for (name, ((api_version, kind), namespace)) in observed {
            // An API server never has an object with a namespace of a kind that has none, nor the other way round.
            if is_namespaced(api_version, kind) == namespace.is_empty() {
                continue;
            }
            let mut object = composed(&name);
            object["apiVersion"] = api_version.into();
            object["kind"] = kind.into();
            if !namespace.is_empty() {
                object["metadata"]["namespace"] = namespace.into();
            }
            conversation = conversation.observing(&name, object);
        }
        let desired: serde_json::Map<_, _> = desired.into_iter().map(|(name, ((api_version, kind), namespace))| {
            let metadata = if namespace.is_empty() { json!({}) } else { json!({"namespace": namespace}) };
            (name, json!({"resource": {"apiVersion": api_version, "kind": kind, "metadata": metadata}}))
        }).collect();
        let Ok(plan) = conversation.converse(&[desires(Value::Object(desired))]).result else { return Ok(()) };
        for wanted in &plan.apply {
            let text = |field: &str| wanted.object[field].as_str().unwrap();
            prop_assert!(is_namespaced(text("apiVersion"), text("kind")), "{:?}", wanted.object);
            prop_assert_eq!(&wanted.object["metadata"]["namespace"], "team");
        }
    }
}
