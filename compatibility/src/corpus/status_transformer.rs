//! `function-status-transformer`: hooks over resources in all states, with expressions and templates of all kinds.
//!
//! The original reads resources in any order, so what two of them capture under one name is a matter of luck
//! there. Requests are made so that the order cannot matter: all resources say the same, or there is only one,
//! or nothing is captured.

use serde_json::{Map, Value, json};

use super::{Corpus, Difference, INVALID_INPUT, adds_nothing, as_it_is, never, no_files};
use crate::dice::Dice;

pub(crate) const CORPUS: Corpus = Corpus {
    function: "function-status-transformer",
    generate,
    adapt: as_it_is,
    asks_formerly: never,
    files: no_files,
    by_hand,
    without_additions: adds_nothing,
    deliberate,
};

const NAMES: [&str; 7] = ["bucket", "bucket-2", "cluster", "db-primary", "db-replica", "user.admin", "x(y"];

const TYPES: [&str; 4] = ["Ready", "Synced", "LastAsyncOperation", "Healthy"];

const STATUSES: [&str; 4] = ["True", "False", "Unknown", "Odd"];

const REASONS: [&str; 4] = ["Available", "Creating", "ReconcileError", ""];

const MESSAGES: [&str; 8] = [
    "cannot create: quota exceeded in eu-1: code 42",
    "failed to create the database: some internal error.",
    "api <error> \"NotFound\": no such thing & more",
    "connect failed: lookup db.example.org: no such host\nretry in 5s",
    "größer als erlaubt: 12 MiB",
    "ok",
    "",
    "a{b}c [d] (e) $f ^g",
];

/// Expressions that capture nothing.
const PLAIN_EXPRESSIONS: [&str; 12] = [
    "quota",
    "^ok$",
    ".*",
    "",
    "(?i)QUOTA",
    "no such (?:host|thing)",
    r"\d+ MiB",
    "^$",
    "(?s)failed.*retry",
    r"\bcode\b",
    "[[:upper:]]",
    "{b}",
];

const EXPRESSIONS: [&str; 16] = [
    "failed to create the database: (?P<Error>.+)",
    r"(?P<What>[^:]+): (?<Error>.*)",
    r"code (?P<Code>\d+)",
    r"in (?P<Zone>[a-z]+-\d): code (?P<Code>\d{1,3})",
    "(.*)",
    r"(\w+) (\w+)",
    r"(?s)(?P<Error>connect.*)",
    r#""(?P<Error>[A-Z]\w+)""#,
    "(?P<Error>x)?",
    r"(?U)(?P<Error>\w+)",
    r"(?P<Umlaut>\w+)",
    "(?P<Error>.+",
    "[a-",
    "(?P<a-b>.)",
    "*",
    r"(?P<Error>\p{L}+)\s\pL",
];

/// Expressions that capture from nearly every message.
const EAGER_EXPRESSIONS: [&str; 6] = [
    "(?P<Error>.*)",
    r"(?s)^(?P<What>[^:]*)(?P<Error>.*)$",
    r"(?P<Zone>eu-\d)?(?P<Code>\d+)?(?P<Error>.*)",
    r"(?:in (?P<Zone>[a-z]+-\d+): code (?P<Code>\d+))?",
    r"(?i)(?<Error>[a-z ]*)(.?)",
    r"(?P<Error>\pL*)\PL*(?P<Code>\d*)",
];

const NAME_EXPRESSIONS: [&str; 14] = [
    "bucket",
    "^bucket$",
    "db-.*",
    ".*",
    "cluster|user",
    "",
    "none",
    r"user\.admin",
    "^extra-resource",
    "[",
    "(?i)DB",
    r"x\(y",
    r"^extra-resource\.\w+\.\.\.",
    r"\.apps\.Thing\.default\.nginx$",
];

