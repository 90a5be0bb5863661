//! Decides which revisions a package has, and which of them are active.
//!
//! # Invariants
//! * Names and numbers are those of Crossplane 2.4.0, so that packages that it installed get no new revisions.
//! * The current revision has the highest number.
//! * A revision is never deleted while it is active, nor is the current one.
//! * With the policy `Manual` only users change which revisions are active.
//! * A function's old revision stays active until a newer one responds, so that no call fails in between.

use std::collections::BTreeSet;

use ferroplane_api::{Object, PackageKind, PackageSpec, keys, meta};
use serde_json::{Map, Value, json};

use super::health::is_serving;
use super::names::{friendly_id, revision_id};
use crate::revisions::Foreign;

const ACTIVE: &str = "Active";
const INACTIVE: &str = "Inactive";
/// Which labels of the revision are copies of the package's, so that they are removed with those.
const COPIED_LABELS: &str = "ferroplane.io/copied-labels";

/// The image of a package, as the registry has it.
#[derive(Debug, Clone, Copy)]
pub struct FetchedPackage<'a> {
    /// The digest of the image in hexadecimal digits, without its algorithm.
    pub digest: &'a str,
}

/// Settings that decide about revisions.
#[derive(Debug, Clone, Copy, Default)]
pub struct RevisionOptions {
    /// Whether several revisions may be active, each with a certificate of its own. The current one then gets the labels of the package.
    pub function_revision_selectors: bool,
    /// Whether this plane runs packages of the kind in pods, which need a configuration and certificates.
    pub runs_packages: bool,
    /// Whether revisions report in `RuntimeHealthy` whether their program responds.
    pub reports_runtime: bool,
}

/// The changes to the revisions of a package.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PackageRevisions {
    /// The name of the current revision.
    pub current: String,
    /// Whether the current revision is to be active.
    pub is_active: bool,
    /// Revisions to deactivate. They come first: two active ones would both control the objects of the package.
    pub deactivate: Vec<Object>,
    /// The current revision, if it does not exist.
    pub create: Option<Object>,
    /// Revisions to update.
    pub update: Vec<Object>,
    /// The names of revisions to delete.
    pub delete: Vec<String>,
}

impl PackageRevisions {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        let Self { deactivate, create, update, delete, .. } = self;
        deactivate.is_empty() && create.is_none() && update.is_empty() && delete.is_empty()
    }

    /// Leave these revisions active, beyond the limit: a rollout still calls them.
    pub fn keep_active(&mut self, held: &BTreeSet<String>) {
        self.deactivate.retain(|revision| !held.contains(meta::name(revision)));
    }
}

/// The changes, given all revisions of the package.
pub fn plan_package_revisions(
    kind: PackageKind,
    package: &Object,
    revisions: &[Object],
    fetched: FetchedPackage<'_>,
    options: RevisionOptions,
) -> Result<PackageRevisions, Foreign> {
    if let Some(foreign) = revisions.iter().find_map(|revision| Foreign::of(revision, package)) {
        return Err(foreign);
    }
    let planner = Planner { kind, package, spec: PackageSpec::of(package), revisions, options };
    Ok(planner.plan(fetched))
}

/// The digest that an image had when a revision was made of it: with a revision, no registry has to be asked.
pub fn known_digest(image: &str, revisions: &[Object]) -> Option<String> {
    let of_image = revisions.iter().filter(|revision| text(spec_of(revision), "image") == image);
    let digest = meta::annotation(of_image.max_by_key(|revision| number(revision))?, keys::PACKAGE_DIGEST);
    (!digest.is_empty()).then(|| digest.to_owned())
}

/// The keys of the labels that a revision copied from its package.
pub fn copied_labels(revision: &Object) -> BTreeSet<String> {
    let keys = meta::annotation(revision, COPIED_LABELS).split(',').filter(|key| !key.is_empty());
    keys.map(str::to_owned).collect()
}

struct Planner<'a> {
    kind: PackageKind,
    package: &'a Object,
    spec: PackageSpec,
    revisions: &'a [Object],
    options: RevisionOptions,
}

