//! Templates over requests, and what becomes of what they print.

mod limits;
mod lookups;
mod options;
mod releases;
mod yaml;

use std::time::Duration;

use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use super::*;

fn answer_as(release: Release, request: &Value) -> Value {
    let elapsed = || Duration::ZERO;
    to_json(&run_as(release, &from_json(request).unwrap(), Effort::Full(&elapsed)).unwrap()).unwrap()
}

fn inline(template: &str) -> Value {
    json!({"source": "Inline", "inline": {"template": template}})
}

fn request(template: &str) -> Value {
    json!({
        "observed": {
            "composite": {"resource": {"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "shop"}, "spec": {"count": 3}}},
            "resources": {"db.main": {"resource": {"kind": "Db", "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Available"}]}}}}
        },
        "input": inline(template)
    })
}

fn answer(template: &str) -> Value {
    answer_as(Release::V0_12, &request(template))
}

fn fatal(template: &str) -> String {
    let answer = answer(template);
    answer["results"][0]["message"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned()
}

fn named(name: &str, rest: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    {RESOURCE_NAME}: {name}\n{rest}")
}

/// What a template prints for a request.
fn printed(template: &str, request: &Value) -> Result<String, Problem> {
    let input = ferroplane_wire::Struct::try_from(inline(template).as_object().unwrap().clone()).unwrap();
    let prepared = Prepared::read(&input, Release::V0_12).unwrap();
    let request = from_json(request).unwrap();
    let elapsed = || Duration::ZERO;
    let attempt = Attempt::new(Effort::Full(&elapsed));
    prepared.with_templates(&request, |parsed, request| {
        let call = Call { request: &request, prepared: &prepared, attempt: &attempt };
        Ok(execute(parsed, &call)?.text().to_owned())
    })
}

use documents::RESOURCE_NAME;

#[test]
fn documents_become_composed_resources() {
    let first = named("a", "data: {count: '{{ .observed.composite.resource.spec.count }}'}");
    let second = named("b", "    gotemplating.fn.crossplane.io/ready: \"True\"");
    let answer = answer(&format!("{first}\n---\n# nothing\n---\n{second}\n"));
    assert_eq!(
        answer["desired"]["resources"],
        json!({
            "a": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {}}, "data": {"count": "3"}}},
            "b": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {}}}, "ready": "READY_TRUE"},
        })
    );
}

#[test]
fn document_of_the_composite_resource_sets_its_status() {
    let xr = "apiVersion: example.org/v1\nkind: App\nmetadata: {annotations: {gotemplating.fn.crossplane.io/ready: 'False'}}\nstatus: {a: {b: 1}}\n";
    let mut request = request(xr);
    request["desired"] = json!({"composite": {"resource": {"status": {"a": {"c": 2}, "d": 3}}}});
    let composite = json!({"resource": {"status": {"a": {"b": 1, "c": 2}, "d": 3}}, "ready": "READY_FALSE"});
    assert_eq!(answer_as(Release::V0_12, &request)["desired"]["composite"], composite);
    let before = &answer_as(Release::V0_11, &request)["desired"]["composite"];
    assert_eq!(before["ready"], Value::Null, "older releases leave readiness alone");
}

#[test]
fn helpers_look_things_up() {
    let cases = [
        ("{{ (getComposedResource . \"db.main\").kind }}", "Db"),
        ("{{ (getCompositeResource .).metadata.name }}", "shop"),
        ("{{ (getResourceCondition \"Ready\" (getComposedResource . \"db.main\")).Status }}", "True"),
        (
            "{{ (getResourceCondition \"Ready\" (index .observed.resources \"db.main\")).Reason }}",
            "Available",
        ),
        ("{{ (getResourceCondition \"Synced\" .).Status }}", "Unknown"),
        ("{{ getComposedResource . \"nope\" }}", "map[]"),
        ("{{ len (getExtraResources . \"nope\") }}", "0"),
        ("{{ toYaml (fromYaml \"{b: 1, a: [yes]}\") }}", "a:\n    - \"yes\"\nb: 1\n"),
        ("{{ define \"x\" }}<{{ . }}>{{ end }}{{ include \"x\" 1 | len }}", "3"),
        ("<{{ getCompositeResource . | getExternalName }}>", "<>"),
        (
            "{{ getExternalName (dict \"metadata\" (dict \"annotations\" (dict \"crossplane.io/external-name\" \"x\"))) }}",
            "x",
        ),
        (
            "{{ getExternalName (dict \"resource\" (dict \"metadata\" (dict \"annotations\" (dict \"crossplane.io/external-name\" \"y\")))) }}",
            "y",
        ),
    ];
    for (template, text) in cases {
        assert_eq!(printed(template, &request("")).as_deref(), Ok(text), "{template}");
    }
}

