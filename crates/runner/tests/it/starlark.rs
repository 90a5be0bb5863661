//! Functions in Starlark. Skipped, and the skip is printed, where the interpreter was not built (`cargo xtask guests`).

use std::path::Path;

use ferroplane_functions::{Library, check_scripts, prepare_scripts};
use ferroplane_runner::{CallError, Directory, enable_starlark, has_starlark};
use ferroplane_testkit::skip;
use ferroplane_wire::v1::RunFunctionResponse;
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

mod original;

const FUNCTION: &str = "function-starlark-v0.1.0";

/// The functions that are built in. Nothing where there is no interpreter.
fn functions() -> Option<Directory> {
    if !has_starlark() {
        skip("guests/built/starlark.wasm is not there, `cargo xtask guests` builds it");
        return None;
    }
    // The interpreter takes seconds to compile.
    enable_starlark(Some(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests-cache/ferroplane/wasm"),
    ));
    prepare_scripts();
    Some(Directory::built_in(&Library::built_in().unwrap()))
}

/// Runs a script. Nothing where there is no interpreter.
fn run(input: Value, request: Value) -> Option<Result<RunFunctionResponse, CallError>> {
    let functions = functions()?;
    let mut request = request;
    request["input"] = input;
    let request = from_json(&request).unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Some(tokio.block_on(functions.call(FUNCTION, &request)))
}

fn answer(input: Value, request: Value) -> Option<Value> {
    Some(to_json(&run(input, request)?.unwrap()).unwrap())
}

fn source(source: &str) -> Value {
    json!({"apiVersion": "starlark.fn.crossplane.io/v1alpha1", "kind": "StarlarkInput", "spec": {"source": source}})
}

fn xr(spec: &Value) -> Value {
    json!({"meta": {"tag": "t"}, "observed": {"composite": {"resource": {"apiVersion": "example.org/v1", "kind": "XR",
        "metadata": {"name": "x", "annotations": {"crossplane.io/external-name": "ext"}}, "spec": spec}}, "resources": {}},
        "desired": {"resources": {}}})
}

#[test]
fn main_takes_a_request_and_returns_a_response() {
    // As design 001 shows it, in the syntax that Starlark has for dictionaries.
    let script = r#"
def main(req):
  rsp = {"desired": req["desired"]}
  xr = req["observed"]["composite"]["resource"]
  for i in range(int(xr["spec"]["count"])):
    name = "robot-{}".format(i)
    if name in req["observed"]["resources"]:
      rsp["desired"]["resources"][name] = req["observed"]["resources"][name]
      continue
    rsp["desired"]["resources"][name] = {"resource": {
      "apiVersion": "iam.dummy.upbound.io/v1alpha1", "kind": "Robot",
      "metadata": {"annotations": {"crossplane.io/external-name": "{parent}-robot-{number}".format(
        parent=xr["metadata"]["annotations"]["crossplane.io/external-name"], number=i)}},
      "spec": {"forProvider": {"color": "purple"}}}}
  return rsp
"#;
    let input = json!({"apiVersion": "example.org/v1", "kind": "StarlarkScript", "script": script});
    // Nothing is observed and nothing is desired yet.
    let Some(response) = answer(input.clone(), xr(&json!({"count": 2}))) else { return };
    let robot = &response["desired"]["resources"]["robot-1"]["resource"];
    assert_eq!(robot["metadata"]["annotations"]["crossplane.io/external-name"], "ext-robot-1", "{response}");
    assert_eq!(response["meta"]["tag"], "t");

    let mut request = xr(&json!({"count": 2}));
    let blue = json!({"apiVersion": "iam.dummy.upbound.io/v1alpha1", "kind": "Robot",
        "metadata": {"name": "x-1"}, "spec": {"forProvider": {"color": "blue"}}});
    request["observed"]["resources"] = json!({"robot-0": {"resource": blue}});
    let response = answer(input, request).unwrap();

    let robots = &response["desired"]["resources"];
    assert_eq!(robots["robot-0"]["resource"], blue, "what exists is desired as it is: {response}");
    assert_eq!(robots["robot-1"]["resource"]["spec"]["forProvider"]["color"], "purple");
}

