//! Which steps in manifests call versions that will not be there for ever.

use ferroplane_api::{Composition, Function, Step, keys, meta};
use ferroplane_engine::versions::{Catalogue, LifecycleState, Unresolved, Version};
use ferroplane_engine::{Pipeline, PipelineError, to_pipeline};
use ferroplane_functions::{Library, Native};
use serde::Serialize;
use serde_json::Value;

use crate::manifest::{Located, Manifest};

/// A step, and what becomes of the version it calls.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    pub file: String,
    /// The Composition, or the kind and name of an operation.
    pub composition: String,
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
    /// How many steps were looked at.
    pub steps: usize,
    /// How many of them call functions that are not built in.
    pub foreign: usize,
}

/// Why the steps in manifests cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Located(#[from] Located),

    #[error("cannot read {composition} of {file}")]
    Pipeline { composition: String, file: String, source: PipelineError },
}

/// Look at every Composition and operation, as this release would. Functions say which packages are built in.
pub fn find(manifests: &[Manifest], library: &Library, release: &Version) -> Result<Uses, Error> {
    let catalogue = catalogue(manifests, library, release)?;
    let mut uses = Uses::default();
    for manifest in manifests {
        let Some((composition, steps)) = steps_of(manifest)? else { continue };
        for step in &steps {
            uses.steps += 1;
            let pipeline = Pipeline::new(std::slice::from_ref(step)).map_err(|source| Error::Pipeline {
                composition: composition.clone(),
                file: manifest.source().to_string(),
                source,
            })?;
            let (version, state, message, breaks) = match pipeline.resolve(&catalogue) {
                Ok(pipeline) => {
                    let callee = pipeline.steps()[0].callee.clone().expect("every step is resolved");
                    if callee.advisories.is_empty() {
                        continue;
                    }
                    let said: Vec<_> = callee.advisories.iter().map(ToString::to_string).collect();
                    (
                        callee.version.map(|version| version.to_string()),
                        callee.state.to_string(),
                        said.join("; "),
                        false,
                    )
                }
                Err(error) if matches!(error.source, Unresolved::UnknownFunction { .. }) => {
                    uses.foreign += 1;
                    continue;
                }
                Err(error) => {
                    let asked = step.function_ref.version.clone();
                    (asked, state_of(&error.source).to_owned(), error.source.to_string(), true)
                }
            };
            uses.found.push(Use {
                file: manifest.source().to_string(),
                composition: composition.clone(),
                step: step.step.clone(),
                function: step.function_ref.name.clone(),
                version,
                state,
                message,
                breaks,
            });
        }
    }
    Ok(uses)
}

/// What an object is called that has steps, and the steps. None if it can have none.
fn steps_of(manifest: &Manifest) -> Result<Option<(String, Vec<Step>)>, Located> {
    if is(manifest, keys::APIEXTENSIONS, "Composition") {
        let composition: Composition = manifest.parse()?;
        let steps = to_pipeline(&composition.spec).to_vec();
        return Ok(Some((composition.name().to_owned(), steps)));
    }
    let object = manifest.object();
    let kind = meta::kind(object);
    let path: &[&str] = match kind {
        _ if meta::group(meta::api_version(object)) != keys::OPS => return Ok(None),
        "Operation" => &["spec", "pipeline"],
        "CronOperation" | "WatchOperation" => &["spec", "operationTemplate", "spec", "pipeline"],
        _ => return Ok(None),
    };
    let (first, rest) = (object.get(path[0]), &path[1..]);
    let steps = rest.iter().try_fold(first, |value, key| Some(value?.get(*key))).flatten();
    let steps = serde_json::from_value(steps.cloned().unwrap_or_else(|| Value::Array(Vec::new())));
    let steps = steps.map_err(|error| manifest.error(path, format!("cannot read the pipeline: {error}")))?;
    Ok(Some((format!("{kind}/{}", meta::name(object)), steps)))
}

fn state_of(error: &Unresolved) -> &'static str {
    match error {
        Unresolved::EndOfSupport { .. } => LifecycleState::Removed.as_str(),
        _ => "missing",
    }
}

fn is(manifest: &Manifest, group: &str, kind: &str) -> bool {
    let object = manifest.object();
    meta::kind(object) == kind && meta::group(meta::api_version(object)) == group
}

/// What is built in, under the names that the Functions in the manifests give it. Packages that are not built in are
/// not ours to judge.
fn catalogue(manifests: &[Manifest], library: &Library, release: &Version) -> Result<Catalogue, Located> {
    let mut catalogue = library.catalogue().at(release.clone());
    for manifest in manifests.iter().filter(|manifest| is(manifest, keys::PKG, "Function")) {
        let function: Function = manifest.parse()?;
        let (name, package) = (&function.metadata.name, &function.spec.package);
        match library.native(package) {
            Native::Covered { function, version } => {
                if let Some(family) = library.catalogue().family(&function) {
                    catalogue.alias(name, family, Some(&version));
                }
            }
            _ if package.is_empty() => {}
            _ => catalogue.remove(name),
        }
    }
    Ok(catalogue)
}

#[cfg(test)]
mod tests;
