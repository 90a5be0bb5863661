//! `ferroplane up MANIFESTS`: files that are applied, and applied again when they are saved.

use std::path::Path;

use tempfile::TempDir;

use crate::peers::peer;
use crate::plane::{Plane, ferroplane};
use crate::sandbox::Ran;

const SETTINGS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  namespace: default\ndata:\n  theme: light\n";

const BUCKETS: &str = "
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
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {region: {type: string}}}}}
";

const COMPOSITION_WITH_A_MISTAKE: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: wrong}
spec:
  compositeTypeRef: {apiVersion: demo.ferroplane.io/v1, kind: App}
  mode: Pipeline
  pipeline:
  - step: bucket
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: bucket
        base: {apiVersion: cloud.example.org/v1, kind: Bucket}
        patches:
        - {fromFieldPath: spec.greeting, toFieldPath: spec.regoin}
";

const STORES: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: stores.shop.example.org}
spec:
  group: shop.example.org
  names: {kind: Store, plural: stores}
  versions:
  - {name: v1alpha1, served: true, referenceable: false, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}
";

const COMPOSITION_OF_ANOTHER_VERSION: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: another-version}
spec:
  compositeTypeRef: {apiVersion: shop.example.org/v1alpha1, kind: Store}
  mode: Pipeline
  pipeline:
  - step: ready
    functionRef: {name: function-auto-ready}
";

/// The example that everybody tries first, in a directory of its own.
fn hello() -> TempDir {
    let directory = TempDir::new().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello");
    std::fs::create_dir(directory.path().join("manifests")).unwrap();
    for name in ["definition.yaml", "composition.yaml", "xr.yaml"] {
        std::fs::copy(example.join(name), directory.path().join("manifests").join(name)).unwrap();
    }
    directory
}

/// A plane on which the example is, and stays as its files say.
fn watching(flags: &[&str]) -> Plane {
    let plane = Plane::start(hello(), &[&["manifests", "--in-memory", "--watch"], flags].concat());
    plane.until("applied: 3 created, 0 changed, 0 unchanged");
    plane.until("waiting for a file to change");
    plane
}

fn save(plane: &Plane, name: &str, content: &str) {
    // At once, as editors do it.
    std::fs::write(plane.path("new"), content).unwrap();
    std::fs::rename(plane.path("new"), plane.path("manifests").join(name)).unwrap();
}

fn change(plane: &Plane, name: &str, from: &str, to: &str) {
    let content = std::fs::read_to_string(plane.path("manifests").join(name)).unwrap();
    assert!(content.contains(from), "{content}");
    save(plane, name, &content.replace(from, to));
}

#[test]
fn what_is_saved_is_applied() {
    let plane = watching(&[]);
    change(&plane, "xr.yaml", "Hello, world", "Hello again");
    let said = plane.heard_until("applied: 0 created, 1 changed, 2 unchanged");
    assert!(said.iter().any(|line| line == "app.demo.ferroplane.io/hello in default changed"), "{said:#?}");
    save(&plane, "settings.yaml", SETTINGS);
    plane.until("configmap/settings in default created");
    if peer("kubectl").is_some() {
        plane.says("kubectl wait configmap -l crossplane.io/composite=hello --for=jsonpath='{.data.greeting}'='Hello again' --timeout=60s");
        let manager = plane.says(
            "kubectl get cm settings --show-managed-fields -o jsonpath={.metadata.managedFields[0].manager}",
        );
        assert_eq!(manager, "ferroplane/up");
    }
}

#[test]
fn file_that_is_broken_stops_no_other_and_is_shown_in_place() {
    let plane = watching(&[]);
    save(&plane, "a.yaml", "apiVersion: v1\nkind: [\n");
    let said = plane.until("manifests/a.yaml:");
    assert!(said.starts_with("error: manifests/a.yaml:2: "), "{said}");
    plane.until("applied: 0 created, 0 changed, 3 unchanged");
    change(&plane, "xr.yaml", "replicas: 2", "replicas: many");
    let said = plane.until("manifests/xr.yaml:");
    assert!(said.starts_with("error: manifests/xr.yaml:8: ") && said.contains("spec.replicas: "), "{said}");
    plane.until("applied: 0 created, 0 changed, 2 unchanged, 1 failed");
    save(&plane, "a.yaml", SETTINGS);
    plane.until("configmap/settings in default created");
    change(&plane, "xr.yaml", "replicas: many", "replicas: 3");
    plane.until("app.demo.ferroplane.io/hello in default changed");
    change(&plane, "composition.yaml", "mode: Pipeline", "mood: Pipeline");
    let said = plane.until("manifests/composition.yaml:");
    assert!(
        said.starts_with("error: manifests/composition.yaml:9: ") && said.contains("spec.mood"),
        "{said}"
    );
}