#[test]
fn script_composes_by_calling() {
    let script = r#"
region = get(oxr, "spec.region", "us-east-1")
ref = Resource("bucket", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"region": region}}, ready = True,
    external_name = "b", connection_details = {"url": "s3://é"})
Resource("later", {}, when = False, skip_reason = "not yet")
set_xr_status("bucket.name", ref.name)
set_condition("Checked", "True", "Fine", "all is well")
emit_event("Normal", "composed %s" % ref.name)
context["seen"] = True
print("a line")
"#;

    let Some(response) = answer(source(script), xr(&json!({"region": "eu"}))) else { return };

    let bucket = &response["desired"]["resources"]["bucket"];
    assert_eq!(bucket["resource"]["data"]["region"], "eu", "{response}");
    assert_eq!(bucket["resource"]["metadata"]["labels"], json!({"crossplane.io/composite": "x"}));
    assert_eq!(bucket["resource"]["metadata"]["annotations"], json!({"crossplane.io/external-name": "b"}));
    assert_eq!(bucket["ready"], "READY_TRUE");
    let composite = &response["desired"]["composite"];
    assert_eq!(composite["resource"]["status"]["bucket"]["name"], "bucket");
    assert_eq!(composite["ready"], "READY_FALSE", "a resource that was skipped has to come yet");
    assert_eq!(composite["connectionDetails"]["url"], "czM6Ly/DqQ==");
    assert_eq!(response["context"]["seen"], true);
    let messages =
        response["results"].as_array().unwrap().iter().map(|result| result["message"].as_str().unwrap());
    assert_eq!(messages.collect::<Vec<_>>(), ["skipping resource \"later\": not yet", "composed bucket"]);
}

/// As `builtins/dict.go` and `builtins/encoding.go` of the community's function have it (commit 8812579).
#[test]
fn dict_and_encoding_have_the_functions_of_the_community_s_function() {
    let script = r#"
a = {"x": {"y": 1, "z": None}, "l": [1]}
context["dict"] = {
    "merge": dict.merge(a, {"x": 2}),
    "deep_merge": dict.deep_merge(a, {"x": {"w": 3}, "l": [2]}),
    "pick": dict.pick(a, ["l", "none"]),
    "omit": dict.omit(a, ["x"]),
    "compact": dict.compact({"a": None, "b": [{"c": None, "d": ""}], "e": {}}),
    "dig": [dict.dig(a, "x.y"), dict.dig(a, "x.none", "d"), dict.dig(a, "x.z", default = "d")],
    "has_path": [dict.has_path(a, "x.z"), dict.has_path(a, "x.y.q")],
    "itself": dict(k = dict.merge(a, {"x": {"q": "w"}}).x.q),
}
context["encoded"] = [encoding.b64enc("hello"), encoding.b64url_enc("ports?a=1&b~c"), encoding.b32enc("hello"),
    encoding.hex_enc(data = "hello"), encoding.b64enc("")]
context["decoded"] = [encoding.b64dec("aGVs\nbG8="), encoding.b64url_dec("cG9ydHM_YT0xJmJ-Yw"),
    encoding.b32dec("NBSWY3DP"), encoding.hex_dec("68656C6c6f")]
"#;
    let Some(response) = answer(source(script), xr(&json!({}))) else { return };
    let context = &response["context"];
    assert_eq!(
        context["dict"],
        json!({
            "merge": {"x": 2, "l": [1]},
            "deep_merge": {"x": {"y": 1, "z": null, "w": 3}, "l": [2]},
            "pick": {"l": [1]},
            "omit": {"l": [1]},
            "compact": {"b": [{"d": ""}], "e": {}},
            "dig": [1, "d", null],
            "has_path": [true, false],
            "itself": {"k": "w"},
        }),
        "{response}"
    );
    assert_eq!(context["encoded"], json!(["aGVsbG8=", "cG9ydHM_YT0xJmJ-Yw", "NBSWY3DP", "68656c6c6f", ""]));
    assert_eq!(context["decoded"], json!(["hello", "ports?a=1&b~c", "hello", "hello"]));
    for (script, problem) in [
        ("dict.dig({}, 'a..b')", "dict.dig: malformed path"),
        ("dict.pick(None, [])", "dict.pick: got NoneType, want dict"),
        ("encoding.b64dec('aGVsbG8')", "the text is not base64"),
        ("encoding.b32dec('1')", "the text is not base32"),
        ("encoding.hex_dec('abc')", "the text is not hex"),
        ("encoding.hex_dec('ff')", "is not text in UTF-8"),
    ] {
        let message = fatal(script).unwrap();
        assert!(message.contains(problem), "{script}: {message}");
    }
}

