//! What `render` prints.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, XR, composition, dummy};

fn config_map(name: &str) -> String {
    format!("{{desired: {{resources: {{{name}: {{resource: {{apiVersion: v1, kind: ConfigMap}}}}}}}}}}")
}

fn hello() -> Sandbox {
    Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "function-dummy", &dummy(&config_map("config")))]))
}

fn kinds(documents: &[Value]) -> Vec<&str> {
    documents.iter().map(|document| document["kind"].as_str().unwrap()).collect()
}

#[test]
fn xr_comes_first_then_composed_resources_by_name() {
    let response = "{desired: {resources: {b: {resource: {apiVersion: v1, kind: B}}, a: {resource: {apiVersion: v1, kind: A}}}}}";
    let sandbox =
        Sandbox::new().with("composition.yaml", &composition(&[("one", "function-dummy", &dummy(response))]));
    let documents = sandbox.render(&[]).documents();
    assert_eq!(kinds(&documents), ["App", "A", "B"]);
    assert_eq!(documents[0]["metadata"], json!({"name": "app", "namespace": "default"}));
    assert_eq!(documents[0]["spec"]["crossplane"]["resourceRefs"][0]["kind"], "A");
}

#[test]
fn rendering_twice_gives_the_same() {
    let sandbox = hello();
    assert_eq!(sandbox.render(&["-r", "-c"]).ok(), sandbox.render(&["-r", "-c"]).ok());
}

#[test]
fn results_and_context_are_printed_on_request() {
    let response = "{results: [{severity: SEVERITY_WARNING, message: careful}], context: {key: {nested: 1}}}";
    let sandbox =
        Sandbox::new().with("composition.yaml", &composition(&[("one", "function-dummy", &dummy(response))]));
    assert_eq!(kinds(&sandbox.render(&[]).documents()), ["App"]);
    let documents = sandbox.render(&["-r", "-c"]).documents();
    assert_eq!(kinds(&documents), ["App", "Result", "Result", "Context"]);
    assert_eq!(
        documents[2],
        json!({
            "apiVersion": "render.crossplane.io/v1beta1", "kind": "Result", "severity": "Warning",
            "reason": "ComposeResources", "message": "Pipeline step \"one\": careful"
        })
    );
    assert_eq!(documents[3]["fields"], json!({"key": {"nested": 1}}));
}

#[test]
fn full_xr_keeps_its_spec() {
    let documents = hello().render(&["-x"]).documents();
    assert_eq!(documents[0]["spec"]["size"], "small");
    assert!(documents[0]["spec"]["crossplane"]["resourceRefs"].is_array());
}

#[test]
fn context_is_seeded_from_values_and_files() {
    let sandbox = hello().with("file.yaml", "from: file\n");
    let documents = sandbox
        .render(&[
            "-c",
            "--context-files",
            "a=file.yaml,b=file.yaml",
            "--context-values",
            "b={\"from\": \"value\"}",
        ])
        .documents();
    assert_eq!(documents.last().unwrap()["fields"], json!({"a": {"from": "file"}, "b": {"from": "value"}}));
}

#[test]
fn what_would_be_deleted_is_shown() {
    let observed = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: old
  namespace: default
  annotations: {crossplane.io/composition-resource-name: old}
  ownerReferences:
  - {apiVersion: example.org/v1, kind: App, name: app, uid: u-1, controller: true}
";
    let xr = XR.replace("  name: app\n", "  name: app\n  uid: u-1\n");
    let sandbox = hello().with("xr.yaml", &xr).with("observed/deep/old.yaml", observed);
    let documents = sandbox.render(&["-o", "observed"]).documents();
    assert_eq!(
        documents[2],
        json!({
            "apiVersion": "render.ferroplane.io/v1beta1", "kind": "Deletion", "resourceName": "old",
            "resourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "old", "namespace": "default"}
        })
    );
    assert_eq!(
        kinds(&sandbox.render(&["-o", "observed", "--hide-deletions"]).documents()),
        ["App", "ConfigMap"]
    );
}

