//! Validates pipelines of Compositions and operations.

use ferroplane_api::{CompositionSpec, Mode, Object, keys, meta};
use ferroplane_engine::operation::{CronSpec, FieldPath};
use ferroplane_engine::{COMPOSITION, OPERATION, Pipeline, PipelineError, ineffective_fields, to_pipeline};
use serde_json::Value;

use super::finding::{Finding, Problem, ProblemKind};
use super::inputs::{Call, Functions};
use super::kinds::Kinds;
use super::patches::Composite;
use crate::manifest::Manifest;

/// What is wrong with the pipeline in an object, if it has one.
pub(super) fn check(finding: &mut Finding, manifest: &Manifest, kinds: &Kinds, functions: &Functions) {
    let object = manifest.object();
    let spec = object.get("spec");
    match (meta::group(meta::api_version(object)), meta::kind(object)) {
        (keys::APIEXTENSIONS, "Composition" | "CompositionRevision") => {
            finding.errors.extend(wrong_type(manifest, kinds));
            finding.warnings.extend(unknown_type(manifest, kinds));
            finding.warnings.extend(ineffective(manifest));
            if !check_resources(finding, manifest, kinds, functions) {
                check_steps(finding, spec, "spec", manifest, kinds, functions);
            }
        }
        (keys::OPS, "Operation") => check_steps(finding, spec, "spec", manifest, kinds, functions),
        (keys::OPS, kind @ ("CronOperation" | "WatchOperation")) => {
            if kind == "CronOperation" {
                finding.errors.extend(wrong_schedule(manifest));
            } else {
                finding.errors.extend(wrong_field(manifest));
                finding.warnings.extend(mutual_triggers(manifest));
            }
            let spec = spec.and_then(|spec| spec.get("operationTemplate")?.get("spec"));
            check_steps(finding, spec, "spec.operationTemplate.spec", manifest, kinds, functions);
        }
        _ => {}
    }
}

fn check_steps(
    finding: &mut Finding,
    spec: Option<&Value>,
    at: &str,
    manifest: &Manifest,
    kinds: &Kinds,
    functions: &Functions,
) {
    let steps = spec.and_then(|spec| spec.get("pipeline")?.as_array());
    let is_operation = meta::group(meta::api_version(manifest.object())) == keys::OPS;
    let capability = if is_operation { OPERATION } else { COMPOSITION };
    for (index, step) in steps.into_iter().flatten().enumerate() {
        let function =
            |field: &str| step.get("functionRef").and_then(|function| function.get(field)?.as_str());
        let call = Call {
            function: function("name").unwrap_or_default(),
            version: function("version"),
            capability,
            input: step.get("input").and_then(Value::as_object),
            function_at: &format!("{at}.pipeline[{index}].functionRef.name"),
            input_at: &format!("{at}.pipeline[{index}].input"),
            is_first: index == 0,
            composite: composite(manifest.object(), kinds),
        };
        let (errors, warnings) = functions.check(&call, kinds, manifest);
        finding.errors.extend(errors);
        finding.warnings.extend(warnings);
    }
}

/// A schedule that cannot be read, or never comes.
fn wrong_schedule(manifest: &Manifest) -> Option<Problem> {
    let schedule = manifest.object().get("spec").and_then(|spec| spec.get("schedule")?.as_str())?;
    let reason = match CronSpec::of(manifest.object()).schedule {
        Err(invalid) => invalid.to_string(),
        Ok(read) if read.next(0).is_none() => "no time matches it".to_owned(),
        Ok(_) => return None,
    };
    let message = format!("spec.schedule: Invalid value: \"{schedule}\": {reason}");
    let value = Some(schedule.into());
    Some(Problem { value, ..Problem::new(ProblemKind::Schema, manifest, "spec.schedule", message) })
}

/// A path in the fields that are watched that is none.
fn wrong_field(manifest: &Manifest) -> Option<Problem> {
    let fields = manifest.object().get("spec").and_then(|spec| spec.get("watch")?.get("fields")?.as_array());
    let paths = fields.into_iter().flatten().map(|field| field.get("fieldPath").and_then(Value::as_str));
    let mut wrong = paths.enumerate().filter_map(|(index, path)| {
        let invalid = FieldPath::parse(path?).err()?;
        let field = format!("spec.watch.fields[{index}].fieldPath");
        let message = format!("{field}: Invalid value: {invalid}");
        Some(Problem::new(ProblemKind::Schema, manifest, &field, message))
    });
    wrong.next()
}

/// A kind whose objects are created or changed by every `WatchOperation` that does its work.
fn mutual_triggers(manifest: &Manifest) -> Option<Problem> {
    let watched = manifest.object().get("spec")?.get("watch")?;
    let text = |field: &str| watched.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, kind) = (meta::group(text("apiVersion")), text("kind"));
    matches!((group, kind), (keys::OPS, "Operation") | ("" | "events.k8s.io", "Event")).then(|| {
        let field = "spec.watch.kind";
        let (own, remedy) = match kind {
            "Event" => ("events about its own Operations and their ActionSets", "the namespace"),
            _ => ("its own Operations", "matchLabels"),
        };
        let message = format!(
            "{field}: no Operation is created for {own}, but two WatchOperations that watch {kind}s trigger each other \
             without end; restrict them with {remedy}"
        );
        Problem::new(ProblemKind::NoEffect, manifest, field, message)
    })
}

