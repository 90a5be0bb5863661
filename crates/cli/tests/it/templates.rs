//! Go templates, as their authors meet them: in files, with the lines of what they print, and of their mistakes.

use std::path::Path;
use std::process::{Command, Stdio};

use ferroplane_testkit::{GitManner, GitServer};
use serde_json::Value;
use tempfile::TempDir;

use crate::peers::peer;
use crate::plane::Plane;
use crate::sandbox::{Sandbox, started};

const XR: &str = "
apiVersion: example.org/v1
kind: App
metadata: {name: shop, namespace: default}
spec: {zones: [a, b]}
";

/// A Composition with one step of function-go-templating. The input begins at line 13.
fn composition(input: &str) -> String {
    let input = indented(input, 6);
    format!(
        "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {{name: apps}}
spec:
  compositeTypeRef: {{apiVersion: example.org/v1, kind: App}}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {{name: function-go-templating}}
    input:
      apiVersion: gotemplating.fn.crossplane.io/v1beta1
      kind: GoTemplate
{input}"
    )
}

/// A text with all of its lines this far to the right.
fn indented(text: &str, columns: usize) -> String {
    let mut indented = String::new();
    for line in text.lines() {
        indented.push_str(&format!("{:columns$}{line}\n", ""));
    }
    indented
}

fn inline(template: &str) -> String {
    let template = indented(template, 4);
    composition(&format!("source: Inline\ninline:\n  template: |\n{template}"))
}

const FILES: &str = "source: FileSystem\nfileSystem:\n  dirPath: /opt/templates\n";

const ZONES: &str = "{{- range .observed.composite.resource.spec.zones }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    {{ setResourceNameAnnotation . }}
data: {zone: {{ include \"zone\" . }}}
{{- end }}
---
apiVersion: example.org/v1
kind: App
status: {zones: 2}
";

fn with_files() -> Sandbox {
    Sandbox::new()
        .with("xr.yaml", XR)
        .with("composition.yaml", &composition(FILES))
        .with("templates/zones.yaml", ZONES)
        .with("templates/more/helpers.tpl", "{{ define \"zone\" }}zone-{{ . }}{{ end }}")
}

fn zones(documents: &[Value]) -> Vec<&str> {
    documents[1..].iter().map(|document| document["data"]["zone"].as_str().unwrap()).collect()
}

#[test]
fn templates_are_read_from_the_directory_beside_the_composition() {
    let documents = with_files().run(&["render", "xr.yaml", "composition.yaml"]).documents();
    assert_eq!(zones(&documents), ["zone-a", "zone-b"]);
    assert_eq!(documents[0]["status"]["zones"], 2);
}

#[test]
fn templates_come_from_a_config_map_that_the_step_requires() {
    let required = "\nrequirements:\n  requiredResources:\n  - requirementName: /opt/templates\n    apiVersion: v1\n    kind: ConfigMap\n    \
                    namespace: default\n    name: templates\n";
    let required = required.replace('\n', "\n    ");
    let config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: templates, namespace: default}\ndata:\n  a.yaml: |\n    \
                      apiVersion: v1\n    kind: ConfigMap\n    metadata: {annotations: {gotemplating.fn.crossplane.io/composition-resource-name: a}}\n    \
                      data: {zone: here}\n";
    let sandbox = with_files()
        .with("composition.yaml", &format!("{}    {}\n", composition(FILES), required.trim()))
        .with("templates.yaml", config_map);
    let arguments = ["render", "xr.yaml", "composition.yaml", "-e", "templates.yaml"];
    assert_eq!(zones(&sandbox.run(&arguments).documents()), ["here"]);
    let said = sandbox.run(&arguments[..3]).fails_with(3);
    assert!(
        said.contains("cannot read tmpl from the folder {/opt/templates}: there is no such ConfigMap"),
        "{said}"
    );
}

#[test]
fn templates_are_fetched_from_places_that_are_allowed_and_from_no_others() {
    let place = Sandbox::new();
    let server = GitServer::start(&place.path(""), GitManner::Serves);
    server.write(&[
        ("web/zones.yaml", ZONES),
        ("web/helpers.tpl", "{{ define \"zone\" }}far-{{ . }}{{ end }}"),
    ]);
    let remote = format!("{}#web", server.remote(&server.commit()));
    let composition = composition(&format!("source: Remote\nremote: {remote}\n"));
    let sandbox = Sandbox::new().with("xr.yaml", XR).with("composition.yaml", &composition);
    let said = sandbox.run(&["render", "xr.yaml", "composition.yaml"]).fails_with(3);
    assert!(said.contains("--allow-remote-templates"), "{said}");
    let elsewhere = ["render", "xr.yaml", "composition.yaml", "--allow-remote-templates", "git.example.org"];
    assert!(sandbox.run(&elsewhere).fails_with(1).contains("--allow-remote-templates"));
    assert_eq!(server.connections(), 0);
    let host = server.host();
    let allowed = ["render", "xr.yaml", "composition.yaml", "--allow-remote-templates", &host];
    assert_eq!(zones(&sandbox.run(&allowed).documents()), ["far-a", "far-b"]);
    // A mistake is told with the file, and where it comes from is in the Composition.
    server.write(&[("web/zones.yaml", "\n{{ nope }}")]);
    let remote = format!("{}#web", server.remote(&server.commit()));
    let composition = self::composition(&format!("source: Remote\nremote: {remote}\n"));
    let sandbox = sandbox.with("composition.yaml", &composition);
    let said = sandbox.run(&allowed).fails_with(3);
    assert!(said.contains("(line 2 of file `zones.yaml`)"), "{said}");
    // `validate` fetches nothing, and has nothing to say about what it does not see.
    let connections = server.connections();
    sandbox.run(&["validate", "composition.yaml"]).ok();
    assert_eq!(server.connections(), connections);
}

/// The kind of which the composite resource is.
const DEFINITION: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: apps.example.org}
spec:
  group: example.org
  names: {kind: App, plural: apps}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, properties: {zones: {type: integer}}}