impl Planner<'_> {
    fn plan(&self, fetched: FetchedPackage<'_>) -> PackageRevisions {
        let name = self.current_name(fetched.digest);
        let existing = self.revisions.iter().find(|revision| meta::name(revision) == name);
        let current = self.current(&name, existing);
        let deactivate = self.deactivated(&current);
        let is_active = desired_state(&current) == ACTIVE;
        let is_changed = existing.is_some_and(|existing| *existing != current);
        let delete = self.forgotten(&name, &deactivate);
        let (create, update) = match existing {
            None => (Some(noted(current, fetched)), Vec::new()),
            Some(_) => (None, is_changed.then_some(current).into_iter().collect()),
        };
        PackageRevisions { current: name, is_active, deactivate, create, update, delete }
    }

    /// The name of the current revision.
    fn current_name(&self, digest: &str) -> String {
        let package = meta::name(self.package);
        // Crossplane before 2.4 named revisions by the digest alone. One with the image of the package stays the
        // current one: a new one would restart everything for nothing.
        let former = friendly_id(package, digest);
        let latest = self.revisions.iter().max_by_key(|revision| number(revision));
        let is_current = |revision: &&Object| {
            meta::name(revision) == former && text(spec_of(revision), "image") == self.spec.package
        };
        if latest.as_ref().is_some_and(is_current) {
            return former;
        }
        friendly_id(package, &revision_id(digest, meta::generation(self.package)))
    }

    /// The current revision as it should be.
    fn current(&self, name: &str, existing: Option<&Object>) -> Object {
        let mut revision = existing.cloned().unwrap_or_else(|| new_revision(self.kind, name));
        let latest = self.revisions.iter().map(number).max().unwrap_or_default();
        let is_overtaken = |other: &Object| {
            meta::name(other) != name && existing.is_some_and(|existing| number(other) >= number(existing))
        };
        let spec = meta::child(&mut revision, "spec");
        if existing.is_none() || self.revisions.iter().any(is_overtaken) {
            spec.insert("revision".to_owned(), (latest + 1).into());
        }
        self.copy_spec(spec, name);
        if self.spec.is_automatic() {
            spec.insert("desiredState".to_owned(), ACTIVE.into());
        } else if !spec.contains_key("desiredState") {
            // Crossplane leaves the state empty here, and half of its code takes that for active.
            spec.insert("desiredState".to_owned(), INACTIVE.into());
        }
        if self.options.function_revision_selectors && self.kind == PackageKind::Function {
            self.copy_labels(&mut revision);
        }
        meta::set_label(&mut revision, keys::PACKAGE, meta::name(self.package));
        meta::set_controller(&mut revision, self.package);
        revision
    }

    /// Copy fields from the package. A field that the package does not have is removed.
    fn copy_spec(&self, spec: &mut Object, revision: &str) {
        spec.insert("image".to_owned(), self.spec.package.clone().into());
        let mut fields = vec![
            "packagePullPolicy",
            "packagePullSecrets",
            "ignoreCrossplaneConstraints",
            "skipDependencyResolution",
            "commonLabels",
            "commonAnnotations",
        ];
        if self.kind.has_runtime() && self.options.runs_packages {
            fields.push("runtimeConfigRef");
        }
        let package = spec_of(self.package);
        for field in fields {
            match package.and_then(|package| package.get(field)) {
                Some(value) if !value.is_null() => spec.insert(field.to_owned(), value.clone()),
                _ => spec.remove(field),
            };
        }
        if self.kind.has_runtime() && self.options.runs_packages {
            self.name_secrets(spec, revision);
        }
    }

    fn name_secrets(&self, spec: &mut Object, revision: &str) {
        let package = meta::name(self.package);
        let is_per_revision = self.options.function_revision_selectors && self.kind == PackageKind::Function;
        let (owner, other) = if is_per_revision { (revision, package) } else { (package, revision) };
        let mut name = |field: &str, suffix: &str| {
            // An existing name stays: the certificate in it is in use. It changes when revisions get certificates
            // of their own, or lose them.
            let present = text(Some(&*spec), field);
            if present.is_empty() || present == secret_name(other, suffix) {
                spec.insert(field.to_owned(), secret_name(owner, suffix).into());
            }
        };
        name("tlsServerSecretName", "-tls-server");
        if self.kind == PackageKind::Provider {
            name("tlsClientSecretName", "-tls-client");
        }
    }

    /// Copy the labels of the package, and remove those that the package no longer has.
    fn copy_labels(&self, revision: &mut Object) {
        let labels = |object: &Object| {
            let labels = object.get("metadata").and_then(|metadata| metadata.get("labels")?.as_object());
            labels.cloned().unwrap_or_default()
        };
        let wanted = labels(self.package);
        let former = copied_labels(revision);
        let present = meta::child(meta::child(revision, "metadata"), "labels");
        for key in former.iter().filter(|key| !wanted.contains_key(*key)) {
            present.remove(key);
        }
        for (key, value) in &wanted {
            present.insert(key.clone(), value.clone());
        }
        if wanted.is_empty() && former.is_empty() {
            return;
        }
        // Keys of labels contain no comma.
        let copied: Vec<&str> = wanted.keys().map(String::as_str).collect();
        meta::set_annotation(revision, COPIED_LABELS, &copied.join(","));
    }

    /// The revisions to deactivate.
    fn deactivated(&self, current: &Object) -> Vec<Object> {
        if !self.spec.is_automatic() {
            return Vec::new();
        }
        let limit = match (self.kind, self.options.function_revision_selectors) {
            (PackageKind::Function, true) => self.spec.active_limit(),
            _ => 1,
        };
        let name = meta::name(current);
        let mut others: Vec<&Object> = self
            .revisions
            .iter()
            .filter(|revision| meta::name(revision) != name && desired_state(revision) == ACTIVE)
            .collect();
        // The current one is active and counts.
        others.sort_by_key(|revision| std::cmp::Reverse((number(revision), meta::name(revision).to_owned())));
        let kept = limit - 1;
        let newer_serves =
            is_serving(current) || others.iter().take(kept).any(|revision| is_serving(revision));
        let excess = others.into_iter().skip(kept).filter(|revision| {
            // Programs of providers must not run twice; and if no program responds, there is nothing to wait for.
            self.kind != PackageKind::Function
                || !self.options.reports_runtime
                || newer_serves
                || !is_serving(revision)
        });
        excess.map(|revision| with_state(revision, INACTIVE)).collect()
    }

    /// The names of revisions beyond the history limit, oldest first.
    fn forgotten(&self, current: &str, deactivated: &[Object]) -> Vec<String> {
        let Some(limit) = self.spec.history_limit() else { return Vec::new() };
        let is_new = !self.revisions.iter().any(|revision| meta::name(revision) == current);
        let count = self.revisions.len() + usize::from(is_new);
        let mut inactive: Vec<&Object> = self
            .revisions
            .iter()
            .filter(|revision| meta::name(revision) != current && desired_state(revision) != ACTIVE)
            // A revision that is being deactivated still has to release its objects.
            .filter(|revision| deactivated.iter().all(|other| meta::name(other) != meta::name(revision)))
            .collect();
        inactive.sort_by_key(|revision| (number(revision), meta::name(revision).to_owned()));
        let excess = count.saturating_sub(limit + 1);
        inactive.into_iter().take(excess).map(|revision| meta::name(revision).to_owned()).collect()
    }
}

