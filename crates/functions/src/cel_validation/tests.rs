//! What the function says about requests.

use std::time::Duration;

use ferroplane_wire::{from_json, to_json};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::run;
use crate::effort::{Effort, TakesLong};

fn answer(request: &Value) -> Value {
    let elapsed = || Duration::ZERO;
    to_json(&run(&from_json(request).unwrap(), Effort::Full(&elapsed)).unwrap()).unwrap()
}

fn request(rules: &Value) -> Value {
    json!({
        "meta": {"tag": "t"},
        "observed": {
            "composite": {"resource": {"spec": {"size": 3, "region": "eu"}}, "connectionDetails": {"user": "YWRtaW4="}},
            "resources": {"bucket": {"resource": {"status": {"arn": "a"}}}}
        },
        "desired": {"composite": {"resource": {"status": {"x": 1}}}, "resources": {
            "bucket": {"resource": {"apiVersion": "s3/v1", "kind": "Bucket", "spec": {"encrypted": true, "size": 2}}, "ready": "READY_TRUE"},
            "bucket-2": {"resource": {"apiVersion": "s3/v1", "kind": "Bucket", "spec": {"encrypted": false, "size": 5}}},
            "user": {"resource": {"apiVersion": "iam/v1", "kind": "User", "spec": {}}}
        }},
        "context": {"environment": {"tier": "prod"}},
        "requiredResources": {"net": {"items": [{"resource": {"kind": "Network"}}]}},
        "input": {"apiVersion": "validation.fn.ferroplane.io/v1beta1", "kind": "Validation", "rules": rules}
    })
}

