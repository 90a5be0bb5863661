//! What is wrong with manifests is found, with its place; what is right passes.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, composition};

const XRD: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata:
  name: apps.example.org
spec:
  group: example.org
  names: {kind: App, plural: apps}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: string, enum: [small, large]}
              replicas: {type: integer, default: 1}
              labels: {type: object, additionalProperties: {type: string}}
              fixed: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}
            x-kubernetes-validations:
            - {rule: 'self.size == \"large\" || self.replicas < 3', message: too many}
";

/// Validate a manifest by the definition of apps.
fn validate(manifest: &str) -> Ran {
    let sandbox = Sandbox::new().with("xrd.yaml", XRD).with("manifest.yaml", manifest);
    sandbox.run(&["validate", "manifest.yaml", "--schemas", "xrd.yaml"])
}

/// What is said about a manifest, without what it is about and without the total.
fn complaints(manifest: &str) -> Vec<String> {
    let ran = validate(manifest);
    let lines = ran.stdout.lines().filter_map(|line| line.strip_prefix("    manifest.yaml:"));
    lines.map(str::to_owned).collect()
}

fn app(spec: &str) -> String {
    format!("apiVersion: example.org/v1\nkind: App\nmetadata:\n  name: app\nspec:\n{spec}")
}

#[test]
fn what_is_right_passes() {
    let ran = validate(&app("  size: small\n"));
    assert_eq!(
        ran.ok(),
        "[✓] example.org/v1, Kind=App, app validated successfully\n\
         Total 1 resources: 0 missing schemas, 1 success cases, 0 failure cases\n"
    );
}

#[test]
fn mistakes_are_told_with_their_lines() {
    let cases = [
        (app("  replicas: 1\n"), vec!["5: spec.size: Required value"]),
        (
            app("  size: huge\n"),
            vec!["6: spec.size: Unsupported value: \"huge\": supported values: \"small\", \"large\""],
        ),
        (
            app("  size: small\n  replicas: many\n"),
            vec![
                "7: spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\"",
            ],
        ),
        (app("  size: small\n  replicas: 3\n"), vec!["5: spec: Invalid value: too many"]),
        (
            app("  size: small\n  siez: 1\n"),
            vec!["7: spec.siez: Invalid value: \"siez\": unknown field: \"siez\""],
        ),
        (app("  size: small\n  size: large\n"), vec!["7: duplicate field \"spec.size\""]),
        (
            app("  size: small\n  labels:\n    example.org/a.b: x\n    example.org/a.c: 1\n"),
            vec![
                "9: spec.labels.example.org/a.c: Invalid value: \"integer\": spec.labels.example.org/a.c in body must be \
                 of type string: \"integer\"",
            ],
        ),
        (
            app("  size: small\n  crossplane:\n    compositionUpdatePolicy: Sometimes\n"),
            vec![
                "8: spec.crossplane.compositionUpdatePolicy: Unsupported value: \"Sometimes\": supported values: \
                 \"Automatic\", \"Manual\"",
            ],
        ),
        ("foo: bar\n".to_owned(), vec!["1: apiVersion: Required value", "1: kind: Required value"]),
        (
            "apiVersion: 1\nkind: Pod\n".to_owned(),
            vec!["1: apiVersion: Invalid value: 1: must be text, not a number"],
        ),
    ];
    for (manifest, expected) in cases {
        assert_eq!(complaints(&manifest), expected, "{manifest}");
        validate(&manifest).fails_with(3);
    }
}

#[test]
fn rules_about_changes_are_not_broken_by_what_is_new() {
    validate(&app("  size: small\n  fixed: a\n")).ok();
}

#[test]
fn metadata_is_checked() {
    let named = |metadata: &str| {
        format!("apiVersion: example.org/v1\nkind: App\nmetadata: {metadata}\nspec: {{size: small}}\n")
    };
    for (metadata, problem) in [
        ("{name: UPPER}", "metadata.name: Invalid value: \"UPPER\""),
        ("{name: a, labels: {a b: c}}", "metadata.labels: Invalid value: \"a b\""),
        ("{name: a, labels: {a: 1}}", "json: cannot unmarshal number"),
        ("{name: a, lables: {a: b}}", "metadata.lables: Invalid value: \"lables\": unknown field"),
        ("{}", "metadata.name: Required value: name or generateName is required"),
    ] {
        let found = complaints(&named(metadata));
        assert!(found.iter().any(|found| found.contains(problem)), "{metadata}: {found:#?}");
        assert!(found.iter().all(|found| found.starts_with("3: ")), "{found:#?}");
    }
    for fine in ["{generateName: a-}", "{annotations: {crossplane.io/composition-resource-name: a}}"] {
        validate(&named(fine)).ok();
    }
}

