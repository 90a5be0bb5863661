//! What programs are told, and what is made of what they say.

use std::collections::BTreeMap;
use std::time::Duration;

use ferroplane_engine::{ExternalImage, Isolation};
use ferroplane_wire::State;
use ferroplane_wire::v1::credentials::Source;
use ferroplane_wire::v1::{CredentialData, Credentials, Ready, RequestMeta, Resource, Severity};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const XR: &str = "fn.apiextensions.crossplane.io/type";

fn function(protocol: FunctionProtocol) -> ExternalFunction {
    let image = ExternalImage {
        reference: "registry.example.org/f:v1".to_owned(),
        isolation: Isolation::Container,
        pull_policy: None,
        pull_credentials: vec!["registry".to_owned()],
        wants_network: false,
        memory: None,
        cpu: None,
    };
    ExternalFunction {
        callee: ExternalCallee::Image(image),
        protocol,
        timeout: Duration::from_secs(1),
        config: json!({"apiVersion": "v1", "kind": "Config", "size": 3}).as_object().cloned(),
        sees_unwanted: false,
    }
}

fn resource(object: Value, ready: Ready) -> Resource {
    let Value::Object(object) = object else { panic!("not an object: {object}") };
    Resource { resource: Some(Struct::try_from(object).unwrap()), ready: ready.into(), ..Resource::default() }
}

fn composite() -> Value {
    json!({"apiVersion": "database.example.org/v1alpha1", "kind": "XPostgreSQLInstance",
        "metadata": {"name": "my-db", "uid": "1", "managedFields": [{}]}, "spec": {"parameters": {"storageGB": 20}}})
}

fn bucket() -> Value {
    json!({"apiVersion": "s3.example.org/v1", "kind": "Bucket", "spec": {"region": "eu"}})
}

fn request(desired: Vec<(&str, Resource)>, observed: Vec<(&str, Resource)>) -> RunFunctionRequest {
    let state = |composite: Option<Resource>, resources: Vec<(&str, Resource)>| {
        State::new(composite, resources.into_iter().map(|(name, it)| (name.to_owned(), it)).collect())
    };
    let secret = |value: &str| Credentials {
        source: Some(Source::CredentialData(CredentialData {
            data: BTreeMap::from([("k".to_owned(), value.to_owned().into())]),
        })),
    };
    RunFunctionRequest {
        meta: Some(RequestMeta { tag: "t".to_owned(), capabilities: Vec::new() }),
        observed: Some(state(Some(resource(composite(), Ready::Unspecified)), observed)),
        desired: Some(state(None, desired)),
        input: Some(Struct::default()),
        context: Struct::try_from(json!({"a": 1}).as_object().cloned().unwrap()).ok(),
        credentials: [("registry", "hunter2"), ("cloud", "key")]
            .map(|(name, value)| (name.to_owned(), secret(value)))
            .into(),
        ..RunFunctionRequest::default()
    }
}

fn sent(protocol: FunctionProtocol, request: &RunFunctionRequest) -> Value {
    serde_json::from_slice(&encode(&function(protocol), request).unwrap()).unwrap()
}

fn answer(protocol: FunctionProtocol, request: &RunFunctionRequest, answer: &str) -> RunFunctionResponse {
    decode(&function(protocol), request, answer.as_bytes()).unwrap()
}

fn problem(protocol: FunctionProtocol, text: impl AsRef<[u8]>) -> String {
    let request = request(vec![("bucket", resource(bucket(), Ready::Unspecified))], Vec::new());
    let error = decode(&function(protocol), &request, text.as_ref()).unwrap_err();
    ferroplane_engine::chain(&error)
}

fn names(response: &RunFunctionResponse) -> Vec<&str> {
    response.desired.as_ref().unwrap().resources().keys().map(String::as_str).collect()
}

fn object(response: &RunFunctionResponse, name: &str) -> Value {
    let desired = response.desired.as_ref().unwrap();
    Value::Object(desired.resources()[name].resource.as_ref().unwrap().json().unwrap().clone())
}