const TEMPLATES: [&str; 38] = [
    "plain",
    "Failed: {{ .Error }}",
    "{{ .Error }} ({{ .Code }}) in {{ .Zone }}",
    "{{.Missing}}",
    "{{ . }}",
    "{{- .Error -}} x",
    "a {{- /* comment */ -}} b",
    "{{ if .Code }}code {{ .Code }}{{ else }}no code{{ end }}",
    "{{ if eq .Zone \"eu-1\" }}here{{ else if .Error }}there{{ else }}nowhere{{ end }}",
    "{{ with .Error }}<{{ . }}>{{ end }}",
    "{{ with .Missing }}a{{ else with .Error }}{{ . }}{{ else }}c{{ end }}",
    "{{ or .Error .Missing \"unknown\" }}",
    "{{ and .Error .Code }}",
    "{{ not .Error }}",
    "{{ printf \"%s: %v %q %d\" .Error .Code .Zone 7 }}",
    "{{ .Error | printf \"%s-%s\" \"x\" }}",
    "{{ printf \"%s\" }} {{ printf \"%d\" .Error }} {{ printf \"a\" 1 \"b\" nil }}",
    "{{ print .Error 1 2 true }}{{ println .Code }}",
    "{{ len .Error }} {{ len . }}",
    "{{ index . \"Error\" }}{{ index . \"none\" }}",
    "{{ slice .Error 0 2 }}",
    "{{ html .Error }} {{ urlquery .Error }}",
    "{{ ne .Error \"x\" }} {{ lt 1 2 }} {{ gt \"a\" .Error }} {{ le 2 2 }} {{ ge 1 2 }}",
    "{{ $.Error }}{{ (index . \"Error\") }}{{ (print .Code) | len }}",
    "{{ `raw` }} {{ \"q\\\"\\n\\u00e9\" }} {{ true }} {{ 12 }} {{ -3 }}",
    "{{ .Error",
    "{{ nope .Error }}",
    "{{ if .Error }}",
    "{{ end }}",
    "{{ }}",
    "{{ .Error }",
    "{{ .Error.Code }}",
    "{{ eq .Error 1 }}",
    "{{ .Error 1 }}",
    "{{ len }} {{ len 3 }}",
    "line\n{{ $x }}",
    "{{ .a-b }}",
    "}} { {",
];

fn generate(dice: &mut Dice) -> Value {
    let world = World { mode: [0, 0, 1, 1, 2][dice.below(5)], shared: status(dice) };
    let World { mode, shared } = &world;
    let names = if *mode == 1 { 1 } else { [0, 1, 2, 2, 3, 4][dice.below(6)] };
    let mut resources = Map::new();
    for _ in 0..names {
        let status = if *mode == 2 { status(dice) } else { shared.clone() };
        resources.insert((*dice.pick(&NAMES)).to_owned(), resource(&status));
    }
    let composite = if *mode == 2 { status(dice) } else { shared.clone() };
    let mut request = json!({
        "meta": {"tag": "t"},
        "observed": {"composite": resource(&composite), "resources": resources},
        "desired": {"resources": {"kept": {"resource": {"kind": "Kept"}, "ready": "READY_TRUE"}}},
        "input": input(dice, &world),
    });
    if dice.chance(25) {
        request["context"] =
            json!({"apiextensions.crossplane.io/extra-resources": extra(dice, *mode, shared)});
    }
    if dice.chance(2) {
        request["observed"] = json!({});
    }
    if dice.chance(1) {
        request.as_object_mut().map(|request| request.remove("input"));
    }
    request
}

/// How a request is made.
struct World {
    /// All resources say the same (0), there is only one (1), or nothing is captured (2).
    mode: usize,
    /// What the resources say, except in the last mode.
    shared: Value,
}

fn resource(status: &Value) -> Value {
    let mut resource =
        json!({"resource": {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "n"}}});
    if !status.is_string() {
        resource["resource"]["status"] = status.clone();
    }
    resource
}

