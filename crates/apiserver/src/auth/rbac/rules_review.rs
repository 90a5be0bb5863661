//! Everything that someone may do: the answer to `SelfSubjectRulesReview`.

use std::ops::ControlFlow;

use serde_json::{Value, json};

use super::decide::join;
use super::escalation::everything;
use super::{Policy, PolicyRule};
use crate::auth::identity::{Identity, MASTERS};

/// The rules of one user in one namespace.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<PolicyRule>,
    complaint: String,
}

impl Policy {
    pub fn rules_of(&self, identity: &Identity, namespace: &str) -> Rules {
        let mut found = Rules::default();
        let mut complaints = Vec::new();
        self.visit(identity, namespace, |rules| {
            match rules {
                Ok(rules) => found.rules.extend_from_slice(rules),
                Err(missing) => complaints.push(missing.to_string()),
            }
            ControlFlow::Continue(())
        });
        if identity.is_in(MASTERS) && !found.rules.starts_with(&everything()) {
            found.rules.splice(..0, everything());
        }
        if !complaints.is_empty() {
            found.complaint = join(complaints);
        }
        found
    }
}

impl Rules {
    /// The `status` of the review.
    pub fn to_status(&self) -> Value {
        let of_resources = self.rules.iter().filter(|rule| !rule.resources.is_empty());
        let of_paths = self.rules.iter().filter(|rule| !rule.non_resource_urls.is_empty());
        let mut status = json!({
            "resourceRules": of_resources.map(resource_rule).collect::<Vec<_>>(),
            "nonResourceRules": of_paths
                .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}))
                .collect::<Vec<_>>(),
            "incomplete": false,
        });
        if !self.complaint.is_empty() {
            status["evaluationError"] = json!(self.complaint);
        }
        status
    }
}

fn resource_rule(rule: &PolicyRule) -> Value {
    let mut shown = json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
    if !rule.resource_names.is_empty() {
        shown["resourceNames"] = json!(rule.resource_names);
    }
    shown
}
