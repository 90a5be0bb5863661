//! Gives each provider that runs on this machine a service account of its own. `provider_roles` binds its rights to that.
//!
//! # Invariants
//! * Its revision controls the account of a provider: one that another client created is never used.

use std::sync::Arc;

use ferroplane_api::{Cause, Object, PackageKind, meta};
use ferroplane_client::{ApiClient, Error, Informer, InformerScope, Resource};
use serde_json::{Map, json};

use super::caches::PackageQueue;
use super::cluster_scoped;
use crate::context::Context;
use crate::runtime::refused::cause_of;

/// The service accounts of providers.
#[derive(Debug)]
pub(super) struct ProviderAccounts {
    cluster: ApiClient,
    accounts: Arc<Informer>,
    pub(super) namespace: String,
}

/// Why a provider has no service account.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccountProblem {
    #[error("cannot write {kind} `{name}`")]
    Write { kind: &'static str, name: String, source: Error },
    #[error(
        "cannot run the package as the ServiceAccount `{name}` in the namespace `{namespace}`: its revision does not control it"
    )]
    Foreign { name: String, namespace: String },
}

impl AccountProblem {
    /// Whether it is a write conflict.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Write { source, .. } => source.is_conflict() || source.is_already_exists(),
            Self::Foreign { .. } => false,
        }
    }

    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Write { source, .. } => cause_of(source),
            Self::Foreign { .. } => Cause::ObjectControlled,
        }
    }
}

impl ProviderAccounts {
    pub(super) async fn start(context: &Arc<Context>, namespace: &str) -> Self {
        let resource =
            Resource { is_namespaced: true, ..cluster_scoped("v1", "ServiceAccount", "serviceaccounts") };
        let scope =
            InformerScope { namespace: Some(namespace.to_owned()), ..InformerScope::new(resource.into()) };
        let accounts = Informer::start(context.cluster.clone(), scope);
        accounts.synced().await;
        Self { cluster: context.cluster.clone(), accounts, namespace: namespace.to_owned() }
    }

    pub(super) fn informer(&self) -> &Informer {
        &self.accounts
    }

    pub(super) fn stop(&self) {
        self.accounts.stop();
    }

    /// Requeue the revision whose account changes: a deleted account is created again.
    pub(super) fn listen(&self, revisions: &PackageQueue) {
        let queue = revisions.clone();
        self.accounts.listen(move |_, change| {
            // By the owner and not by the name: an account of that name without an owner is not ours.
            for owner in change.header().metadata.owner_references.iter().flatten() {
                if owner.kind == PackageKind::Provider.revision() {
                    queue.add((PackageKind::Provider, owner.name.to_string()));
                }
            }
        });
    }

    /// Create the account of a revision unless it exists, and return its uid. An existing one costs no request.
    pub(super) async fn keep(&self, revision: &Object) -> Result<String, AccountProblem> {
        let name = meta::name(revision);
        if let Some(account) = self.accounts.object(&self.namespace, name) {
            return if meta::controller_uid(&account) == Some(meta::uid(revision)) {
                Ok(meta::uid(&account).to_owned())
            } else {
                let (name, namespace) = (name.to_owned(), self.namespace.clone());
                Err(AccountProblem::Foreign { name, namespace })
            };
        }
        match self.create(revision).await {
            // The namespace is created only if it is missing: most installations have it, and not all may create
            // one.
            Err(AccountProblem::Write { source, .. }) if source.is_not_found() => {
                self.create_namespace().await?;
                self.create(revision).await
            }
            created => created,
        }
    }

    /// Whether a revision has its account.
    pub(super) fn has(&self, revision: &Object) -> bool {
        let account = self.accounts.object(&self.namespace, meta::name(revision));
        account.is_some_and(|account| meta::controller_uid(&account) == Some(meta::uid(revision)))
    }

    async fn create(&self, revision: &Object) -> Result<String, AccountProblem> {
        let mut account = blank("ServiceAccount", meta::name(revision));
        meta::set_field(&mut account, "namespace", &self.namespace);
        meta::set_controller(&mut account, revision);
        let created = self.cluster.create(self.accounts.resource(), &self.namespace, &account).await;
        let bytes = created.map_err(|source| AccountProblem::Write {
            kind: "ServiceAccount",
            name: meta::name(revision).to_owned(),
            source,
        })?;
        // The next reconcile comes at once, and must not find the account missing because the watch is late.
        self.accounts.insert_written(&bytes);
        let created: Object = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(meta::uid(&created).to_owned())
    }

    async fn create_namespace(&self) -> Result<(), AccountProblem> {
        let namespaces = cluster_scoped("v1", "Namespace", "namespaces");
        match self.cluster.create(&namespaces, "", &blank("Namespace", &self.namespace)).await {
            Err(source) if !source.is_already_exists() => {
                Err(AccountProblem::Write { kind: "Namespace", name: self.namespace.clone(), source })
            }
            _ => Ok(()),
        }
    }
}

fn blank(kind: &str, name: &str) -> Object {
    let mut object =
        Map::from_iter([("apiVersion".to_owned(), json!("v1")), ("kind".to_owned(), json!(kind))]);
    meta::set_field(&mut object, "name", name);
    object
}
