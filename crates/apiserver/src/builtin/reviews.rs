//! Questions that are asked by sending an object and answered by its status: who am I, may I, may they.

use ferroplane_golang::json::JsonObject;
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::status::{Resource, Status};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::SERVICE_ACCOUNTS;
use crate::auth::authenticate::{ServiceAccount, TokenAnswer};
use crate::auth::identity::Identity;
use crate::auth::rbac::Attributes;
use crate::clock;
use crate::server::ServerState;

impl ServerState {
    /// Answers a review of a kind, which was asked by someone about a namespace or none.
    pub(crate) fn review(
        &self,
        kind: &str,
        identity: &Identity,
        namespace: &str,
        mut review: JsonObject,
    ) -> Result<Value, Status> {
        review.entry("metadata").or_insert_with(|| json!({}));
        let spec = review.get("spec").cloned().unwrap_or_default();
        let status = match kind {
            "SelfSubjectReview" => json!({"userInfo": identity.to_json()}),
            "SelfSubjectAccessReview" => {
                is_one_question(&spec)?;
                self.access(identity, &spec)
            }
            "SubjectAccessReview" => {
                is_one_question(&spec)?;
                self.access(&subject(&spec)?, &spec)
            }
            "LocalSubjectAccessReview" => {
                is_one_question(&spec)?;
                is_about(&spec, namespace)?;
                self.access(&subject(&spec)?, &spec)
            }
            "SelfSubjectRulesReview" => {
                let namespace = spec["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(Status::bad_request("no namespace on request"));
                }
                self.authorizer.policy().rules_of(identity, namespace).to_status()
            }
            "TokenReview" => return self.tokens()?.review(&review, now()).map(Value::Object),
            _ => return Err(Status::internal("an unknown kind of review")),
        };
        review.insert("status".to_owned(), status);
        Ok(Value::Object(review))
    }

    fn access(&self, identity: &Identity, spec: &Value) -> Value {
        let text = |value: &'_ Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let resource = &spec["resourceAttributes"];
        let path = spec["nonResourceAttributes"]["path"].as_str();
        // The verb stands beside what it is about.
        let source = if path.is_some() { &spec["nonResourceAttributes"] } else { resource };
        let (verb, group, name) = (text(source, "verb"), text(resource, "group"), text(resource, "name"));
        let (plural, part) = (text(resource, "resource"), text(resource, "subresource"));
        let namespace = text(resource, "namespace");
        let attributes = Attributes {
            verb: &verb,
            group: &group,
            resource: &plural,
            subresource: &part,
            name: &name,
            namespace: &namespace,
            path,
        };
        let decision = self.authorizer.policy().decide(identity, &attributes);
        let mut status = json!({"allowed": decision.is_allowed()});
        let reason = decision.reason();
        if !reason.is_empty() {
            status["reason"] = reason.into();
        }
        status
    }

    fn tokens(&self) -> Result<&crate::auth::authenticate::Authenticator, Status> {
        self.authenticator.get().ok_or_else(|| Status::unavailable("this server knows no tokens"))
    }

    /// A token for a service account.
    pub(crate) fn token(
        &self,
        namespace: &str,
        name: &str,
        request: &JsonObject,
    ) -> Result<TokenAnswer, Status> {
        let accounts = ferroplane_schema::status::Resource::new("", "serviceaccounts");
        let entry = self.store.get(&self.store.collection(SERVICE_ACCOUNTS).key(namespace, name));
        let entry = entry.ok_or_else(|| Status::not_found(&accounts, name))?;
        let uid = entry.metadata().uid.to_string();
        let account = ServiceAccount { namespace, name, uid: &uid };
        let issuer = self.issuer.get().ok_or_else(|| Status::unavailable("this server issues no tokens"))?;
        issuer.request(account, request, now())
    }
}

/// A review asks about an object or about a path.
fn is_one_question(spec: &Value) -> Result<(), Status> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_null(), path.is_null()) {
        (false, false) => {
            let shown = json!({"Path": path["path"], "Verb": path["verb"]});
            Err(refuse(
                &["nonResourceAttributes"],
                shown,
                "cannot be specified in combination with resourceAttributes",
            ))
        }
        (true, true) => {
            let words = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Err(refuse(&["resourceAttributes"], Value::Null, words))
        }
        _ => Ok(()),
    }
}

/// Whether a review that is asked in a namespace is about it.
fn is_about(spec: &Value, namespace: &str) -> Result<(), Status> {
    let asked = &spec["resourceAttributes"]["namespace"];
    if asked == namespace {
        return Ok(());
    }
    Err(refuse(&["resourceAttributes", "namespace"], asked.clone(), "must match metadata.namespace"))
}

fn refuse(path: &[&str], value: Value, words: &str) -> Status {
    let spec = Path::new("spec");
    let first = spec.child(path.first().copied().unwrap_or_default());
    let error = match path.get(1) {
        Some(second) => Error::invalid(&first.child(second), value, words),
        None => Error::invalid(&first, value, words),
    };
    Status::invalid(&Resource::new("authorization.k8s.io", ""), "", &[error])
}

fn now() -> Timestamp {
    Timestamp::from_second(clock::now().seconds).unwrap_or_default()
}

/// Whom a review asks about.
fn subject(spec: &Value) -> Result<Identity, Status> {
    let name = spec["user"].as_str().unwrap_or_default();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let groups = texts(&spec["groups"]);
    if name.is_empty() && groups.is_empty() {
        return Err(refuse(&["user"], Value::from(""), "at least one of user or group must be specified"));
    }
    let extra = spec["extra"].as_object().into_iter().flatten();
    Ok(Identity {
        name: name.to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups,
        extra: extra.map(|(key, value)| (key.clone(), texts(value))).collect(),
    })
}
