//! What the server does on its own account, by the same way as everybody else.

use std::sync::{Arc, Mutex};

use ferroplane_schema::status::Status;
use ferroplane_schema::structural::strict_json::FieldValidation;
use ferroplane_schema::writes::{Body, Part, Write};
use serde_json::{Map, Value};

use super::ServerState;
use crate::admission::Admission;
use crate::auth::identity::Identity;
use crate::options::{DeleteOptions, WriteOptions};
use crate::registry::Resource;
use crate::store::Entry;
use crate::verbs::{self, Deleted, ObjectLocation, View, WriteOutcome};
use crate::webhooks::Webhooks;

/// Who the server is to itself.
const MANAGER: &str = "ferroplane-apiserver";

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
        verbs::write(&self.store, &admission, &location, request, &options).await
    }

    /// What the server itself writes is no business of webhooks, unless it does so for somebody.
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
        // By its uid: since it was looked at, somebody may have deleted it and made another of the same name.
        let options = DeleteOptions { uid: Some(entry.metadata().uid.to_string()), ..options };
        let identity = controller.map(|name| Identity::service_account("kube-system", name, ""));
        let webhooks = controller.map(|_| &*self.webhooks);
        let admission =
            Admission { options: options.to_json(), ..self.admission(identity.as_ref(), webhooks) };
        verbs::delete(&admission, &location, &options).await
    }
}
