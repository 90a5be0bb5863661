//! Which version of a function runs: packages that are built in, versions that steps name, and how to look them up.

use crate::sandbox::{Sandbox, composition, dummy};

fn packaged(package: &str, annotations: &str) -> String {
    format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata:\n  name: f\n  annotations: {{{annotations}}}\n\
         spec:\n  package: {package}\n"
    )
}

fn sandbox(package: &str, annotations: &str) -> Sandbox {
    let answer = dummy("{results: [{severity: SEVERITY_NORMAL, message: hello}]}");
    Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "f", &answer)]))
        .with("functions.yaml", &packaged(package, annotations))
}

const COVERED: &str = "registry.example/crossplane-contrib/function-dummy:v0.4.1";
const FORKED: &str = "registry.example/somebody/function-dummy:v0.4.1";
const NATIVE: &str = "ferroplane.io/native";
/// No image is looked for in a registry that does not exist.
const NEVER: &str = "render.crossplane.io/runtime-docker-pull-policy: Never";

#[test]
fn package_that_is_built_in_is_not_run_and_that_is_said() {
    let ran = sandbox(COVERED, "").render(&["-r"]);
    assert_eq!(ran.stderr, format!("note: function `f`: built-in v0.4.1 runs in place of {COVERED}\n"));
    assert!(ran.ok().contains("hello"));
}

#[test]
fn package_of_another_maker_or_version_is_not_replaced() {
    let table = [
        (FORKED.to_owned(), "is not built in"),
        (
            COVERED.replace("v0.4.1", "v9.0.0"),
            "is not a version that the built-in `function-dummy` covers (>=0.",
        ),
        (
            COVERED.replace(":v0.4.1", "@sha256:abc"),
            "is not a version that the built-in `function-dummy` covers",
        ),
    ];
    for (package, why) in table {
        let said = sandbox(&package, NEVER).render(&[]).fails_with(1);
        let expected = format!("error: functions.yaml:4: function `f`: cannot run the image `{package}`: ");
        assert!(said.starts_with(&expected), "{said}");
        assert!(said.contains(&format!("The package {why}")), "{said}");
    }
}

/// Crossplane's package manager names a Function that it installs as a dependency after its package, and Upbound publishes
/// the same packages under its own name.
#[test]
fn names_of_the_package_manager_and_mirrors_reach_the_built_in() {
    for name in ["crossplane-contrib-function-auto-ready", "upbound-function-auto-ready"] {
        let sandbox = Sandbox::new().with("composition.yaml", &composition(&[("one", name, "")]));
        sandbox.render(&[]).ok();
        let said = sandbox.run(&["validate", "composition.yaml", "composition.yaml"]).ok();
        assert!(!said.contains("neither built in"), "{said}");
    }
    let mirrored = "xpkg.example/upbound/function-auto-ready:v0.2.1";
    let ran = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "f", "")]))
        .with("functions.yaml", &packaged(mirrored, ""))
        .render(&[]);
    assert_eq!(ran.stderr, format!("note: function `f`: built-in v0.5.2 runs in place of {mirrored}\n"));
    let explained = Sandbox::new().run(&["functions", "explain", "upbound-function-auto-ready"]).ok();
    assert!(explained.contains("function-auto-ready"), "{explained}");
}

#[test]
fn annotation_turns_replacing_off_and_insists_on_it() {
    let said = sandbox(COVERED, &format!("{NATIVE}: 'false', {NEVER}")).render(&[]).fails_with(1);
    assert!(said.contains("The package is not to be replaced"), "{said}");

    let ran = sandbox(FORKED, &format!("{NATIVE}: 'true'")).render(&["-r"]);
    assert_eq!(ran.stderr, format!("note: function `f`: built-in v0.4.1 runs in place of {FORKED}\n"));
    assert!(ran.ok().contains("hello"));

    let said = sandbox(COVERED, &format!("{NATIVE}: 'maybe'")).render(&[]).fails_with(1);
    assert_eq!(said, "error: functions.yaml:5: function `f`: expected `true` or `false`, got `maybe`\n");

    let said = sandbox("registry.example/a/b:v1.0.0", &format!("{NATIVE}: 'true'")).render(&[]).fails_with(1);
    assert!(said.contains("no built-in function has its name or that of its package"), "{said}");
}

