//! How long changes may wait, what becomes of those that wait, and which never trigger an operation.

use ferroplane_golang::time::calendar;
use serde_json::json;

use super::*;
use crate::operation::watch::annotate_watched;

fn spec(policy: &str, deadline: i64) -> WatchSpec {
    let watch = json!({"spec": {
        "watch": {"apiVersion": "v1", "kind": "ConfigMap"}, "concurrencyPolicy": policy, "startingDeadlineSeconds": deadline,
    }});
    WatchSpec::of(watch.as_object().unwrap()).unwrap()
}

/// An object in one of its states.
fn object(number: u64) -> Object {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number}, "metadata": {
        "namespace": "n", "name": "a", "uid": "u", "resourceVersion": number.to_string(),
    }});
    object.as_object().unwrap().clone()
}

/// An operation that was created at a time, in milliseconds.
fn operation(uid: &str, now: i64) -> Object {
    let operation = json!({"metadata": {"uid": uid, "creationTimestamp": timestamp(now)}});
    operation.as_object().unwrap().clone()
}

fn timestamp(now: i64) -> String {
    format!("{}Z", calendar::format(now / 1000))
}

/// What is decided while nothing runs, or while another operation does.
fn decide(state: &mut WatchState, spec: &WatchSpec, is_busy: bool, now: i64) -> WatchDecision {
    let other = json!({"metadata": {"name": "other"}}).as_object().unwrap().clone();
    let operations = if is_busy { vec![other] } else { Vec::new() };
    state.decide(spec, &operations, &Mark::default(), now)
}

#[test]
fn change_is_late_by_its_own_time_and_not_by_that_of_an_earlier_one() {
    let spec = spec("Forbid", 10);
    let mut state = WatchState::restore(&Object::new(), &spec);
    state.see("n/a", Some(&object(1)), &spec, 0);
    assert!(decide(&mut state, &spec, true, 9_000).missed.is_empty());
    state.see("n/a", Some(&object(2)), &spec, 9_000);
    // Seen again, as it was: that makes it no newer.
    state.see("n/a", Some(&object(2)), &spec, 15_000);
    let waits = decide(&mut state, &spec, true, 19_999);
    assert_eq!((waits.missed.len(), waits.requeue_at), (0, Some(20_000)));
    assert_eq!(decide(&mut state, &spec, true, 20_000).missed, ["n/a"]);
    assert!(!state.is_waiting());
    assert!(decide(&mut state, &spec, false, 21_000).triggers.is_empty(), "it was dropped");

    state.see("n/a", Some(&object(3)), &spec, 22_000);
    let next = decide(&mut state, &spec, false, 22_000);
    assert_eq!(next.triggers.len(), 1, "the next change is handled");
}

#[test]
fn deletion_is_late_by_its_own_time() {
    let spec = spec("Forbid", 10);
    let mut state = WatchState::restore(&Object::new(), &spec);
    state.see("n/a", Some(&object(1)), &spec, 0);
    state.see("n/a", None, &spec, 9_000);
    state.see("n/a", None, &spec, 12_000);
    assert!(decide(&mut state, &spec, true, 19_999).missed.is_empty());
    assert_eq!(decide(&mut state, &spec, true, 20_000).missed, ["n/a"]);
}

#[test]
fn time_for_which_changes_are_merged_makes_nothing_late() {
    let spec = spec("Allow", 0);
    let mut state = WatchState::restore(&Object::new(), &spec);
    state.see("n/a", Some(&object(1)), &spec, 0);
    let first = decide(&mut state, &spec, false, 0);
    assert_eq!(first.triggers.len(), 1);
    state.made(&first.triggers[0], &operation("o", 0), 0);
    state.see("n/a", Some(&object(2)), &spec, 400);
    let merged = decide(&mut state, &spec, false, 400);
    assert_eq!((merged.triggers.len(), merged.missed.len(), merged.requeue_at), (0, 0, Some(1_000)));
    // Woken a little late.
    let second = decide(&mut state, &spec, false, 1_020);
    assert_eq!((second.triggers.len(), second.missed.len()), (1, 0));
}

