//! Which of Kubernetes' own kinds do not live in namespaces. A cluster would refuse them to a namespaced
//! composite resource, so rendering has to say so.

const CLUSTER_SCOPED: [(&str, &[&str]); 9] = [
    ("", &["Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("networking.k8s.io", &["IngressClass"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    ("storage.k8s.io", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
];

/// Whether objects of this kind are known not to live in namespaces.
pub(crate) fn is_cluster_scoped(group: &str, kind: &str) -> bool {
    CLUSTER_SCOPED.iter().any(|(candidate, kinds)| *candidate == group && kinds.contains(&kind))
}
