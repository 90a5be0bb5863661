//! Which steps and phases, in manifests or on a control plane, call versions that will not be there for ever.

use ferroplane_api::{Composition, Object, Step, keys, meta};
use ferroplane_engine::versions::{
    Advisory, Catalogue, LifecycleState, Question, Replaceable, Replacement, Unresolved, Version,
    replacement, resolve,
};
use ferroplane_engine::{Pipeline, PipelineError, to_pipeline};
use ferroplane_functions::Library;
use serde::Serialize;
use serde_json::Value;

use crate::manifest::{Located, Manifest};

/// A step or phase, and what becomes of the version it calls.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    pub file: String,
    /// The Composition, or the kind and name of an operation or Blueprint.
    pub composition: String,
    /// The step, or the action and phase of a Blueprint.
    pub step: String,
    pub function: String,
    /// What runs. Nothing if nothing does.
    pub version: Option<String>,
    pub state: String,
    /// What the user should know.
    pub message: String,
    #[serde(skip)]
    pub breaks: bool,
}

/// Everything in the manifests that a release would warn about or refuse.
#[derive(Debug, Default)]
pub struct Uses {
    pub found: Vec<Use>,
    /// How many steps were checked.
    pub steps: usize,
    /// How many of them call functions that are not built in.
    pub foreign: usize,
}

/// Why the steps in manifests cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Located(#[from] Located),

    #[error("{object}: {message}")]
    Live { object: String, message: String },

    #[error("cannot read {composition} of {file}")]
    Pipeline { composition: String, file: String, source: PipelineError },
}

/// An object of a control plane that runs.
#[derive(Debug, Clone)]
pub struct LiveObject {
    /// Which control plane.
    pub server: String,
    /// With its apiVersion and kind.
    pub object: Object,
}

/// Look at every Composition, operation and Blueprint, as this release would. Functions say which packages are built in.
pub fn find(manifests: &[Manifest], library: &Library, release: &Version) -> Result<Uses, Error> {
    let objects: Vec<_> = manifests.iter().map(Manifest::object).collect();
    let catalogue = catalogue(objects.into_iter(), library, release);
    let mut uses = Uses::default();
    for manifest in manifests {
        let located = |Unreadable { path, message }: Unreadable| manifest.error(path, message);
        let Some((name, calls)) = calls_of(manifest.object()).map_err(located)? else { continue };
        uses.judge(&manifest.source().to_string(), &name, &calls, &catalogue)?;
    }
    Ok(uses)
}

/// The same for objects of a control plane that runs.
pub fn find_live(objects: &[LiveObject], library: &Library, release: &Version) -> Result<Uses, Error> {
    let catalogue = catalogue(objects.iter().map(|it| &it.object), library, release);
    let mut uses = Uses::default();
    for LiveObject { server, object } in objects {
        let unreadable = |Unreadable { message, .. }: Unreadable| Error::Live {
            object: format!("{}/{}", meta::kind(object), meta::name(object)),
            message,
        };
        let Some((name, calls)) = calls_of(object).map_err(unreadable)? else { continue };
        uses.judge(server, &name, &calls, &catalogue)?;
    }
    Ok(uses)
}

/// Something that calls a function.
enum Call {
    /// A step of a Composition or operation.
    Step(Box<Step>),
    /// A phase of a Blueprint, with the action that it is of.
    Phase { action: String, phase: String, question: Question },
}

/// A field that does not have what it should.
struct Unreadable {
    path: &'static [&'static str],
    message: String,
}

impl Uses {
    fn judge(&mut self, file: &str, name: &str, calls: &[Call], catalogue: &Catalogue) -> Result<(), Error> {
        for call in calls {
            self.steps += 1;
            let judged = match call {
                Call::Step(step) => judge_step(step, catalogue).map_err(|source| Error::Pipeline {
                    composition: name.to_owned(),
                    file: file.to_owned(),
                    source,
                })?,
                Call::Phase { question, .. } => judge_phase(question, catalogue),
            };
            let Judgement { version, state, message, breaks } = match judged {
                Judged::Fine => continue,
                Judged::Foreign => {
                    self.foreign += 1;
                    continue;
                }
                Judged::Told(judgement) => judgement,
            };
            let (step, function) = match call {
                Call::Step(step) => (step.step.clone(), step.function_ref.name.clone()),
                Call::Phase { action, phase, question } => {
                    (format!("{action}/{phase}"), question.function.clone())
                }
            };
            let (file, composition) = (file.to_owned(), name.to_owned());
            self.found.push(Use { file, composition, step, function, version, state, message, breaks });
        }
        Ok(())
    }
}

/// What becomes of a call.
enum Judged {
    Fine,
    /// It calls a function that is not built in.
    Foreign,
    Told(Judgement),
}

struct Judgement {
    version: Option<String>,
    state: String,
    message: String,
    breaks: bool,
}

fn judge_step(step: &Step, catalogue: &Catalogue) -> Result<Judged, PipelineError> {
    let pipeline = Pipeline::new(std::slice::from_ref(step))?;
    Ok(match pipeline.resolve(catalogue) {
        Ok(pipeline) => {
            let callee = pipeline.steps()[0].callee.clone().expect("every step is resolved");
            judged(callee.version, &callee.state.to_string(), &callee.advisories)
        }
        Err(error) => refused(step.function_ref.version.clone(), &error.source),
    })
}

