//! `ferroplane diff` and `ferroplane apply`, against `ferroplane up`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::plane::Plane;
use crate::sandbox::Ran;

const DEFINITION: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: sites.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Site, plural: sites}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}}}}}}
";

fn composition(resource: &str) -> String {
    format!(
        "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {{name: sites}}
spec:
  compositeTypeRef: {{apiVersion: example.org/v1, kind: Site}}
  mode: Pipeline
  pipeline:
  - step: settings
    functionRef: {{name: function-patch-and-transform}}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: {resource}
        base: {{apiVersion: v1, kind: ConfigMap, data: {{who: {resource}}}}}
        patches: [{{type: FromCompositeFieldPath, fromFieldPath: spec.color, toFieldPath: data.color}}]
  - step: ready
    functionRef: {{name: function-auto-ready}}
"
    )
}

fn site(name: &str, color: &str) -> String {
    format!(
        "\n---\napiVersion: example.org/v1\nkind: Site\nmetadata: {{name: {name}, namespace: default}}\nspec: {{color: {color}}}\n"
    )
}

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The binary beside a control plane, with these arguments.
fn run(plane: &Plane, arguments: &[&str]) -> Ran {
    let mut command = plane.client(Path::new(env!("CARGO_BIN_EXE_ferroplane")));
    command.args(arguments).output().unwrap().into()
}

/// Applies files by a plan.
fn apply(plane: &Plane, name: &str, content: &str) {
    std::fs::write(plane.path(name), content).unwrap();
    let planned = run(plane, &["diff", name, "--save", "ground.plan"]);
    assert_eq!(planned.code, Some(3), "{planned:?}");
    let applied = run(plane, &["apply", "ground.plan"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
}

/// Tries something until it succeeds.
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never came to be");
    }
}

/// A control plane with these sites, which are ready.
fn plane_with(names: &[&str]) -> Plane {
    let plane = Plane::new();
    apply(&plane, "definition.yaml", DEFINITION);
    apply(&plane, "composition.yaml", &composition("one"));
    let sites: String = names.iter().map(|name| site(name, "red")).collect();
    std::fs::write(plane.path("sites.yaml"), &sites).unwrap();
    // The kind is served a moment after its definition is written.
    until(|| run(&plane, &["diff", "sites.yaml"]).code == Some(3));
    apply(&plane, "sites.yaml", &sites);
    for name in names {
        until(|| run(&plane, &["why", &format!("site/{name}")]).code == Some(0));
    }
    plane
}

#[test]
fn blast_radius_of_a_composition_is_told_and_nothing_is_written() {
    let plane = plane_with(&["blog", "docs"]);
    std::fs::write(plane.path("composition.yaml"), composition("two")).unwrap();
    let diff = run(&plane, &["diff", "composition.yaml"]);
    assert_eq!(diff.code, Some(3), "{diff:?}");
    assert!(
        diff.stdout.contains("Site/blog in default, Site/docs in default: changes with sites-"),
        "{diff:?}"
    );
    assert!(diff.stdout.contains("- delete  ConfigMap/blog-"), "{diff:?}");
    let summary = "2 of 2 composite resources change: 2 deleted, 0 replaced, 2 created, 2 updated.";
    assert!(diff.stdout.ends_with(&format!("{summary}\n")), "{diff:?}");

    let json = run(&plane, &["diff", "composition.yaml", "-o", "json"]);
    let plan: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, plan["composites"].as_array().unwrap().len()), (Some(3), 2));
    // Twice the same: nothing moved.
    let again = run(&plane, &["diff", "composition.yaml", "-o", "json"]);
    assert_eq!(again.stdout, json.stdout);
    std::fs::write(plane.path("composition.yaml"), composition("one")).unwrap();
    let same = run(&plane, &["diff", "composition.yaml", "sites.yaml"]);
    assert_eq!(
        (same.code, same.stdout.as_str()),
        (Some(0), "No differences. 2 composite resources checked.\n")
    );
}

#[test]
fn saved_plan_is_applied_once_and_refused_when_something_moved() {
    let plane = plane_with(&["blog"]);
    std::fs::write(plane.path("site.yaml"), site("blog", "blue")).unwrap();
    assert_eq!(run(&plane, &["diff", "site.yaml", "--save", "first.plan"]).code, Some(3));
    assert_eq!(run(&plane, &["diff", "site.yaml", "--save", "second.plan"]).code, Some(3));
    let mode = std::fs::metadata(plane.path("first.plan")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let applied = run(&plane, &["apply", "first.plan"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(applied.stderr.contains("Site/blog in default changed"), "{applied:?}");
    until(|| run(&plane, &["diff", "site.yaml"]).code == Some(0));
    let refused = run(&plane, &["apply", "second.plan"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("out of date") && refused.stderr.contains("Site/blog"), "{refused:?}");
}

#[test]
fn controllers_may_write_to_composite_resources_while_a_plan_is_applied() {
    let names: Vec<_> = (0..20).map(|number| format!("site-{number}")).collect();
    let plane = plane_with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    // The Composition comes first: each site moves to its new revision while the sites are applied.
    let sites: String = names.iter().map(|name| site(name, "blue")).collect();
    std::fs::write(plane.path("all.yaml"), composition("two") + &sites).unwrap();
    assert_eq!(run(&plane, &["diff", "all.yaml", "--save", "all.plan"]).code, Some(3));
    let applied = run(&plane, &["apply", "all.plan"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    until(|| run(&plane, &["diff", "all.yaml"]).code == Some(0));
}

#[test]
fn objects_without_a_namespace_go_to_that_of_the_context() {
    let plane = Plane::new();
    apply(&plane, "team.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n");
    let kubeconfig = std::fs::read_to_string(plane.path("kubeconfig")).unwrap();
    let of_team = kubeconfig.replacen("  context:\n", "  context:\n    namespace: team\n", 1);
    assert_ne!(of_team, kubeconfig);
    std::fs::write(plane.path("of-team"), of_team).unwrap();
    let map = |namespace: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings{namespace}}}\ndata: {{a: b}}\n")
    };
    std::fs::write(plane.path("map.yaml"), map("")).unwrap();
    std::fs::write(plane.path("in-team.yaml"), map(", namespace: team")).unwrap();
    std::fs::write(plane.path("in-default.yaml"), map(", namespace: default")).unwrap();
    let planned = run(&plane, &["diff", "map.yaml", "--kubeconfig", "of-team", "--save", "map.plan"]);
    assert_eq!(planned.code, Some(3), "{planned:?}");
    let applied = run(&plane, &["apply", "map.plan", "--kubeconfig", "of-team"]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(applied.stderr.contains("ConfigMap/settings in team created"), "{applied:?}");
    assert_eq!(run(&plane, &["diff", "in-team.yaml"]).code, Some(0));
    assert_eq!(run(&plane, &["diff", "in-default.yaml"]).code, Some(3), "nothing was created there");
    // A plan keeps its namespace, whatever context it is applied with.
    let again = run(&plane, &["diff", "map.yaml", "--kubeconfig", "of-team", "--save", "again.plan"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let applied = run(&plane, &["apply", "again.plan"]);
    assert!(applied.stderr.contains("ConfigMap/settings in team unchanged"), "{applied:?}");
}

#[test]
fn what_cannot_be_planned_is_an_error_that_names_the_object() {
    let plane = Plane::new();
    std::fs::write(plane.path("site.yaml"), site("blog", "blue")).unwrap();
    let refused = run(&plane, &["diff", "site.yaml"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("Site/blog") && refused.stderr.contains("no kind Site"), "{refused:?}");
    let missing = run(&plane, &["diff", "nothing.yaml"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
}
