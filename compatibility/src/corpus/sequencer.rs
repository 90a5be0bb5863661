//! `function-sequencer`: rules of every shape over resources in every state.

use serde_json::{Map, Value, json};

use super::auto_ready::{LITERAL, SYNTAX, is_about_input, is_about_literal, is_about_syntax};
use super::{Corpus, Difference, INVALID_INPUT, adds_nothing, as_it_is, never, no_files};
use crate::dice::Dice;

pub(super) const CORPUS: Corpus = Corpus {
    function: "function-sequencer",
    generate,
    adapt: as_it_is,
    asks_formerly: never,
    files: no_files,
    by_hand,
    without_additions: adds_nothing,
    deliberate,
};

const NAMES: [&str; 12] = [
    "first",
    "second",
    "third",
    "vpc",
    "subnet-a",
    "subnet-b",
    "subnet-c",
    "bucket-1",
    "bucket-2",
    "my.bucket",
    "x/y",
    "first-second-usage",
];

fn generate(dice: &mut Dice) -> Value {
    let mut desired = Map::new();
    let mut observed = Map::new();
    for name in NAMES {
        if dice.chance(60) {
            desired.insert(name.to_owned(), desired_resource(dice));
        }
        if dice.chance(40) {
            observed.insert(name.to_owned(), json!({"resource": observed_object(dice, name)}));
        }
    }
    if dice.chance(3) {
        observed.insert("subnet-.*".to_owned(), json!({}));
    }
    let mut request = json!({
        "meta": {"tag": "tag"},
        "observed": {"composite": {"resource": composite(dice)}, "resources": observed},
        "desired": {"composite": {"resource": {"status": {}}}, "resources": desired},
        "input": input(dice),
    });
    if dice.chance(20) {
        request["desired"]["composite"]["ready"] = json!("READY_TRUE");
    }
    if dice.chance(20) {
        request["observed"]["composite"]["connectionDetails"] = json!({"user": "YWRtaW4="});
    }
    if dice.chance(3) {
        request["observed"] =
            dice.pick(&[json!({}), json!({"composite": {}}), json!({"resources": {}})]).clone();
    }
    if dice.chance(30) {
        request["context"] = json!({"environment": {"region": "eu", "size": dice.below(3)}});
    }
    request
}

fn composite(dice: &mut Dice) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "XR", "metadata": {"name": "xr"},
        "spec": {"enabled": dice.chance(50), "count": dice.below(4), "names": ["a", "b"]},
    })
}

fn desired_resource(dice: &mut Dice) -> Value {
    let mut resource =
        json!({"resource": {"apiVersion": "example.org/v1", "kind": "Thing", "spec": {"a": 1.5}}});
    match dice.below(10) {
        0..6 => resource["ready"] = json!("READY_TRUE"),
        6 => resource["ready"] = json!("READY_FALSE"),
        7 => resource["connectionDetails"] = json!({"password": "c2VjcmV0"}),
        _ => {}
    }
    if dice.chance(3) {
        resource["resource"] = Value::Null;
    }
    resource
}

fn observed_object(dice: &mut Dice, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": dice.pick(&["example.org/v1", "v1", "apps/v1"]),
        "kind": dice.pick(&["Thing", "ConfigMap", "VeryLongKindNameThatFillsNames"]),
        "metadata": {"name": format!("xr-{name}-abcde")},
    });
    match dice.below(12) {
        0..3 => object["metadata"]["namespace"] = json!("default"),
        3 => {
            object = json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "u"}});
        }
        4 => {
            object = json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "ClusterUsage", "metadata": {"name": "u"}});
        }
        5 => {
            object = json!({"apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "u"}});
        }
        6 => {
            object["metadata"] =
                dice.pick(&[json!(null), json!("x"), json!({"name": 5}), json!({"namespace": 5})]).clone();
        }
        7 => object["kind"] = dice.pick(&[json!(null), json!(1), json!("\u{130}stanbul")]).clone(),
        _ => {}
    }
    object
}

