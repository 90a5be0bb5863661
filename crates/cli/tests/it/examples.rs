//! The command in the README of every example prints what the example says.

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
        let arguments = arguments(&directory);
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

/// The arguments of the first command in the README that renders. Its files are those of the example, whatever the directory is that the
/// README runs it in. Without `--show-sources`, which adds comments to the output.
fn arguments(directory: &Path) -> Vec<String> {
    let readme = std::fs::read_to_string(directory.join("README.md")).unwrap().replace("\\\n", " ");
    let is_render = |line: &&str| {
        line.starts_with("ferroplane render ") || line.starts_with("ferroplane blueprint render ")
    };
    let command = readme.lines().map(|line| line.trim_start_matches("$ ")).find(is_render);
    let command = command.unwrap_or_else(|| panic!("{}: its README renders nothing", directory.display()));
    let argument = |word: &str| match Path::new(word).file_name() {
        Some(name) if Path::new(word).extension().is_some_and(|extension| extension == "yaml") => {
            directory.join(name).to_str().unwrap().to_owned()
        }
        _ => word.to_owned(),
    };
    command.split_whitespace().skip(1).filter(|word| *word != "--show-sources").map(argument).collect()
}

/// Whether it takes an interpreter, which not every binary has.
fn uses_starlark(directory: &Path) -> bool {
    let operation = std::fs::read_to_string(directory.join("operation.yaml")).unwrap_or_default();
    operation.contains("function-starlark")
}