#[test]
fn program_gets_its_config_as_input_and_no_credentials_of_registries() {
    let request = request(Vec::new(), Vec::new());
    let json = sent(FunctionProtocol::RunFunction, &request);
    assert_eq!(json["input"]["size"], 3);
    let credentials: Vec<_> = json["credentials"].as_object().unwrap().keys().collect();
    assert_eq!(credentials, ["cloud"]);
    for protocol in [FunctionProtocol::ResourceList, FunctionProtocol::KRM] {
        let json = sent(protocol, &request);
        assert_eq!(json["functionConfig"]["size"], 3);
        assert!(!json.to_string().contains("hunter2") && !json.to_string().contains("credentials"));
    }
}

#[test]
fn request_that_is_printed_again_is_an_answer_as_are_desired_state_alone_and_yaml() {
    let request = request(vec![("bucket", resource(bucket(), Ready::True))], Vec::new());
    let json = sent(FunctionProtocol::RunFunction, &request);
    let run = |text: &str| answer(FunctionProtocol::RunFunction, &request, text);
    assert_eq!(run(&json.to_string()).desired, request.desired);
    assert_eq!(run(&json["desired"].to_string()).desired, request.desired);
    let yaml = run(
        "results:\n- severity: SEVERITY_WARNING\n  message: careful\ndesired:\n  resources:\n    a:\n      resource: {apiVersion: v1, kind: A}\n",
    );
    assert_eq!(names(&yaml), ["a"]);
    assert_eq!(yaml.results[0].message, "careful");
}

#[test]
fn list_has_the_shape_of_the_design() {
    let observed = json!({"apiVersion": "s3.example.org/v1", "kind": "Bucket",
        "metadata": {"name": "my-db-x1", "uid": "2"}, "spec": {"region": "us"}, "status": {"arn": "a"}});
    let request = request(
        vec![("bucket", resource(bucket(), Ready::Unspecified))],
        vec![("bucket", resource(observed, Ready::Unspecified))],
    );
    let list = sent(FunctionProtocol::ResourceList, &request);
    assert_eq!(list["apiVersion"], "fn.apiextensions.crossplane.io/v1");
    assert_eq!(list["kind"], "ResourceList");
    assert_eq!(list["items"][0]["metadata"]["annotations"][XR], "CompositeResource");
    assert_eq!(list["items"][0]["spec"]["parameters"]["storageGB"], 20);
    assert_eq!(
        list["items"][1],
        json!({"apiVersion": "s3.example.org/v1", "kind": "Bucket",
            "metadata": {"name": "my-db-x1", "annotations": {
                "fn.apiextensions.crossplane.io/type": "ComposedResource",
                "fn.apiextensions.crossplane.io/name": "bucket",
            }},
            "spec": {"region": "eu"}, "status": {"arn": "a"}})
    );
}

/// As the design has it, with the quote that it forgot.
const DESIGN_ANSWER: &str = r#"
apiVersion: fn.apiextensions.crossplane.io/v1alpha1
kind: ResourceList
items:
- apiVersion: database.example.org/v1alpha1
  kind: XPostgreSQLInstance
  metadata:
    name: my-db
    annotations:
      fn.apiextensions.crossplane.io/type: "CompositeResource"
  spec:
    parameters:
      storageGB: 20
- apiVersion: database.gcp.crossplane.io/v1beta1
  kind: CloudSQLInstance
  metadata:
    name: cloudsqlpostgresql
    annotations:
      fn.apiextensions.crossplane.io/type: "ComposedResource"
      fn.apiextensions.crossplane.io/name: cloudsqlinstance
  spec:
    forProvider:
      settings:
        dataDiskSizeGb: 20
    writeConnectionSecretToRef:
      namespace: crossplane-system
      name: cloudsqlpostgresql-conn
results:
- severity: Error
  message: "Could not render Database.postgresql.crossplane.io/v1alpha1"
"#;

