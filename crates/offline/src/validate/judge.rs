//! Knows what is given, and judges objects by it.

use std::collections::BTreeSet;

use ferroplane_api::{Object, keys, meta};
use ferroplane_schema::structural::strict_json::duplicate_field;
use serde_json::Value;

use super::documents::Documents;
use super::finding::{Finding, Problem, ProblemKind, Verdict};
use super::inputs::Functions;
use super::kinds::Kinds;
use super::pipelines::composite_type;
use super::{builtin, custom, definitions, parallel, pipelines, split};
use crate::manifest::{Error, Located, Manifest, kind_of};
use crate::render::templates::INPUT_GROUP;

/// Knows what is given, and judges objects by it.
#[derive(Debug)]
pub(crate) struct Judge {
    kinds: Kinds,
    functions: Functions,
    packages: Vec<String>,
    package_manifests: Vec<Object>,
    splits_inputs: bool,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            kinds: Kinds::new(),
            functions: Functions::default(),
            packages: Vec::new(),
            package_manifests: Vec::new(),
            splits_inputs: false,
        }
    }
}

impl Judge {
    /// Take note of everything that defines kinds, or is called.
    pub(crate) fn new(documents: &Documents) -> std::io::Result<Self> {
        let mut judge = Self::default();
        judge.add(documents)?;
        Ok(judge)
    }

    /// One that knows what manifests define.
    pub(crate) fn of(manifests: &[Manifest]) -> Self {
        let mut judge = Self::default();
        for manifest in manifests {
            for known in definitions::kinds(manifest).unwrap_or_default() {
                judge.kinds.add(known);
            }
            judge.note(manifest);
        }
        judge
    }

    /// One that knows what an API server serves: definitions, the groups of all of them, and Functions.
    pub(crate) fn of_served(definitions: &[Object], groups: BTreeSet<String>, functions: &[Object]) -> Self {
        let mut judge = Self { kinds: Kinds::served(groups), ..Self::default() };
        let found: Vec<_> = definitions.iter().filter_map(definitions::kinds_of_object).flatten().collect();
        // One Composition can name many kinds, and the process that compiles their schemas is the control plane.
        let versions = found.iter().map(|known| known.versions().len()).sum();
        for known in found {
            judge.kinds.add(known.sharing(versions));
        }
        for function in functions {
            judge.functions.add(function);
        }
        judge
    }

    /// Take note of definitions that an API server serves.
    pub(crate) fn add_served(&mut self, definitions: &[Object]) {
        for known in definitions.iter().filter_map(definitions::kinds_of_object).flatten() {
            self.kinds.add(known);
        }
    }

    /// Take note of the Functions that a control plane has.
    pub(crate) fn add_installed(&mut self, functions: &[Object]) {
        self.functions.add_installed(functions);
    }

    /// What is wrong with the pipeline of a composition, and what might be.
    pub(crate) fn pipeline_problems(&self, manifest: &Manifest) -> Vec<Problem> {
        let mut finding = Finding::about(manifest);
        pipelines::check(&mut finding, manifest, &self.kinds, &self.functions);
        finding.errors.into_iter().chain(finding.warnings).collect()
    }

    /// Let inputs of functions be objects of their own.
    #[must_use]
    pub(crate) fn splitting_inputs(self, splits_inputs: bool) -> Self {
        Self { splits_inputs, ..self }
    }

    /// Take note of more.
    pub(crate) fn add(&mut self, documents: &Documents) -> std::io::Result<()> {
        let candidates: Vec<_> =
            documents.as_slice().iter().filter(|document| may_matter(document.text())).collect();
        let read = parallel::map(&candidates, |document| {
            // Documents that cannot be read are reported when everything is checked.
            let manifests = document.read().unwrap_or_default().into_iter();
            manifests
                .map(|manifest| (definitions::kinds(&manifest).unwrap_or_default(), manifest))
                .collect::<Vec<_>>()
        })?;
        for (kinds, manifest) in read.into_iter().flatten() {
            for known in kinds {
                self.kinds.add(known);
            }
            self.note(&manifest);
        }
        Ok(())
    }

