//! Tests of what future releases do to steps.

use ferroplane_engine::versions::Lifecycle;
use ferroplane_functions::{Contract, Declaration, Implementation, VersionMetadata};
use ferroplane_wire::v1::RunFunctionResponse;

use super::*;
use crate::manifest::Files;

/// `function-a`: v0.1.0 is deprecated in 0.2.0 and removed in 0.4.0; v0.2.0 is stable.
fn library() -> Library {
    let mut library = Library::empty(Version::new(0, 1, 0));
    let code = || Some(Implementation::new(|_| RunFunctionResponse::default()));
    let lifecycle = Lifecycle {
        introduced_in: Some(Version::new(0, 1, 0)),
        deprecated_in: Some(Version::new(0, 2, 0)),
        removed_in: Some(Version::new(0, 4, 0)),
        replaced_by: Some(Version::new(0, 2, 0)),
    };
    let covers = semver::VersionReq::parse(">=0.1.0, <0.2.0").ok();
    let versions = vec![
        ("v0.1.0".to_owned(), VersionMetadata { lifecycle, covers, ..VersionMetadata::default() }, code()),
        ("v0.2.0".to_owned(), VersionMetadata::default(), code()),
    ];
    let contract = Contract { package: Some("maker/function-a".to_owned()), ..Contract::default() };
    let (function, stable) = ("function-a".to_owned(), "v0.2.0".to_owned());
    library.register(Declaration { function, contract, stable, versions }).unwrap();
    library
}

const MANIFESTS: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: app}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  mode: Pipeline
  pipeline:
  - {step: free, functionRef: {name: function-a}}
  - {step: pinned, functionRef: {name: function-a, version: 0.1.0}}
  - {step: packaged, functionRef: {name: packaged}}
  - {step: foreign, functionRef: {name: foreign}}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: packaged}
spec: {package: registry.example/maker/function-a:v0.1.7}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: foreign}
spec: {package: registry.example/other/function-a:v0.1.7}
";

fn used_at(release: &str) -> (Vec<String>, Uses) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.yaml");
    std::fs::write(&path, MANIFESTS).unwrap();
    let manifests = Files::default().load(&path).unwrap();
    let uses = find(&manifests, &library(), &release.parse().unwrap()).unwrap();
    let told = uses.found.iter().map(|used| {
        let version = used.version.as_deref().unwrap_or("-");
        format!("{} {version} {}{}", used.step, used.state, if used.breaks { " breaks" } else { "" })
    });
    (told.collect(), uses)
}

#[test]
fn annotation_of_a_function_decides_whether_the_built_in_one_counts() {
    let told = |function: &str, native: &str| {
        let annotated = format!("{{name: {function}, annotations: {{ferroplane.io/native: '{native}'}}}}");
        let manifests =
            MANIFESTS.replace(&format!("{{name: {function}}}\nspec"), &format!("{annotated}\nspec"));
        assert_ne!(manifests, MANIFESTS);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("all.yaml");
        std::fs::write(&path, manifests).unwrap();
        let manifests = Files::default().load(&path).unwrap();
        let uses = find(&manifests, &library(), &"0.3.0".parse().unwrap()).unwrap();
        let steps = uses.found.into_iter().map(|used| used.step).collect::<Vec<_>>();
        (steps, uses.foreign)
    };
    let told_of =
        |steps: &[&str], foreign| (steps.iter().map(ToString::to_string).collect::<Vec<_>>(), foreign);
    assert_eq!(told("packaged", "false"), told_of(&["pinned"], 2));
    assert_eq!(told("packaged", ""), told_of(&["pinned", "packaged"], 1));
    // The built-in function of the package's name, in the version that a step without one gets.
    assert_eq!(told("foreign", "true"), told_of(&["pinned", "packaged"], 0));
}

