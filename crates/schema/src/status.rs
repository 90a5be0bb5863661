//! The `Status` object: how a Kubernetes API server says that something went wrong, or that there is nothing to say.
//!
//! Follows apimachinery 0.36.4, `pkg/api/errors/errors.go`.

use std::borrow::Cow;

use ferroplane_golang::strconv::quote;
use serde_json::{Map, Value, json};

use crate::field::{self, Error as FieldError};

/// What a request was about: the plural name of a resource, or a kind, in a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resource {
    pub group: String,
    pub name: String,
}

impl Resource {
    pub fn new(group: impl Into<String>, name: impl Into<String>) -> Self {
        Self { group: group.into(), name: name.into() }
    }

    fn is_empty(&self) -> bool {
        self.group.is_empty() && self.name.is_empty()
    }

    /// For example `widgets.example.org`.
    fn qualified(&self) -> String {
        if self.group.is_empty() { self.name.clone() } else { format!("{}.{}", self.name, self.group) }
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub is_success: bool,
    /// The code of HTTP.
    pub code: u16,
    /// For programs, empty if there is none.
    pub reason: Cow<'static, str>,
    /// For people.
    pub message: String,
    pub details: Option<Box<Details>>,
    /// What was noticed before it ended. Sent beside the object, not in it.
    pub warnings: Vec<String>,
}

/// What the message is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    pub name: String,
    pub resource: Resource,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

/// One of several reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl Details {
    fn of(resource: &Resource, name: &str) -> Self {
        Self { resource: resource.clone(), name: name.to_owned(), ..Self::default() }
    }
}

impl From<&FieldError> for Cause {
    fn from(error: &FieldError) -> Self {
        Self { reason: error.kind.reason().to_owned(), message: error.body(), field: error.field.clone() }
    }
}

impl Status {
    fn failure(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let (reason, message) = (Cow::Borrowed(reason), message.into());
        Self { is_success: false, code, reason, message, details: None, warnings: Vec::new() }
    }

    fn about(self, details: Details) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    /// The same, after these warnings.
    pub(crate) fn warned(mut self, mut warnings: Vec<String>) -> Self {
        warnings.append(&mut self.warnings);
        Self { warnings, ..self }
    }

