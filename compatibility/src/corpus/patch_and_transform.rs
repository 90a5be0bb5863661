//! `function-patch-and-transform`: compositions of a few resources, most of them sound, some with a mistake.

mod by_hand;
mod earlier;
mod transforms;

use serde_json::{Map, Value, json};

use super::{Corpus, Difference, FATAL_RESULT, INVALID_INPUT, adds_nothing, never, no_files};
use crate::dice::Dice;

/// The cases.
pub(crate) const CORPUS: Corpus = Corpus {
    function: "function-patch-and-transform",
    generate,
    adapt: earlier::adapt,
    asks_formerly: never,
    files: no_files,
    by_hand: by_hand::cases,
    without_additions: adds_nothing,
    deliberate,
};

const ENVIRONMENT: &str = "apiextensions.crossplane.io/environment";
const NAMES: [&str; 4] = ["alpha", "beta", "gamma \"quoted\"", "delta"];

/// What a value is, so that most transforms fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Digits,
    Encoded,
    Json,
    Number,
    Bool,
    List,
    Object,
    Other,
}

fn generate(dice: &mut Dice) -> Value {
    let mut request = json!({
        "meta": {"tag": "t"},
        "observed": {"composite": composite(dice), "resources": observed(dice)},
        "input": input(dice)
    });
    if dice.chance(60) {
        request["desired"] = desired(dice);
    }
    if dice.chance(60) {
        request["context"] = context(dice);
    }
    if dice.chance(7) {
        spoil(dice, &mut request);
    }
    request
}

fn composite(dice: &mut Dice) -> Value {
    let mut resource = object(dice);
    if dice.chance(97) {
        resource["apiVersion"] = json!("example.org/v1");
        resource["kind"] = json!("XThing");
    }
    if dice.chance(25) {
        resource["spec"]["crossplane"] = dice.pick(&[json!({}), json!(null), json!({"a": 1})]).clone();
    }
    if dice.chance(15) {
        resource["spec"]["writeConnectionSecretToRef"] = dice
            .pick(&[
                json!({"name": "s", "namespace": "n"}),
                json!({"name": "s"}),
                json!(null),
                json!({"name": 1}),
                json!("x"),
            ])
            .clone();
    }
    json!({"resource": resource})
}

