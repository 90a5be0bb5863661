//! Carries out a plan: delete, record references, apply.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::{Error, ObjectHeader, ObjectPath, Propagation, Resource, Subresource, cache_key};
use ferroplane_engine::composite::{COMPOSE, disowning_labels};
use ferroplane_engine::wording::cannot_apply;
use ferroplane_engine::{Deletion, Event, Loss, Plan, Wanted, chain, field_manager, managers_to_keep};
use ferroplane_ownership::{contested, holds};
use futures_util::stream::{self, StreamExt as _};
use serde_json::json;
use tracing::warn;

use super::controller::Controller;
use super::memory::Name;
use super::observe::{ObservedState, resource_of};
use super::problem::{Problem, point_of};
use crate::runtime::refused::cause_of;
use crate::takeover::take_over;

/// How many composed resources of one composite resource are applied at the same time.
const CONCURRENCY: usize = 16;

/// The result of applying a plan.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// Composed resources that the API server refused, by resource name.
    pub(super) unsynced: BTreeSet<String>,
    pub(super) events: Vec<Event>,
    /// Whether anything changed.
    pub(super) has_news: bool,
    /// The versions of the applied resources.
    pub(super) versions: Vec<u64>,
}

/// The result of applying one composed resource.
enum Application {
    /// Nothing had to change.
    Held,
    Written {
        resource: Arc<Resource>,
        bytes: Bytes,
        version: u64,
        /// Fields that other managers had changed.
        losses: Vec<Loss>,
    },
    Refused(Error),
}

impl Controller {
    /// Delete composed resources that are no longer desired. One that cannot be deleted keeps no other alive; the first problem is
    /// reported.
    pub(super) async fn delete_unwanted(
        &self,
        composite: &Object,
        deletions: &[Deletion],
    ) -> Result<bool, Problem> {
        let mut failure = None;
        for deletion in deletions {
            let deleted = self.delete_one(composite, deletion).await;
            failure = failure.or(deleted.err());
        }
        // All references stay then, also that of what could not be deleted.
        failure.map_or(Ok(!deletions.is_empty()), Err)
    }

    /// Delete a composed resource. Its labels of composed resources are removed first.
    async fn delete_one(&self, composite: &Object, deletion: &Deletion) -> Result<(), Problem> {
        let cluster = &self.shared.context.composer;
        let Ok(object) = deletion.object.json() else { return Ok(()) };
        let what = || format!("cannot delete composed resource `{}`", deletion.resource);
        let fail = |error: Error| Problem::refused(COMPOSE, &what(), &error);
        let resource = resource_of(cluster, object).await.map_err(fail)?.ok_or_else(|| {
            let (kind, api_version) = (meta::kind(object), meta::api_version(object));
            let message = format!("{}: there is no kind {kind} in {api_version} any more", what());
            Problem::new(COMPOSE, Cause::ComposedKindUnavailable, message)
        })?;
        let target = path_of(&resource, object);
        if let Some(labels) = disowning_labels(object) {
            // Only this object, and not another one of the same name.
            let patch = json!({"metadata": {"uid": meta::uid(object), "labels": labels}});
            match cluster.merge(target, Subresource::None, &patch).await {
                Ok(bytes) => {
                    self.shared.dependencies.composed(&resource).remove_written(&bytes);
                    let version = ObjectHeader::read(&bytes).map_or(0, |header| header.version());
                    self.memory.note_own_write(&name_of(composite), version);
                }
                Err(error) if !error.is_not_found() => return Err(fail(error)),
                Err(_) => {}
            }
        }
        let uid = meta::uid(object);
        // By its UID: another object of the same name may have been created since it was observed.
        cluster.delete(target, Some(uid), Propagation::Foreground).await.map_err(fail)
    }

    /// Apply all desired resources that are not up to date.
    pub(super) async fn apply_wanted(
        &self,
        composite: &Object,
        plan: &Plan,
        state: &ObservedState,
    ) -> Result<Applied, Problem> {
        let manager = field_manager(composite);
        let mut applications = Vec::with_capacity(plan.apply.len());
        for wanted in &plan.apply {
            let observed =
                state.observed.get(&wanted.resource).and_then(|observed| observed.object.json().ok());
            let application = self.apply_one(wanted, observed, &manager);
            applications.push(async move { (wanted, application.await) });
        }
        let mut applying = stream::iter(applications).buffer_unordered(CONCURRENCY);
        let mut applied = Applied::default();
        let mut failure = None;
        let mut losses = Vec::new();
        while let Some((wanted, result)) = applying.next().await {
            match result {
                Ok(Application::Held) => {}
                Ok(Application::Written { resource, bytes, version, losses: lost }) => {
                    losses.extend(lost);
                    self.shared.dependencies.composed(&resource).insert_written(&bytes);
                    self.memory.note_own_write(&name_of(composite), version);
                    applied.has_news = true;
                    applied.versions.push(version);
                }
                Ok(Application::Refused(error)) => {
                    let message =
                        format!("{}: {}", cannot_apply(&wanted.resource, &wanted.step), chain(&error));
                    let failure = point_of(cause_of(&error), wanted);
                    applied.events.push(Event::failure(COMPOSE, message, failure));
                    applied.unsynced.insert(wanted.resource.clone());
                }
                // The others are applied all the same: they do not depend on the one that failed. The first problem
                // is reported.
                Err(problem) => failure = failure.or(Some(problem)),
            }
        }
        applied.events.extend(self.note_losses(composite, losses));
        match failure {
            Some(problem) => Err(problem),
            None => Ok(applied),
        }
    }