#[test]
fn answer_of_the_design_is_understood() {
    let request = request(Vec::new(), Vec::new());
    let response = answer(FunctionProtocol::ResourceList, &request, DESIGN_ANSWER);
    assert_eq!(names(&response), ["cloudsqlinstance"]);
    let instance = object(&response, "cloudsqlinstance");
    assert_eq!(instance["metadata"], json!({"name": "cloudsqlpostgresql"}));
    assert_eq!(instance["spec"]["forProvider"]["settings"]["dataDiskSizeGb"], 20);
    assert_eq!(response.results[0].severity, i32::from(Severity::Fatal));
    assert_eq!(response.context, request.context);
}

#[test]
fn what_is_not_returned_is_not_wanted_any_more() {
    let both =
        vec![("a", resource(bucket(), Ready::Unspecified)), ("b", resource(bucket(), Ready::Unspecified))];
    let request = request(both, Vec::new());
    let mut list = sent(FunctionProtocol::ResourceList, &request);
    list["items"].as_array_mut().unwrap().remove(1);
    assert_eq!(names(&answer(FunctionProtocol::ResourceList, &request, &list.to_string())), ["b"]);
}

#[test]
fn first_function_sees_what_exists_and_later_ones_do_not() {
    let observed =
        json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "uid": "2", "labels": {"l": "v"}}});
    let request = request(Vec::new(), vec![("a", resource(observed, Ready::Unspecified))]);
    assert_eq!(sent(FunctionProtocol::ResourceList, &request)["items"].as_array().unwrap().len(), 1);
    let first = ExternalFunction { sees_unwanted: true, ..function(FunctionProtocol::ResourceList) };
    let text = encode(&first, &request).unwrap();
    let response = decode(&first, &request, &text).unwrap();
    // Returned, so wanted; without what only an API server says about it.
    assert_eq!(object(&response, "a")["metadata"], json!({"name": "x", "labels": {"l": "v"}}));
}

#[test]
fn readiness_status_and_connection_details_are_understood() {
    let request = request(vec![("a", resource(bucket(), Ready::False))], Vec::new());
    let mut list = sent(FunctionProtocol::ResourceList, &request);
    assert_eq!(list["items"][1]["metadata"]["annotations"]["fn.apiextensions.crossplane.io/ready"], "False");
    list["items"][1]["metadata"]["annotations"]["fn.apiextensions.crossplane.io/ready"] = "True".into();
    list["items"][0]["status"] = json!({"url": "u", "conditions": [{"type": "Ready"}]});
    list["items"][0]["spec"] = json!({"ignored": true});
    list["items"].as_array_mut().unwrap().push(json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"annotations": {XR: "ConnectionDetails"}}, "data": {"k": "dg=="}, "stringData": {"s": "t"}}));
    let response = answer(FunctionProtocol::ResourceList, &request, &list.to_string());
    let desired = response.desired.unwrap();
    assert_eq!(desired.resources()["a"].ready, i32::from(Ready::True));
    let composite = desired.composite().unwrap();
    let object = Value::Object(composite.resource.as_ref().unwrap().json().unwrap().clone());
    assert_eq!(object["status"], json!({"url": "u"}));
    assert!(object.get("spec").is_none());
    assert_eq!(composite.connection_details["k"], "v");
    assert_eq!(composite.connection_details["s"], "t");
}

#[test]
fn krm_function_gets_names_and_may_make_resources_without_annotations() {
    let request = request(vec![("bucket", resource(bucket(), Ready::True))], Vec::new());
    let mut list = sent(FunctionProtocol::KRM, &request);
    assert_eq!(list["apiVersion"], "config.kubernetes.io/v1");
    assert_eq!(list["items"][1]["metadata"]["name"], "bucket");
    list["items"][1]["metadata"]["annotations"]["team"] = "a".into();
    let made =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "n"}});
    list["items"].as_array_mut().unwrap().push(made);
    list["results"] = json!([{"message": "m", "severity": "info", "resourceRef": {"kind": "A", "name": "b"}, "field": {"path": "spec.x"}}]);
    let response = answer(FunctionProtocol::KRM, &request, &list.to_string());
    assert_eq!(names(&response), ["bucket", "configmap-n-made"]);
    assert_eq!(object(&response, "bucket")["metadata"], json!({"annotations": {"team": "a"}}));
    assert_eq!(response.results[0].message, "A `b` spec.x: m");
    assert_eq!(response.results[0].severity, i32::from(Severity::Normal));
}

