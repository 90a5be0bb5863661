//! What steps may read: a composite resource in a namespace never gets to see what is outside of it, unless a grant says so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api::{AccessGrantSpec, Object};
use ferroplane_engine::composite::{Machinery, observe};
use ferroplane_engine::{
    Answer, Cause, CompositeSubject, Grants, Inputs, Layout, Observed, Outcome, Pipeline, Requirement, Turn,
    Want, start,
};
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{ResourceSelector, RunFunctionRequest};
use ferroplane_wire::{Struct, from_json};
use proptest::prelude::*;
use serde_json::{Value, json};

const HOME: &str = "team";
const FUNCTION: &str = "f";

/// Kinds, with whether they live in namespaces.
const KINDS: &[(&str, &str, bool)] = &[
    ("v1", "Secret", true),
    ("v1", "ConfigMap", true),
    ("v1", "Namespace", false),
    ("acme.example.org/v1", "Secret", true),
    ("acme.example.org/v1", "Palette", false),
];

fn is_namespaced(api_version: &str, kind: &str) -> bool {
    KINDS.contains(&(api_version, kind, true))
}

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Everything that there is, who may read what of it, and what a function of a composite resource asks for.
#[derive(Debug, Clone)]
struct Cluster {
    objects: Vec<Value>,
    grants: Vec<Value>,
    step: Value,
    remembered: Vec<Value>,
    /// Answers in turn; the last one is given again and again.
    answers: Vec<Value>,
    references: Value,
}