fn results(rules: &Value) -> Vec<Value> {
    let answer = answer(&request(rules));
    answer.get("results").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn messages(rules: &Value) -> Vec<String> {
    results(rules).iter().map(|result| result["message"].as_str().unwrap().to_owned()).collect()
}

/// Nothing is said of a rule that holds.
fn holds(rule: &str) {
    assert_eq!(messages(&json!([{"rule": rule}])), Vec::<String>::new(), "{rule}");
}

#[test]
fn request_has_the_shape_that_it_has_on_the_wire() {
    holds("observed.composite.resource.spec.size == 3");
    holds("type(observed.composite.resource.spec.size) == int");
    holds("observed.composite.connection_details['user'] == b'admin'");
    holds("observed.resources['bucket'].resource.status.arn == 'a'");
    holds("desired.composite.resource.status.x == 1");
    holds("desired.resources['bucket'].ready == 'READY_TRUE'");
    holds("desired.resources.user.ready == 'READY_UNSPECIFIED'");
    holds("context.environment.tier == 'prod'");
    holds("requiredResources.net.items[0].resource.kind == 'Network'");
    holds("extraResources.size() == 0");
    holds("desired.resources.all(name, desired.resources[name].resource.kind != '')");
    holds("desired.resources.exists(name, resource, resource.resource.kind == 'User')");
}

#[test]
fn request_that_keeps_all_rules_is_left_as_it_is() {
    let request = request(&json!([{"rule": "true"}]));
    let answer = answer(&request);
    assert_eq!(answer["desired"], request["desired"]);
    assert_eq!(answer["context"], request["context"]);
    assert_eq!(answer["results"], Value::Null);
}

#[test]
fn violation_names_rule_and_message() {
    let rules = json!([{"name": "small", "rule": "observed.composite.resource.spec.size < 3", "message": "too large",
        "reason": "TooLarge", "target": "CompositeAndClaim"}]);
    assert_eq!(
        results(&rules),
        [
            json!({"severity": "SEVERITY_FATAL", "message": "rule \"small\" is violated: too large", "reason": "TooLarge",
            "target": "TARGET_COMPOSITE_AND_CLAIM"})
        ]
    );
}

#[test]
fn rule_without_name_and_message_is_shown() {
    assert_eq!(messages(&json!([{"rule": "1 > 2"}])), ["rule \"rules[0]\" is violated: failed rule: 1 > 2"]);
}

#[test]
fn rule_about_resources_is_evaluated_for_each() {
    let rules = json!([{"name": "encrypted", "rule": "self.spec.encrypted", "resources": {"kind": "Bucket"},
        "messageExpression": "'size ' + string(self.spec.size) + ' in ' + observed.composite.resource.spec.region"}]);
    assert_eq!(
        messages(&rules),
        ["rule \"encrypted\" is violated by composed resource \"bucket-2\": size 5 in eu"]
    );
}

#[test]
fn resources_are_selected_by_name_pattern_and_kind() {
    let matched = |resources: Value| {
        messages(&json!([{"name": "r", "rule": "false", "message": "m", "resources": resources}])).len()
    };
    assert_eq!(matched(json!({})), 3);
    assert_eq!(matched(json!({"names": ["bucket", "nothing"]})), 1);
    assert_eq!(matched(json!({"pattern": "bucket"})), 1);
    assert_eq!(matched(json!({"pattern": "bucket.*"})), 2);
    assert_eq!(matched(json!({"pattern": "bucket|user"})), 2);
    assert_eq!(matched(json!({"kind": "User"})), 1);
    assert_eq!(matched(json!({"apiVersion": "s3/v1", "kind": "User"})), 0);
    assert_eq!(matched(json!({"pattern": ".*", "kind": "Bucket", "names": ["bucket"]})), 1);
}

#[test]
fn rule_that_cannot_be_evaluated_is_violated() {
    let rules = json!([
        {"name": "a", "rule": "self.spec.missing", "resources": {"names": ["user"]}},
        {"name": "b", "rule": "desired.missing.x", "severity": "Warning"},
        {"name": "c", "rule": "observed.composite.resource.spec.size", "severity": "Warning"}
    ]);
    assert_eq!(
        messages(&rules),
        [
            "rule \"b\" cannot be evaluated: no such key: missing",
            "rule \"c\" cannot be evaluated: it gives an int instead of true or false",
            "rule \"a\" cannot be evaluated for composed resource \"user\": no such key: missing",
        ]
    );
}

#[test]
fn warnings_come_before_what_stops_the_pipeline() {
    let rules = json!([
        {"name": "a", "rule": "false", "message": "m"},
        {"name": "b", "rule": "false", "message": "m", "severity": "Warning"},
        {"name": "c", "rule": "false", "message": "m"}
    ]);
    assert_eq!(
        messages(&rules),
        [
            "rule \"b\" is violated: m",
            "rule \"a\" is violated: m (and 1 more violations)",
            "rule \"c\" is violated: m"
        ]
    );
}

#[test]
fn message_that_cannot_be_made_gives_way_to_the_written_one() {
    for expression in ["observed.missing", "''", "'a\\nb'", "string(1 / 0)"] {
        let rules =
            json!([{"name": "a", "rule": "false", "message": "written", "messageExpression": expression}]);
        assert_eq!(messages(&rules), ["rule \"a\" is violated: written"], "{expression}");
    }
}

#[test]
fn rules_that_do_not_compile_are_all_named_with_their_places() {
    let rules = json!([
        {"name": "a", "rule": "unknown == 1"},
        {"name": "fine", "rule": "true"},
        {"name": "b", "rule": "1 +"},
        {"name": "c", "rule": "'text'"},
        {"name": "d", "rule": "self.x"},
        {"name": "e", "rule": "true", "messageExpression": "1"},
        {"name": "f", "rule": ""},
        {"name": "g", "rule": "true", "resources": {"pattern": "("}}
    ]);
    let messages = messages(&rules);
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    assert!(
        message
            .starts_with("cannot compile rule \"a\": ERROR: <input>:1:1: undeclared reference to 'unknown'")
    );
    assert!(message.contains("\ncannot compile rule \"b\": ERROR: <input>:1:4: Syntax error"), "{message}");
    assert!(
        message.contains("\ncannot compile rule \"c\": it must give true or false, not string"),
        "{message}"
    );
    assert!(
        message.contains("\ncannot compile rule \"d\": ERROR: <input>:1:1: undeclared reference to 'self'")
    );
    assert!(message.contains("\ncannot compile the message of rule \"e\": it must give a string, not int"));
    assert!(message.contains("\ncannot compile rule \"f\": it has no expression"), "{message}");
    assert!(
        message.contains("\ncannot compile the pattern of rule \"g\": error parsing regexp"),
        "{message}"
    );
}

#[test]
fn input_that_is_wrong_is_named_with_its_place() {
    assert_eq!(
        messages(&json!([{"rule": "true", "severity": "Bad"}])),
        [
            "cannot get Function input: rules[0].severity: unknown variant `Bad`, expected `Fatal` or `Warning`"
        ]
    );
    assert_eq!(
        messages(&json!([{"rule": "true", "resources": {"nmes": []}}])),
        [
            "cannot get Function input: rules[0].resources.nmes: unknown field `nmes`, expected one of `names`, `pattern`, \
          `apiVersion`, `kind`"
        ]
    );
}

#[test]
fn patterns_that_are_too_complex_together_are_refused() {
    let rule = |number: usize| json!({"name": "heavy", "rule": "true", "resources": {"pattern": format!(r"[\pL]{{200}}{number}")}});
    let refused = messages(&(0..4).map(rule).collect());
    let [message] = &refused[..] else { panic!("{refused:?}") };
    assert!(message.starts_with("cannot get Function input: rules: rule \"heavy\": "), "{message}");
    assert!(message.contains("are too complex together"), "{message}");
    assert_eq!(messages(&json!([rule(0)])), Vec::<String>::new());
}

#[test]
fn without_an_input_there_is_nothing_to_check() {
    assert_eq!(answer(&json!({"desired": {}})).get("results"), None);
}

#[test]
fn rules_that_cost_too_much_are_violated() {
    let expensive = "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))";
    let rules = json!([{"name": "a", "rule": expensive}]);
    assert_eq!(
        messages(&rules),
        ["rule \"a\" cannot be evaluated: operation cancelled: actual cost limit exceeded"]
    );
    let many: Vec<_> =
        (0..40).map(|_| json!({"rule": "lists.range(300).all(x, lists.range(300).all(y, true))"})).collect();
    let violated = messages(&Value::from(many)).len();
    assert!((10..40).contains(&violated), "{violated}");
}

#[test]
fn many_violations_are_cut_short() {
    let mut request = request(&json!([{"name": "a", "rule": "false", "message": "m", "resources": {}}]));
    for number in 0..300 {
        request["desired"]["resources"][format!("r{number}")] = json!({"resource": {"kind": "R"}});
    }
    let answer = answer(&request);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 100);
    assert!(results[0]["message"].as_str().unwrap().ends_with("(and 302 more violations)"));
}

