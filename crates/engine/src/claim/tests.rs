//! What claims and composite resources tell each other.

use ferroplane_api::{Condition, Object, Status, TypeRef};
use serde_json::{Value, json};

use super::*;

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

fn claim(spec: &Value) -> Object {
    object(&json!({
        "apiVersion": "example.org/v1", "kind": "Page",
        "metadata": {
            "name": "p", "namespace": "n", "uid": "u", "generation": 2,
            "labels": {"team": "a", "kubernetes.io/x": "1", "a.k8s.io/x": "1"},
            "annotations": {"note": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": spec,
    }))
}

fn bound(claim: &Object, present: Option<&Value>, is_enforced: bool) -> (Value, Value) {
    let kind = TypeRef { api_version: "example.org/v1".to_owned(), kind: "Site".to_owned() };
    let present = present.map(object);
    let other = Counterpart { kind: &kind, name: "p-x", present: present.as_ref(), is_enforced };
    let Binding { claim, composite } = bind(claim, other);
    (claim.unwrap_or_default(), Value::Object(composite))
}

fn reference() -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Site", "name": "p-x"})
}

#[test]
fn wishes_go_to_the_composite_resource_and_machinery_does_not() {
    let claim = claim(&json!({
        "size": 1, "compositionSelector": {"matchLabels": {"a": "b"}}, "compositionRevisionRef": {"name": "r"},
        "compositeDeletePolicy": "Foreground", "writeConnectionSecretToRef": {"name": "s"},
        "resourceRefs": [{"kind": "Smuggled"}], "claimRef": {"name": "smuggled"},
    }));
    let (change, composite) = bound(&claim, None, false);
    assert_eq!(change, json!({"spec": {"resourceRef": reference()}}));
    assert_eq!(
        composite,
        json!({
            "apiVersion": "example.org/v1", "kind": "Site",
            "metadata": {
                "name": "p-x",
                "labels": {"team": "a", "crossplane.io/claim-name": "p", "crossplane.io/claim-namespace": "n"},
                "annotations": {"note": "b"},
            },
            "spec": {
                "size": 1, "compositionSelector": {"matchLabels": {"a": "b"}},
                "claimRef": {"apiVersion": "example.org/v1", "kind": "Page", "namespace": "n", "name": "p"},
            },
        })
    );
}

#[test]
fn what_was_chosen_goes_back_to_the_claim() {
    let chosen = json!({
        "metadata": {"annotations": {"crossplane.io/external-name": "theirs"}},
        "spec": {
            "compositionRef": {"name": "c"}, "compositionRevisionRef": {"name": "r2"},
            "compositionRevisionSelector": {"matchLabels": {"a": "b"}}, "compositionUpdatePolicy": "Automatic",
        },
    });
    let (change, composite) = bound(&claim(&json!({"resourceRef": reference()})), Some(&chosen), false);
    assert_eq!(
        change,
        json!({
            "metadata": {"annotations": {"crossplane.io/external-name": "theirs"}},
            "spec": {
                "compositionRef": {"name": "c"}, "compositionRevisionRef": {"name": "r2"},
                "compositionRevisionSelector": {"matchLabels": {"a": "b"}},
            },
        })
    );
    assert_eq!(composite["metadata"]["annotations"]["crossplane.io/external-name"], "theirs");

    // And then nothing is left to change.
    let mut told = claim(&json!({"resourceRef": reference()}));
    for (field, value) in change["spec"].as_object().unwrap() {
        told["spec"][field] = value.clone();
    }
    told["metadata"]["annotations"]["crossplane.io/external-name"] = json!("theirs");
    assert_eq!(bound(&told, Some(&chosen), false).0, Value::Null);
}

#[test]
fn revision_is_the_claims_to_choose_if_it_is_not_updated_automatically() {
    let wish = json!({"resourceRef": reference(), "compositionRevisionRef": {"name": "r1"}});
    let manual =
        json!({"spec": {"compositionUpdatePolicy": "Manual", "compositionRevisionRef": {"name": "r2"}}});
    let (change, composite) = bound(&claim(&wish), Some(&manual), false);
    assert_eq!((&change, &composite["spec"]["compositionRevisionRef"]["name"]), (&Value::Null, &json!("r1")));

    let mut first = wish.clone();
    first["compositionUpdatePolicy"] = json!("Manual");
    let (_, composite) = bound(&claim(&first), None, false);
    assert_eq!(composite["spec"]["compositionRevisionRef"]["name"], "r1");
}

#[test]
fn composition_that_is_enforced_is_not_the_claims_to_choose() {
    let wish = json!({"resourceRef": reference(), "compositionRef": {"name": "mine"}});
    let enforced = json!({"spec": {"compositionRef": {"name": "theirs"}}});
    let (change, composite) = bound(&claim(&wish), Some(&enforced), true);
    assert_eq!(change, json!({"spec": {"compositionRef": {"name": "theirs"}}}));
    assert_eq!(composite["spec"]["compositionRef"], Value::Null);
    let (change, composite) = bound(&claim(&wish), Some(&enforced), false);
    assert_eq!((&change, &composite["spec"]["compositionRef"]["name"]), (&Value::Null, &json!("mine")));
}

#[test]
fn composite_resource_of_another_claim_is_recognised() {
    let claim = claim(&json!({}));
    let of = |reference: Value| object(&json!({"spec": {"claimRef": reference}}));
    let mut reference =
        json!({"apiVersion": "example.org/v2", "kind": "Page", "namespace": "n", "name": "p"});
    assert_eq!(bound_elsewhere(&claim, &of(reference.clone())), None);
    assert_eq!(bound_elsewhere(&claim, &object(&json!({"spec": {}}))), None);
    reference["namespace"] = json!("m");
    assert_eq!(bound_elsewhere(&claim, &of(reference)), Some("m/p".to_owned()));
}

#[test]
fn names_are_made_of_the_claims_and_never_change() {
    let mut claim = claim(&json!({}));
    let name = claimed_name(&claim, 0);
    assert_eq!((name.len(), &name[..2]), (7, "p-"));
    assert_eq!(name, claimed_name(&claim, 0));
    assert_ne!(name, claimed_name(&claim, 1));
    claim["metadata"]["name"] = json!("x".repeat(63));
    assert_eq!(claimed_name(&claim, 0).len(), 63);
}

#[test]
fn status_is_that_of_the_composite_resource_with_conditions_of_the_claims_own() {
    let mut claim = claim(&json!({}));
    claim.insert(
        "status".to_owned(),
        json!({
            "old": 1, "connectionDetails": {"lastPublishedTime": "t"},
            "conditions": [{"type": "Synced", "status": "True", "reason": "R", "lastTransitionTime": "t1"}],
        }),
    );
    let composite = object(&json!({"status": {
        "new": 1, "claimConditionTypes": ["Special", "Ready"], "lastHandledReconcileAt": "x",
        "connectionDetails": {"lastPublishedTime": "theirs"},
        "conditions": [
            {"type": "Special", "status": "True", "reason": "S", "lastTransitionTime": "t2", "observedGeneration": 9},
            {"type": "Private", "status": "True", "reason": "P", "lastTransitionTime": "t2"},
            {"type": "Ready", "status": "True", "reason": "A", "lastTransitionTime": "t2"},
        ],
    }}));
    assert!(is_ready(&composite) && !is_ready(&claim));
    let mut status = claim_status(&claim, Some(&composite));
    let ours = vec![Condition::new("Ready", Status::False, "Waiting")];
    set_claim_conditions(&mut status, Some(&composite), ours, 2, "now");
    assert_eq!(
        Value::Object(status),
        json!({
            "new": 1, "connectionDetails": {"lastPublishedTime": "t"},
            "conditions": [
                {"type": "Synced", "status": "True", "reason": "R", "lastTransitionTime": "t1"},
                {"type": "Special", "status": "True", "reason": "S", "lastTransitionTime": "t2", "observedGeneration": 2},
                {"type": "Ready", "status": "False", "reason": "Waiting", "lastTransitionTime": "now",
                 "observedGeneration": 2},
            ],
        })
    );
    assert_eq!(claim_status(&claim, None)["old"], 1);
    assert_eq!(claim_status(&claim, Some(&object(&json!({}))))["old"], 1);
}