#[test]
fn kubernetes_own_kinds_are_known() {
    let manifest = "apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  replicsa: 1
  replicas: many
  selector: {}
  template:
    spec:
      containers:
      - image: nginx
";
    assert_eq!(
        complaints(manifest),
        [
            "5: spec.replicsa: Invalid value: \"replicsa\": unknown field: \"replicsa\"",
            "6: spec.replicas: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type \
             int32",
            "11: spec.template.spec.containers[0].name: Required value",
        ]
    );
}

#[test]
fn kinds_that_nobody_defines_are_no_error_unless_they_are_made_one() {
    let sandbox = Sandbox::new().with("a.yaml", "apiVersion: x.org/v1\nkind: Thing\nmetadata: {name: a}\n");
    assert_eq!(
        sandbox.run(&["validate", "a.yaml"]).ok(),
        "[!] could not find CRD/XRD for: x.org/v1, Kind=Thing, a\n    a.yaml:1\n\
         Total 1 resources: 1 missing schemas, 0 success cases, 0 failure cases\n"
    );
    sandbox.run(&["validate", "a.yaml", "--error-on-missing-schemas"]).fails_with(3);
}

#[test]
fn version_that_a_kind_does_not_have_is_told() {
    let ran = validate("apiVersion: example.org/v2\nkind: App\nmetadata: {name: a}\n");
    let said = ran.ok();
    assert!(said.contains("1: warning: App (example.org) has no version v2, only v1"), "{said}");
    assert!(said.contains("1 missing schemas"), "{said}");
}

#[test]
fn report_for_programs_has_the_shape_of_crossplanes_and_more() {
    let sandbox = Sandbox::new().with("xrd.yaml", XRD).with("a.yaml", &app("  size: 1\n  x: 1\n"));
    let arguments = ["validate", "a.yaml", "--schemas", "xrd.yaml", "--output"];
    let ran = sandbox.run(&[&arguments[..], &["json"]].concat());
    assert_eq!(ran.code, Some(3));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["summary"], json!({"total": 1, "valid": 0, "invalid": 1, "missingSchemas": 0}));
    let resource = &report["resources"][0];
    assert_eq!(
        (&resource["apiVersion"], &resource["kind"], &resource["name"], &resource["status"]),
        (&json!("example.org/v1"), &json!("App"), &json!("app"), &json!("invalid"))
    );
    assert_eq!((&resource["file"], &resource["line"]), (&json!("a.yaml"), &json!(1)));
    let errors: Vec<_> = resource["errors"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&errors[0]["type"], &errors[0]["field"], &errors[0]["line"]),
        (&json!("schema"), &json!("spec.size"), &json!(6))
    );
    let unknown = errors.iter().find(|error| error["type"] == "unknownField").unwrap();
    assert_eq!((&unknown["field"], &unknown["value"]), (&json!("spec.x"), &json!("x")));

    let ran = sandbox.run(&[&arguments[..], &["yaml"]].concat());
    let yaml: Value = serde_saphyr::from_str(&ran.stdout).unwrap();
    assert_eq!(yaml, report);
}

#[test]
fn everything_given_defines_what_it_defines_for_everything_else() {
    let sandbox = Sandbox::new()
        .with("all/z-xrd.yaml", XRD)
        .with(
            "all/a/app.json",
            r#"{"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "a"}, "spec": {}}"#,
        )
        .with("all/notes.txt", "not a manifest");
    let ran = sandbox.run(&["validate", "all"]);
    assert!(ran.stdout.contains("all/a/app.json:1: spec.size: Required value"), "{ran:#?}");
    assert!(ran.stdout.contains("Total 2 resources: 0 missing schemas, 1 success cases, 1 failure cases"));
    let listed = sandbox.run(&["validate", "all/z-xrd.yaml,all/a"]);
    assert_eq!(listed.stdout.lines().count(), ran.stdout.lines().count());
}

