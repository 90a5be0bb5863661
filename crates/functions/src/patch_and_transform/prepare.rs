//! The input made ready to run: paths and expressions read, patch sets put where they are named.
//!
//! Much that can be wrong is only a problem once it is used, so it is kept as the error it will be.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferroplane_golang::json::marshal_without_html_escapes;
use ferroplane_golang::strconv::quote;
use ferroplane_wire::Struct;
use serde_json::{Map, Value};

use super::document::has_kind;
use super::input::{self, Resources};
use super::release::Release;
use super::transform::Transform;
use super::validate;
use crate::fieldpath::{self, MergeOptions, Path};
use crate::pattern_budget::PatternBudget;

/// More patches than this are no composition. Patch sets multiply, so a short input could ask for them.
const MAX_PATCHES: usize = 100_000;

#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) release: Release,
    pub(super) environment: Vec<Patch>,
    /// The templates, or why the patch sets they name do not resolve.
    pub(super) templates: Result<Vec<Template>, String>,
    pub(super) secret: Option<SecretReference>,
}

#[derive(Debug)]
pub(super) struct Template {
    pub(super) name: String,
    /// What the resource starts from, or why it cannot. Without, it starts from what a function before made.
    pub(super) base: Option<Result<Map<String, Value>, String>>,
    pub(super) patches: Vec<Arc<Patch>>,
    pub(super) details: Vec<ConnectionDetail>,
    pub(super) checks: Vec<input::ReadinessCheck>,
}

#[derive(Debug)]
pub(super) struct SecretReference {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) patches: Vec<Patch>,
}

#[derive(Debug)]
pub(super) struct ConnectionDetail {
    pub(super) name: String,
    pub(super) from: DetailSource,
}

#[derive(Debug)]
pub(super) enum DetailSource {
    Value(String),
    SecretKey(String),
    Field(Result<Path, fieldpath::Error>),
}

#[derive(Debug)]
pub(super) struct Patch {
    /// As it is written, for results to name it.
    pub(super) kind: String,
    pub(super) direction: Direction,
    pub(super) from: Source,
    pub(super) to: Target,
    pub(super) transforms: Vec<Transform>,
    pub(super) is_required: bool,
    pub(super) is_optional: bool,
    pub(super) merge: Result<Option<MergeOptions>, String>,
    /// The value is made JSON before it is put. Otherwise, what is no JSON is noticed only then.
    pub(super) reads_before_writing: bool,
}

impl AsRef<Patch> for Patch {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Between what a patch copies, seen from the resource or the environment it is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    FromComposite,
    ToComposite,
    FromEnvironment,
    ToEnvironment,
}

impl Direction {
    fn of(kind: &str) -> Self {
        match kind {
            "ToCompositeFieldPath" | "CombineToComposite" => Self::ToComposite,
            "FromEnvironmentFieldPath" | "CombineFromEnvironment" => Self::FromEnvironment,
            "ToEnvironmentFieldPath" | "CombineToEnvironment" => Self::ToEnvironment,
            _ => Self::FromComposite,
        }
    }
}

/// Where a patch takes its value from.
#[derive(Debug)]
pub(super) enum Source {
    Field(Result<Path, fieldpath::Error>),
    Combined {
        variables: Vec<Result<Path, fieldpath::Error>>,
        /// How, or why there will be no value even if all variables have one.
        format: Result<String, String>,
    },
    /// Combining is asked for, but not what.
    Broken(String),
}

#[derive(Debug)]
pub(super) struct Target {
    pub(super) path: Result<Path, fieldpath::Error>,
    /// Whether it may stand for many fields.
    pub(super) has_wildcards: bool,
}

impl Prepared {
    /// Read and check an input. The error is the result a user will see.
    pub(super) fn read(input: &Struct, release: Release) -> Result<Self, String> {
        let json = input.json().map_err(|error| format!("cannot get Function input: {error}"))?;
        let resources = Resources::read(json, release)
            .map_err(|problem| format!("cannot get Function input: {problem}"))?;
        validate::resources(&resources, release)
            .map_err(|error| format!("invalid Function input: {error}"))?;
        let prepared = Self::new(resources, release);
        prepared.bound_patterns().map_err(|error| format!("invalid Function input: {error}"))?;
        Ok(prepared)
    }

