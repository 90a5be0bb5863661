//! What stands between a decided write and the store because it depends on others: whether the namespace is there,
//! whether the definition is not being deleted, what webhooks say.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ferroplane_schema::status::{Cause, Status};
use ferroplane_schema::writes::{Part, Proposal, Written};
use ferroplane_schema::{managed, services};
use serde_json::Value;

use crate::access::Access;
use crate::addresses::{Addresses, Reservation, SERVICES};
use crate::auth::identity::{Identity, MASTERS};
use crate::auth::rbac;
use crate::registry::Resource;
use crate::store::{Change, Entry, Expect, Operation, Store};
use crate::verbs::Place;
use crate::webhooks::{Kind, Operation as Act, Question, Remarks, Webhooks};

/// Where namespaces are in the store.
pub(crate) const NAMESPACES: &str = "/namespaces";

/// Where definitions are in the store.
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// Namespaces that stay, whoever wants them to go.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Looks at a write with the rest of the world in view.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    pub(crate) store: &'a Store,
    pub(crate) access: &'a Access,
    pub(crate) addresses: &'a Arc<Addresses>,
    /// Who writes; nobody if it is the server itself.
    pub(crate) identity: Option<&'a Identity>,
    /// Those who want to be asked; nobody if that is not for them to decide.
    pub(crate) webhooks: Option<&'a Webhooks>,
    /// The options of the request, as an object.
    pub(crate) options: Value,
    pub(crate) is_dry_run: bool,
    /// What webhooks want to have written down.
    pub(crate) annotations: Mutex<Vec<(String, String)>>,
}

impl Admission<'_> {
    /// May change what is proposed.
    pub(crate) async fn mutate(
        &self,
        place: &Place,
        mut proposal: Proposal,
        live: Option<&Value>,
    ) -> Result<Proposal, Status> {
        if live.is_none() {
            self.may_create(place, &proposal)?;
        }
        let Some(webhooks) = self.webhooks() else { return Ok(proposal) };
        let owners = owners_of(&proposal).cloned();
        let name = crate::verbs::metadata_text(&proposal.object, "name").to_owned();
        let act = if live.is_some() { Act::Update } else { Act::Create };
        let object = Value::Object(std::mem::take(&mut proposal.object));
        let mut question = self.question(place, act, &name, object, live);
        let mut remarks = Remarks::default();
        let outcome = Box::pin(webhooks.mutate(&mut question, self.store, &mut remarks)).await;
        let Value::Object(object) = question.object else {
            return Err(Status::internal("an admission webhook made no object of an object"));
        };
        proposal.object = object;
        proposal.warnings.append(&mut remarks.warnings);
        self.note(remarks);
        outcome.map_err(|status| warned(status, &mut proposal.warnings))?;
        mend_owners(&mut proposal, owners);
        Ok(proposal)
    }

    /// Gives a service what others may not have. It is taken until the answer is let go of, or the service is stored.
    pub(crate) fn allocate(
        &self,
        place: &Place,
        proposal: &mut Proposal,
        live: Option<&Value>,
    ) -> Result<Option<Reservation>, Status> {
        if *place.view.resource.collection != *SERVICES || place.part != Part::Whole {
            return Ok(None);
        }
        let mut reservation = self.addresses.reserve();
        let live = live.and_then(Value::as_object);
        let allocated = services::allocate(&mut proposal.object, live, &mut reservation);
        allocated.map_err(|status| warned(status, &mut proposal.warnings))?;
        Ok(Some(reservation))
    }

    /// May refuse what is about to be stored.
    pub(crate) async fn validate(
        &self,
        place: &Place,
        written: &mut Written,
        live: Option<&Value>,
    ) -> Result<(), Status> {
        self.check_escalation(place, written, live)?;
        let Some(webhooks) = self.webhooks() else { return Ok(()) };
        let name = crate::verbs::metadata_text(&written.object, "name").to_owned();
        let act = if live.is_some() { Act::Update } else { Act::Create };
        let question = self.question(place, act, &name, Value::Object(written.object.clone()), live);
        let mut remarks = Remarks::default();
        let outcome = Box::pin(webhooks.validate(&question, self.store, &mut remarks)).await;
        written.warnings.append(&mut remarks.warnings);
        self.note(remarks);
        outcome.map_err(|status| warned(status, &mut written.warnings))
    }

    /// May refuse a deletion. Says what its client should be told.
    pub(crate) async fn delete(&self, place: &Place, entry: &Entry) -> Result<Vec<String>, Status> {
        let resource = &place.view.resource;
        if *resource.collection == *NAMESPACES && IMMORTAL.contains(&place.name.as_str()) {
            let words = "this namespace may not be deleted";
            return Err(Status::forbidden(&resource.identity, &place.name, words));
        }
        let Some(webhooks) = self.webhooks() else { return Ok(Vec::new()) };
        let live = place.view.see(entry.bytes(), self.store).await?.into_value();
        let mut question = self.question(place, Act::Delete, &place.name, Value::Null, Some(&live));
        let mut remarks = Remarks::default();
        let mut outcome = Box::pin(webhooks.mutate(&mut question, self.store, &mut remarks)).await;
        if outcome.is_ok() {
            outcome = Box::pin(webhooks.validate(&question, self.store, &mut remarks)).await;
        }
        let mut warnings = std::mem::take(&mut remarks.warnings);
        self.note(remarks);
        outcome.map_err(|status| warned(status, &mut warnings))?;
        Ok(warnings)
    }

    fn webhooks(&self) -> Option<&Webhooks> {
        self.webhooks.filter(|webhooks| !webhooks.is_empty())
    }

    fn question<'q>(
        &'q self,
        place: &'q Place,
        operation: Act,
        name: &'q str,
        object: Value,
        live: Option<&Value>,
    ) -> Question<'q> {
        let resource = &place.view.resource;
        let is_namespace = *resource.collection == *NAMESPACES;
        let is_scale = place.part == Part::Scale;
        let scale = Kind { group: "autoscaling", version: "v1", name: "Scale" };
        Question {
            operation,
            resource,
            version: &place.view.version().name,
            subresource: place.part.subresource(),
            part: is_scale.then_some(scale),
            namespace: if is_namespace { name } else { &place.namespace },
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

    fn check_escalation(&self, place: &Place, written: &Written, live: Option<&Value>) -> Result<(), Status> {
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

/// Who writes if nobody asked for it.
static OURSELVES: LazyLock<Identity> =
    LazyLock::new(|| Identity::authenticated("system:apiserver", [MASTERS.to_owned()]));

fn warned(mut status: Status, warnings: &mut Vec<String>) -> Status {
    warnings.append(&mut status.warnings);
    status.warnings.append(warnings);
    status
}

fn owners_of(proposal: &Proposal) -> Option<&Value> {
    proposal.object.get("metadata").and_then(|metadata| metadata.get("managedFields"))
}

/// Webhooks that know nothing of owners may break what is noted of them. Then it is as it was.
fn mend_owners(proposal: &mut Proposal, before: Option<Value>) {
    let Some(Err(error)) = owners_of(proposal).map(managed::validate) else { return };
    proposal.warnings.push(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
         admission controller; please fix your requests: {error}"
    ));
    if let Some(Value::Object(metadata)) = proposal.object.get_mut("metadata") {
        metadata.insert("managedFields".to_owned(), before.unwrap_or_default());
    }
}
