//! What the function holds back and protects, through whole requests.

use std::time::Duration;

use ferroplane_wire::{from_json, to_json};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn answer(request: &Value) -> Value {
    answer_of(run, request)
}

/// What a release answers.
fn answer_of(run: crate::LongBuiltin, request: &Value) -> Value {
    let elapsed = || Duration::ZERO;
    to_json(&run(&from_json(request).unwrap(), Effort::Full(&elapsed)).unwrap()).unwrap()
}

/// A request that desires these resources (`+` marks those that are ready) of which some exist.
fn request(desired: &str, observed: &str, input: &Value) -> Value {
    let mut request = json!({"desired": {"composite": {"resource": {}}, "resources": {}}, "observed": {"resources": {}}, "input": input});
    for name in desired.split_whitespace() {
        let ready = if name.starts_with('+') { "READY_TRUE" } else { "READY_UNSPECIFIED" };
        request["desired"]["resources"][name.trim_start_matches('+')] =
            json!({"resource": {}, "ready": ready});
    }
    for name in observed.split_whitespace() {
        request["observed"]["resources"][name] = json!({"resource": {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": format!("xr-{name}")}}});
    }
    request
}

fn rule(sequence: &[&str]) -> Value {
    json!({"rules": [{"sequence": sequence}]})
}

/// The names of what is still desired.
fn remaining(answer: &Value) -> String {
    let resources = answer["desired"]["resources"].as_object();
    resources.into_iter().flatten().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

fn messages(answer: &Value) -> Vec<&str> {
    answer["results"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|result| result["message"].as_str().unwrap())
        .collect()
}

#[test]
fn resource_waits_until_the_one_before_it_is_ready() {
    let waiting = answer(&request("first second", "first", &rule(&["first", "second"])));
    assert_eq!(remaining(&waiting), "first");
    assert_eq!(
        messages(&waiting),
        [r#"Delaying creation of resource(s) matching "second" because "first" is not fully ready (0 of 1)"#]
    );
    let ready = answer(&request("+first second", "first", &rule(&["first", "second"])));
    assert_eq!(remaining(&ready), "first second");
    assert_eq!(messages(&ready), [""; 0]);
}

#[test]
fn resource_waits_for_one_that_nobody_desires() {
    let waiting = answer(&request("second", "", &rule(&["first", "second"])));
    assert_eq!(remaining(&waiting), "");
    assert_eq!(
        messages(&waiting),
        [r#"Delaying creation of resource(s) matching "second" because "first" does not exist yet"#]
    );
}

#[test]
fn resource_that_exists_is_never_held_back() {
    assert_eq!(
        remaining(&answer(&request("first second", "second", &rule(&["first", "second"])))),
        "first second"
    );
    let group = answer(&request("first b-1 b-2", "b-1", &rule(&["first", "b-.*"])));
    assert_eq!(remaining(&group), "b-1 first");
}

#[test]
fn all_that_match_a_pattern_have_to_be_ready() {
    let waiting = answer(&request("+a-1 a-2 b", "", &rule(&["a-[0-9]", "b"])));
    assert_eq!(
        messages(&waiting),
        [r#"Delaying creation of resource(s) matching "b" because "a-[0-9]" is not fully ready (1 of 2)"#]
    );
    assert_eq!(remaining(&answer(&request("+a-1 +a-2 b", "", &rule(&["a-[0-9]", "b"])))), "a-1 a-2 b");
}

#[test]
fn pattern_means_the_whole_name_unless_it_is_anchored() {
    assert_eq!(remaining(&answer(&request("x my-b b-2 b", "", &rule(&["x", "b"])))), "b-2 my-b x");
    assert_eq!(remaining(&answer(&request("x my-b b-2 b", "", &rule(&["x", "^b"])))), "my-b x");
    assert_eq!(remaining(&answer(&request("x my-b b-2 b", "", &rule(&["x", "b$"])))), "b-2 x");
}

#[test]
fn those_in_the_middle_wait_and_let_wait() {
    let waiting = answer(&request("+a b c d", "", &rule(&["a", "b", "c", "d"])));
    assert_eq!(remaining(&waiting), "a b");
    assert_eq!(messages(&waiting).len(), 2);
    let nothing_ready = answer(&request("a b c", "", &rule(&["a", "b", "c"])));
    assert!(messages(&nothing_ready).iter().all(|message| message.contains(r#"because "a" is"#)));
}

#[test]
fn pattern_that_is_no_expression_is_a_fatal_result() {
    let refused = answer(&request("a", "", &rule(&["a", "(b"])));
    assert_eq!(
        messages(&refused),
        ["cannot compile regex (b: error parsing regexp: missing closing ): `^(b$`"]
    );
    assert_eq!(refused["results"][0]["severity"], "SEVERITY_FATAL");
}

#[test]
fn patterns_that_are_too_complex_together_are_a_fatal_result() {
    let heavy: Vec<_> = (0..4).map(|number| format!(r"[\pL]{{200}}{number}")).collect();
    let alone = answer(&request("last", "", &rule(&[&heavy[0], "last"])));
    assert!(messages(&alone)[0].starts_with("Delaying creation"), "{alone}");
    let rules: Vec<_> = heavy.iter().map(|pattern| json!({"sequence": [pattern, "last"]})).collect();
    let refused = answer(&request("last", "", &json!({"rules": rules})));
    let message = *messages(&refused).last().unwrap();
    assert!(message.starts_with(r"cannot compile regex [\pL]{200}"), "{message}");
    assert!(message.contains("are too complex together"), "{message}");
}

#[test]
fn patterns_in_conditions_that_are_too_complex_together_are_a_fatal_result() {
    let heavy = |number: usize| {
        let condition = format!(r"!string(desired.composite.ready).matches('[\\pL]{{30}}{number}')");
        json!({"sequence": ["a", "b"], "condition": condition})
    };
    let rules: Vec<_> = (0..30).map(heavy).collect();
    let refused = answer(&request("+a b", "", &json!({"rules": rules})));
    let message = *messages(&refused).last().unwrap();
    assert!(message.starts_with("cannot evaluate condition"), "{message}");
    assert!(message.contains("are too complex together"), "{message}");
}

/// A request to match names, of which one is so long, against a pattern of ten thousand states or more.
fn long_match(length: usize) -> Value {
    request(&format!("a {}", "-".repeat(length)), "", &rule(&[r"[\pL]{20}9", "a"]))
}

#[test]
fn patterns_and_conditions_that_take_long_are_not_evaluated_briefly() {
    let brief = |request: &Value| run(&from_json(request).unwrap(), Effort::Brief);
    assert_eq!(brief(&long_match(10_000)), Err(TakesLong));
    assert_eq!(to_json(&brief(&long_match(20)).unwrap()).unwrap(), answer(&long_match(20)));
    assert_eq!(messages(&answer(&long_match(10_000))).len(), 1);

    let with_condition = |condition: &str| {
        request("a b", "", &json!({"rules": [{"sequence": ["a", "b"], "condition": condition}]}))
    };
    let costly = "lists.range(300).all(x, lists.range(300).all(y, true))";
    assert_eq!(brief(&with_condition(costly)), Err(TakesLong));
    assert!(brief(&with_condition("1 < 2")).is_ok());
}

#[test]
fn patterns_that_take_too_long_to_match_are_a_fatal_result() {
    let refused = answer(&long_match(300_000));
    let message = *messages(&refused).last().unwrap();
    assert!(message.starts_with(r"cannot match regex [\pL]{20}9: matching"), "{message}");
    assert_eq!(refused["results"][0]["severity"], "SEVERITY_FATAL");
}

#[test]
fn conditions_have_one_limit_together() {
    let costly = "lists.range(300).all(x, lists.range(300).all(y, true))";
    let outcome = |count: usize| {
        let rules: Vec<_> =
            (0..count).map(|_| json!({"sequence": ["a", "b"], "condition": costly})).collect();
        answer(&request("+a b", "", &json!({ "rules": rules })))
    };
    assert_eq!(outcome(2).get("results"), None);
    let refused = outcome(45);
    let message = *messages(&refused).last().unwrap();
    assert!(message.ends_with("operation cancelled: actual cost limit exceeded"), "{message}");
}

#[test]
fn composite_is_not_ready_while_something_is_held_back() {
    let input = json!({"resetCompositeReadiness": true, "rules": [{"sequence": ["a", "b"]}]});
    assert_eq!(answer(&request("a b", "", &input))["desired"]["composite"]["ready"], "READY_FALSE");
    assert_eq!(answer(&request("a", "", &input))["desired"]["composite"].get("ready"), None);
    let mut without_composite = request("a b", "", &input);
    without_composite["desired"]["composite"] = Value::Null;
    assert_eq!(answer(&without_composite)["desired"]["composite"]["ready"], "READY_FALSE");
}

#[test]
fn earlier_rules_count_before_a_rule_that_cannot_be_followed() {
    let input = json!({"resetCompositeReadiness": true, "rules": [
        {"sequence": ["a", "b"]}, {"sequence": ["c"], "createOnly": true, "deleteOnly": true},
    ]});
    let refused = answer(&request("a b", "", &input));
    assert_eq!(remaining(&refused), "a b");
    assert_eq!(refused["desired"]["composite"]["ready"], "READY_FALSE");
    assert_eq!(
        messages(&refused)[1],
        "rule for sequence [c] cannot have both deleteOnly and createOnly set to true"
    );
}

#[test]
fn what_exists_is_protected_from_what_comes_after_it() {
    let input = json!({"enableDeletionSequencing": true, "replayDeletion": true, "rules": [{"sequence": ["a", "b-.*"]}]});
    let mut request = request("+a +b-1", "a b-1", &input);
    let protected = answer(&request);
    assert_eq!(remaining(&protected), "a b-1 b-1-a-usage");
    assert_eq!(
        protected["desired"]["resources"]["b-1-a-usage"],
        json!({"ready": "READY_TRUE", "resource": {
            "apiVersion": "protection.crossplane.io/v1beta1",
            "kind": "ClusterUsage",
            "metadata": {"name": "thing-xr-b-1-thing-xr-a-8e1a57-dependency"},
            "spec": {
                "by": {"apiVersion": "example.org/v1", "kind": "Thing", "resourceRef": {"name": "xr-b-1"}},
                "of": {"apiVersion": "example.org/v1", "kind": "Thing", "resourceRef": {"name": "xr-a"}},
                "reason": "dependency",
                "replayDeletion": true,
            },
        }})
    );
    request["observed"]["resources"]["a"]["resource"]["metadata"]["namespace"] = json!("default");
    let usage = &answer(&request)["desired"]["resources"]["b-1-a-usage"]["resource"];
    assert_eq!((&usage["kind"], &usage["metadata"]["namespace"]), (&json!("Usage"), &json!("default")));
    request["input"]["usageVersion"] = json!("v1");
    let usage = &answer(&request)["desired"]["resources"]["b-1-a-usage"]["resource"];
    assert_eq!(usage["apiVersion"], "apiextensions.crossplane.io/v1beta1");
    assert_eq!(usage["metadata"].get("namespace"), None);
}

#[test]
fn what_protects_is_not_protected() {
    let input = json!({"enableDeletionSequencing": true, "rules": [{"sequence": ["a", ".*"]}]});
    let mut request = request("a", "a u", &input);
    request["observed"]["resources"]["u"]["resource"] =
        json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage"});
    assert_eq!(remaining(&answer(&request)), "a a-a-usage");
}

#[test]
fn rule_can_be_for_one_direction_only() {
    let mut input = json!({"enableDeletionSequencing": true, "rules": [{"sequence": ["a", "b", "c"], "deleteOnly": true}]});
    assert_eq!(remaining(&answer(&request("a b c", "a b", &input))), "a b b-a-usage c");
    input["rules"] = json!([{"sequence": ["a", "b", "c"], "createOnly": true}]);
    assert_eq!(remaining(&answer(&request("a b c", "a b", &input))), "a b");
}

#[test]
fn long_names_are_cut_and_stay_unique() {
    let name = |of: String, by: String| {
        let input = json!({"enableDeletionSequencing": true, "rules": [{"sequence": ["a", "b"]}]});
        let mut request = request("a b", "a b", &input);
        request["observed"]["resources"]["a"]["resource"]["metadata"]["name"] = of.into();
        request["observed"]["resources"]["b"]["resource"]["metadata"]["name"] = by.into();
        let usage = &answer(&request)["desired"]["resources"]["b-a-usage"]["resource"];
        usage["metadata"]["name"].as_str().unwrap().to_owned()
    };
    let (one, other) = (name("a".repeat(60), "b".repeat(60)), name("c".repeat(60), "b".repeat(60)));
    assert_eq!((one.len(), other.len()), (63, 63));
    assert_ne!(one, other);
    for length in 1..60 {
        assert!(name("a".repeat(length), "b".repeat(length)).len() <= 63);
        // The cut may go through a letter, of which a mark remains.
        assert!(name("a".repeat(length), "\u{e9}".repeat(length)).len() <= 65);
    }
}

/// A request whose only rule has this condition.
fn conditional(condition: &str) -> Value {
    let rule = json!({"sequence": ["a", "b"], "condition": condition});
    let mut request = request("a b", "", &json!({"rules": [rule]}));
    request["observed"]["composite"] = json!({"resource": {"spec": {"enabled": true, "count": 2}}});
    request["context"] = json!({"region": "eu"});
    request
}

#[test]
fn rule_applies_if_its_condition_holds() {
    for condition in [
        "observed.composite.resource.spec.enabled",
        "observed.composite.resource.spec.count == 2.0",
        "size(observed.resources) == 0 && size(desired.resources) == 2",
        "context.region == 'eu'",
        "desired.resources.all(name, desired.resources[name].ready == 0)",
        "!has(desired.composite.ready) && desired.composite.ready == 0 && has(desired.composite.resource)",
        "observed.composite.connection_details == {}",
    ] {
        assert_eq!(remaining(&answer(&conditional(condition))), "a", "{condition}");
    }
    let skipped = answer(&conditional("observed.composite.resource.spec.count > 2.0"));
    assert_eq!(remaining(&skipped), "a b");
    assert_eq!(
        messages(&skipped),
        [
            r#"Skipping sequence [a b]: condition "observed.composite.resource.spec.count > 2.0" evaluated to false"#
        ]
    );
}

#[test]
fn condition_that_makes_no_sense_is_a_fatal_result() {
    for (condition, problem) in [
        ("1", "CEL condition must return bool, got int"),
        ("observed", "CEL condition must return bool, got apiextensions.fn.proto.v1.State"),
        ("context.region", "CEL condition result is not bool"),
        ("context.nothing", "cannot evaluate CEL condition: no such key: nothing"),
        ("(", "cannot parse CEL condition: ERROR: <input>:1:2: Syntax error: "),
        (
            "observed.nothing",
            "cannot type-check CEL condition: ERROR: <input>:1:9: undefined field 'nothing'",
        ),
    ] {
        let refused = answer(&conditional(condition));
        let expected = format!("cannot evaluate condition \"{condition}\" for sequence [a b]: {problem}");
        assert!(messages(&refused)[0].starts_with(&expected), "{condition}: {:?}", messages(&refused));
        assert_eq!(refused["results"][0]["severity"], "SEVERITY_FATAL");
    }
}

#[test]
fn condition_sees_that_the_composite_cannot_be_ready() {
    let input = json!({"resetCompositeReadiness": true, "rules": [
        {"sequence": ["x", "y"], "condition": "desired.composite.ready == 2"},
        {"sequence": ["a", "b"]},
        {"sequence": ["a", "c"], "condition": "desired.composite.ready == 2"},
    ]});
    assert_eq!(remaining(&answer(&request("a b c x y", "", &input))), "a x y");
}

#[test]
fn what_exists_is_protected_even_if_the_rule_does_not_apply() {
    let rule = json!({"sequence": ["a", "b"], "condition": "false"});
    let input = json!({"enableDeletionSequencing": true, "rules": [rule]});
    assert_eq!(remaining(&answer(&request("a b", "a b", &input))), "a b b-a-usage");
}

#[test]
fn input_says_for_how_long_the_answer_holds() {
    assert_eq!(answer(&json!({"input": {"cacheTTL": "5m"}}))["meta"]["ttl"], "300s");
    assert_eq!(
        messages(&answer(&json!({"input": {"cacheTTL": "5"}}))),
        [r#"cannot set cacheTTL: time: missing unit in duration "5""#]
    );
}

#[test]
fn mistake_in_the_input_is_named_by_its_path() {
    assert_eq!(
        messages(&answer(&json!({"input": {"rules": [{"sequence": "a"}]}}))),
        [r#"cannot get Function input: rules[0].sequence: invalid type: string "a", expected a sequence"#]
    );
}

#[test]
fn without_rules_nothing_changes() {
    assert_eq!(answer(&json!({"desired": {}})), json!({"meta": {"ttl": "60s"}, "desired": {}}));
}

proptest! {
    #[test]
    fn any_rules_are_followed_or_refused(
        patterns in prop::collection::vec("[ab.*+(|)\\[\\]^$\\\\-]{0,5}", 0..5),
        desired in "(\\+?[ab]{1,2} ){0,4}",
        observed in "([ab]{1,2} ){0,4}",
        deletes: bool,
        resets: bool,
    ) {
        let input = json!({"enableDeletionSequencing": deletes, "resetCompositeReadiness": resets, "rules": [{"sequence": patterns}]});
        let answer = answer(&request(&desired, &observed, &input));
        // Nothing that exists is ever taken away.
        for name in observed.split_whitespace().filter(|name| desired.split_whitespace().any(|one| one.trim_start_matches('+') == *name)) {
            prop_assert!(answer["desired"]["resources"].get(name).is_some());
        }
    }

    #[test]
    fn any_input_is_understood_or_refused(rules in crate::auto_ready::tests::any_value(), ttl in crate::auto_ready::tests::any_value()) {
        answer(&json!({"input": {"rules": rules, "cacheTTL": ttl}}));
        answer(&json!({"input": {"rules": [{"sequence": rules}]}}));
    }
}

#[test]
fn first_releases_know_sequences_and_nothing_else() {
    let mut input = rule(&["first", "second"]);
    input["enableDeletionSequencing"] = json!(true);
    input["somethingElse"] = json!(1);
    let old = answer_of(run_v0_3, &request("first second", "", &input));
    assert_eq!(remaining(&old), "first");
    assert_eq!(
        old["results"],
        json!([{
            "severity": "SEVERITY_NORMAL",
            "message": "Delaying creation of resource(s) matching \"second\" because \"first\" is not fully ready (0 of 1)"
        }])
    );
    let there = request("+first second", "first second", &input);
    let old = answer_of(run_v0_3, &there);
    assert_eq!(remaining(&old), "first second", "there are no usages");
}

#[test]
fn first_releases_read_a_pattern_only_when_something_has_to_wait_for_it() {
    let results = |desired: &str| {
        let request = request(desired, "", &rule(&["first", "x)"]));
        let run = |run: crate::LongBuiltin| answer_of(run, &request)["results"].clone();
        let message = |results: Value| results[0]["message"].as_str().unwrap_or_default().to_owned();
        (message(run(run_v0_3)), message(run(super::run)))
    };
    let mistake = "cannot compile regex x): error parsing regexp: unexpected ): `^x)$`".to_owned();
    assert_eq!(results("+first"), (String::new(), mistake.clone()));
    assert_eq!(results("first"), (mistake.clone(), mistake));
}

#[test]
fn release_v0_2_2_deletes_what_exists_and_matches_a_pattern_that_has_to_wait() {
    let group = request("first b-1 b-2", "b-1", &rule(&["first", "b-.*"]));
    let old = answer_of(run_v0_2, &group);
    assert_eq!(remaining(&old), "first");
    assert_eq!(messages(&old), messages(&answer_of(run_v0_3, &group)));
    assert_eq!(remaining(&answer_of(run_v0_3, &group)), "b-1 first");
    let named = request("first second", "second", &rule(&["first", "second"]));
    assert_eq!(remaining(&answer_of(run_v0_2, &named)), "first second", "a name that exists is not checked");
    let ready = request("+first b-1 b-2", "b-1", &rule(&["first", "b-.*"]));
    assert_eq!(remaining(&answer_of(run_v0_2, &ready)), "b-1 b-2 first");
}

#[test]
fn first_releases_take_an_element_of_a_sequence_for_a_name() {
    let waiting = answer_of(run_v0_1, &request("+first second third", "", &rule(&["fir.*", "second"])));
    assert_eq!(remaining(&waiting), "first third");
    assert_eq!(
        messages(&waiting),
        [r#"Delaying creation of resource "second" because "fir.*" is not ready or does not exist yet"#]
    );
    let unmatched = answer_of(run_v0_1, &request("first b-1", "", &rule(&["first", "b-.*"])));
    assert_eq!(remaining(&unmatched), "b-1 first");
    let nonsense = answer_of(run_v0_1, &request("+first second", "", &rule(&["first", "second", "x)"])));
    assert_eq!(remaining(&nonsense), "first second");
    assert_eq!(nonsense["results"][0]["severity"], "SEVERITY_NORMAL", "no expression is compiled");
    let there = answer_of(run_v0_1, &request("first second", "second", &rule(&["first", "second"])));
    assert_eq!((remaining(&there).as_str(), messages(&there).len()), ("first second", 0));
}

#[test]
fn releases_v0_4_and_v0_5_protect_from_all_that_is_ready_before_a_pattern() {
    let input = json!({"enableDeletionSequencing": true, "rules": [{"sequence": ["a", "b", "c.*"]}]});
    let ready = request("+a +b +c", "a b c", &input);
    for run in [run_v0_4, run_v0_5] {
        assert_eq!(remaining(&answer_of(run, &ready)), "a b b-a-usage c c-a-usage c-b-usage");
        let waiting = request("+a b +c c-1", "a b c", &input);
        assert_eq!(remaining(&answer_of(run, &waiting)), "a b b-a-usage c c-a-usage");
    }
    assert_eq!(
        remaining(&answer(&ready)),
        "a b b-a-usage c c-b-usage",
        "only from what comes right before it"
    );
}

#[test]
fn release_v0_4_protects_what_protects() {
    let input = json!({"enableDeletionSequencing": true, "rules": [{"sequence": ["a", "b.*"]}]});
    let mut request = request("+a +b", "a b", &input);
    request["observed"]["resources"]["b"]["resource"]["apiVersion"] =
        json!("protection.crossplane.io/v1beta1");
    request["observed"]["resources"]["b"]["resource"]["kind"] = json!("ClusterUsage");
    assert_eq!(remaining(&answer_of(run_v0_4, &request)), "a b b-a-usage");
    assert_eq!(remaining(&answer_of(run_v0_5, &request)), "a b");
}

#[test]
fn release_v0_5_refuses_fields_that_came_later() {
    for later in [json!({"cacheTTL": "1m"}), json!({"rules": [{"sequence": ["a"], "condition": "true"}]})] {
        let refused = answer_of(run_v0_5, &json!({"input": later}));
        assert_eq!(refused["results"][0]["severity"], "SEVERITY_FATAL", "{refused}");
    }
    let mistake = answer_of(run_v0_5, &request("+a b", "", &rule(&["a", "(b"])));
    assert_eq!(mistake["results"][0]["severity"], "SEVERITY_FATAL", "{mistake}");
}
