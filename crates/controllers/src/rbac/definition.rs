//! Gives users rights on what is defined, as far as roles that they have gather them.
//!
//! # Invariants
//! * Roles that are as they should be cost no request.
//! * A role that belongs to somebody else is left alone, and one that gathers others is made once: it is the user's.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, Object, meta};
use ferroplane_client::{Error, Informer, InformerScope, ObjectPath, Propagation, Resource, Subresource};
use ferroplane_engine::{
    adopt_role, chain, cluster_roles, definition_of_role, is_reserved_group, standing_roles,
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
const CONCURRENCY: usize = 4;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Keeps the roles of every definition, until dropped.
pub(crate) async fn run(context: Arc<Context>) {
    let roles = Roles::follow(context);
    let queue = roles.queue.clone();
    roles.informer.synced().await;
    queue.add(Subjects::Everybody);
    queue.work(CONCURRENCY, |subjects| roles.clone().reconcile(subjects)).await;
}

/// For whom there are roles.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subjects {
    /// Those of all definitions.
    Everybody,
    /// Those of one.
    Of(String),
}

struct Roles {
    context: Arc<Context>,
    recorder: Recorder,
    informer: Arc<Informer>,
    queue: Queue<Subjects>,
    standing: Vec<Object>,
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
            context,
        });
        let queue = roles.queue.clone();
        roles.context.definitions.listen(move |_, change| {
            queue.add(Subjects::Of(change.header().metadata.name.to_string()));
        });
        let queue = roles.queue.clone();
        roles.context.kinds.listen(move |_, change| {
            // Rights on a kind come once its definition controls it.
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
                // When it goes, they go with it.
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
        let group = xrd.get("spec").and_then(|spec| spec.get("group")?.as_str()).unwrap_or_default();
        if is_reserved_group(group) {
            return self.withdraw(xrd).await;
        }
        let established = match self.established(xrd, group).await {
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

    /// The names of those kinds of a definition that are its own and established. One whose names are taken is never established: the
    /// rights would be on the kind that has them.
    async fn established(&self, xrd: &Object, group: &str) -> Result<Vec<String>, Error> {
        let mut established = Vec::new();
        for names in ["names", "claimNames"] {
            let plural = xrd.get("spec").and_then(|spec| spec.get(names)?.get("plural")?.as_str());
            let Some(name) = plural.map(|plural| format!("{plural}.{group}")) else { continue };
            let is_its_own = |crd: &Object| meta::controller_uid(crd) == Some(meta::uid(xrd));
            if !self.context.kinds.object("", &name).is_some_and(|crd| is_its_own(&crd)) {
                continue;
            }
            // The cache has metadata alone.
            let resource = definitions();
            let path = ObjectPath { resource: &resource, namespace: "", name: &name };
            let live = self.context.cluster.get_object(path).await?;
            if live.is_some_and(|crd| is_its_own(&crd) && is_established(&crd)) {
                established.push(name);
            }
        }
        Ok(established)
    }

    /// Delete the roles of a definition that may have none. It may be older than that rule.
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

fn outcome(error: &Error) -> Next {
    let is_outrun = error.is_conflict() || error.is_already_exists() || error.is_not_found();
    if is_outrun { Next::Conflict } else { Next::Retry }
}
