//! What differs between objects, and in which order it is told.

use serde_json::json;

use super::*;

fn object(value: &Value) -> Object {
    value.as_object().cloned().unwrap()
}

fn config_map(resource: &str, name: &str, uid: &str, data: &Value) -> Object {
    object(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {
            "name": name, "namespace": "default", "uid": uid, "resourceVersion": "7", "managedFields": [{}],
            "annotations": {"crossplane.io/composition-resource-name": resource},
        },
    }))
}

fn paths(change: &Change) -> Vec<&str> {
    change.fields.iter().map(|field| field.path.as_str()).collect()
}

#[test]
fn what_the_api_server_keeps_for_itself_is_no_change() {
    let before = config_map("a", "a", "1", &json!({"color": "red"}));
    let mut after = before.clone();
    after["metadata"]["resourceVersion"] = "8".into();
    after["metadata"]["generation"] = 2.into();
    after["metadata"]["managedFields"] = json!([]);
    assert_eq!(Change::between(Some(&before), Some(&after)), None);
}

#[test]
fn fields_are_told_by_their_paths() {
    let before = config_map("a", "a", "1", &json!({"color": "red", "list": [1, 2], "gone": "x"}));
    let after = config_map("a", "a", "1", &json!({"color": "blue", "list": [1, 3, 4], "odd.key": "y"}));
    let change = Change::between(Some(&before), Some(&after)).unwrap();
    assert_eq!(change.action, Action::Update);
    let expected = ["data.color", "data.gone", "data.list[1]", "data.list[2]", "data[\"odd.key\"]"];
    assert_eq!(paths(&change), expected);
    assert_eq!(
        (change.fields[0].before.clone(), change.fields[0].after.clone()),
        (Some("red".into()), Some("blue".into()))
    );
}

#[test]
fn no_value_of_a_secret_is_told() {
    let secret = |value: &str| {
        object(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": value,
            }},
            "data": {"password": value}, "stringData": {"other": value}, "type": "Opaque",
        }))
    };
    for before in [None, Some(secret("hunter1"))] {
        let change = Change::between(before.as_ref(), Some(&secret("hunter2"))).unwrap();
        let told = serde_json::to_string(&change).unwrap();
        assert!(!told.contains("hunter") && told.contains("data.password"), "{told}");
    }
}

#[test]
fn object_of_another_kind_under_the_same_name_is_a_replacement_and_comes_first() {
    let old = config_map("settings", "old", "1", &json!({}));
    let mut new = config_map("settings", "new", "2", &json!({"a": "b"}));
    new.insert("kind".to_owned(), "Service".into());
    let other = config_map("added", "added", "3", &json!({}));
    let gone = config_map("gone", "gone", "4", &json!({}));
    let changes = arrange(vec![
        Change::between(None, Some(&other)).unwrap(),
        Change::between(None, Some(&new)).unwrap(),
        Change::between(Some(&old), None).unwrap(),
        Change::between(Some(&gone), None).unwrap(),
    ]);
    let told: Vec<_> = changes.iter().map(|change| (change.action, change.resource.as_str())).collect();
    assert_eq!(told, [(Action::Delete, "gone"), (Action::Replace, "settings"), (Action::Create, "added")]);
    assert_eq!(changes[1].replaces.as_ref().unwrap().name, "old");
}

fn plan(name: &str, verdict: Verdict, changes: Vec<Change>) -> CompositePlan {
    let composite = ObjectName {
        api_version: "example.org/v1".to_owned(),
        kind: "Site".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    CompositePlan { composite, verdict, revision: None, changes, hidden: 0 }
}

#[test]
fn those_that_change_alike_are_told_together_and_deletions_first() {
    let update = |name: &str, color: &str| {
        let before = config_map("settings", name, "1", &json!({"color": "red"}));
        let after = config_map("settings", name, "1", &json!({"color": color}));
        vec![Change::between(Some(&before), Some(&after)).unwrap()]
    };
    let deletion = Change::between(Some(&config_map("x", "x", "1", &json!({}))), None).unwrap();
    let plans = [
        plan("a", Verdict::Changed, update("a", "blue")),
        plan("b", Verdict::Unchanged, Vec::new()),
        plan("c", Verdict::Changed, update("c", "green")),
        plan("d", Verdict::Changed, vec![deletion]),
        plan("e", Verdict::Refused { reason: "why".to_owned() }, Vec::new()),
    ];
    let names = |group: &ChangeGroup<'_>| -> Vec<String> {
        group.members.iter().map(|member| member.name.clone()).collect()
    };
    let groups: Vec<_> = group_alike(&plans).iter().map(names).collect();
    assert_eq!(groups, [vec!["d"], vec!["e"], vec!["a", "c"], vec!["b"]]);
}