";

#[test]
fn control_plane_fetches_templates_from_allowed_places_while_reconciles_go_on() {
    if peer("kubectl").is_none() {
        return;
    }
    let repository = Sandbox::new();
    let server = GitServer::start(&repository.path(""), GitManner::Serves);
    let printed = format!("{}\n---\n{READY}", ZONES.trim());
    server.write(&[
        ("web/zones.yaml", &printed),
        ("web/helpers.tpl", "{{ define \"zone\" }}far-{{ . }}{{ end }}"),
    ]);
    let remote = format!("{}#web", server.remote(&server.commit()));
    let flags = ["--data-dir", "data", "--allow-remote-templates", &server.host()];
    let plane = Plane::start(TempDir::new().unwrap(), &flags);
    plane.told("kubectl apply -f -", DEFINITION);
    plane.says("kubectl wait --for=condition=Established xrd/apps.example.org --timeout=60s");

    let elsewhere = composition(&format!(
        "source: Remote\nremote: {}\n",
        remote.replace(&server.host(), "git.example.org")
    ));
    plane.told("kubectl apply -f -", &format!("{elsewhere}---{XR}"));
    let synced = "kubectl get app shop -o jsonpath='{.status.conditions[?(@.type==\"Synced\")].message}'";
    plane.until_said(synced, |said| said.contains("--allow-remote-templates"));
    assert_eq!(server.connections(), 0);

    plane.told("kubectl apply -f -", &composition(&format!("source: Remote\nremote: {remote}\n")));
    plane.says("kubectl wait --for=condition=Ready app/shop --timeout=60s");
    let zones = plane.says("kubectl get cm -o jsonpath='{.items[*].data.zone}'");
    assert!(zones.contains("far-a") && zones.contains("far-b"), "{zones}");
    // The reconcile did not wait for the network, and said so.
    plane.until_said("kubectl get events -o jsonpath='{.items[*].message}'", |said| {
        said.contains("they are being fetched")
    });
}