#[test]
fn success_need_not_be_told() {
    let sandbox = Sandbox::new().with("xrd.yaml", XRD);
    let said = sandbox.run(&["validate", "xrd.yaml", "--skip-success-results"]).ok();
    assert_eq!(said, "Total 1 resources: 0 missing schemas, 1 success cases, 0 failure cases\n");
}

#[test]
fn standard_input_can_be_validated_once() {
    let sandbox = Sandbox::new().with("xrd.yaml", XRD);
    let mut command = sandbox.command(&["validate", "-", "--schemas", "xrd.yaml"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(app("  size: 1\n").as_bytes()).unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert!(ran.stdout.contains("    standard input:6: spec.size: "), "{ran:#?}");
    let said = sandbox.run(&["validate", "-", "-"]).fails_with(1);
    assert!(said.contains("standard input can be read only once"), "{said}");
}

#[test]
fn lists_are_the_objects_in_them() {
    let manifest = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n  \
                    data: {a: 1}\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: b}\n";
    assert_eq!(
        complaints(manifest),
        ["7: data.a: json: cannot unmarshal number into Go struct field ConfigMap.data of type string"]
    );
    assert!(validate(manifest).stdout.contains("Total 2 resources"));
}

#[test]
fn what_cannot_be_read_is_an_error_and_hides_nothing_else() {
    let deep = "[".repeat(100_000);
    for (garbage, problem) in [
        ("a: [\n", "error: manifest.yaml:3: unclosed bracket '['"),
        ("\ta: 1\n", "error: manifest.yaml:3: a line starts with a tab"),
        ("- a\n", "error: manifest.yaml:3: expected a Kubernetes object, got a list"),
        ("text\n", "error: manifest.yaml:3: expected a Kubernetes object, got a string"),
        (deep.as_str(), "nested more than 128 levels deep"),
    ] {
        let ran = validate(&format!("# nothing\n---\n{garbage}\n---\n{}", app("  size: small\n")));
        assert_eq!(ran.code, Some(1), "{ran:#?}");
        assert!(ran.stderr.contains(problem), "{}", ran.stderr);
        assert!(ran.stdout.contains("[✓] example.org/v1, Kind=App, app"), "{}", ran.stdout);
    }
}

#[test]
fn obvious_mistakes_on_the_command_line_are_told() {
    let sandbox = Sandbox::new().with("empty.yaml", "# nothing\n").with("latin.yaml", "");
    std::fs::write(sandbox.path("latin.yaml"), b"a: \xff\n").unwrap();
    std::fs::create_dir(sandbox.path("nothing")).unwrap();
    for (file, problem) in [
        ("missing.yaml", "error: cannot read missing.yaml"),
        ("nothing", "error: nothing: found no yaml or yml or json files"),
        ("empty.yaml", "error: found no objects to validate"),
        ("latin.yaml", "error: latin.yaml:1: the file is not UTF-8 text"),
    ] {
        let said = sandbox.run(&["validate", file]).fails_with(1);
        assert!(said.starts_with(problem), "{file}: {said}");
    }
    sandbox.run(&["validate"]).fails_with(2);
}

#[test]
fn definitions_are_checked_themselves() {
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  names: {kind: Thing, plural: things}
  scope: Global
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: strin}
";
    assert_eq!(
        complaints(crd),
        [
            "7: spec.scope: Unsupported value: \"Global\": supported values: \"Cluster\", \"Namespaced\"",
            "16: spec.validation.openAPIV3Schema.properties[spec].type: Unsupported value: \"strin\": supported values: \
             \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ]
    );
    let broken = XRD.replace("replicas: {type: integer, default: 1}", "replicas: {type: int}");
    assert_eq!(
        complaints(&broken),
        [
            "22: spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[replicas].type: Unsupported value: \
             \"int\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""
        ]
    );
    let unruly = XRD.replace("self.replicas < 3", "self.replcas < 3");
    let found = complaints(&unruly);
    assert!(found[0].starts_with("26: ") && found[0].contains("undefined field 'replcas'"), "{found:#?}");
}

#[test]
fn definition_that_cannot_be_used_is_an_error() {
    let unusable = XRD.replace("required: [size]", "required: size");
    let sandbox = Sandbox::new().with("xrd.yaml", &unusable).with("app.yaml", &app("  size: small\n"));
    let said = sandbox.run(&["validate", "app.yaml", "--schemas", "xrd.yaml"]).fails_with(1);
    assert!(
        said.starts_with("error: xrd.yaml:9: json: cannot unmarshal string into Go struct field"),
        "{said}"
    );
    sandbox.run(&["validate", "app.yaml", "xrd.yaml"]).fails_with(3);
}

#[test]
fn inputs_of_functions_are_checked() {
    let patches = |patch: &str| {
        format!(
            "{{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{{name: a, \
             base: {{apiVersion: v1, kind: ConfigMap}}, patches: [{patch}]}}]}}"
        )
    };
    let base = |base: &str| {
        format!(
            "{{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{{name: a, base: {base}}}]}}"
        )
    };
    let cases = [
        ("function-patch-and-transform", patches("{fromFieldPath: spec.size, toFieldPath: data.size}"), None),
        (
            "function-patch-and-transform",
            patches("{type: Nonsense}"),
            Some("patches[0].type: Unsupported value: \"Nonsense\""),
        ),
        (
            "function-patch-and-transform",
            patches("{from: a}"),
            Some("patches[0].from: Invalid value: \"from\": unknown field"),
        ),
        // No schema says so, but the function does.
        (
            "function-patch-and-transform",
            patches("{type: FromCompositeFieldPath}"),
            Some("patches[0].fromFieldPath: Required value"),
        ),
        (
            "function-patch-and-transform",
            base("{apiVersion: example.org/v1, kind: App, spec: {siez: 1}}"),
            Some("base.spec.siez: Invalid value: \"siez\": unknown field"),
        ),
        (
            "function-patch-and-transform",
            base("{apiVersion: apps/v1, kind: Deployment, spec: {replicas: many}}"),
            Some("base.spec.replicas: json: cannot unmarshal string"),
        ),
        (
            "function-patch-and-transform",
            patches("{fromFieldPath: spec.siez, toFieldPath: data.size}"),
            Some(
                "warning: spec.pipeline[0].input.resources[0].patches[0].fromFieldPath: App has no field `spec.siez`",
            ),
        ),
        (
            "function-auto-redy",
            String::new(),
            Some("nor among the given Functions: did you mean `function-auto-ready`?"),
        ),
        // What is missing may yet be patched.
        ("function-patch-and-transform", base("{apiVersion: example.org/v1, kind: App}"), None),
        ("function-auto-ready", String::new(), None),
        (
            "function-nobody",
            String::new(),
            Some("warning: spec.pipeline[0].functionRef.name: function `function-nobody`"),
        ),
    ];
    for (function, input, problem) in cases {
        let found = complaints(&composition(&[("one", function, &input)]));
        match problem {
            None => assert_eq!(found, Vec::<String>::new(), "{function} {input}"),
            Some(problem) => {
                assert_eq!(found.len(), 1, "{found:#?}");
                assert!(found[0].contains(problem), "{found:#?}");
                let line = if input.is_empty() { "13: " } else { "14: " };
                assert!(found[0].starts_with(line), "{found:#?}");
            }
        }
    }
}

#[test]
fn function_that_is_given_is_known_and_its_input_too() {
    let function = "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: mine}\n\
                    spec: {package: \"registry.example/acme/mine:v1\"}\n";
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: inputs.mine.example.org}
spec:
  group: mine.example.org
  names: {kind: Input, plural: inputs}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, required: [count], properties: {count: {type: integer}}}}
