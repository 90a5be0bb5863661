//! What keeps a configuration from being applied, in the words of Kubernetes.
//!
//! Follows structured-merge-diff 6.3.3, `merge/conflict.go`; apimachinery 0.36.4,
//! `pkg/util/managedfields/internal/conflict.go`.

use ferroplane_golang::strconv::quote;

use super::ledger::{Identity, Operation, by_text};
use crate::merge::path::Element;
use crate::merge::set::Set;

/// Why a configuration was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Others own what it would change: 409, reason `Conflict`.
    #[error("{}", message(.0))]
    Conflicts(Vec<Conflict>),
    /// 400, reason `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// 500.
    #[error("{0}")]
    Failed(String),
}

/// A field that another client owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, as errors name it.
    pub owner: String,
    /// The path of the field.
    pub field: String,
}

/// A cause of a failure, as a `Status` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    pub reason: &'static str,
    pub message: String,
    pub field: String,
}

impl ApplyError {
    /// The status code for a client.
    pub fn code(&self) -> u16 {
        match self {
            Self::Conflicts(_) => 409,
            Self::BadRequest(_) => 400,
            Self::Failed(_) => 500,
        }
    }

    /// The causes for a client, one for each conflict.
    pub fn causes(&self) -> Vec<Cause> {
        let Self::Conflicts(conflicts) = self else { return Vec::new() };
        let cause = |conflict: &Conflict| Cause {
            reason: "FieldManagerConflict",
            message: format!("conflict with {}", conflict.owner),
            field: conflict.field.clone(),
        };
        conflicts.iter().map(cause).collect()
    }
}

fn message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", conflict.owner, conflict.field);
    }
    let mut lines = Vec::new();
    let mut owner = None;
    for conflict in conflicts {
        if owner != Some(&conflict.owner) {
            lines.push(format!("conflicts with {}:", conflict.owner));
            owner = Some(&conflict.owner);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Conflicts while they may still be allowed.
pub(super) type Taken<'a> = Vec<(Identity<'a>, Set<'a>)>;

/// The conflicts that remain if some fields may be taken.
pub(super) fn conflicts(mut taken: Taken<'_>, allowed: Option<&Set<'_>>) -> ApplyError {
    // Upstream ranges over a sorted map of identities; clients compare these messages.
    taken.sort_by(|one, other| by_text(&one.0, &other.0));
    let mut conflicts = Vec::new();
    for (identity, fields) in &taken {
        let owner = describe(identity);
        fields.for_each(&mut |path| {
            if !allowed.is_some_and(|allowed| allowed.contains(path)) {
                let field = path.iter().map(Element::to_string).collect();
                conflicts.push(Conflict { owner: owner.clone(), field });
            }
        });
    }
    ApplyError::Conflicts(conflicts)
}

fn describe(identity: &Identity<'_>) -> String {
    let mut text = quote(&identity.manager);
    if !identity.subresource.is_empty() {
        text.push_str(&format!(" with subresource {}", quote(&identity.subresource)));
    }
    // Appliers are named without their version, because they keep their identity across versions.
    if identity.operation == Operation::Update {
        text.push_str(&format!(" using {}", identity.api_version));
    }
    text
}