#[test]
fn burst_on_one_object_is_merged_into_one_operation_for_its_latest_state() {
    let spec = spec("Allow", 600);
    let mut state = WatchState::restore(&Object::new(), &spec);
    let mut made = Vec::new();
    for (number, now) in (1..=10).zip((0..1_000).step_by(100)) {
        state.see("n/a", Some(&object(number)), &spec, now);
        for trigger in decide(&mut state, &spec, false, now).triggers {
            made.push(trigger.sighting.version);
            state.made(&trigger, &operation("o", now), now);
        }
    }
    let last = decide(&mut state, &spec, false, 1_000);
    made.extend(last.triggers.iter().map(|trigger| trigger.sighting.version));
    assert_eq!(made, [1, 10]);
}

#[test]
fn clock_that_is_set_back_holds_no_change_up() {
    let spec = spec("Allow", 600);
    let mut state = WatchState::restore(&Object::new(), &spec);
    state.see("n/a", Some(&object(1)), &spec, 3_600_000);
    let first = decide(&mut state, &spec, false, 3_600_000);
    state.made(&first.triggers[0], &operation("o", 3_600_000), 3_600_000);
    state.see("n/a", Some(&object(2)), &spec, 500);
    assert_eq!(decide(&mut state, &spec, false, 500).triggers.len(), 1);
}

#[test]
fn deletion_that_waits_is_not_lost_when_the_selector_is_edited() {
    let before = spec("Forbid", 600);
    let mut state = WatchState::restore(&Object::new(), &before);
    state.see("n/a", Some(&object(1)), &before, 0);
    let first = decide(&mut state, &before, false, 0);
    state.made(&first.triggers[0], &operation("o", 0), 0);
    state.see("n/a", None, &before, 2_000);
    assert!(decide(&mut state, &before, true, 2_000).triggers.is_empty(), "another operation runs");

    let watch = json!({"spec": {
        "watch": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"team": "blue"}}, "concurrencyPolicy": "Forbid",
    }});
    let after = WatchSpec::of(watch.as_object().unwrap()).unwrap();
    state.select(&after);
    state.see_all(std::iter::empty(), &after, 3_000);
    let mark = state.mark(&Mark::default()).expect("it says what was handled");
    assert!(mark.objects.contains_key("n/a"), "a restart finds it again");
    let decision = decide(&mut state, &after, false, 3_000);
    let told: Vec<_> =
        decision.triggers.iter().map(|it| (it.sighting.name(), it.sighting.is_gone())).collect();
    assert_eq!(told, [("a", true)]);
}

#[test]
fn row_of_operations_that_each_create_the_next_object_is_stopped() {
    let spec = spec("Allow", 600);
    let mut state = WatchState::restore(&Object::new(), &spec);
    let (mut made, mut stopped) = (0, Vec::new());
    for number in 1..=20_u32 {
        let mut copy = object(number.into());
        let managers = json!([{"manager": format!("ops.crossplane.io/operation/o{made}")}]);
        let now = i64::from(number) * 5_000;
        meta::set_field(&mut copy, "name", &format!("a{number}"));
        // In the same second as the operation that creates it.
        meta::set_field(&mut copy, "creationTimestamp", &timestamp(now - 5_000));
        meta::child(&mut copy, "metadata").insert("managedFields".to_owned(), managers);
        state.see(&format!("n/a{number}"), Some(&copy), &spec, now);
        let decision = decide(&mut state, &spec, false, now);
        stopped.extend(decision.stopped);
        let [trigger] = decision.triggers.as_slice() else { break };
        made += 1;
        state.made(trigger, &operation(&format!("o{made}"), now), now);
    }
    assert_eq!((made, stopped), (LOOP_LIMIT, vec!["n/a11".to_owned()]));

    // An edit of the selector starts new rows, also for what the last operation has created.
    let mut another = object(30);
    meta::set_field(&mut another, "creationTimestamp", &timestamp(200_000));
    let managers = json!([{"manager": "ops.crossplane.io/operation/o10"}]);
    meta::child(&mut another, "metadata").insert("managedFields".to_owned(), managers);
    state.see("n/a", Some(&another), &spec, 200_000);
    state.forgive();
    assert_eq!(decide(&mut state, &spec, false, 200_000).triggers.len(), 1);
}

