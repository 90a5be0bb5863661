//! Gives providers rights on their kinds, and writes roles that users' roles aggregate, in the place of Crossplane's RBAC manager.
//!
//! # Invariants
//! * A provider gains rights on kinds that it, or a provider of its family, owns, and on no others.
//! * Roles and bindings that are up to date cost no request, and those with another controller are left alone.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, Object, PackageKind, meta};
use ferroplane_client::{Change, Error, Informer, InformerScope, ObjectPath, Subresource};
use ferroplane_engine::packages::{
    DefinedResource, defined_resources, provider_binding, provider_roles, revision_of_role,
    share_organization,
};
use ferroplane_engine::{adopt_role, chain, is_reserved_group};

use super::{Manager, cluster_scoped, status};
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};
use crate::runtime::refused::cause_of;

const CONTROLLER: &str = "rbac/providerrevision.pkg.crossplane.io";
const CONCURRENCY: usize = 8;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// On revisions: the family of their package.
const FAMILY: &str = "pkg.crossplane.io/provider-family";

/// Keeps the roles of all providers, until dropped.
pub(super) async fn run(manager: Arc<Manager>) {
    let roles = Arc::new(ProviderRoles::follow(manager));
    roles.roles.synced().await;
    roles.bindings.synced().await;
    roles.listen();
    roles.queue.work(CONCURRENCY, |name| roles.clone().reconcile(name)).await;
}

struct ProviderRoles {
    manager: Arc<Manager>,
    recorder: Recorder,
    queue: Queue<String>,
    roles: Arc<Informer>,
    bindings: Arc<Informer>,
}

impl Drop for ProviderRoles {
    fn drop(&mut self) {
        self.roles.stop();
        self.bindings.stop();
    }
}

impl ProviderRoles {
    fn follow(manager: Arc<Manager>) -> Self {
        let follow = |kind: &str, plural: &str| {
            let resource = cluster_scoped("rbac.authorization.k8s.io/v1", kind, plural);
            Informer::start(manager.context.cluster.clone(), InformerScope::new(resource.into()))
        };
        Self {
            roles: follow("ClusterRole", "clusterroles"),
            bindings: follow("ClusterRoleBinding", "clusterrolebindings"),
            recorder: manager.context.recorder.of(CONTROLLER),
            queue: manager.context.queue(LONGEST_PAUSE, CONTROLLER),
            manager,
        }
    }

    fn revisions(&self) -> &Arc<Informer> {
        &self.manager.caches.of(PackageKind::Provider).revisions
    }

    fn listen(&self) {
        for informer in [&self.roles, &self.bindings] {
            let queue = self.queue.clone();
            informer.listen(move |_, change| {
                if let Some(revision) = revision_of_role(&change.header().metadata.name) {
                    queue.add(revision.to_owned());
                }
            });
        }
        if let Some(deployments) = &self.manager.deployments {
            let queue = self.queue.clone();
            deployments.informer.listen(move |_, change| owners(&change, |name| queue.add(name.to_owned())));
        }
        if let Some(accounts) = &self.manager.accounts {
            let queue = self.queue.clone();
            accounts.informer().listen(move |_, change| owners(&change, |name| queue.add(name.to_owned())));
        }
        // All of a family may use its kinds: when a definition appears or changes hands, and when a revision lists it.
        for definitions in [&self.manager.context.kinds, &self.manager.managed_definitions] {
            let (queue, revisions) = (self.queue.clone(), Arc::downgrade(self.revisions()));
            definitions.listen(move |_, change| {
                owners(&change, |name| {
                    queue.add(name.to_owned());
                    let Some(revisions) = revisions.upgrade() else { return };
                    if let Some(owner) = revisions.object("", name) {
                        add_family(&queue, &revisions, meta::label(&owner, FAMILY));
                    }
                });
            });
        }
        let (queue, revisions) = (self.queue.clone(), Arc::downgrade(self.revisions()));
        self.revisions().listen(move |_, change| {
            queue.add(change.header().metadata.name.to_string());
            let Some(revisions) = revisions.upgrade() else { return };
            add_family(&queue, &revisions, change.header().label(FAMILY).unwrap_or_default());
        });
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(revision) = self.revisions().object("", &name) else { return Next::Rest };
        // Garbage collection deletes them with the revision.
        if meta::is_being_deleted(&revision) || status::is_paused(&revision) {
            return Next::Rest;
        }
        cause_of_writes(&revision).scope(self.keep(&revision)).await
    }

    async fn keep(&self, revision: &Object) -> Next {
        let roles = provider_roles(revision, self.resources(revision));
        for role in &roles {
            if let Err(next) = self.keep_one(revision, &self.roles, role, "ApplyClusterRoles").await {
                return next;
            }
        }
        let accounts = self.accounts(revision);
        let binding = provider_binding(revision, &accounts);
        // A revision that is not active has no pods. Its binding has no subjects, and is not created for that.
        let is_needed = !accounts.is_empty() || self.bindings.object("", meta::name(&binding)).is_some();
        if roles.is_empty() || !is_needed {
            return Next::Rest;
        }
        self.keep_one(revision, &self.bindings, &binding, "BindClusterRole").await.err().unwrap_or(Next::Rest)
    }

    /// The kinds that a provider may use: its own, and those of its family.
    fn resources(&self, revision: &Object) -> Vec<DefinedResource> {
        let mut found = self.own_resources(revision);
        let family = meta::label(revision, FAMILY);
        if family.is_empty() {
            return found;
        }
        for member in self.revisions().objects() {
            let is_other = meta::uid(&member) != meta::uid(revision);
            let is_member =
                meta::label(&member, FAMILY) == family && share_organization(image(revision), image(&member));
            if is_other && is_member {
                found.extend(self.own_resources(&member));
            }
        }
        found
    }

