//! Definitions: the kinds that manifests define, and what is wrong with them.

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::{claim_definition, composite_definition, referenceable_version};
use ferroplane_schema::structural::crd;
use serde_json::Value;

use super::finding::{Problem, ProblemKind};
use super::kinds::Known;
use crate::manifest::Manifest;

const CRD_GROUP: &str = "apiextensions.k8s.io";

/// What defines kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defines {
    Custom,
    Composite,
}

/// Whether and what an object defines.
pub(super) fn defines(object: &Object) -> Option<Defines> {
    let api_version = meta::api_version(object);
    match (meta::group(api_version), meta::version(api_version), meta::kind(object)) {
        (CRD_GROUP, "v1", "CustomResourceDefinition") => Some(Defines::Custom),
        (keys::APIEXTENSIONS, "v1" | "v2", "CompositeResourceDefinition") => Some(Defines::Composite),
        _ => None,
    }
}

/// The kinds that an object defines, or why it defines none.
pub(super) fn kinds(manifest: &Manifest) -> Result<Vec<Known>, Problem> {
    let object = manifest.object();
    let derived = derive(manifest)?;
    let referenceable = match defines(object) {
        Some(Defines::Composite) => referenceable(object),
        _ => None,
    };
    let mut known = Vec::new();
    for (index, definition) in derived.into_iter().enumerate() {
        // Compositions are for composite resources, never for claims.
        let referenceable = referenceable.clone().filter(|_| index == 0);
        known.push(Known::read(definition, referenceable).map_err(|error| unreadable(manifest, &error))?);
    }
    Ok(known)
}

/// The same of an object that an API server has accepted. None if it defines nothing.
pub(super) fn kinds_of_object(object: &Object) -> Option<Vec<Known>> {
    match defines(object)? {
        Defines::Custom => Some(vec![Known::read(object.clone(), None).ok()?]),
        Defines::Composite => kinds(&Manifest::of(object)?).ok(),
    }
}

/// What is wrong with what an object defines.
pub(super) fn check(manifest: &Manifest) -> Vec<Problem> {
    let definitions = match derive(manifest) {
        Ok(definitions) => definitions,
        Err(problem) => return vec![problem],
    };
    let is_derived = defines(manifest.object()) == Some(Defines::Composite);
    // What Kubernetes calls the storage version is the referenceable one: it is reported once, with the field that
    // the user wrote.
    let unreferenceable = referenceable_version(manifest.object()).err().filter(|_| is_derived);
    let mut problems: Vec<Problem> = Vec::new();
    problems.extend(
        unreferenceable
            .iter()
            .map(|error| Problem::new(ProblemKind::Definition, manifest, &error.field, error.to_string())),
    );
    for mut definition in definitions {
        crd::default(&mut definition);
        let definition = match crd::Definition::decode(&definition) {
            Ok(definition) => definition,
            Err(error) => {
                problems.push(unreadable(manifest, &error));
                break;
            }
        };
        for error in crd::validate(&definition) {
            if unreferenceable.is_some() && error.detail.contains("storage version") {
                continue;
            }
            // What is derived has no status that anybody wrote.
            if is_derived && error.field.starts_with("status.") {
                continue;
            }
            let mut problem = Problem::of(ProblemKind::Definition, manifest, &error);
            let place = place(&error.field);
            problem.line = manifest.line_at(&place);
            // A user who writes a definition of composite resources has never heard of what it becomes.
            if is_derived {
                problem.message = problem.message.replacen(&error.field, &place, 1);
                problem.field = place;
            }
            // Whatever is wrong with composite resources is wrong with their claims, too.
            if !problems.iter().any(|known| known.message == problem.message) {
                problems.push(problem);
            }
        }
    }
    problems
}

fn derive(manifest: &Manifest) -> Result<Vec<Object>, Problem> {
    let object = manifest.object();
    let mut definitions = match defines(object) {
        None => Vec::new(),
        Some(Defines::Custom) => vec![object.clone()],
        Some(Defines::Composite) => {
            let mistake = |error: ferroplane_engine::Underivable| {
                Problem::new(ProblemKind::Definition, manifest, &error.field, error.to_string())
            };
            let composite = composite_definition(object).map_err(mistake)?;
            [Some(composite), claim_definition(object).map_err(mistake)?].into_iter().flatten().collect()
        }
    };
    for definition in &mut definitions {
        // The owner of what is derived has no identity yet, and its own metadata is checked elsewhere.
        if let Some(Value::Object(metadata)) = definition.get_mut("metadata") {
            metadata.retain(|field, _| {
                !["ownerReferences", "namespace", "generateName"].contains(&field.as_str())
            });
        }
    }
    Ok(definitions)
}

fn unreadable(manifest: &Manifest, error: &impl ToString) -> Problem {
    Problem::new(ProblemKind::Definition, manifest, "spec.versions", error.to_string())
}

/// The version that compositions are for. Of several, the last one counts.
fn referenceable(xrd: &Object) -> Option<String> {
    let versions = xrd.get("spec")?.get("versions")?.as_array()?;
    let version = versions.iter().rev().find(|version| version["referenceable"] == true)?;
    Some(version.get("name")?.as_str()?.to_owned())
}

/// Where a field of Kubernetes' internal form is recorded. What all versions have in common is at the top there.
fn place(field: &str) -> String {
    for (internal, written) in [
        ("spec.validation.", "spec.versions[0].schema."),
        ("spec.subresources", "spec.versions[0].subresources"),
        ("spec.additionalPrinterColumns", "spec.versions[0].additionalPrinterColumns"),
        ("spec.selectableFields", "spec.versions[0].selectableFields"),
    ] {
        if let Some(rest) = field.strip_prefix(internal) {
            return format!("{written}{rest}");
        }
    }
    field.to_owned()
}
