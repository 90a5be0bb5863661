//! Admission: what may change or refuse a write because it depends on other objects, or on a webhook.
//!
//! The order is that of kube-apiserver: checks of single kinds that may refuse early, mutating webhooks, allocation, and (after
//! the object is settled) the checks that must see what is stored, then validating webhooks. What belongs to one kind is
//! in [`crate::builtin`].

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ferroplane_ownership as ownership;
use ferroplane_schema::status::Status;
use ferroplane_schema::writes::{Part, Proposal, Written};
use serde_json::Value;

use crate::auth::authorizer::Authorizer;
use crate::auth::identity::{Identity, MASTERS};
use crate::auth::rbac::Attributes;
use crate::builtin::service_allocator::{Reservation, ServiceAllocator};
use crate::builtin::{
    NAMESPACES, admission_policies, custom_resource_definitions, namespace_lifecycle, role_escalation,
    service_allocator,
};
use crate::request::Verb;
use crate::store::{Change, Entry, Expect, Operation, Store};
use crate::verbs::{ObjectLocation, metadata_text};
use crate::webhooks::{
    AdmissionRequest, GroupVersionKind, Operation as Act, Remarks, RequestTarget, Webhooks,
};

/// Reads a write with the rest of the world in view.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    pub(crate) store: &'a Store,
    pub(crate) authorizer: &'a Authorizer,
    pub(crate) service_allocator: &'a Arc<ServiceAllocator>,
    /// The user that writes; none if it is the server itself.
    pub(crate) identity: Option<&'a Identity>,
    /// The webhooks to call; none if they do not decide about this write.
    pub(crate) webhooks: Option<&'a Webhooks>,
    /// The options of the request, as an object.
    pub(crate) options: Value,
    pub(crate) is_dry_run: bool,
    /// What webhooks want to have recorded.
    pub(crate) annotations: Mutex<Vec<(String, String)>>,
}