/// The status of a resource. Text stands for none at all.
fn status(dice: &mut Dice) -> Value {
    match dice.below(100) {
        0 => json!("none"),
        1 => json!(null),
        2 => json!({"conditions": null}),
        3 => json!({"conditions": "odd"}),
        4 => json!({"conditions": [null, 3]}),
        5 => json!(["odd"]),
        _ => {
            let count = dice.below(4) + 1;
            json!({"conditions": (0..count).map(|_| condition(dice)).collect::<Vec<_>>(), "other": 1})
        }
    }
}

fn condition(dice: &mut Dice) -> Value {
    let mut condition = json!({
        "type": dice.pick(&TYPES),
        "status": dice.pick(&STATUSES),
        "reason": dice.pick(&REASONS),
        "lastTransitionTime": "2024-05-06T07:08:09Z",
    });
    if dice.chance(85) {
        condition["message"] = json!(dice.pick(&MESSAGES));
    }
    match dice.below(150) {
        0 => condition["lastTransitionTime"] = json!("2024-05-36T07:08:09Z"),
        1 => condition["lastTransitionTime"] = json!("2024-05-06T7:08:09.123+01:30"),
        2 => condition["lastTransitionTime"] = json!(null),
        3 => condition["observedGeneration"] = json!(3),
        4 => condition["observedGeneration"] = json!(3.5),
        5 => condition["status"] = json!(true),
        6 => condition["message"] = json!(null),
        7 => condition["lastTransitionTime"] = json!("soon"),
        _ => {}
    }
    condition
}

fn extra(dice: &mut Dice, mode: usize, shared: &Value) -> Value {
    match dice.below(12) {
        0 => json!("odd"),
        1 => json!({"one": 4}),
        2 => json!({"one": [{"kind": "A"}, "odd"]}),
        3 => json!({"one": null}),
        _ => {
            let mut extra = Map::new();
            for into in ["one", "two"].into_iter().take(dice.below(3)) {
                let version = *dice.pick(&["v1", "apps/v1", "a/b/c", ""]);
                let status = if mode == 2 { status(dice) } else { shared.clone() };
                let mut item = resource(&status)["resource"].clone();
                item["apiVersion"] = json!(version);
                item["metadata"] = json!({"name": "nginx", "namespace": *dice.pick(&["default", ""])});
                extra.insert(into.to_owned(), json!([item]));
            }
            Value::Object(extra)
        }
    }
}

fn input(dice: &mut Dice, world: &World) -> Value {
    let count = dice.below(3) + 1;
    let hooks: Vec<_> = (0..count).map(|_| hook(dice, world)).collect();
    let mut input = json!({
        "apiVersion": "function-status-transformer.fn.crossplane.io/v1beta1",
        "kind": "StatusTransformation",
        "statusConditionHooks": hooks,
    });
    match dice.below(60) {
        0 => input["statusConditionHooks"] = json!(null),
        1 => input["unknown"] = json!(1),
        2 => input["statusConditionHooks"][0]["matchers"] = json!([{"name": 3}]),
        3 => input["statusConditionHooks"][0]["setConditions"] = json!(null),
        _ => {}
    }
    input
}

fn hook(dice: &mut Dice, world: &World) -> Value {
    let matchers: Vec<_> =
        (0..[1, 1, 1, 1, 1, 1, 1, 2, 2, 0][dice.below(10)]).map(|_| matcher(dice, world)).collect();
    let conditions: Vec<_> = (0..[0, 1, 1, 1, 2, 3][dice.below(6)]).map(|_| set_condition(dice)).collect();
    let mut hook = json!({"matchers": matchers, "setConditions": conditions});
    if dice.chance(60) {
        hook["createEvents"] = (0..dice.below(3)).map(|_| create_event(dice)).collect();
    }
    hook
}

