//! The kinds of inputs that Functions define, so that `inputRef` can name objects.
//!
//! Crossplane does not install them. Several Functions, and several revisions of one, may define the same kind: none controls the
//! definition, and it serves every version that any of them defines.
//!
//! # Invariants
//! * A definition that no Function created is left alone.
//! * A version of another Function is not changed, and no version is removed: two Functions that disagree would overwrite each other for
//!   ever.
//! * Every active revision creates a definition that is missing.

use ferroplane_api::{Object, meta};
use serde_json::{Value, json};

use super::establish::{Establishing, contains, is_reference_to, labelled, owners, set_owner};

/// The definition to write. None if nothing is to change.
pub fn establish_input_kind(
    wanted: &Object,
    live: Option<&Object>,
    how: &Establishing<'_>,
) -> Option<Object> {
    let Some(live) = live else {
        // Also for an older active revision: it is not reconciled again once the newest one has created the definition, and its
        // versions would be missing.
        return Some(with_owners(labelled(wanted, how), Vec::new(), how));
    };
    let owners = owners(live);
    let is_function = |owner: &Value| owner["kind"] == "Function";
    if meta::controller_uid(live).is_some() || !owners.iter().any(is_function) {
        return None;
    }
    let has_others =
        owners.iter().any(|owner| is_function(owner) && !is_reference_to(owner, how.party.package));
    let mut object = with_owners(live.clone(), owners, how);
    let versions = merged(live, wanted, how.control && !has_others);
    meta::child(&mut object, "spec").insert("versions".to_owned(), versions.into());
    (object != *live).then_some(object)
}

fn with_owners(mut object: Object, mut owners: Vec<Value>, how: &Establishing<'_>) -> Object {
    for owner in [how.party.revision, how.party.package] {
        if !owners.iter().any(|present| is_reference_to(present, owner)) {
            set_owner(&mut owners, owner, false);
        }
    }
    meta::child(&mut object, "metadata").insert("ownerReferences".to_owned(), owners.into());
    object
}

/// The versions of a live definition, with those of another one.
fn merged(live: &Object, wanted: &Object, replaces: bool) -> Vec<Value> {
    let versions = |object: &Object| {
        let versions = object.get("spec").and_then(|spec| spec.get("versions")?.as_array());
        versions.cloned().unwrap_or_default()
    };
    let mut merged = versions(live);
    for mut version in versions(wanted) {
        let present = merged.iter_mut().find(|present| present["name"] == version["name"]);
        match present {
            None => {
                // The stored version stays the one that exists: stored objects have to remain readable.
                version["storage"] = json!(false);
                merged.push(version);
            }
            Some(present) => {
                version["storage"] = present["storage"].clone();
                if replaces && !contains(present, &version) {
                    *present = version;
                }
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::establish::Party;
    use super::*;

    fn object(value: Value) -> Object {
        let Value::Object(object) = value else { panic!("no object: {value}") };
        object
    }

    fn owner(kind: &str, name: &str) -> Object {
        object(
            json!({"apiVersion": "pkg.crossplane.io/v1", "kind": kind, "metadata": {"name": name, "uid": format!("uid-{name}")}}),
        )
    }

    fn definition(versions: &[(&str, &str)]) -> Object {
        let version = |(place, (name, about)): (usize, &(&str, &str))| json!({"name": name, "served": true, "storage": place == 0, "schema": {"openAPIV3Schema": {"description": about}}});
        let versions: Vec<_> = versions.iter().enumerate().map(version).collect();
        object(
            json!({"kind": "CustomResourceDefinition", "metadata": {"name": "inputs.fn"}, "spec": {"versions": versions}}),
        )
    }

    /// Establish the definition of a Function.
    fn bring(function: &str, wanted: &Object, live: Option<&Object>) -> Option<Object> {
        bring_as(true, function, wanted, live)
    }

    /// The same as its newest active revision, or as an older one.
    fn bring_as(is_newest: bool, function: &str, wanted: &Object, live: Option<&Object>) -> Option<Object> {
        let revision = format!("{function}-1");
        let (package, revision) = (owner("Function", function), owner("FunctionRevision", &revision));
        let (siblings, none) = (BTreeSet::new(), BTreeMap::new());
        let party = Party { package: &package, revision: &revision, siblings: &siblings };
        let how = Establishing { party, control: is_newest, common_labels: &none, common_annotations: &none };
        establish_input_kind(wanted, live, &how)
    }

    fn versions(object: &Object) -> Vec<(String, bool, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let read = |it: &Value| {
            let about = text(&it["schema"]["openAPIV3Schema"]["description"]);
            (text(&it["name"]), it["storage"] == true, about)
        };
        object["spec"]["versions"].as_array().unwrap().iter().map(read).collect()
    }

    #[test]
    fn two_functions_bring_one_kind_and_nobody_controls_it() {
        let first = bring("a", &definition(&[("v1", "a")]), None).unwrap();
        assert_eq!(meta::controller_uid(&first), None);
        assert_eq!(bring("a", &definition(&[("v1", "a")]), Some(&first)), None, "nothing changed");
        let both = bring("b", &definition(&[("v2", "b"), ("v1", "b")]), Some(&first)).unwrap();
        let expected = [("v1", true, "a"), ("v2", false, "b")];
        let expected =
            expected.map(|(name, is_stored, about)| (name.to_owned(), is_stored, about.to_owned()));
        assert_eq!(versions(&both), expected);
        assert_eq!(owners(&both).len(), 4);
        assert_eq!(
            bring("a", &definition(&[("v1", "new")]), Some(&both)),
            None,
            "the other one uses it, too"
        );
    }

    #[test]
    fn function_that_is_alone_updates_its_kind_and_removes_no_version() {
        let first = bring("a", &definition(&[("v1", "old"), ("v2", "old")]), None).unwrap();
        let second = bring("a", &definition(&[("v1", "new")]), Some(&first)).unwrap();
        let expected = [("v1", true, "new"), ("v2", false, "old")];
        let expected =
            expected.map(|(name, is_stored, about)| (name.to_owned(), is_stored, about.to_owned()));
        assert_eq!(versions(&second), expected);
    }

    #[test]
    fn older_active_revision_brings_its_versions_first_and_the_newest_one_decides_about_them() {
        let older = definition(&[("v1", "old"), ("v2", "old")]);
        let created = bring_as(false, "a", &older, None).unwrap();
        assert_eq!((meta::controller_uid(&created), owners(&created).len()), (None, 2));
        let both = bring("a", &definition(&[("v1", "new")]), Some(&created)).unwrap();
        let expected = [("v1", true, "new"), ("v2", false, "old")];
        let expected =
            expected.map(|(name, is_stored, about)| (name.to_owned(), is_stored, about.to_owned()));
        assert_eq!(versions(&both), expected);
        assert_eq!(bring_as(false, "a", &older, Some(&both)), None);
    }

    #[test]
    fn definition_of_somebody_else_is_left_alone() {
        let theirs = definition(&[("v1", "theirs")]);
        assert_eq!(bring("a", &definition(&[("v1", "a"), ("v2", "a")]), Some(&theirs)), None);
        let mut controlled = bring("a", &theirs, None).unwrap();
        meta::set_controller(&mut controlled, &owner("Provider", "p"));
        assert_eq!(bring("a", &definition(&[("v2", "a")]), Some(&controlled)), None);
    }
}