    /// It went well, and there is nothing else to show.
    pub fn success(details: Option<Details>) -> Self {
        let details = details.map(Box::new);
        let (reason, message) = (Cow::Borrowed(""), String::new());
        // No code: Kubernetes sends none with a success.
        Self { is_success: true, code: 0, reason, message, details, warnings: Vec::new() }
    }

    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {} not found", resource.qualified(), quote(name));
        Self::failure(404, "NotFound", message).about(Details::of(resource, name))
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {} already exists", resource.qualified(), quote(name));
        Self::failure(409, "AlreadyExists", message).about(Details::of(resource, name))
    }

    /// All names that were generated are taken.
    pub fn generated_name_exists(resource: &Resource, name: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "{} {} already exists, the server was not able to generate a unique name for the object",
            resource.qualified(),
            quote(name)
        );
        let details = Details { retry_after_seconds, ..Details::of(resource, name) };
        Self::failure(409, "AlreadyExists", message).about(details)
    }

    pub fn unauthorized(message: &str) -> Self {
        Self::failure(401, "Unauthorized", if message.is_empty() { "not authorized" } else { message })
    }

    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = match (resource.is_empty(), name) {
            (true, _) => format!("forbidden: {why}"),
            (false, "") => format!("{} is forbidden: {why}", resource.qualified()),
            (false, name) => format!("{} {} is forbidden: {why}", resource.qualified(), quote(name)),
        };
        Self::failure(403, "Forbidden", message).about(Details::of(resource, name))
    }

    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {}: {why}", resource.qualified(), quote(name));
        Self::failure(409, "Conflict", message).about(Details::of(resource, name))
    }

    /// Someone else was faster.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// Another manager owns what is to be applied.
    pub fn apply_conflict(causes: Vec<Cause>, message: &str) -> Self {
        Self::failure(409, "Conflict", message).about(Details { causes, ..Details::default() })
    }

    pub fn gone(message: &str) -> Self {
        Self::failure(410, "Gone", message)
    }

    pub fn expired(message: &str) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// The object breaks rules. Here the resource is a kind.
    pub fn invalid(kind: &Resource, name: &str, errors: &[FieldError]) -> Self {
        let mut message = format!("{} {} is invalid", kind.qualified(), quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&field::aggregate(errors));
        }
        let causes = errors.iter().map(Cause::from).collect();
        Self::failure(422, "Invalid", message).about(Details { causes, ..Details::of(kind, name) })
    }

    pub fn bad_request(message: &str) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    pub fn too_many_requests(message: &str, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Self::failure(429, "TooManyRequests", message).about(details)
    }

    pub fn unavailable(message: &str) -> Self {
        Self::failure(503, "ServiceUnavailable", message)
    }

    pub fn method_not_supported(resource: &Resource, action: &str) -> Self {
        let kind = quote(&resource.qualified());
        let message = format!("{action} is not supported on resources of kind {kind}");
        Self::failure(405, "MethodNotAllowed", message).about(Details::of(resource, ""))
    }

    pub fn server_timeout(resource: &Resource, operation: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "The {operation} operation against {} could not be completed at this time, please try again.",
            resource.qualified()
        );
        let details = Details { retry_after_seconds, ..Details::of(resource, operation) };
        Self::failure(500, "ServerTimeout", message).about(details)
    }

    pub fn internal(why: &str) -> Self {
        let cause = Cause { message: why.to_owned(), ..Cause::default() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self::failure(500, "InternalError", format!("Internal error occurred: {why}")).about(details)
    }

    /// An unforeseen error: it has no reason.
    pub fn unexpected(message: &str) -> Self {
        Self::failure(500, "", message)
    }

    pub fn timeout(message: &str, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Self::failure(504, "Timeout", format!("Timeout: {message}")).about(details)
    }

    pub fn request_too_large(message: &str) -> Self {
        Self::failure(413, "RequestEntityTooLarge", format!("Request entity too large: {message}"))
    }

    pub fn not_acceptable(message: &str) -> Self {
        Self::failure(406, "NotAcceptable", message)
    }

    pub fn unsupported_media_type(message: &str) -> Self {
        Self::failure(415, "UnsupportedMediaType", message)
    }

    /// What a code alone says. `verb` is the method of HTTP, and `message` matters to some codes only.
    pub fn generic(code: u16, verb: &str, resource: &Resource, name: &str, message: &str) -> Self {
        let (reason, words) = generic_words(code, verb, message);
        let verb = verb.to_lowercase();
        let message = match (resource.is_empty(), name) {
            (true, _) => words,
            (false, "") => format!("{words} ({verb} {})", resource.qualified()),
            (false, name) => format!("{words} ({verb} {} {name})", resource.qualified()),
        };
        Self::failure(code, reason, message).about(Details::of(resource, name))
    }

    /// The `Status` object of another server. Missing fields are empty.
    pub fn from_json(object: &Value) -> Self {
        Self {
            is_success: object["status"] == "Success",
            code: object["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default(),
            reason: Cow::Owned(text_of(object, "reason")),
            message: text_of(object, "message"),
            details: object
                .get("details")
                .filter(|details| details.is_object())
                .map(|details| Box::new(Details::from_json(details))),
            warnings: Vec::new(),
        }
    }

    /// The object that is sent.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), json!("v1"));
        object.insert("kind".to_owned(), json!("Status"));
        // Go writes a struct that is empty even where it omits empty values.
        object.insert("metadata".to_owned(), json!({}));
        object.insert("status".to_owned(), json!(if self.is_success { "Success" } else { "Failure" }));
        put_text(&mut object, "message", &self.message);
        put_text(&mut object, "reason", &self.reason);
        if let Some(details) = &self.details {
            object.insert("details".to_owned(), details.to_json());
        }
        if self.code > 0 {
            object.insert("code".to_owned(), json!(self.code));
        }
        Value::Object(object)
    }
}

