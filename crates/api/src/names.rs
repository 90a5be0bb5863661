//! Which names Kubernetes accepts.

const RBAC: &str = "rbac.authorization.k8s.io";

/// Whether an object of this group and kind may have this name.
pub fn is_valid(name: &str, group: &str, kind: &str) -> bool {
    let may_have_colons =
        group == RBAC && ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"].contains(&kind);
    // Kubernetes takes more for these kinds (any segment of a path); Crossplane checks so, and refuses the
    // rest before anything is applied.
    if may_have_colons { is_subdomain(&name.replace(':', "")) } else { is_subdomain(name) }
}

/// An RFC 1123 subdomain: labels of lower-case letters, digits and inner hyphens, joined by dots.
pub fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (Some(first), Some(last)) = (label.bytes().next(), label.bytes().last()) else { return false };
    is_alphanumeric(first)
        && is_alphanumeric(last)
        && label.bytes().all(|byte| is_alphanumeric(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomains_are_told_from_other_text() {
        for name in ["a", "a-b", "a.b", "0", "a-0.b-1", &"a".repeat(253)] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in ["", "-a", "a-", "a..b", "A", "a_b", ".a", "a.", "a:b", &"a".repeat(254)] {
            assert!(!is_subdomain(name), "{name}");
        }
    }

    #[test]
    fn only_rbac_kinds_may_have_colons() {
        assert!(is_valid("system:aggregate", "rbac.authorization.k8s.io", "ClusterRole"));
        assert!(!is_valid("system:aggregate", "", "ConfigMap"));
    }
}