impl Admission<'_> {
    /// May change what is proposed.
    pub(crate) async fn mutate(
        &self,
        location: &ObjectLocation,
        mut proposal: Proposal,
        live: Option<&Value>,
    ) -> Result<Proposal, Status> {
        proposal.warnings.extend(admission_policies::warning(&location.view.resource));
        if live.is_none() {
            // Early, so that webhooks are not asked in vain.
            self.parents(location, metadata_text(&proposal.object, "name"))?;
        }
        let act = if live.is_some() { Act::Update } else { Act::Create };
        let concerned = self.webhooks.filter(|webhooks| webhooks.may_mutate(&target(location, act)));
        let Some(webhooks) = concerned else { return Ok(proposal) };
        let owners = managed_fields_of(&proposal).cloned();
        let name = metadata_text(&proposal.object, "name").to_owned();
        let object = Value::Object(std::mem::take(&mut proposal.object));
        let mut request = self.request(location, act, &name, object, live);
        let mut remarks = Remarks::default();
        let outcome = Box::pin(webhooks.mutate(&mut request, self.store, &mut remarks)).await;
        let Value::Object(object) = request.object else {
            return Err(Status::internal("an admission webhook made no object of an object"));
        };
        proposal.object = object;
        proposal.warnings.append(&mut remarks.warnings);
        self.note(remarks);
        outcome.map_err(|status| with_warnings(status, &mut proposal.warnings))?;
        restore_managed_fields(&mut proposal, owners);
        Ok(proposal)
    }

    /// Gives a service what others may not have. It is taken until the answer is let go of, or the service is stored.
    pub(crate) fn allocate(
        &self,
        location: &ObjectLocation,
        proposal: &mut Proposal,
        live: Option<&Value>,
    ) -> Result<Option<Reservation>, Status> {
        let allocated =
            service_allocator::allocate(self.service_allocator, location, &mut proposal.object, live);
        let reservation = allocated.map_err(|status| with_warnings(status, &mut proposal.warnings))?;
        // A dry run takes nothing from others, not even while webhooks are asked.
        Ok(reservation.filter(|_| !self.is_dry_run))
    }

    /// May refuse what is about to be stored.
    pub(crate) async fn validate(
        &self,
        location: &ObjectLocation,
        written: &mut Written,
        live: Option<&Value>,
    ) -> Result<(), Status> {
        custom_resource_definitions::check_group(location, &written.object, live)?;
        // What the server itself writes escalates nobody's rights.
        if let Some(identity) = self.identity {
            if live.is_none() {
                self.authorize_create(identity, location)?;
            }
            role_escalation::check(self.authorizer, identity, location, &written.object, live)?;
        }
        let act = if live.is_some() { Act::Update } else { Act::Create };
        let concerned = self.webhooks.filter(|webhooks| webhooks.may_refuse(&target(location, act)));
        let Some(webhooks) = concerned else { return Ok(()) };
        let name = metadata_text(&written.object, "name").to_owned();
        let request = self.request(location, act, &name, Value::Object(written.object.clone()), live);
        let mut remarks = Remarks::default();
        let outcome = Box::pin(webhooks.validate(&request, self.store, &mut remarks)).await;
        written.warnings.append(&mut remarks.warnings);
        self.note(remarks);
        outcome.map_err(|status| with_warnings(status, &mut written.warnings))
    }

    /// Refuses an object that an update or an apply would create, unless its writer may create it, too.
    ///
    /// Follows k8s.io/apiserver 0.36.4, `withAuthorization` in `pkg/endpoints/handlers/update.go`: before validating webhooks are
    /// asked.
    fn authorize_create(&self, identity: &Identity, location: &ObjectLocation) -> Result<(), Status> {
        // A request to create names no object in its path. It was authorized as what it is.
        if location.name.is_empty() {
            return Ok(());
        }
        let resource = &location.view.resource;
        let attributes = Attributes {
            verb: Verb::Create.name(),
            group: &resource.group,
            resource: &resource.names.plural,
            subresource: location.part.subresource(),
            name: &location.name,
            namespace: &location.namespace,
            path: None,
        };
        self.authorizer.policy().check(identity, &attributes)
    }

    /// May refuse a deletion. Says what its client should be told.
    pub(crate) async fn delete(
        &self,
        location: &ObjectLocation,
        entry: &Entry,
    ) -> Result<Vec<String>, Status> {
        namespace_lifecycle::check_delete(location)?;
        let target = target(location, Act::Delete);
        let is_concerned =
            |webhooks: &&Webhooks| webhooks.may_mutate(&target) || webhooks.may_refuse(&target);
        let Some(webhooks) = self.webhooks.filter(is_concerned) else { return Ok(Vec::new()) };
        let live = location.view.convert(entry.bytes(), self.store).await?.into_value();
        let mut request = self.request(location, Act::Delete, &location.name, Value::Null, Some(&live));
        let mut remarks = Remarks::default();
        let mut outcome = Box::pin(webhooks.mutate(&mut request, self.store, &mut remarks)).await;
        if outcome.is_ok() {
            outcome = Box::pin(webhooks.validate(&request, self.store, &mut remarks)).await;
        }
        let mut warnings = std::mem::take(&mut remarks.warnings);
        self.note(remarks);
        outcome.map_err(|status| with_warnings(status, &mut warnings))?;
        Ok(warnings)
    }

    fn request<'q>(
        &'q self,
        location: &'q ObjectLocation,
        operation: Act,
        name: &'q str,
        object: Value,
        live: Option<&Value>,
    ) -> AdmissionRequest<'q> {
        let RequestTarget { operation, resource, version, subresource } = target(location, operation);
        let is_namespace = *resource.collection == *NAMESPACES;
        let is_scale = location.part == Part::Scale;
        let scale = GroupVersionKind { group: "autoscaling", version: "v1", name: "Scale" };
        AdmissionRequest {
            operation,
            resource,
            version,
            subresource,
            part: is_scale.then_some(scale),
            namespace: if is_namespace { name } else { &location.namespace },
            name,
            object,
            old: live.cloned().unwrap_or_default(),
            identity: self.identity.unwrap_or(&OURSELVES),
            is_dry_run: self.is_dry_run,
            options: &self.options,
        }
    }

    fn note(&self, remarks: Remarks) {
        self.annotations.lock().unwrap_or_else(PoisonError::into_inner).extend(remarks.annotations);
    }

    /// What must hold at the moment when a new object is stored: what it depends on is still there, and not being deleted.
    ///
    /// It is checked anew, because webhooks may have taken their time. An object that was stored after everything in its
    /// namespace, or of its kind, was deleted would never be.
    pub(crate) fn conditions(&self, location: &ObjectLocation, name: &str) -> Result<Vec<Operation>, Status> {
        let parents = self.parents(location, name)?;
        Ok(parents.iter().flatten().map(|parent| unchanged(parent)).collect())
    }

    /// The definition and the namespace of a new object. Refuses it if one of them is missing or being deleted.
    fn parents(&self, location: &ObjectLocation, name: &str) -> Result<[Option<Arc<Entry>>; 2], Status> {
        let definition = custom_resource_definitions::check_create(self.store, location, name)?;
        let namespace = namespace_lifecycle::check_create(self.store, location, name)?;
        Ok([definition, namespace])
    }
}

/// A condition of a transaction: this object is as it is here.
fn unchanged(entry: &Entry) -> Operation {
    let expect = Expect::Revision(entry.revision());
    Operation { key: entry.key().clone(), expect, change: Change::Nothing }
}

/// What a request is about that does something at a location.
fn target(location: &ObjectLocation, operation: Act) -> RequestTarget<'_> {
    RequestTarget {
        operation,
        resource: &location.view.resource,
        version: &location.view.version().name,
        subresource: location.part.subresource(),
    }
}

/// The user of writes that no client requested.
static OURSELVES: LazyLock<Identity> =
    LazyLock::new(|| Identity::authenticated("system:apiserver", [MASTERS.to_owned()]));

fn with_warnings(mut status: Status, warnings: &mut Vec<String>) -> Status {
    warnings.append(&mut status.warnings);
    status.warnings.append(warnings);
    status
}

fn managed_fields_of(proposal: &Proposal) -> Option<&Value> {
    proposal.object.get("metadata").and_then(|metadata| metadata.get("managedFields"))
}

/// Webhooks that know nothing of owners may break what is noted of them. Then it is as it was.
fn restore_managed_fields(proposal: &mut Proposal, before: Option<Value>) {
    let Some(Err(error)) = managed_fields_of(proposal).map(ownership::validate) else { return };
    proposal.warnings.push(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
         admission controller; please fix your requests: {error}"
    ));
    if let Some(Value::Object(metadata)) = proposal.object.get_mut("metadata") {
        metadata.insert("managedFields".to_owned(), before.unwrap_or_default());
    }
}