    fn new(resources: Resources, release: Release) -> Self {
        let Resources { patch_sets, environment, resources, write_connection_secret_to_ref } = resources;
        let patch = |patch| Patch::new(patch, release);
        Self {
            release,
            environment: environment.into_iter().flatten().map(patch).collect(),
            templates: by_name(patch_sets, release).and_then(|sets| resolve(resources, &sets, release)),
            secret: write_connection_secret_to_ref.map(|secret| SecretReference {
                name: secret.name,
                namespace: secret.namespace,
                patches: secret.patches.into_iter().map(patch).collect(),
            }),
        }
    }
}

impl Prepared {
    /// Refuses what could not be run in time: expressions are compiled when they are first used, and then kept with the input.
    fn bound_patterns(&self) -> Result<(), String> {
        let mut budget = PatternBudget::default();
        let spent = self.environment.iter().try_for_each(|patch| patch.spend_patterns(&mut budget));
        spent.map_err(|problem| format!("environment.patches: {problem}"))?;
        // Patches of a set are there once, however many templates name the set.
        let mut counted = HashSet::new();
        for (index, template) in self.templates.iter().flatten().enumerate() {
            let mut patches = template.patches.iter().filter(|patch| counted.insert(Arc::as_ptr(patch)));
            let spent = patches.try_for_each(|patch| patch.spend_patterns(&mut budget));
            spent.map_err(|problem| format!("resources[{index}].patches: {problem}"))?;
        }
        let mut patches = self.secret.iter().flat_map(|secret| &secret.patches);
        let spent = patches.try_for_each(|patch| patch.spend_patterns(&mut budget));
        spent.map_err(|problem| format!("writeConnectionSecretToRef.patches: {problem}"))
    }
}

type PatchSets = HashMap<String, Vec<Arc<Patch>>>;

fn by_name(sets: Vec<input::PatchSet>, release: Release) -> Result<PatchSets, String> {
    // Later releases say so of the input already.
    if sets.iter().flat_map(|set| &set.patches).any(|patch| patch.kind == "PatchSet") {
        return Err("a patch in a PatchSet cannot be of type PatchSet".to_owned());
    }
    let patches =
        |set: Vec<input::Patch>| set.into_iter().map(|patch| Arc::new(Patch::new(patch, release))).collect();
    Ok(sets.into_iter().map(|set| (set.name, patches(set.patches))).collect())
}

fn resolve(
    templates: Vec<input::Template>,
    sets: &PatchSets,
    release: Release,
) -> Result<Vec<Template>, String> {
    let mut count = 0;
    let mut resolved = Vec::with_capacity(templates.len());
    for template in templates {
        let mut patches = Vec::with_capacity(template.patches.len());
        for patch in template.patches {
            if patch.kind != "PatchSet" {
                patches.push(Arc::new(Patch::new(patch, release)));
                continue;
            }
            let name = patch.patch_set_name.unwrap_or_default();
            let set = sets.get(&name).ok_or_else(|| format!("cannot find PatchSet by name {name}"))?;
            if count + patches.len() + set.len() > MAX_PATCHES {
                return Err(format!("there are more than {MAX_PATCHES} patches"));
            }
            // Shared by reference count: a set that a thousand templates name exists once.
            patches.extend(set.iter().cloned());
        }
        count += patches.len();
        resolved.push(Template {
            base: template.base.map(|base| to_object(base, &template.name, release)),
            details: template
                .connection_details
                .into_iter()
                .map(|detail| ConnectionDetail::new(detail, release))
                .collect(),
            checks: template.readiness_checks,
            name: template.name,
            patches,
        });
    }
    Ok(resolved)
}

fn to_object(base: Value, name: &str, release: Release) -> Result<Map<String, Value>, String> {
    let problem = match base {
        Value::Object(mut object) if has_kind(&object) => {
            if release.drops_names_of_bases() {
                drop_names(&mut object);
            }
            return Ok(object);
        }
        Value::Object(_) => format!("Object 'Kind' is missing in '{}'", marshal_without_html_escapes(&base)),
        Value::Null => return Ok(Map::new()),
        Value::Bool(_) => not_an_object("bool"),
        Value::Number(_) => not_an_object("number"),
        Value::String(_) => not_an_object("string"),
        Value::Array(_) => not_an_object("array"),
    };
    let reading = if release.drops_names_of_bases() { "cannot unmarshal JSON data: " } else { "" };
    Err(format!("cannot parse base template of composed resource {}: {reading}{problem}", quote(name)))
}