#[test]
fn step_can_name_its_version() {
    let pinned = |version: &str| {
        let function = format!("function-dummy\n      version: {version}");
        let answer = dummy("{results: [{severity: SEVERITY_NORMAL, message: hello}]}");
        Sandbox::new().with("composition.yaml", &composition(&[("one", &function, &answer)]))
    };
    assert!(pinned("0.4.1").render(&["-r"]).ok().contains("hello"));
    let said = pinned("v0.4.0").render(&[]).fails_with(1);
    assert!(said.contains("has no version v0.4.0: there is v0.4.1"), "{said}");
}

#[test]
fn step_can_choose_by_revision_and_labels() {
    let chosen = |choice: &str| {
        let step = composition(&[("one", "function-dummy", &dummy("{results: []}"))]);
        let step = step.replace("    functionRef:", &format!("    {choice}\n    functionRef:"));
        Sandbox::new().with("composition.yaml", &step)
    };
    chosen("functionRevisionRef: {name: function-dummy-v0.4.1}").render(&[]).ok();
    chosen("functionRevisionSelector: {matchLabels: {ferroplane.io/stability: stable}}").render(&[]).ok();
    let said = chosen("functionRevisionRef: {name: nope}").render(&[]).fails_with(1);
    let expected = "error: composition.yaml:12: step `one`: function `function-dummy` has no revision `nope`: there is \
                    `function-dummy-v0.4.1`\n";
    assert_eq!(said, expected);
    let said = chosen("functionRevisionSelector: {matchLabels: {a: b}}").render(&[]).fails_with(1);
    assert!(said.contains("function `function-dummy` has no active revision with the labels a=b"), "{said}");
}

#[test]
fn versions_are_listed_offline() {
    let sandbox = Sandbox::new();
    let table = sandbox.run(&["functions", "versions"]).ok();
    assert!(table.starts_with("NAME ") && table.contains("\nfunction-dummy "), "{table}");
    let document = sandbox.run(&["functions", "versions", "-o", "json"]).ok();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["release"], env!("CARGO_PKG_VERSION"));
    let of_one = sandbox.run(&["functions", "versions", "dummy", "-o", "yaml"]).documents();
    assert_eq!(of_one[0]["name"], "function-dummy");
    let of_one = sandbox.run(&["functions", "versions", "auto-ready"]).ok();
    let (header, first) = (of_one.lines().next().unwrap(), of_one.lines().nth(1).unwrap());
    assert!(header.contains("READ, NOT COMPARED"), "{of_one}");
    assert!(first.contains("v0.2.0, v0.3.0"), "{of_one}");
    let removed = sandbox.run(&["functions", "versions", "--state", "removed", "-o", "json"]).ok();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&removed).unwrap()["functions"],
        serde_json::json!([])
    );
    let said = sandbox.run(&["functions", "versions", "function-dumy"]).fails_with(1);
    assert_eq!(said, "error: there is no function `function-dumy`: did you mean `function-dummy`?\n");
}

#[test]
fn steps_that_would_break_make_the_answer_no() {
    let broken = composition(&[("one", "function-dummy\n      version: v7.7.7", "")]);
    let sandbox = Sandbox::new()
        .with("broken.yaml", &broken)
        .with("fine.yaml", &composition(&[("a", "function-dummy", "")]));
    let ran = sandbox.run(&["functions", "versions", "--used", "broken.yaml", "fine.yaml", "--at", "0.9.0"]);
    assert_eq!(ran.stderr, "note: 2 steps: 1 would break and 0 would warn at release 0.9.0\n");
    assert!(
        ran.stdout.contains("broken.yaml   app      one    function-dummy   v7.7.7    missing"),
        "{}",
        ran.stdout
    );
    ran.fails_with(3);
    let ran = sandbox.run(&["functions", "versions", "--used", "fine.yaml"]);
    assert_eq!(ran.stdout, "");
    ran.ok();
}

