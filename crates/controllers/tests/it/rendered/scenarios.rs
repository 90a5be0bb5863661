//! What composite resources go through, on a plane and rendered.

mod decisions;

use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::{Value, json};

use super::{check, check_refused};

/// What a function answers.
type Answer = fn(&RunFunctionRequest) -> Value;

/// A composite resource, and everything around it.
pub(super) struct Scenario {
    /// The definition of the composite resource, and those of what it composes.
    pub(super) kinds: Vec<Value>,
    pub(super) compositions: Vec<Value>,
    /// The composition that is to be used.
    pub(super) uses: &'static str,
    /// Functions that come in packages.
    pub(super) functions: Vec<Value>,
    /// What `function-test` answers.
    pub(super) answer: Answer,
    pub(super) xr: Value,
    /// Whether its user deletes it before it is reconciled.
    pub(super) is_deleted: bool,
    /// What functions may ask to see.
    pub(super) others: Vec<Value>,
}

impl Scenario {
    /// A site that becomes what a function answers.
    fn site(answer: Answer) -> Self {
        Self {
            kinds: vec![definition("Namespaced", "Site", "sites")],
            compositions: vec![composition("sites", &json!([test_step()]))],
            uses: "sites",
            functions: Vec::new(),
            answer,
            xr: site(),
            is_deleted: false,
            others: Vec::new(),
        }
    }

    /// The same, where the composite resource has something more.
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

#[tokio::test]
async fn composed_and_ready() {
    check(Scenario::site(|_| {
        json!({"meta": {}, "desired": {
            "composite": {"resource": {"status": {"color": "red"}}},
            "resources": {"one": ready(&setting("one")), "unnamed": ready(&unnamed())},
        }})
    }))
    .await;
}

#[tokio::test]
async fn composed_but_not_ready() {
    check(Scenario::site(|_| {
        let unready = json!({"resource": setting("two"), "ready": "READY_FALSE"});
        json!({"meta": {}, "desired": {"resources": {"one": ready(&setting("one")), "two": unready}}})
    }))
    .await;
}

#[tokio::test]
async fn fatal_result() {
    check(Scenario::site(|_| {
        json!({"meta": {}, "results": [
            {"severity": "SEVERITY_NORMAL", "message": "began"},
            {"severity": "SEVERITY_FATAL", "message": "no such color"},
        ], "conditions": [{"type": "Painted", "status": "STATUS_CONDITION_FALSE", "reason": "NoPaint"}]})
    }))
    .await;
}

#[tokio::test]
async fn results_and_conditions_for_composite_and_claim() {
    let say = |_: &RunFunctionRequest| {
        json!({
            "meta": {},
            "results": [
                {"severity": "SEVERITY_WARNING", "message": "careful", "reason": "Odd", "target": "TARGET_COMPOSITE"},
                {"severity": "SEVERITY_NORMAL", "message": "for both", "target": "TARGET_COMPOSITE_AND_CLAIM"},
            ],
            "conditions": [
                {"type": "Kept", "status": "STATUS_CONDITION_TRUE", "reason": "Own", "target": "TARGET_COMPOSITE"},
                {
                    "type": "Told", "status": "STATUS_CONDITION_UNKNOWN", "reason": "Both", "message": "soon",
                    "target": "TARGET_COMPOSITE_AND_CLAIM",
                },
            ],
            "desired": {"resources": {"one": ready(&setting("one"))}},
        })
    };
    check(Scenario::site(say)).await;
    check(legacy(say)).await;
}

#[tokio::test]
async fn required_resources() {
    let answer = |request: &RunFunctionRequest| {
        let count = request.required_resources.values().map(|found| found.items.len()).sum::<usize>();
        json!({
            "meta": {},
            "requirements": {"resources": {
                "by-name": {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "paint", "namespace": "default"},
                "by-label": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"labels": {"paint": "yes"}}},
                "missing": {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "nobody", "namespace": "default"},
            }},
            "desired": {"composite": {"resource": {"status": {"color": count.to_string()}}}},
        })
    };
    check(Scenario::site(answer).with(|it| it.others = vec![paint("paint"), paint("more")])).await;
}

