//! What webhooks are asked: may this be done, and shall it be done otherwise?

use std::sync::Arc;

use ferroplane_schema::status::Status;
use serde_json::{Value, json};

use crate::auth::identity::Identity;
use crate::registry::Resource;
use crate::store::Store;

/// What is about to happen to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// Group, version and kind of what is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupVersionKind<'k> {
    pub(crate) group: &'k str,
    pub(crate) version: &'k str,
    pub(crate) name: &'k str,
}

/// What a request is about, as far as it is known without its objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTarget<'q> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'q Arc<Resource>,
    /// The version of the request.
    pub(crate) version: &'q str,
    pub(crate) subresource: &'q str,
}

/// A request as webhooks see it.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionRequest<'q> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'q Arc<Resource>,
    /// The version of the request.
    pub(crate) version: &'q str,
    pub(crate) subresource: &'q str,
    /// What is written, if that is not the object itself.
    pub(crate) part: Option<GroupVersionKind<'q>>,
    /// That of a namespace is its name.
    pub(crate) namespace: &'q str,
    pub(crate) name: &'q str,
    /// As it is to be, in the version of the request; nothing if it is deleted.
    pub(crate) object: Value,
    /// As it is, in the version of the request; nothing if it is created.
    pub(crate) old: Value,
    pub(crate) identity: &'q Identity,
    pub(crate) is_dry_run: bool,
    pub(crate) options: &'q Value,
}

/// What a webhook sees of the objects of a request: them in a version.
#[derive(Debug, Clone)]
pub(super) struct VersionedAttributes {
    pub(super) version: String,
    pub(super) object: Value,
    pub(super) old: Value,
}

impl AdmissionRequest<'_> {
    pub(super) fn target(&self) -> RequestTarget<'_> {
        let Self { operation, resource, version, subresource, .. } = *self;
        RequestTarget { operation, resource, version, subresource }
    }

    /// The kind of what is shown to those who want to see a version.
    pub(super) fn kind<'k>(&'k self, version: &'k str) -> GroupVersionKind<'k> {
        let whole =
            GroupVersionKind { group: &self.resource.group, version, name: &self.resource.names.kind };
        // What is written to a part, such as a Scale, has a kind of its own, whatever version the webhook wants to
        // see.
        self.part.unwrap_or(whole)
    }

    /// What those see who want to see a version.
    pub(super) async fn shown(&self, version: &str, store: &Store) -> Result<VersionedAttributes, Status> {
        Ok(VersionedAttributes {
            version: version.to_owned(),
            object: self.converted(self.object.clone(), version, store).await?,
            old: self.converted(self.old.clone(), version, store).await?,
        })
    }

    /// Makes an object one of another version.
    pub(super) async fn converted(
        &self,
        value: Value,
        version: &str,
        store: &Store,
    ) -> Result<Value, Status> {
        let Some(wanted) = self.resource.served(version) else { return Ok(value) };
        let api_version = wanted.behaviour.api_version();
        let mut object = match value {
            // Parts are not objects of the kind that is converted: they are shown as they are.
            Value::Object(object) if self.part.is_none() => object,
            other => return Ok(other),
        };
        if object.get("apiVersion").is_some_and(|found| found == api_version) {
            return Ok(Value::Object(object));
        }
        if let Some(converter) = &self.resource.converter {
            object = converter.convert(object, api_version, store).await?;
        }
        // A converter sets only what it has to: this names the version also where there is none, as with the strategy
        // None.
        wanted.behaviour.adopt(&mut object);
        Ok(Value::Object(object))
    }

    /// The `AdmissionRequest`, for those who want to see a version of the resource.
    pub(super) fn to_request(&self, uid: &str, shown: &VersionedAttributes) -> Value {
        let version = shown.version.as_str();
        let kind = |kind: GroupVersionKind<'_>| json!({"group": kind.group, "version": kind.version, "kind": kind.name});
        let resource = |version: &str| json!({"group": self.resource.group, "version": version, "resource": self.resource.names.plural});
        let mut request = json!({
            "uid": uid,
            "kind": kind(self.kind(version)),
            "resource": resource(version),
            "requestKind": kind(self.kind(self.version)),
            "requestResource": resource(self.version),
            "operation": self.operation.name(),
            "userInfo": self.identity.to_json(),
            "object": shown.object,
            "oldObject": shown.old,
            "dryRun": self.is_dry_run,
            "options": self.options,
        });
        let texts = [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ];
        // Go leaves these out if they are empty (`omitempty`), and some webhooks tell an empty name from none.
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            request[name] = text.into();
        }
        request
    }
}
