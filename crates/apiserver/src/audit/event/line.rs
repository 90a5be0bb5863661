//! An event as a line of JSON, in the shape of `audit.k8s.io/v1`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use serde_json::Value;

use super::{Event, Level, ObjectReference, Outcome};
use crate::auth::identity::Identity;

/// The longest line. A client that sends more has it left out.
const LONGEST: usize = 256 << 10;

/// The longest text that a client may put into a line.
const LONGEST_TEXT: usize = 2 << 10;

/// How much others may add to a line.
const MOST_ANNOTATIONS: usize = 64;

/// The parts of a cause, in its order. The last one may have slashes in it.
const CAUSE: [&str; 8] = [
    "audit.ferroplane.io/cause-group",
    "audit.ferroplane.io/cause-kind",
    "audit.ferroplane.io/cause-namespace",
    "audit.ferroplane.io/cause-name",
    "audit.ferroplane.io/cause-uid",
    "audit.ferroplane.io/cause-generation",
    "audit.ferroplane.io/denied",
    "audit.ferroplane.io/denied-reason",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'e> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: &'e str,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: &'e str,
    verb: &'e str,
    user: User<'e>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<User<'e>>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Option::is_none")]
    source_ips: Option<[IpAddr; 1]>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<Reference<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<ResponseStatus<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'e str, Cow<'e, str>>,
}

#[derive(Serialize, Default)]
struct User<'e> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'e str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'e [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'e BTreeMap<String, Vec<String>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'e> {
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'e str,
}

/// A `Status`, of which Kubernetes writes the metadata even if there are none.
#[derive(Serialize, Default)]
struct ResponseStatus<'e> {
    metadata: Empty,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Serialize, Default)]
struct Empty {}

impl Event {
    /// The line, with its end.
    pub(in crate::audit) fn to_line(&self) -> Vec<u8> {
        let mut line = self.line();
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        if text.len() > LONGEST {
            (line.request_object, line.response_object) = (None, None);
            line.annotations.insert("audit.k8s.io/truncated", "true".into());
            text = serde_json::to_vec(&line).unwrap_or_default();
        }
        text.push(b'\n');
        text
    }

    fn line(&self) -> Line<'_> {
        let (request, response) = (self.request_object(), self.response_object());
        let is_about_secrets = self.is_about_secrets();
        // A body that must not be shown lowers the level of the event, so that readers do not look for it.
        let level = if is_about_secrets { self.level.min(Level::Metadata) } else { self.level };
        Line {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: level.name(),
            audit_id: &self.id,
            stage: self.stage.name(),
            request_uri: clip(&self.uri),
            verb: clip(&self.verb),
            user: self.user.as_ref().map(User::of).unwrap_or_default(),
            impersonated_user: self.impersonated.as_ref().map(User::of),
            source_ips: self.source.map(|source| [source]),
            user_agent: clip(&self.user_agent),
            object_ref: self.object.as_ref().map(Reference::of),
            response_status: self.outcome.as_ref().map(ResponseStatus::of),
            request_object: request,
            response_object: response,
            request_received_timestamp: format!("{:.6}", self.received),
            stage_timestamp: format!("{:.6}", self.reached),
            annotations: self.all_annotations(),
        }
    }

    fn request_object(&self) -> Option<Value> {
        let is_wanted = self.level >= Level::Request && !self.is_about_secrets();
        let object = (self.request.as_ref().filter(|_| is_wanted)?.read)()?;
        Some(self.without_managed_fields(object))
    }

    fn response_object(&self) -> Option<Value> {
        let is_wanted = self.level >= Level::RequestResponse && !self.is_about_secrets();
        let object = (self.response.as_ref().filter(|_| is_wanted)?.read)()?;
        Some(self.without_managed_fields(object))
    }

    fn without_managed_fields(&self, mut object: Value) -> Value {
        if self.omits_managed_fields {
            remove_managed_fields(&mut object);
            let items = object.get_mut("items").and_then(Value::as_array_mut);
            items.into_iter().flatten().for_each(remove_managed_fields);
        }
        object
    }

    fn all_annotations(&self) -> BTreeMap<&str, Cow<'_, str>> {
        let mut all = BTreeMap::new();
        for (key, text) in self.annotations.iter().take(MOST_ANNOTATIONS) {
            all.insert(clip(key), clip(text).into());
        }
        // The server's own annotations come last, so that nothing else can set them.
        if let Some(authorization) = &self.authorization {
            let decision = if authorization.is_allowed { "allow" } else { "forbid" };
            all.insert("authorization.k8s.io/decision", decision.into());
            all.insert("authorization.k8s.io/reason", clip(&authorization.reason).into());
        }
        let generation = self.object.as_ref().map_or(0, |object| object.generation);
        if generation > 0 {
            all.insert("audit.ferroplane.io/generation", generation.to_string().into());
        }
        if let Some(cause) = &self.cause {
            let parts = CAUSE.into_iter().zip(cause.splitn(CAUSE.len(), '/'));
            all.extend(
                parts.filter(|(_, text)| !text.is_empty()).map(|(key, text)| (key, clip(text).into())),
            );
        }
        all
    }
}

impl<'e> User<'e> {
    fn of(user: &'e Identity) -> Self {
        let Identity { name, uid, groups, extra } = user;
        Self {
            username: clip(name),
            uid: clip(uid),
            groups,
            extra: Some(extra).filter(|extra| !extra.is_empty()),
        }
    }
}

impl<'e> Reference<'e> {
    fn of(object: &'e ObjectReference) -> Self {
        let path = &object.path;
        Self {
            resource: clip(&path.resource),
            namespace: clip(path.request_namespace()),
            name: clip(&path.name),
            uid: clip(&object.uid),
            api_group: clip(&path.group),
            api_version: clip(&path.version),
            subresource: clip(&path.subresource),
        }
    }
}

impl<'e> ResponseStatus<'e> {
    fn of(outcome: &'e Outcome) -> Self {
        match outcome {
            Outcome::Success(code) => Self { code: Some(*code), ..Self::default() },
            Outcome::Failure(status) => Self {
                status: "Failure",
                message: clip(&status.message),
                reason: &status.reason,
                code: Some(status.code),
                ..Self::default()
            },
            Outcome::Unanswered => Self {
                status: "Failure",
                message: "the request was abandoned before it was answered; it may have taken effect",
                ..Self::default()
            },
        }
    }
}

fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// The beginning of a text.
fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}