/// An object in which every path of [`SOURCES`] is likely to be found.
fn object(dice: &mut Dice) -> Value {
    let mut object = json!({
        "metadata": {"name": text(dice), "labels": {"team": text(dice), "a.b/c": text(dice)}},
        "spec": {
            "text": text(dice),
            "digits": dice.pick(&["42", "-7", "42", "12", "1000", "3.14", "1e3", "0", "1", "1", "true", "1_000", "9223372036854775808", "1.5Gi", "100m", "0x1p4", "inf", "nan", "12Ki"]),
            "encoded": dice.pick(&["aGVsbG8=", "aGVsbG8=", "aGVs
    bG8=", "/+8=", "aGVsbG8=", "aGk=", "aGVsbG8", "a", "!!!!", "aGVsbG8==", ""]),
            "json": dice.pick(&[r#"{"a":[1,2.5,1000000],"b":{"c":null}}"#, r#"[1,"x",{"y":1e6}]"#, "null", "{}", "[]", "5", "{oops"]),
            "number": number(dice),
            "other": {"number": number(dice)},
            "bool": dice.chance(50),
            "null": null,
            "list": list(dice),
            "nums": [number(dice), number(dice), number(dice)],
            "object": {"a": text(dice), "n": number(dice), "off": true, "on": false, "deep": {"x": [number(dice)], "y": null, "z": dice.chance(50)}, "l": list(dice)},
            "many": [{"name": "one", "v": number(dice)}, {"name": "two"}],
            "empty": {}
        },
        "status": {"ready": dice.chance(50), "count": number(dice), "phase": text(dice)}
    });
    if dice.chance(70) {
        object["metadata"]["namespace"] = json!("ns");
    }
    object
}

fn text(dice: &mut Dice) -> String {
    let texts = [
        "hello",
        "eu-west-1",
        "Héllo Wörld",
        "",
        "a/b/c",
        "<&>",
        "prefix-name-suffix",
        "%s %d",
        "ß İ ŉ ᾳ",
        "tab\there \"q\"",
        "name",
        "\u{1f600}",
        "123",
    ];
    (*dice.pick(&texts)).to_owned()
}

fn number(dice: &mut Dice) -> Value {
    let numbers = [
        json!(0),
        json!(1),
        json!(5),
        json!(-3),
        json!(42),
        json!(2.5),
        json!(-0.125),
        json!(1_000_000),
        json!(123_456_789_012_i64),
        json!(1e21),
        json!(0.000_001),
        json!(1e-7),
        json!(3.0),
        json!(9.3e18),
        json!(100_000),
        json!(255),
    ];
    dice.pick(&numbers).clone()
}

fn list(dice: &mut Dice) -> Value {
    let count = dice.below(4);
    (0..count)
        .map(|_| match dice.below(6) {
            0 => number(dice),
            1 => json!(null),
            2 => json!({"k": number(dice)}),
            3 => json!(dice.chance(50)),
            _ => json!(text(dice)),
        })
        .collect()
}

/// Paths that lead somewhere, with what is there.
const SOURCES: &[(&str, Kind)] = &[
    ("metadata.name", Kind::Text),
    ("metadata.labels[team]", Kind::Text),
    ("metadata.labels['a.b/c']", Kind::Text),
    ("spec.text", Kind::Text),
    ("spec.digits", Kind::Digits),
    ("spec.encoded", Kind::Encoded),
    ("spec.json", Kind::Json),
    ("spec.number", Kind::Number),
    ("spec.other.number", Kind::Number),
    ("spec.nums[1]", Kind::Number),
    ("spec.bool", Kind::Bool),
    ("spec.list", Kind::List),
    ("spec.nums", Kind::List),
    ("spec.object", Kind::Object),
    ("spec.object.deep", Kind::Object),
    ("spec.many[0]", Kind::Object),
    ("spec.many", Kind::List),
    ("spec.null", Kind::Other),
    ("status.phase", Kind::Text),
    ("status.count", Kind::Number),
];

const MISSING: &[&str] =
    &["spec.missing", "spec.list[99]", "spec.null.deep", "spec.missing.deep[0]", "status.no"];

const BROKEN: &[&str] =
    &["spec.text.deep", "spec..x", "spec[", "spec.list.x", "[0]", "spec.object[0]", "spec.text[0]"];

const TARGETS: &[&str] = &[
    "metadata.name",
    "metadata.annotations[x.y/z]",
    "spec.text",
    "spec.number",
    "spec.list",
    "spec.nums",
    "spec.object",
    "spec.new",
    "spec.new.deep",
    "spec.array[2]",
    "spec.array[0].name",
    "spec.object.deep",
    "spec.many[1].v",
    "spec.many[3]",
    "status.out",
    "data.key",
    "spec.nums[0]",
    "spec.empty",
    "spec.bool",
];

const WILDCARDS: &[&str] = &[
    "spec.many[*].v",
    "spec.many[*]",
    "spec.object[*]",
    "spec.nums[*]",
    "spec.missing[*].x",
    "spec.null[*]",
    "spec.text[*].x",
    "spec.many[*].name[*]",
];

fn pick_text(dice: &mut Dice, choices: &[&'static str]) -> &'static str {
    dice.pick::<&'static str>(choices)
}

fn from(dice: &mut Dice) -> (String, Kind) {
    match dice.below(100) {
        0..10 => ((*dice.pick(MISSING)).to_owned(), Kind::Other),
        10..11 => ((*dice.pick(BROKEN)).to_owned(), Kind::Other),
        _ => {
            let (path, kind) = *dice.pick(SOURCES);
            (path.to_owned(), kind)
        }
    }
}

fn to(dice: &mut Dice) -> &'static str {
    let choices: &[&'static str] = match dice.below(100) {
        0..6 => WILDCARDS,
        8..9 => BROKEN,
        9..10 => &["spec.a[1025]", "spec.a[1024]", "kind", ""],
        _ => TARGETS,
    };
    pick_text(dice, choices)
}

const COPIES: &[&str] =
    &["FromCompositeFieldPath", "ToCompositeFieldPath", "FromEnvironmentFieldPath", "ToEnvironmentFieldPath"];
const COMBINES: &[&str] =
    &["CombineFromComposite", "CombineToComposite", "CombineFromEnvironment", "CombineToEnvironment"];

fn patch(dice: &mut Dice, copies: &[&str], combines: &[&str]) -> Value {
    let mut patch = json!({});
    let mut kind = if dice.chance(75) {
        let chosen = *dice.pick(copies);
        if chosen != "FromCompositeFieldPath" || dice.chance(50) {
            patch["type"] = json!(chosen);
        }
        let (source, kind) = from(dice);
        patch["fromFieldPath"] = json!(source);
        if dice.chance(80) {
            patch["toFieldPath"] = json!(to(dice));
        }
        kind
    } else {
        patch["type"] = json!(dice.pick(combines));
        // Here a wildcard is a name, and a field of that name makes the original overflow its stack.
        patch["toFieldPath"] = json!(to(dice).replace("[*]", "[0]"));
        patch["combine"] = combine(dice);
        Kind::Text
    };
    let count = [0, 0, 0, 0, 0, 1, 1, 1, 2, 3][dice.below(10)];
    let mut transforms: Vec<_> = (0..count).map(|_| transforms::transform(dice, &mut kind)).collect();
    // What `%d` prints differs on purpose, which can be told only if nothing is made of it.
    let is_combined = patch.pointer("/combine/string/fmt").is_some_and(prints_whole);
    let end =
        transforms.iter().position(|transform| transform.pointer("/string/fmt").is_some_and(prints_whole));
    transforms.truncate(if is_combined { 0 } else { end.map_or(count, |end| end + 1) });
    if !transforms.is_empty() {
        patch["transforms"] = Value::Array(transforms);
    }
    if dice.chance(40) {
        patch["policy"] = policy(dice);
    }
    // Likewise, what goes to the environment may be made something of later.
    let is_for_environment = patch["type"].as_str().is_some_and(|kind| kind.contains("ToEnvironment"));
    if is_for_environment {
        replace_whole_verbs(&mut patch);
    }
    patch
}

fn replace_whole_verbs(patch: &mut Value) {
    if let Some(format) = patch.pointer_mut("/combine/string/fmt").filter(|format| prints_whole(format)) {
        *format = json!("%v");
    }
    let transforms = patch.get_mut("transforms").and_then(Value::as_array_mut);
    for transform in transforms.into_iter().flatten() {
        if let Some(format) = transform.pointer_mut("/string/fmt").filter(|format| prints_whole(format)) {
            *format = json!("%v");
        }
    }
}

fn policy(dice: &mut Dice) -> Value {
    let mut policy = Map::new();
    if dice.chance(50) {
        policy.insert("fromFieldPath".into(), json!(dice.pick(&["Required", "Optional"])));
    }
    if dice.chance(70) {
        let policies = [
            "Replace",
            "MergeObjects",
            "MergeObjectsAppendArrays",
            "ForceMergeObjects",
            "ForceMergeObjectsAppendArrays",
            "MergeObject",
            "AppendArray",
        ];
        policy.insert("toFieldPath".into(), json!(dice.pick(&policies)));
    }
    Value::Object(policy)
}

/// Whether a format has the verb for whole numbers.
fn prints_whole(format: &Value) -> bool {
    let parts = format.as_str().unwrap_or_default().split('%').skip(1);
    parts
        .into_iter()
        .any(|part| part.trim_start_matches(|letter: char| !letter.is_alphabetic()).starts_with('d'))
}

fn combine(dice: &mut Dice) -> Value {
    let count = 1 + dice.below(3);
    let variables: Vec<_> = (0..count).map(|_| json!({"fromFieldPath": from(dice).0})).collect();
    let mut format = String::new();
    for _ in 0..count {
        format.push_str(pick_text(dice, transforms::VERBS));
        format.push_str(pick_text(dice, &["-", "", " ", "é", "/", "%%"]));
    }
    if dice.chance(10) {
        format.push_str(pick_text(
            dice,
            &["%s", "%", "%[1]v", "%[9]d", "%!", "%*d", "%z", "%[2]*[1]d", "%.[2]*[1]f", "%[1]"],
        ));
    }
    json!({"strategy": "string", "string": {"fmt": format}, "variables": variables})
}

fn input(dice: &mut Dice) -> Value {
    let mut input = json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources"});
    let has_sets = dice.chance(40);
    if has_sets {
        input["patchSets"] = json!([
            {"name": "one", "patches": patches(dice, 2)},
            {"name": "two", "patches": patches(dice, 3)}
        ]);
    }
    if dice.chance(30) {
        let copies = COPIES;
        let count = dice.below(3);
        let patches = (0..count).map(|_| {
            let mut patch = patch(dice, copies, &COMBINES[..2]);
            replace_whole_verbs(&mut patch);
            patch
        });
        let patches = patches.collect();
        input["environment"] = json!({ "patches": Value::Array(patches) });
    }
    let count = 1 + dice.below(3);
    input["resources"] = (0..count).map(|at| template(dice, NAMES[at], has_sets)).collect();
    if dice.chance(20) {
        input["writeConnectionSecretToRef"] = secret_reference(dice);
    }
    input
}

fn patches(dice: &mut Dice, most: usize) -> Value {
    (0..dice.below(most + 1)).map(|_| patch(dice, COPIES, COMBINES)).collect()
}

fn template(dice: &mut Dice, name: &str, has_sets: bool) -> Value {
    let mut template = json!({"name": name, "patches": patches(dice, 3)});
    if dice.chance(90) {
        template["base"] = base(dice);
    }
    if has_sets && dice.chance(60) {
        let set = json!({"type": "PatchSet", "patchSetName": dice.pick(&["one", "two", "two", "one", "two", "one", "two", "one", "two", "one", "two", "none"])});
        template["patches"].as_array_mut().into_iter().for_each(|patches| patches.push(set.clone()));
    }
    if dice.chance(40) {
        template["connectionDetails"] = (0..=dice.below(3)).map(|_| connection_detail(dice)).collect();
    }
    if dice.chance(50) {
        template["readinessChecks"] = (0..dice.below(3)).map(|_| readiness_check(dice)).collect();
    }
    template
}

fn base(dice: &mut Dice) -> Value {
    let mut base = json!({
        "apiVersion": "example.org/v1", "kind": "Thing",
        "spec": {"text": text(dice), "number": number(dice), "list": list(dice), "nums": [1, 2, number(dice)],
            "object": {"a": text(dice), "n": 0, "kept": true, "off": false, "on": true, "l": ["x"], "deep": {"x": [1], "z": ""}},
            "many": [{"name": "first"}, {"name": "second", "v": 1}], "empty": {}, "null": null}
    });
    if dice.chance(30) {
        base["metadata"] = dice
            .pick(&[json!({"name": "base"}), json!({"namespace": "base"}), json!({}), json!(null)])
            .clone();
    }
    if dice.chance(1) {
        base["kind"] = dice.pick(&[json!(""), json!(null), json!(5)]).clone();
    }
    if dice.below(300) == 0 {
        base["apiVersion"] = json!("a/b/c");
    }
    base
}

fn connection_detail(dice: &mut Dice) -> Value {
    let name = dice.pick(&["username", "password", "port"]);
    match dice.below(3) {
        0 => json!({"name": name, "type": "FromValue", "value": text(dice)}),
        1 => {
            json!({"name": name, "type": "FromConnectionSecretKey", "fromConnectionSecretKey": dice.pick(&["user", "none", "blank"])})
        }
        _ => json!({"name": name, "type": "FromFieldPath", "fromFieldPath": from(dice).0}),
    }
}

fn readiness_check(dice: &mut Dice) -> Value {
    let path = if dice.chance(70) {
        dice.pick(&["status.phase", "status.ready", "spec.text"])
    } else {
        dice.pick(MISSING)
    };
    match dice.below(7) {
        0 => json!({"type": "None"}),
        1 => json!({"type": "NonEmpty", "fieldPath": from(dice).0}),
        2 => json!({"type": "MatchString", "fieldPath": path, "matchString": text(dice)}),
        3 => {
            json!({"type": "MatchInteger", "fieldPath": dice.pick(&["status.count", "status.none", "spec.text"]), "matchInteger": dice.pick(&[0, 1, 5, 42])})
        }
        4 => json!({"type": "MatchTrue", "fieldPath": path}),
        5 => json!({"type": "MatchFalse", "fieldPath": path}),
        _ => json!({"type": "MatchCondition", "matchCondition": {
            "type": dice.pick(&["Ready", "Synced", "Other"]), "status": dice.pick(&["True", "False", "Unknown"])
        }}),
    }
}

fn secret_reference(dice: &mut Dice) -> Value {
    let mut reference = json!({});
    if dice.chance(50) {
        reference["name"] = json!(dice.pick(&["secret", ""]));
    }
    if dice.chance(50) {
        reference["namespace"] = json!("elsewhere");
    }
    if dice.chance(50) {
        let mut patch = patch(dice, &["FromCompositeFieldPath"], &["CombineFromComposite"]);
        if dice.chance(80) {
            patch["toFieldPath"] = json!(dice.pick(&["name", "namespace"]));
        }
        reference["patches"] = json!([patch]);
    }
    reference
}

fn observed(dice: &mut Dice) -> Value {
    let mut resources = Map::new();
    for name in NAMES {
        if !dice.chance(50) {
            continue;
        }
        let mut resource = object(dice);
        resource["apiVersion"] = json!("example.org/v1");
        resource["kind"] = json!("Thing");
        if dice.chance(80) {
            resource["status"]["conditions"] = conditions(dice);
        }
        let mut entry = json!({"resource": resource});
        if dice.chance(60) {
            entry["connectionDetails"] = json!({"user": "YWRtaW4=", "blank": ""});
        }
        resources.insert(name.to_owned(), entry);
    }
    Value::Object(resources)
}

fn conditions(dice: &mut Dice) -> Value {
    let status = *dice.pick(&["True", "True", "False", "Unknown"]);
    let time =
        *dice.pick(&["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+01:00", "2024-02-30T00:00:00Z", "x"]);
    match dice.below(8) {
        0 => json!([]),
        1 => json!(null),
        2 => json!([{"type": "Ready", "status": status}, {"type": 1}]),
        3 => json!("none"),
        4 => json!([{"type": "Ready", "status": status, "lastTransitionTime": time}]),
        _ => {
            json!([{"type": "Synced", "status": "True"}, {"type": "Ready", "status": status, "reason": "Why",
            "lastTransitionTime": "2024-01-01T00:00:00Z", "observedGeneration": 3}])
        }
    }
}

fn desired(dice: &mut Dice) -> Value {
    let mut resources = Map::new();
    for name in ["alpha", "beta", "other"] {
        if dice.chance(40) {
            let mut resource = object(dice);
            if dice.chance(90) {
                resource["apiVersion"] = json!("example.org/v1");
                resource["kind"] = json!("Thing");
            }
            let mut entry = json!({"resource": resource, "ready": dice.pick(&["READY_TRUE", "READY_FALSE", "READY_UNSPECIFIED"])});
            if dice.chance(20) {
                entry["connectionDetails"] = json!({"lost": "eA=="});
            }
            resources.insert(name.to_owned(), entry);
        }
    }
    let mut desired = json!({"resources": resources});
    if dice.chance(60) {
        let mut composite = json!({"resource": {"status": {"phase": "x", "list": [1, 2]}, "spec": {"nums": [1, 5], "object": {"n": 1}}}});
        if dice.chance(50) {
            composite["connectionDetails"] = json!({"before": "eA=="});
        }
        if dice.chance(20) {
            composite["ready"] = json!("READY_TRUE");
        }
        desired["composite"] = composite;
    }
    desired
}

fn context(dice: &mut Dice) -> Value {
    let mut context = json!({"other": {"kept": 1}});
    if dice.chance(80) {
        let mut environment = object(dice);
        match dice.below(10) {
            0 => {}
            1 => environment["kind"] = json!("Custom"),
            2 => {
                environment["apiVersion"] =
                    dice.pick(&[json!("v1"), json!("a/b/c"), json!("/"), json!(5)]).clone();
            }
            3 => environment = dice.pick(&[json!("text"), json!(null), json!([])]).clone(),
            _ => {
                environment["apiVersion"] = json!("internal.crossplane.io/v1alpha1");
                environment["kind"] = json!("Environment");
            }
        }
        context[ENVIRONMENT] = environment;
    }
    context
}

/// Put a mistake somewhere into the input.
fn spoil(dice: &mut Dice, request: &mut Value) {
    let input = &mut request["input"];
    if dice.chance(5) {
        *input = json!({});
        return;
    }
    let mut places = Vec::new();
    collect(input, String::new(), &mut places);
    let place = dice.pick(&places).clone();
    let Some(value) = input.pointer_mut(&place) else { return };
    // Some panic in the original: a condition to match that is not there, a negative group.
    let choice = dice.below(6);
    *value = match choice {
        0 => json!(null),
        1 => json!("Unknown\"<"),
        2 => json!(""),
        3 => json!(5),
        4 => json!({}),
        _ => json!([]),
    };
    if place.ends_with("matchCondition") && choice != 4 {
        *value = json!({});
    }
    if place.ends_with("combine") && place.contains("writeConnection") {
        *value = json!({"strategy": "string", "string": {"fmt": "x"}, "variables": []});
    }
}

fn collect(value: &Value, path: String, places: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| {
            if key == "base" {
                return places.push(format!("{path}/base"));
            }
            collect(value, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), places);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| collect(item, format!("{path}/{at}"), places));
        }
        _ => {}
    }
    if !path.is_empty() {
        places.push(path);
    }
}

/// The differences we chose, one after the other: each is taken away before the next is looked for.
fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    let (mut theirs, mut ours) = (difference.theirs.clone(), difference.ours.clone());
    if let Some(failure) = theirs.as_str() {
        let is_text = !failure.contains("string field contains invalid UTF-8");
        return (!is_text)
            .then_some("bytes of a result that are not UTF-8 are replaced; the original fails the call");
    }
    let mut reason = None;
    for recognise in [counted, whole, aliased, explained] {
        if let Some(recognised) = recognise(&mut theirs, &mut ours) {
            reason = Some(recognised);
        }
    }
    reason.filter(|_| theirs == ours)
}

/// The original prints every number as a float, which `%d` does not take.
fn whole(theirs: &mut Value, ours: &mut Value) -> Option<&'static str> {
    const NAME: &str = "`%d` prints whole numbers";
    let mut reason = None;
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, theirs) in theirs {
                reason = ours.get_mut(key).and_then(|ours| whole(theirs, ours)).or(reason);
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            for (theirs, ours) in theirs.iter_mut().zip(ours) {
                reason = whole(theirs, ours).or(reason);
            }
        }
        (Value::String(theirs), Value::String(ours)) if theirs != ours && theirs.contains("%!d(float64=") => {
            theirs.clone_from(ours);
            reason = Some(NAME);
        }
        _ => {}
    }
    reason
}

