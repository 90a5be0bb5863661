//! Gives users rights on defined kinds, through roles that their own roles aggregate.
//!
//! # Invariants
//! * Roles that are up to date cost no request: a kind that was read stays valid until its metadata, which is watched, changes.
//! * No role is written from cached kinds. They are read again before.
//! * A role with another controller is left alone, and one that aggregates others is created once: it is the user's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Cause, Object, meta};
use ferroplane_client::{Error, Informer, InformerScope, ObjectPath, Propagation, Resource, Subresource};
use ferroplane_engine::{
    adopt_role, chain, cluster_roles, defined_group, definition_of_role, is_reserved_group, standing_roles,
};
use tracing::warn;

use crate::context::Context;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};
use crate::runtime::refused::cause_of;
use crate::setup::install::{definitions, is_established};

const CONTROLLER: &str = "rbac/compositeresourcedefinition.apiextensions.crossplane.io";
const REASON: &str = "ApplyClusterRoles";
const CONCURRENCY: usize = 16;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Maintain the roles of every definition, until dropped.
pub(crate) async fn run(context: Arc<Context>) {
    let roles = Roles::follow(context);
    let queue = roles.queue.clone();
    roles.informer.synced().await;
    queue.add(Subjects::Everybody);
    queue.work(CONCURRENCY, |subjects| roles.clone().reconcile(subjects)).await;
}

/// The owner of roles.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subjects {
    /// The roles of all definitions.
    Everybody,
    /// The roles of one definition.
    Of(String),
}

struct Roles {
    context: Arc<Context>,
    recorder: Recorder,
    informer: Arc<Informer>,
    queue: Queue<Subjects>,
    standing: Vec<Object>,
    /// Kinds of definitions as they were read, by name. The cache has their metadata only.
    kinds: Mutex<HashMap<String, ReadKind>>,
}

/// A kind in the version in which it was read, and whether it was established.
struct ReadKind {
    uid: String,
    resource_version: String,
    is_established: bool,
}

impl ReadKind {
    fn new(crd: &Object) -> Self {
        Self {
            uid: meta::uid(crd).to_owned(),
            resource_version: meta::resource_version(crd).to_owned(),
            is_established: is_established(crd),
        }
    }

    fn is_of(&self, metadata: &Object) -> bool {
        self.uid == meta::uid(metadata) && self.resource_version == meta::resource_version(metadata)
    }
}

impl Drop for Roles {
    fn drop(&mut self) {
        self.informer.stop();
    }
}

impl Roles {
    fn follow(context: Arc<Context>) -> Arc<Self> {
        let resource = Resource {
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: "ClusterRole".to_owned(),
            plural: "clusterroles".to_owned(),
            is_namespaced: false,
        };
        let scope = InformerScope::new(resource.into());
        let roles = Arc::new(Self {
            recorder: context.recorder.of(CONTROLLER),
            informer: Informer::start(context.cluster.clone(), scope),
            queue: context.queue(LONGEST_PAUSE, CONTROLLER),
            standing: standing_roles(),
            kinds: Mutex::default(),
            context,
        });
        let queue = roles.queue.clone();
        roles.context.definitions.listen(move |_, change| {
            queue.add(Subjects::Of(change.header().metadata.name.to_string()));
        });
        let queue = roles.queue.clone();
        roles.context.kinds.listen(move |_, change| {
            // Rights on a kind are granted once its definition controls it.
            for owner in change.header().metadata.owner_references.iter().flatten() {
                if owner.kind == "CompositeResourceDefinition" {
                    queue.add(Subjects::Of(owner.name.to_string()));
                }
            }
        });
        let follower = Arc::downgrade(&roles);
        roles.informer.listen(move |_, change| {
            if let Some(roles) = follower.upgrade() {
                roles.changed(&change.header().metadata.name);
            }
        });
        roles
    }

    fn changed(&self, role: &str) {
        if let Some(definition) = definition_of_role(role) {
            self.queue.add(Subjects::Of(definition.to_owned()));
        } else if self.standing.iter().any(|standing| meta::name(standing) == role) {
            self.queue.add(Subjects::Everybody);
        }
    }

    async fn reconcile(self: Arc<Self>, subjects: Subjects) -> Next {
        match subjects {
            Subjects::Everybody => self.keep_standing().await,
            Subjects::Of(definition) => match self.context.definitions.object("", &definition) {
                // Garbage collection deletes them with the definition.
                Some(xrd) if !meta::is_being_deleted(&xrd) => {
                    cause_of_writes(&xrd).scope(self.keep(&xrd)).await
                }
                _ => Next::Rest,
            },
        }
    }

    async fn keep_standing(&self) -> Next {
        for role in &self.standing {
            if self.informer.get("", meta::name(role)).is_some() {
                continue;
            }
            if let Err(error) = self.create(role).await {
                let words = chain(&error);
                warn!(role = meta::name(role), error = words, "cannot create an aggregated role");
                return outcome(&error);
            }
        }
        Next::Rest
    }

