//! The steps of a pipeline as a Composition wrote them, and which of them made a composed resource, as far as that can be
//! told without having seen it run.

use std::borrow::Cow;

use ferroplane_api::{FunctionType, Object, keys, meta};
use ferroplane_engine::{READINESS_STEP, RESOURCES_STEP, external_name};
use serde_json::Value;

use crate::known_functions::known;
use crate::look::{at, revision_of};
use crate::snapshot::Snapshot;

/// The API group of patch-and-transform's input. Its variants (`conditional-pt.fn.crossplane.io`) end with it.
const PATCH_AND_TRANSFORM_GROUP: &str = "pt.fn.crossplane.io";

/// A step of a pipeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipelineStep<'a> {
    pub(crate) name: &'a str,
    pub(crate) function: &'a str,
    /// What its input lists under `resources`.
    pub(crate) resources: &'a [Value],
    /// Whether these are templates of patch-and-transform, which decides itself whether what it makes is ready.
    pub(crate) are_templates: bool,
}

/// The steps of a Composition, or of a revision of one.
pub(crate) fn steps(composition: &Object) -> Vec<PipelineStep<'_>> {
    let steps = at(composition, &["spec", "pipeline"]).and_then(Value::as_array);
    if let Some(steps) = steps.filter(|steps| !steps.is_empty()) {
        return steps.iter().map(step).collect();
    }
    // Those in the old form, `mode: Resources`, list resources in place of steps, and alpha ones functions.
    let resources = at(composition, &["spec", "resources"]).and_then(Value::as_array);
    let resources = resources.filter(|resources| !resources.is_empty()).map(|resources| {
        let (name, function) = RESOURCES_STEP;
        PipelineStep { name, function, resources, are_templates: true }
    });
    let functions = at(composition, &["spec", "functions"]).and_then(Value::as_array);
    let readiness = functions.filter(|functions| !functions.is_empty()).map(|_| {
        let (name, function) = READINESS_STEP;
        PipelineStep { name, function, resources: &[], are_templates: false }
    });
    resources.into_iter().chain(functions.into_iter().flatten().map(function)).chain(readiness).collect()
}

/// A function of the `functions` array. The engine calls a built-in function that runs it.
fn function(written: &Value) -> PipelineStep<'_> {
    let kind = written.get("type").cloned().and_then(|kind| serde_json::from_value(kind).ok());
    PipelineStep {
        name: written.get("name").and_then(Value::as_str).unwrap_or_default(),
        function: external_name(kind.unwrap_or(FunctionType::Container)),
        resources: &[],
        are_templates: false,
    }
}

fn step(written: &Value) -> PipelineStep<'_> {
    let input = written.get("input");
    let api_version = input.and_then(|input| input.get("apiVersion")?.as_str()).unwrap_or_default();
    let resources = input.and_then(|input| input.get("resources")?.as_array());
    PipelineStep {
        name: written.get("step").and_then(Value::as_str).unwrap_or_default(),
        function: written.get("functionRef").and_then(|it| it.get("name")?.as_str()).unwrap_or_default(),
        resources: resources.map(Vec::as_slice).unwrap_or_default(),
        are_templates: meta::group(api_version).ends_with(PATCH_AND_TRANSFORM_GROUP),
    }
}

impl<'a> PipelineStep<'a> {
    /// What its input says about a composed resource.
    pub(crate) fn resource(&self, name: &str) -> Option<&'a Value> {
        let mut resources = self.resources.iter().enumerate();
        resources.find(|(index, resource)| resource_name(*index, resource) == name).map(|it| it.1)
    }

    /// The names of the composed resources in its input.
    pub(crate) fn resource_names(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        self.resources.iter().enumerate().map(|(index, resource)| resource_name(index, resource))
    }
}

/// A resource needs no name in the old form: its place stands for it.
fn resource_name(index: usize, resource: &Value) -> Cow<'_, str> {
    match resource.get("name").and_then(Value::as_str) {
        Some(name) => name.into(),
        None => format!("resource-{index}").into(),
    }
}

/// The step whose input names a resource, and its text about it. The last such step counts.
pub(crate) fn template_of<'a>(
    snapshot: &'a Snapshot,
    composite: &Object,
    composed: &Object,
) -> Option<(PipelineStep<'a>, &'a Value)> {
    let name = meta::annotation(composed, keys::RESOURCE_NAME);
    let steps = steps(revision_of(snapshot, composite)?);
    let templates = steps.into_iter().filter(|step| step.are_templates);
    templates.filter_map(|step| Some((step, step.resource(name)?))).next_back()
}

/// The step whose input names the resource, or the only one that can have made it.
pub(crate) fn step_of<'a>(snapshot: &'a Snapshot, composite: &Object, composed: &Object) -> Option<&'a str> {
    let name = meta::annotation(composed, keys::RESOURCE_NAME);
    let steps = steps(revision_of(snapshot, composite)?);
    if let Some(step) = steps.iter().find(|step| step.resource(name).is_some()) {
        return Some(step.name);
    }
    let makes_something =
        |step: &&PipelineStep<'_>| known(snapshot, step.function).is_none_or(|function| function.composes);
    let mut composing = steps.iter().filter(makes_something);
    match (composing.next(), composing.next()) {
        (Some(only), None) => Some(only.name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_api::CompositionSpec;
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    #[test]
    fn composition_without_steps_has_the_step_that_the_engine_makes_of_it() {
        let spec = json!({"compositeTypeRef": {"apiVersion": "a/v1", "kind": "A"}, "mode": "Resources",
            "resources": [{"base": {}}, {"name": "b", "base": {}}]});
        let composition = object(&json!({"spec": spec}));
        let steps = steps(&composition);
        let read: CompositionSpec = serde_json::from_value(spec).unwrap();
        let engine = ferroplane_engine::to_pipeline(&read);
        assert_eq!((steps[0].name, steps[0].function), (&*engine[0].step, &*engine[0].function_ref.name));
        assert_eq!(steps[0].resource_names().collect::<Vec<_>>(), ["resource-0", "b"]);
        assert!(steps[0].are_templates && steps[0].resource("resource-0").is_some());
    }

    #[test]
    fn functions_are_the_steps_that_the_engine_makes_of_them() {
        let functions = json!([{"name": "a", "type": "Container", "container": {"image": "x"}},
            {"name": "b", "type": "Webhook", "webhook": {"url": "https://x/"}}]);
        let spec = json!({"compositeTypeRef": {"apiVersion": "a/v1", "kind": "A"},
            "resources": [{"name": "r", "base": {}}], "functions": functions});
        let composition = object(&json!({"spec": spec}));
        let read: CompositionSpec = serde_json::from_value(spec).unwrap();
        let engine = ferroplane_engine::to_pipeline(&read);
        let engine: Vec<_> = engine.iter().map(|step| (&*step.step, &*step.function_ref.name)).collect();
        let own: Vec<_> = steps(&composition).iter().map(|step| (step.name, step.function)).collect();
        assert_eq!(own, engine);
    }
}
