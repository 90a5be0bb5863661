//! The scripts of function-starlark: the directories of modules that steps load from.

use ferroplane_api::{Composition, Object, meta};
use serde_json::Value;

use super::templates::{find_directory, is_required, require};
use crate::manifest::{Files, Manifest};

/// The function whose scripts these are.
pub(crate) const STARLARK: &str = "function-starlark";
/// The group of its input.
const INPUT_GROUP: &str = "starlark.fn.crossplane.io";

/// Reads the directories of modules that stand beside the Composition. They become resources that their steps require, which are
/// returned.
pub(super) fn load_modules(
    manifest: &Manifest,
    composition: &mut Composition,
    files: &mut Files,
    is_built_in: impl Fn(&str) -> bool,
) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for (index, step) in composition.spec.pipeline.iter_mut().enumerate() {
        // Most inputs are of other functions, and large: only one with a script is copied.
        let Some(input) = step.input.as_ref().filter(|input| is_script_input(input)).cloned() else {
            continue;
        };
        if !is_built_in(&step.function_ref.name) {
            continue;
        }
        for (number, path) in module_paths(&input).enumerate() {
            if is_required(step, path) {
                continue;
            }
            let directory = find_directory(manifest, path, files).ok_or_else(|| {
                let at = format!("spec.pipeline.{index}.input.spec.modulePaths.{number}");
                let at: Vec<_> = at.split('.').collect();
                let message = format!(
                    "there is no directory `{}` beside this file, and the step has no required resource with the \
                     requirementName `{path}`",
                    path.trim_start_matches('/')
                );
                manifest.error(&at, message)
            })?;
            let texts = files.load_texts(&directory, &manifest.source().directory())?;
            objects.push(require(step, &format!("step-{index}-{number}"), path, texts));
        }
    }
    Ok(objects)
}

fn is_script_input(input: &Object) -> bool {
    meta::group(meta::api_version(input)) == INPUT_GROUP
}

/// The directories that the script of an input may load from.
pub(crate) fn module_paths(input: &Object) -> impl Iterator<Item = &str> {
    let paths = input.get("spec").and_then(|spec| spec.get("modulePaths")?.as_array());
    paths.into_iter().flatten().filter_map(Value::as_str)
}