#[test]
fn json_is_a_list_of_the_same_documents() {
    let sandbox = hello();
    let list: Value = serde_json::from_str(&sandbox.render(&["-r", "--output", "json"]).ok()).unwrap();
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"].as_array().unwrap(), &sandbox.render(&["-r"]).documents());
}

#[test]
fn several_xrs_are_rendered_in_order() {
    let sandbox = hello();
    for number in 0..20 {
        let xr = XR.replace("name: app", &format!("name: app-{number:02}"));
        std::fs::create_dir_all(sandbox.path("xrs/nested")).unwrap();
        std::fs::write(sandbox.path(&format!("xrs/nested/{number:02}.yaml")), xr).unwrap();
    }
    let documents = sandbox.run(&["render", "xrs", "composition.yaml"]).documents();
    let names: Vec<_> = documents.iter().filter(|document| document["kind"] == "App").collect();
    assert_eq!(names.len(), 20);
    for (number, xr) in names.iter().enumerate() {
        assert_eq!(xr["metadata"]["name"], format!("app-{number:02}"));
    }
}

#[test]
fn list_is_as_good_as_several_documents() {
    let xr = |name: &str| XR.replace("name: app", &format!("name: {name}")).trim().replace('\n', "\n  ");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}\n- {}\n", xr("one"), xr("two"));
    let documents = hello().with("xr.yaml", &list).render(&[]).documents();
    assert_eq!(kinds(&documents), ["App", "ConfigMap", "App", "ConfigMap"]);
    assert_eq!(documents[2]["metadata"]["name"], "two");
}

#[test]
fn one_bad_xr_does_not_hide_the_others() {
    let response = "{desired: {resources: {a: {resource: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole}}}}}";
    let cluster = XR.replace("  namespace: default\n", "").replace("name: app", "name: cluster");
    let sandbox = Sandbox::new()
        .with("xr.yaml", &format!("{XR}---{cluster}"))
        .with("composition.yaml", &composition(&[("one", "function-dummy", &dummy(response))]));
    let ran = sandbox.render(&[]);
    assert!(ran.stdout.contains("name: cluster"), "{ran:#?}");
    let said = ran.fails_with(1);
    assert!(
        said.contains("cannot render App `app`: composed resource `a` of step `one` is cluster scoped"),
        "{said}"
    );
}

