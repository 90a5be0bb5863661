//! What holds for objects of Kubernetes' own kinds whatever they are: reading and defaulting twice is once, and no bytes
//! make the decoder of protobuf fall over.

use ferroplane_schema::builtin::{self, BuiltinKind, protobuf};
use proptest::prelude::*;
use serde_json::{Value, json};

fn kinds() -> Vec<BuiltinKind> {
    builtin::kinds().collect()
}

/// Values with names that many kinds have, so that some of it is looked into.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..70_000).prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "a",
            "1Gi",
            "25%",
            "ClusterIP",
            "LoadBalancer",
            "2024-01-01T00:00:00Z"
        ])
        .prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "template",
        "containers",
        "initContainers",
        "name",
        "labels",
        "ports",
        "type",
        "resources",
        "limits",
        "requests",
        "volumes",
        "selector",
        "strategy",
        "rollingUpdate",
        "data",
        "conditions",
        "hostNetwork",
        "podIPs",
        "podIP",
        "behavior",
        "rules",
        "image",
        "env",
        "subjects",
        "names",
        "versions",
    ]);
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn settles(kind: BuiltinKind, object: &Value) -> Result<(), TestCaseError> {
    let _ = kind.check(object);
    let Ok(mut read) = kind.read(object) else { return Ok(()) };
    let again = kind.read(&Value::Object(read.object.clone())).unwrap();
    prop_assert_eq!(&again.object, &read.object);
    kind.default(&mut read.object);
    let mut twice = read.object.clone();
    kind.default(&mut twice);
    prop_assert_eq!(&twice, &read.object);
    let _ = kind.validate(&read.object);
    Ok(())
}

proptest! {
    #[test]
    fn reading_and_defaulting_twice_is_once(object in value(), choice in any::<prop::sample::Index>()) {
        let kinds = kinds();
        settles(kinds[choice.index(kinds.len())], &object)?;
    }

    #[test]
    fn no_bytes_make_the_decoder_fall_over(bytes in prop::collection::vec(any::<u8>(), 0..200), choice in any::<prop::sample::Index>()) {
        let kinds = kinds();
        let kind = kinds[choice.index(kinds.len())];
        let _ = protobuf::open(&bytes);
        // A valid envelope gets further.
        let mut body = b"k8s\0\x12".to_vec();
        body.push(u8::try_from(bytes.len().min(127)).unwrap());
        body.extend(bytes.iter().take(127));
        if let Ok(object) = protobuf::open(&body).unwrap().object(kind) {
            settles(kind, &object)?;
        }
    }
}

#[test]
fn deep_messages_and_objects_are_refused() {
    let definition = builtin::kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let schema = |depth: usize| {
        let mut schema = json!({"type": "object"});
        for _ in 0..depth {
            schema = json!({"properties": {"a": schema}});
        }
        json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
    };
    assert!(definition.read(&schema(20)).is_ok());
    assert!(definition.read(&schema(1000)).is_err());
    // A chain of `not`s (field 28) in a schema: spec 2, versions 7, schema 4, openAPIV3Schema 1.
    let mut message = Vec::new();
    for field in std::iter::repeat_n(28_u32, 3000).chain([1, 4, 7, 2]) {
        let mut outer = Vec::new();
        varint(u64::from(field << 3 | 2), &mut outer);
        varint(message.len() as u64, &mut outer);
        outer.extend(message);
        message = outer;
    }
    let mut body = b"k8s\0\x12".to_vec();
    varint(message.len() as u64, &mut body);
    body.extend(message);
    let problem = protobuf::open(&body).unwrap().object(definition).unwrap_err();
    assert_eq!(problem, protobuf::Error::TooDeep);
}

fn varint(mut number: u64, output: &mut Vec<u8>) {
    while number >= 0x80 {
        output.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    output.push(u8::try_from(number).unwrap());
}

#[test]
fn objects_of_very_many_parts_are_refused() {
    let pod = builtin::kind("", "v1", "Pod").unwrap();
    let crowded = |count: usize| json!({"spec": {"containers": vec![json!({}); count]}});
    assert!(pod.read(&crowded(10_000)).is_ok());
    assert!(pod.read(&crowded(1_000_000)).is_err());
    assert_eq!(pod.check(&crowded(1_000_000)).len(), 1);
}

#[test]
fn bodies_that_are_no_protobuf_are_refused_in_kubernetes_words() {
    assert_eq!(
        protobuf::open(b"{}").unwrap_err().to_string(),
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    );
    assert_eq!(protobuf::open(b"k8s\0\x12\x05a").unwrap_err(), protobuf::Error::Truncated);
}