impl Details {
    fn from_json(details: &Value) -> Self {
        let causes = details["causes"].as_array().into_iter().flatten();
        let wait = details["retryAfterSeconds"].as_u64().and_then(|wait| u32::try_from(wait).ok());
        Self {
            name: text_of(details, "name"),
            resource: Resource::new(text_of(details, "group"), text_of(details, "kind")),
            uid: text_of(details, "uid"),
            causes: causes.map(Cause::from_json).collect(),
            retry_after_seconds: wait.unwrap_or_default(),
        }
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        put_text(&mut object, "name", &self.name);
        put_text(&mut object, "group", &self.resource.group);
        // Called a kind although it is mostly the plural name of a resource: so Kubernetes fills it in.
        put_text(&mut object, "kind", &self.resource.name);
        put_text(&mut object, "uid", &self.uid);
        if !self.causes.is_empty() {
            object.insert("causes".to_owned(), self.causes.iter().map(Cause::to_json).collect());
        }
        if self.retry_after_seconds > 0 {
            object.insert("retryAfterSeconds".to_owned(), json!(self.retry_after_seconds));
        }
        Value::Object(object)
    }
}

impl Cause {
    fn from_json(cause: &Value) -> Self {
        Self {
            reason: text_of(cause, "reason"),
            message: text_of(cause, "message"),
            field: text_of(cause, "field"),
        }
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        put_text(&mut object, "reason", &self.reason);
        put_text(&mut object, "message", &self.message);
        put_text(&mut object, "field", &self.field);
        Value::Object(object)
    }
}

fn text_of(object: &Value, name: &str) -> String {
    object[name].as_str().unwrap_or_default().to_owned()
}

fn put_text(object: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        object.insert(name.to_owned(), json!(text));
    }
}

fn generic_words(code: u16, verb: &str, message: &str) -> (&'static str, String) {
    let (reason, words) = match code {
        400 => ("BadRequest", "the server rejected our request for an unknown reason"),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => ("Forbidden", message),
        404 => ("NotFound", "the server could not find the requested resource"),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        406 if message.is_empty() || message == "unknown" => {
            ("NotAcceptable", "the server was unable to respond with a content type that the client supports")
        }
        406 => ("NotAcceptable", message),
        409 if verb == "POST" => ("AlreadyExists", "the server reported a conflict"),
        409 => ("Conflict", "the server reported a conflict"),
        415 => ("UnsupportedMediaType", message),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        // After 503 and 504, which have words of their own.
        500.. => {
            let message = quote(message);
            let words =
                format!("an error on the server ({message}) has prevented the request from succeeding");
            return ("InternalError", words);
        }
        _ => {
            let words = format!(
                "the server responded with the status code {code} but did not return more information"
            );
            return ("", words);
        }
    };
    (reason, words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Path;

    #[test]
    fn status_names_the_resource_and_its_group() {
        let status = Status::not_found(&Resource::new("example.org", "widgets"), "w").to_json();
        let expected = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404,
            "reason": "NotFound", "message": "widgets.example.org \"w\" not found",
            "details": {"name": "w", "group": "example.org", "kind": "widgets"},
        });
        assert_eq!(status, expected);
    }

    #[test]
    fn invalid_object_comes_with_a_cause_for_every_mistake() {
        let errors = [FieldError::required(&Path::new("spec").child("a"), "")];
        let status = Status::invalid(&Resource::new("example.org", "Widget"), "w", &errors).to_json();
        assert_eq!(status["message"], "Widget.example.org \"w\" is invalid: spec.a: Required value");
        let cause = json!({"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"});
        assert_eq!(status["details"]["causes"], json!([cause]));
    }
}
