//! Every mistake gets one clear message that names the file and line, or the step.

use std::time::{Duration, Instant};

use crate::sandbox::{Sandbox, XR, composition, dummy, served, started};

/// The message a mistake in one file gets.
fn mistake(file: &str, content: &str) -> String {
    let good = composition(&[("one", "function-dummy", "")]);
    let sandbox = Sandbox::new().with("composition.yaml", &good).with(file, content);
    let said = sandbox.render(&[]).fails_with(1);
    assert_eq!(said.lines().count(), said.trim_end().lines().count().max(1), "{said}");
    said.trim_end().to_owned()
}

fn good_composition() -> String {
    composition(&[("one", "function-dummy", "")])
}

#[test]
fn mistakes_in_the_xr_are_located() {
    let cases = [
        ("\tapiVersion: v1\n", "error: xr.yaml:1: a line starts with a tab: indent with spaces"),
        (
            "apiVersion: v1\nmetadata:\n\tname: x\n",
            "error: xr.yaml:3: a line is indented with a tab: use spaces",
        ),
        ("apiVersion: v1\nkind: A\nkind: B\n", "error: xr.yaml:3: key `kind` is given twice"),
        ("- a\n- b\n", "error: xr.yaml:1: expected a Kubernetes object, got a list"),
        ("just text\n", "error: xr.yaml:1: expected a Kubernetes object, got a string"),
        ("", "error: xr.yaml: expected a composite resource, found nothing"),
        ("kind: App\nmetadata: {name: a}\n", "error: xr.yaml:1: composite resource has no `apiVersion`"),
        ("apiVersion: a/v1\nmetadata: {name: a}\n", "error: xr.yaml:1: composite resource has no `kind`"),
        (
            "apiVersion: a/v1\nkind: App\nmetadata:\n  labels: {}\n",
            "error: xr.yaml:3: composite resource has no `metadata.name`",
        ),
        (
            "apiVersion: other.org/v1\nkind: App\nmetadata: {name: a}\n",
            "error: xr.yaml:1: the composition is for App (example.org/v1), but the composite resource is of kind \
             App (other.org/v1)",
        ),
        ("a: {b: [\n", "error: xr.yaml:1: unclosed bracket '['"),
        (
            "apiVersion: example.org/v1\nkind: App\nmetadata:\n  name: 5\n",
            "error: xr.yaml:4: composite resource: `metadata.name` is a number, not text: quote it",
        ),
        (
            "apiVersion: example.org/v1\nkind: App\nmetadata:\n  name: a\n  annotations:\n    crossplane.io/paused: true\n",
            "error: xr.yaml:6: `metadata.annotations` of `crossplane.io/paused` is a boolean, not text: quote it",
        ),
        (
            "apiVersion: example.org/v1\nkind: App\nmetadata: {name: a}\nspec: text\n",
            "error: xr.yaml:4: `spec` is a string, not an object",
        ),
    ];
    for (content, message) in cases {
        assert_eq!(mistake("xr.yaml", content), message, "{content:?}");
    }
}