impl Cluster {
    fn find(&self, selector: &ResourceSelector) -> Vec<Value> {
        let namespace = selector.namespace.as_deref().unwrap_or_default();
        let matches = |object: &&Value| {
            let metadata = &object["metadata"];
            let is_kind = (text(object, "apiVersion"), text(object, "kind"))
                == (selector.api_version.as_str(), selector.kind.as_str());
            let is_there = namespace.is_empty() || text(metadata, "namespace") == namespace;
            is_kind
                && match &selector.r#match {
                    Some(Match::MatchName(name)) => {
                        text(metadata, "namespace") == namespace && text(metadata, "name") == name
                    }
                    Some(Match::MatchLabels(labels)) => {
                        is_there
                            && labels.labels.iter().all(|(key, value)| metadata["labels"][key] == **value)
                    }
                    None => is_there,
                }
        };
        self.objects.iter().filter(matches).cloned().collect()
    }

    fn answer(&self, want: &Want) -> Answer {
        let resources = |selector| {
            let objects = self.find(selector).into_iter();
            Answer::Resources(objects.map(|it| Struct::try_from(object(&it)).unwrap()).collect())
        };
        match want {
            Want::ClusterResources(selector) if is_namespaced(&selector.api_version, &selector.kind) => {
                Answer::Scope { is_namespaced: true }
            }
            Want::Resources(selector) | Want::ClusterResources(selector) => resources(selector),
            Want::Schema(_) => Answer::Schema(None),
            Want::Secret { namespace, name } => {
                let selector =
                    json!({"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "matchName": name});
                let found = self.find(&from_json(&selector).unwrap());
                // What a credential holds says where it comes from.
                let data = |secret: &Value| {
                    let origin = Bytes::from(secret.to_string());
                    BTreeMap::from([("origin".to_owned(), origin)])
                };
                Answer::Secret(found.first().map(data))
            }
            Want::Scope { api_version, kind } => {
                Answer::Scope { is_namespaced: is_namespaced(api_version, kind) }
            }
        }
    }

    fn grants(&self) -> Grants {
        let mut grants = Grants::default();
        for (number, spec) in self.grants.iter().enumerate() {
            let name = format!("grant-{number}");
            grants.add(&object(&json!({"metadata": {"name": name}, "spec": spec}))).unwrap();
        }
        grants
    }

    fn inputs(&self, xr: &Object) -> Inputs {
        // What a composite resource refers to is looked up as the plane does, and judged as the plane does.
        let references = Machinery::of(xr, Layout::Modern).references();
        let found = references.iter().flat_map(|reference| {
            let is_it = |object: &&Value| {
                let (namespace, of_kind) = (
                    if is_namespaced(&reference.api_version, &reference.kind) {
                        reference.namespace.as_deref().unwrap_or_default()
                    } else {
                        // An API server does not check the namespace in the path of a cluster scoped kind.
                        ""
                    },
                    (text(object, "apiVersion"), text(object, "kind")),
                );
                of_kind == (reference.api_version.as_str(), reference.kind.as_str())
                    && text(&object["metadata"], "namespace") == namespace
                    && text(&object["metadata"], "name") == reference.name
            };
            self.objects.iter().filter(is_it).map(object)
        });
        let observed = observe(xr, found).unwrap_or_default().into_iter().map(|(name, object)| {
            let object = Struct::try_from(object).unwrap();
            (name, Observed { object, connection_details: BTreeMap::new() })
        });
        let remembered = self.remembered.iter().map(|selector| Requirement {
            step: "one".to_owned(),
            name: selector.to_string(),
            selector: from_json(selector).unwrap(),
        });
        Inputs {
            subject: CompositeSubject {
                observed: observed.collect(),
                ..CompositeSubject::new(Struct::try_from(xr.clone()).unwrap(), Layout::Modern)
            }
            .into(),
            pipeline: Arc::new(Pipeline::new(&[serde_json::from_value(self.step.clone()).unwrap()]).unwrap()),
            remembered: remembered.collect(),
            context: None,
            grants: Arc::new(self.grants().about(xr)),
        }
    }

    /// Returns what it comes to, and everything that the function was told.
    fn compose(&self, namespace: Option<&str>) -> (Outcome, Vec<RunFunctionRequest>) {
        let mut xr = json!({
            "apiVersion": "example.org/v1", "kind": "Site",
            "metadata": {"name": "blog", "uid": "1", "labels": {"crossplane.io/composite": "blog"}},
            "spec": {"crossplane": {"resourceRefs": self.references}},
        });
        if let Some(namespace) = namespace {
            xr["metadata"]["namespace"] = namespace.into();
        }
        let mut requests = Vec::new();
        let mut turn = start(self.inputs(&object(&xr)));
        loop {
            turn = match turn {
                Turn::Call(call) => {
                    let answer = &self.answers[requests.len().min(self.answers.len() - 1)];
                    requests.push(call.request().clone());
                    call.answer(from_json(answer).unwrap())
                }
                Turn::Fetch(fetch) => {
                    let answers = fetch.wants().iter().map(|want| self.answer(want)).collect();
                    fetch.provide(answers)
                }
                Turn::Done(outcome) => return (*outcome, requests),
            }
        }
    }

    /// Whether a grant lets the function see an object. Written down once more, as an administrator would say it.
    fn is_granted(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let (group, kind) = (group(text(object, "apiVersion")), text(object, "kind"));
        let has = |list: &Value, name: &str| list.as_array().unwrap().iter().any(|it| it == name);
        let may = |list: &Value, name: &str| has(list, name) || has(list, "*");
        self.grants.iter().any(|grant| {
            let to = &grant["to"];
            let is_me = may(&to["namespaces"], HOME)
                && (to["functions"].is_null() || has(&to["functions"], FUNCTION))
                && (to["kinds"].is_null() || to["kinds"][0]["kind"] == "Site");
            is_me
                && grant["read"].as_array().unwrap().iter().any(|read| {
                    let is_kind = if (group, kind) == ("", "Secret") {
                        has(&read["kinds"], kind)
                    } else {
                        may(&read["kinds"], kind)
                    };
                    is_kind
                        && may(&read["apiGroups"], group)
                        && may(&read["namespaces"], text(metadata, "namespace"))
                        && (read["names"].is_null() || has(&read["names"], text(metadata, "name")))
                })
        })
    }

    fn is_within_reach(&self, object: &Value) -> bool {
        let namespace = text(&object["metadata"], "namespace");
        namespace == HOME || namespace.is_empty() || self.is_granted(object)
    }
}

/// Everything that a function is shown of the cluster.
fn shown(request: &RunFunctionRequest) -> Vec<Value> {
    let required = request.required_resources.values().chain(request.extra_resources.values());
    let required = required.flat_map(|resources| &resources.items);
    let observed = request.observed.iter().flat_map(|observed| observed.resources().values());
    let objects =
        required.chain(observed).filter_map(|resource| resource.resource.as_ref()).chain(&request.input);
    let objects = objects.map(|object| Value::Object(object.json().unwrap().clone()));
    let credentials = request.credentials.values().map(|credentials| {
        let Some(ferroplane_wire::v1::credentials::Source::CredentialData(data)) = &credentials.source else {
            panic!("a credential without data")
        };
        serde_json::from_slice(&data.data["origin"]).unwrap()
    });
    objects.chain(credentials).collect()
}

fn any_kind() -> impl Strategy<Value = (&'static str, &'static str, bool)> {
    proptest::sample::select(KINDS)
}

fn any_namespace() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&[HOME, "elsewhere", "third"][..])
}