#[test]
fn example_compiles_and_says_what_is_wrong() {
    let rules = json!([
        {"name": "has-a-bucket", "rule": "'bucket' in desired.resources"},
        {"name": "encrypted", "resources": {"kind": "Bucket"}, "rule": "self.?spec.forProvider.encrypted.orValue(false)"}
    ]);
    assert_eq!(messages(&rules).len(), 2);
}

proptest! {
    #[test]
    fn any_input_is_answered(rule in ".{0,40}", pattern in ".{0,10}", name in ".{0,5}") {
        let _ = results(&json!([{"rule": rule, "messageExpression": rule, "name": name, "resources": {"pattern": pattern}}]));
        let _ = answer(&json!({"input": {"rules": rule}}));
        let _ = answer(&json!({"input": {"rules": [rule, {"rule": {"a": name}}]}}));
    }
}

#[test]
fn rules_that_cost_much_are_not_evaluated_briefly() {
    let costly = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a > 0)))))";
    let brief = |rule: &str| {
        let request = json!({"input": {"rules": [{"name": "a", "rule": rule}]}});
        run(&from_json(&request).unwrap(), Effort::Brief)
    };
    assert_eq!(brief(costly), Err(TakesLong));
    assert!(brief("1 < 2").unwrap().results.is_empty());
}

/// A request whose composite resource has a text of so many bytes in its status, as one of its composed resources has for a name.
fn long_text(rule: &Value, length: usize) -> Value {
    let mut request = request(&json!([rule]));
    request["desired"]["composite"]["resource"]["status"]["text"] = "-".repeat(length).into();
    request["desired"]["resources"]["-".repeat(length)] = json!({"resource": {}});
    request
}

#[test]
fn patterns_are_not_matched_briefly_against_long_texts() {
    let rules = [
        json!({"rule": r"!desired.composite.resource.status.text.matches('[\\pL]{20}9')"}),
        json!({"rule": "false", "resources": {"pattern": r"[\pL]{20}9"}}),
    ];
    for rule in rules {
        let brief = |length| run(&from_json(&long_text(&rule, length)).unwrap(), Effort::Brief);
        assert_eq!(brief(10_000), Err(TakesLong), "{rule}");
        assert!(brief(20).unwrap().results.is_empty());
    }
}

#[test]
fn patterns_that_take_too_long_to_match_are_refused() {
    let rule = json!({"name": "a", "rule": "true", "resources": {"pattern": r"[\pL]{20}9"}});
    let answer = answer(&long_text(&rule, 300_000));
    let message = answer["results"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("cannot match resources.pattern of rule \"a\": matching"), "{message}");
}