fn input(dice: &mut Dice) -> Value {
    let mut input = json!({"apiVersion": "sequencer.fn.crossplane.io/v1beta1", "kind": "Input"});
    input["rules"] = (0..dice.below(4)).map(|_| rule(dice)).collect();
    if dice.chance(50) {
        input["enableDeletionSequencing"] = json!(dice.chance(90));
        input["replayDeletion"] = json!(dice.chance(50));
        if dice.chance(60) {
            input["usageVersion"] = json!(dice.pick(&["v1", "v2", "v3", ""]));
        }
    }
    if dice.chance(40) {
        input["resetCompositeReadiness"] = json!(dice.chance(80));
    }
    match dice.below(40) {
        0..4 => input["cacheTTL"] = json!(dice.pick(&["5m", "1h30m", "0", "-1s", "1.5s", ""])),
        4 => input["cacheTTL"] = json!(dice.pick(&["5", "x", "1d", "m"])),
        5 => input["unknown"] = json!(1),
        6 => {
            input["rules"] = dice
                .pick(&[
                    json!("x"),
                    json!({}),
                    json!([1]),
                    json!(null),
                    json!([null]),
                    json!([{"sequence": "a"}]),
                    json!([{"sequence": [null, 1]}]),
                    json!([{"sequence": [null, "a"]}]),
                ])
                .clone();
        }
        7 => input["enableDeletionSequencing"] = dice.pick(&[json!("true"), json!(1), json!(null)]).clone(),
        8 => input["rules"] = json!([{"sequence": [], "surprise": true}]),
        _ => {}
    }
    input
}

fn rule(dice: &mut Dice) -> Value {
    let count = dice.below(5);
    let mut rule = json!({"sequence": (0..count).map(|_| pattern(dice)).collect::<Vec<_>>()});
    match dice.below(14) {
        0 | 1 => rule["deleteOnly"] = json!(true),
        2 | 3 => rule["createOnly"] = json!(true),
        4 if dice.chance(30) => (rule["createOnly"], rule["deleteOnly"]) = (json!(true), json!(true)),
        5..10 => rule["condition"] = json!(condition(dice)),
        _ => {}
    }
    rule
}

fn pattern(dice: &mut Dice) -> &'static str {
    if dice.chance(60) {
        return NAMES[dice.below(NAMES.len())];
    }
    if dice.chance(4) {
        let odd = ["(", "a**", "[z-a]", r"\8", "a{1001}", "(?P<n", "x)", r"\", "(?=a)", "[[:nope:]]", "^*"];
        return odd[dice.below(odd.len())];
    }
    let usual = [
        "subnet-.*",
        "subnet-[ab]",
        "^subnet",
        "-1$",
        "bucket-[0-9]+",
        r"bucket-\d",
        "(first|second)",
        "first|second",
        "(?i)VPC",
        ".*",
        "",
        "missing",
        "missing-.*",
        "my.bucket",
        r"my\.bucket",
        r"^\Qmy.bucket\E$",
        "^.{5}$",
        "$",
        "^",
        r"\bvpc\b",
        "first{,1}",
        "x/y",
        "quote\"d",
        "[[:alpha:]]+",
        "subnet-(a|b)?",
        "t",
        "^[^s]",
        r"^\pL+$",
        "(?-s)x.y",
        "f(?:irst)+?$",
    ];
    usual[dice.below(usual.len())]
}