fn drop_names(object: &mut Map<String, Value>) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("name");
        metadata.remove("namespace");
    }
}

fn not_an_object(kind: &str) -> String {
    format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
}

impl ConnectionDetail {
    fn new(detail: input::ConnectionDetail, release: Release) -> Self {
        let from = match detail.kind.as_str() {
            "FromValue" => DetailSource::Value(detail.value.unwrap_or_default()),
            "FromConnectionSecretKey" => {
                DetailSource::SecretKey(detail.from_connection_secret_key.unwrap_or_default())
            }
            _ => DetailSource::Field(release.parse(&detail.from_field_path.unwrap_or_default())),
        };
        Self { name: detail.name, from }
    }
}

impl Patch {
    fn new(patch: input::Patch, release: Release) -> Self {
        // A patch without a target copies to the field of the same name.
        let to = patch.to_field_path.as_ref().or(patch.from_field_path.as_ref());
        let to = to.map(String::as_str).unwrap_or_default();
        let policy = patch.policy.as_ref();
        let is_combined = patch.kind.starts_with("Combine");
        let from_policy = policy.and_then(|policy| policy.from_field_path.as_deref()).unwrap_or("Optional");
        // What is combined goes to one field, whose name may be that of the wildcard.
        let has_wildcards = !is_combined && to.contains("[*]");
        let merges = match (is_combined, has_wildcards) {
            (true, _) => release.merges_combinations(),
            (false, true) => release.merges_in_all_ways(),
            (false, false) => true,
        };
        let has_floats = is_combined || !release.makes_numbers_whole();
        let to_policy = policy.and_then(|policy| policy.to_field_path.as_deref()).filter(|_| merges);
        Self {
            to: Target { path: release.parse(to), has_wildcards },
            direction: Direction::of(&patch.kind),
            is_required: from_policy == "Required",
            is_optional: from_policy == "Optional",
            merge: merge_options(to_policy, has_floats),
            reads_before_writing: release.makes_numbers_whole() && !is_combined,
            from: if is_combined {
                Source::combined(patch.combine, release)
            } else {
                Source::Field(release.parse(&patch.from_field_path.unwrap_or_default()))
            },
            transforms: patch
                .transforms
                .into_iter()
                .map(|transform| Transform::new(transform, release))
                .collect(),
            kind: patch.kind,
        }
    }
}

impl Patch {
    fn spend_patterns(&self, budget: &mut PatternBudget) -> Result<(), String> {
        self.transforms.iter().flat_map(Transform::expressions).try_for_each(|(pattern, expression)| {
            let spent = budget.spend(expression.weight());
            spent.map_err(|problem| format!("regexp {}: {problem}", quote(pattern)))
        })
    }
}

impl Source {
    fn combined(combine: Option<input::Combine>, release: Release) -> Self {
        let Some(combine) = combine else {
            return Self::Broken("combine must be set".to_owned());
        };
        if combine.variables.is_empty() && release.checks_combinations_late() {
            return Self::Broken("combine patch types require at least one variable".to_owned());
        }
        let variables = combine.variables.iter().map(|path| release.parse(path)).collect();
        let format = match (combine.strategy.as_str(), combine.format) {
            ("string", Some(format)) => Ok(format),
            ("string", None) => Err("given combine strategy string requires configuration".to_owned()),
            (unknown, _) => Err(format!("combine strategy {unknown} is not supported")),
        };
        Self::Combined { variables, format }
    }
}

fn merge_options(policy: Option<&str>, has_floats: bool) -> Result<Option<MergeOptions>, String> {
    let options =
        |keep_map_values, append_slice| Some(MergeOptions { keep_map_values, append_slice, has_floats });
    Ok(match policy.unwrap_or("Replace") {
        "Replace" => None,
        "MergeObjects" | "MergeObject" => options(true, false),
        "MergeObjectsAppendArrays" => options(true, true),
        "ForceMergeObjects" => options(false, false),
        "ForceMergeObjectsAppendArrays" | "AppendArray" => options(false, true),
        unknown => return Err(format!("invalid patch policy {unknown}")),
    })
}