#[test]
fn mistakes_in_the_composition_are_located() {
    let good = good_composition();
    let cases = [
        (
            XR.to_owned(),
            "error: composition.yaml:3: expected a Composition (apiextensions.crossplane.io), got App (example.org/v1)",
        ),
        (
            good.replace("    functionRef:\n      name: function-dummy\n", ""),
            "error: composition.yaml:11: missing field `functionRef`",
        ),
        (
            good.replace("functionRef:", "functionReff:"),
            "error: composition.yaml:12: unknown field `functionReff` in `spec.pipeline[0]`",
        ),
        (
            good.replace("  mode: Pipeline", "  mode: Pipelin"),
            "error: composition.yaml:9: unknown variant `Pipelin`, expected `Pipeline` or `Resources`",
        ),
        (
            good.replace("      name: function-dummy", "      name: function-dummy\n      nme: x"),
            "error: composition.yaml:14: unknown field `nme` in `spec.pipeline[0].functionRef`",
        ),
        (
            good.replace("pipeline:\n", "pipeline: []\n").split("  - step").next().unwrap().to_owned(),
            "error: composition.yaml:10: the pipeline has no steps",
        ),
        (
            composition(&[("one", "function-dummy", ""), ("one", "function-dummy", "")]),
            "error: composition.yaml:14: two steps are named `one`",
        ),
        (
            composition(&[("one", "function-missing", "")]),
            "error: composition.yaml:13: step `one` calls function `function-missing`, which is neither among the \
             Functions given nor built in: `ferroplane functions versions` lists those",
        ),
        (
            composition(&[("one", "function-dumy", "")]),
            "error: composition.yaml:13: step `one` calls function `function-dumy`, which is neither among the \
             Functions given nor built in: did you mean `function-dummy`?",
        ),
        (
            good.replace("      name: function-dummy", "      name: function-dummy\n      version: v9.9.9"),
            "error: composition.yaml:14: step `one`: function `function-dummy` has no version v9.9.9: there is v0.4.1",
        ),
        (
            good.replace("      name: function-dummy", "      name: function-dummy\n      version: latest"),
            "error: composition.yaml:14: step `one`: function `function-dummy`: `latest` is not a version: write all \
             three numbers, as in `v1.2.3` or `v1.2.3-rc.1`",
        ),
        (
            good.replace("  mode: Pipeline", "  mode: Resources"),
            "error: composition.yaml:9: a composition with `mode: Resources` needs `resources`",
        ),
        (
            good.replace("  mode: Pipeline", "  resources: [{name: a}]"),
            "error: composition.yaml:9: a composition has either `resources` or a `pipeline`: say which with `mode`",
        ),
        (
            format!("{good}---\n{good}"),
            "error: composition.yaml:15: expected one Composition, found another object",
        ),
        (
            good.replace("    kind: App", "    kind: Other"),
            "error: xr.yaml:3: the composition is for Other (example.org/v1), but the composite resource is of kind \
             App (example.org/v1)",
        ),
    ];
    for (content, message) in cases {
        assert_eq!(mistake("composition.yaml", &content), message, "{content}");
    }
}

#[test]
fn mistakes_in_the_functions_are_located() {
    let function = |annotation: &str| {
        format!(
            "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata:\n  name: f\n  annotations:\n    {annotation}\n\
             spec:\n  package: registry.example/f:v1\n"
        )
    };
    let cases = [
        (
            "apiVersion: pkg.crossplane.io/v1\nkind: Provider\nmetadata: {name: f}\n".to_owned(),
            "error: functions.yaml:2: expected a Function (pkg.crossplane.io), got Provider (pkg.crossplane.io/v1)",
        ),
        (
            function("render.crossplane.io/runtime: Magic"),
            "error: functions.yaml:6: function `f`: unknown runtime `Magic`",
        ),
        (
            function("render.ferroplane.io/command: \"a 'b\""),
            "error: functions.yaml:6: function `f`: the command has an unclosed quote",
        ),
        (
            function("render.crossplane.io/runtime-docker-pull-policy: Never"),
            "error: functions.yaml:4: function `f`: cannot run the image `registry.example/f:v1`: cannot pull image",
        ),
        (
            function("render.crossplane.io/runtime-docker-pull-policy: Sometimes"),
            "error: functions.yaml:6: function `f`: expected `Always`, `IfNotPresent` or `Never`",
        ),
        (
            function("render.crossplane.io/runtime-docker-env: A"),
            "error: functions.yaml:6: function `f`: expected variables as in `A=1,B=2`",
        ),
    ];
    let development = function("render.crossplane.io/runtime: Development")
        .replace("spec:", "    render.crossplane.io/runtime-development-target: nowhere\nspec:");
    let cases = cases.into_iter().chain([(
        development,
        "error: functions.yaml:7: function `f`: `nowhere` is not the address of a function: expected `host:port`",
    )]);
    for (content, message) in cases {
        let sandbox = Sandbox::new()
            .with("composition.yaml", &composition(&[("one", "f", "")]))
            .with("functions.yaml", &content);
        let said = sandbox.render(&[]).fails_with(1);
        assert!(said.starts_with(message), "expected {message}\ngot {said}");
    }
}

