//! Who owns what a package brings.

use serde_json::{Value, json};

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

fn crd(owners: &Value) -> Object {
    object(json!({
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org", "resourceVersion": "7", "labels": {"mine": "yes"}, "ownerReferences": owners},
        "spec": {"group": "example.org", "conversion": {"strategy": "None"}}, "status": {"storedVersions": ["v1"]},
    }))
}

fn wanted() -> Object {
    object(json!({
        "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.org"}, "spec": {"group": "example.org"},
    }))
}

/// Establish the definition for revision `new` of `package`, which replaced `old`.
fn check(live: Option<&Object>, control: bool) -> Result<Option<Object>, AlreadyControlled> {
    let (package, revision) = (owner("Provider", "package"), owner("ProviderRevision", "new"));
    let siblings = BTreeSet::from(["uid-old".to_owned()]);
    let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    let party = Party { package: &package, revision: &revision, siblings: &siblings };
    let how = Establishing { party, control, common_labels: &labels, common_annotations: &BTreeMap::new() };
    establish(&wanted(), live, &how)
}

/// The owners of an object, and whether each controls it.
fn owners_of(object: &Object) -> Vec<(String, bool)> {
    let read = |owner: &Value| (owner["name"].as_str().unwrap().to_owned(), owner["controller"] == true);
    owners(object).iter().map(read).collect()
}

#[test]
fn active_revision_creates_what_is_missing_and_an_inactive_one_never_does() {
    let created = check(None, true).unwrap().unwrap();
    assert_eq!(owners_of(&created), [("new".to_owned(), true), ("package".to_owned(), false)]);
    assert_eq!(meta::label(&created, "team"), "a");
    assert_eq!(check(None, false), Ok(None));
}

#[test]
fn new_revision_takes_an_object_from_the_one_that_it_replaces() {
    let old = json!([{"kind": "ProviderRevision", "name": "old", "uid": "uid-old", "controller": true}]);
    let taken = check(Some(&crd(&old)), true).unwrap().unwrap();
    assert_eq!(
        owners_of(&taken),
        [("old".to_owned(), false), ("new".to_owned(), true), ("package".to_owned(), false)]
    );
    // What others wrote stays, and a writer that is late is noticed.
    assert_eq!((meta::label(&taken, "mine"), meta::resource_version(&taken)), ("yes", "7"));
    assert_eq!(taken["status"], json!({"storedVersions": ["v1"]}));
    let nobody = check(Some(&crd(&json!([]))), true).unwrap().unwrap();
    assert_eq!(owners_of(&nobody), [("new".to_owned(), true), ("package".to_owned(), false)]);
}

#[test]
fn object_of_another_package_is_left_alone() {
    let foreign =
        json!([{"kind": "ProviderRevision", "name": "other", "uid": "uid-other", "controller": true}]);
    // A revision that does not control its objects gains rights on those that it owns, too.
    for control in [true, false] {
        let refused = check(Some(&crd(&foreign)), control).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "CustomResourceDefinition `things.example.org` is already controlled by ProviderRevision `other` (UID uid-other)"
        );
    }
}

#[test]
fn what_is_so_already_is_not_written_again() {
    let mut live = check(Some(&crd(&json!([]))), true).unwrap().unwrap();
    // As an API server completes it.
    live["spec"]["conversion"] = json!({"strategy": "None"});
    assert_eq!(check(Some(&live), true), Ok(None));
    live["spec"]["group"] = json!("elsewhere.example.org");
    assert!(check(Some(&live), true).unwrap().is_some());
}

#[test]
fn revision_that_lets_go_stays_an_owner() {
    let live = check(None, true).unwrap().unwrap();
    let (package, revision) = (owner("Provider", "package"), owner("ProviderRevision", "new"));
    let party = Party { package: &package, revision: &revision, siblings: &BTreeSet::new() };
    let released = release(&live, party).unwrap();
    assert_eq!(owners_of(&released), [("new".to_owned(), false), ("package".to_owned(), false)]);
    assert_eq!(release(&released, party), None);
    assert!(meta::controller(&released).is_none());
    let remembered = check(Some(&released), false).unwrap();
    assert_eq!(remembered, None, "it was an owner before");
}
