//! Policies that admit or change objects by CEL: they are kept, so that what comes with them can be applied, but not enforced.

use crate::registry::Resource;

/// What who writes one has to know.
pub(crate) fn warning(resource: &Resource) -> Option<String> {
    let is_policy = resource.group == "admissionregistration.k8s.io"
        && (resource.names.plural.starts_with("validatingadmissionpolic")
            || resource.names.plural.starts_with("mutatingadmissionpolic"));
    is_policy.then(|| {
        format!(
            "this API server keeps objects of kind {} but does not enforce them: nothing is refused or changed by them; use \
             an admission webhook, or x-kubernetes-validations in the CustomResourceDefinition",
            resource.names.kind
        )
    })
}