    fn own_resources(&self, revision: &Object) -> Vec<DefinedResource> {
        let managed = &self.manager.managed_definitions;
        let mut found = defined_resources(revision, |name| {
            let definition = self.manager.context.kinds.object("", name);
            definition
                .is_some_and(|definition| is_owned(&definition, managed.object("", name).as_ref(), revision))
        });
        found.retain(|it| !is_reserved_group(&it.group));
        found
    }

    /// The service accounts of a provider's program.
    fn accounts(&self, revision: &Object) -> Vec<(String, String)> {
        if let Some(accounts) = self.manager.accounts.as_ref().filter(|accounts| accounts.has(revision)) {
            return vec![(accounts.namespace.clone(), meta::name(revision).to_owned())];
        }
        let deployments = self.manager.deployments.as_ref();
        let deployments = deployments.map(|it| it.deployments_of(meta::uid(revision))).unwrap_or_default();
        let account = |deployment: &Object| {
            let pods = deployment.get("spec")?.get("template")?.get("spec")?;
            let name = pods.get("serviceAccountName")?.as_str()?.to_owned();
            Some((meta::namespace(deployment).to_owned(), name))
        };
        deployments.iter().filter_map(account).collect()
    }

    /// Create or update a role or a binding. The error is how to requeue if that fails.
    async fn keep_one(
        &self,
        revision: &Object,
        informer: &Informer,
        wanted: &Object,
        reason: &str,
    ) -> Result<(), Next> {
        let name = meta::name(wanted);
        let written = match informer.object("", name) {
            None => self.manager.context.cluster.create(informer.resource(), "", wanted).await,
            Some(present) => {
                let adopted = match adopted(&present, wanted) {
                    Ok(adopted) => adopted,
                    Err(theirs) => {
                        self.recorder.failure(revision, reason, theirs, Cause::ObjectControlled);
                        return Ok(());
                    }
                };
                if adopted == present {
                    return Ok(());
                }
                let path = ObjectPath { resource: informer.resource(), namespace: "", name };
                self.manager.context.cluster.replace(path, Subresource::None, &adopted).await
            }
        };
        match written {
            Ok(bytes) => {
                informer.insert_written(&bytes);
                Ok(())
            }
            Err(error) => Err(self.complain(revision, name, reason, &error)),
        }
    }

    fn complain(&self, revision: &Object, name: &str, reason: &str, error: &Error) -> Next {
        if error.is_conflict() || error.is_already_exists() || error.is_not_found() {
            return Next::Conflict;
        }
        let message = format!("cannot write `{name}`: {}", chain(error));
        self.recorder.failure(revision, reason, message, cause_of(error));
        Next::Retry
    }
}

/// Update an existing role or binding.
fn adopted(present: &Object, wanted: &Object) -> Result<Object, String> {
    let refused = |theirs| format!("cannot keep `{}`: {theirs}", meta::name(wanted));
    let mut object = adopt_role(present, wanted).map_err(refused)?;
    if !wanted.contains_key("rules") {
        object.remove("rules");
    }
    // The role of a binding is immutable, and follows from its name.
    match wanted.get("subjects") {
        Some(subjects) => object.insert("subjects".to_owned(), subjects.clone()),
        None => object.remove("subjects"),
    };
    Ok(object)
}

/// Requeue all revisions of a family.
fn add_family(queue: &Queue<String>, revisions: &Informer, family: &str) {
    if family.is_empty() {
        return;
    }
    for member in revisions.objects().iter().filter(|member| meta::label(member, FAMILY) == family) {
        queue.add(meta::name(member).to_owned());
    }
}

/// The revisions of providers that own what has changed.
fn owners(change: &Change<'_>, mut found: impl FnMut(&str)) {
    for owner in change.header().metadata.owner_references.iter().flatten() {
        if owner.kind == PackageKind::Provider.revision() {
            found(&owner.name);
        }
    }
}

/// Whether a revision owns a definition, or the managed resource definition that it was made of.
fn is_owned(definition: &Object, managed: Option<&Object>, revision: &Object) -> bool {
    let is_owner = |object: &Object, owner: &Object| {
        let owners = object.get("metadata").and_then(|metadata| metadata.get("ownerReferences")?.as_array());
        owners.into_iter().flatten().any(|reference| reference["uid"] == meta::uid(owner))
    };
    is_owner(definition, revision)
        || managed.is_some_and(|managed| is_owner(definition, managed) && is_owner(managed, revision))
}

fn image(revision: &Object) -> &str {
    revision.get("spec").and_then(|spec| spec.get("image")?.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, owners: &[&str]) -> Object {
        let owners: Vec<_> = owners.iter().map(|uid| serde_json::json!({"uid": uid})).collect();
        let object = serde_json::json!({"metadata": {"uid": uid, "ownerReferences": owners}});
        object.as_object().cloned().unwrap()
    }

    #[test]
    fn provider_owns_a_kind_only_if_it_owns_what_the_kind_was_made_of() {
        let (ours, others) = (object("ours", &[]), object("others", &[]));
        let (managed, definition) = (object("managed", &["ours"]), object("definition", &["managed"]));
        assert!(is_owned(&definition, Some(&managed), &ours));
        assert!(!is_owned(&definition, Some(&managed), &others), "it could name the kind in its status");
        assert!(!is_owned(&definition, None, &ours));
        assert!(
            !is_owned(&object("definition", &["former"]), Some(&managed), &ours),
            "another one of that name"
        );
        assert!(is_owned(&object("definition", &["ours"]), None, &ours));
    }
}