    /// Record fields that other managers had changed. Returns the events about fights.
    fn note_losses(&self, composite: &Object, losses: Vec<Loss>) -> Vec<Event> {
        let name = name_of(composite);
        let events = self.memory.lose_fields(&name, losses);
        for event in &events {
            warn!(
                kind = meta::kind(composite),
                namespace = meta::namespace(composite),
                name = meta::name(composite),
                problem = event.message,
                "another field manager keeps changing a composed resource"
            );
        }
        events
    }

    /// Release fields that Crossplane wrote by updates. Returns the result if there were any.
    async fn take_over(&self, wanted: &Wanted, observed: &Object) -> Result<Option<Object>, Problem> {
        let cluster = &self.shared.context.composer;
        let fail = |error: Error| {
            let what = format!("cannot take over composed resource `{}`", wanted.resource);
            Problem::refused(COMPOSE, &what, &error)
        };
        let is_ours = |manager: &str| manager.starts_with(keys::COMPOSED_MANAGER_PREFIX);
        if managers_to_keep(observed, is_ours).is_none() {
            return Ok(None);
        }
        let Some(resource) = resource_of(cluster, observed).await.map_err(fail)? else { return Ok(None) };
        let taken_over =
            take_over(cluster, path_of(&resource, observed), observed, is_ours).await.map_err(fail)?;
        Ok(taken_over.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    async fn resource_to_apply(&self, wanted: &Wanted) -> Result<Arc<Resource>, Problem> {
        let what = || cannot_apply(&wanted.resource, &wanted.step);
        let found = resource_of(&self.shared.context.composer, &wanted.object).await;
        found.map_err(|error| Problem::refused(COMPOSE, &what(), &error))?.ok_or_else(|| {
            let (kind, api_version) = (meta::kind(&wanted.object), meta::api_version(&wanted.object));
            let message = format!("{}: there is no kind {kind} in {api_version}: is it installed?", what());
            Problem::new(COMPOSE, Cause::ComposedKindUnavailable, message).about(wanted)
        })
    }

    async fn apply_one(
        &self,
        wanted: &Wanted,
        observed: Option<&Object>,
        manager: &str,
    ) -> Result<Application, Problem> {
        let taken_over = match observed {
            Some(observed) => self.take_over(wanted, observed).await?,
            None => None,
        };
        let observed = taken_over.as_ref().or(observed);
        if taken_over.is_none()
            && observed.is_some_and(|observed| holds(&wanted.object, observed, manager, ""))
        {
            return Ok(Application::Held);
        }
        let cluster = &self.shared.context.composer;
        let what = || cannot_apply(&wanted.resource, &wanted.step);
        let resource = self.resource_to_apply(wanted).await?;
        // From now on it is watched, so that no change is missed.
        self.shared.dependencies.composed(&resource);
        let target = path_of(&resource, &wanted.object);
        match cluster.apply(target, Subresource::None, manager, &wanted.object).await {
            Ok(bytes) => {
                let version = ObjectHeader::read(&bytes).map_or(0, |header| header.version());
                let before = observed.map(meta::resource_version).and_then(|version| version.parse().ok());
                // The API server returns the same version if nothing changed.
                if before == Some(version) && taken_over.is_none() {
                    return Ok(Application::Held);
                }
                let losses = observed.map(|observed| losses(&wanted.object, observed, manager));
                Ok(Application::Written { resource, bytes, version, losses: losses.unwrap_or_default() })
            }
            // A refusal that is final concerns this resource alone. Any other error may pass, and ends the round to
            // be tried again.
            Err(error) if error.is_invalid() => Ok(Application::Refused(error)),
            Err(error) => {
                // Only now: checking rights costs a request.
                let mut denied = None;
                if error.is_forbidden() {
                    denied = self.denied(&resource, meta::namespace(&wanted.object)).await;
                }
                Err(Problem::refused(COMPOSE, &what(), &error).about(wanted).with_denial(denied))
            }
        }
    }
}

/// The key of a composite resource.
pub(super) fn name_of(composite: &Object) -> Name {
    cache_key(meta::namespace(composite), meta::name(composite)).into()
}

/// The desired fields that other managers have changed.
fn losses(wanted: &Object, observed: &Object, manager: &str) -> Vec<Loss> {
    let (kind, namespace, name) = (meta::kind(observed), meta::namespace(observed), meta::name(observed));
    let object = match namespace {
        "" => format!("{kind} `{name}`"),
        namespace => format!("{kind} `{namespace}/{name}`"),
    };
    let lost = contested(wanted, observed, manager).into_iter();
    lost.map(|lost| Loss { object: object.clone(), field: lost.path, manager: lost.manager }).collect()
}

fn path_of<'a>(resource: &'a Resource, object: &'a Object) -> ObjectPath<'a> {
    ObjectPath { resource, namespace: meta::namespace(object), name: meta::name(object) }
}
