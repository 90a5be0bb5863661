//! The schemas that the API server serves for the kinds that a Composition names.

use std::collections::BTreeSet;

use ferroplane_api::{Object, meta};
use ferroplane_client::{Error, ObjectPath};
use ferroplane_engine::defined_group;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use crate::context::Context;
use crate::setup::install::definitions;

/// How many definitions are read at the same time.
const AT_ONCE: usize = 16;

/// What the API server serves of the kinds in a Composition.
#[derive(Debug, Default)]
pub struct ServedDefinitions {
    /// The `CompositeResourceDefinition`s of the group of the composite resource, and the `CustomResourceDefinition`s of composed
    /// resources.
    pub definitions: Vec<Object>,
    /// The groups of all `CustomResourceDefinition`s.
    pub groups: BTreeSet<String>,
    /// All Functions.
    pub functions: Vec<Object>,
}

impl ServedDefinitions {
    pub(super) async fn find(context: &Context, composition: &Object) -> Self {
        let names = context.kinds.names();
        let composed = composed_kinds(composition);
        let mut reading = Vec::new();
        for (api_version, kind) in &composed {
            reading.push(find(context, &names, api_version, kind));
        }
        let custom: Vec<_> = stream::iter(reading).buffered(AT_ONCE).collect().await;
        let group = composition
            .get("spec")
            .and_then(|spec| Some(meta::group(spec.get("compositeTypeRef")?.get("apiVersion")?.as_str()?)));
        let is_composite = |object: &Object| group.is_some_and(|group| defined_group(object) == group);
        let mut found: Vec<_> = context.definitions.objects().into_iter().filter(is_composite).collect();
        // Of a definition that cannot be read nothing is known, so that there is nothing to warn about.
        found.extend(custom.into_iter().filter_map(|read| read.ok().flatten()));
        let groups = names.iter().filter_map(|name| Some(name.split_once('.')?.1.to_owned())).collect();
        Self { definitions: found, groups, functions: context.functions.objects() }
    }
}

/// The kinds of all bases in a Composition.
fn composed_kinds(composition: &Object) -> BTreeSet<(String, String)> {
    let mut kinds = BTreeSet::new();
    let Some(spec) = composition.get("spec") else { return kinds };
    let inputs = spec.get("pipeline").and_then(Value::as_array).into_iter().flatten();
    let inputs = inputs.filter_map(|step| step.get("input"));
    for resources in inputs.chain([spec]).filter_map(|holder| holder.get("resources")?.as_array()) {
        for base in resources.iter().filter_map(|resource| resource.get("base")?.as_object()) {
            kinds.insert((meta::api_version(base).to_owned(), meta::kind(base).to_owned()));
        }
    }
    kinds
}

/// The definition of a kind, whichever of its versions is served.
async fn find(
    context: &Context,
    names: &[String],
    api_version: &str,
    kind: &str,
) -> Result<Option<Object>, Error> {
    let group = meta::group(api_version);
    let of_group = |name: &&String| name.split_once('.').is_some_and(|(_, of)| of == group);
    let candidates: Vec<_> = names.iter().filter(of_group).collect();
    if candidates.is_empty() || kind.is_empty() {
        return Ok(None);
    }
    if let Some(resource) = context.cluster.resource(api_version, kind).await? {
        return read(context, &format!("{}.{group}", resource.plural)).await;
    }
    // This version is not served. Another one may be, of which only names are known.
    let beginning = kind.to_lowercase();
    let beginning = beginning.strip_suffix('y').unwrap_or(&beginning);
    for name in candidates.into_iter().filter(|name| name.starts_with(beginning)) {
        let definition = read(context, name).await?;
        if definition.as_ref().is_some_and(|definition| defines(definition, kind)) {
            return Ok(definition);
        }
    }
    Ok(None)
}

fn defines(definition: &Object, kind: &str) -> bool {
    definition.get("spec").and_then(|spec| spec.get("names")?.get("kind")).is_some_and(|found| found == kind)
}

async fn read(context: &Context, name: &str) -> Result<Option<Object>, Error> {
    let resource = definitions();
    let path = ObjectPath { resource: &resource, namespace: "", name };
    context.cluster.get_object(path).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_of_bases_are_found_in_inputs_and_in_compositions_without_a_pipeline() {
        let template = |kind: &str| json!({"name": kind, "base": {"apiVersion": "e.org/v1", "kind": kind}});
        let composition = json!({"spec": {
            "resources": [template("A")],
            "pipeline": [{"step": "none"}, {"input": {"resources": [template("B"), template("A"), {"name": "c"}]}}],
        }});
        let kinds = composed_kinds(composition.as_object().unwrap());
        let expected = ["A", "B"].map(|kind| ("e.org/v1".to_owned(), kind.to_owned()));
        assert_eq!(kinds, expected.into());
    }
}