    fn note(&mut self, manifest: &Manifest) {
        let object = manifest.object();
        match meta::group(meta::api_version(object)) {
            keys::PKG => self.note_package(object),
            keys::META_PKG => self.package_manifests.push(object.clone()),
            _ => {}
        }
    }

    fn note_package(&mut self, object: &Object) {
        let kind = meta::kind(object);
        if kind == "Function" {
            self.functions.add(object);
        }
        let package = object.get("spec").and_then(|spec| spec.get("package")?.as_str());
        if let (Some(package), "Function" | "Provider" | "Configuration") = (package, kind) {
            self.packages.push(package.to_owned());
        }
    }

    /// Take note of composite resources for Compositions with templates, to try the templates with.
    pub(crate) fn add_examples(&mut self, documents: &Documents) -> std::io::Result<()> {
        let texts = || documents.as_slice().iter();
        let compositions: Vec<_> = texts().filter(|document| has_templates(document.text())).collect();
        let read = parallel::map(&compositions, |document| document.read().unwrap_or_default())?;
        let types = read.iter().flatten().filter_map(|it| composite_type(it.object()));
        let types: BTreeSet<_> = types.map(|(version, kind)| (version.to_owned(), kind.to_owned())).collect();
        let is_example = |text: &str| {
            types
                .iter()
                .any(|(version, kind)| text.contains(version.as_str()) && text.contains(kind.as_str()))
        };
        let candidates =
            texts().filter(|document| is_example(document.text()) && !has_templates(document.text()));
        // Before they are read, which is what takes time.
        let candidates: Vec<_> = candidates.take(MANY_EXAMPLES).collect();
        for manifest in
            parallel::map(&candidates, |document| document.read().unwrap_or_default())?.into_iter().flatten()
        {
            self.functions.examples.add(manifest);
        }
        Ok(())
    }

    /// The images of the packages that are given.
    pub(crate) fn packages(&self) -> &[String] {
        &self.packages
    }

    /// The manifests of packages that are given as their source.
    pub(crate) fn package_manifests(&self) -> &[Object] {
        &self.package_manifests
    }

    /// Judge every object, and say what cannot be read.
    pub(crate) fn judge_all(
        &self,
        documents: &Documents,
        is_done: impl Fn() + Sync,
    ) -> std::io::Result<(Vec<Finding>, Vec<Error>)> {
        let judged = parallel::map(documents.as_slice(), |document| {
            let judged = document
                .read()
                .map(|manifests| manifests.iter().flat_map(|it| self.judge(it)).collect::<Vec<_>>());
            is_done();
            judged
        })?;
        let (mut findings, mut unreadable) = (Vec::new(), Vec::new());
        for judged in judged {
            match judged {
                Ok(found) => findings.extend(found),
                Err(error) => unreadable.push(error.into()),
            }
        }
        Ok((findings, unreadable))
    }

    /// What is wrong with definitions that are not judged themselves, and why others cannot be used at all.
    pub(crate) fn judge_definitions(documents: &Documents) -> std::io::Result<(Vec<Located>, Vec<Error>)> {
        let judged = parallel::map(documents.as_slice(), |document| {
            let manifests = document.read()?;
            let mut doubtful = Vec::new();
            for manifest in &manifests {
                let locate = |it: Problem| Located::new(manifest.source(), Some(it.line), it.message);
                definitions::kinds(manifest).map_err(locate)?;
                doubtful.extend(definitions::check(manifest).into_iter().map(locate));
            }
            Ok::<_, Located>(doubtful)
        })?;
        let (mut doubtful, mut unusable) = (Vec::new(), Vec::new());
        for judged in judged {
            match judged {
                Ok(found) => doubtful.extend(found),
                Err(error) => unusable.push(error.into()),
            }
        }
        Ok((doubtful, unusable))
    }

