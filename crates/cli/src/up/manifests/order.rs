//! In which order objects are applied. Performs no I/O.

use ferroplane_api::{Object, meta};

/// What others need comes first: where they live, what their kinds are, how they are composed.
pub(crate) fn rank(object: &Object) -> u8 {
    match (meta::group(meta::api_version(object)), meta::kind(object)) {
        ("", "Namespace") => 0,
        ("apiextensions.k8s.io", _) => 1,
        ("apiextensions.crossplane.io", "CompositeResourceDefinition") => 2,
        ("pkg.crossplane.io", _) => 3,
        ("apiextensions.crossplane.io", _) => 4,
        ("" | "rbac.authorization.k8s.io", _) => 5,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_come_before_what_they_define() {
        let mut kinds = [
            ("example.org/v1", "App"),
            ("apiextensions.crossplane.io/v1", "Composition"),
            ("apiextensions.crossplane.io/v2", "CompositeResourceDefinition"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("v1", "Namespace"),
        ]
        .map(|(version, kind)| {
            json!({"apiVersion": version, "kind": kind}).as_object().cloned().unwrap_or_default()
        });
        kinds.sort_by_key(rank);
        let kinds = kinds.each_ref().map(meta::kind);
        let expected =
            ["Namespace", "CustomResourceDefinition", "CompositeResourceDefinition", "Composition", "App"];
        assert_eq!(kinds, expected);
    }
}
