//! What hooks make of what resources say.

use std::time::Duration;

use ferroplane_wire::{from_json, to_json};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn answer(request: &Value) -> Value {
    let elapsed = || Duration::ZERO;
    to_json(&run(&from_json(request).unwrap(), Effort::Full(&elapsed)).unwrap()).unwrap()
}

fn observed(kind: &str, status: &str, message: &str) -> Value {
    json!({"resource": {"status": {"conditions": [{"type": kind, "status": status, "reason": "R", "message": message}]}}})
}

/// The answer to these hooks when a database fails, its network is fine and its composite resource waits.
fn transformed(hooks: &Value) -> Value {
    answer(&json!({
        "observed": {"composite": observed("Ready", "False", "waiting for db"), "resources": {
            "db": observed("Synced", "False", "create failed: quota of 5 exceeded"),
            "network": observed("Synced", "True", ""),
        }},
        "context": {"apiextensions.crossplane.io/extra-resources": {"proxy": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "p", "namespace": "n"},
             "status": observed("Available", "True", "up")["resource"]["status"]}
        ]}},
        "input": {"statusConditionHooks": hooks},
    }))
}

fn hook(matcher: &Value, message: &str) -> Value {
    let condition = json!({"type": "Custom", "status": "False", "reason": "Because", "message": message});
    json!([{"matchers": [matcher], "setConditions": [{"target": "CompositeAndClaim", "condition": condition}]}])
}

/// The message of the condition that the hook sets, if it does.
fn message(matcher: &Value, message: &str) -> Option<String> {
    let answer = transformed(&hook(matcher, message));
    let custom = answer["conditions"].as_array().unwrap().iter().find(|it| it["type"] == "Custom").cloned();
    custom.map(|condition| condition["message"].as_str().unwrap().to_owned())
}

fn is_match(matcher: &Value) -> bool {
    message(matcher, "").is_some()
}

fn failure(answer: &Value) -> (&str, &str) {
    let condition = &answer["conditions"][0];
    assert_eq!(condition["type"], "StatusTransformationSuccess");
    (condition["reason"].as_str().unwrap(), condition["message"].as_str().unwrap_or_default())
}

#[test]
fn captured_text_is_filled_into_the_message() {
    let matcher = json!({"resources": [{"name": "^db$"}], "conditions": [
        {"type": "Synced", "status": "False", "reason": "R", "message": "quota of (?P<Limit>\\d+)"}
    ]});
    assert_eq!(
        transformed(&hook(&matcher, "limit {{ .Limit }}"))["conditions"],
        json!([
            {"type": "Custom", "status": "STATUS_CONDITION_FALSE", "reason": "Because", "message": "limit 5",
             "target": "TARGET_COMPOSITE_AND_CLAIM"},
            {"type": "StatusTransformationSuccess", "status": "STATUS_CONDITION_TRUE", "reason": "Available",
             "target": "TARGET_COMPOSITE"},
        ])
    );
}

#[test]
fn message_is_no_template_unless_something_was_captured() {
    let matcher = json!({"resources": [{"name": "db"}], "conditions": [{"type": "Synced"}]});
    assert_eq!(message(&matcher, "{{ .Limit"), Some("{{ .Limit".to_owned()));
}

#[test]
fn number_of_matches_depends_on_the_type() {
    for (kind, failed, fails_and_says) in [
        ("AnyResourceMatchesAnyCondition", true, true),
        ("AnyResourceMatchesAllConditions", true, false),
        ("AllResourcesMatchAnyCondition", false, false),
        ("AllResourcesMatchAllConditions", false, false),
    ] {
        let matcher = |conditions: Value| json!({"type": kind, "resources": [{"name": ".*"}], "conditions": conditions});
        let (is_false, says) =
            (json!({"type": "Synced", "status": "False"}), json!({"type": "Synced", "message": "none"}));
        assert_eq!(is_match(&matcher(json!([is_false]))), failed, "{kind}");
        assert_eq!(is_match(&matcher(json!([is_false, says]))), fails_and_says, "{kind}");
        assert!(is_match(&matcher(json!([{"type": "Synced"}]))), "{kind}");
    }
}