#[tokio::test]
async fn paused() {
    let annotations = json!({"crossplane.io/paused": "true"});
    check(Scenario::site(|_| json!({"meta": {}})).with(|it| it.xr["metadata"]["annotations"] = annotations))
        .await;
}

#[tokio::test]
async fn being_deleted() {
    let keep = json!(["example.org/keep"]);
    check(Scenario::site(|_| json!({"meta": {}})).with(|it| {
        it.xr["metadata"]["finalizers"] = keep;
        it.is_deleted = true;
    }))
    .await;
}

#[tokio::test]
async fn legacy_with_connection_details() {
    check(legacy(|_| {
        json!({"meta": {}, "desired": {
            "composite": {"connectionDetails": {"user": "YWRtaW4=", "other": "eA=="}},
            "resources": {"one": ready(&setting("one"))},
        }})
    }))
    .await;
}

#[tokio::test]
async fn built_in_function_in_place_of_a_package() {
    check(with_package("v0.10.0")).await;
}

#[tokio::test]
async fn built_in_function_in_place_of_a_package_with_a_digest() {
    check(with_package(&format!("v0.10.0@sha256:{}", "0123456789abcdef".repeat(4)))).await;
}

/// The administrator wants the built-in function, although the package has a version that it does not cover.
#[tokio::test]
async fn built_in_function_is_required() {
    check(with_package("v99.0.0").with(|it| set_native(it, "true"))).await;
}

/// The administrator wants the package to run, and nothing here runs packages.
#[tokio::test]
async fn built_in_function_is_forbidden() {
    check_refused(with_package("v0.10.0").with(|it| set_native(it, "false")), &["`patches`"]).await;
}

#[tokio::test]
async fn built_in_function_is_asked_for_in_other_words() {
    let scenario = with_package("v0.10.0").with(|it| set_native(it, "maybe"));
    check_refused(scenario, &["`patches`", "expected `true` or `false`, got `maybe`"]).await;
}

fn set_native(scenario: &mut Scenario, value: &str) {
    scenario.functions[0]["metadata"]["annotations"] = json!({"ferroplane.io/native": value});
}

#[tokio::test]
async fn function_that_is_missing() {
    let step = json!({"step": "compose", "functionRef": {"name": "function-missing"}});
    let compositions = vec![composition("sites", &json!([test_step(), step]))];
    let scenario = Scenario::site(passing_on).with(|it| it.compositions = compositions);
    check_refused(scenario, &["`compose`", "`function-missing`"]).await;
}

/// The condition has the code of the call that failed, which is compared with the rest of the status.
#[tokio::test]
async fn function_that_cannot_be_reached() {
    let step = json!({"step": "served", "functionRef": {"name": "function-served"}});
    // Nothing listens on port 1, which no program gets without asking for it.
    let function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": "function-served", "annotations": {
            "render.crossplane.io/runtime": "Development",
            "render.crossplane.io/runtime-development-target": "127.0.0.1:1",
        }},
        "spec": {"package": "registry.example/function-served:v1"},
    });
    check(Scenario::site(passing_on).with(|it| {
        it.compositions = vec![composition("sites", &json!([test_step(), step]))];
        it.functions = vec![function];
    }))
    .await;
}

#[tokio::test]
async fn context_of_an_earlier_step() {
    let answer = |request: &RunFunctionRequest| {
        let request = ferroplane_wire::to_json(request).unwrap();
        let color = request["context"]["color"].as_str().unwrap_or("none");
        json!({"meta": {}, "context": {"color": "blue"}, "desired": {
            "composite": {"resource": {"status": {"color": color}}},
            "resources": {"one": ready(&setting("one"))},
        }})
    };
    let mut second = test_step();
    second["step"] = "again".into();
    let compositions = vec![composition("sites", &json!([test_step(), second]))];
    check(Scenario::site(answer).with(|it| it.compositions = compositions)).await;
}