/// Check a composition that lists resources or functions instead of steps. Says whether it is one.
fn check_resources(finding: &mut Finding, manifest: &Manifest, kinds: &Kinds, functions: &Functions) -> bool {
    let Some(spec) = manifest.object().get("spec").filter(|spec| spec.get("pipeline").is_none()) else {
        return false;
    };
    let Ok(spec) = serde_json::from_value::<CompositionSpec>(spec.clone()) else { return false };
    if spec.mode() != Mode::Resources && spec.functions.is_empty() {
        return false;
    }
    match &Pipeline::of(&spec) {
        Err(error @ PipelineError::PatchOfComposite { .. }) => {
            finding.errors.push(lost_patch(manifest, error));
        }
        Err(error @ PipelineError::Function { step, field, .. }) => {
            finding.errors.push(wrong_function(manifest, &spec, step, field, error));
        }
        _ => {}
    }
    // What functions say was checked with the pipeline, where each mistake has its field.
    let spec = CompositionSpec { functions: Vec::new(), ..spec };
    for step in to_pipeline(&spec).iter() {
        // What the steps are made of stands elsewhere.
        let is_environment = step.input.as_ref().is_some_and(|input| input.contains_key("spec"));
        let at = if is_environment { "spec.environment" } else { "spec" };
        let name = &step.function_ref.name;
        let call = Call {
            function: name,
            version: step.function_ref.version.as_deref(),
            capability: COMPOSITION,
            input: step.input.as_ref(),
            function_at: at,
            input_at: at,
            is_first: false,
            composite: composite(manifest.object(), kinds),
        };
        let (errors, warnings) = functions.check(&call, kinds, manifest);
        finding.warnings.extend(warnings);
        finding.errors.extend(errors.into_iter().map(|problem| {
            let real = |text: &str| text.replacen("spec.environment.spec", at, 1);
            let (field, message) = (real(&problem.field), real(&problem.message));
            Problem { line: manifest.line_at(&field), field, message, ..problem }
        }));
    }
    true
}

/// What is said to no effect.
fn ineffective(manifest: &Manifest) -> Vec<Problem> {
    let fields = manifest.object().get("spec").map(ineffective_fields).unwrap_or_default();
    fields
        .into_iter()
        .map(|it| Problem::new(ProblemKind::NoEffect, manifest, &it.field, it.message))
        .collect()
}

/// A patch that would write where nothing can be written.
fn lost_patch(manifest: &Manifest, error: &PipelineError) -> Problem {
    let patch = match error {
        PipelineError::PatchOfComposite { patch, .. } => patch.as_str(),
        _ => "resources",
    };
    let field = format!("spec.{patch}");
    Problem::new(ProblemKind::FunctionInput, manifest, &field, format!("{field}: {error}"))
}

/// A function of the `functions` array that cannot be called.
fn wrong_function(
    manifest: &Manifest,
    spec: &CompositionSpec,
    function: &str,
    field: &str,
    error: &PipelineError,
) -> Problem {
    let index = spec.functions.iter().position(|it| it.name == function).unwrap_or_default();
    let field = format!("spec.functions[{index}].{field}");
    Problem::new(ProblemKind::FunctionInput, manifest, &field, format!("{field}: {error}"))
}

/// Compositions are for the one referenceable version of composite resources.
fn wrong_type(manifest: &Manifest, kinds: &Kinds) -> Option<Problem> {
    let (api_version, kind) = composite_type(manifest.object())?;
    let known = kinds.given(meta::group(api_version), kind)?;
    let referenceable = known.referenceable.as_ref()?;
    let wanted = format!("{}/{referenceable}", known.definition.group);
    (wanted != api_version).then(|| {
        let field = "spec.compositeTypeRef.apiVersion";
        let message = format!(
            "{field}: Invalid value: \"{api_version}\": compositions of {kind} are for its referenceable version, \
             {wanted}"
        );
        let value = Some(api_version.into());
        Problem { value, ..Problem::new(ProblemKind::CompositeType, manifest, field, message) }
    })
}

/// A kind that is not among its siblings is misspelt more often than it is elsewhere.
fn unknown_type(manifest: &Manifest, kinds: &Kinds) -> Option<Problem> {
    let (api_version, kind) = composite_type(manifest.object())?;
    let group = meta::group(api_version);
    (kinds.given(group, kind).is_none() && kinds.has_composites_of(group)).then(|| {
        let field = "spec.compositeTypeRef.kind";
        let given = kinds.given_word();
        let message = format!("{field}: no {given}CompositeResourceDefinition defines {kind} ({group})");
        Problem::new(ProblemKind::CompositeType, manifest, field, message)
    })
}

/// What a composition is for, as far as that is known.
fn composite<'k>(composition: &'k Object, kinds: &'k Kinds) -> Option<Composite<'k>> {
    let (api_version, kind) = composite_type(composition)?;
    let known = kinds.given(meta::group(api_version), kind)?;
    let is_namespaced = known.definition.scope == "Namespaced";
    Some(Composite { kind, schema: known.definition.schema(meta::version(api_version))?, is_namespaced })
}

pub(super) fn composite_type(composition: &Object) -> Option<(&str, &str)> {
    let reference = composition.get("spec")?.get("compositeTypeRef")?;
    Some((reference.get("apiVersion")?.as_str()?, reference.get("kind")?.as_str()?))
}