/// Says that the composite resource is ready, with what it composes.
const READY: &str = "apiVersion: example.org/v1
kind: App
metadata: {annotations: {gotemplating.fn.crossplane.io/ready: \"True\"}}
";

#[test]
fn directories_that_are_not_there_or_lead_elsewhere_are_refused() {
    let sandbox = Sandbox::new().with("xr.yaml", XR).with("composition.yaml", &composition(FILES));
    let said = sandbox.run(&["render", "xr.yaml", "composition.yaml"]).fails_with(1);
    assert!(
        said.contains("composition.yaml:15: there is no directory `opt/templates` beside this file"),
        "{said}"
    );
    let outside = Sandbox::new().with("secret.yaml", "secret");
    std::os::unix::fs::symlink(outside.path(""), sandbox.path("templates")).unwrap();
    let said = sandbox.run(&["render", "xr.yaml", "composition.yaml"]).fails_with(1);
    assert!(said.contains("there is no directory"), "{said}");
    std::fs::remove_file(sandbox.path("templates")).unwrap();
    let sandbox = sandbox.with("templates/a.yaml", "");
    std::os::unix::fs::symlink(outside.path("secret.yaml"), sandbox.path("templates/b.yaml")).unwrap();
    let said = sandbox.run(&["render", "xr.yaml", "composition.yaml"]).fails_with(1);
    assert!(said.contains("the file is a link to a file outside of"), "{said}");
}

#[test]
fn random_values_and_the_time_are_the_same_whenever_something_is_rendered() {
    let template = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {annotations: {{ setResourceNameAnnotation \"a\" | printf \"{%s}\" }}}\n\
                    data: {zone: '{{ randAlphaNum 20 }} {{ uuidv4 }} {{ now }}'}\n";
    let sandbox = Sandbox::new().with("xr.yaml", XR).with("composition.yaml", &inline(template));
    let render = |xr: &str| sandbox.run(&["render", xr, "composition.yaml"]).documents();
    let first = render("xr.yaml");
    assert_eq!(zones(&first), zones(&render("xr.yaml")));
    let [printed] = zones(&first)[..] else { panic!("{first:#?}") };
    assert!(printed.ends_with(" 1970-01-01 00:00:00 +0000 UTC"), "{printed}");
    // Another composite resource has other random values.
    std::fs::write(sandbox.path("other.yaml"), XR.replace("shop", "other")).unwrap();
    assert_ne!(zones(&render("other.yaml")), [printed]);
}

#[test]
fn lines_that_printed_what_are_shown() {
    let shown = with_files().run(&["render", "xr.yaml", "composition.yaml", "--show-sources"]).ok();
    let lines: Vec<_> = shown.lines().filter(|line| line.starts_with('#')).collect();
    let expected = [
        "# ./templates/zones.yaml:11, step compose",
        "# ./templates/zones.yaml:3, step compose",
        "# ./templates/zones.yaml:3, step compose",
    ];
    assert_eq!(lines, expected, "{shown}");

    let sandbox = Sandbox::new().with("xr.yaml", XR).with(
        "composition.yaml",
        &inline(&format!("{{{{ define \"zone\" }}}}{{{{ . }}}}{{{{ end }}}}\n{ZONES}")),
    );
    let shown = sandbox.run(&["render", "xr.yaml", "composition.yaml", "--show-sources"]).ok();
    let lines: Vec<_> = shown.lines().filter(|line| line.starts_with('#')).collect();
    let expected = [
        "# composition.yaml:27, step compose",
        "# composition.yaml:19, step compose",
        "# composition.yaml:19, step compose",
    ];
    assert_eq!(lines, expected, "{shown}");
    let json = ["render", "xr.yaml", "composition.yaml", "--show-sources", "--output", "json"];
    assert!(sandbox.run(&json).fails_with(1).contains("JSON does not have"));
}

#[test]
fn failures_are_told_with_the_line_of_the_file() {
    let fails = |template: &str| {
        let sandbox = Sandbox::new().with("xr.yaml", XR).with("composition.yaml", &inline(template));
        sandbox.run(&["render", "xr.yaml", "composition.yaml"]).fails_with(3)
    };
    let said = fails("# one\n{{ fail \"no\" }}");
    assert!(
        said.contains("composition.yaml:17: App `shop`: pipeline step `compose` returned a fatal result: "),
        "{said}"
    );
    let said = fails("---\n# so\napiVersion: v1\nkind: ConfigMap\n");
    assert!(said.contains("composition.yaml:18: App `shop`"), "{said}");
    let said = fails("a: b\n{{ nope }}");
    assert!(said.contains("composition.yaml:17: App `shop`"), "{said}");

    let sandbox = with_files().with("templates/zones.yaml", "\n\n{{ fail \"no\" }}");
    let said = sandbox.run(&["render", "xr.yaml", "composition.yaml"]).fails_with(3);
    assert!(said.contains("./templates/zones.yaml:3: App `shop`"), "{said}");
    assert!(said.contains("(line 3 of file `zones.yaml`)"), "{said}");
}

#[test]
fn template_that_comes_to_a_limit_is_told_with_its_step_and_line() {
    let limited = "metadata:\n  annotations: {ferroplane.io/template-steps: \"1000\"}\n";
    let template = "source: Inline\ninline:\n  template: |\n    # one\n    {{ range 1000000 }}{{ end }}\n";
    let sandbox = Sandbox::new()
        .with("xr.yaml", XR)
        .with("composition.yaml", &composition(&format!("{limited}{template}")));
    let said = sandbox.run(&["render", "xr.yaml", "composition.yaml"]).fails_with(3);
    assert!(
        said.contains("composition.yaml:19: App `shop`: pipeline step `compose` returned a fatal result: "),
        "{said}"
    );
    assert!(said.contains("template: manifests:2:9: "), "{said}");
    assert!(said.contains("the template takes more than 1000 steps"), "{said}");
}

#[test]
fn watching_renders_again_when_a_template_file_changes_or_appears() {
    use std::io::BufRead as _;
    let sandbox = with_files();
    let mut child = sandbox
        .command(&["render", "xr.yaml", "composition.yaml", "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until =
        |wanted: &str| lines.by_ref().map(Result::unwrap).find(|line| line.contains(wanted)).unwrap();
    until("zone: zone-b");
    let helpers = sandbox.path("templates/more/helpers.tpl");
    std::fs::write(helpers, "{{ define \"zone\" }}changed-{{ . }}{{ end }}").unwrap();
    until("zone: changed-b");
    let another = ZONES.replace("setResourceNameAnnotation .", "setResourceNameAnnotation (print . \"2\")");
    let sandbox =
        sandbox.with("templates/z.yaml", &another.replace("include \"zone\" .", "print \"another-\" ."));
    until("zone: another-b");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(sandbox);
}

/// What `validate` finds in a Composition and an App, each as line and message.
fn findings(composition: &str, others: &[(&str, &str)]) -> Vec<(u64, bool, String)> {
    let sandbox = Sandbox::new().with("composition.yaml", composition);
    let sandbox = others.iter().fold(sandbox, |sandbox, (name, text)| sandbox.with(name, text));
    let mut arguments = vec!["validate", "composition.yaml", "--output", "json"];
    arguments.extend(others.iter().map(|(name, _)| *name).filter(|name| name.ends_with("xr.yaml")));
    let report: Value = serde_json::from_str(&sandbox.run(&arguments).stdout).unwrap();
    let composition =
        report["resources"].as_array().unwrap().iter().find(|it| it["kind"] == "Composition").unwrap();
    let of = |list: &str, is_error: bool| {
        let found = composition[list].as_array().cloned().unwrap_or_default().into_iter();
        let found = found
            .map(|it| (it["line"].as_u64().unwrap(), is_error, it["message"].as_str().unwrap().to_owned()));
        found.collect::<Vec<_>>()
    };
    [of("errors", true), of("warnings", false)].concat()
}

#[track_caller]
fn finds(found: &[(u64, bool, String)], line: u64, is_error: bool, words: &str) {
    let [(at, is, message)] = found else { panic!("{found:#?}") };
    assert_eq!((*at, *is), (line, is_error), "{message}");
    assert!(message.contains(words), "{message}");
}

#[test]
fn validate_finds_mistakes_in_templates_at_their_line() {
    finds(&findings(&inline("a: b\n\n{{ if }}"), &[]), 18, true, "missing value for if");
    finds(&findings(&inline("a: b\n{{ toYAML . }}"), &[]), 17, true, "not defined: did you mean `toYaml`?");
    let text = composition("inline: \"a: b\\n{{ nope\n\n  }}\"");
    finds(&findings(&text, &[]), 13, true, "function \"nope\" not defined");
    let text = composition("source: Inline\ninline:\n  template: >-\n    a\n\n    b\n\n    {{ nope }}\n");
    finds(&findings(&text, &[]), 20, true, "function \"nope\" not defined");
    let list = "source: Inline\ninline:\n  templates:\n  - \"{{ . }}\"\n  - |2-\n\n    {{ nope }}\n";
    finds(&findings(&composition(list), &[]), 19, true, "templates[1]: ");
    assert_eq!(findings(&inline("{{ . }}"), &[]), []);
}

#[test]
fn validate_reads_the_files_of_a_directory_beside_the_composition() {
    let files = [("templates/a.tpl", "a: b\n{{ nope }}")];
    finds(&findings(&composition(FILES), &files), 15, true, "not defined (line 2 of file `a.tpl`)");
    assert_eq!(findings(&composition(FILES), &[]), []);
}

#[test]
fn validate_warns_of_common_mistakes() {
    let unnamed = "---\napiVersion: v1\nkind: ConfigMap\ndata: {}\n";
    finds(&findings(&inline(unnamed), &[]), 18, false, "ConfigMap has no name to be composed by");
    let indented = "{{ range $i := until 2 }}\n  ---\n  apiVersion: v1\n{{ end }}";
    finds(&findings(&inline(indented), &[]), 17, false, "the separator `---` is indented");
}

#[test]
fn validate_tries_templates_with_the_composite_resources_that_are_given() {
    let xr = [("xr.yaml", XR)];
    let unnamed = "---\napiVersion: v1\nkind: ConfigMap\ndata: {}\n";
    finds(
        &findings(&inline(unnamed), &xr),
        17,
        false,
        "with App `shop` (xr.yaml): \"ConfigMap\" template is missing",
    );
    let no_yaml = "apiVersion: v1\nkind: X\nspec: {{ .observed.composite.resource.metadata }}: {{ . }}\n";
    finds(&findings(&inline(no_yaml), &xr), 18, false, "with App `shop` (xr.yaml): cannot decode manifest");
    let glued = "apiVersion: example.org/v1\nkind: App\nstatus: {a: b}\n{{- if true -}}\n---\n{{- end }}";
    let found = findings(&inline(glued), &xr);
    assert!(
        found.iter().any(|(line, _, message)| *line == 20 && message.contains("a trim marker removes")),
        "{found:#?}"
    );
    // What `render` printed has no spec to try anything with.
    let rendered = format!(
        "{}status: {{conditions: []}}\n",
        XR.replace("{zones: [a, b]}", "{crossplane: {resourceRefs: []}}")
    );
    assert_eq!(
        findings(&inline("{{ len .observed.composite.resource.spec.zones }}"), &[("xr.yaml", &rendered)]),
        []
    );
    let good = ZONES.replace("{{ include \"zone\" . }}", "{{ . }}");
    assert_eq!(findings(&inline(&good), &xr), []);
}

#[test]
fn robots_are_composed_by_a_template_as_by_a_program() {
    let Some(program) = peer("function-many-robots") else { return };
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/robots");
    let sandbox =
        Sandbox::new().with("functions.yaml", &started("function-many-robots", program.to_str().unwrap()));
    let functions = sandbox.path("functions.yaml");
    for observed in [true, false] {
        let render = |composition: &str, more: &[&str]| {
            let mut arguments = vec!["render", "xr.yaml", composition];
            arguments.extend(more);
            if observed {
                arguments.extend(["-o", "observed.yaml"]);
            }
            let mut command: Command = sandbox.command(&arguments);
            let output = command.current_dir(&example).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let template = render("composition.yaml", &[]);
        let program = render("composition-go.yaml", &[functions.to_str().unwrap(), "--allow-commands"]);
        assert_eq!(template, program);
        assert_eq!(template.matches("kind: Robot").count(), 5 * 2, "{template}");
        assert_eq!(template.contains("color: purple"), observed, "{template}");
    }
}

#[test]
fn function_explains_its_input_and_shows_an_example_that_renders() {
    let text = Sandbox::new().run(&["functions", "explain", "function-go-templating"]).ok();
    assert!(text.starts_with("FUNCTION: function-go-templating v0.12.2\n"), "{text}");
    assert!(text.contains("\nINPUT: GoTemplate (gotemplating.fn.crossplane.io/v1beta1)\n"), "{text}");
    let (input, example) = text.split_once("\nEXAMPLE, a step of a pipeline:\n\n").unwrap();
    for field in [
        "source <string>",
        "inline <any>",
        "environment <object>",
        "  key <string>",
        "fileSystem <object>",
        "  dirPath <string>",
        "remote <string>",
        "delims <object>",
        "  left <string>",
        "  right <string>",
        "options <list of string>",
    ] {
        assert!(input.contains(&format!("\n  {field}\n")), "{field}: {input}");
    }
    let step = example.strip_prefix("  ").unwrap();
    let composition = format!(
        "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {{name: apps}}\nspec:\n  \
         compositeTypeRef: {{apiVersion: example.org/v1, kind: App}}\n  mode: Pipeline\n  pipeline:\n{}",
        indented(&format!("- {step}"), 2)
    );
    let sandbox = Sandbox::new().with("xr.yaml", XR).with("composition.yaml", &composition);
    let documents = sandbox.run(&["render", "xr.yaml", "composition.yaml"]).documents();
    assert_eq!(zones(&documents), ["a", "b"]);
    assert_eq!(documents[1]["data"]["owner"], "shop");
}