fn condition(dice: &mut Dice) -> &'static str {
    if dice.chance(12) {
        let odd = [
            "observed.",
            "1",
            "'a'",
            "nothing",
            "observed.nothing",
            "1 == 'a'",
            "observed.composite.resource.spec.missing == 1",
            "observed.composite.resource.spec.count == 1",
            "[true]",
            "observed.composite.resource.spec",
            "observed",
            "observed.resources",
            "desired.composite.ready",
            "dyn(observed).missing == 1",
            "observed.composite.resource.spec.names[5] == 'a'",
            "observed.composite.resource.spec.kind.size() > 'a'",
            "observed.resources.nothing.ready == 1",
            "observed.composite.resource.spec.names.all(n, n > 1)",
            "context.environment.region",
            "1 / 0 == 1",
            "'a'.matches('(')",
            "observed.composite.resource.spec.count + 1 == 2",
        ];
        return odd[dice.below(odd.len())];
    }
    let usual = [
        "true",
        "false",
        "observed.composite.resource.spec.enabled == true",
        "observed.composite.resource.spec.enabled",
        "!observed.composite.resource.spec.enabled",
        "has(observed.composite.resource.spec.enabled)",
        "has(observed.composite.resource.spec.missing)",
        "observed.composite.resource.spec.count > 1.0",
        "observed.composite.resource.spec.count >= 2.0 && observed.composite.resource.spec.enabled",
        "observed.composite.resource.kind == 'XR'",
        "size(observed.resources) > 3",
        "size(desired.resources) > 5",
        "'vpc' in observed.resources",
        "has(observed.resources.vpc)",
        "desired.composite.ready == 2",
        "desired.resources.all(name, desired.resources[name].ready == 1)",
        "observed.resources.exists(name, name.startsWith('subnet'))",
        "has(context.environment) && context.environment.region == 'eu'",
        "'environment' in context",
        "observed.composite.resource.spec.names.exists(n, n == 'a')",
        "observed.composite.resource.metadata.name.matches('^x')",
        "has(observed.composite)",
        "has(desired.composite.ready)",
        "has(observed.composite.resource)",
        "has(observed.resources)",
        "has(observed.composite.connection_details)",
        "observed.composite.connection_details['user'] == b'admin'",
        "size(observed.composite.connection_details) == 1",
        "observed == desired",
        "observed.composite == desired.composite",
        "desired.resources['vpc'].resource.spec.a == 1.5",
        "desired.resources.vpc.ready in [0, 1]",
        "desired.resources.exists_one(name, desired.resources[name].ready == 1)",
        "observed.resources.map(name, observed.resources[name].resource.kind).exists(kind, kind == 'Thing')",
        "size(desired.resources.filter(name, has(desired.resources[name].ready))) > 2",
        "observed.composite.resource.spec.count == 1 ? true : observed.composite.resource.spec.enabled",
        "type(observed.composite.resource.spec.count) == double",
        "type(observed.composite.ready) == int",
        "int(observed.composite.resource.spec.count) % 2 == 0",
        "string(observed.composite.resource.spec.count) == '1'",
        "observed.composite.resource.spec.names[0] == 'a' && observed.composite.resource.spec.names[1.0] == 'b'",
        "observed.composite.resource.spec.names == ['a', 'b']",
        "[1, 2.0, 'a'].exists(x, x == 'a')",
        "{'a': 1}.a == 1 && {'a': 1, 'b': 'c'}['b'] == 'c'",
        "context == {}",
        "context.environment.size + 1.0 > 2.0",
        "timestamp('2024-05-01T10:00:00Z') < timestamp('2024-06-01T10:00:00Z')",
        "duration('1h') > duration('59m') && observed.composite.resource.kind.size() == 2",
        "desired.composite == null",
        "observed.composite.resource.spec.missing == null || true",
        "dyn(observed).composite.resource.kind == 'XR'",
    ];
    usual[dice.below(usual.len())]
}

