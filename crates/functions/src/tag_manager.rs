//! `function-tag-manager`: adds tags to desired resources, takes them away, and leaves alone those that others manage.
//!
//! Only resources whose kind has tags are touched ([`kinds`]), and none that ask not to be. In this order: add,
//! then take over from the observed resource what is to be ignored, then remove.

mod input;
mod kinds;
mod tags;

use ferroplane_wire::v1::{Resource, RunFunctionRequest, RunFunctionResponse, Severity};
use ferroplane_wire::{State, Struct};
use serde_json::{Map, Value};

use crate::fieldpath::Path;
use crate::response;
use input::ManagedTags;
use tags::{Sources, Tags, Update};

/// The annotation, or label, of a resource that is to be left alone.
const IGNORE: &str = "tag-manager.fn.crossplane.io/ignore-resource";

const ENVIRONMENT: &str = "apiextensions.crossplane.io/environment";

/// Bring the tags of all desired resources into order.
pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match manage(request) {
        Ok(desired) => {
            response.desired = Some(desired);
            let message = "Successfully Processed tags".to_owned();
            response.results.push(response::result(Severity::Normal, message));
            response
        }
        Err(problem) => response::fatal(response, problem),
    }
}

fn manage(request: &RunFunctionRequest) -> Result<State, String> {
    let input = ManagedTags::read(request.input.as_ref())?;
    let nothing = Map::new();
    let sources = Sources {
        composite: composite(request)?.unwrap_or(&nothing),
        environment: environment(request)?.unwrap_or(&nothing),
    };
    let plan = Plan {
        input: &input,
        sources,
        add: sources.add(input.add_tags.as_deref().unwrap_or_default()),
        remove: sources.remove(input.remove_tags.as_deref().unwrap_or_default()),
    };
    let (composite, mut resources) = request.desired.clone().unwrap_or_default().into_parts();
    for (name, resource) in &mut resources {
        if !response::is_plain(resource) {
            response::make_plain(resource);
        }
        let observed = request.observed.as_ref().and_then(|observed| observed.resources().get(name));
        let wanted = plan.wanted(resource, observed);
        if let Some(wanted) =
            wanted.map_err(|problem| format!("cannot manage the tags of resource {name:?}: {problem}"))?
        {
            resource.resource = Some(wanted);
        }
    }
    Ok(State::new(composite, resources))
}

fn composite(request: &RunFunctionRequest) -> Result<Option<&Map<String, Value>>, String> {
    let composite = request.observed.as_ref().and_then(|observed| observed.composite());
    let json = composite.and_then(|composite| composite.resource.as_ref()).map(Struct::json).transpose();
    json.map_err(|error| format!("cannot get observed composite resource: {error}"))
}

fn environment(request: &RunFunctionRequest) -> Result<Option<&Map<String, Value>>, String> {
    let context = request.context.as_ref().map(Struct::json).transpose();
    let context = context.map_err(|error| format!("cannot get Composition environment: {error}"))?;
    Ok(context.and_then(|context| context.get(ENVIRONMENT)).and_then(Value::as_object))
}

/// What to do with every resource.
struct Plan<'a> {
    input: &'a ManagedTags<'a>,
    sources: Sources<'a>,
    add: Update,
    remove: Vec<String>,
}

impl Plan<'_> {
    /// The resource with its tags in order, if that changes it.
    fn wanted(&self, resource: &Resource, observed: Option<&Resource>) -> Result<Option<Struct>, String> {
        let Some(resource) = &resource.resource else { return Ok(None) };
        let json = resource.json().map_err(|error| error.to_string())?;
        if is_ignored(json) || !kinds::has_tags(json) {
            return Ok(None);
        }
        let path = Path::parse("spec.forProvider.tags").map_err(|error| error.to_string())?;
        let current = path.get(json).ok();
        let wanted = tags::to_json(self.tags(current, observed)?);
        if current == Some(&wanted) {
            return Ok(None);
        }
        let mut json = json.clone();
        // Something in the way of the tags is not for this function to judge.
        if path.set(&mut json, wanted).is_err() {
            return Ok(None);
        }
        Struct::try_from(json).map(Some).map_err(|error| error.to_string())
    }

    fn tags(&self, current: Option<&Value>, observed: Option<&Resource>) -> Result<Option<Tags>, String> {
        let mut tags = current.and_then(|current| tags::read(current).0);
        self.add.apply(&mut tags);
        let observed = observed.and_then(|observed| observed.resource.as_ref()).map(Struct::json).transpose();
        if let Some(observed) = observed.map_err(|error| error.to_string())?
            && let Some(ignore) =
                self.sources.ignore(self.input.ignore_tags.as_deref().unwrap_or_default(), observed)
        {
            ignore.apply(&mut tags);
        }
        if let Some(tags) = &mut tags {
            tags.retain(|key, _| !self.remove.contains(key));
        }
        Ok(tags)
    }
}

/// Whether the resource asks to be left alone. The annotation counts for more than the label.
fn is_ignored(resource: &Map<String, Value>) -> bool {
    let metadata =
        |field| resource.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
    let says_so = |text: &str| text.eq_ignore_ascii_case("true");
    // Apimachinery's `GetAnnotations` gives none at all if one of them is not text, unlike the original's way
    // to the labels.
    let annotations = metadata("annotations").filter(|them| them.values().all(Value::is_string));
    if let Some(annotation) = annotations.and_then(|annotations| annotations.get(IGNORE)) {
        return annotation.as_str().is_some_and(says_so);
    }
    let label = metadata("labels").and_then(|labels| labels.get(IGNORE));
    label.and_then(Value::as_str).is_some_and(says_so)
}

#[cfg(test)]
mod tests;