#[test]
fn mistakes_are_told_as_the_original_tells_them() {
    let cases = [
        (
            "{{ .a",
            "invalid function input: cannot parse the provided templates: template: manifests:1: unclosed action",
        ),
        (
            "{{ nope }}",
            "invalid function input: cannot parse the provided templates: template: manifests:1: function \"nope\" not defined",
        ),
        (
            "{{ env \"HOME\" }}",
            "invalid function input: cannot parse the provided templates: template: manifests:1: function \"env\" not defined",
        ),
        (
            "{{ len 3 }}",
            "cannot execute template: template: manifests:1:3: executing \"manifests\" at <len 3>: error calling len: len of type int",
        ),
        (
            "kind: A",
            "\"A\" template is missing required \"gotemplating.fn.crossplane.io/composition-resource-name\" annotation",
        ),
        (
            "a: b",
            "cannot decode manifest: error unmarshaling JSON: while decoding JSON: Object 'Kind' is missing in '{\"a\":\"b\"}'",
        ),
        (
            "kind: A\nmetadata: {annotations: {a: 1}}",
            "invalid annotations in resource '/, Kind=A resource-name=<nil>': .metadata.annotations accessor error: contains non-string value in the map under key \"a\": 1 is of the type int64, expected string",
        ),
        (
            "apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1\nkind: X",
            "invalid kind \"X\" for apiVersion \"meta.gotemplating.fn.crossplane.io/v1alpha1\" - must be one of CompositeConnectionDetails, Context or ExtraResources",
        ),
    ];
    for (template, message) in cases {
        let told = fatal(template);
        // What the original does not know: which line of the template printed the document.
        let told = told.strip_suffix(" (printed by line 1 of the template)").unwrap_or(&told);
        assert_eq!(told, message, "{template}");
    }
    let bad = fatal("kind: A\n---\nkind: B\nspec: {a: [}\n");
    assert!(bad.starts_with("cannot decode manifest: error converting YAML to JSON: yaml: line 4 (document 2, line 2) near: 'spec: {a: [}': "), "{bad}");
    assert!(bad.ends_with(" (printed by line 4 of the template)"), "{bad}");
}

#[test]
fn documents_of_the_functions_own_kinds_say_something_about_the_composite_resource() {
    let meta = |kind: &str, rest: &str| {
        format!("apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1\nkind: {kind}\n{rest}\n---\n")
    };
    let template = meta("CompositeConnectionDetails", "data: {user: YWRtaW4=}")
        + &meta("Context", "data: {a: {b: 1}}")
        + &meta(
            "ClaimConditions",
            "conditions: [{type: Healthyish, status: 'True', reason: Fine, target: CompositeAndClaim}]",
        )
        + &meta(
            "ExtraResources",
            "requirements: {vpc: {apiVersion: v1, kind: Vpc, matchName: main, namespace: a}, all: {apiVersion: v1, kind: Vpc, matchLabels: {}}}",
        );
    let mut request = request(&template);
    request["context"] = json!({"a": {"c": 2}});
    request["requiredResources"] = json!({"vpc": {"items": [{"resource": {"kind": "Vpc"}}]}});
    let answer = answer_as(Release::V0_12, &request);
    assert_eq!(answer["results"], Value::Null, "{answer:#}");
    assert_eq!(answer["desired"]["composite"]["connectionDetails"], json!({"user": "YWRtaW4="}));
    assert_eq!(answer["context"]["a"], json!({"b": 1, "c": 2}));
    assert_eq!(
        answer["context"][documents::EXTRA_RESOURCES],
        json!({"vpc": {"items": [{"resource": {"kind": "Vpc"}}]}})
    );
    assert_eq!(answer["conditions"][0]["target"], "TARGET_COMPOSITE_AND_CLAIM");
    assert_eq!(answer["requirements"]["resources"]["vpc"]["namespace"], "a");
    let extra: Vec<_> = answer["requirements"]["extraResources"].as_object().unwrap().keys().collect();
    assert_eq!(extra, ["all"]);
    assert!(
        answer_as(Release::V0_5, &request)["results"][0]["message"]
            .as_str()
            .unwrap()
            .contains("invalid kind \"Context\"")
    );
}