#[test]
fn steps_of_operations_count() {
    let manifests = "
apiVersion: ops.crossplane.io/v1alpha1
kind: Operation
metadata: {name: once}
spec: {mode: Pipeline, pipeline: [{step: a, functionRef: {name: function-a, version: 0.1.0}}]}
---
apiVersion: ops.crossplane.io/v1alpha1
kind: WatchOperation
metadata: {name: often}
spec:
  watch: {apiVersion: v1, kind: ConfigMap}
  operationTemplate:
    spec: {mode: Pipeline, pipeline: [{step: b, functionRef: {name: function-a, version: 0.1.0}}]}
";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.yaml");
    std::fs::write(&path, manifests).unwrap();
    let manifests = Files::default().load(&path).unwrap();
    let uses = find(&manifests, &library(), &"0.4.0".parse().unwrap()).unwrap();
    let told: Vec<_> =
        uses.found.iter().map(|it| (it.composition.as_str(), it.step.as_str(), it.breaks)).collect();
    assert_eq!(told, [("Operation/once", "a", true), ("WatchOperation/often", "b", true)]);
}

#[test]
fn nothing_is_said_while_all_is_well() {
    let (told, uses) = used_at("0.1.0");
    assert_eq!(told, <[String; 0]>::default());
    assert_eq!((uses.steps, uses.foreign), (4, 1));
}

#[test]
fn steps_that_will_be_warned_about_are_listed() {
    let (told, uses) = used_at("0.3.0");
    assert_eq!(told, ["pinned v0.1.0 deprecated", "packaged v0.1.0 deprecated"]);
    assert_eq!(
        uses.found[0].message,
        "function `function-a` v0.1.0 is deprecated and will be removed in release 0.4.0: use v0.2.0 instead"
    );
}

#[test]
fn steps_that_will_break_are_listed() {
    let (told, uses) = used_at("0.4.0");
    assert_eq!(told, ["pinned 0.1.0 removed breaks", "packaged - removed breaks"]);
    assert!(uses.found[1].message.contains("removed in release 0.4.0: use v0.2.0 instead"), "{uses:?}");
}

const BLUEPRINT: &str = "
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: shop}
actions:
  backup:
    phases:
    - {name: free, func: function-a, args: {}}
    - {name: pinned, func: function-a, funcVersion: 0.1.0, args: {}}
    - {name: foreign, func: SomethingElse, args: {}}
    deferPhase: {name: last, func: function-a, funcVersion: v0.1.0, args: {}}
";

#[test]
fn phases_of_blueprints_that_will_break_are_listed_with_action_and_phase() {
    let object: Value =
        serde_json::to_value(crate::manifest::yaml::parse(BLUEPRINT).unwrap()[0].to_json()).unwrap();
    let live = LiveObject { server: "https://plane".to_owned(), object: object.as_object().unwrap().clone() };
    let told = |release: &str| {
        let uses = find_live(std::slice::from_ref(&live), &library(), &release.parse().unwrap()).unwrap();
        assert_eq!((uses.steps, uses.foreign), (4, 1));
        uses.found
            .iter()
            .map(|it| format!("{} {} {} {}", it.file, it.composition, it.step, it.state))
            .collect::<Vec<_>>()
    };
    assert_eq!(told("0.1.0"), Vec::<String>::new());
    assert_eq!(told("0.3.0")[0], "https://plane Blueprint/shop backup/pinned deprecated");
    assert_eq!(
        told("0.4.0"),
        [
            "https://plane Blueprint/shop backup/pinned removed",
            "https://plane Blueprint/shop backup/last removed"
        ]
    );
}

#[test]
fn blueprint_that_cannot_be_read_is_told() {
    for (actions, expected) in
        [("[]", "`actions` is not a map"), ("{a: {phases: [{}]}}", "a phase has no `func`")]
    {
        let text = format!(
            "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {{name: x}}\nactions: {actions}\n"
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("all.yaml");
        std::fs::write(&path, text).unwrap();
        let manifests = Files::default().load(&path).unwrap();
        let error = find(&manifests, &library(), &"0.1.0".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("all.yaml:4") && error.contains(expected), "{error}");
    }
}