";
    let input = "{apiVersion: mine.example.org/v1, kind: Input, count: x, coutn: 1}";
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "mine", input)]))
        .with("package/function.yaml", function)
        .with("package/crd.yaml", crd);
    let alone = sandbox.run(&["validate", "composition.yaml"]).ok();
    assert!(alone.contains("function `mine` is neither built in nor among the given Functions"), "{alone}");
    let ran = sandbox.run(&["validate", "composition.yaml", "--schemas", "package"]);
    assert!(!ran.stdout.contains("warning"), "{ran:#?}");
    assert!(ran.stdout.contains("spec.pipeline[0].input.count: Invalid value: \"string\""), "{ran:#?}");
    assert!(
        ran.stdout.contains("spec.pipeline[0].input.coutn: Invalid value: \"coutn\": unknown field"),
        "{ran:#?}"
    );
}

#[test]
fn annotation_of_a_function_decides_whether_the_input_of_the_built_in_one_is_checked() {
    let input = "{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resourses: []}";
    let complaints = |maker: &str, native: &str| {
        let function = format!(
            "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: mine, annotations: {{ferroplane.io/native: '{native}'}}}}\n\
             spec: {{package: 'registry.example/{maker}/function-patch-and-transform:v0.9.3'}}\n"
        );
        let sandbox = Sandbox::new()
            .with("composition.yaml", &composition(&[("one", "mine", input)]))
            .with("function.yaml", &function);
        sandbox
            .run(&["validate", "composition.yaml", "--schemas", "function.yaml"])
            .stdout
            .contains("resourses")
    };
    assert!(complaints("crossplane-contrib", ""), "the built-in function replaces the package");
    assert!(!complaints("crossplane-contrib", "false"), "the package is called");
    assert!(!complaints("acme", ""), "the package is another one");
    assert!(complaints("acme", "true"), "the built-in function is called whatever the package is");
}