fn matcher(dice: &mut Dice, world: &World) -> Value {
    let names = [1, 1, 1, 1, 1, 1, 2, 0][dice.below(8)];
    let resources: Vec<_> = (0..names)
        .map(|_| {
            let name = if dice.chance(60) { ".*" } else { *dice.pick(&NAME_EXPRESSIONS) };
            json!({ "name": name })
        })
        .collect();
    let count = [1, 1, 1, 1, 1, 2, 2, 3, 0][dice.below(9)];
    let conditions: Vec<_> = (0..count).map(|_| condition_matcher(dice, world)).collect();
    let mut matcher = json!({"resources": resources, "conditions": conditions});
    if dice.chance(60) {
        let kinds = [
            "AnyResourceMatchesAnyCondition",
            "AnyResourceMatchesAllConditions",
            "AllResourcesMatchAnyCondition",
            "AllResourcesMatchAllConditions",
            "Odd",
        ];
        matcher["type"] = json!(dice.pick(&kinds));
    }
    if dice.chance(20) {
        matcher["name"] = json!("a name");
    }
    if world.mode != 1 && dice.chance(25) {
        matcher["includeCompositeAsResource"] = json!(dice.chance(80));
    }
    if world.mode != 1 && dice.chance(30) {
        matcher["includeExtraResources"] = json!(dice.chance(80));
    }
    matcher
}

fn condition_matcher(dice: &mut Dice, world: &World) -> Value {
    let conditions = world.shared["conditions"].as_array();
    let known = conditions.and_then(|conditions| conditions.get(dice.below(conditions.len())));
    let Some(known) = known.filter(|_| dice.chance(80)) else { return any_condition_matcher(dice) };
    let mut matcher = json!({"type": known["type"]});
    if dice.chance(30) {
        matcher["status"] = known["status"].clone();
    }
    if dice.chance(30) {
        matcher["reason"] = known["reason"].clone();
    }
    if world.mode != 2 && dice.chance(80) {
        let expressions = if dice.chance(70) { &EAGER_EXPRESSIONS[..] } else { &EXPRESSIONS[..] };
        matcher["message"] = json!(dice.pick(expressions));
    } else if dice.chance(50) {
        matcher["message"] = json!(dice.pick(&PLAIN_EXPRESSIONS));
    }
    matcher
}

/// A matcher that most likely matches nothing, and captures nothing if it does.
fn any_condition_matcher(dice: &mut Dice) -> Value {
    json!({
        "type": dice.pick(&TYPES),
        "status": dice.pick(&STATUSES),
        "reason": if dice.chance(50) { json!(dice.pick(&REASONS)) } else { json!(null) },
        "message": dice.pick(&PLAIN_EXPRESSIONS),
    })
}

fn set_condition(dice: &mut Dice) -> Value {
    let mut setter = json!({"condition": {
        "type": dice.pick(&["DatabaseReady", "DatabaseReady", "CustomReady", "Healthy"]),
        "status": dice.pick(&STATUSES),
        "reason": dice.pick(&REASONS),
    }});
    if dice.chance(85) {
        setter["condition"]["message"] = json!(dice.pick(&TEMPLATES));
    }
    if dice.chance(60) {
        setter["target"] = json!(dice.pick(&["Composite", "CompositeAndClaim", "Odd"]));
    }
    if dice.chance(30) {
        setter["force"] = json!(dice.chance(70));
    }
    setter
}

fn create_event(dice: &mut Dice) -> Value {
    let mut creator = json!({"event": {"message": dice.pick(&TEMPLATES)}});
    if dice.chance(70) {
        creator["event"]["type"] = json!(dice.pick(&["Normal", "Warning", "Warning", "Odd"]));
    }
    if dice.chance(60) {
        creator["event"]["reason"] = json!(dice.pick(&REASONS));
    }
    if dice.chance(60) {
        creator["target"] = json!(dice.pick(&["Composite", "CompositeAndClaim"]));
    }
    creator
}