fn any_name() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&["a", "b"][..])
}

fn any_object() -> impl Strategy<Value = Value> {
    (any_kind(), any_namespace(), any_name(), any::<bool>(), any::<bool>()).prop_map(
        |((api_version, kind, is_namespaced), namespace, name, is_labelled, is_composed)| {
            let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
            if is_namespaced {
                object["metadata"]["namespace"] = namespace.into();
            }
            if is_labelled {
                object["metadata"]["labels"] = json!({"paint": "yes"});
            }
            if is_composed {
                object["metadata"]["annotations"] = json!({"crossplane.io/composition-resource-name": name});
            }
            object
        },
    )
}

fn any_selector() -> impl Strategy<Value = Value> {
    let place = proptest::option::of(proptest::sample::select(&["", HOME, "elsewhere", "third"][..]));
    (any_kind(), place, proptest::option::of(any_name()), any::<bool>()).prop_map(
        |((api_version, kind, _), namespace, name, is_labelled)| {
            let mut selector = json!({"apiVersion": api_version, "kind": kind});
            if let Some(namespace) = namespace {
                selector["namespace"] = namespace.into();
            }
            match name {
                Some(name) => selector["matchName"] = name.into(),
                None if is_labelled => selector["matchLabels"] = json!({"labels": {"paint": "yes"}}),
                None => selector["matchLabels"] = json!({}),
            }
            selector
        },
    )
}

fn any_grant() -> impl Strategy<Value = Value> {
    let lists = |names: &'static [&'static str]| proptest::sample::subsequence(names, 1..=names.len());
    (
        lists(&["team", "elsewhere", "*"]),
        proptest::option::of(lists(&["f", "g"])),
        proptest::option::of(proptest::sample::select(&["Site", "Shop"][..])),
        lists(&["", "acme.example.org", "*"]),
        lists(&["Secret", "ConfigMap", "*"]),
        lists(&["elsewhere", "third", "*"]),
        proptest::option::of(lists(&["a", "b"])),
    )
        .prop_map(|(namespaces, functions, kind, groups, kinds, from, names)| {
            let mut read = json!({"apiGroups": groups, "kinds": kinds, "namespaces": from});
            if let Some(names) = names {
                read["names"] = json!(names);
            }
            let mut to = json!({"namespaces": namespaces});
            if let Some(functions) = functions {
                to["functions"] = json!(functions);
            }
            if let Some(kind) = kind {
                to["kinds"] = json!([{"apiGroup": "example.org", "kind": kind}]);
            }
            json!({"to": to, "read": [read]})
        })
}

fn any_step() -> impl Strategy<Value = Value> {
    let credential = proptest::option::of((any_namespace(), any_name()));
    let input = proptest::option::of((any_kind(), proptest::option::of(any_namespace()), any_name()));
    (credential, input, proptest::option::of(any_selector())).prop_map(|(credential, input, bootstrap)| {
        let mut step = json!({"step": "one", "functionRef": {"name": FUNCTION}});
        if let Some((namespace, name)) = credential {
            let secret = json!({"namespace": namespace, "name": name});
            step["credentials"] = json!([{"name": "cloud", "source": "Secret", "secretRef": secret}]);
        }
        if let Some(((api_version, kind, _), namespace, name)) = input {
            step["inputRef"] = json!({"apiVersion": api_version, "kind": kind, "name": name});
            if let Some(namespace) = namespace {
                step["inputRef"]["namespace"] = namespace.into();
            }
        }
        if let Some(mut selector) = bootstrap {
            selector["requirementName"] = "bootstrap".into();
            if let Some(name) = selector.as_object_mut().unwrap().remove("matchName") {
                selector["name"] = name;
            }
            if let Some(labels) = selector.as_object_mut().unwrap().remove("matchLabels") {
                selector["matchLabels"] = labels.get("labels").cloned().unwrap_or_else(|| json!({}));
            }
            step["requirements"] = json!({"requiredResources": [selector]});
        }
        step
    })
}