    async fn keep(&self, xrd: &Object) -> Next {
        if is_reserved_group(defined_group(xrd)) {
            return self.withdraw(xrd).await;
        }
        if self.are_kept(xrd) {
            return Next::Rest;
        }
        let established = match self.established(xrd).await {
            Ok(established) => established,
            Err(error) => return self.complain(xrd, "read a CustomResourceDefinition", &error),
        };
        for role in cluster_roles(xrd, |crd| established.iter().any(|name| name == crd)) {
            let Some(present) = self.informer.object("", meta::name(&role)) else {
                if let Err(error) = self.create(&role).await {
                    return self.complain(xrd, "write a ClusterRole", &error);
                }
                continue;
            };
            let wanted = match adopt_role(&present, &role) {
                Ok(wanted) => wanted,
                Err(theirs) => {
                    let message = format!("cannot update a ClusterRole: {theirs}");
                    self.recorder.failure(xrd, REASON, message, Cause::ObjectControlled);
                    continue;
                }
            };
            if wanted != present
                && let Err(error) = self.replace(&wanted).await
            {
                return self.complain(xrd, "write a ClusterRole", &error);
            }
        }
        Next::Rest
    }

    /// The names of the kinds of a definition that it controls and that are established. One whose names are taken is never established:
    /// the rights would be on the kind that has them.
    async fn established(&self, xrd: &Object) -> Result<Vec<String>, Error> {
        let mut established = Vec::new();
        for (name, _) in self.own_kinds(xrd) {
            let resource = definitions();
            let path = ObjectPath { resource: &resource, namespace: "", name: &name };
            let Some(live) = self.context.cluster.get_object(path).await? else { continue };
            let read = ReadKind::new(&live);
            if controls(xrd, &live) && read.is_established {
                established.push(name.clone());
            }
            self.kinds.lock().unwrap_or_else(PoisonError::into_inner).insert(name, read);
        }
        Ok(established)
    }

    /// Whether all roles of a definition are up to date, as far as that is known without a request.
    fn are_kept(&self, xrd: &Object) -> bool {
        let Some(established) = self.established_before(xrd) else { return false };
        let roles = cluster_roles(xrd, |crd| established.iter().any(|name| name == crd));
        roles.iter().all(|role| {
            let present = self.informer.object("", meta::name(role));
            present.is_some_and(|present| adopt_role(&present, role).is_ok_and(|wanted| wanted == present))
        })
    }

    /// The same as [`Roles::established`], if all kinds are in the version in which they were read before.
    fn established_before(&self, xrd: &Object) -> Option<Vec<String>> {
        let own_kinds = self.own_kinds(xrd);
        let read = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut established = Vec::new();
        for (name, metadata) in own_kinds {
            let known = read.get(&name).filter(|known| known.is_of(&metadata))?;
            if known.is_established {
                established.push(name);
            }
        }
        Some(established)
    }

    /// The kinds that a definition controls, by name, from the cache.
    fn own_kinds(&self, xrd: &Object) -> Vec<(String, Object)> {
        let group = defined_group(xrd);
        let plurals = ["names", "claimNames"].into_iter().filter_map(|names| {
            let plural = xrd.get("spec")?.get(names)?.get("plural")?.as_str()?;
            Some(format!("{plural}.{group}"))
        });
        let found = plurals.filter_map(|name| {
            let crd = self.context.kinds.object("", &name).filter(|crd| controls(xrd, crd))?;
            Some((name, crd))
        });
        found.collect()
    }

    /// Delete the roles of a definition in a reserved group. It may be older than that rule.
    async fn withdraw(&self, xrd: &Object) -> Next {
        for role in cluster_roles(xrd, |_| true) {
            let name = meta::name(&role);
            let present = self.informer.object("", name);
            let is_its_own = |role: &Object| meta::controller_uid(role) == Some(meta::uid(xrd));
            let Some(present) = present.filter(is_its_own) else { continue };
            let path = ObjectPath { resource: self.informer.resource(), namespace: "", name };
            let uid = Some(meta::uid(&present));
            if let Err(error) = self.context.cluster.delete(path, uid, Propagation::Background).await {
                return self.complain(xrd, "delete a ClusterRole", &error);
            }
        }
        Next::Rest
    }

    async fn create(&self, role: &Object) -> Result<(), Error> {
        let written = self.context.cluster.create(self.informer.resource(), "", role).await?;
        self.informer.insert_written(&written);
        Ok(())
    }

    async fn replace(&self, role: &Object) -> Result<(), Error> {
        let path = ObjectPath { resource: self.informer.resource(), namespace: "", name: meta::name(role) };
        let written = self.context.cluster.replace(path, Subresource::None, role).await?;
        self.informer.insert_written(&written);
        Ok(())
    }

    fn complain(&self, xrd: &Object, doing: &str, error: &Error) -> Next {
        let next = outcome(error);
        if next != Next::Conflict {
            let message = format!("cannot {doing}: {}", chain(error));
            self.recorder.failure(xrd, REASON, message, cause_of(error));
        }
        next
    }
}

fn controls(xrd: &Object, crd: &Object) -> bool {
    meta::controller_uid(crd) == Some(meta::uid(xrd))
}

fn outcome(error: &Error) -> Next {
    let is_outrun = error.is_conflict() || error.is_already_exists() || error.is_not_found();
    if is_outrun { Next::Conflict } else { Next::Retry }
}