fn judge_phase(question: &Question, catalogue: &Catalogue) -> Judged {
    match resolve(catalogue, question) {
        Ok(resolution) => {
            judged(resolution.record.version.clone(), &resolution.state.to_string(), &resolution.advisories)
        }
        Err(error) => refused(question.phase_version.clone(), &error),
    }
}

fn judged(version: Option<Version>, state: &str, advisories: &[Advisory]) -> Judged {
    if advisories.is_empty() {
        return Judged::Fine;
    }
    let said: Vec<_> = advisories.iter().map(ToString::to_string).collect();
    Judged::Told(Judgement {
        version: version.map(|version| version.to_string()),
        state: state.to_owned(),
        message: said.join("; "),
        breaks: false,
    })
}

fn refused(asked: Option<String>, error: &Unresolved) -> Judged {
    if matches!(error, Unresolved::UnknownFunction { .. }) {
        return Judged::Foreign;
    }
    let state = state_of(error).to_owned();
    Judged::Told(Judgement { version: asked, state, message: error.to_string(), breaks: true })
}

/// What an object is called that calls functions, and its calls. None if it can have none.
fn calls_of(object: &Object) -> Result<Option<(String, Vec<Call>)>, Unreadable> {
    let kind = meta::kind(object);
    let group = meta::group(meta::api_version(object));
    let steps = |steps: Vec<Step>| steps.into_iter().map(|step| Call::Step(Box::new(step))).collect();
    if is(object, keys::APIEXTENSIONS, "Composition") {
        let composition: Composition =
            serde_json::from_value(Value::Object(object.clone())).map_err(|error| Unreadable {
                path: &["spec"],
                message: format!("cannot read the Composition: {error}"),
            })?;
        let pipeline = to_pipeline(&composition.spec).to_vec();
        return Ok(Some((composition.name().to_owned(), steps(pipeline))));
    }
    if (group, kind) == (keys::KANISTER, "Blueprint") {
        return Ok(Some((format!("{kind}/{}", meta::name(object)), phases_of(object)?)));
    }
    let path: &'static [&'static str] = match kind {
        _ if group != keys::OPS => return Ok(None),
        "Operation" => &["spec", "pipeline"],
        "CronOperation" | "WatchOperation" => &["spec", "operationTemplate", "spec", "pipeline"],
        _ => return Ok(None),
    };
    let (first, rest) = (object.get(path[0]), &path[1..]);
    let pipeline = rest.iter().try_fold(first, |value, key| Some(value?.get(*key))).flatten();
    let pipeline = serde_json::from_value(pipeline.cloned().unwrap_or_else(|| Value::Array(Vec::new())));
    let pipeline = pipeline
        .map_err(|error| Unreadable { path, message: format!("cannot read the pipeline: {error}") })?;
    Ok(Some((format!("{kind}/{}", meta::name(object)), steps(pipeline))))
}

/// The phases of all actions of a Blueprint, those that run at the end included.
fn phases_of(blueprint: &Object) -> Result<Vec<Call>, Unreadable> {
    let unreadable =
        |what: &str| Unreadable { path: &["actions"], message: format!("cannot read the Blueprint: {what}") };
    let actions = match blueprint.get("actions") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(actions)) => actions,
        Some(_) => return Err(unreadable("`actions` is not a map")),
    };
    let mut calls = Vec::new();
    for (action, content) in actions {
        let phases = content["phases"].as_array().into_iter().flatten();
        for phase in phases.chain(content.get("deferPhase")).filter(|phase| !phase.is_null()) {
            let text = |field: &str| phase[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            let function = text("func").ok_or_else(|| unreadable("a phase has no `func`"))?;
            let question = Question { phase_version: text("funcVersion"), ..Question::about(function) };
            calls.push(Call::Phase {
                action: action.clone(),
                phase: text("name").unwrap_or_default(),
                question,
            });
        }
    }
    Ok(calls)
}

fn state_of(error: &Unresolved) -> &'static str {
    match error {
        Unresolved::EndOfSupport { .. } => LifecycleState::Removed.as_str(),
        _ => "missing",
    }
}

fn is(object: &Object, group: &str, kind: &str) -> bool {
    meta::kind(object) == kind && meta::group(meta::api_version(object)) == group
}

/// What is built in, under the names that the Functions among the objects give it. Packages that no built-in function replaces are
/// not ours to judge.
fn catalogue<'o>(
    objects: impl Iterator<Item = &'o Object>,
    library: &Library,
    release: &Version,
) -> Catalogue {
    let mut catalogue = library.catalogue().at(release.clone());
    for object in objects.filter(|object| is(object, keys::PKG, "Function")) {
        let name = meta::name(object);
        let built_in =
            replacement(Replaceable::of(object), library.catalogue(), |package| library.native(package));
        match built_in {
            Ok(Replacement { function, version }) => {
                if let Some(family) = library.catalogue().family(&function) {
                    catalogue.alias(name, family, version.as_ref());
                }
            }
            // The package runs, even if a function that is built in has its name.
            Err(_) => catalogue.remove(name),
        }
    }
    catalogue
}

#[cfg(test)]
mod tests;