#[test]
fn steps_of_packages_that_must_be_called_do_not_count_as_built_in() {
    for (annotation, count) in [("", 0), ("ferroplane.io/native: 'false'", 1)] {
        let sandbox = sandbox(COVERED, annotation);
        let ran = sandbox.run(&["functions", "versions", "--used", "composition.yaml", "functions.yaml"]);
        let is_noted = ran.stderr.contains("not built in");
        assert_eq!(is_noted, count == 1, "{ran:#?}");
    }
}

const BLUEPRINT: &str = "apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: shop, namespace: default}
actions:
  backup:
    phases:
    - {func: KubeOps, name: copy, funcVersion: v0.1.0, args: {operation: get, objectReference: {apiVersion: v1, resource: configmaps, name: a}}}
";

#[test]
fn phases_of_blueprints_are_looked_at() {
    let sandbox = Sandbox::new().with("blueprint.yaml", BLUEPRINT);
    let ran = sandbox.run(&["functions", "versions", "--used", "blueprint.yaml"]);
    assert_eq!(ran.stderr, "note: 1 steps: 0 would break and 0 would warn at release 0.1.0\n");
    ran.ok();
    let unknown = BLUEPRINT.replace("v0.1.0", "v9.9.9");
    let ran = Sandbox::new().with("blueprint.yaml", &unknown).run(&[
        "functions",
        "versions",
        "--used",
        "blueprint.yaml",
    ]);
    assert!(ran.stdout.contains("Blueprint/shop   backup/copy   KubeOps"), "{}", ran.stdout);
    assert!(ran.stdout.contains("has no version v9.9.9: v0.0.0 runs instead"), "{}", ran.stdout);
}

#[test]
fn functions_of_phases_are_explained_with_their_arguments() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["functions", "explain", "KubeOps"]).ok();
    assert!(said.contains("REQUIRED ARGUMENTS: operation\n") && said.contains("patchType"), "{said}");
    let table = sandbox.run(&["functions", "versions", "KubeExec"]).ok();
    assert!(table.contains("ARGUMENTS") && table.contains("onInterruption?"), "{table}");
}

/// Its step names a version that does not exist.
const OPERATION: &str = "apiVersion: ops.crossplane.io/v1alpha1
kind: Operation
metadata: {name: once}
spec:
  mode: Pipeline
  pipeline:
  - {step: check, functionRef: {name: function-cel-validation, version: v7.7.7}}
";

#[test]
fn versions_of_a_control_plane_are_those_of_this_program_and_more() {
    let directory = tempfile::TempDir::new().unwrap();
    let files = [
        ("blueprint.yaml", BLUEPRINT.replace("v0.1.0", "v9.9.9").replace("get", "delete")),
        ("composition.yaml", composition(&[("one", "function-dummy\n      version: v7.7.7", "")])),
        ("operation.yaml", OPERATION.to_owned()),
    ];
    for (name, content) in files {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let flags = ["--data-dir", "data", "blueprint.yaml", "composition.yaml", "operation.yaml"];
    let plane = crate::plane::Plane::start(directory, &flags);
    let program = env!("CARGO_BIN_EXE_ferroplane");
    let own = Sandbox::new().run(&["functions", "versions", "-o", "json"]).ok();
    // What it says beside the document is said elsewhere.
    let asked = plane.says(&format!("{program} functions versions --server -o json"));
    assert_eq!(asked, own);
    let one = plane.says(&format!("{program} functions versions KubeOps --server"));
    assert!(one.contains("v0.1.0") && one.contains("stable"), "{one}");
    let none = plane.fails(&format!("{program} functions versions Nope --server"), "");
    assert!(none.contains("the control plane has no function `Nope`"), "{none}");
    let used = format!("{program} functions versions --used; echo exits with $?");
    let used = plane.until_said(&used, |said| said.contains("3 steps: 2 would break and 1 would warn"));
    let has_row = |words: &[&str]| used.lines().any(|row| words.iter().all(|word| row.contains(word)));
    assert!(has_row(&["Blueprint/shop", "backup/copy", "KubeOps", "v0.0.0 runs instead"]), "{used}");
    assert!(has_row(&["app", "one", "function-dummy", "v7.7.7", "missing"]), "{used}");
    assert!(has_row(&["Operation/once", "check", "function-cel-validation", "v7.7.7", "missing"]), "{used}");
    assert!(used.ends_with("exits with 3\n"), "{used}");
}