fn by_hand() -> Vec<(&'static str, Value)> {
    let failing = json!({"conditions": [
        {"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "create failed: quota of 5 exceeded"}
    ]});
    let request = |hooks: Value| {
        json!({
            "observed": {"composite": resource(&failing), "resources": {
                "db": resource(&failing),
                "net": resource(&json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}))
            }},
            "input": {"statusConditionHooks": hooks},
        })
    };
    let synced = json!({"type": "Synced", "status": "False", "message": "quota of (?P<Limit>\\d+)"});
    let set = json!({"target": "CompositeAndClaim", "condition": {
        "type": "DbReady", "status": "False", "reason": "Quota", "message": "limit is {{ .Limit }}"
    }});
    vec![
        ("nothing to do", request(json!([]))),
        (
            "a condition with what was captured",
            request(
                json!([{"matchers": [{"resources": [{"name": "^db$"}], "conditions": [synced]}], "setConditions": [set]}]),
            ),
        ),
        (
            "an event for the composite and its claim",
            request(
                json!([{"matchers": [{"resources": [{"name": "db"}], "conditions": [synced]}], "createEvents": [
                    {"target": "CompositeAndClaim", "event": {"type": "Warning", "reason": "Quota", "message": "{{ .Limit }}"}}
                ]}]),
            ),
        ),
        (
            "the conditions of the composite itself",
            request(
                json!([{"matchers": [{"includeCompositeAsResource": true, "resources": [], "conditions": [synced]}],
                "setConditions": [set]}]),
            ),
        ),
        (
            "the first to set a condition wins, unless a later one is forceful",
            request(json!([
                {"matchers": [{"resources": [{"name": "net"}], "conditions": [{"type": "Ready"}]}], "setConditions": [
                    {"condition": {"type": "A", "status": "True", "reason": "First"}},
                    {"condition": {"type": "B", "status": "True", "reason": "First"}}]},
                {"matchers": [{"resources": [{"name": "net"}], "conditions": [{"type": "Ready"}]}], "setConditions": [
                    {"condition": {"type": "A", "status": "False", "reason": "Second"}},
                    {"force": true, "condition": {"type": "B", "status": "False", "reason": "Second"}}]}
            ])),
        ),
        ("extra resources, by name", extra_by_name()),
        ("no input", json!({})),
        ("an unknown field", json!({"input": {"hooks": []}})),
    ]
}

/// Extra resources of all forms of versions, each looked for by the name it should have.
fn extra_by_name() -> Value {
    let names =
        [("v1", "..Thing"), ("apps/v1", ".apps.Thing"), ("a/b/c", ".."), ("", "..Thing"), ("/", "..Thing")];
    let (mut extra, mut hooks) = (Map::new(), Vec::new());
    for (at, (version, group_kind)) in names.into_iter().enumerate() {
        let into = format!("into{at}");
        let name = format!("^extra-resource.{into}{group_kind}.default.nginx$").replace('.', r"\.");
        hooks.push(json!({
            "matchers": [{"includeExtraResources": true, "resources": [{"name": name}], "conditions": [{"type": "Ready"}]}],
            "setConditions": [{"condition": {"type": into, "status": "True", "reason": "Found"}}],
        }));
        let metadata = json!({"name": "nginx", "namespace": "default"});
        extra.insert(into, json!([{"apiVersion": version, "kind": "Thing", "metadata": metadata}]));
    }
    json!({
        "context": {"apiextensions.crossplane.io/extra-resources": extra},
        "input": {"statusConditionHooks": hooks},
    })
}

fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    let messages = |answer: &Value| {
        let conditions = answer["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().filter_map(|it| it["message"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let (ours, theirs) = (messages(difference.ours), messages(difference.theirs));
    if let ([our], [their]) = (&ours[..], &theirs[..])
        && our.starts_with("cannot get Function input: ")
        && their.starts_with("cannot get Function input from *v1.RunFunctionRequest: ")
    {
        return Some(INVALID_INPUT);
    }
    let is_unknown = |message: &String| message.contains("unknown name \"includeExtraResources\"");
    if difference.version.starts_with("v0.4.") && theirs.iter().any(is_unknown) {
        return Some("the built-in version knows includeExtraResources, which is newer than this release");
    }
    None
}