#[test]
fn files_that_are_not_there_are_named() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["render", "xr.yaml", "missing.yaml"]).fails_with(1);
    assert!(said.starts_with("error: cannot read missing.yaml: No such file"), "{said}");
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    let said = sandbox.run(&["render", "xr.yaml", "empty"]).fails_with(1);
    assert!(said.starts_with("error: empty: found no yaml or yml or json files"), "{said}");
}

#[test]
fn usage_mistakes_exit_with_2() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["render"][..],
        &["render", "a", "b", "--timeout", "soon"],
        &["nonsense"],
        &["render", "a", "b", "-a", "x"],
    ] {
        assert_eq!(sandbox.run(arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn bombs_are_defused() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..10 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    assert!(mistake("xr.yaml", &bomb).contains("too large, or its aliases expand too far"));
    assert!(mistake("xr.yaml", &"[".repeat(100_000)).contains("nested more than 128 levels deep"));
    assert!(mistake("xr.yaml", &"{a: ".repeat(100_000)).contains("nested more than 128 levels deep"));
}

#[test]
fn bad_answers_are_blamed_on_their_step() {
    let named = "{apiVersion: v1, kind: ConfigMap, metadata: {name: same}}";
    let cases = [
        (
            "{desired: {resources: {a: {resource: {apiVersion: v1}}}}}".to_owned(),
            "composed resource `a` of step `bad` has no kind",
        ),
        (
            format!("{{desired: {{resources: {{a: {{resource: {named}}}, b: {{resource: {named}}}}}}}}}"),
            "composed resources `a` and `b` are the same object, ConfigMap `same`: give them different names",
        ),
        (
            "{desired: {composite: {resource: {status: text}}}}".to_owned(),
            "desired status of the composite resource is not an object",
        ),
    ];
    for (response, message) in cases {
        let composition =
            composition(&[("good", "function-dummy", ""), ("bad", "function-dummy", &dummy(&response))]);
        let said = Sandbox::new().with("composition.yaml", &composition).render(&[]).fails_with(1);
        assert_eq!(said.trim_end(), format!("error: cannot render App `app`: {message}"));
    }
}

#[test]
fn mistake_in_the_dummys_script_is_fatal_and_located() {
    let composition = composition(&[("bad", "function-dummy", &dummy("{results: [{severity: LOUD}]}"))]);
    let said = Sandbox::new().with("composition.yaml", &composition).render(&[]).fails_with(3);
    assert!(said.contains("step `bad` returned a fatal result: cannot get Function input"), "{said}");
    assert!(said.contains("RunFunctionResponse.results[0].severity: `LOUD` is none of"), "{said}");
}

#[test]
fn program_that_does_not_start_is_named_with_what_it_said() {
    let cases = [
        ("./missing", "cannot start function `f`: cannot run `./missing`: No such file"),
        (
            "sh -c 'echo sorry >&2; exit 7' {address}",
            "cannot start function `f`: `sh` ended before it listened (exit status: 7); it said:\nsorry",
        ),
        ("sleep 60 {port}", "`sleep` did not listen on 127.0.0.1:"),
    ];
    for (command, message) in cases {
        let sandbox = Sandbox::new()
            .with("composition.yaml", &composition(&[("one", "f", "")]))
            .with("functions.yaml", &started("f", command));
        let said = sandbox.render_with_commands(&["--timeout", "1s"]).fails_with(1);
        assert!(said.contains(message), "expected {message}\ngot {said}");
    }
}

#[test]
fn program_that_takes_long_to_start_is_told_of_before_it_is_given_up_on() {
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "f", "")]))
        .with("functions.yaml", &started("f", "sleep 60 {port}"));
    let said = sandbox.render_with_commands(&["--timeout", "5s"]).fails_with(1);
    let told =
        said.find("note: still waiting for functions: images are pulled, and programs have up to 5s to listen (--timeout)");
    assert!(told.is_some_and(|told| told < said.find("did not listen").unwrap()), "{said}");
}