#[test]
fn garbage_is_named() {
    use FunctionProtocol::{KRM, ResourceList, RunFunction};
    for protocol in [RunFunction, ResourceList, KRM] {
        assert_eq!(problem(protocol, ""), "the answer is empty");
        assert_eq!(problem(protocol, b"\xff\xfe"), "the answer is not text in UTF-8");
        assert!(problem(protocol, "{\"a\":").starts_with("the answer is neither JSON nor YAML: EOF"));
        assert!(problem(protocol, "a: b: c").starts_with("the answer is neither JSON nor YAML"));
        assert!(problem(protocol, vec![b' '; MAX_ANSWER + 1]).starts_with("the answer has 16777217 bytes"));
        assert!(problem(protocol, "[".repeat(100_000)).starts_with("the answer is neither"));
        assert!(problem(protocol, "[]").contains("expected an object"));
    }
    assert!(problem(RunFunction, "{\"desird\": {}}").contains("unknown field `desird`"));
    assert!(problem(ResourceList, "kind: List").contains("it is of kind `List`"));
    assert!(problem(KRM, DESIGN_ANSWER).contains("version `fn.apiextensions.crossplane.io/v1alpha1`"));
}

#[test]
fn aliases_do_not_blow_up() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let item = format!("*a{}, ", level - 1).repeat(10);
        text += &format!("a{level}: &a{level} [{item}]\n");
    }
    assert!(problem(FunctionProtocol::ResourceList, text).starts_with("the answer is neither JSON nor YAML"));
}

#[test]
fn wrong_items_are_named() {
    let list = |items: Value| {
        json!({"apiVersion": "fn.apiextensions.crossplane.io/v1", "kind": "ResourceList", "items": items})
            .to_string()
    };
    let said = |items: Value| problem(FunctionProtocol::ResourceList, list(items));
    let item = |kind: &str, name: &str| {
        json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "n", "annotations": {XR: kind,
            "fn.apiextensions.crossplane.io/name": name}}})
    };
    let mut xr = composite();
    xr["metadata"]["annotations"] = json!({XR: "CompositeResource"});
    assert!(said(json!([])).starts_with("the answer has no XPostgreSQLInstance `my-db` with the annotation"));
    assert_eq!(
        said(json!([xr, item("ComposedResource", "a"), item("ComposedResource", "a")])),
        "items[2] of the answer: A `n`: composed resource `a` is returned twice"
    );
    assert!(said(json!([xr, xr])).ends_with("there is a second composite resource"));
    assert!(
        said(json!([item("CompositeResource", "")]))
            .ends_with("its apiVersion is not that of the composite resource")
    );
    assert!(said(json!([item("Other", "")])).contains("got `Other`"));
    assert!(said(json!([{"kind": "A"}])).ends_with("it has no apiVersion"));
    assert!(said(json!(["x"])).ends_with("it is not an object"));
    assert!(
        said(json!([{"apiVersion": "v1", "kind": "A", "metadata": []}]))
            .ends_with("its metadata is not an object")
    );
    assert!(said(json!([{"apiVersion": "v1", "kind": "A"}])).contains("it has no annotation"));
    let mut bad = item("ComposedResource", "a");
    bad["metadata"]["annotations"]["fn.apiextensions.crossplane.io/ready"] = "yes".into();
    assert!(said(json!([xr, bad])).contains("expected `True` or `False`, got `yes`"));
}

