//! What the server does on its own account, by the same way as everybody else.

use std::sync::{Arc, Mutex};

use ferroplane_schema::status::Status;
use ferroplane_schema::structural::strict_json::FieldValidation;
use ferroplane_schema::writes::{Body, Part, Write};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::ServerState;
use super::audit_trail::reference;
use crate::admission::Admission;
use crate::audit::Attributes;
use crate::audit::event::{Authorization, Event, Level, Outcome, Stage};
use crate::auth::identity::{Identity, MASTERS};
use crate::options::{DeleteOptions, WriteOptions};
use crate::registry::Resource;
use crate::request::{ResourcePath, Verb};
use crate::store::Entry;
use crate::verbs::{self, Deleted, ObjectLocation, Subject, View, WriteOutcome, WriteRequest};
use crate::webhooks::Webhooks;

/// Who the server is to itself.
const MANAGER: &str = "ferroplane-apiserver";
/// Who it is in the audit log, by kube-apiserver's name for itself.
const USER: &str = "system:apiserver";

impl ServerState {
    /// The resource of a group and plural name.
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.registry.catalogue().find(group, plural).cloned()
    }

    /// The resource whose objects are in a collection.
    pub(crate) fn resource_of(&self, entry: &Entry) -> Option<Arc<Resource>> {
        let (group, plural) = entry.key().collection().name().split_once('/')?;
        self.find(group, plural)
    }

    pub(crate) async fn create(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        object: &Value,
    ) -> Result<WriteOutcome, Status> {
        let text = object.to_string();
        let request =
            || Body::json(text.as_bytes()).map(Write::Create).map_err(|error| Status::internal(&error));
        self.write(resource, Part::Whole, namespace, "", &request).await
    }

    /// Changes an object, or a part of it, by a merge patch.
    pub(crate) async fn patch(
        &self,
        resource: &Arc<Resource>,
        part: Part,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<WriteOutcome, Status> {
        let text = patch.to_string();
        self.write(resource, part, namespace, name, &|| Ok(Write::MergePatch(&text))).await
    }

    async fn write<'w>(
        &self,
        resource: &Arc<Resource>,
        part: Part,
        namespace: &str,
        name: &str,
        request: &(dyn Fn() -> Result<Write<'w>, Status> + Sync),
    ) -> Result<WriteOutcome, Status> {
        let options = WriteOptions {
            manager: MANAGER.to_owned(),
            is_dry_run: false,
            is_forced: false,
            field_validation: FieldValidation::Ignore,
            said: Map::new(),
        };
        let location = ObjectLocation {
            view: View::stored(resource),
            part,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let admission = self.admission(None, None);
        let began_at = Timestamp::now();
        // What the server writes by itself is small.
        let request = WriteRequest { read: request, size: 0 };
        let written = verbs::write(&self.store, &admission, &location, request, &options).await;
        let verb = if name.is_empty() { Verb::Create } else { Verb::Patch };
        let subject = written.as_ref().map(|outcome| &outcome.subject);
        self.record(None, verb, &location, began_at, subject);
        written
    }

    /// Notes in the audit log what the server did by itself, or for a controller.
    fn record(
        &self,
        controller: Option<&Identity>,
        verb: Verb,
        location: &ObjectLocation,
        received: Timestamp,
        outcome: Result<&Subject, &Status>,
    ) {
        let Some(log) = self.audit.get() else { return };
        let path = path_of(location);
        let user = controller.cloned().unwrap_or_else(|| Identity::authenticated(USER, [MASTERS.to_owned()]));
        let attributes = Attributes { user: Some(&user), verb: verb.name(), path: "", resource: Some(&path) };
        let decision = log.policy().decide(&attributes);
        if !decision.includes(Stage::ResponseComplete) {
            return;
        }
        log.record(Event {
            // What is done here has no body that anybody sent.
            level: Level::Metadata,
            stage: Stage::ResponseComplete,
            id: crate::random::uuid().to_string(),
            received,
            reached: Timestamp::now(),
            uri: path.to_uri(),
            verb: verb.name().into(),
            user: Some(user),
            impersonated: None,
            source: None,
            user_agent: MANAGER.to_owned(),
            object: Some(reference(&path, outcome.ok())),
            outcome: Some(match outcome {
                Ok(_) if verb == Verb::Create => Outcome::Success(201),
                Ok(_) => Outcome::Success(200),
                Err(status) => Outcome::Failure(Arc::new(status.clone())),
            }),
            authorization: Some(Authorization { is_allowed: true, reason: String::new() }),
            request: None,
            response: None,
            omits_managed_fields: false,
            cause: None,
            annotations: Vec::new(),
        });
    }

    /// Webhooks are not called for writes of the server itself, unless it writes on behalf of a client.
    fn admission<'a>(
        &'a self,
        identity: Option<&'a Identity>,
        webhooks: Option<&'a Webhooks>,
    ) -> Admission<'a> {
        Admission {
            store: &self.store,
            authorizer: &self.authorizer,
            service_allocator: &self.service_allocator,
            identity,
            webhooks,
            options: Value::Null,
            is_dry_run: false,
            annotations: Mutex::default(),
        }
    }

    /// Deletes an object, if it is still the one that is meant. Webhooks may object to what a controller does.
    pub(crate) async fn delete(
        &self,
        entry: &Entry,
        options: DeleteOptions,
        controller: Option<&str>,
    ) -> Result<Deleted, Status> {
        let Some(resource) = self.resource_of(entry) else {
            return Err(Status::internal("the resource of the object is not known"));
        };
        let location = ObjectLocation {
            view: View::stored(&resource),
            part: Part::Whole,
            namespace: entry.key().namespace().to_owned(),
            name: entry.key().name().to_owned(),
        };
        // By its uid: since it was checked, it may have been deleted and created again.
        let options = DeleteOptions { uid: Some(entry.metadata().uid.to_string()), ..options };
        let identity = controller.map(|name| Identity::service_account("kube-system", name, ""));
        let webhooks = controller.map(|_| &*self.webhooks);
        let admission =
            Admission { options: options.to_json(), ..self.admission(identity.as_ref(), webhooks) };
        let began_at = Timestamp::now();
        let deleted = verbs::delete(&admission, &location, &options).await;
        let subject = deleted.as_ref().map(|deleted| &deleted.subject);
        self.record(identity.as_ref(), Verb::Delete, &location, began_at, subject);
        deleted
    }
}

/// The path by which a client would do the same.
fn path_of(location: &ObjectLocation) -> ResourcePath {
    let View { resource, .. } = &location.view;
    ResourcePath {
        group: resource.group.clone(),
        version: location.view.version().name.clone(),
        namespace: location.namespace.clone(),
        resource: resource.names.plural.clone(),
        name: location.name.clone(),
        subresource: match location.part {
            Part::Status => "status",
            Part::Scale => "scale",
            Part::Finalize => "finalize",
            Part::EphemeralContainers => "ephemeralcontainers",
            Part::Whole => "",
        }
        .to_owned(),
    }
}