/// How long a user waits in vain for a function that is down.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn function_that_is_down_is_reported_soon_with_its_step_and_address() {
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "f", "")]))
        .with("functions.yaml", &served("f", "127.0.0.1:1"));
    let began = Instant::now();
    // Within the patience that functions are given by default.
    let said = sandbox.render(&[]).fails_with(1);
    assert!(began.elapsed() < SOON, "{:?}: {said}", began.elapsed());
    assert!(said.contains("step `one`: cannot reach the function at 127.0.0.1:1"), "{said}");
}

/// The message that a mistake in a file gets when the file is given with this flag.
fn mistake_in(flag: &str, content: &str) -> String {
    let sandbox = Sandbox::new().with("composition.yaml", &good_composition()).with("given.yaml", content);
    sandbox.render(&[flag, "given.yaml"]).fails_with(1).trim_end().to_owned()
}

#[test]
fn mistakes_in_what_is_observed_are_located() {
    let observed = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: default\n  annotations:\n    \
             crossplane.io/composition-resource-name: a\n"
        )
    };
    let cases = [
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".to_owned(),
            "error: given.yaml:3: observed resource `a` (ConfigMap) has no annotation \
             `crossplane.io/composition-resource-name`, so it is unknown which composed resource it is",
        ),
        ("kind: ConfigMap\n".to_owned(), "error: given.yaml:1: observed resource has no `apiVersion`"),
        (observed("one") + &observed("two"), "error: given.yaml:16: observed resource `a` is given twice"),
    ];
    for (content, message) in cases {
        assert_eq!(mistake_in("-o", &content), message);
    }
}

#[test]
fn mistakes_in_the_definition_are_located() {
    let definition = |kind: &str, version: &str| {
        format!(
            "apiVersion: apiextensions.crossplane.io/v2\nkind: CompositeResourceDefinition\nmetadata: {{name: x}}\nspec:\n  \
             group: example.org\n  names:\n    kind: {kind}\n  versions:\n  - name: {version}\n"
        )
    };
    let cases = [
        (
            definition("Other", "v1"),
            "error: given.yaml:7: the definition is of Other (example.org), but the composite resource is of kind App \
             (example.org)",
        ),
        (
            definition("App", "v2"),
            "error: given.yaml:8: there is no version `v1`, which the composite resource has",
        ),
    ];
    for (content, message) in cases {
        assert_eq!(mistake_in("--xrd", &content), message);
    }
}

#[test]
fn function_that_is_there_twice_is_refused() {
    let twice = started("f", "./one") + &started("f", "./two");
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "f", "")]))
        .with("functions.yaml", &twice);
    let said = sandbox.render(&[]).fails_with(1);
    assert_eq!(said.trim_end(), "error: functions.yaml:14: function `f` is defined twice");
}

#[test]
fn misspelt_annotation_is_refused() {
    let function = crate::sandbox::function("f", &[("render.ferroplane.io/comand", "./f")]);
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "f", "")]))
        .with("functions.yaml", &function);
    let said = sandbox.render(&[]).fails_with(1);
    assert!(
        said.starts_with("error: functions.yaml:7: function `f`: unknown annotation: expected"),
        "{said}"
    );
}

#[test]
fn standard_input_is_not_watched() {
    let sandbox = Sandbox::new().with("composition.yaml", &good_composition());
    let said = sandbox.run(&["render", "-", "composition.yaml", "--watch"]).fails_with(1);
    assert!(said.contains("standard input cannot be watched"), "{said}");
}

#[test]
fn arguments_in_the_wrong_order_are_noticed() {
    let sandbox = Sandbox::new().with("composition.yaml", &good_composition());
    let said = sandbox.run(&["render", "composition.yaml", "xr.yaml"]).fails_with(1);
    assert!(
        said.contains("xr.yaml:3: expected a Composition (apiextensions.crossplane.io), got App"),
        "{said}"
    );
}
