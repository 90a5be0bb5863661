//! May they?

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use ferroplane_golang::strconv::quote;
use ferroplane_schema::status::Status;

use super::objects::{Binding, RoleReference, describe};
use super::{Attributes, GROUP, Policy, PolicyRule};
use crate::auth::identity::{Identity, MASTERS};

/// The answer.
#[derive(Debug)]
pub enum Decision {
    Allowed(Option<Grant>),
    /// With roles that bindings refer to and that are missing, in words.
    Denied(String),
}

/// What allowed it. Members of `system:masters` need none.
#[derive(Debug)]
pub struct Grant {
    binding: Arc<Binding>,
    /// Which of the subjects was meant.
    position: usize,
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Why, for reviews and the audit log. May be empty.
    pub fn reason(&self) -> String {
        match self {
            Self::Allowed(grant) => grant.as_ref().map(ToString::to_string).unwrap_or_default(),
            Self::Denied(reason) => reason.clone(),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        output.write_str("RBAC: allowed by ")?;
        describe(&self.binding, self.position, output)
    }
}

impl Policy {
    /// Whether someone may do something.
    pub fn decide(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision {
        // Without reading any object, so that an administrator can repair broken rights.
        if identity.is_in(MASTERS) {
            return Decision::Allowed(None);
        }
        let general = self.custom_groups.generalise(attributes);
        let asked = [Some(attributes), general.as_ref()];
        let mut missing = Vec::new();
        for binding in self.bindings_of(identity, attributes.namespace) {
            match self.allows(binding, asked) {
                Some(true) => {
                    let position = binding.position_of(identity);
                    return Decision::Allowed(Some(Grant { binding: Arc::clone(binding), position }));
                }
                Some(false) => {}
                None => missing.push(RoleNotFound::of(&binding.role).to_string()),
            }
        }
        Decision::Denied(if missing.is_empty() { String::new() } else { format!("RBAC: {}", join(missing)) })
    }

    /// Nothing if someone may do something, and the refusal otherwise.
    pub fn check(&self, identity: &Identity, attributes: &Attributes<'_>) -> Result<(), Status> {
        match self.decide(identity, attributes) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(reason) => Err(attributes.forbidden(identity, &reason)),
        }
    }

    /// Shows all rules that someone has, each binding once, and what is missing.
    pub(super) fn visit<'p>(
        &'p self,
        identity: &'p Identity,
        namespace: &str,
        mut visitor: impl FnMut(Result<&'p [PolicyRule], RoleNotFound>) -> ControlFlow<()>,
    ) {
        let mut visited = std::collections::HashSet::new();
        for binding in self.bindings_of(identity, namespace) {
            if visited.insert(Arc::as_ptr(binding)) {
                let rules = self.referenced(&binding.role, &binding.namespace);
                let rules = rules.ok_or_else(|| RoleNotFound::of(&binding.role));
                if visitor(rules).is_break() {
                    return;
                }
            }
        }
    }
}

/// A role that a binding refers to is not there, or cannot be. The words are those of Kubernetes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RoleNotFound {
    #[error("{}.{GROUP} {} not found", kind.to_lowercase(), quote(name))]
    Missing { kind: String, name: String },
    #[error("unsupported role reference kind: {}", quote(.0))]
    UnsupportedKind(String),
}

impl RoleNotFound {
    fn of(role: &RoleReference) -> Self {
        match role.kind.as_str() {
            kind @ ("Role" | "ClusterRole") => {
                Self::Missing { kind: kind.to_owned(), name: role.name.clone() }
            }
            kind => Self::UnsupportedKind(kind.to_owned()),
        }
    }
}

/// Several complaints as one, each once.
pub(super) fn join(mut complaints: Vec<String>) -> String {
    let mut seen = std::collections::HashSet::new();
    complaints.retain(|complaint| seen.insert(complaint.clone()));
    if complaints.len() == 1 { complaints.swap_remove(0) } else { format!("[{}]", complaints.join(", ")) }
}

#[cfg(test)]
mod tests;