/// Functions see the claim, and what is composed has its labels. There is no claim, so that nothing copies its fields meanwhile.
#[tokio::test]
async fn bound_to_a_claim() {
    let answer = |request: &RunFunctionRequest| {
        let request = ferroplane_wire::to_json(request).unwrap();
        let claim = &request["observed"]["composite"]["resource"]["spec"]["claimRef"]["name"];
        json!({
            "meta": {},
            "results": [
                {"severity": "SEVERITY_NORMAL", "message": "for both", "target": "TARGET_COMPOSITE_AND_CLAIM"},
            ],
            "conditions": [{
                "type": "Told", "status": "STATUS_CONDITION_TRUE", "reason": "Both", "target": "TARGET_COMPOSITE_AND_CLAIM",
            }],
            "desired": {
                "composite": {"resource": {"status": {"color": claim}}},
                "resources": {"one": ready(&setting("one")), "unnamed": ready(&unnamed_in_default())},
            },
        })
    };
    check(legacy(answer).with(|it| {
        it.xr["metadata"]["labels"] =
            json!({"crossplane.io/claim-name": "page", "crossplane.io/claim-namespace": "default"});
        it.xr["spec"]["claimRef"] =
            json!({"apiVersion": "example.org/v1", "kind": "Page", "name": "page", "namespace": "default"});
    }))
    .await;
}

/// The composite resource refers to an object that something else has taken over: it is not observed, and not deleted.
#[tokio::test]
async fn object_that_something_else_controls() {
    let answer = |request: &RunFunctionRequest| {
        let observed: Vec<_> = request.observed.iter().flat_map(|state| state.resources().keys()).collect();
        json!({"meta": {}, "desired": {
            "composite": {"resource": {"status": {"color": format!("{observed:?}")}}},
            "resources": {"two": ready(&setting("two"))},
        }})
    };
    let mut theirs = setting("one");
    theirs["metadata"]["annotations"] = json!({"crossplane.io/composition-resource-name": "one"});
    theirs["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": true}]);
    check(Scenario::site(answer).with(|it| {
        it.others = vec![setting("owner"), theirs];
        it.xr["spec"]["crossplane"] =
            json!({"resourceRefs": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "one"}]});
    }))
    .await;
}

#[tokio::test]
async fn cluster_scoped_resource_of_a_namespaced_composite() {
    check(Scenario::site(|_| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
        json!({"meta": {}, "desired": {"resources": {"one": ready(&setting("one")), "two": ready(&namespace)}}})
    }))
    .await;
}

#[tokio::test]
async fn two_resources_that_are_the_same_object() {
    check(Scenario::site(|_| {
        json!({"meta": {}, "desired": {"resources": {"one": ready(&setting("same")), "two": ready(&setting("same"))}}})
    }))
    .await;
}

#[tokio::test]
async fn name_that_no_object_can_have() {
    check(Scenario::site(|_| {
        json!({"meta": {}, "desired": {"resources": {"one": ready(&setting("Not_A_Name")), "two": ready(&setting("two"))}}})
    }))
    .await;
}

/// A site that a function of a package composes, of which this is the version.
fn with_package(version: &str) -> Scenario {
    let input = json!({
        "apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": [
            {"name": "one", "base": setting("one"), "readinessChecks": [{"type": "None"}]},
        ],
    });
    let step = json!({"step": "compose", "functionRef": {"name": "patches"}, "input": input});
    let package = format!("xpkg.crossplane.io/crossplane-contrib/function-patch-and-transform:{version}");
    let function = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "patches"},
        "spec": {"package": package},
    });
    Scenario::site(passing_on).with(|it| {
        it.compositions = vec![composition("sites", &json!([step, test_step()]))];
        it.functions = vec![function];
    })
}