#[test]
fn xr_is_read_from_standard_input() {
    let sandbox = hello();
    let mut child = sandbox
        .command(&["render", "-", "composition.yaml"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(XR.as_bytes()).unwrap();
    let documents = Ran::from(child.wait_with_output().unwrap()).documents();
    assert_eq!(kinds(&documents), ["App", "ConfigMap"]);
}

#[test]
fn xr_is_read_from_a_pipe_that_can_be_read_once() {
    let sandbox = hello();
    let [xr, composition] = ["xr.yaml", "composition.yaml"].map(|name| sandbox.path(name));
    let program = env!("CARGO_BIN_EXE_ferroplane");
    let script = format!("'{program}' render <(cat '{}') '{}'", xr.display(), composition.display());
    let output = std::process::Command::new("bash").arg("-c").arg(script).output().unwrap();
    assert_eq!(kinds(&Ran::from(output).documents()), ["App", "ConfigMap"]);
}

#[test]
fn fatal_result_exits_with_3_and_prints_what_is_known() {
    let response = "{results: [{severity: SEVERITY_NORMAL, message: before}, {severity: SEVERITY_FATAL, message: boom}]}";
    let sandbox =
        Sandbox::new().with("composition.yaml", &composition(&[("one", "function-dummy", &dummy(response))]));
    let ran = sandbox.render(&["-r"]);
    assert!(ran.stdout.contains("before"), "{ran:#?}");
    assert!(ran.stdout.contains("kind: App"), "{ran:#?}");
    assert!(ran.fails_with(3).contains("pipeline step `one` returned a fatal result: boom"));
}

#[test]
fn terminal_does_not_obey_a_function() {
    let response = r#"{results: [{severity: SEVERITY_FATAL, message: "boom\e]0;title\a\e[2J"}]}"#;
    let sandbox =
        Sandbox::new().with("composition.yaml", &composition(&[("one", "function-dummy", &dummy(response))]));
    let said = sandbox.render(&[]).fails_with(3);
    assert!(said.contains(r"boom\u001b]0;title\u0007\u001b[2J"), "{said}");
}

#[test]
fn definition_gives_defaults_and_layout() {
    let definition = "
apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {name: apps.example.org}
spec:
  group: example.org
  names: {kind: App, plural: apps}
  versions:
  - name: v1
    referenceable: true
    served: true
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              colour: {type: string, default: blue}
";
    let xr = XR.replace("  namespace: default\n", "");
    let sandbox = hello().with("xr.yaml", &xr).with("xrd.yaml", definition);
    // Now that the XR is known to be cluster scoped, what it composes has to say where it goes.
    let said = sandbox.render(&["--xrd", "xrd.yaml"]).fails_with(1);
    assert!(
        said.contains(
            "`config` of step `one` lives in a namespace (ConfigMap), but has no metadata.namespace"
        ),
        "{said}"
    );
    let placed =
        config_map("config").replace("kind: ConfigMap", "kind: ConfigMap, metadata: {namespace: team}");
    let sandbox =
        sandbox.with("composition.yaml", &composition(&[("one", "function-dummy", &dummy(&placed))]));
    let documents = sandbox.render(&["-x", "--xrd", "xrd.yaml"]).documents();
    assert_eq!(documents[0]["spec"]["colour"], "blue");
    assert!(documents[0]["spec"]["resourceRefs"].is_array(), "{:#}", documents[0]);
    assert_eq!(documents[0]["spec"].get("crossplane"), None);
}

#[test]
fn credentials_are_read_from_secrets() {
    let credentials = "
    credentials:
    - name: cloud
      source: Secret
      secretRef: {namespace: ns, name: key}
";
    let mut text = composition(&[("one", "function-dummy", &dummy(&config_map("config")))]);
    text.push_str(credentials.trim_start_matches('\n'));
    let sandbox = Sandbox::new().with("composition.yaml", &text);
    // As on a control plane, a Secret of another namespace has to be granted.
    let said = sandbox.render(&[]).fails_with(1);
    assert!(said.contains("cannot let pipeline step `one` read Secret `ns/key`"), "{said}");
    let grant = "
apiVersion: ferroplane.io/v1alpha1
kind: AccessGrant
metadata: {name: credentials}
spec:
  to: {namespaces: [default]}
  read:
  - {apiGroups: [''], kinds: [Secret], namespaces: [ns]}
";
    let sandbox = sandbox.with("grant.yaml", grant).with("bad.yaml", &grant.replace("read:", "reads:"));
    let said = sandbox.render(&["-e", "bad.yaml"]).fails_with(1);
    assert!(said.contains("bad.yaml") && said.contains("unknown field `reads`"), "{said}");
    let said = sandbox.render(&["-e", "grant.yaml"]).fails_with(1);
    assert!(
        said.contains("cannot get credential `cloud` of pipeline step `one` from Secret `ns/key`"),
        "{said}"
    );
    let secret = "{apiVersion: v1, kind: Secret, metadata: {namespace: ns, name: key}, data: {token: YQ==}}";
    let sandbox = sandbox.with("secret.yaml", secret);
    sandbox.render(&["--function-credentials", "secret.yaml", "-e", "grant.yaml"]).ok();
}

#[test]
fn watching_renders_again_when_a_file_changes() {
    use std::io::BufRead as _;
    let sandbox = hello();
    let mut child = sandbox
        .command(&["render", "xr.yaml", "composition.yaml", "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until =
        |wanted: &str| lines.by_ref().map(Result::unwrap).find(|line| line.contains(wanted)).unwrap();
    until("name: app-");
    std::fs::write(sandbox.path("xr.yaml"), XR.replace("name: app", "name: changed")).unwrap();
    until("name: changed-");
    std::fs::write(sandbox.path("xr.yaml"), "kind: [\n").unwrap();
    std::fs::write(sandbox.path("xr.yaml"), XR.replace("name: app", "name: mended")).unwrap();
    until("name: mended-");
    child.kill().unwrap();
    child.wait().unwrap();
}