#[test]
fn condition_of_a_type_that_crossplane_sets_itself_is_refused() {
    for reserved in ["Ready", "Synced", "Healthy"] {
        let conditions = format!("[{{type: Painted, status: 'True'}}, {{type: {reserved}, status: 'True'}}]");
        let answer = answer(&format!(
            "apiVersion: {}\nkind: ClaimConditions\nconditions: {conditions}\n",
            documents::META
        ));
        assert_eq!(
            answer["results"],
            json!([{
                "severity": "SEVERITY_FATAL",
                "message": format!("cannot set ClaimCondition type: {reserved} is a reserved Crossplane Condition (printed by line 1 of the template)"),
                "target": "TARGET_COMPOSITE",
            }])
        );
        // As in the original, the conditions before it are already part of the answer.
        let types: Vec<_> = answer["conditions"].as_array().unwrap().iter().map(|it| &it["type"]).collect();
        assert_eq!(types, ["Painted"]);
    }
}

#[test]
fn template_can_be_in_the_environment_or_be_the_text_itself() {
    let template = named("a", "");
    let mut request = request("");
    request["input"] = json!({"source": "Environment", "environment": {"key": "t"}});
    request["context"] = json!({"apiextensions.crossplane.io/environment": {"t": template}});
    assert!(answer_as(Release::V0_12, &request)["desired"]["resources"]["a"].is_object());
    request["input"] = json!({"inline": template});
    assert!(answer_as(Release::V0_12, &request)["desired"]["resources"]["a"].is_object());
    request["input"] = json!({"source": "Inline", "inline": {"templates": [template, named("b", "")]}});
    assert_eq!(answer_as(Release::V0_12, &request)["desired"]["resources"].as_object().unwrap().len(), 2);
}

#[test]
fn endless_templates_end() {
    let cases = [
        "{{ define \"x\" }}{{ template \"x\" }}{{ end }}{{ template \"x\" }}",
        "{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}",
        "{{ range 1000000000 }}{{ range 1000000000 }}{{ end }}{{ end }}",
    ];
    for template in cases {
        assert!(fatal(template).starts_with("cannot execute template: template: manifests:1:"), "{template}");
    }
}

/// What a template costs at most, with this annotation.
fn limited(annotation: &str, value: &str, template: &str) -> Value {
    let mut request = request(template);
    request["input"]["metadata"] = json!({"annotations": {annotation: value}});
    answer_as(Release::V0_12, &request)
}

