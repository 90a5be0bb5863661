//! What stands between a decided write and the store because it depends on other objects: whether the namespace is there,
//! whether the definition is not being deleted.

use ferroplane_schema::status::{Cause, Status};
use ferroplane_schema::writes::{Proposal, Written};
use serde_json::Value;

use crate::access::Access;
use crate::auth::identity::Identity;
use crate::auth::rbac;
use crate::registry::Resource;
use crate::store::{Change, Entry, Expect, Operation, Store};
use crate::verbs::Place;

/// Where namespaces are in the store.
pub(crate) const NAMESPACES: &str = "/namespaces";

/// Where definitions are in the store.
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Looks at a write with the rest of the world in view.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    pub(crate) store: &'a Store,
    pub(crate) access: &'a Access,
    /// Who writes; nobody if it is the server itself.
    pub(crate) identity: Option<&'a Identity>,
}

impl Admission<'_> {
    /// May change what is proposed.
    pub(crate) fn mutate(
        &self,
        place: &Place,
        proposal: Proposal,
        live: Option<&Value>,
    ) -> Result<Proposal, Status> {
        if live.is_none() {
            self.may_create(place, &proposal)?;
        }
        Ok(proposal)
    }

    /// May refuse what is about to be stored.
    pub(crate) fn validate(
        &self,
        place: &Place,
        written: &Written,
        live: Option<&Value>,
    ) -> Result<(), Status> {
        let resource = &place.view.resource;
        let kind = rbac::Kind::of(&resource.group, &resource.names.plural);
        if let (Some(kind), Some(identity)) = (kind, self.identity) {
            let (namespace, name) = (place.namespace.as_str(), place.name.as_str());
            let old = live.and_then(Value::as_object);
            let write = rbac::Write { kind, namespace, name, new: &written.object, old };
            self.access.policy().check_escalation(identity, &write)?;
        }
        Ok(())
    }

    /// What must still hold when a write is stored.
    pub(crate) fn conditions(&self, place: &Place, is_created: bool) -> Option<Operation> {
        if !is_created || place.namespace.is_empty() {
            return None;
        }
        let namespace = self.namespace(&place.namespace)?;
        let expect = Expect::Revision(namespace.revision());
        Some(Operation { key: namespace.key().clone(), expect, change: Change::Nothing })
    }

    fn namespace(&self, name: &str) -> Option<std::sync::Arc<Entry>> {
        self.store.get(&self.store.collection(NAMESPACES).key("", name))
    }

    fn may_create(&self, place: &Place, proposal: &Proposal) -> Result<(), Status> {
        let resource = &place.view.resource;
        let name = crate::verbs::metadata_text(&proposal.object, "name");
        if place.view.is_custom() && self.definition_goes(resource) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&resource.identity, name, why));
        }
        if place.namespace.is_empty() {
            return Ok(());
        }
        let namespaces = ferroplane_schema::status::Resource::new("", "namespaces");
        let Some(namespace) = self.namespace(&place.namespace) else {
            return Err(Status::not_found(&namespaces, &place.namespace));
        };
        if !namespace.facts().is_terminating {
            return Ok(());
        }
        Err(terminating(place, name))
    }

    /// Whether what defines a resource is being deleted, or is gone.
    fn definition_goes(&self, resource: &Resource) -> bool {
        let name = format!("{}.{}", resource.names.plural, resource.group);
        let definition = self.store.get(&self.store.collection(DEFINITIONS).key("", &name));
        definition.is_none_or(|definition| definition.facts().is_terminating)
    }
}

fn terminating(place: &Place, name: &str) -> Status {
    let namespace = &place.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(&place.view.resource.identity, name, &why);
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    status
}
