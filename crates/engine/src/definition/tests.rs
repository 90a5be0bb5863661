//! Definitions are derived as the reference says.

use proptest::prelude::*;

use super::*;

fn xrd(api_version: &str, more: Value) -> Object {
    let mut xrd = json!({
        "apiVersion": format!("apiextensions.crossplane.io/{api_version}"),
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "apps.example.org", "uid": "u", "labels": {"a": "own", "b": "own"}},
        "spec": {
            "group": "example.org",
            "names": {"kind": "App", "plural": "apps"},
            "versions": [{
                "name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            }],
        },
    });
    let Value::Object(more) = more else { panic!("it is an object") };
    for (key, value) in more {
        xrd["spec"][key] = value;
    }
    let Value::Object(xrd) = xrd else { panic!("it is an object") };
    xrd
}

fn composite(xrd: &Object) -> Value {
    Value::Object(composite_definition(xrd).unwrap())
}

fn with_schema(schema: &Value) -> Value {
    let version =
        json!({"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema}});
    let crd = composite(&xrd("v2", json!({"versions": [version]})));
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn keys_of(value: &Value) -> Vec<&str> {
    value.as_object().map(|object| object.keys().map(String::as_str).collect()).unwrap_or_default()
}

#[test]
fn scope_is_that_of_the_version_if_nothing_is_said() {
    for (version, said, scope, kind) in [
        ("v2", None, Scope::Namespaced, "Namespaced"),
        ("v1", None, Scope::LegacyCluster, "Cluster"),
        ("v2", Some("Cluster"), Scope::Cluster, "Cluster"),
        ("v1", Some("Namespaced"), Scope::Namespaced, "Namespaced"),
        ("v2", Some("LegacyCluster"), Scope::LegacyCluster, "Cluster"),
    ] {
        let xrd = xrd(version, said.map_or(json!({}), |said| json!({"scope": said})));
        assert_eq!(super::scope(&xrd), scope, "{version} {said:?}");
        assert_eq!(composite(&xrd)["spec"]["scope"], kind);
    }
}

#[test]
fn modern_machinery_has_a_place_of_its_own() {
    let schema = with_schema(&json!({"type": "object"}));
    let spec = &schema["properties"]["spec"]["properties"];
    assert_eq!(keys_of(spec), ["crossplane"]);
    assert_eq!(
        keys_of(&spec["crossplane"]["properties"]),
        [
            "compositionRef",
            "compositionRevisionRef",
            "compositionRevisionSelector",
            "compositionSelector",
            "compositionUpdatePolicy",
            "resourceRefs"
        ]
    );
    assert_eq!(
        keys_of(&schema["properties"]["status"]["properties"]),
        ["conditions", "ferroplane", "lastHandledReconcileAt"]
    );
    let references = &spec["crossplane"]["properties"]["resourceRefs"];
    assert_eq!(keys_of(&references["items"]["properties"]), ["apiVersion", "kind", "name"]);
}

#[test]
fn cluster_scoped_resources_refer_to_namespaces() {
    let crd = composite(&xrd("v2", json!({"scope": "Cluster"})));
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/crossplane/properties/resourceRefs\
                /items/properties";
    assert_eq!(keys_of(crd.pointer(path).unwrap()), ["apiVersion", "kind", "name", "namespace"]);
}

#[test]
fn legacy_machinery_stands_among_the_fields_of_the_author() {
    let crd = composite(&xrd("v1", json!({"defaultCompositionUpdatePolicy": "Manual"})));
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let spec = &schema["spec"]["properties"];
    assert!(spec["claimRef"].is_object() && spec["writeConnectionSecretToRef"].is_object());
    assert_eq!(spec["compositionUpdatePolicy"]["default"], "Manual");
    assert_eq!(
        keys_of(&schema["status"]["properties"]),
        ["claimConditionTypes", "conditions", "connectionDetails", "ferroplane", "lastHandledReconcileAt"]
    );
    let columns: Vec<_> = crd["spec"]["versions"][0]["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap(), column["jsonPath"].as_str().unwrap()))
        .collect();
    assert_eq!(columns[2], ("COMPOSITION", ".spec.compositionRef.name"));
    assert_eq!(columns[3], ("COMPOSITIONREVISION", ".spec.compositionRevisionRef.name"));
}

#[test]
fn author_cannot_replace_the_machinery() {
    let schema = with_schema(&json!({"properties": {
        "spec": {"properties": {"crossplane": {"type": "string"}, "size": {"type": "string"}}},
        "status": {"properties": {"conditions": {"type": "string"}}},
    }}));
    assert_eq!(schema["properties"]["spec"]["properties"]["crossplane"]["type"], "object");
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["type"], "string");
    assert_eq!(schema["properties"]["status"]["properties"]["conditions"]["type"], "array");
}

#[test]
fn only_some_of_what_the_author_says_about_whole_parts_is_kept() {
    let all = json!({
        "type": "object", "description": "d", "required": ["size"], "oneOf": [{"required": ["size"]}],
        "x-kubernetes-validations": [{"rule": "true"}], "x-kubernetes-preserve-unknown-fields": true,
        "anyOf": [{}], "allOf": [{}], "not": {}, "minProperties": 1, "default": {}, "additionalProperties": true,
    });
    let schema = with_schema(&json!({
        "description": "root", "x-kubernetes-validations": [{"rule": "true"}], "required": ["other"],
        "properties": {"spec": all, "status": all, "other": {"type": "string"}},
    }));
    assert_eq!(
        keys_of(&schema),
        ["description", "properties", "required", "type", "x-kubernetes-validations"]
    );
    assert_eq!(schema["required"], json!(["spec"]));
    assert_eq!(keys_of(&schema["properties"]), ["apiVersion", "kind", "metadata", "spec", "status"]);
    assert_eq!(
        keys_of(&schema["properties"]["spec"]),
        [
            "description",
            "oneOf",
            "properties",
            "required",
            "type",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-validations"
        ]
    );
    assert_eq!(
        keys_of(&schema["properties"]["status"]),
        ["description", "oneOf", "properties", "required", "type", "x-kubernetes-validations"]
    );
}

#[test]
fn names_can_be_made_shorter_but_not_longer() {
    for (wanted, length) in [(10, 10), (100, 63)] {
        let metadata = json!({"properties": {"name": {"maxLength": wanted}, "labels": {"type": "object"}}});
        let schema = with_schema(&json!({"properties": {"metadata": metadata}}));
        let metadata =
            json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": length}}});
        assert_eq!(schema["properties"]["metadata"], metadata);
    }
}

#[test]
fn metadata_comes_from_the_definition_and_what_it_says() {
    let given = json!({"labels": {"b": "given"}, "annotations": {"c": "given"}});
    let crd = composite(&xrd("v2", json!({"metadata": given})));
    assert_eq!(
        crd["metadata"],
        json!({
            "name": "apps.example.org",
            "labels": {"a": "own", "b": "given"},
            "annotations": {"c": "given"},
            "ownerReferences": [{
                "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
                "name": "apps.example.org", "uid": "u", "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
}

#[test]
fn what_else_a_version_says_is_carried_over() {
    let scale = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
    let version = json!({
        "name": "v1", "served": false, "referenceable": true, "deprecated": true, "deprecationWarning": "w",
        "additionalPrinterColumns": [{"name": "SIZE", "type": "string", "jsonPath": ".spec.size"}],
        "subresources": {"scale": scale}, "schema": {"openAPIV3Schema": {}},
    });
    let conversion = json!({"strategy": "Webhook"});
    let crd = composite(&xrd("v2", json!({"versions": [version], "conversion": conversion})));
    assert_eq!(crd["spec"]["conversion"], conversion);
    assert_eq!(crd["spec"]["names"]["categories"], json!(["composite"]));
    let version = &crd["spec"]["versions"][0];
    assert_eq!((&version["served"], &version["storage"]), (&json!(false), &json!(true)));
    assert_eq!((&version["deprecated"], &version["deprecationWarning"]), (&json!(true), &json!("w")));
    assert_eq!(version["subresources"], json!({"status": {}, "scale": scale}));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    let columns: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["SIZE", "SYNCED", "READY", "COMPOSITION", "COMPOSITIONREVISION", "AGE"]);
}

#[test]
fn version_without_schema_is_refused() {
    let version = json!({"name": "v1", "served": true, "referenceable": true});
    for version in [version.clone(), json!({"name": "v1", "schema": {}})] {
        let error = composite_definition(&xrd("v2", json!({"versions": [version]}))).unwrap_err();
        assert_eq!(error.to_string(), "spec.versions[0].schema.openAPIV3Schema: a version needs a schema");
    }
}

#[test]
fn claims_are_defined_if_they_have_names() {
    assert_eq!(claim_definition(&xrd("v1", json!({}))), Ok(None));
    let names = json!({"kind": "Claim", "plural": "claims"});
    let xrd = xrd("v1", json!({"claimNames": names, "defaultCompositeDeletePolicy": "Foreground"}));
    let crd = Value::Object(claim_definition(&xrd).unwrap().unwrap());
    assert_eq!(crd["metadata"]["name"], "claims.example.org");
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    assert_eq!(crd["spec"]["names"], json!({"kind": "Claim", "plural": "claims", "categories": ["claim"]}));
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(
        keys_of(spec),
        [
            "compositeDeletePolicy",
            "compositionRef",
            "compositionRevisionRef",
            "compositionRevisionSelector",
            "compositionSelector",
            "compositionUpdatePolicy",
            "resourceRef",
            "writeConnectionSecretToRef"
        ]
    );
    assert_eq!(spec["compositeDeletePolicy"]["default"], "Foreground");
    assert_eq!(spec["writeConnectionSecretToRef"]["required"], json!(["name"]));
}

#[test]
fn claims_cannot_be_called_like_composite_resources() {
    for (claim, field) in [
        (json!({"kind": "App", "plural": "claims"}), "kind"),
        (json!({"kind": "Claim", "plural": "apps"}), "plural"),
    ] {
        let error = claim_definition(&xrd("v1", json!({"claimNames": claim}))).unwrap_err();
        assert_eq!(error.field, format!("spec.claimNames.{field}"));
    }
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        "[a-zA-Z]{0,6}".prop_map(Value::from)
    ];
    let key = prop_oneof![
        Just("spec"),
        Just("names"),
        Just("claimNames"),
        Just("versions"),
        Just("schema"),
        Just("openAPIV3Schema"),
        Just("properties"),
        Just("metadata"),
        Just("categories"),
        Just("kind"),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_is_a_definition_or_an_error(spec in anything()) {
        let mut object = xrd("v1", json!({}));
        object.insert("spec".to_owned(), spec);
        let _ = (composite_definition(&object), claim_definition(&object));
    }
}
