//! Checks the modules that scripts in Compositions load from directories.

use std::collections::BTreeMap;

use ferroplane_functions::{ScriptMistake, check_scripts};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{Resource, Resources, RunFunctionRequest};

use super::finding::{Problem, ProblemKind};
use super::inputs::Call;
use super::templates::read_directory;
use crate::manifest::Manifest;
use crate::render::scripts::module_paths;

/// Reads the modules that stand in files beside a manifest. Mistakes in the input itself were reported when the input was checked.
pub(super) fn check(call: &Call<'_>, manifest: &Manifest) -> Vec<Problem> {
    let Some(input) = call.input else { return Vec::new() };
    let directories: BTreeMap<_, _> = module_paths(input)
        .filter_map(|path| {
            let item = Resource { resource: Some(read_directory(manifest, path)?), ..Resource::default() };
            Some((path.to_owned(), Resources { items: vec![item] }))
        })
        .collect();
    if directories.is_empty() {
        return Vec::new();
    }
    let request = RunFunctionRequest {
        input: Struct::try_from(input.clone()).ok(),
        required_resources: directories,
        ..RunFunctionRequest::default()
    };
    let mistakes = check_scripts(&request).into_iter();
    mistakes.filter(ScriptMistake::is_elsewhere).map(|mistake| problem(&mistake, call, manifest)).collect()
}

fn problem(mistake: &ScriptMistake, call: &Call<'_>, manifest: &Manifest) -> Problem {
    let field = format!("{}.{}", call.input_at, mistake.field);
    let place = mistake.line.map_or_else(|| mistake.file.clone(), |line| format!("{}:{line}", mistake.file));
    let message = format!("{field}: {place}: {}", mistake.message);
    Problem::new(ProblemKind::FunctionInput, manifest, &field, message)
}