#[test]
fn name_dict_can_be_given_to_something_else() {
    let script = r#"
def parameter(dict):
    return dict.pick
def assigned(value):
    dict = value
    return dict.omit
def looped(values):
    for dict in values:
        return dict.dig
function = lambda dict: dict.compact
context["seen"] = [
    parameter({"pick": 1}), assigned({"omit": 2}), looped([{"dig": 3}]), function({"compact": 4}),
    [dict.merge for dict in [dict.merge({"merge": 5}, {})]], {dict.merge: 6 for dict in [{"merge": "k"}]},
    dict.pick({"a": 7, "b": 8}, ["a"]),
]
"#;
    let Some(response) = answer(source(script), xr(&json!({}))) else { return };
    assert_eq!(response["context"]["seen"], json!([1, 2, 3, 4, [5], {"k": 6}, {"a": 7}]), "{response}");

    for load in ["load('lib.star', 'dict', 'own')", "load('lib.star', '*')"] {
        let mut input = source(&format!("{load}\ncontext['seen'] = [dict.pick, own]"));
        input["spec"]["modules"] = json!({"lib.star": "dict = {'pick': 8}\nown = dict.pick\n"});
        let response = answer(input, xr(&json!({}))).unwrap();
        assert_eq!(response["context"]["seen"], json!([8, 8]), "{load}: {response}");
    }
}

#[test]
fn modules_are_loaded() {
    let mut input = source("load(\"lib.star\", \"named\")\nResource(\"a\", named(\"n\"))");
    input["spec"]["modules"] =
        json!({"lib.star": "def named(name):\n  return {\"metadata\": {\"name\": name}}\n"});

    let Some(response) = answer(input, xr(&json!({}))) else { return };

    assert_eq!(response["desired"]["resources"]["a"]["resource"]["metadata"]["name"], "n", "{response}");
}