#[test]
fn kind_that_nobody_defines_is_named() {
    let directory = hello();
    std::fs::write(
        directory.path().join("manifests/odd.yaml"),
        "apiVersion: example.org/v1\nkind: Odd\nmetadata:\n  name: odd\n",
    )
    .unwrap();
    let plane = Plane::start(directory, &["manifests", "--in-memory"]);
    let said = plane.heard_until("1 failed");
    let told = "error: manifests/odd.yaml:2: no kind `Odd` is served in `example.org/v1`: is its definition missing?";
    assert!(said.iter().any(|line| line == told), "{said:#?}");
}

#[test]
fn what_is_in_no_file_any_more_stays_unless_it_is_pruned() {
    for (flags, outcome) in [(&[][..], "is no longer in any file and stays"), (&["--prune"], "deleted")] {
        let plane = watching(flags);
        save(&plane, "settings.yaml", SETTINGS);
        plane.until("applied: 1 created, 0 changed, 3 unchanged");
        // While a file cannot be read, nobody knows what is in it.
        save(&plane, "settings.yaml", "kind: [\n");
        let said = plane.heard_until("applied: 0 created, 0 changed, 3 unchanged");
        assert!(!said.iter().any(|line| line.contains("configmap/settings")), "{said:#?}");
        std::fs::remove_file(plane.path("manifests/settings.yaml")).unwrap();
        let said = plane.until("configmap/settings in default");
        assert!(said.contains(outcome), "{said}");
        if peer("kubectl").is_some() {
            plane.says("kubectl get app hello");
            let left = plane.says("kubectl get configmap settings --ignore-not-found -o name");
            assert_eq!(left.is_empty(), flags == ["--prune"], "{left}");
        }
    }
}

#[test]
fn object_of_a_file_that_is_being_saved_is_not_pruned() {
    let plane = watching(&["--prune"]);
    save(&plane, "settings.yaml", SETTINGS);
    plane.until("configmap/settings in default created");
    plane.until("applied: 1 created");
    let file = plane.path("manifests/settings.yaml");
    let empty = || std::fs::write(&file, "").unwrap();
    let move_away = || std::fs::rename(&file, plane.path("manifests/settings.yaml~")).unwrap();
    // Valid, and only the beginning of what it will be.
    let write_half = || std::fs::write(&file, "# Settings\n").unwrap();
    for (theme, step) in [("dark", &empty as &dyn Fn()), ("blue", &move_away), ("red", &write_half)] {
        step();
        // It has been read as it is.
        let mut said = plane.heard_until("applied: 0 created, 0 changed, 3 unchanged");
        std::fs::write(&file, SETTINGS.replace("light", theme)).unwrap();
        said.extend(plane.heard_until("applied: 0 created, 1 changed, 3 unchanged"));
        assert!(!said.iter().any(|line| line.contains("deleted")), "{said:#?}");
    }
    // What stays empty is what was meant.
    empty();
    plane.until("configmap/settings in default deleted");
}

#[test]
fn what_somebody_else_changed_is_taken_back_and_said() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = watching(&[]);
    plane.says("kubectl patch app hello --type=merge -p '{\"spec\":{\"greeting\":\"mine\"}}'");
    change(&plane, "xr.yaml", "Hello, world", "Hello again");
    let said = plane.until("manifests/xr.yaml:");
    assert!(
        said.starts_with("warning: manifests/xr.yaml:7: .spec.greeting: conflict with \"kubectl-patch\""),
        "{said}"
    );
    plane.until("app.demo.ferroplane.io/hello in default changed");
    assert_eq!(plane.says("kubectl get app hello -o jsonpath={.spec.greeting}"), "Hello again");
}

#[test]
fn compositions_are_checked_against_kinds_that_are_on_the_plane_already() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = watching(&[]);
    save(&plane, "bucket.crd", BUCKETS);
    plane.says("kubectl apply -f manifests/bucket.crd");
    plane.says("kubectl wait --for=condition=Established crd/buckets.cloud.example.org --timeout=20s");
    save(&plane, "wrong.yaml", COMPOSITION_WITH_A_MISTAKE);
    let said = plane.until("manifests/wrong.yaml:");
    assert!(said.contains("Bucket has no field `spec.regoin`"), "{said}");
}

#[test]
fn compositions_are_checked_against_definitions_that_are_on_the_plane_already() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = watching(&[]);
    save(&plane, "store.xrd", STORES);
    plane.says("kubectl apply -f manifests/store.xrd");
    plane.says("kubectl wait --for=condition=Established xrd/stores.shop.example.org --timeout=20s");
    save(&plane, "another.yaml", COMPOSITION_OF_ANOTHER_VERSION);
    let said = plane.until("manifests/another.yaml:");
    assert!(
        said.contains("compositions of Store are for its referenceable version, shop.example.org/v1"),
        "{said}"
    );
}

