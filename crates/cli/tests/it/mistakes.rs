//! Mistakes in Compositions and composite resources that are found before anything is composed.

use crate::sandbox::{Ran, Sandbox, XR, composition};

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.cloud.example.org}
spec:
  group: cloud.example.org
  scope: Namespaced
  names: {kind: Bucket, plural: buckets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {region: {type: string}}}
          status: {type: object, properties: {url: {type: string}}}
";

/// A definition of apps, of this scope.
fn xrd(scope: &str) -> String {
    format!(
        "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {{name: apps.example.org}}
spec:
  group: example.org
  scope: {scope}
  names: {{kind: App, plural: apps}}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {{type: object, required: [size], properties: {{size: {{type: string, enum: [small, large]}}, region: {{type: string}}}}}}
"
    )
}

/// One template of patch-and-transform, or several.
fn templates(templates: &str) -> String {
    let input =
        format!("{{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{templates}]}}");
    composition(&[("one", "function-patch-and-transform", &input)])
}

fn bucket(rest: &str) -> String {
    templates(&format!("{{name: b, base: {{apiVersion: cloud.example.org/v1, kind: Bucket}}{rest}}}"))
}

/// Validate a composition by the definitions of apps, of this scope, and of buckets.
fn validate(composition: &str, scope: &str) -> Ran {
    let sandbox = Sandbox::new().with("kinds/xrd.yaml", &xrd(scope)).with("kinds/crd.yaml", CRD);
    sandbox.with("composition.yaml", composition).run(&["validate", "composition.yaml", "--schemas", "kinds"])
}

#[test]
fn mistakes_of_patch_and_transform_are_errors() {
    let patch = |to: &str| format!(", patches: [{{fromFieldPath: spec.region, toFieldPath: {to}}}]");
    let sets = "{name: b, base: {apiVersion: cloud.example.org/v1, kind: Bucket}, patches: [{type: PatchSet, patchSetName: s}]}], \
                patchSets: [{name: s, patches: [{fromFieldPath: spec.region, toFieldPath: spec.regoin}]}";
    let deployment = "{name: d, base: {apiVersion: apps/v1, kind: Deployment}, patches: [{fromFieldPath: spec.region, toFieldPath: spec.replica}]}";
    let cases = [
        (
            bucket(&patch("spec.regoin")),
            "resources[0].patches[0].toFieldPath: Bucket has no field `spec.regoin`",
        ),
        (templates(sets), "patchSets[0].patches[0].toFieldPath: Bucket has no field `spec.regoin`"),
        (
            templates(deployment),
            "resources[0].patches[0].toFieldPath: Deployment has no field `spec.replica`",
        ),
        (
            templates("{name: b, base: {apiVersion: cloud.example.org/v2, kind: Bucket}}"),
            "base.apiVersion: Bucket (cloud.example.org) has no version v2, only v1",
        ),
        (
            templates("{name: b, base: {apiVersion: apps/v1beta1, kind: Deployment}}"),
            "base.apiVersion: Kubernetes has no kind Deployment in apps/v1beta1, only in v1",
        ),
        (
            templates("{name: b, base: {apiVersion: v1, kind: ConfigMpa}}"),
            "base.apiVersion: Kubernetes has no kind ConfigMpa in v1",
        ),
        (
            templates(
                "{name: b, base: {apiVersion: v1, kind: ConfigMap}}, {name: b, base: {apiVersion: v1, kind: Secret}}",
            ),
            "resources[1].name: Duplicate value: \"b\": resources[0] has this name",
        ),
        (
            composition(&[(
                "one",
                "function-cel-validation",
                "{apiVersion: validation.fn.ferroplane.io/v1beta1, kind: Validation, rules: [{name: a, rule: '1 +'}]}",
            )]),
            "input.rules: cannot compile rule \"a\": ERROR: <input>:1:4: Syntax error",
        ),
        (composition(&[("one", "function-auto-redy", "")]), "did you mean `function-auto-ready`?"),
    ];
    for (composition, words) in cases {
        let ran = validate(&composition, "Namespaced");
        assert_eq!(ran.code, Some(3), "{words}: {ran:#?}");
        assert!(ran.stdout.contains(words), "{words}: {ran:#?}");
        assert!(!ran.stdout.contains("warning: "), "{ran:#?}");
    }
    // What is read and is not there does nothing; what is not given may be elsewhere.
    for (composition, words) in [
        (
            bucket(
                ", patches: [{type: ToCompositeFieldPath, fromFieldPath: status.ulr, toFieldPath: spec.region}]",
            ),
            "warning: spec.pipeline[0].input.resources[0].patches[0].fromFieldPath: Bucket has no field `status.ulr`",
        ),
        (
            templates("{name: b, base: {apiVersion: cloud.example.org/v1, kind: Queue}}"),
            "warning: spec.pipeline[0].input.resources[0].base.kind: no given CRD or XRD defines Queue (cloud.example.org)",
        ),
        (
            composition(&[("one", "function-elsewhere", "")]),
            "is neither built in nor among the given Functions",
        ),
    ] {
        let ran = validate(&composition, "Namespaced");
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        assert!(ran.stdout.contains(words), "{ran:#?}");
        assert!(ran.stdout.contains("is valid, with warnings"), "{ran:#?}");
    }
    assert_eq!(validate(&bucket(&patch("spec.region")), "Namespaced").code, Some(0));
}