fn any_answer() -> impl Strategy<Value = Value> {
    let selectors = || proptest::collection::vec(any_selector(), 0..2);
    (selectors(), selectors()).prop_map(|(resources, extra)| {
        let named = |selectors: Vec<Value>| -> Value {
            selectors
                .into_iter()
                .enumerate()
                .map(|(number, it)| (number.to_string(), it))
                .collect::<Object>()
                .into()
        };
        json!({"meta": {}, "requirements": {"resources": named(resources), "extraResources": named(extra)}})
    })
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    let objects = proptest::collection::vec(any_object(), 0..12);
    let references = proptest::collection::vec(any_object(), 0..3);
    (
        objects,
        proptest::collection::vec(any_grant(), 0..2),
        any_step(),
        proptest::collection::vec(any_selector(), 0..2),
        proptest::collection::vec(any_answer(), 1..4),
        references,
    )
        .prop_map(|(objects, grants, step, remembered, answers, references)| {
            let reference = |object: &Value| {
                json!({
                    "apiVersion": object["apiVersion"], "kind": object["kind"],
                    "name": object["metadata"]["name"], "namespace": "elsewhere",
                })
            };
            let references = references.iter().map(reference).collect();
            Cluster { objects, grants, step, remembered, answers, references }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    /// Whatever there is, whatever the composition and functions ask for, and whatever its user writes into its references.
    #[test]
    fn namespaced_composite_never_reads_or_deletes_outside_its_namespace_without_a_grant(cluster in any_cluster()) {
        let (outcome, requests) = cluster.compose(Some(HOME));
        for object in requests.iter().flat_map(shown) {
            prop_assert!(cluster.is_within_reach(&object), "was shown {object}");
        }
        for deletion in outcome.result.iter().flat_map(|plan| &plan.delete) {
            let object = Value::Object(deletion.object.json().unwrap().clone());
            prop_assert_eq!(text(&object["metadata"], "namespace"), HOME);
        }
    }

    /// Nothing is denied to one that is in no namespace, with or without grants.
    #[test]
    fn composite_without_namespace_reads_what_it_likes(cluster in any_cluster()) {
        let (outcome, _) = cluster.compose(None);
        let cause = outcome.result.err().map(|failure| failure.cause());
        prop_assert_ne!(cause, Some(Cause::AccessNotGranted));
    }

    /// The grant that a denial names is one that helps.
    #[test]
    fn grant_that_a_denial_names_helps(cluster in any_cluster()) {
        let (outcome, _) = cluster.compose(Some(HOME));
        let Err(failure) = outcome.result else { return Ok(()) };
        let Some((_, grant)) = ferroplane_engine::wording::split_grant(&failure.to_string()) else { return Ok(()) };
        let mut granted = cluster;
        granted.grants.push(json!(grant));
        let (outcome, _) = granted.compose(Some(HOME));
        let again = outcome.result.err().map(|failure| failure.to_string());
        prop_assert_ne!(again, Some(failure.to_string()));
    }
}

/// A function that requires this, once.
fn requiring(selector: &Value) -> Cluster {
    let object = |api_version: &str, kind: &str, namespace: &str, name: &str| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    };
    Cluster {
        objects: vec![
            object("v1", "Secret", HOME, "own"),
            object("v1", "Secret", "elsewhere", "victim"),
            object("v1", "ConfigMap", "elsewhere", "paint"),
            object("acme.example.org/v1", "Palette", "", "warm"),
        ],
        grants: Vec::new(),
        step: json!({"step": "one", "functionRef": {"name": FUNCTION}}),
        remembered: Vec::new(),
        answers: vec![json!({"meta": {}, "requirements": {"resources": {"it": selector}}})],
        references: json!([]),
    }
}

/// What a function gets to see, or why it does not.
fn seen(cluster: &Cluster) -> String {
    let (outcome, requests) = cluster.compose(Some(HOME));
    match outcome.result {
        Ok(_) => {
            let names = shown(requests.last().unwrap());
            names.iter().map(|object| text(&object["metadata"], "name")).collect::<Vec<_>>().join(",")
        }
        Err(failure) => {
            assert_eq!(failure.cause(), Cause::AccessNotGranted);
            failure.to_string().split("; one with").next().unwrap().to_owned()
        }
    }
}

#[test]
fn what_is_outside_is_denied_and_named() {
    let denied = |what: &str| {
        format!(
            "cannot let pipeline step `one` read {what}: the composite resource is in namespace `team`, and no AccessGrant allows that"
        )
    };
    let cases = [
        (
            json!({"apiVersion": "v1", "kind": "Secret", "namespace": HOME, "matchName": "own"}),
            "own".to_owned(),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "namespace": HOME, "matchLabels": {}}),
            "own".to_owned(),
        ),
        (
            json!({"apiVersion": "acme.example.org/v1", "kind": "Palette", "matchName": "warm"}),
            "warm".to_owned(),
        ),
        (
            json!({"apiVersion": "acme.example.org/v1", "kind": "Palette", "matchLabels": {}}),
            "warm".to_owned(),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "namespace": "elsewhere", "matchName": "victim"}),
            denied("Secret `elsewhere/victim`"),
        ),
        // Whether there is one is nobody's business either.
        (
            json!({"apiVersion": "v1", "kind": "Secret", "namespace": "elsewhere", "matchName": "missing"}),
            denied("Secret `elsewhere/missing`"),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "matchLabels": {}}),
            denied("objects of kind Secret in all namespaces"),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "matchName": "own"}),
            denied("Secret `own` without a namespace"),
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "elsewhere", "matchLabels": {}}),
            denied("objects of kind ConfigMap in namespace `elsewhere`"),
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {}}),
            denied("objects of kind ConfigMap in all namespaces"),
        ),
    ];
    for (selector, expected) in cases {
        assert_eq!(seen(&requiring(&selector)), expected);
        let mut deprecated = requiring(&selector);
        deprecated.answers = vec![json!({"meta": {}, "requirements": {"extraResources": {"it": selector}}})];
        assert_eq!(seen(&deprecated), expected);
    }
}

