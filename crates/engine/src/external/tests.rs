//! What becomes of the `functions` array, and what inputs say.

use std::sync::Arc;

use ferroplane_api::{CompositionSpec, Step};
use ferroplane_wire::Struct;
use serde_json::json;

use super::*;
use crate::{Cause, CompositeSubject, Grants, Inputs, Layout, Pipeline, Turn, start, to_pipeline};

fn spec(mut spec: Value) -> CompositionSpec {
    spec["compositeTypeRef"] = json!({"apiVersion": "example.org/v1", "kind": "XR"});
    serde_json::from_value(spec).unwrap()
}

fn steps(value: Value) -> Vec<Step> {
    to_pipeline(&spec(value)).into_owned()
}

fn container(name: &str, image: &str) -> Value {
    json!({"name": name, "type": "Container", "container": {"image": image}})
}

fn read(step: &Step) -> ExternalFunction {
    let kind = external_type(&step.function_ref.name).unwrap();
    ExternalFunction::read(kind, step.input.as_ref().unwrap()).unwrap()
}

#[test]
fn functions_are_steps_in_their_order_and_readiness_comes_last() {
    let steps = steps(json!({"functions": [container("b", "x:1"), container("a", "y:1")]}));
    let names: Vec<_> = steps.iter().map(|step| (&*step.step, &*step.function_ref.name)).collect();
    assert_eq!(
        names,
        [
            ("b", "function-container"),
            ("a", "function-container"),
            ("ferroplane.io/readiness", "function-auto-ready")
        ]
    );
    assert!(read(&steps[0]).sees_unwanted);
    assert!(!read(&steps[1]).sees_unwanted);
}

#[test]
fn resources_are_computed_before_functions() {
    let steps = steps(json!({
        "resources": [{"name": "r", "base": {"apiVersion": "v1", "kind": "ConfigMap"}}],
        "functions": [container("a", "x:1")],
    }));
    assert_eq!(steps[0].function_ref.name, "function-patch-and-transform");
    assert_eq!(steps[1].step, "a");
    // What the resources do not want any more must go, and not be passed on as if somebody wanted it.
    assert!(!read(&steps[1]).sees_unwanted);
}

#[test]
fn everything_that_a_container_says_is_in_its_step() {
    let steps = steps(json!({"functions": [{
        "name": "a", "type": "Container", "config": {"apiVersion": "v1", "kind": "C", "data": {"x": 1}},
        "container": {
            "image": "registry.example.org/a:v1", "imagePullPolicy": "Never", "timeout": "1m30s",
            "imagePullSecrets": [{"name": "one"}, {"name": "two", "namespace": "n"}],
            "network": {"policy": "Runner"}, "resources": {"limits": {"memory": "64Mi", "cpu": "250m"}},
        },
    }]}));
    let function = read(&steps[0]);
    assert_eq!(function.protocol, FunctionProtocol::ResourceList);
    assert_eq!(function.timeout, Duration::from_secs(90));
    assert_eq!(function.config.unwrap()["data"], json!({"x": 1}));
    let ExternalCallee::Image(image) = function.callee else { panic!() };
    assert_eq!(image.reference, "registry.example.org/a:v1");
    assert_eq!(image.pull_policy, Some(ImagePullPolicy::Never));
    assert_eq!(image.pull_credentials, ["one", "two"]);
    assert!(image.wants_network);
    assert_eq!((image.memory, image.cpu), (Some(64 << 20), Some(250)));
    let secrets: Vec<_> = steps[0]
        .credentials
        .iter()
        .map(|credential| credential.secret_ref.as_ref().unwrap())
        .map(|secret| (&*secret.namespace, &*secret.name))
        .collect();
    assert_eq!(secrets, [("crossplane-system", "one"), ("n", "two")]);
}

#[test]
fn call_for_a_composite_resource_ends_while_the_reconcile_has_time_left() {
    let timeout = |timeout: &str| {
        let settings = json!({"image": "x:1", "timeout": timeout});
        let steps = steps(json!({"functions": [{"name": "a", "type": "Container", "container": settings}]}));
        read(&steps[0]).timeout.as_secs()
    };
    assert_eq!([timeout("5s"), timeout("1m30s")], [5, 90]);
    assert_eq!([timeout("91s"), timeout("10m")], [90, 90]);
    // An operation may have more time, so that a step may.
    let input = json!({"apiVersion": "container.fn.ferroplane.io/v1alpha1", "kind": "Container", "image": "x:1", "timeout": "10m"});
    let function = ExternalFunction::read(FunctionType::Container, input.as_object().unwrap()).unwrap();
    assert_eq!(function.timeout.as_secs(), 600);
}

