//! One event of the log.

use std::net::IpAddr;

use ferroplane_schema::status::Status;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::auth::authenticate::random_uuid;
use crate::auth::identity::Identity;

/// The longest line. Whoever sends more has it left out.
const LONGEST: usize = 256 << 10;

/// The longest text that a client may put into a line.
const LONGEST_TEXT: usize = 2 << 10;

/// How much others may add to a line.
const MOST_ANNOTATIONS: usize = 64;

/// How much of a request to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    #[default]
    Metadata,
    /// With the object that was sent, unless that may hold secrets.
    Request,
}

/// What a request was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectReference<'e> {
    pub group: &'e str,
    pub version: &'e str,
    pub resource: &'e str,
    pub subresource: &'e str,
    pub namespace: &'e str,
    pub name: &'e str,
    pub uid: &'e str,
    pub resource_version: &'e str,
}

/// How it ended.
#[derive(Debug, Clone, Copy)]
pub enum Outcome<'e> {
    Success(u16),
    Failure(&'e Status),
    /// The client went away, or its time was up. What it asked for may have happened.
    Unanswered,
}

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Event<'e> {
    pub level: Level,
    /// Empty for a new one. It is what the header `Audit-Id` says.
    pub id: &'e str,
    pub received: Timestamp,
    pub answered: Timestamp,
    pub uri: &'e str,
    pub verb: &'e str,
    pub user: &'e Identity,
    /// Whom the user acted as.
    pub impersonated: Option<&'e Identity>,
    pub sources: &'e [IpAddr],
    pub user_agent: &'e str,
    pub object: Option<ObjectReference<'e>>,
    pub outcome: Outcome<'e>,
    /// What allowed it, if it was allowed.
    pub reason: Option<&'e str>,
    pub request: Option<&'e Value>,
    /// What others want to have written down.
    pub annotations: &'e [(String, String)],
}

impl Event<'_> {
    /// The line, with its end.
    pub(super) fn to_line(self) -> Vec<u8> {
        let mut event = self.to_json();
        let mut line = Value::Object(event.clone()).to_string();
        if line.len() > LONGEST {
            event.remove("requestObject");
            let annotations = event.entry("annotations").or_insert_with(|| json!({}));
            annotations["audit.k8s.io/truncated"] = json!("true");
            line = Value::Object(event).to_string();
        }
        line.push('\n');
        line.into_bytes()
    }

    fn to_json(self) -> Map<String, Value> {
        let request = self.request.filter(|_| self.level == Level::Request && !self.is_about_secrets());
        let level = if request.is_some() { "Request" } else { "Metadata" };
        let id = if self.id.is_empty() { random_uuid().unwrap_or_default() } else { self.id.to_owned() };
        let mut event = Map::from_iter([
            ("apiVersion".to_owned(), json!("audit.k8s.io/v1")),
            ("kind".to_owned(), json!("Event")),
            ("level".to_owned(), json!(level)),
            ("auditID".to_owned(), json!(id)),
            ("stage".to_owned(), json!("ResponseComplete")),
            ("requestURI".to_owned(), json!(clip(self.uri))),
            ("verb".to_owned(), json!(self.verb)),
            ("user".to_owned(), self.user.to_json()),
            ("responseStatus".to_owned(), self.outcome.to_json()),
            ("requestReceivedTimestamp".to_owned(), json!(format!("{:.6}", self.received))),
            ("stageTimestamp".to_owned(), json!(format!("{:.6}", self.answered))),
            ("annotations".to_owned(), self.annotations()),
        ]);
        if let Some(impersonated) = self.impersonated {
            event.insert("impersonatedUser".to_owned(), impersonated.to_json());
        }
        if !self.sources.is_empty() {
            event.insert("sourceIPs".to_owned(), json!(self.sources));
        }
        if !self.user_agent.is_empty() {
            event.insert("userAgent".to_owned(), json!(clip(self.user_agent)));
        }
        if let Some(object) = self.object {
            event.insert("objectRef".to_owned(), object.to_json());
        }
        if let Some(request) = request {
            event.insert("requestObject".to_owned(), request.clone());
        }
        event
    }

    fn annotations(&self) -> Value {
        let decision = if self.reason.is_some() { "allow" } else { "forbid" };
        let mut annotations = json!({
            "authorization.k8s.io/decision": decision,
            "authorization.k8s.io/reason": self.reason.unwrap_or_default(),
        });
        for (key, text) in self.annotations.iter().take(MOST_ANNOTATIONS) {
            annotations[clip(key)] = clip(text).into();
        }
        annotations
    }

    /// Whatever is not known to be harmless is not shown.
    fn is_about_secrets(&self) -> bool {
        match self.object {
            None => true,
            Some(object) => matches!(
                (object.group, object.resource, object.subresource),
                ("", "secrets", _) | ("", "serviceaccounts", "token") | ("authentication.k8s.io", _, _)
            ),
        }
    }
}

impl ObjectReference<'_> {
    fn to_json(self) -> Value {
        let fields = [
            ("resource", self.resource),
            ("namespace", self.namespace),
            ("name", self.name),
            ("uid", self.uid),
            ("apiGroup", self.group),
            ("apiVersion", self.version),
            ("resourceVersion", self.resource_version),
            ("subresource", self.subresource),
        ];
        let said = fields.into_iter().filter(|(_, text)| !text.is_empty());
        Value::Object(said.map(|(key, text)| (key.to_owned(), json!(clip(text)))).collect())
    }
}

impl Outcome<'_> {
    fn to_json(self) -> Value {
        match self {
            Self::Success(code) => json!({"metadata": {}, "code": code}),
            Self::Failure(status) => json!({
                "metadata": {},
                "status": "Failure",
                "message": clip(&status.message),
                "reason": status.reason,
                "code": status.code,
            }),
            Self::Unanswered => json!({
                "metadata": {},
                "status": "Failure",
                "message": "it was given up before it was answered; what was asked for may have happened",
            }),
        }
    }
}

/// The beginning of a text.
fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}