#[tokio::test]
async fn composed_resource_with_a_connection_secret() {
    let answer = |request: &RunFunctionRequest| {
        let request = ferroplane_wire::to_json(request).unwrap();
        let password = &request["observed"]["resources"]["room"]["connectionDetails"]["password"];
        let room = json!({
            "apiVersion": "example.org/v1", "kind": "Room", "metadata": {"name": "inner"},
            "spec": {"color": "red", "writeConnectionSecretToRef": {"name": "keys"}},
        });
        json!({"meta": {}, "desired": {
            "composite": {"resource": {"status": {"color": password.as_str().unwrap_or("none")}}},
            "resources": {"room": ready(&room)},
        }})
    };
    let mut rooms = definition("Namespaced", "Room", "rooms");
    spec_fields(&mut rooms)["writeConnectionSecretToRef"] =
        json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default"},
        "type": "connection.crossplane.io/v1alpha1", "data": {"password": "c2VjcmV0"},
    });
    check(Scenario::site(answer).with(|it| {
        it.kinds.push(rooms);
        it.others = vec![secret];
    }))
    .await;
}

#[tokio::test]
async fn defaults_in_place_of_null_items() {
    let answer = |request: &RunFunctionRequest| {
        let request = ferroplane_wire::to_json(request).unwrap();
        let spec = &request["observed"]["composite"]["resource"]["spec"];
        let color = format!("{} {}", spec["list"], spec["map"]);
        json!({"meta": {}, "desired": {"composite": {"resource": {"status": {"color": color}}}}})
    };
    check(Scenario::site(answer).with(|it| {
        let fields = spec_fields(&mut it.kinds[0]);
        fields["list"] = json!({"type": "array", "items": {"type": "integer", "default": 1}});
        fields["map"] = json!({"type": "object", "additionalProperties": {"type": "integer", "default": 2}});
        it.xr["spec"]["list"] = json!([null, 5]);
        it.xr["spec"]["map"] = json!({"a": null, "b": 6});
    }))
    .await;
}

/// The condition has a code, which is compared with the rest of the status.
#[tokio::test]
async fn namespace_is_missing() {
    let answer =
        |_: &RunFunctionRequest| json!({"meta": {}, "desired": {"resources": {"one": ready(&unnamed())}}});
    check(Scenario::site(answer).with(|it| {
        it.kinds = vec![definition("Cluster", "Site", "sites")];
        it.xr["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
    }))
    .await;
}

#[tokio::test]
async fn resource_that_is_not_wanted_any_more() {
    check(Scenario::site(|request| {
        let request = ferroplane_wire::to_json(request).unwrap();
        let mut resources = json!({"one": ready(&setting("one"))});
        if request["observed"]["composite"]["resource"]["status"]["color"].is_null() {
            resources["two"] = ready(&setting("two"));
        }
        json!({"meta": {}, "desired": {
            "composite": {"resource": {"status": {"color": "painted"}}}, "resources": resources,
        }})
    }))
    .await;
}

#[tokio::test]
async fn composite_of_composites() {
    let answer = |_: &RunFunctionRequest| {
        let mut inner = site();
        inner["kind"] = "Room".into();
        inner["metadata"] = json!({"name": "inner"});
        json!({"meta": {}, "desired": {"resources": {"room": {"resource": inner}}}})
    };
    check(Scenario::site(answer).with(|it| it.kinds.push(definition("Namespaced", "Room", "rooms")))).await;
}

#[tokio::test]
async fn namespace_is_overridden() {
    check(Scenario::site(|_| {
        let mut elsewhere = setting("one");
        elsewhere["metadata"]["namespace"] = "kube-system".into();
        json!({"meta": {}, "desired": {"resources": {"one": ready(&elsewhere)}}})
    }))
    .await;
}

#[tokio::test]
async fn missing_credentials() {
    let mut step = test_step();
    step["credentials"] = json!([{
        "name": "cloud", "source": "Secret", "secretRef": {"namespace": "default", "name": "missing"},
    }]);
    let compositions = vec![composition("sites", &json!([step]))];
    check(Scenario::site(|_| json!({"meta": {}})).with(|it| it.compositions = compositions)).await;
}

#[tokio::test]
async fn credentials() {
    let mut step = test_step();
    step["credentials"] = json!([{
        "name": "cloud", "source": "Secret", "secretRef": {"namespace": "default", "name": "cloud"},
    }]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": "default"},
        "data": {"token": "c2VjcmV0"},
    });
    check(Scenario::site(|_| json!({"meta": {}})).with(|it| {
        it.compositions = vec![composition("sites", &json!([step]))];
        it.others = vec![secret];
    }))
    .await;
}

