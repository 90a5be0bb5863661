//! Stable names: of composed resources, and of their field managers.

use ferroplane_api::{Object, keys, meta};
use ferroplane_wire::to_hex;
use sha2::{Digest as _, Sha256};

/// The longest value of a label, because names become values of labels.
const MAX_NAME: usize = 63;
const HASH_DIGITS: usize = 12;

/// The name of a composed resource without one. It is always the same for the same composite resource and key: a name that could change
/// would orphan the resource with the old one.
pub fn composed_name(generate_name: &str, composite_uid: &str, resource: &str) -> String {
    // The same hash as Crossplane's (internal/names), so that what it composed keeps its names.
    let mut hash = to_hex(&Sha256::new().chain_update(composite_uid).chain_update(resource).finalize());
    hash.truncate(HASH_DIGITS);
    let mut prefix = generate_name.to_owned();
    if !prefix.is_empty() && !prefix.ends_with('-') {
        prefix.push('-');
    }
    let room = MAX_NAME - HASH_DIGITS;
    if prefix.len() > room {
        let end = prefix.floor_char_boundary(room);
        // `end` is never zero: the prefix is longer than what is cut off.
        if prefix.as_bytes()[end - 1] == b'-' {
            prefix.truncate(end);
        } else {
            prefix.truncate(prefix.floor_char_boundary(room - 1));
            prefix.push('-');
        }
    }
    prefix + &hash
}

/// The field manager for composed resources of this composite resource. Each has its own, so that two that compose the same object
/// conflict.
pub fn field_manager(composite: &Object) -> String {
    let (kind, group) = (meta::kind(composite), meta::group(meta::api_version(composite)));
    // Name and kind, not the uid: a restored XR has another uid, and must continue to own its fields.
    let mut hash = Sha256::new().chain_update(meta::name(composite)).chain_update(kind);
    if !group.is_empty() {
        hash.update(".");
        hash.update(group);
    }
    format!("{}{}", keys::COMPOSED_MANAGER_PREFIX, to_hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn composed_names_never_change() {
        let uid = "75e4a668-035f-4ce8-8c45-f4d3ac850155";
        let long = "very-long-parent-name-".repeat(3);
        let longer = "very-long-parent-name-without-ending-hyphen".repeat(2);
        let vectors = [
            ("cool-resource-", uid, "database", "cool-resource-38ce86992a27"),
            ("resource", uid, "database", "resource-38ce86992a27"),
            ("", uid, "database", "38ce86992a27"),
            ("parent-", uid, "storage", "parent-abcd22a110fe"),
            ("parent-", "uid-123", "database", "parent-5f968d238736"),
            ("parent-", "uid-456", "database", "parent-bd4f105d0576"),
            ("cool-resource-", uid, "kid1", "cool-resource-12d400e0a9a6"),
            (&long, uid, "database", "very-long-parent-name-very-long-parent-name-very-l-38ce86992a27"),
            (&longer, uid, "database", "very-long-parent-name-without-ending-hyphenvery-lo-38ce86992a27"),
            (
                "cool-resource-with-a-really-long-name-that-can-not-fit-all-in-one-place-",
                uid,
                "pipeline-name-of-cool-resource",
                "cool-resource-with-a-really-long-name-that-can-not-414af43727ed",
            ),
            (
                "parent-xr-",
                uid,
                "test-resource-with-a-super-duper-really-long-name-to-test-compaction",
                "parent-xr-e5ac98dc40a2",
            ),
        ];
        for (prefix, uid, key, name) in vectors {
            assert_eq!(composed_name(prefix, uid, key), name);
        }
    }

    #[test]
    fn field_managers_never_change() {
        let composite = json!({
            "apiVersion": "example.org/v1", "kind": "ClusterTest", "metadata": {"name": "basic-xr-cluster"}
        });
        assert_eq!(
            field_manager(composite.as_object().unwrap()),
            "apiextensions.crossplane.io/composed/\
             721e12f88ae906ee09c4f17ea6f0db738fff42f11132877a2ed6650970a03104"
        );
    }
}