#[test]
fn denial_is_decided_before_anything_is_read() {
    let mut cluster = requiring(&json!({"apiVersion": "v1", "kind": "Namespace", "matchLabels": {}}));
    cluster.step["credentials"] = json!([{"name": "cloud", "source": "Secret", "secretRef": {"namespace": "elsewhere", "name": "victim"}}]);
    let (outcome, requests) = cluster.compose(Some(HOME));
    assert_eq!(outcome.result.unwrap_err().point().resource, "cloud");
    assert_eq!(requests.len(), 0);
}

#[test]
fn grant_counts_for_whom_and_what_it_names() {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "namespace": "elsewhere", "matchName": "victim"});
    let to = |to: Value| json!({"to": to, "read": [{"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["elsewhere"]}]});
    let read = |read: Value| json!({"to": {"namespaces": [HOME]}, "read": [read]});
    let cases = [
        (to(json!({"namespaces": [HOME]})), true),
        (to(json!({"namespaces": ["*"]})), true),
        (to(json!({"namespaces": ["elsewhere"]})), false),
        (to(json!({"namespaces": [HOME], "functions": ["f"]})), true),
        (to(json!({"namespaces": [HOME], "functions": ["g"]})), false),
        (to(json!({"namespaces": [HOME], "kinds": [{"apiGroup": "example.org", "kind": "Site"}]})), true),
        (to(json!({"namespaces": [HOME], "kinds": [{"apiGroup": "other.org", "kind": "Site"}]})), false),
        (
            read(
                json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["elsewhere"], "names": ["victim"]}),
            ),
            true,
        ),
        (
            read(
                json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["elsewhere"], "names": ["other"]}),
            ),
            false,
        ),
        (read(json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["*"]})), true),
        (read(json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["third"]})), false),
        (read(json!({"apiGroups": ["acme.example.org"], "kinds": ["Secret"], "namespaces": ["*"]})), false),
        // Whoever means Secrets says so.
        (read(json!({"apiGroups": ["*"], "kinds": ["*"], "namespaces": ["*"]})), false),
    ];
    for (grant, is_granted) in cases {
        let cluster = Cluster { grants: vec![grant.clone()], ..requiring(&secret) };
        assert_eq!(seen(&cluster) == "victim", is_granted, "{grant}");
    }
    // What is selected by labels may have any name, so a grant that lists names does not cover it.
    let all = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "elsewhere", "matchLabels": {}});
    for (names, is_granted) in [(json!(["paint"]), false), (Value::Null, true)] {
        let mut rule =
            json!({"apiGroups": [""], "kinds": ["*"], "namespaces": ["elsewhere"], "names": names});
        rule.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let cluster = Cluster { grants: vec![read(rule)], ..requiring(&all) };
        assert_eq!(seen(&cluster) == "paint", is_granted);
    }
}

