//! `function-extra-resources`: puts objects of any kind into the context of the pipeline.
//!
//! It takes two calls. The first says which objects are needed; the second brings them, and is answered with
//! the objects in the context, in lists by the names the input gives them.

mod input;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ferroplane_golang::strconv::quote;
use ferroplane_wire::v1::{Requirements, Resources, RunFunctionRequest, RunFunctionResponse};
use serde_json::Value;

use crate::response;
use crate::selection::{self, Choice, JsonObject, Naming};
use input::{Selector, Source, Specification};

/// Where later steps look for the objects in the context.
const CONTEXT_KEY: &str = "apiextensions.crossplane.io/extra-resources";

pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match answer(request, &mut response) {
        Ok(()) => response,
        Err(problem) => response::fatal(response, problem),
    }
}

fn answer(request: &RunFunctionRequest, response: &mut RunFunctionResponse) -> Result<(), String> {
    let specification: Specification<'_> = crate::input::specification(request.input.as_ref())?;

    // Asked for again although they are there: what a function no longer asks for, it no longer gets.
    let requirements = requirements(specification.sources(), selection::composite(request)?)
        .map_err(|error| format!("could not build extra resource requirements: {error}"))?;
    response.requirements = Some(requirements);
    // This is how a first call looks. If no source asks for anything there never is a second one, and the key
    // stays unset.
    if request.required_resources.is_empty() {
        return Ok(());
    }

    let found = select(&specification, &request.required_resources)
        .map_err(|error| format!("verifying and sorting extra resources: {error}"))?;
    response::set_context(response, CONTEXT_KEY, to_json(found))
        .map_err(|error| format!("cannot put extra resources into the context: {error}"))
}

fn requirements(sources: &[Source<'_>], xr: &JsonObject) -> Result<Requirements, String> {
    let mut resources = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        let choice = source.choice().map_err(|error| format!("extraResources[{index}]: {error}"))?;
        if let Some(r#match) = choice.to_match(Selector::matchers, xr)? {
            // Of sources that share a list only the last is asked for, and `select` then sees its objects for
            // each of them: so it is in the original.
            resources.insert(source.list().to_owned(), source.to_requirement(r#match));
        }
    }
    Ok(Requirements { resources, ..Requirements::default() })
}

/// Objects, by the name of their list.
type Lists<'r> = BTreeMap<&'r str, Vec<&'r JsonObject>>;

/// The lists of objects. One that would be empty is not there at all, so that templates can tell.
fn select<'r>(
    specification: &Specification<'r>,
    required: &'r BTreeMap<String, Resources>,
) -> Result<Lists<'r>, String> {
    let mut brought = Lists::new();
    let mut found = Lists::new();
    for source in specification.sources() {
        let name = source.list();
        let objects = match brought.entry(name) {
            // In the order in which an earlier source of this list has put them.
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(objects(name, required)?),
        };
        let chosen = match source.choice()? {
            Choice::Named(_) => named(name, objects, specification.is_optional())?,
            Choice::Labelled(selector) => labelled(name, selector, objects)?,
            Choice::Unknown => continue,
        };
        if !chosen.is_empty() {
            // Sources that share a list add to it, as in the original's v0.3.0.
            found.entry(name).or_default().extend(chosen);
        }
    }
    Ok(found)
}

/// The objects that were brought for this list.
fn objects<'r>(name: &str, required: &'r BTreeMap<String, Resources>) -> Result<Vec<&'r JsonObject>, String> {
    let resources =
        required.get(name).ok_or_else(|| format!("cannot find expected extra resource {}", quote(name)))?;
    selection::objects(resources)
}

fn named<'s, 'r>(
    name: &str,
    objects: &'s [&'r JsonObject],
    is_optional: bool,
) -> Result<&'s [&'r JsonObject], String> {
    match objects.len() {
        0 if !is_optional => Err(format!("Required extra resource {} not found", quote(name))),
        0 | 1 => Ok(objects),
        count => Err(format!("expected exactly one extra resource {}, got {count}", quote(name))),
    }
}

fn labelled<'s, 'r>(
    name: &str,
    selector: &Selector<'_>,
    objects: &'s mut Vec<&'r JsonObject>,
) -> Result<&'s [&'r JsonObject], String> {
    if let Some(least) = selection::too_few(objects, selector.min_match) {
        let count = objects.len();
        return Err(format!("expected at least {least} extra resources {}, got {count}", quote(name)));
    }
    selection::sort(objects, selector.sort_by_field_path, Naming::Type)?;
    Ok(selection::first(objects, selector.max_match))
}

fn to_json(lists: Lists<'_>) -> Value {
    let list = |objects: Vec<&JsonObject>| objects.into_iter().cloned().map(Value::Object).collect();
    Value::Object(lists.into_iter().map(|(name, objects)| (name.to_owned(), list(objects))).collect())
}

#[cfg(test)]
mod tests;
