//! Every example renders to what it says it does.

use std::path::Path;

use crate::sandbox::Sandbox;
use crate::starlark;

#[test]
fn examples_render_as_they_say() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for entry in std::fs::read_dir(examples).unwrap() {
        let directory = entry.unwrap().path();
        // Programs in containers are run where containers can be.
        let Ok(expected) = std::fs::read_to_string(directory.join("expected.yaml")) else { continue };
        let mut arguments = arguments(&directory);
        if expected.contains("kind: Context\n") {
            arguments.push("--include-context".to_owned());
        }
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let sandbox = Sandbox::new();
        let ran = if uses_starlark(&directory) {
            let Some(ran) = starlark::run(&sandbox, &arguments) else { continue };
            ran
        } else {
            sandbox.run(&arguments)
        };
        assert_eq!(ran.ok(), expected, "{}", directory.display());
    }
}

fn arguments(directory: &Path) -> Vec<String> {
    let at = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let is_there = |name: &str| directory.join(name).exists();
    if is_there("blueprint.yaml") {
        let files = ["blueprint.yaml", "backup.yaml", "app.yaml"].map(at);
        return ["blueprint", "render"].map(str::to_owned).into_iter().chain(files).collect();
    }
    let mut arguments = vec!["render".to_owned()];
    let (inputs, flags): (&[_], &[_]) = if is_there("operation.yaml") {
        (&["operation.yaml"], &[("-w", "watched.yaml"), ("-e", "required.yaml")])
    } else {
        let flags =
            &[("-o", "observed.yaml"), ("-e", "required.yaml"), ("-e", "grant.yaml"), ("--xrd", "xrd.yaml")];
        (&["xr.yaml", "composition.yaml"], flags)
    };
    arguments.extend(inputs.iter().map(|input| at(input)));
    arguments.extend(is_there("functions.yaml").then(|| at("functions.yaml")));
    for (flag, file) in flags.iter().filter(|(_, file)| is_there(file)) {
        arguments.extend([(*flag).to_owned(), at(file)]);
    }
    arguments
}

/// Whether it takes an interpreter, which not every binary has.
fn uses_starlark(directory: &Path) -> bool {
    let operation = std::fs::read_to_string(directory.join("operation.yaml")).unwrap_or_default();
    operation.contains("function-starlark")
}