fn by_hand() -> Vec<(&'static str, Value)> {
    vec![
        (
            "second waits for first",
            with_rules(
                &json!({"first": false, "second": false}),
                &json!([]),
                &json!({"rules": [{"sequence": ["first", "second"]}]}),
            ),
        ),
        (
            "second waits for a first that is not desired",
            with_rules(
                &json!({"second": false}),
                &json!([]),
                &json!({"rules": [{"sequence": ["first", "second"]}]}),
            ),
        ),
        (
            "second waits no longer",
            with_rules(
                &json!({"first": true, "second": false}),
                &json!(["first"]),
                &json!({"rules": [{"sequence": ["first", "second"]}]}),
            ),
        ),
        (
            "second exists already",
            with_rules(
                &json!({"first": false, "second": false}),
                &json!(["second"]),
                &json!({"rules": [{"sequence": ["first", "second"]}]}),
            ),
        ),
        (
            "a group waits for a group",
            with_rules(
                &json!({"a-1": true, "a-2": false, "b-1": false, "b-2": false}),
                &json!(["b-2"]),
                &json!({"rules": [{"sequence": ["a-.*", "b-.*"]}]}),
            ),
        ),
        (
            "the composite resource is not ready meanwhile",
            with_rules(
                &json!({"first": false, "second": false}),
                &json!([]),
                &json!({"resetCompositeReadiness": true, "rules": [{"sequence": ["first", "second"]}]}),
            ),
        ),
        (
            "those that exist are deleted in order",
            with_rules(
                &json!({"first": true, "second": true, "third": true}),
                &json!(["first", "second", "third"]),
                &json!({"enableDeletionSequencing": true, "replayDeletion": true, "rules": [{"sequence": ["first", "second", "third"]}]}),
            ),
        ),
        (
            "those that exist are deleted in order, the older way",
            with_rules(
                &json!({"first": true, "second": true}),
                &json!(["first", "second"]),
                &json!({"enableDeletionSequencing": true, "usageVersion": "v1", "rules": [{"sequence": ["first", "second"]}]}),
            ),
        ),
        (
            "only creation is ordered",
            with_rules(
                &json!({"first": true, "second": true}),
                &json!(["first", "second"]),
                &json!({"enableDeletionSequencing": true, "rules": [{"sequence": ["first", "second"], "createOnly": true}]}),
            ),
        ),
        (
            "only deletion is ordered",
            with_rules(
                &json!({"first": false, "second": false}),
                &json!([]),
                &json!({"enableDeletionSequencing": true, "rules": [{"sequence": ["first", "second"], "deleteOnly": true}]}),
            ),
        ),
        (
            "a rule that applies to no resource",
            with_rules(
                &json!({"first": false, "second": false}),
                &json!([]),
                &json!({"rules": [{"sequence": ["first", "second"], "condition": "size(observed.resources) > 0"}]}),
            ),
        ),
        ("no input", json!({"desired": {"resources": {"a": {"resource": {}}}}})),
    ]
}

/// A request that desires these resources, ready or not, of which some exist.
fn with_rules(desired: &Value, observed: &Value, input: &Value) -> Value {
    let mut request = json!({"desired": {"composite": {"resource": {}}, "resources": {}}, "observed": {"resources": {}}, "input": input});
    for (name, is_ready) in desired.as_object().into_iter().flatten() {
        let ready = if is_ready == &json!(true) { "READY_TRUE" } else { "READY_UNSPECIFIED" };
        request["desired"]["resources"][name] = json!({"resource": {"kind": "Thing"}, "ready": ready});
    }
    for name in observed.as_array().into_iter().flatten().filter_map(Value::as_str) {
        request["observed"]["resources"][name] = json!({"resource": {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": format!("xr-{name}")}}});
    }
    request
}

fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    if is_about_input(difference) {
        return Some(INVALID_INPUT);
    }
    if difference.version == "v0.6.0"
        && fatal_message(difference.theirs).ends_with(r#"unknown name "createOnly""#)
    {
        return Some("the built-in version knows createOnly, which is newer than this release");
    }
    if is_about_syntax(difference) {
        return Some(SYNTAX);
    }
    if is_about_literal(difference) {
        return Some(LITERAL);
    }
    let failed = difference.theirs.as_str().unwrap_or_default();
    if let Some(problem) =
        fatal_message(difference.ours).strip_prefix("cannot generate usages for sequence: ")
        && failed.contains(problem)
    {
        return Some(
            "an invalid regular expression is a fatal result with Usages, too; the original fails the call",
        );
    }
    None
}

/// What stopped the pipeline, or nothing.
fn fatal_message(answer: &Value) -> &str {
    let last = answer["results"].as_array().and_then(|results| results.last());
    let fatal = last.filter(|result| result["severity"] == "SEVERITY_FATAL");
    fatal.and_then(|result| result["message"].as_str()).unwrap_or_default()
}