/// Those of the plane hold the secret by which it knows its API server.
#[test]
fn configurations_of_webhooks_are_read_only_with_a_grant_that_names_their_kind() {
    const GROUP: &str = "admissionregistration.k8s.io/v1";
    let selectors = [
        json!({"apiVersion": GROUP, "kind": "ValidatingWebhookConfiguration", "matchName": "crossplane-no-usages"}),
        json!({"apiVersion": GROUP, "kind": "ValidatingWebhookConfiguration", "matchLabels": {}}),
        json!({"apiVersion": GROUP, "kind": "MutatingWebhookConfiguration", "matchName": "crossplane-no-usages"}),
        // An API server ignores the namespace.
        json!({
            "apiVersion": GROUP, "kind": "ValidatingWebhookConfiguration", "namespace": HOME, "matchName": "crossplane-no-usages",
        }),
    ];
    let grant = |kind: &Value| json!({"to": {"namespaces": ["*"]}, "read": [{"apiGroups": ["*"], "kinds": [kind], "namespaces": ["*"]}]});
    for (selector, namespace) in selectors.iter().flat_map(|it| [(it, Some(HOME)), (it, None)]) {
        let hooks = json!({"apiVersion": GROUP, "kind": selector["kind"], "metadata": {"name": "crossplane-no-usages"}});
        let mut cluster = Cluster { objects: vec![hooks], ..requiring(selector) };
        for grants in [vec![], vec![grant(&json!("*"))]] {
            cluster.grants = grants;
            let (outcome, requests) = cluster.compose(namespace);
            let failure = outcome.result.unwrap_err();
            assert_eq!(failure.cause(), Cause::AccessNotGranted, "{selector} {namespace:?}");
            assert!(requests.iter().all(|request| shown(request).is_empty()), "{selector} {namespace:?}");
            let (_, named) = ferroplane_engine::wording::split_grant(&failure.to_string()).unwrap();
            let granted = Cluster { grants: vec![json!(named)], ..cluster.clone() };
            assert!(granted.compose(namespace).0.result.is_ok(), "{selector} {namespace:?}");
        }
        cluster.grants = vec![grant(&selector["kind"])];
        assert!(cluster.compose(namespace).0.result.is_ok(), "{selector} {namespace:?}");
    }
}

#[test]
fn what_is_not_granted_any_more_is_not_handed_out_from_memory() {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "namespace": "elsewhere", "matchName": "victim"});
    let cluster = Cluster { remembered: vec![secret.clone()], ..requiring(&secret) };
    let (outcome, requests) = cluster.compose(Some(HOME));
    assert_eq!(outcome.result.unwrap_err().cause(), Cause::AccessNotGranted);
    assert!(requests.iter().flat_map(shown).next().is_none());
}

#[test]
fn field_that_nothing_enforces_is_refused() {
    let spec = json!({"to": {"namespaces": ["a"]}, "read": [], "network": {"hosts": ["*"]}});
    let error = serde_json::from_value::<AccessGrantSpec>(spec).unwrap_err();
    assert!(error.to_string().contains("unknown field `network`"), "{error}");
}