/// The name of a Secret, as long as the name of an object may be.
fn secret_name(owner: &str, suffix: &str) -> String {
    let room = 253 - suffix.len();
    format!("{}{suffix}", &owner[..owner.floor_char_boundary(room)])
}

fn new_revision(kind: PackageKind, name: &str) -> Object {
    let mut revision = Map::from_iter([
        ("apiVersion".to_owned(), json!(format!("{}/v1", keys::PKG))),
        ("kind".to_owned(), json!(kind.revision())),
    ]);
    meta::set_field(&mut revision, "name", name);
    revision
}

/// A new revision with the image that it was made of: the tag may move later.
fn noted(mut revision: Object, fetched: FetchedPackage<'_>) -> Object {
    meta::set_annotation(&mut revision, keys::PACKAGE_DIGEST, &format!("sha256:{}", fetched.digest));
    revision
}

fn with_state(revision: &Object, state: &str) -> Object {
    let mut revision = revision.clone();
    meta::child(&mut revision, "spec").insert("desiredState".to_owned(), state.into());
    revision
}

fn desired_state(revision: &Object) -> &str {
    text(spec_of(revision), "desiredState")
}

fn number(revision: &Object) -> i64 {
    spec_of(revision).and_then(|spec| spec.get("revision")?.as_i64()).unwrap_or_default()
}

fn spec_of(object: &Object) -> Option<&Object> {
    object.get("spec").and_then(Value::as_object)
}

fn text<'a>(object: Option<&'a Object>, field: &str) -> &'a str {
    object.and_then(|object| object.get(field)?.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