#[test]
fn function_that_is_missing_from_a_list_of_functions_is_an_error() {
    let function = "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: mine}\nspec: {package: \"registry.example/acme/mine:v1\"}\n";
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "function-elsewhere", "")]))
        .with("functions.yaml", function);
    let ran = sandbox.run(&["validate", "composition.yaml", "functions.yaml"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(
        ran.stdout
            .contains("function `function-elsewhere` is neither built in nor among the given Functions"),
        "{ran:#?}"
    );
}

#[test]
fn step_that_cannot_call_its_function_is_reported() {
    let of = |kind: &str, spec: &str| {
        format!(
            "apiVersion: ops.crossplane.io/v1alpha1\nkind: {kind}\nmetadata: {{name: nightly}}\nspec: {spec}\n"
        )
    };
    let steps =
        |function: &str| format!("{{mode: Pipeline, pipeline: [{{step: work, functionRef: {function}}}]}}");
    let run = |manifest: &str| Sandbox::new().with("o.yaml", manifest).run(&["validate", "o.yaml"]);
    let phases = "functionRef.name: function `KubeOps` can be called by phases of Blueprints only: have a step return an ActionSet that \
                  runs it";
    let cron = of(
        "CronOperation",
        &format!("{{schedule: '@daily', operationTemplate: {{spec: {}}}}}", steps("{name: KubeOps}")),
    );
    let cases = [
        (of("Operation", &steps("{name: KubeOps, version: v0.1.0}")), format!("spec.pipeline[0].{phases}")),
        (cron, format!("spec.operationTemplate.spec.pipeline[0].{phases}")),
        (
            of("Operation", &steps("{name: function-auto-ready}")),
            "does not have the capability `operation`".to_owned(),
        ),
        (
            of("Operation", &steps("{name: function-schedule, version: v9.9.9}")),
            "spec.pipeline[0].functionRef.version: function `function-schedule`".to_owned(),
        ),
        (
            composition(&[("one", "function-schedule", "")]),
            "does not have the capability `composition`".to_owned(),
        ),
    ];
    for (manifest, words) in cases {
        let ran = run(&manifest);
        assert_eq!(ran.code, Some(3), "{words}: {ran:#?}");
        assert!(ran.stdout.contains(&words), "{words}: {ran:#?}");
    }
}

#[test]
fn cluster_scoped_xr_that_composes_a_namespaced_kind_needs_a_namespace() {
    let ran = validate(&bucket(""), "Cluster");
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(
        ran.stdout.contains(
            "base.metadata.namespace: Required value: Bucket is namespaced and App is cluster scoped"
        ),
        "{ran:#?}"
    );
    let patched = bucket(", patches: [{fromFieldPath: spec.region, toFieldPath: metadata.namespace}]");
    let written = templates(
        "{name: b, base: {apiVersion: cloud.example.org/v1, kind: Bucket, metadata: {namespace: a}}}",
    );
    for composition in [patched, written] {
        let ran = validate(&composition, "Cluster");
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    assert_eq!(validate(&bucket(""), "Namespaced").code, Some(0));
}

/// A definition of Crossplane 1 says nothing about its scope: its composite resources are cluster scoped, whatever claims are.
#[test]
fn claim_of_an_old_definition_that_composes_a_namespaced_kind_needs_a_namespace() {
    let definition = xrd("").replace("crossplane.io/v2", "crossplane.io/v1").replace("  scope: \n", "");
    let definition = definition.replace(
        "  names: {kind: App, plural: apps}\n",
        "  names: {kind: App, plural: apps}\n  claimNames: {kind: Order, plural: orders}\n",
    );
    assert!(definition.contains("claimNames") && !definition.contains("scope"), "{definition}");
    let validate = |base: &str| {
        let sandbox = Sandbox::new().with("xrd.yaml", &definition);
        let sandbox = sandbox.with("composition.yaml", &templates(&format!("{{name: b, base: {base}}}")));
        sandbox.run(&["validate", "composition.yaml", "--schemas", "xrd.yaml"])
    };
    let ran = validate("{apiVersion: v1, kind: ConfigMap}");
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(
        ran.stdout.contains(
            "base.metadata.namespace: Required value: ConfigMap is namespaced and App is cluster scoped"
        ),
        "{ran:#?}"
    );
    assert_eq!(validate("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: a}}").code, Some(0));
    assert_eq!(validate("{apiVersion: v1, kind: Namespace}").code, Some(0));
}

#[test]
fn cluster_scoped_xr_that_composes_a_namespaced_kind_without_a_namespace_is_not_rendered() {
    let render = |base: &str| {
        let sandbox = Sandbox::new()
            .with("composition.yaml", &templates(&format!("{{name: config, base: {base}}}")))
            .with("xrd.yaml", &xrd("Cluster"))
            .with("xr.yaml", &XR.replace("  namespace: default\n", ""));
        sandbox.run(&["render", "xr.yaml", "composition.yaml", "--xrd", "xrd.yaml"])
    };
    let ran = render("{apiVersion: v1, kind: ConfigMap}");
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("metadata.namespace") && ran.stderr.contains("`config`"), "{ran:#?}");
    assert!(!ran.stdout.contains("ConfigMap"), "{ran:#?}");
    assert_eq!(render("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default}}").code, Some(0));
}

#[test]
fn version_of_our_kinds_that_there_is_not_is_refused() {
    let composition =
        composition(&[("one", "function-dummy", "")]).replace("crossplane.io/v1", "crossplane.io/v3");
    let sandbox = Sandbox::new().with("composition.yaml", &composition).with("xr.yaml", XR);
    let ran = sandbox.run(&["validate", "composition.yaml"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(
        ran.stdout.contains("Composition (apiextensions.crossplane.io) has no version v3, only v1"),
        "{ran:#?}"
    );
    let ran = sandbox.run(&["render", "xr.yaml", "composition.yaml"]);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(
        ran.stderr
            .contains("composition.yaml:1: there is no Composition in `apiextensions.crossplane.io/v3`"),
        "{ran:#?}"
    );
}

#[test]
fn definition_without_a_referenceable_version_is_told_once_in_the_words_of_the_user() {
    let xrd = xrd("Namespaced").replace("    referenceable: true\n", "    referenceable: false\n");
    let ran = Sandbox::new().with("xrd.yaml", &xrd).run(&["validate", "xrd.yaml"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    let complaints: Vec<_> = ran.stdout.lines().filter(|line| line.contains("spec.versions")).collect();
    let [complaint] = &complaints[..] else { panic!("{ran:#?}") };
    assert!(
        complaint.contains("spec.versions: one version has to be referenceable, and none is"),
        "{ran:#?}"
    );
    assert!(!ran.stdout.contains("storage"), "{ran:#?}");
}

#[test]
fn xr_that_breaks_its_schema_is_not_rendered() {
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "function-dummy", "")]))
        .with("xrd.yaml", &xrd("Namespaced"))
        .with("xr.yaml", XR)
        .with("bad.yaml", &XR.replace("size: small", "size: tiny"))
        .with("lacking.yaml", &XR.replace("  size: small", "  region: eu"));
    let render = |xr: &str| sandbox.run(&["render", xr, "composition.yaml", "--xrd", "xrd.yaml"]);
    assert_eq!(render("xr.yaml").code, Some(0));
    let bad = render("bad.yaml");
    assert_eq!(bad.code, Some(1), "{bad:#?}");
    assert!(bad.stderr.contains("bad.yaml:8: spec.size: Unsupported value: \"tiny\""), "{bad:#?}");
    let lacking = render("lacking.yaml");
    assert!(lacking.stderr.contains("spec.size: Required value"), "{lacking:#?}");
}

#[test]
fn fatal_result_is_an_error() {
    let fatal = "{apiVersion: dummy.fn.crossplane.io/v1beta1, kind: Response, response: {results: [{severity: SEVERITY_FATAL, message: no region}]}}";
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "function-dummy", fatal)]))
        .with("xr.yaml", XR);
    let ran = sandbox.run(&["render", "xr.yaml", "composition.yaml"]);
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.stderr.contains("error: ") && ran.stderr.contains("no region"), "{ran:#?}");
    assert!(!ran.stderr.contains("warning: "), "{ran:#?}");
}