#[test]
fn object_that_is_selected_again_and_again_is_never_stopped() {
    let spec = spec("Allow", 600);
    let mut state = WatchState::restore(&Object::new(), &spec);
    let mut managers = Vec::new();
    for number in 1..=12_u32 {
        let now = i64::from(number) * 10_000;
        let mut selected = object(number.into());
        meta::set_field(&mut selected, "creationTimestamp", "1970-01-01T00:00:09Z");
        meta::child(&mut selected, "metadata").insert("managedFields".to_owned(), json!(managers));
        state.see("n/a", Some(&selected), &spec, now);
        let decision = decide(&mut state, &spec, false, now);
        let [trigger] = decision.triggers.as_slice() else { panic!("{number}: {decision:?}") };
        state.made(trigger, &operation(&format!("o{number}"), now), now);
        managers.push(json!({"manager": format!("ops.crossplane.io/operation/o{number}")}));
        // It takes the label away, and a user sets it again.
        let later = now + 5_000;
        state.see("n/a", None, &spec, later);
        let gone = decide(&mut state, &spec, false, later);
        state.made(&gone.triggers[0], &operation(&format!("gone{number}"), later), later);
    }
}

#[test]
fn what_operations_of_the_watch_change_by_running_never_triggers_it() {
    let watch = json!({"metadata": {"name": "w", "uid": "w"}}).as_object().unwrap().clone();
    let spec = spec("Allow", 600);
    let mut state = WatchState::restore(&watch, &spec);
    state.see("n/a", Some(&object(1)), &spec, 0);
    let first = decide(&mut state, &spec, false, 0);
    state.made(&first.triggers[0], &operation("o", 0), 0);

    let owned_by = |uid: &str| json!([{"uid": uid, "controller": true}]);
    let event = |field: &str, uid: &str| json!({"kind": "Event", field: {"uid": uid}, "metadata": {}});
    let own = [
        json!({"kind": "WatchOperation", "metadata": {"uid": "w"}}),
        json!({"kind": "Operation", "metadata": {"uid": "o2", "ownerReferences": owned_by("w")}}),
        json!({"kind": "ActionSet", "metadata": {"uid": "s", "ownerReferences": owned_by("o")}}),
        event("involvedObject", "o"),
        event("regarding", "w"),
    ];
    let others = [
        json!({"kind": "Operation", "metadata": {"uid": "o2", "ownerReferences": owned_by("other")}}),
        event("involvedObject", "other"),
        json!({"kind": "Other", "involvedObject": {"uid": "o"}, "metadata": {}}),
    ];
    for (objects, is_own) in [(own.as_slice(), true), (others.as_slice(), false)] {
        for (number, object) in (2..).zip(objects) {
            let mut object = object.as_object().unwrap().clone();
            meta::set_field(&mut object, "name", "b");
            meta::set_field(&mut object, "resourceVersion", &number.to_string());
            let mut state = state.clone();
            state.see("/b", Some(&object), &spec, 5_000);
            assert_eq!(decide(&mut state, &spec, false, 5_000).triggers.is_empty(), is_own, "{object:?}");
            state.see("/b", None, &spec, 10_000);
            assert_eq!(decide(&mut state, &spec, false, 10_000).triggers.is_empty(), is_own, "{object:?}");
        }
    }
}