#[test]
fn hook_without_matchers_resources_or_conditions_does_nothing() {
    assert!(!is_match(&json!({"resources": [{"name": "none"}], "conditions": [{"type": "Synced"}]})));
    assert!(!is_match(&json!({"resources": [{"name": "db"}], "conditions": []})));
    let answer = transformed(&json!([{"setConditions": [{"condition": {"type": "Custom"}}]}]));
    assert_eq!(answer["conditions"].as_array().unwrap().len(), 1);
}

#[test]
fn composite_and_extra_resources_can_be_looked_at() {
    let waits = json!({"type": "Ready", "message": "waiting for (?P<What>.*)"});
    let matcher = json!({"includeCompositeAsResource": true, "conditions": [waits]});
    assert_eq!(message(&matcher, "{{.What}}"), Some("db".to_owned()));
    let matcher = |include: bool| {
        json!({"includeExtraResources": include, "resources": [{"name": r"^extra-resource\.proxy\.apps\.Deployment\.n\.p$"}],
            "conditions": [{"type": "Available", "status": "True"}]})
    };
    assert!(is_match(&matcher(true)));
    assert!(!is_match(&matcher(false)));
}

#[test]
fn events_are_created() {
    let answer = transformed(&json!([{"matchers": [{"resources": [{"name": "db"}], "conditions": [
        {"type": "Synced", "message": "(?P<Limit>[0-9]+)"}]}], "createEvents": [
        {"event": {"message": "limit {{ .Limit }}"}},
        {"target": "CompositeAndClaim", "event": {"type": "Warning", "reason": "Quota", "message": "no"}},
    ]}]));
    assert_eq!(
        answer["results"],
        json!([
            {"severity": "SEVERITY_NORMAL", "message": "limit 5", "target": "TARGET_COMPOSITE"},
            {"severity": "SEVERITY_WARNING", "message": "no", "reason": "Quota", "target": "TARGET_COMPOSITE_AND_CLAIM"},
        ])
    );
}

#[test]
fn first_to_set_a_condition_wins_unless_a_later_one_is_forceful() {
    let set = |kind: &str, reason: &str, force: bool| json!({"force": force, "condition": {"type": kind, "reason": reason}});
    let hook = |conditions: Value| json!({"matchers": [{"resources": [{"name": "db"}], "conditions": [{"type": "Synced"}]}], "setConditions": conditions});
    let answer = transformed(&json!([
        hook(json!([set("A", "1", false), set("B", "1", false)])),
        hook(json!([set("A", "2", false), set("B", "2", true)])),
    ]));
    let set: Vec<_> = answer["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{}{}", it["type"], it["reason"]))
        .collect();
    assert_eq!(set[..3], ["\"A\"\"1\"", "\"B\"\"1\"", "\"B\"\"2\""]);
}

#[test]
fn what_goes_wrong_is_said_and_stops_nothing() {
    let answer = transformed(&json!([
        {"matchers": [{"resources": [{"name": "("}], "conditions": [{"type": "Synced"}]}]},
        {"matchers": [{"resources": [{"name": "db"}], "conditions": [{"type": "Synced"}]}],
         "setConditions": [{"condition": {"type": "Custom"}}]},
    ]));
    assert_eq!(
        failure(&answer),
        (
            "MatchFailure",
            "cannot match resources, statusConditionHookIndex: 0, matchConditionIndex: 0: cannot compile resource key \
             regex, resourcesIndex: 0: error parsing regexp: missing closing ): `(`"
        )
    );
    assert_eq!(answer["conditions"][1]["type"], "Custom");
    assert_eq!(answer["conditions"].as_array().unwrap().len(), 2);
}

