//! Subjects: users, groups and service accounts.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// The group that needs no rules.
pub(super) const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// A user who can be given rights.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind")]
pub enum Subject {
    Group { name: String },
    ServiceAccount { namespace: String, name: String },
    User { name: String },
}

impl Subject {
    pub fn group(name: &str) -> Self {
        Self::Group { name: name.to_owned() }
    }

    /// A user. What service accounts are called among users is the service account.
    pub fn user(name: &str) -> Self {
        let account = name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'));
        match account {
            Some((namespace, name)) => {
                Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => Self::User { name: name.to_owned() },
        }
    }

    /// The subject of a binding in this namespace. None if it names no subject.
    pub(super) fn read(value: &Value, namespace: &str) -> Option<Self> {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        match text("kind") {
            "User" => Some(Self::user(text("name"))),
            "Group" => Some(Self::group(text("name"))),
            "ServiceAccount" => {
                // Without a namespace it is in that of the binding, and without any there is no such account.
                let own = Some(text("namespace")).filter(|own| !own.is_empty()).unwrap_or(namespace);
                let (namespace, name) = (own.to_owned(), text("name").to_owned());
                (!namespace.is_empty()).then_some(Self::ServiceAccount { namespace, name })
            }
            _ => None,
        }
    }

    /// The groups that it is in whatever anybody says.
    pub(super) fn implied_groups(&self) -> Vec<Self> {
        match self {
            Self::Group { .. } => Vec::new(),
            Self::User { .. } => vec![Self::group(AUTHENTICATED)],
            Self::ServiceAccount { namespace, .. } => vec![
                Self::group(&format!("{SERVICE_ACCOUNTS}:{namespace}")),
                Self::group(SERVICE_ACCOUNTS),
                Self::group(AUTHENTICATED),
            ],
        }
    }

    pub(super) fn is_masters(&self) -> bool {
        matches!(self, Self::Group { name } if name == MASTERS)
    }

    /// Whether it is part of Kubernetes or of the control plane itself, and no person or program of somebody's.
    pub fn is_of_the_system(&self) -> bool {
        match self {
            Self::User { name } => name.starts_with("system:"),
            Self::ServiceAccount { namespace, .. } => namespace == "kube-system",
            Self::Group { name } => {
                let for_people = [MASTERS, AUTHENTICATED, "system:unauthenticated", SERVICE_ACCOUNTS];
                let is_for_accounts = name.starts_with("system:serviceaccounts:");
                name.starts_with("system:") && !is_for_accounts && !for_people.contains(&name.as_str())
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group { name } => write!(output, "Group {name}"),
            Self::ServiceAccount { namespace, name } => write!(output, "ServiceAccount {namespace}/{name}"),
            Self::User { name } => write!(output, "User {name}"),
        }
    }
}