#[test]
fn severities_of_both_kinds_of_lists_are_understood() {
    let request = request(Vec::new(), Vec::new());
    // The words of the design, and those of KRM functions, in any case.
    let words = [
        ("Warning", Severity::Warning),
        ("warning", Severity::Warning),
        ("Normal", Severity::Normal),
        ("info", Severity::Normal),
        ("", Severity::Normal),
        ("Error", Severity::Fatal),
        ("Fatal", Severity::Fatal),
    ];
    for protocol in [FunctionProtocol::ResourceList, FunctionProtocol::KRM] {
        let mut list = sent(protocol, &request);
        list["results"] = words.map(|(word, _)| json!({"severity": word, "message": "m"})).to_vec().into();
        let response = answer(protocol, &request, &list.to_string());
        let read = response.results.iter().map(|result| (result.severity, &*result.message));
        let expected = words.map(|(_, severity)| (i32::from(severity), "m"));
        assert_eq!(read.collect::<Vec<_>>(), expected, "{protocol:?}");
    }
}

#[test]
fn list_with_a_fatal_result_need_not_be_complete() {
    let request = request(vec![("a", resource(bucket(), Ready::True))], Vec::new());
    let text = r#"{"apiVersion": "fn.apiextensions.crossplane.io/v1", "kind": "ResourceList", "items": [],
        "results": [{"severity": "Error", "message": "no"}]}"#;
    let response = answer(FunctionProtocol::ResourceList, &request, text);
    assert_eq!(response.desired, request.desired);
    assert_eq!(last_words(&function(FunctionProtocol::KRM), text.as_bytes()).as_deref(), Some("no"));
    assert!(
        problem(FunctionProtocol::ResourceList, r#"{"results": [{"severity": "odd"}]}"#)
            .contains("got `odd`")
    );
}

fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    let strings = || prop::collection::btree_map("[a-z./]{1,10}", "[ -~]{0,10}", 0..3);
    let metadata = (prop::option::of("[a-z]{1,8}"), prop::option::of(strings()), prop::option::of(strings()));
    (tree, prop::option::of(metadata)).prop_map(|(spec, metadata)| {
        let mut object = json!({"apiVersion": "example.org/v1", "kind": "Thing", "spec": spec});
        if let Some((name, labels, annotations)) = metadata {
            let mut written = Map::new();
            written.extend(name.map(|name| ("name".to_owned(), name.into())));
            written.extend(labels.map(|labels| ("labels".to_owned(), json!(labels))));
            written.extend(annotations.map(|annotations| ("annotations".to_owned(), json!(annotations))));
            object["metadata"] = Value::Object(written);
        }
        object
    })
}

fn any_ready() -> impl Strategy<Value = Ready> {
    prop_oneof![Just(Ready::Unspecified), Just(Ready::True), Just(Ready::False)]
}

proptest! {
    #[test]
    fn program_that_changes_nothing_changes_nothing(
        desired in prop::collection::btree_map("[a-z]{1,6}", (any_object(), any_ready()), 0..5),
        observed in prop::collection::btree_map("[a-c]{1}", any_object(), 0..3),
    ) {
        let desired = desired.iter().map(|(name, (object, ready))| (&**name, resource(object.clone(), *ready)));
        let observed = observed.iter().map(|(name, object)| (&**name, resource(object.clone(), Ready::Unspecified)));
        let request = request(desired.collect(), observed.collect());
        for protocol in [FunctionProtocol::RunFunction, FunctionProtocol::ResourceList, FunctionProtocol::KRM] {
            let function = function(protocol);
            let response = decode(&function, &request, &encode(&function, &request).unwrap()).unwrap();
            prop_assert_eq!(
                response.desired.as_ref().unwrap().resources(),
                request.desired.as_ref().unwrap().resources(),
                "{:?}", protocol
            );
            prop_assert_eq!(&response.context, &request.context);
        }
    }

    #[test]
    fn no_answer_is_too_odd(text in any::<Vec<u8>>(), list in any_object()) {
        let request = request(Vec::new(), Vec::new());
        for protocol in [FunctionProtocol::RunFunction, FunctionProtocol::ResourceList, FunctionProtocol::KRM] {
            let _ = decode(&function(protocol), &request, &text);
            let _ = decode(&function(protocol), &request, list.to_string().as_bytes());
            let list = json!({"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": [list.clone()], "results": [list.clone()]});
            let _ = decode(&function(protocol), &request, list.to_string().as_bytes());
        }
    }
}