#[test]
fn compositions_of_resources_are_checked_like_pipelines() {
    let composition = "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: a}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  environment:
    environmentConfigs:
    - type: Nonsense
  patchSets:
  - name: set
    patches:
    - fromFieldPth: a
  resources:
  - name: a
    base: {apiVersion: v1, kind: ConfigMap, dta: {}}
    patches:
    - type: PatchSet
";
    let found = complaints(composition);
    for problem in [
        "8: spec.environment.environmentConfigs[0].type: Unsupported value: \"Nonsense\"",
        "12: spec.patchSets[0].patches[0].fromFieldPth: Invalid value",
        "15: spec.resources[0].base.dta: Invalid value: \"dta\": unknown field: \"dta\"",
    ] {
        assert!(found.iter().any(|found| found.starts_with(problem)), "{problem}: {found:#?}");
    }
}

#[test]
fn composition_is_for_the_referenceable_version() {
    let composition = composition(&[("one", "function-auto-ready", "")]);
    assert_eq!(complaints(&composition), Vec::<String>::new());
    let other = composition.replace("apiVersion: example.org/v1", "apiVersion: example.org/v2");
    assert_eq!(
        complaints(&other),
        [
            "7: spec.compositeTypeRef.apiVersion: Invalid value: \"example.org/v2\": compositions of App are for its \
             referenceable version, example.org/v1"
        ]
    );
    let misspelt = composition.replace("kind: App", "kind: Ap");
    assert_eq!(
        complaints(&misspelt),
        [
            "8: warning: spec.compositeTypeRef.kind: no given CompositeResourceDefinition defines Ap (example.org)"
        ]
    );
}

#[test]
fn schedules_and_watched_fields_are_checked() {
    let template = "operationTemplate: {spec: {mode: Pipeline, pipeline: [{step: a, functionRef: {name: function-auto-ready}}]}}";
    let cron = |schedule: &str| {
        format!(
            "apiVersion: ops.crossplane.io/v1alpha1\nkind: CronOperation\nmetadata: {{name: c}}\nspec:\n  schedule: '{schedule}'\n  {template}\n"
        )
    };
    assert!(complaints(&cron("0 3 * * *")).iter().all(|it| !it.contains("schedule")));
    let found = complaints(&cron("0 0 31 2 *"));
    assert_eq!(found[0], "5: spec.schedule: Invalid value: \"0 0 31 2 *\": no time matches it");
    assert!(complaints(&cron("often"))[0].starts_with("5: spec.schedule: Invalid value: \"often\": "));
    let watch = format!(
        "apiVersion: ops.crossplane.io/v1alpha1\nkind: WatchOperation\nmetadata: {{name: w}}\nspec:\n  watch:\n    apiVersion: v1\n    kind: Pod\n    fields:\n    - fieldPath: spec..x\n  {template}\n"
    );
    let found = complaints(&watch);
    assert!(
        found[0].starts_with("9: spec.watch.fields[0].fieldPath: Invalid value: `spec..x` is not the path"),
        "{found:?}"
    );
    let triggers_others = |watched: &str| {
        let found = complaints(&watch.replace("apiVersion: v1\n    kind: Pod", watched));
        found.iter().any(|it| it.starts_with("7: warning: spec.watch.kind: no Operation is created for "))
    };
    assert!(triggers_others("apiVersion: ops.crossplane.io/v1alpha1\n    kind: Operation"));
    assert!(triggers_others("apiVersion: v1\n    kind: Event"));
    assert!(!triggers_others("apiVersion: v1\n    kind: Pod"));
}