/// The original cannot compare integers: it warns that the number is none, and the resource is never ready.
fn counted(theirs: &mut Value, ours: &mut Value) -> Option<&'static str> {
    let results = theirs.get_mut("results")?.as_array_mut()?;
    let count = results.len();
    let mut names = Vec::new();
    results.retain(|result| {
        let message = result["message"].as_str().unwrap_or_default();
        let name = message.strip_prefix("cannot check readiness of composed resource \"").filter(|_| {
            message.ends_with("status.count: not a (int64) number")
                || message.ends_with("status.replicas: not a (int64) number")
        });
        names.extend(
            name.and_then(|name| name.split_once("\": ")).map(|(name, _)| name.replace("\\\"", "\"")),
        );
        name.is_none()
    });
    if results.len() == count {
        return None;
    }
    if results.is_empty() {
        theirs.as_object_mut()?.remove("results");
    }
    // The check after it may fail for us, or the number may not be whole.
    if let Some(results) = ours.get_mut("results").and_then(Value::as_array_mut) {
        results.retain(|result| {
            let message = result["message"].as_str().unwrap_or_default();
            let start = "cannot check readiness of composed resource ";
            !names.iter().any(|name| {
                message.strip_prefix(start).is_some_and(|rest| rest.starts_with(&json!(name).to_string()))
            })
        });
        if results.is_empty() {
            ours.as_object_mut()?.remove("results");
        }
    }
    for name in names {
        if let Some(resource) = ours
            .pointer_mut("/desired/resources")
            .and_then(|all| all.get_mut(&name))
            .and_then(Value::as_object_mut)
        {
            resource.remove("ready");
        }
        if let Some(resource) = theirs
            .pointer_mut("/desired/resources")
            .and_then(|all| all.get_mut(&name))
            .and_then(Value::as_object_mut)
        {
            resource.remove("ready");
        }
    }
    Some("a readiness check of type MatchInteger works; in the original it never holds")
}