#[test]
fn script_in_a_config_map_is_asked_for() {
    let input = json!({"kind": "StarlarkInput", "spec": {"scriptConfigRef": {"name": "scripts"}}});
    let Some(response) = answer(input.clone(), xr(&json!({}))) else { return };
    let (name, selector) = response["requirements"]["resources"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(selector["matchName"], "scripts", "{response}");

    let mut request = xr(&json!({}));
    request["requiredResources"][name] =
        json!({"items": [{"resource": {"data": {"main.star": "Resource('a', {'kind': 'A'})"}}}]});
    let response = answer(input, request).unwrap();

    assert_eq!(response["desired"]["resources"]["a"]["resource"]["kind"], "A", "{response}");
}

/// What stops the pipeline.
fn fatal(script: &str) -> Option<String> {
    let response = answer(source(script), xr(&json!({})))?;
    assert_eq!(response["results"][0]["severity"], "SEVERITY_FATAL", "{response}");
    Some(response["results"][0]["message"].as_str().unwrap().to_owned())
}

#[test]
fn failures_say_where() {
    let Some(message) = fatal("x = 1\ny = x + 'a'\n") else { return };
    assert!(message.starts_with("cannot run the script: main.star:2:5: "), "{message}");
    assert_eq!(fatal("fatal('no region')").unwrap(), "no region");
    assert!(fatal("def f(:\n").unwrap().starts_with("invalid Function input: spec.source: main.star:1:"));
    assert!(fatal("load('other.star', 'x')").unwrap().contains("there is no module `other.star`"));
    assert!(fatal("open('/etc/passwd')").unwrap().contains("open"));
}

/// What runs is not in each letter what was written, and messages have the places of what was written.
#[test]
fn failures_say_where_also_in_modules_and_behind_fields() {
    let failure = |script: &str, modules: Value| {
        let mut input = source(script);
        input["spec"]["modules"] = modules;
        let response = answer(input, xr(&json!({"region": "eu"})))?;
        Some(response["results"][0]["message"].as_str().unwrap().to_owned())
    };
    let library = json!({
        "lib.star": "load('base.star', '*')\n\ndef f():\n  '''Text\nof lines.'''\n  return base + 1\n",
        "base.star": "base = oxr.spec.region\ndef g():\n  fail('no')\n",
    });
    for (script, place) in [
        ("x = oxr.spec.region; y = [1,\n  x + 1]", "main.star:2:3: "),
        ("y = (oxr.spec\n  .region) + oxr.spec.missing.deeper", "main.star:2:14: "),
        ("load('lib.star', 'f')\nf()", "lib.star:6:10: "),
        ("load('base.star', ns='*')\nns.g()", "base.star:3:3: "),
        ("def f():\n  Resource('a', 'text')\n\nf()", "main.star:2:3: "),
        ("\nload('lib.star', 'no')", "main.star:2:18: module `lib.star` has no `no`"),
        ("load('no.star', 'x')", "main.star:1:6: there is no module `no.star`"),
    ] {
        let Some(message) = failure(script, library.clone()) else { return };
        assert!(message.starts_with(&format!("cannot run the script: {place}")), "{script}: {message}");
    }
    let circle = json!({"a.star": "load('b.star', '*')", "b.star": "load('a.star', '*')"});
    let message = failure("load('a.star', '*')", circle).unwrap();
    assert_eq!(message, "cannot run the script: b.star:1:6: module `a.star` loads itself");
}

#[test]
fn modules_keep_their_names_to_themselves() {
    let mut input = source(
        "load('a.star', 'a')\nload('b.star', 'b')\nenvironment = {'e': 'own'}\n\
         context['seen'] = [a(), b(), environment['e']]",
    );
    input["spec"]["modules"] = json!({
        "a.star": "_own = 'a'\ndef a():\n  return _own + str(len(environment))\n",
        "b.star": "_own = 'b'\ndef b():\n  return _own + get(oxr, 'spec.region')\n",
    });
    let Some(response) = answer(input, xr(&json!({"region": "eu"}))) else { return };
    assert_eq!(response["context"]["seen"], json!(["a0", "beu", "own"]), "{response}");
}

#[test]
fn syntax_errors_are_found_without_running() {
    let Some(_) = functions() else { return };
    let mut input = source("x = 1\nfatal('not run')\n");
    input["spec"]["modules"] = json!({"lib.star": "def f():\n  return 1\n\ndef g(:\n"});
    // What is elsewhere is not there to be read.
    input["spec"]["modulePaths"] = json!(["lib"]);

    let mistakes = check_scripts(&from_json(&json!({"input": input})).unwrap());

    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert_eq!((mistakes[0].file.as_str(), mistakes[0].line), ("lib.star", Some(4)));
    assert_eq!(mistakes[0].field, "spec.modules[lib.star]");
}

#[test]
fn input_mistakes_name_the_field_and_its_line() {
    let Some(_) = functions() else { return };
    let library = Library::built_in().unwrap();
    let mistakes = |input: &Value| {
        library.input_mistakes("function-starlark", &"v0.1.0".parse().unwrap(), input.as_object())
    };
    for (input, field) in [
        (json!({"script": "x = 1\ndef f(:\n"}), "script"),
        (json!({"inline": "x = 1\ndef f(:\n"}), "inline"),
        (source("x = 1\ndef f(:\n"), "spec.source"),
    ] {
        let found = mistakes(&input);
        assert_eq!((found[0].field.as_str(), found[0].line), (field, Some(2)), "{found:?}");
    }
    assert!(mistakes(&json!({"spec": {}}))[0].message.contains("there is no script"));
    assert_eq!(mistakes(&source("Resource('a', {})")), []);
}

#[test]
fn modules_are_loaded_from_directories_that_the_step_requires() {
    let mut input = source(
        "load(\"lib.star\", \"named\")\nResource(\"a\", named(\"n\"))\ncontext['seen'] = list(extra_resources)",
    );
    input["spec"]["modulePaths"] = json!(["/scripts/lib"]);
    let Some(response) = answer(input.clone(), xr(&json!({}))) else { return };
    let message = response["results"][0]["message"].as_str().unwrap();
    assert!(message.contains("with the requirementName `/scripts/lib`"), "{message}");

    let mut request = xr(&json!({}));
    let file = json!({"lib.star": "def named(name):\n  return {\"metadata\": {\"name\": name}}\n"});
    request["requiredResources"]["/scripts/lib"] = json!({"items": [{"resource": {"data": file}}]});
    let response = answer(input, request).unwrap();

    assert_eq!(response["desired"]["resources"]["a"]["resource"]["metadata"]["name"], "n", "{response}");
    assert_eq!(response["context"]["seen"], json!([]), "files are no resources to the script");
}

#[test]
fn resource_waits_for_what_it_depends_on_and_stays_once_it_exists() {
    let script = "a = Resource('a', {'kind': 'A'})\nResource('b', {'kind': 'B'}, depends_on = [a])\n\
                  Resource('c', {'kind': 'C'}, depends_on = [('a', 'status.id')])";
    let Some(response) = answer(source(script), xr(&json!({}))) else { return };
    let names = |response: &Value| {
        response["desired"]["resources"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&response), ["a"], "{response}");
    assert_eq!(response["desired"]["composite"]["ready"], "READY_FALSE");

    let mut request = xr(&json!({}));
    request["observed"]["resources"] = json!({"a": {"resource": {"kind": "A"}}});
    assert_eq!(names(&answer(source(script), request.clone()).unwrap()), ["a", "b"]);

    request["observed"]["resources"]["a"]["resource"]["status"] = json!({"id": "1"});
    assert_eq!(names(&answer(source(script), request).unwrap()), ["a", "b", "c"]);

    let mut request = xr(&json!({}));
    request["observed"]["resources"] = json!({"b": {"resource": {"kind": "B"}}});
    assert_eq!(
        names(&answer(source(script), request).unwrap()),
        ["a", "b"],
        "what exists must not be deleted"
    );
}

/// A script whose resource `b` depends on `a`.
const DEPENDENT: &str =
    "a = Resource('a', {'kind': 'A'})\nResource('b', {'kind': 'B'}, depends_on = [a, None])";

/// A request of a composite resource that composed `a` and `b` already, in these namespaces.
fn observing(a: Option<&str>, b: Option<&str>) -> Value {
    let mut request = xr(&json!({}));
    request["observed"]["resources"] =
        json!({"a": {"resource": object("A", a)}, "b": {"resource": object("B", b)}});
    request
}

fn object(kind: &str, namespace: Option<&str>) -> Value {
    let mut object =
        json!({"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": format!("x-{kind}")}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

#[test]
fn dependency_is_protected_by_a_usage_once_both_objects_exist() {
    let request = observing(Some("shop"), Some("shop"));
    let Some(response) = answer(source(DEPENDENT), request) else { return };
    let reference = |kind: &str| json!({"apiVersion": "example.org/v1", "kind": kind, "resourceRef": {"name": format!("x-{kind}")}});
    let spec = json!({"of": reference("A"), "by": reference("B"), "replayDeletion": true});
    let expected = json!({"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage",
        "metadata": {"namespace": "shop"}, "spec": spec});
    let usage = &response["desired"]["resources"]["b-a-usage"];
    assert_eq!((&usage["resource"], &usage["ready"]), (&expected, &json!("READY_TRUE")), "{response}");

    let usage = |input: Value, request: Value| {
        answer(input, request).unwrap()["desired"]["resources"]["b-a-usage"].take()
    };
    let cluster_scoped = usage(source(DEPENDENT), observing(None, None));
    assert_eq!(cluster_scoped["resource"]["kind"], "ClusterUsage");
    assert_eq!(cluster_scoped["resource"].get("metadata"), None);

    let mut old = source(DEPENDENT);
    old["spec"]["usageAPIVersion"] = "v1".into();
    let old = usage(old, observing(None, None));
    assert_eq!(old["resource"]["apiVersion"], "apiextensions.crossplane.io/v1beta1");

    let request = observing(Some("shop"), Some("other"));
    let response = answer(source(DEPENDENT), request).unwrap();
    assert_eq!(response["desired"]["resources"].get("b-a-usage"), None, "a Usage is for one namespace");
    assert_eq!(response["results"][0]["severity"], "SEVERITY_WARNING", "{response}");
}

#[test]
fn resources_that_depend_on_each_other_are_refused() {
    let script = "Resource('a', {'kind': 'A'}, depends_on = ['c'])\nResource('b', {'kind': 'B'}, depends_on = ['a'])\n\
                  Resource('c', {'kind': 'C'}, depends_on = ['b'])\nResource('d', {'kind': 'D'})";
    let Some(message) = fatal(script) else { return };
    assert_eq!(message, "these resources depend on each other: a, b, c");

    let chain = "Resource('r0', {'kind': 'A'})\n\
                 [Resource('r%d' % i, {'kind': 'A'}, depends_on = ['r%d' % (i - 1)]) for i in range(1, 500)]";
    let response = answer(source(chain), xr(&json!({}))).unwrap();
    assert!(response.get("results").is_none(), "{response}");
}

#[test]
fn response_has_the_time_to_live_that_the_script_sets() {
    let ttl = |script: &str| {
        let response = run(source(script), xr(&json!({})))?.unwrap();
        Some(response.meta.unwrap().ttl.map(|ttl| (ttl.seconds, ttl.nanos)))
    };
    let Some(unset) = ttl("Resource('a', {'kind': 'A'})") else { return };
    assert_eq!(unset, None);
    for (duration, expected) in [
        ("'1m30s'", (90, 0)),
        ("'1.5s'", (1, 500_000_000)),
        ("'2h'", (7200, 0)),
        ("30", (30, 0)),
        ("duration = '5m'", (300, 0)),
        ("0", (0, 0)),
        // It would have the composite resource reconciled without pause.
        ("'5ms'", (1, 0)),
    ] {
        assert_eq!(ttl(&format!("set_response_ttl({duration})")).unwrap(), Some(expected), "{duration}");
    }
    for wrong in ["'soon'", "''", "'-1s'", "'1'", "'1.s.s'", "-1", "'9999999999h'", "[1]"] {
        let message = fatal(&format!("set_response_ttl({wrong})")).unwrap();
        assert!(message.contains("expected a duration such as 1m30s"), "{wrong}: {message}");
    }
    let main = "def main(req):\n  return {'meta': {'ttl': '20s'}, 'desired': {}}";
    let response = run(json!({"script": main}), xr(&json!({}))).unwrap().unwrap();
    assert_eq!(response.meta.unwrap().ttl.unwrap().seconds, 20);
}

#[test]
fn same_request_has_the_same_answer() {
    let script = "Resource('a', {'data': {str(i): str(hash(str(i))) for i in range(20)}})\nprint(dir(oxr))";
    let Some(first) = answer(source(script), xr(&json!({}))) else { return };
    assert_eq!(answer(source(script), xr(&json!({}))).unwrap(), first);
}

#[test]
fn hostile_scripts_are_stopped() {
    let scripts = [
        "def f():\n  for i in range(1000000000):\n    pass\nf()",
        "x = [[0] * 1000 for i in range(10000) for j in range(10000)]",
        "x = sorted([str(i) * 100 for i in range(1000000)])",
        "def f():\n  for i in range(1000000000):\n    print('a' * 1000)\nf()",
        "for i in range(3):\n  Resource('a%d' % i, {'x': 'a' * 20000000})",
        "x = '%s' * 10000000 % tuple(range(10000000))",
        "x = json.decode('[' * 100000)",
        "x = 'a'.join([str(i) for i in range(100000000)])",
        "x = {i: {j: j for j in range(1000)} for i in range(100000)}",
        "def f(x):\n  f(x)\n  f(x)\nf(1)",
        "def f(n):\n  return f(n + 1)\nf(0)",
        "x = 'a' * (1 << 33)",
        "x = [0] * (1 << 30)",
        "x = list(range(300000000))",
        "def f():\n  x = 'a'\n  for i in range(40):\n    x = x + x\nf()",
        "def f():\n  x = 3\n  for i in range(40):\n    x = x * x\nf()",
        "def f():\n  x = []\n  for i in range(200000):\n    x = [x]\n  return x\ncontext['deep'] = f()",
    ];
    let nested = [format!("x = {}1{}", "(".repeat(50_000), ")".repeat(50_000)), "[".repeat(100_000)];
    for script in scripts.iter().map(ToString::to_string).chain(nested) {
        let Some(result) = run(source(&script), xr(&json!({}))) else { return };
        let is_stopped = match &result {
            Ok(response) => response.results.iter().any(|result| result.severity == 1),
            Err(_) => true,
        };
        assert!(is_stopped, "{}: {result:?}", script.chars().take(80).collect::<String>());
    }
    // The interpreter is not the worse for it.
    let response = answer(source("Resource('a', {'kind': 'A'})"), xr(&json!({}))).unwrap();
    assert_eq!(response["desired"]["resources"]["a"]["resource"]["kind"], "A");
}

/// Scripts that take all the time they can get, for some composite resources, do not delay that of another.
#[test]
fn endless_scripts_do_not_delay_others() {
    let Some(functions) = functions() else { return };
    let request = |uid: &str, script: &str| {
        let mut request = xr(&json!({}));
        request["observed"]["composite"]["resource"]["metadata"]["uid"] = json!(uid);
        request["input"] = source(script);
        from_json(&request).unwrap()
    };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let endless = "def f():\n  x = 3\n  for i in range(40):\n    x = x * x\nf()";
        let mut hostile = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (functions, request) = (functions.clone(), request(&format!("hostile-{number}"), endless));
            hostile.spawn(async move { functions.call(FUNCTION, &request).await });
        }
        for number in 0..3 {
            let script = format!("Resource('a', {{'kind': 'A{number}'}})");
            let response = functions.call(FUNCTION, &request("good", &script)).await.unwrap();
            assert!(response.results.is_empty(), "{response:?}");
        }
        assert!(hostile.try_join_next().is_none(), "one that never ends has ended before another that does");
        // A caller that gives up has the calls stopped.
        hostile.shutdown().await;
    });
}
