//! Validates manifests as an API server would, without one.
//!
//! Files are split into documents, and documents are read twice: first those that define kinds, then all of them, one
//! after the other on every processor. So no more objects are in memory than are checked, however many there are.
//!
//! Every mistake is reported with its file, line and field; a document that cannot be read does not stop the validation of others.

mod bases;
mod builtin;
mod composed;
mod custom;
mod definitions;
mod documents;
mod finding;
mod inputs;
mod judge;
mod kinds;
mod output;
mod packages;
mod parallel;
mod patches;
mod pipelines;
mod scripts;
mod served;
mod split;
mod templates;

use std::path::{Path, PathBuf};

use crate::manifest::{self, Files, Located, Manifest};
use documents::Documents;
use ferroplane_api::{Object, keys, meta};
use finding::{Problem, ProblemKind};
use judge::Judge;
use packages::Cache;

pub use finding::{Report, Summary};
pub use output::{Format, Layout, Style, print};
pub use served::{Served, composition_warnings};

/// Why manifests cannot be validated at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Manifest(#[from] manifest::Error),

    /// There are no threads to validate on.
    #[error(transparent)]
    Threads(#[from] std::io::Error),
}

/// Manifests to validate, and everything that is known about their kinds.
#[derive(Debug)]
pub struct Validation {
    objects: Documents,
    schemas: Documents,
    judge: Judge,
    unreadable: Vec<manifest::Error>,
    /// There is nothing at the path that is said to be a cache.
    pub is_cache_missing: bool,
}

/// The result of a validation.
#[derive(Debug)]
pub struct Validated {
    pub report: Report,
    /// What could not be read or used. The report says nothing about it.
    pub unreadable: Vec<manifest::Error>,
}

/// What is wrong with a composite resource by its definition. Fields that no schema knows are pruned, and are no error here;
/// neither is anything if no kind can be made of the definition.
pub(crate) fn composite_problems(definition: &Manifest, xr: &Manifest) -> Vec<Problem> {
    let known = definitions::kinds(definition).unwrap_or_default();
    let version = meta::version(meta::api_version(xr.object()));
    let resource = known.first().and_then(|known| known.resource(version));
    let problems = resource.map(|resource| custom::check(resource, xr)).unwrap_or_default();
    problems.into_iter().filter(|problem| problem.kind != ProblemKind::UnknownField).collect()
}

/// What is wrong with the Compositions among manifests, by the kinds and Functions that are among the manifests or that the plane
/// has to which they go.
pub fn composition_mistakes(
    manifests: &[Manifest],
    definitions: &[Object],
    functions: &[Object],
) -> Vec<Located> {
    let mut judge = Judge::of(manifests);
    // The manifests come first: they are about to replace what is served.
    judge.add_served(definitions);
    judge.add_installed(functions);
    // Which functions a Configuration brings is unknown before it is installed.
    let may_bring_functions = manifests.iter().any(is_configuration);
    let mistakes = manifests.iter().filter(|manifest| is_composition(manifest)).flat_map(|manifest| {
        let problems = judge.pipeline_problems(manifest).into_iter();
        let problems =
            problems.filter(|problem| !may_bring_functions || problem.kind != ProblemKind::UnknownFunction);
        problems.map(|it| Located::new(manifest.source(), Some(it.line), it.message))
    });
    mistakes.collect()
}

fn is_configuration(manifest: &Manifest) -> bool {
    let object = manifest.object();
    meta::kind(object) == "Configuration" && meta::group(meta::api_version(object)) == keys::PKG
}

/// Whether a manifest is a Composition.
pub fn is_composition(manifest: &Manifest) -> bool {
    let object = manifest.object();
    meta::kind(object) == "Composition" && meta::group(meta::api_version(object)) == keys::APIEXTENSIONS
}

impl Validation {
    /// Read the manifests to validate, those that only define kinds, and what the cache knows of the packages among
    /// them.
    pub fn read(files: &[PathBuf], schemas: &[PathBuf], cache: Option<&Path>) -> Result<Self, Error> {
        let (mut reader, mut unreadable) = (Files::default(), Vec::new());
        let (mut defining, mut objects) = (Documents::default(), Documents::default());
        unreadable.extend(defining.add_all(&mut reader, schemas)?);
        unreadable.extend(objects.add_all(&mut reader, files)?);
        let mut judge = Judge::new(&defining)?;
        judge.add(&objects)?;
        judge.add_examples(&objects)?;
        let found = Cache::find(cache);
        if let Some(cache) = &found {
            let images = judge.packages().iter();
            let paths: Vec<_> = images.filter_map(|image| cache.package(image)).collect();
            let mut packages = Documents::default();
            unreadable.extend(packages.add_all(&mut Files::default(), &paths)?);
            judge.add(&packages)?;
        }
        let is_cache_missing = cache.is_some() && found.is_none();
        Ok(Self { objects, schemas: defining, judge, unreadable, is_cache_missing })
    }

    /// The images of the packages that are among the manifests.
    pub fn packages(&self) -> &[String] {
        self.judge.packages()
    }

    /// The manifests of packages (`crossplane.yaml`) that are among the manifests.
    pub fn package_manifests(&self) -> &[Object] {
        self.judge.package_manifests()
    }

    /// How many documents are to be validated.
    pub fn document_count(&self) -> usize {
        self.objects.as_slice().len()
    }

    /// What is wrong with definitions that are not validated themselves.
    pub fn check_schemas(&mut self) -> Result<Vec<Located>, Error> {
        let (doubtful, unusable) = Judge::judge_definitions(&self.schemas)?;
        self.unreadable.extend(unusable);
        Ok(doubtful)
    }

    /// Validate everything, and tell whenever a document is done. For upstream's layout, inputs of functions are objects
    /// of their own.
    pub fn run(self, layout: Layout, is_done: impl Fn() + Sync) -> Result<Validated, Error> {
        let judge = self.judge.splitting_inputs(layout == Layout::Upstream);
        let (findings, unreadable) = judge.judge_all(&self.objects, is_done)?;
        let mut all = self.unreadable;
        all.extend(unreadable);
        Ok(Validated { report: Report::new(findings), unreadable: all })
    }
}
