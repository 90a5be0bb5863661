//! The strongest powers, each as a question.

use ferroplane_api::keys;
use serde::Serialize;

use super::answer::{Answer, Audit};
use super::input::DEFINITIONS;
use super::rule::{BLOCK_DELETE, Question};
use crate::snapshot::Home;

/// Something that few should be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Power {
    pub name: &'static str,
    pub means: &'static str,
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    is_namespaced: bool,
    /// Whether it means nothing where no pods run.
    needs_pods: bool,
}

/// A subject with a power.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PowerHeld {
    pub power: &'static str,
    #[serde(flatten)]
    pub answer: Answer,
}

const fn power(
    name: &'static str,
    means: &'static str,
    [verb, group, resource]: [&'static str; 3],
    is_namespaced: bool,
) -> Power {
    Power { name, means, verb, group, resource, is_namespaced, needs_pods: false }
}

const EVERYTHING: &str = "everything";
const EVERYTHING_THERE: &str = "everything-there";

/// All of them, the strongest first.
pub const POWERS: &[Power] = &[
    power(EVERYTHING, "has every right", ["*", "*", "*"], false),
    power(EVERYTHING_THERE, "has every right in a namespace", ["*", "*", "*"], true),
    power("read-secrets", "reads Secrets", ["get", "", "secrets"], true),
    power("write-secrets", "changes Secrets", ["patch", "", "secrets"], true),
    Power { needs_pods: true, ..power("run-pods", "runs pods", ["create", "", "pods"], true) },
    power(
        "change-writes",
        "sees and changes what others write (MutatingWebhookConfigurations)",
        ["patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"],
        false,
    ),
    power(
        "change-kinds",
        "changes and deletes kinds (CustomResourceDefinitions)",
        ["patch", "apiextensions.k8s.io", "customresourcedefinitions"],
        false,
    ),
    power("write-compositions", "decides what is composed", ["patch", DEFINITIONS, "compositions"], false),
    power("write-functions", "decides which code composes", ["patch", keys::PKG, "functions"], false),
    power(
        "define-kinds",
        "defines kinds (XRDs)",
        ["create", DEFINITIONS, "compositeresourcedefinitions"],
        false,
    ),
    power(
        "grant-access",
        "lets composite resources read across namespaces",
        ["create", keys::FERROPLANE, "accessgrants"],
        false,
    ),
    power("delete-namespaces", "deletes namespaces", ["delete", "", "namespaces"], false),
    power("block-deletion", "keeps objects from being deleted (Usages)", [BLOCK_DELETE, "", ""], true),
];

impl Audit {
    /// Everybody's strongest powers. A user who has every right somewhere has no other powers there.
    pub fn powers(&self, namespace: Option<&str>) -> Vec<PowerHeld> {
        let mut found: Vec<PowerHeld> = Vec::new();
        for power in POWERS {
            if power.needs_pods && self.facts.input.home == Home::Embedded || !self.is_served(power) {
                continue;
            }
            let mut question = Question::about(power.verb, power.group, power.resource, power.is_namespaced);
            question.namespace = namespace.map(str::to_owned);
            for answer in self.who_can(&question) {
                let is_less = |held: &PowerHeld| {
                    let is_all = held.power == EVERYTHING
                        || held.power == EVERYTHING_THERE && held.answer.reach == answer.reach;
                    held.answer.subject == answer.subject
                        && is_all
                        && (held.answer.is_certain || !answer.is_certain)
                };
                if !found.iter().any(is_less) {
                    found.push(PowerHeld { power: power.name, answer });
                }
            }
        }
        // Each subject's powers together, those first who have the strongest.
        let rank = |name: &str| POWERS.iter().position(|power| power.name == name);
        let best = |held: &PowerHeld| {
            let own = found.iter().filter(|other| other.answer.subject == held.answer.subject);
            own.map(|other| (rank(other.power), !other.answer.is_certain)).min()
        };
        let mut sorted: Vec<_> =
            found.iter().map(|held| ((best(held), held.answer.subject.clone()), held.clone())).collect();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        sorted.into_iter().map(|(_, held)| held).collect()
    }

    fn is_served(&self, power: &Power) -> bool {
        power.resource.is_empty()
            || power.resource == "*"
            || self.facts.input.kind_of(power.group, power.resource).is_some()
    }
}