#[test]
fn expressions_that_are_too_complex_together_are_a_failure_to_match() {
    let selector = |number: usize| json!({"name": format!(r"[\pL]{{200}}{number}")});
    let with_names = |count: usize| {
        let names: Vec<_> = (0..count).map(selector).collect();
        transformed(&hook(&json!({"resources": names, "conditions": [{"type": "Synced"}]}), ""))
    };
    assert_eq!(failure(&with_names(1)).0, "Available");
    let refused = with_names(4);
    assert_eq!(failure(&refused).0, "MatchFailure");
    assert!(failure(&refused).1.contains("are too complex together"), "{refused}");

    let wanted = |number: usize| json!({"type": "Synced", "status": "False", "message": format!(r"[\pL]{{200}}{number}")});
    let wanted: Vec<_> = (0..4).map(wanted).collect();
    let matcher = json!({"type": "AnyResourceMatchesAnyCondition", "resources": [{"name": "db"}], "conditions": wanted});
    let refused = transformed(&hook(&matcher, ""));
    assert!(failure(&refused).1.contains("cannot compile message regex: the regular"), "{refused}");
}

/// Requests to match a message, and a name, of so many bytes against an expression of ten thousand states or more.
fn long_matches(length: usize) -> [Value; 2] {
    let (heavy, long) = (r"[\pL]{20}9", "-".repeat(length));
    let request = |observed: Value, name: &str, message: &str| {
        let conditions = json!([{"type": "Synced", "message": message}]);
        let matcher = json!({"resources": [{"name": name}], "conditions": conditions});
        json!({"observed": {"resources": observed}, "input": {"statusConditionHooks": hook(&matcher, "")}})
    };
    let by_name = json!({ long.as_str(): observed("Synced", "False", "") });
    [request(json!({"db": observed("Synced", "False", &long)}), "db", heavy), request(by_name, heavy, "")]
}

#[test]
fn expressions_are_not_matched_briefly_against_long_texts() {
    let brief = |request: &Value| run(&from_json(request).unwrap(), Effort::Brief);
    for (long, short) in long_matches(10_000).iter().zip(&long_matches(20)) {
        assert_eq!(brief(long), Err(TakesLong));
        assert_eq!(failure(&to_json(&brief(short).unwrap()).unwrap()).0, "Available");
        assert_eq!(failure(&answer(long)).0, "Available");
    }
}

#[test]
fn expressions_that_take_too_long_to_match_are_a_failure_to_match() {
    let [message, name] = long_matches(300_000).map(|request| answer(&request));
    for answer in [&message, &name] {
        assert_eq!(failure(answer).0, "MatchFailure");
        assert!(failure(answer).1.contains("takes too long"), "{}", failure(answer).1);
    }
    assert!(failure(&message).1.contains(r#"cannot match message regex "[\\pL]{20}9": "#));
    assert!(
        failure(&name).1.contains(r#"cannot match resource key regex "[\\pL]{20}9", resourcesIndex: 0: "#)
    );
}

#[test]
fn mistake_in_the_input_is_said() {
    let answer = answer(&json!({"input": {"statusConditionHooks": [{"matcher": []}]}}));
    let (reason, message) = failure(&answer);
    assert_eq!(reason, "InputFailure");
    assert!(
        message.starts_with("cannot get Function input: statusConditionHooks[0].matcher: unknown field"),
        "{message}"
    );
}

#[test]
fn without_input_nothing_is_to_be_done() {
    assert_eq!(failure(&answer(&json!({}))), ("Available", ""));
}

proptest! {
    #[test]
    fn no_hook_makes_it_panic(name in "\\PC{0,6}", expression in "[a-z()|*.\\[\\]?P<>]{0,10}", template in "[{}. a-z|()\"]{0,16}") {
        let matcher = json!({"resources": [{"name": name}, {"name": ".*"}], "conditions": [{"type": "Synced", "message": expression}]});
        transformed(&hook(&matcher, &template));
    }
}