/// A fatal result leaves the desired state as it was; the original has added connection details by then.
fn aliased(theirs: &mut Value, ours: &mut Value) -> Option<&'static str> {
    let is_fatal = ours["results"].as_array()?.last()?["severity"] == "SEVERITY_FATAL";
    let details = ours["desired"]["composite"]["connectionDetails"].clone();
    let there = theirs.get_mut("desired")?.get_mut("composite")?.get_mut("connectionDetails")?;
    if !is_fatal || *there == details {
        return None;
    }
    *there = details;
    Some(FATAL_RESULT)
}

/// Messages with terms of Go, which ours replace.
fn explained(theirs: &mut Value, ours: &mut Value) -> Option<&'static str> {
    let message = |result: &Value| Some(result["message"].as_str()?.to_owned());
    let (go, rust) = (theirs["results"].as_array()?, ours.get_mut("results")?.as_array_mut()?);
    let mut reason = None;
    for (go, rust) in go.iter().zip(rust) {
        if let Some(found) = message(go).zip(message(rust)).and_then(|(go, rust)| explanation(&go, &rust)) {
            *rust = go.clone();
            reason = Some(found);
        }
    }
    reason
}

fn explanation(theirs: &str, ours: &str) -> Option<&'static str> {
    let both = |prefix: &str| theirs.starts_with(prefix) && ours.starts_with(prefix);
    if theirs == ours {
        return None;
    }
    if both("cannot get Function input: ") {
        return Some(INVALID_INPUT);
    }
    let plain = |text: &str| text.replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&");
    if both("invalid Function input: ") && plain(theirs) == plain(ours) {
        return Some("the value of an invalid field is printed as in later releases");
    }
    let by_default = "FromCompositeFieldPath";
    let untyped = |text: &str| text.replace(by_default, "");
    if both("invalid Function input: ") && !theirs.contains(by_default) && untyped(ours) == theirs {
        return Some("an error about a patch without a type names the default type, as in later releases");
    }
    let spaceless = |text: &str| text.replace(' ', "");
    if both("cannot parse base template of composed resource ") && spaceless(theirs) == spaceless(ours) {
        return Some("a base without a kind is printed without the random spaces of Go's protobuf library");
    }
    let chance = "cannot append two slices with different type ";
    if let (Some((theirs, _)), Some((ours, _))) = (theirs.split_once(chance), ours.split_once(chance))
        && theirs == ours
    {
        return Some(
            "the error about several fields that cannot be appended to names the first, not a random one",
        );
    }
    let syntax = "convert transform could not resolve: ";
    let (theirs, go) = theirs.split_once(syntax)?;
    let is_json = go.contains("invalid character") || go.contains("unexpected end of JSON input");
    (theirs == ours.split_once(syntax)?.0 && is_json)
        .then_some("invalid JSON is reported with its line and column")
}