#[test]
fn template_that_comes_to_a_limit_is_stopped_with_its_line_and_a_remedy() {
    let looping = "a: 1\n{{ range 5000000000 }}{{ end }}";
    assert_eq!(
        limited("ferroplane.io/template-steps", "1000", looping)["results"][0]["message"],
        "cannot execute template: template: manifests:2:9: executing \"manifests\" at <5000000000>: the template takes more than 1000 steps; the annotation ferroplane.io/template-steps of the step's input sets another limit, up to 100000000"
    );
    let message = |annotation: &str, value: &str, template: &str| {
        limited(annotation, value, template)["results"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    let printing = "{{ range 100 }}0123456789{{ end }}";
    assert!(message("ferroplane.io/template-output", "500", printing).contains("is longer than 500 bytes"));
    let making = "{{ $x := repeat 1000 (repeat 100 `x`) }}";
    assert!(
        message("ferroplane.io/template-memory", "10Ki", making).contains("more than 10240 bytes of values")
    );
    assert!(
        message("ferroplane.io/template-time", "1h", "a: 1")
            .starts_with("invalid function input: cannot use the annotation")
    );
}

#[test]
fn template_that_takes_longer_than_its_time_is_stopped() {
    let request = from_json(&request("{{ range 5000000000 }}{{ end }}")).unwrap();
    let elapsed = || Duration::from_secs(21);
    let answer = run_as(Release::V0_12, &request, Effort::Full(&elapsed)).unwrap();
    assert!(
        answer.results[0]
            .message
            .contains("the template takes longer than 20s; the annotation ferroplane.io/template-time")
    );
}

#[test]
fn brief_call_gives_up_what_takes_long_and_answers_the_rest() {
    let brief = |request: &RunFunctionRequest| run_as(Release::V0_12, request, Effort::Brief);
    let quick = from_json(&request(&named("a", ""))).unwrap();
    let full = || Duration::ZERO;
    assert_eq!(brief(&quick), run_as(Release::V0_12, &quick, Effort::Full(&full)));
    // A mistake is one at once.
    assert_eq!(brief(&from_json(&request("{{ fail `no` }}")).unwrap()).unwrap().results.len(), 1);
    for long in
        ["{{ range 60000 }}{{ end }}", "{{ range 30000 }}0123456789{{ end }}", "{{ $x := bcrypt `a` }}"]
    {
        let long = from_json(&request(long)).unwrap();
        assert_eq!(brief(&long), Err(TakesLong));
        // The second time, nothing is tried.
        assert_eq!(brief(&long), Err(TakesLong));
        assert!(run_as(Release::V0_12, &long, Effort::Full(&full)).is_ok());
    }
    // A text is not parsed that is too long.
    let long = from_json(&request(&"{{ . }}\n".repeat(10_000))).unwrap();
    assert_eq!(brief(&long), Err(TakesLong));
    // A limit of the step's own is final.
    let mut own = request("{{ range 60000 }}{{ end }}");
    own["input"]["metadata"] = json!({"annotations": {"ferroplane.io/template-steps": "500"}});
    assert_eq!(brief(&from_json(&own).unwrap()).unwrap().results.len(), 1);
}

#[test]
fn another_limit_gives_the_same_random_values() {
    let template = &named("a", "data: {password: '{{ randAlphaNum 20 }}'}");
    let password =
        |answer: &Value| answer["desired"]["resources"]["a"]["resource"]["data"]["password"].clone();
    let plain = password(&answer(template));
    assert_eq!(plain.as_str().unwrap().len(), 20);
    assert_eq!(password(&limited("ferroplane.io/template-time", "5s", template)), plain);
    assert_ne!(password(&answer(&format!("{template}\n"))), plain);
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}})
}

/// A request whose templates are the files of these objects.
fn from_files(config_maps: &[Value]) -> Value {
    let mut request = request("");
    request["input"] = json!({"source": "FileSystem", "fileSystem": {"dirPath": "/templates"}});
    request["requiredResources"] = json!({"/templates": {"items": config_maps}});
    request
}

#[test]
fn files_come_as_the_config_maps_that_are_required_under_the_name_of_the_directory() {
    let uses = named("a", "data: {label: '{{ template \"label\" . }}', sees: '{{ .requiredResources }}'}");
    let defines = "{{ define \"label\" }}app-{{ .observed.composite.resource.spec.count }}{{ end }}";
    let data = json!({"b.yaml": uses, "a/helpers.tpl": defines, ".hidden": "{{ nope", "a/.git/x": "{{ nope"});
    for config_maps in [
        vec![config_map("all", &data)],
        vec![config_map("uses", &json!({"b.yaml": uses})), config_map("defines", &json!({"h.tpl": defines}))],
    ] {
        let mut request = from_files(&config_maps);
        for _ in 0..2 {
            let answer = answer_as(Release::V0_12, &request);
            let data = &answer["desired"]["resources"]["a"]["resource"]["data"];
            assert_eq!(*data, json!({"label": "app-3", "sees": "<no value>"}), "{answer:#}");
            assert!(answer.get("context").is_none(), "{answer:#}");
            request["meta"] = json!({"tag": "again"});
        }
    }
}