#[test]
fn step_has_a_bounded_amount_of_memory() {
    let memory = |memory: &str| {
        let limits = json!({"limits": {"memory": memory}});
        let settings = json!({"image": "x", "resources": limits});
        let functions = json!([{"name": "a", "type": "Container", "container": settings}]);
        Pipeline::of(&spec(json!({"functions": functions}))).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(memory("4Gi"), Ok(()));
    assert_eq!(
        memory("4097Mi").unwrap_err(),
        "function `a`: container.resources.limits.memory: expected at most 4Gi, which is the most that a step may have"
    );
}

#[test]
fn mistakes_are_named_with_function_and_field() {
    let problem =
        |functions: Value| Pipeline::of(&spec(json!({"functions": functions}))).unwrap_err().to_string();
    let with = |settings: Value| json!([{"name": "a", "type": "Container", "container": settings}]);
    assert_eq!(
        problem(with(json!({"image": "x", "timeout": "soon"}))),
        "function `a`: container.timeout: expected a duration above zero and up to 10m, like 20s, got `soon`"
    );
    assert_eq!(
        problem(with(json!({"image": "x", "resources": {"limits": {"memory": "lots"}}}))),
        "function `a`: container.resources.limits.memory: expected a quantity above zero, got `\"lots\"`"
    );
    assert!(problem(with(json!({"image": "x", "timeout": "11m"}))).contains("up to 10m"));
    assert!(problem(with(json!({"image": "a b"}))).contains("container.image"));
    assert!(problem(json!([{"name": "a", "type": "Webhook"}])).contains("webhook"));
    let webhook = |url: &str| json!([{"name": "a", "type": "Webhook", "webhook": {"url": url}}]);
    for url in ["http://a/", "https://", "https://user@host/", "https://a\\b/", "ftp://a", "https://%31/"] {
        assert!(problem(webhook(url)).starts_with("function `a`: webhook.url: expected a URL"), "{url}");
    }
    let both = json!({"functions": [container("a", "x")], "pipeline": [{"step": "s", "functionRef": {"name": "f"}}]});
    assert!(
        Pipeline::of(&spec(both)).unwrap_err().to_string().contains("either a `pipeline` or `functions`")
    );
}

#[test]
fn hosts_are_read_as_they_are_called() {
    for (url, host) in [
        ("https://hooks.example.org/x", Some("hooks.example.org")),
        ("https://hooks.example.org:8443?x", Some("hooks.example.org")),
        ("https://[::1]:443/", Some("::1")),
        ("https://127.0.0.1#x", Some("127.0.0.1")),
        ("https://:443/", None),
    ] {
        assert_eq!(host_of(url), host, "{url}");
    }
}

#[test]
fn unknown_fields_of_inputs_are_refused() {
    let input = json!({"apiVersion": "container.fn.ferroplane.io/v1alpha1", "kind": "Container", "image": "x", "tiemout": "1s"});
    let error = ExternalFunction::read(FunctionType::Container, input.as_object().unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("tiemout: unknown field"), "{error}");
    let error = ExternalFunction::read(FunctionType::Chroot, input.as_object().unwrap()).unwrap_err();
    assert_eq!(error.field, "apiVersion");
}

/// What the first step of a composition may do, or why it is not called.
fn permits(namespace: &str, functions: &Value, grants: &[Value]) -> Result<Permits, (Cause, String)> {
    let mut xr = json!({"apiVersion": "example.org/v1", "kind": "XR", "metadata": {"name": "x", "uid": "u"}});
    if !namespace.is_empty() {
        xr["metadata"]["namespace"] = namespace.into();
    }
    let xr = xr.as_object().cloned().unwrap();
    let mut all = Grants::default();
    for (index, grant) in grants.iter().enumerate() {
        let grant = json!({"metadata": {"name": format!("g{index}")}, "spec": grant});
        all.add(grant.as_object().unwrap()).unwrap();
    }
    let turn = start(Inputs {
        subject: CompositeSubject::new(Struct::try_from(xr.clone()).unwrap(), Layout::Modern).into(),
        pipeline: Arc::new(Pipeline::of(&spec(json!({"functions": functions}))).unwrap()),
        remembered: Vec::new(),
        context: None,
        grants: Arc::new(all.about(&xr)),
    });
    match turn {
        Turn::Call(call) => Ok(call.permits().clone()),
        Turn::Done(outcome) => {
            let failure = outcome.result.unwrap_err();
            Err((failure.cause(), failure.to_string()))
        }
        Turn::Fetch(_) => panic!("nothing is to be read"),
    }
}

fn with_network(image: &str) -> Value {
    json!([{"name": "a", "type": "Container", "container": {"image": image, "network": {"policy": "Runner"}}}])
}

fn with_chroot(image: &str) -> Value {
    json!([{"name": "a", "type": "Chroot", "chroot": {"image": image}}])
}

#[test]
fn network_and_chroot_take_a_grant_whatever_the_composition_says() {
    for namespace in ["team", ""] {
        assert_eq!(permits(namespace, &json!([container("a", "x:1")]), &[]), Ok(Permits::default()));
        let (cause, text) = permits(namespace, &with_network("x:1"), &[]).unwrap_err();
        assert_eq!(cause, Cause::AccessNotGranted);
        assert!(text.starts_with("cannot let pipeline step `a` use the network from image `x:1`"), "{text}");
        let (_, text) = permits(namespace, &with_chroot("x:1"), &[]).unwrap_err();
        assert!(
            text.starts_with("cannot let pipeline step `a` run image `x:1` without a container"),
            "{text}"
        );
    }
}

#[test]
fn grant_that_a_denial_names_helps() {
    for namespace in ["team", ""] {
        for functions in [with_network("r.example.org/x:1"), with_chroot("r.example.org/x@sha256:ab")] {
            let (_, text) = permits(namespace, &functions, &[]).unwrap_err();
            let (_, grant) = crate::wording::split_grant(&text).unwrap();
            assert!(permits(namespace, &functions, &[json!(grant)]).is_ok(), "{text}");
        }
    }
}

#[test]
fn grant_counts_for_whom_and_what_it_names() {
    let grant = |namespace: &str, privilege: &str, image: &str| json!({"to": {"namespaces": [namespace]}, "run": [{"privileges": [privilege], "images": [image]}]});
    let allows = |grant: Value| permits("team", &with_network("r.example.org/x:1"), &[grant]).is_ok();
    for image in ["r.example.org/x:1", "r.example.org/x", "*"] {
        assert!(allows(grant("team", "Network", image)), "{image}");
        assert!(!allows(grant("team", "Chroot", image)), "{image}");
        assert!(!allows(grant("other", "Network", image)), "{image}");
    }
    for image in ["r.example.org/x:2", "r.example.org/xy", "r.example.org", "x:1"] {
        assert!(!allows(grant("team", "Network", image)), "{image}");
    }
    // One for a namespace is none for those that are in none.
    assert!(permits("", &with_network("x"), &[grant("team", "Network", "*")]).is_err());
    assert!(permits("", &with_network("x"), &[grant("*", "Network", "*")]).is_ok());
    let chroot = permits("team", &with_chroot("x"), &[grant("team", "Chroot", "x")]).unwrap();
    assert_eq!(chroot, Permits { network: true, chroot: true, local_addresses: false });
    let reading = json!({"to": {"namespaces": ["*"]}, "read": [{"apiGroups": ["*"], "kinds": ["*"], "namespaces": ["*"]}]});
    assert!(!allows(reading));
}

#[test]
fn hosts_of_this_machine_are_permitted_by_name() {
    let webhook = json!([{"name": "a", "type": "Webhook", "webhook": {"url": "https://Localhost:1/"}}]);
    let grant = |host: &str| json!({"to": {"namespaces": ["team"]}, "call": [{"hosts": [host]}]});
    let is_permitted = |grants: &[Value]| permits("team", &webhook, grants).unwrap().local_addresses;
    assert!(!is_permitted(&[]));
    assert!(is_permitted(&[grant("localhost")]));
    assert!(!is_permitted(&[grant("127.0.0.1")]));
}