#[test]
fn those_whose_references_have_another_order_are_told_together() {
    let site = |name: &str, references: Value| {
        let object = |references: &Value| {
            object(&json!({
                "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": name},
                "spec": {"crossplane": {"resourceRefs": references}},
            }))
        };
        let before = object(&json!([{"name": "a"}, {"name": "b"}]));
        let change = Change::between(Some(&before), Some(&object(&references))).unwrap();
        assert!(change.fields.iter().all(FieldChange::is_reference), "{change:#?}");
        plan(name, Verdict::Changed, vec![change])
    };
    // A name that follows from a hash comes before the other, or after it.
    let plans = [
        site("one", json!([{"name": "0"}, {"name": "b"}])),
        site("two", json!([{"name": "a"}, {"name": "z"}])),
    ];
    assert_eq!(group_alike(&plans).len(), 1);
}

#[test]
fn only_fields_of_the_file_have_to_agree() {
    let file = object(&json!({"metadata": {"name": "a"}, "spec": {"color": "blue", "zones": ["x"]}}));
    let stored =
        |spec: Value| object(&json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": spec}));
    let before = stored(json!({"color": "red", "zones": ["x"]}));
    let by_controller = stored(json!({"color": "red", "zones": ["x"], "crossplane": {"resourceRefs": []}}));
    assert!(agree_on(&file, &before, &by_controller));
    for by_others in [json!({"color": "green", "zones": ["x"]}), json!({"color": "red"}), json!({})] {
        assert!(!agree_on(&file, &before, &stored(by_others.clone())), "{by_others}");
    }
}

#[test]
fn what_moved_is_named() {
    let name = |name: &str| ObjectName::of(&config_map("x", name, "1", &json!({})));
    let version = |object: &str, version: &str| ObjectVersion {
        object: name(object),
        resource_version: version.to_owned(),
    };
    let before = ChangePlan { versions: vec![version("a", "1"), version("b", "2")], ..ChangePlan::default() };
    let after = ChangePlan {
        versions: vec![version("a", "1"), version("b", "3"), version("c", "4")],
        ..ChangePlan::default()
    };
    assert_eq!(moved(&before, &after), [name("b"), name("c")]);
    assert_eq!(moved(&before, &before), []);
}

#[test]
fn only_an_added_field_without_default_leaves_objects_alone() {
    let definition = |properties: Value, required: Value| {
        object(
            &json!({"spec": {"defaultCompositionRef": {"name": "x"}, "versions": [{"name": "v1", "schema": {
                "openAPIV3Schema": {"type": "object", "properties": properties, "required": required},
            }}]}}),
        )
    };
    let text = json!({"type": "string"});
    let before = definition(json!({"color": text}), json!([]));
    let described = json!({"type": "string", "description": "A color"});
    for harmless in [
        definition(json!({"color": text, "size": text}), json!([])),
        definition(json!({"color": described}), json!([])),
        object(
            &json!({"spec": {"versions": before["spec"]["versions"], "enforcedCompositionRef": {"name": "y"}}}),
        ),
    ] {
        assert_eq!(harmful_schema_change(&before, &harmless), None, "{harmless:?}");
    }
    for harmful in [
        definition(json!({"color": text, "size": {"type": "string", "default": "large"}}), json!([])),
        definition(json!({}), json!([])),
        definition(json!({"color": {"type": "integer"}}), json!([])),
        definition(json!({"color": text}), json!(["color"])),
        definition(json!({"color": {"type": "string", "default": "red"}}), json!([])),
    ] {
        assert!(harmful_schema_change(&before, &harmful).is_some(), "{harmful:?}");
    }
}
