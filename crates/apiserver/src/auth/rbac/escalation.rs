//! Prevents privilege escalation: users cannot grant rights that they do not hold.
//!
//! A user who writes a role must hold every right in it, unless they may `escalate` it; a user who writes a binding must hold
//! every right of its role, unless they may `bind` it.

use std::ops::ControlFlow;

use ferroplane_golang::strconv::quote;
use ferroplane_schema::status::{Resource, Status};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::cover::{self, Missing};
use super::decide::join;
use super::objects::RoleReference;
use super::rule::quote_list;
use super::{Attributes, GROUP, Policy, PolicyRule, RbacKind};
use crate::auth::identity::{Identity, MASTERS};

/// A role or binding that is about to be written.
#[derive(Debug, Clone, Copy)]
pub struct Write<'w> {
    pub kind: RbacKind,
    /// Of the request. Empty for the kinds of the cluster.
    pub namespace: &'w str,
    /// Of the request: empty when something is created.
    pub name: &'w str,
    pub new: &'w Map<String, Value>,
    pub old: Option<&'w Map<String, Value>>,
}

/// A user would grant rights that they do not hold. The text is that of Kubernetes.
#[derive(Debug, thiserror::Error)]
#[error(
    "user {user} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{missing}{}",
    unresolved.as_ref().map(|problems| format!("; resolution errors: [{problems}]")).unwrap_or_default()
)]
struct NotHeld {
    user: String,
    groups: String,
    missing: String,
    /// Roles that could not be checked.
    unresolved: Option<String>,
}

impl Policy {
    /// Refuses a write that would give away what its author does not hold.
    pub fn check_escalation(&self, identity: &Identity, write: &Write<'_>) -> Result<(), Status> {
        if identity.is_in(MASTERS) || write.old.is_some_and(|old| is_housekeeping(write.new, old)) {
            return Ok(());
        }
        match write.kind {
            RbacKind::Role | RbacKind::ClusterRole => self.check_role(identity, write),
            RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => self.check_binding(identity, write),
        }
    }

    fn check_role(&self, identity: &Identity, write: &Write<'_>) -> Result<(), Status> {
        let resource = write.kind.resource();
        let Write { namespace, name, .. } = *write;
        let escalate =
            Attributes { verb: "escalate", group: GROUP, resource, namespace, name, ..Attributes::default() };
        // Before looking at the rules: who may escalate may write any.
        if self.decide(identity, &escalate).is_allowed() {
            return Ok(());
        }
        let rules = write.new.get("rules").map_or(Ok(None), Option::<Vec<PolicyRule>>::deserialize);
        let rules = rules.map_err(|error| Status::bad_request(&error.to_string()))?.unwrap_or_default();
        self.check_holds(identity, namespace, &rules).map_err(|error| write.forbidden(&error.to_string()))?;
        // What a selector will gather is not known beforehand.
        let is_aggregated = aggregates(write.new) || write.old.is_some_and(aggregates);
        if write.kind == RbacKind::ClusterRole
            && is_aggregated
            && self.check_holds(identity, namespace, &everything()).is_err()
        {
            return Err(write.forbidden("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    fn check_binding(&self, identity: &Identity, write: &Write<'_>) -> Result<(), Status> {
        let role = RoleReference::of(write.new).map_err(|error| Status::bad_request(&error.to_string()))?;
        let resource = match role.kind.as_str() {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            kind => {
                let message = format!("unsupported role reference kind: {}", quote(kind));
                return Err(Status::unexpected(&message));
            }
        };
        // Who may `bind` a role need not hold what it grants: that is what the verb is for.
        let bind = Attributes {
            verb: "bind",
            group: &role.api_group,
            resource,
            name: &role.name,
            namespace: write.namespace,
            ..Attributes::default()
        };
        if self.decide(identity, &bind).is_allowed() {
            return Ok(());
        }
        let Some(rules) = self.referenced(&role, write.namespace) else {
            return Err(Status::not_found(&Resource::new(GROUP, resource), &role.name));
        };
        self.check_holds(identity, write.namespace, rules)
            .map_err(|error| write.forbidden(&error.to_string()))
    }

    /// Refuses someone who does not hold all rules.
    fn check_holds(&self, identity: &Identity, namespace: &str, rules: &[PolicyRule]) -> Result<(), NotHeld> {
        let mut held = Vec::new();
        let mut complaints = Vec::new();
        self.visit(identity, namespace, |found| {
            match found {
                Ok(rules) => held.extend(rules),
                Err(missing) => complaints.push(missing.to_string()),
            }
            ControlFlow::Continue(())
        });
        let missing = match cover::missing(&held, rules) {
            Missing::Rules(missing) if missing.is_empty() => return Ok(()),
            Missing::Rules(missing) => cover::list(missing),
            Missing::TooMany => "more combinations of verbs and resources than can be checked".to_owned(),
        };
        let unresolved = if complaints.is_empty() { None } else { Some(join(complaints)) };
        let (user, groups) = (quote(&identity.name), quote_list(&identity.groups));
        Err(NotHeld { user, groups, missing, unresolved })
    }
}

impl Write<'_> {
    fn forbidden(&self, why: &str) -> Status {
        let name = self.new.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        Status::forbidden(&Resource::new(GROUP, self.kind.resource()), name.unwrap_or_default(), why)
    }
}

/// The rules of someone who may do everything.
pub(super) fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

fn aggregates(role: &Map<String, Value>) -> bool {
    let selectors = role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors"));
    selectors.and_then(Value::as_array).is_some_and(|selectors| !selectors.is_empty())
}

/// Whether only fields change that the garbage collector writes: it must be able to, whatever the role grants.
fn is_housekeeping(new: &Map<String, Value>, old: &Map<String, Value>) -> bool {
    const LEFT_OUT: [&str; 4] = ["ownerReferences", "finalizers", "managedFields", "selfLink"];
    let metadata = |object: &Map<String, Value>| {
        let metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        said(metadata.into_iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())))
    };
    let rest =
        |object: &Map<String, Value>| said(object.clone().into_iter().filter(|(key, _)| key != "metadata"));
    rest(new) == rest(old) && metadata(new) == metadata(old)
}

/// An empty list or map says as little as none.
fn said(fields: impl Iterator<Item = (String, Value)>) -> Map<String, Value> {
    let is_said = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
        _ => true,
    };
    fields.filter(|(_, value)| is_said(value)).collect()
}

#[cfg(test)]
mod tests;
