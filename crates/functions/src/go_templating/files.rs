//! The files of a directory of templates. They come with the request, because a function reads nothing itself: as objects that the
//! step requires under the name of the directory.
//!
//! Follows function-go-templating v0.4.1, template.go (`readTemplates`): hidden files and those in hidden directories do not count.

use std::collections::BTreeMap;

use ferroplane_api::keys::NATIVE;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{Resources, RunFunctionRequest};
use serde_json::Value;

use super::source::SourceText;

/// The objects that stand for a directory, if the step requires any.
pub(super) fn required<'r>(request: &'r RunFunctionRequest, directory: &str) -> Option<&'r Resources> {
    request.required_resources.get(directory).or_else(|| request.extra_resources.get(directory))
}

/// The request without these objects. They are no resources to the templates.
pub(super) fn without(request: &RunFunctionRequest, directory: &str) -> RunFunctionRequest {
    let mut request = request.clone();
    request.required_resources.remove(directory);
    request.extra_resources.remove(directory);
    request
}

/// The text of all files of a directory, in the order in which the original walks it.
pub(super) fn read(directory: &str, found: Option<&Resources>) -> Result<SourceText, String> {
    // The original shows the input as Go prints a struct.
    let cannot = |reason: &str| format!("cannot read tmpl from the folder {{{directory}}}: {reason}");
    let found = found.ok_or_else(|| {
        cannot(&format!(
            "the step has no required resource with the requirementName `{directory}`; require the ConfigMap that holds the files \
             under this name, or set the annotation `{NATIVE}: \"false\"` on the Function if the files are in its container"
        ))
    })?;
    if found.items.is_empty() {
        return Err(cannot("there is no such ConfigMap"));
    }
    let mut files: BTreeMap<Vec<&str>, (&str, &str)> = BTreeMap::new();
    for item in &found.items {
        let object = item.resource.as_ref().map(Struct::json).transpose();
        let object = object.map_err(|error| cannot(&error.to_string()))?;
        let data = match object.and_then(|object| object.get("data")) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(data)) => data,
            Some(_) => return Err(cannot("the `data` of the required resource is not a map of strings")),
        };
        for (name, text) in data {
            let text = text.as_str().ok_or_else(|| cannot(&format!("`{name}` is not a string")))?;
            let path: Vec<_> = name.split('/').collect();
            if path.iter().any(|part| part.starts_with('.')) {
                continue;
            }
            if files.insert(path, (name, text)).is_some() {
                return Err(cannot(&format!("`{name}` is in two ConfigMaps")));
            }
        }
    }
    Ok(SourceText::of_files(files.into_values()))
}
