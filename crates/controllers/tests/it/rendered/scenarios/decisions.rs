//! What a definition, administrators, versions of functions and schemas decide.

use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::json;

use super::{
    Answer, Scenario, check, composition, legacy, passing_on, ready, setting, test_step, unnamed,
    unnamed_in_default, with_two_compositions,
};

#[tokio::test]
async fn composition_that_the_definition_enforces() {
    check(with_definition_naming("enforcedCompositionRef")).await;
}

#[tokio::test]
async fn composition_that_is_the_default_of_the_definition() {
    check(with_definition_naming("defaultCompositionRef")).await;
}

fn with_definition_naming(field: &str) -> Scenario {
    with_two_compositions(&json!({})).with(|it| it.kinds[0]["spec"][field] = json!({"name": "others"}))
}

#[tokio::test]
async fn read_that_nobody_granted() {
    check(reading_elsewhere(&[])).await;
}

#[tokio::test]
async fn read_that_is_granted_to_another_function() {
    check(reading_elsewhere(&["function-other"])).await;
}

#[tokio::test]
async fn read_that_is_granted() {
    check(reading_elsewhere(&["function-test"])).await;
}

/// The function asks for a Secret of another namespace. A grant allows these functions to read it, if there are any.
fn reading_elsewhere(functions: &[&str]) -> Scenario {
    let answer = |request: &RunFunctionRequest| {
        let count = request.required_resources.values().map(|found| found.items.len()).sum::<usize>();
        json!({
            "meta": {},
            "requirements": {"resources": {
                "token": {"apiVersion": "v1", "kind": "Secret", "matchName": "token", "namespace": "other"},
            }},
            "desired": {"composite": {"resource": {"status": {"color": count.to_string()}}}},
        })
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": "other"},
        "data": {"token": "c2VjcmV0"},
    });
    let read = json!({"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["other"], "names": ["token"]});
    let grant = json!({
        "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "blog"},
        "spec": {"to": {"namespaces": ["default"], "functions": functions}, "read": [read]},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    Scenario::site(answer).with(|it| {
        it.others = vec![namespace, secret];
        if !functions.is_empty() {
            it.others.push(grant);
        }
    })
}

/// The condition and the event about it are compared with all others.
#[tokio::test]
async fn version_that_is_deprecated() {
    check(calling_version("v0.1.0")).await;
}

#[tokio::test]
async fn version_that_a_step_names() {
    check(calling_version("v0.2.0")).await;
}

fn calling_version(version: &str) -> Scenario {
    let answer: Answer = |_| json!({"meta": {}, "desired": {"resources": {"one": ready(&setting("one"))}}});
    let step = json!({"step": "aged", "functionRef": {"name": "function-aged", "version": version}});
    Scenario::site(answer)
        .with(|it| it.compositions = vec![composition("sites", &json!([test_step(), step]))])
}

/// No step calls the function of the test: the composition lists resources instead.
#[tokio::test]
async fn composition_without_steps() {
    let patch =
        json!({"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"});
    let resources = json!([
        {"name": "one", "base": unnamed(), "patches": [patch], "readinessChecks": [{"type": "None"}]},
        {"base": unnamed(), "readinessChecks": [{"type": "NonEmpty", "fieldPath": "data.missing"}]},
    ]);
    check(Scenario::site(passing_on).with(|it| {
        let spec = it.compositions[0]["spec"].as_object_mut().unwrap();
        spec.remove("pipeline");
        spec.insert("mode".to_owned(), "Resources".into());
        spec.insert("resources".to_owned(), resources);
    }))
    .await;
}

#[tokio::test]
async fn requirements_that_never_settle() {
    let answer = |request: &RunFunctionRequest| {
        // Another name than that of the call before.
        let name = format!("{}x", request.required_resources.keys().next().map_or("", String::as_str));
        let selector =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "matchName": "nobody", "namespace": "default"});
        json!({"meta": {}, "requirements": {"resources": {name: selector}}})
    };
    check(Scenario::site(answer)).await;
}

/// The function is given the schema of the composite resource itself.
#[tokio::test]
async fn required_schema() {
    let answer = |request: &RunFunctionRequest| {
        let known = request.required_schemas.values().filter(|schema| schema.openapi_v3.is_some()).count();
        json!({
            "meta": {},
            "requirements": {"schemas": {"own": {"apiVersion": "example.org/v1", "kind": "Site"}}},
            "desired": {"composite": {"resource": {"status": {"color": known.to_string()}}}},
        })
    };
    check(Scenario::site(answer)).await;
}

/// The user chose the Secret. What is composed has the labels of the claim.
#[tokio::test]
async fn bound_to_a_claim_with_a_connection_secret() {
    let answer = |request: &RunFunctionRequest| {
        let request = ferroplane_wire::to_json(request).unwrap();
        let user = &request["observed"]["composite"]["connectionDetails"]["user"];
        json!({"meta": {}, "desired": {
            "composite": {
                "resource": {"status": {"color": user.as_str().unwrap_or("none")}},
                "connectionDetails": {"user": "YWRtaW4="},
            },
            "resources": {"one": ready(&unnamed_in_default())},
        }})
    };
    check(legacy(answer).with(|it| {
        it.xr["metadata"]["labels"] =
            json!({"crossplane.io/claim-name": "page", "crossplane.io/claim-namespace": "default"});
        it.xr["spec"]["claimRef"] =
            json!({"apiVersion": "example.org/v1", "kind": "Page", "name": "page", "namespace": "default"});
        it.xr["spec"]["writeConnectionSecretToRef"] = json!({"name": "blog-keys", "namespace": "default"});
    }))
    .await;
}
