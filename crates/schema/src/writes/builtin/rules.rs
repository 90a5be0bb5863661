//! Facts about kinds that no table of fields tells.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry`.

use super::special::Special;

/// How a kind differs from most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Whether changes are counted.
    pub(super) has_generation: bool,
    pub(super) allows_unconditional_update: bool,
    pub(super) allows_create_on_update: bool,
    pub(super) special: Special,
}

impl Rules {
    pub(super) fn of(group: &str, kind: &str) -> Self {
        Self {
            has_generation: has_generation(group, kind),
            allows_unconditional_update: !needs_version(kind),
            allows_create_on_update: is_created_on_update(group, kind),
            special: Special::of(group, kind),
        }
    }
}

fn has_generation(group: &str, kind: &str) -> bool {
    match group {
        "apps" => kind != "ControllerRevision",
        "batch" | "admissionregistration.k8s.io" | "apiextensions.k8s.io" => true,
        "networking.k8s.io" => matches!(kind, "Ingress" | "IngressClass" | "NetworkPolicy"),
        "policy" => kind == "PodDisruptionBudget",
        "discovery.k8s.io" => kind == "EndpointSlice",
        "scheduling.k8s.io" => kind == "PriorityClass",
        "" => matches!(kind, "Pod" | "ReplicationController"),
        _ => false,
    }
}

fn needs_version(kind: &str) -> bool {
    matches!(
        kind,
        "CustomResourceDefinition"
            | "Lease"
            | "MutatingWebhookConfiguration"
            | "PodDisruptionBudget"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "ValidatingWebhookConfiguration"
    )
}

fn is_created_on_update(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(kind, "Endpoints" | "Event" | "LimitRange" | "Service"),
        "coordination.k8s.io" | "events.k8s.io" | "rbac.authorization.k8s.io" => true,
        _ => false,
    }
}