/// A Composition for the apps of the example, of one step.
fn of_step(step: &str) -> String {
    format!(
        "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {{name: wrong}}
spec:
  compositeTypeRef: {{apiVersion: demo.ferroplane.io/v1, kind: App}}
  mode: Pipeline
  pipeline:
  - {step}
"
    )
}

/// What is said while this Composition is applied.
fn said_of(plane: &Plane, step: &str) -> Vec<String> {
    save(plane, "wrong.yaml", &of_step(step));
    plane.heard_until("applied: ")
}

fn warns(said: &[String], words: &str) -> bool {
    said.iter().any(|line| line.starts_with("warning: manifests/wrong.yaml:") && line.contains(words))
}

#[test]
fn function_that_nobody_has_is_warned_of() {
    const NOBODYS: &str = "function `function-nobody` is neither built in nor installed, and no file has it";
    const FUNCTION: &str = "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-nobody}\n\
                            spec: {package: 'registry.invalid/acme/function-nobody:v1.0.0'}\n";
    let calls = |step: &str| format!("{{step: {step}, functionRef: {{name: function-nobody}}}}");
    let plane = watching(&[]);
    let said = said_of(&plane, &calls("one"));
    assert!(warns(&said, NOBODYS), "{said:#?}");
    // A misspelt name is one that nobody has, too.
    let said = said_of(&plane, "{step: one, functionRef: {name: function-auto-redy}}");
    assert!(warns(&said, "did you mean `function-auto-ready`?"), "{said:#?}");
    // One in a file is enough, and so is one that was in a file.
    save(&plane, "function.yaml", FUNCTION);
    plane.until("applied: 1 created");
    let said = said_of(&plane, &calls("two"));
    assert!(!warns(&said, "function-nobody"), "{said:#?}");
    std::fs::remove_file(plane.path("manifests/function.yaml")).unwrap();
    plane.until("is no longer in any file and stays");
    let said = said_of(&plane, &calls("three"));
    assert!(!warns(&said, "function-nobody"), "{said:#?}");
}

#[test]
fn mistakes_in_inputs_of_functions_are_warned_of() {
    let plane = watching(&[]);
    for (step, words) in [
        (
            "{step: twice, functionRef: {name: function-patch-and-transform}, input: {apiVersion: pt.fn.crossplane.io/v1beta1, \
             kind: Resources, resources: [{name: b, base: {apiVersion: v1, kind: ConfigMap}}, {name: b, base: {apiVersion: v1, \
             kind: Secret}}]}}",
            "resources[1].name: Duplicate value: \"b\"",
        ),
        (
            "{step: check, functionRef: {name: function-cel-validation}, input: {apiVersion: validation.fn.ferroplane.io/v1beta1, \
             kind: Validation, rules: [{name: a, rule: '1 +'}]}}",
            "input.rules: cannot compile rule \"a\": ERROR: <input>:1:4: Syntax error",
        ),
    ] {
        let said = said_of(&plane, step);
        assert!(warns(&said, words), "{said:#?}");
    }
}

/// What the API server says about an object, too, and once.
#[test]
fn warnings_of_the_api_server_are_said_with_the_line() {
    const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n  \
                          matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], \
                          resources: [configmaps]}]}\n  validations: [{expression: 'false'}]\n";
    let plane = watching(&[]);
    save(&plane, "policy.yaml", POLICY);
    let said = plane.heard_until("applied: 1 created");
    let warned = said.iter().any(|line| {
        line.starts_with("warning: manifests/policy.yaml:2: ") && line.contains("does not enforce them")
    });
    assert!(warned, "{said:#?}");
    change(&plane, "xr.yaml", "Hello, world", "Hello again");
    let said = plane.heard_until("applied: 0 created, 1 changed");
    assert!(!said.iter().any(|line| line.contains("does not enforce")), "{said:#?}");
}

#[test]
fn flags_without_manifests_are_refused() {
    let directory = TempDir::new().unwrap();
    for (flags, words) in [
        (&["--watch"][..], "<MANIFESTS>..."),
        (&["--prune"], "--watch"),
        (&["-", "--watch"], "standard input cannot be watched"),
    ] {
        let mut command = ferroplane(directory.path(), &["up", "--in-memory", "--listen", "127.0.0.1:0"]);
        let said = Ran::from(command.args(flags).output().unwrap()).fails_with(2);
        assert!(said.contains(words), "{said}");
    }
}