/// An event about an object that is not known by its UID.
fn event_about(api_version: &str, kind: &str, name: &str) -> Object {
    let subject =
        json!({"apiVersion": api_version, "kind": kind, "namespace": "n", "name": name, "uid": "unknown"});
    let event = json!({"kind": "Event", "involvedObject": subject, "metadata": {
        "namespace": "n", "name": "event", "uid": "e", "resourceVersion": "2",
    }});
    event.as_object().unwrap().clone()
}

/// Whether it is a trigger for a `WatchOperation` in this state.
fn triggers(state: &WatchState, spec: &WatchSpec, event: &Object) -> bool {
    let mut state = state.clone();
    state.see("n/event", Some(event), spec, 5_000);
    !decide(&mut state, spec, false, 5_000).triggers.is_empty()
}

fn watch_of_events() -> Object {
    let watch = json!({
        "metadata": {"name": "backup", "uid": "w"}, "spec": {"watch": {"apiVersion": "v1", "kind": "Event"}},
    });
    watch.as_object().unwrap().clone()
}

/// After a restart, there is nothing but their names.
#[test]
fn events_about_operations_that_were_deleted_never_trigger() {
    let watch = watch_of_events();
    let spec = WatchSpec::of(&watch).unwrap();
    let state = WatchState::restore(&watch, &spec);
    let ops = "ops.crossplane.io/v1alpha1";
    for (api_version, kind, name, is_own) in [
        (ops, "Operation", "backup-2ae9bd3", true),
        (ops, "Operation", "backup-2ae9bd3a1051fcef6889", true),
        (ops, "Operation", "backup-daily-2ae9bd3", false),
        (ops, "Operation", "backup-by-hand", false),
        (ops, "CronOperation", "backup-2ae9bd3", false),
        ("example.org/v1", "Operation", "backup-2ae9bd3", false),
    ] {
        let event = event_about(api_version, kind, name);
        assert_eq!(triggers(&state, &spec, &event), !is_own, "{kind} {name}");
    }
}

#[test]
fn events_about_action_sets_of_operations_never_trigger_also_after_both_were_deleted() {
    let watch = watch_of_events();
    let spec = WatchSpec::of(&watch).unwrap();
    let mut state = WatchState::restore(&watch, &spec);
    let mut owner = operation("o", 0);
    annotate_watched(&mut owner, &object(1));
    TriggerNote::new(&Sighting::of(&object(1), &[]), 0, 1).write(&mut owner);
    let kanister = "cr.kanister.io/v1alpha1";
    let event = event_about(kanister, "ActionSet", "backup-x");
    state.learn(std::slice::from_ref(&owner));
    assert!(triggers(&state, &spec, &event), "it has applied nothing yet");
    let applied = json!([
        {"apiVersion": kanister, "kind": "ActionSet", "namespace": "n", "name": "backup-x"},
        {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": "map"},
    ]);
    owner.insert("status".to_owned(), json!({"appliedResourceRefs": applied}));
    state.learn(&[owner]);
    state.learn(&[]);
    assert!(!triggers(&state, &spec, &event));
    for (api_version, kind, name) in
        [(kanister, "ActionSet", "other"), (kanister, "Blueprint", "backup-x"), ("v1", "ConfigMap", "map")]
    {
        assert!(triggers(&state, &spec, &event_about(api_version, kind, name)), "{kind} {name}");
    }
}

#[test]
fn operation_that_waits_as_a_trigger_is_dropped_once_it_is_known_as_an_own_one() {
    let spec = spec("Allow", 600);
    let mut state = WatchState::restore(&Object::new(), &spec);
    let mut operation = object(1);
    meta::set_field(&mut operation, "uid", "o");
    state.see("n/a", Some(&operation), &spec, 0);
    assert!(state.is_waiting());
    state.learn_operation(&operation, 0);
    state.see_all(std::iter::once(&operation), &spec, 0);
    assert!(!state.is_waiting() && state.mark.objects.is_empty());
}