#[test]
fn operations_are_checked_like_compositions() {
    let operation = "apiVersion: ops.crossplane.io/v1alpha1
kind: CronOperation
metadata: {name: nightly}
spec:
  schedule: '@daily'
  operationTemplate:
    spec:
      pipeline:
      - step: one
        functionRef: {name: function-patch-and-transform}
        input: {apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resuorces: []}
";
    let found = complaints(operation);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[0].starts_with("10: spec.operationTemplate.spec.pipeline[0].functionRef.name: ")
            && found[0].ends_with("does not have the capability `operation`"),
        "{found:#?}"
    );
    assert!(
        found[1].starts_with("11: spec.operationTemplate.spec.pipeline[0].input.resuorces: "),
        "{found:#?}"
    );
}

#[test]
fn crossplanes_command_line_is_understood() {
    let sandbox = Sandbox::new().with("xrd.yaml", XRD).with("a.yaml", &app("  size: 1\n"));
    for command in ["resource", "beta"] {
        let ran = sandbox.run(&[command, "validate", "xrd.yaml", "a.yaml,xr.yaml", "--clean-cache"]);
        assert_eq!(
            ran.stdout,
            "[x] schema validation error example.org/v1, Kind=App, app : spec.size: Invalid value: \"integer\": spec.size \
             in body must be of type string: \"integer\"\n\
             [x] schema validation error example.org/v1, Kind=App, app : spec.size: Unsupported value: 1: supported \
             values: \"small\", \"large\"\n\
             [✓] example.org/v1, Kind=App, app validated successfully\n\
             Total 2 resources: 0 missing schemas, 1 success cases, 1 failure cases\n",
            "{ran:#?}"
        );
        assert_eq!(ran.code, Some(3));
        assert!(
            ran.stderr.contains(
                "note: --clean-cache is ignored: the cache of Crossplane's command line is only read"
            ),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn packages_that_crossplane_has_downloaded_are_used() {
    let provider = "apiVersion: pkg.crossplane.io/v1\nkind: Provider\nmetadata: {name: apps}\n\
                    spec: {package: registry.example/acme/apps:v1.0.0}\n";
    let sandbox = Sandbox::new()
        .with("provider.yaml", provider)
        .with("cache/registry.example/acme/apps@v1.0.0/package.yaml", XRD)
        .with("a.yaml", &app("  size: 1\n"));
    let without = sandbox.run(&["validate", "provider.yaml", "a.yaml"]).ok();
    assert!(without.contains("1 missing schemas"), "{without}");
    let ran = sandbox.run(&["validate", "provider.yaml", "a.yaml", "--cache-dir", "cache"]);
    assert!(ran.stdout.contains("0 missing schemas, 1 success cases, 1 failure cases"), "{ran:#?}");
}

#[test]
fn examples_are_valid_but_for_what_is_broken_on_purpose() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let validate = |arguments: &[&str]| -> Ran {
        Sandbox::new().command(arguments).current_dir(&examples).output().unwrap().into()
    };
    // Each stands for itself: what one defines is not missing in another.
    for example in std::fs::read_dir(&examples).unwrap() {
        let folder = example.unwrap().file_name().into_string().unwrap();
        let ran = validate(&["validate", &folder, "--output", "json"]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        for resource in report["resources"].as_array().unwrap() {
            let file = resource["file"].as_str().unwrap();
            // What is rendered holds only what the Composition has written: required fields may be missing.
            let is_broken = file.starts_with("validate/broken/") || file.ends_with("/expected.yaml");
            let has_warnings = resource["warnings"].is_array();
            assert!(is_broken || (resource["status"] != "invalid" && !has_warnings), "{resource:#}");
        }
    }
    let expected = std::fs::read_to_string(examples.join("validate/findings.txt")).unwrap();
    assert_eq!(validate(&["validate", "validate", "--skip-success-results"]).stdout, expected);
}

#[test]
fn many_manifests_are_reported_in_their_order() {
    let all: Vec<_> = (0..500)
        .map(|number| app("  size: small\n").replace("name: app", &format!("name: app-{number}")))
        .collect();
    let said = validate(&all.join("---\n")).ok();
    let expected =
        (0..500).map(|number| format!("[✓] example.org/v1, Kind=App, app-{number} validated successfully"));
    assert!(said.lines().zip(expected).all(|(line, expected)| line == expected), "{said}");
    assert_eq!(said.lines().count(), 501);
}