#[test]
fn files_that_are_not_there_are_told_with_what_to_do() {
    let told = |request: &Value| answer_as(Release::V0_12, request)["results"][0]["message"].clone();
    let mut request = from_files(&[]);
    let words = "invalid function input: cannot read tmpl from the folder {/templates}: ";
    assert_eq!(told(&request), format!("{words}there is no such ConfigMap"));
    let twice = [config_map("a", &json!({"x": ""})), config_map("b", &json!({"x": ""}))];
    assert_eq!(told(&from_files(&twice)), format!("{words}`x` is in two ConfigMaps"));
    request["requiredResources"] = json!({});
    let message = told(&request);
    let message = message.as_str().unwrap();
    assert!(message.contains("; require the ConfigMap that holds the files under this name, or set the annotation `ferroplane.io/native: \"false\"`"), "{message}");
    request["input"]["fileSystem"] = json!({});
    assert_eq!(told(&request), "invalid function input: fileSystem.dirPath should be provided");
}

#[test]
fn templates_from_elsewhere_come_under_the_name_of_the_place() {
    let remote = format!("oci://registry.example.org/templates@sha256:{}#web", "ab".repeat(32));
    let told = |request: &Value| answer_as(Release::V0_12, request)["results"][0]["message"].clone();
    let mut request = request("");
    request["input"] = json!({"source": "Remote", "remote": remote});
    let message = told(&request);
    let message = message.as_str().unwrap();
    assert!(message.contains(&remote) && message.contains("--allow-remote-templates"), "{message}");
    let files = config_map("x", &json!({"a.yaml": named("a", "data: {sees: '{{ .requiredResources }}'}")}));
    request["requiredResources"] = json!({&remote: {"items": [files]}});
    let answer = answer_as(Release::V0_4, &request);
    assert_eq!(answer["desired"]["resources"]["a"]["resource"]["data"]["sees"], "<no value>", "{answer:#}");
    request["requiredResources"][&remote]["items"][0]["resource"]["data"]["a.yaml"] = json!("\n{{ nope }}");
    let message = told(&request);
    assert!(message.as_str().unwrap().ends_with("(line 2 of file `a.yaml`)"), "{message}");
    // What can be moved is no place.
    request["input"]["remote"] = json!("oci://registry.example.org/templates:v1");
    assert!(told(&request).as_str().unwrap().contains("templates have to be pinned"));
    request["input"] = json!({"source": "Remote"});
    assert_eq!(told(&request), "invalid function input: remote should be provided");
}

#[test]
fn one_config_map_serves_steps_that_read_it_differently() {
    let files =
        [config_map("all", &json!({"a.yaml": named("n[[ .observed.composite.resource.spec.count ]]", "")}))];
    let mut request: RunFunctionRequest = from_json(&from_files(&files)).unwrap();
    let names = |request: &RunFunctionRequest| {
        let answer = to_json(&run_as(Release::V0_12, request, Effort::Brief).unwrap()).unwrap();
        answer["desired"]["resources"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>())
    };
    // The same objects, not copies of them: what was made of them is kept with them.
    let plain = request.clone();
    let input = json!({"source": "FileSystem", "fileSystem": {"dirPath": "/templates"}, "delims": {"left": "[[", "right": "]]"}});
    request.input = Some(ferroplane_wire::Struct::try_from(input.as_object().unwrap().clone()).unwrap());
    assert_eq!(names(&request), Some(vec!["n3".to_owned()]));
    assert_eq!(names(&plain), Some(vec!["n[[ .observed.composite.resource.spec.count ]]".to_owned()]));
    assert_eq!(names(&request), Some(vec!["n3".to_owned()]));
}

