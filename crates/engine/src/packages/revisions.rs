//! Decides which revisions a package has, and which of them are active.
//!
//! # Invariants
//! * Names and numbers are those that Crossplane 2.4.0 gives, so that what it installed is not revised anew.
//! * The current revision has the highest number.
//! * A revision is never removed while it is active, nor is the current one.
//! * With the policy `Manual` nobody but users changes what is active.
//! * A function's old revision stays active until a newer one answers, so that no call finds nobody there.

use std::collections::BTreeSet;

use ferroplane_api::{Object, PackageKind, PackageSpec, keys, meta};
use serde_json::{Map, Value, json};

use super::health::is_serving;
use super::names::{friendly_id, revision_id};
use crate::revisions::Foreign;

const ACTIVE: &str = "Active";
const INACTIVE: &str = "Inactive";
/// Which labels of the revision are copies of the package's, so that they go when those do.
const COPIED_LABELS: &str = "ferroplane.io/copied-labels";

/// What a registry says about the image of a package.
#[derive(Debug, Clone, Copy)]
pub struct FetchedPackage<'a> {
    /// The digest of the image in hexadecimal digits, without its algorithm.
    pub digest: &'a str,
}

/// What else decides about revisions.
#[derive(Debug, Clone, Copy, Default)]
pub struct RevisionOptions {
    /// Whether several revisions may be active, each with a certificate of its own, and labels of the package are copied to the current one.
    pub function_revision_selectors: bool,
    /// Whether this plane runs what is in packages of the kind in pods, which need a configuration and certificates.
    pub runs_packages: bool,
    /// Whether revisions say in `RuntimeHealthy` whether what they run answers.
    pub reports_runtime: bool,
}

/// The revisions that a package should have, as far as they are not so already.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PackageRevisions {
    /// The name of the current revision.
    pub current: String,
    /// Whether the current revision is to be active.
    pub is_active: bool,
    /// Revisions that are to be inactive, as they should be. They come first: two that are active at once would
    /// both want what the package brings.
    pub deactivate: Vec<Object>,
    /// The current revision, where it does not exist.
    pub create: Option<Object>,
    /// Revisions as they should be, in place of what they are.
    pub update: Vec<Object>,
    /// The names of revisions that are no longer kept.
    pub delete: Vec<String>,
}

impl PackageRevisions {
    /// Leave these revisions active, though there are more than the limit: a rollout still calls them.
    pub fn keep_active(&mut self, held: &BTreeSet<String>) {
        self.deactivate.retain(|revision| !held.contains(meta::name(revision)));
    }
}

/// What has to be done, given all revisions that say they are of the package.
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

/// The digest that an image was found to have when a revision was made of it. Whoever has a revision need not ask a registry.
pub fn known_digest(image: &str, revisions: &[Object]) -> Option<String> {
    let of_image = revisions.iter().filter(|revision| text(spec_of(revision), "image") == image);
    let digest = meta::annotation(of_image.max_by_key(|revision| number(revision))?, keys::PACKAGE_DIGEST);
    (!digest.is_empty()).then(|| digest.to_owned())
}

/// The keys of the labels that a revision has from its package.
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

    /// What the current revision is called.
    fn current_name(&self, digest: &str) -> String {
        let package = meta::name(self.package);
        // Crossplane before 2.4 named revisions by the digest alone. One that carries what the package asks for stays the
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

    /// What the revision says because the package does. A field that the package does not have goes.
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
            // One that is there stays: the certificate in it is in use. It changes hands when revisions come to have, or lose, their own.
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

    /// Give the revision the labels of its package, and take back those that the package had and lost.
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

    /// The revisions that are active and must not be any more.
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
            // Programs of providers must not run twice, and there is nothing to wait for where nobody answers.
            self.kind != PackageKind::Function
                || !self.options.reports_runtime
                || newer_serves
                || !is_serving(revision)
        });
        excess.map(|revision| with_state(revision, INACTIVE)).collect()
    }

    /// The names of those that are beyond the limit of the history, oldest first.
    fn forgotten(&self, current: &str, deactivated: &[Object]) -> Vec<String> {
        let Some(limit) = self.spec.history_limit() else { return Vec::new() };
        let is_new = !self.revisions.iter().any(|revision| meta::name(revision) == current);
        let count = self.revisions.len() + usize::from(is_new);
        let mut inactive: Vec<&Object> = self
            .revisions
            .iter()
            .filter(|revision| meta::name(revision) != current && desired_state(revision) != ACTIVE)
            // What is deactivated just now has yet to give back what it holds.
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

/// A new revision, which says what it was made of: its tag may lead elsewhere later.
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