#[tokio::test]
async fn reconcile_requested() {
    let annotations = json!({"crossplane.io/reconcile-requested-at": "now"});
    check(Scenario::site(|_| json!({"meta": {}})).with(|it| it.xr["metadata"]["annotations"] = annotations))
        .await;
}

#[tokio::test]
async fn composition_by_reference() {
    check(with_two_compositions(&json!({"compositionRef": {"name": "others"}}))).await;
}

#[tokio::test]
async fn composition_by_label() {
    check(with_two_compositions(&json!({"compositionSelector": {"matchLabels": {"which": "others"}}}))).await;
}

fn with_two_compositions(machinery: &Value) -> Scenario {
    let mut others = composition("others", &json!([test_step()]));
    others["metadata"]["labels"] = json!({"which": "others"});
    Scenario::site(|_| json!({"meta": {}})).with(|it| {
        it.compositions.push(others);
        it.uses = "others";
        it.xr["spec"]["crossplane"] = machinery.clone();
    })
}

/// A site of the old layout, which can be claimed.
fn legacy(answer: Answer) -> Scenario {
    let mut definition = definition("LegacyCluster", "Site", "sites");
    definition["apiVersion"] = "apiextensions.crossplane.io/v1".into();
    definition["spec"]["claimNames"] = json!({"kind": "Page", "plural": "pages"});
    definition["spec"]["connectionSecretKeys"] = json!(["user"]);
    Scenario::site(answer).with(|it| {
        it.kinds = vec![definition];
        it.compositions[0]["spec"]["writeConnectionSecretsToNamespace"] = "default".into();
        it.xr["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
    })
}

fn passing_on(request: &RunFunctionRequest) -> Value {
    let request = ferroplane_wire::to_json(request).unwrap();
    json!({"meta": {}, "desired": request["desired"]})
}

fn definition(scope: &str, kind: &str, plural: &str) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "color": {"type": "string"}, "size": {"type": "string", "default": "small"},
        }},
        "status": {"type": "object", "properties": {"color": {"type": "string"}}},
    }});
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": format!("{plural}.example.org")},
        "spec": {
            "group": "example.org", "names": {"kind": kind, "plural": plural}, "scope": scope,
            "versions": [{
                "name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// The schemas of the fields that a definition gives to users.
fn spec_fields(definition: &mut Value) -> &mut Value {
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    &mut schema["properties"]["spec"]["properties"]
}

fn composition(name: &str, pipeline: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": name},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"},
            "mode": "Pipeline", "pipeline": pipeline,
        },
    })
}

fn test_step() -> Value {
    json!({"step": "test", "functionRef": {"name": "function-test"}})
}

fn site() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": "blog", "namespace": "default"},
        "spec": {"color": "red"},
    })
}

fn setting(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"color": "red"},
    })
}

/// A setting that the plane has to name.
fn unnamed() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "blue"}})
}

/// The same, for a composite resource that is in no namespace.
fn unnamed_in_default() -> Value {
    let mut object = unnamed();
    object["metadata"] = json!({"namespace": "default"});
    object
}

fn ready(object: &Value) -> Value {
    json!({"resource": object, "ready": "READY_TRUE"})
}

fn paint(name: &str) -> Value {
    let mut object = setting(name);
    object["metadata"]["labels"] = json!({"paint": "yes"});
    object
}

/// The path of an object of one of the kinds here.
pub(super) fn path_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let prefix = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/namespaces/{namespace}"),
        None => String::new(),
    };
    format!("{prefix}{namespace}/{}s/{}", kind.to_lowercase(), text(&object["metadata"]["name"]))
}
