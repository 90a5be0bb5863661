//! Options of deletions, from the body or the query.

use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::status::Status;
use serde_json::{Value, json};

use super::{dry_run, invalid, number};
use crate::request::Query;

/// What becomes of what an object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) is_dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options. A body counts if there is one; otherwise the query does.
    pub(crate) fn read(body: Option<&Value>, query: &Query) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let raw = match body {
            // kube-apiserver does not merge the two: with a body, the query is not even read.
            Some(body) => Raw::of_body(body, &mut errors),
            None => Raw::of_query(query, &mut errors)?,
        };
        let options = raw.check(&mut errors);
        if errors.is_empty() { Ok(options) } else { Err(invalid("DeleteOptions", &errors)) }
    }
}

impl DeleteOptions {
    /// The options as webhooks see them.
    pub(crate) fn to_json(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(uid) = &self.uid {
            options["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(version) = &self.resource_version {
            options["preconditions"]["resourceVersion"] = version.as_str().into();
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = propagation.name().into();
        }
        if self.is_dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}

impl Propagation {
    fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

#[derive(Debug, Default)]
struct Raw {
    options: DeleteOptions,
    orphan_dependents: Option<bool>,
    policy: Option<String>,
}

impl Raw {
    fn of_body(body: &Value, errors: &mut Vec<Error>) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let dry = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self {
            options: DeleteOptions {
                uid: text(&body["preconditions"]["uid"]),
                resource_version: text(&body["preconditions"]["resourceVersion"]),
                propagation: None,
                grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
                is_dry_run: dry_run(dry, errors),
            },
            orphan_dependents: body["orphanDependents"].as_bool(),
            policy: text(&body["propagationPolicy"]),
        }
    }

    fn of_query(query: &Query, errors: &mut Vec<Error>) -> Result<Self, Status> {
        let options = DeleteOptions {
            grace_period_seconds: number(query, "gracePeriodSeconds")?,
            is_dry_run: dry_run(query.all("dryRun"), errors),
            ..DeleteOptions::default()
        };
        // That it is not there and that it is false are different: only the latter asks for a deletion in the
        // background.
        let orphan_dependents = query.has("orphanDependents").then(|| query.flag("orphanDependents"));
        let policy = query.has("propagationPolicy").then(|| query.get("propagationPolicy").to_owned());
        Ok(Self { options, orphan_dependents, policy })
    }

    fn check(self, errors: &mut Vec<Error>) -> DeleteOptions {
        let path = Path::new("propagationPolicy");
        if let (Some(policy), Some(_)) = (&self.policy, self.orphan_dependents) {
            // The words are those of kube-apiserver, which names a field that does not exist.
            let words = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(Error::invalid(&path, policy.as_str(), words));
        }
        let propagation = match self.policy.as_deref() {
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                // The order and the `nil` are kube-apiserver's: clients compare the message.
                let values = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(Error::not_supported(&path, other, values));
                None
            }
            None => self
                .orphan_dependents
                .map(|is_orphaned| if is_orphaned { Propagation::Orphan } else { Propagation::Background }),
        };
        DeleteOptions { propagation, ..self.options }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn body_counts_before_the_query() {
        let query = Query::of("propagationPolicy=Orphan");
        let body = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}});
        let options = DeleteOptions::read(Some(&body), &query).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Foreground));
        assert_eq!(options.uid.as_deref(), Some("u"));
        assert_eq!(DeleteOptions::read(None, &query).unwrap().propagation, Some(Propagation::Orphan));
    }

    #[test]
    fn policies_must_be_known_and_unambiguous() {
        let refused = |body: Value| DeleteOptions::read(Some(&body), &Query::default()).unwrap_err().message;
        assert_eq!(
            refused(json!({"propagationPolicy": "Later"})),
            r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Later": supported values: "Foreground", "Background", "Orphan", "nil""#
        );
        assert!(
            refused(json!({"propagationPolicy": "Orphan", "orphanDependents": true}))
                .contains("cannot be both set")
        );
    }
}