    fn judge(&self, manifest: &Manifest) -> Vec<Finding> {
        let mut finding = Finding::about(manifest);
        finding.errors.extend(identity(manifest));
        // Without a kind and a version there is no schema to judge by.
        let is_known = finding.errors.is_empty() && self.judge_known(&mut finding, manifest);
        let duplicates = manifest.duplicates().into_iter().map(|(field, line)| {
            let message = duplicate_field(&field);
            Problem { kind: ProblemKind::DuplicateField, field, message, value: None, line }
        });
        finding.errors.extend(duplicates);
        finding.status = match (finding.errors.is_empty(), is_known) {
            (false, _) => Verdict::Invalid,
            (true, true) => Verdict::Valid,
            (true, false) => Verdict::MissingSchema,
        };
        // Upstream's `validate` counts the inputs of functions as objects of their own.
        if !self.splits_inputs {
            return vec![finding];
        }
        split::split(finding, manifest, |function, input| self.functions.knows(function, input, &self.kinds))
    }

    /// Judge an object of a kind that is known. Says whether it is.
    fn judge_known(&self, finding: &mut Finding, manifest: &Manifest) -> bool {
        let object = manifest.object();
        let (api_version, kind) = (meta::api_version(object), meta::kind(object));
        let (group, version) = (meta::group(api_version), meta::version(api_version));
        let known = self.kinds.find(group, kind);
        if let Some(resource) = known.and_then(|known| known.resource(version)) {
            finding.errors.extend(custom::check(resource, manifest));
        // After what is given: a CustomResourceDefinition may be of a group that Kubernetes has too.
        } else if let Some(problems) = builtin::check(manifest) {
            finding.errors.extend(problems);
        } else {
            if let Some(known) = known {
                let message = format!(
                    "{kind} ({group}) has no version {version}, only {}",
                    known.versions().join(", ")
                );
                let problem = Problem::new(ProblemKind::MissingSchema, manifest, "apiVersion", message);
                // Of our own kinds all versions are known. A definition that is given may be an old one.
                let is_ours = self.kinds.given(group, kind).is_none();
                if is_ours { &mut finding.errors } else { &mut finding.warnings }.push(problem);
            }
            return false;
        }
        if let Some(known) = known
            && known.definition.versions.iter().any(|it| it.name == version && !it.is_served)
        {
            let message = format!("apiVersion: version {version} of {kind} ({group}) is not served");
            finding.warnings.push(Problem::new(ProblemKind::Schema, manifest, "apiVersion", message));
        }
        finding.errors.extend(definitions::check(manifest));
        pipelines::check(finding, manifest, &self.kinds, &self.functions);
        true
    }
}

/// What an object without identity lacks.
fn identity(manifest: &Manifest) -> Vec<Problem> {
    let problem = |field: &&str| {
        let message = match manifest.object().get(*field) {
            None | Some(Value::Null) => format!("{field}: Required value"),
            Some(Value::String(text)) if text.is_empty() => format!("{field}: Required value"),
            Some(Value::String(_)) => return None,
            Some(other) => format!("{field}: Invalid value: {other}: must be text, not {}", kind_of(other)),
        };
        Some(Problem::new(ProblemKind::Schema, manifest, field, message))
    };
    ["apiVersion", "kind"].iter().filter_map(problem).collect()
}

/// So many documents are checked to find examples. There may be very many composite resources.
const MANY_EXAMPLES: usize = 1000;

/// Whether a document may be a Composition with templates.
fn has_templates(text: &str) -> bool {
    text.contains(INPUT_GROUP) && text.contains("compositeTypeRef")
}

/// Whether a document can define something, or be a package. Only those are read twice.
fn may_matter(text: &str) -> bool {
    ["CustomResourceDefinition", "CompositeResourceDefinition", keys::PKG]
        .iter()
        .any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::kinds::tests::{heavy, withheld};

    #[test]
    fn definitions_that_are_served_share_what_their_patterns_may_cost() {
        let kinds: Vec<_> = (0..8).map(|number| format!("Kind{number}")).collect();
        let definitions: Vec<_> = kinds.iter().map(|kind| heavy(kind, 1, 1)).collect();
        let judge = Judge::of_served(&definitions, BTreeSet::new(), &[]);
        for kind in &kinds {
            assert_eq!(withheld(judge.kinds.given("e.org", kind).unwrap(), "v1", 1), 1, "{kind}");
        }
    }
}
