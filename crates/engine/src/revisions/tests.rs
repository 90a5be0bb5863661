//! Which revisions a composition has.

use serde_json::json;

use super::*;

fn composition(replicas: i64) -> Object {
    object(json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition",
        "metadata": {"name": "site", "uid": "u1", "labels": {"channel": "stable"}, "annotations": {"note": "a"}},
        "spec": {
            "compositeTypeRef": {"apiVersion": "acme.io/v1", "kind": "Site"},
            "pipeline": [{"step": "a", "functionRef": {"name": "f"}, "input": {"replicas": replicas}}],
        },
    }))
}

fn object(value: Value) -> Object {
    serde_json::from_value(value).unwrap()
}

/// Do what the plan says to the revisions that there are.
fn carry_out(revisions: &mut Vec<Object>, composition: &Object) -> usize {
    let plan = plan_revisions(composition, revisions).unwrap();
    let writes = plan.update.len() + usize::from(plan.create.is_some());
    for updated in plan.update {
        let name = meta::name(&updated).to_owned();
        *revisions.iter_mut().find(|revision| meta::name(revision) == name).unwrap() = updated;
    }
    revisions.extend(plan.create);
    writes
}

fn numbers(revisions: &[Object]) -> Vec<i64> {
    revisions.iter().map(number).collect()
}

#[test]
fn first_revision_says_where_it_comes_from() {
    let mut revisions = Vec::new();
    carry_out(&mut revisions, &composition(1));
    let [revision] = &revisions[..] else { panic!("{revisions:?}") };
    let hash = composition_hash(&composition(1));
    assert_eq!(meta::name(revision), format!("site-{}", &hash[..7]));
    assert_eq!(meta::label(revision, keys::COMPOSITION_NAME), "site");
    assert_eq!(meta::label(revision, keys::COMPOSITION_HASH), &hash[..63]);
    assert_eq!(meta::label(revision, "channel"), "stable");
    assert_eq!(meta::annotation(revision, "note"), "a");
    assert_eq!(meta::controller_uid(revision), Some("u1"));
    assert_eq!(revision["spec"]["revision"], 1);
    assert_eq!(revision["spec"]["mode"], "Pipeline");
}

#[test]
fn nothing_is_done_when_nothing_changed() {
    let mut revisions = Vec::new();
    assert_eq!(carry_out(&mut revisions, &composition(1)), 1);
    assert_eq!(carry_out(&mut revisions, &composition(1)), 0);
}

#[test]
fn content_that_comes_back_brings_its_revision_back() {
    let mut revisions = Vec::new();
    for replicas in [1, 2, 1] {
        carry_out(&mut revisions, &composition(replicas));
    }
    assert_eq!(numbers(&revisions), [3, 2]);
    assert_eq!(carry_out(&mut revisions, &composition(1)), 0);
}

#[test]
fn two_revisions_with_one_number_do_not_stay_so() {
    for current in [1, 2] {
        let mut revisions = Vec::new();
        // The second was made by somebody who had not heard of the first.
        for replicas in [1, 2] {
            revisions.extend(plan_revisions(&composition(replicas), &[]).unwrap().create);
        }
        assert_eq!(carry_out(&mut revisions, &composition(current)), 1);
        let latest = revisions.iter().max_by_key(|revision| number(revision)).unwrap();
        assert_eq!(latest["spec"]["pipeline"][0]["input"]["replicas"], current);
        assert_eq!(carry_out(&mut revisions, &composition(current)), 0);
    }
}

#[test]
fn labels_and_annotations_alone_make_a_revision() {
    let mut revisions = Vec::new();
    carry_out(&mut revisions, &composition(1));
    let mut labelled = composition(1);
    meta::set_label(&mut labelled, "channel", "next");
    carry_out(&mut revisions, &labelled);
    let mut annotated = labelled;
    meta::set_annotation(&mut annotated, "note", "b");
    carry_out(&mut revisions, &annotated);
    assert_eq!(numbers(&revisions), [1, 2, 3]);
    assert_eq!(meta::label(&revisions[1], "channel"), "next");
    assert_eq!(meta::annotation(&revisions[2], "note"), "b");
}

#[test]
fn labels_of_the_user_never_untie_a_revision() {
    let mut hostile = composition(1);
    meta::set_label(&mut hostile, keys::COMPOSITION_NAME, "other");
    meta::set_label(&mut hostile, keys::COMPOSITION_HASH, "other");
    let mut revisions = Vec::new();
    carry_out(&mut revisions, &hostile);
    assert_eq!(meta::label(&revisions[0], keys::COMPOSITION_NAME), "site");
    assert_eq!(carry_out(&mut revisions, &hostile), 0);
}

#[test]
fn revisions_without_owner_are_taken_back_with_their_numbers() {
    let mut revisions = Vec::new();
    for replicas in [1, 2, 3] {
        carry_out(&mut revisions, &composition(replicas));
    }
    for revision in &mut revisions {
        meta::child(revision, "metadata").remove("ownerReferences");
    }
    assert_eq!(carry_out(&mut revisions, &composition(3)), 3);
    assert!(revisions.iter().all(|revision| meta::controller_uid(revision) == Some("u1")));
    assert_eq!(numbers(&revisions), [1, 2, 3]);
}

#[test]
fn revision_that_belongs_to_something_else_is_left_alone() {
    let mut revisions = Vec::new();
    carry_out(&mut revisions, &composition(1));
    let mut other = composition(2);
    meta::set_field(&mut other, "uid", "u2");
    let error = plan_revisions(&other, &revisions).unwrap_err();
    assert!(error.to_string().ends_with("already belongs to Composition `site`"), "{error}");
}

#[test]
fn what_only_we_know_makes_a_revision_too() {
    let plain = composition_hash(&composition(1));
    let ours = [
        json!({"functionRevisionRef": {"name": "f-1"}}),
        json!({"functionRef": {"name": "f", "version": "1.0.0"}}),
        json!({"inputRef": {"name": "i"}}),
    ];
    for fields in ours {
        let mut composition = composition(1);
        composition["spec"]["pipeline"][0].as_object_mut().unwrap().extend(object(fields.clone()));
        assert_ne!(composition_hash(&composition), plain, "{fields}");
    }
}

#[test]
fn what_says_nothing_does_not_count() {
    let plain = composition_hash(&composition(1));
    let mut same = composition(1);
    same["spec"]["mode"] = "Pipeline".into();
    same["spec"]["pipeline"][0]["credentials"] = json!([]);
    assert_eq!(composition_hash(&same), plain);
    same["spec"]["pipeline"][0]["requirements"] = json!({"requiredResources": []});
    assert_ne!(composition_hash(&same), plain);
}