#[test]
fn mistakes_are_told_with_the_line_of_the_file() {
    let good = named("good", "");
    let told = |bad: &str| {
        let files = [config_map("all", &json!({"a.yaml": good, "b.yaml": bad}))];
        let answer = answer_as(Release::V0_12, &from_files(&files));
        answer["results"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    let message = told("\n{{ nope }}");
    assert!(message.ends_with(r#"function "nope" not defined (line 2 of file `b.yaml`)"#), "{message}");
    let message = told("\n\n{{ fail \"no\" }}");
    assert!(message.ends_with("error calling fail: no (line 3 of file `b.yaml`)"), "{message}");
    let message = told("\n\napiVersion: v1\nkind: ConfigMap\n");
    assert!(message.ends_with("annotation (printed by line 3 of file `b.yaml`)"), "{message}");
    let message = told("a: b\nb: [\n");
    assert!(message.ends_with(" of file `b.yaml`)"), "{message}");
}

fn traced(template: &str) -> TracedRun {
    trace_templates("v0.12.2", &from_json(&request(template)).unwrap(), Effort::Brief).unwrap().unwrap()
}

#[test]
fn documents_are_told_with_the_line_that_printed_them() {
    let first = "{{- range list \"a\" \"b\" }}\n---\n";
    let named = named("{{ . }}", "");
    let template = format!(
        "{first}# so\n{named}{{{{- end }}}}\n---\napiVersion: example.org/v1\nkind: App\nstatus: {{}}\n"
    );
    let traced = traced(&template);
    let documents: Vec<_> = traced.documents.iter().map(|it| (it.resource.as_deref(), it.at.line)).collect();
    assert_eq!(documents, [(Some("a"), 4), (Some("b"), 4), (None, 11)]);
    assert_eq!(to_json(&traced.response).unwrap(), answer(&template));
    assert_eq!((traced.failed_at, traced.lost_separators), (None, Vec::new()));
    assert!(trace_templates("v1.0.0", &RunFunctionRequest::default(), Effort::Brief).is_none());
}

#[test]
fn separators_that_lost_their_line_are_found() {
    let template =
        format!("{}{{{{ if true -}}}}\n---\n{{{{- end }}}}\n{}", named("a", "").trim_end(), named("b", ""));
    let traced = traced(&template);
    let lines: Vec<_> = traced.lost_separators.iter().map(|at| at.line).collect();
    assert_eq!(lines, [6]);
}

/// How often the clock was checked, which happens every thousand steps.
fn looks_at_the_clock(run: impl FnOnce(Effort<'_>)) -> u32 {
    let count = std::cell::Cell::new(0);
    let elapsed = || {
        count.set(count.get() + 1);
        Duration::ZERO
    };
    run(Effort::Full(&elapsed));
    count.get()
}

#[test]
fn templates_are_executed_once_whether_their_lines_are_asked_for_or_not() {
    let template = format!("{{{{ range 20000 }}}}{{{{ end }}}}\n{}", named("a", ""));
    let request = from_json(&request(&template)).unwrap();
    let plain = looks_at_the_clock(|effort| drop(run(&request, effort)));
    let traced = looks_at_the_clock(|effort| {
        let traced = trace_templates("v0.12.2", &request, effort).unwrap().unwrap();
        assert_eq!(traced.documents.len(), 1);
    });
    assert!(plain > 10);
    assert_eq!(traced, plain);
}

#[test]
fn bytes_that_are_no_text_are_printed_the_same_whether_lines_are_asked_for_or_not() {
    let request = from_json(&request(&named("a", r#"data: {x: '{{ b64dec "/w==" }}'}"#))).unwrap();
    let elapsed = || Duration::ZERO;
    let plain = run(&request, Effort::Full(&elapsed)).unwrap();
    let traced = trace_templates("v0.12.2", &request, Effort::Full(&elapsed)).unwrap().unwrap();
    assert_eq!(to_json(&traced.response).unwrap(), to_json(&plain).unwrap());
    assert!(traced.documents.is_empty());
}
