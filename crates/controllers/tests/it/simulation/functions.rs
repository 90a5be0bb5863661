//! A function that composes what its input lists, as long as it is in a good mood.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_runner::{AsyncFunction, CallError};
use ferroplane_testkit::plane::condition;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Value, json};

use super::weather::Weather;

pub(super) const NAME: &str = "function-wishes";
const TARGET: &str = "function.example:9443";
/// How long a caller that calls a function waits for its answer.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// The kinds of what can be composed, and what they are called in paths.
pub(super) const KINDS: [(&str, &str); 3] =
    [("ConfigMap", "configmaps"), ("Secret", "secrets"), ("ServiceAccount", "serviceaccounts")];

/// A function and its name.
pub(super) type Function = (String, AsyncFunction);

pub(super) fn function(weather: Arc<Weather>) -> Function {
    let inside = AsyncFunction::new(move |request| {
        let weather = weather.clone();
        async move {
            weather.count_call();
            answer(&request, &weather).await
        }
    });
    (NAME.to_owned(), inside)
}

/// A function that says this.
pub(super) fn saying(
    name: &str,
    answer: impl Fn(&RunFunctionRequest) -> Value + Send + Sync + 'static,
) -> Function {
    let inside = AsyncFunction::new(move |request| {
        let mut answer = answer(&request);
        if answer.get("meta").is_none() {
            answer["meta"] = json!({});
        }
        std::future::ready(Ok(ferroplane_wire::from_json(&answer).unwrap()))
    });
    (name.to_owned(), inside)
}

/// A function that does not answer.
pub(super) fn silent(name: &str) -> Function {
    (name.to_owned(), AsyncFunction::new(|_| hang()))
}

/// A function that is not there.
pub(super) fn absent(name: &str) -> Function {
    (name.to_owned(), AsyncFunction::new(|_| std::future::ready(Err(unreachable()))))
}

async fn answer(request: &RunFunctionRequest, weather: &Weather) -> Result<RunFunctionResponse, CallError> {
    let mut answer = good(request);
    if weather.is_stormy() && weather.moods.happens(5) {
        weather.note("function hangs");
        return hang().await;
    }
    if weather.is_stormy() && weather.moods.happens(10) {
        let delay = weather.moods.up_to(PATIENCE);
        weather.note(&format!("function takes {delay:?}"));
        tokio::time::sleep(delay).await;
    }
    if weather.is_stormy() && !weather.is_steady && weather.moods.happens(25) {
        let mood = weather.moods.below(8);
        weather.note(&format!("function in mood {mood}"));
        if mood == 7 {
            return Err(unreachable());
        }
        spoil(&mut answer, mood, weather.moods.below(1_000_000));
    }
    answer["meta"] = json!({});
    Ok(ferroplane_wire::from_json(&answer).unwrap())
}

pub(super) async fn hang() -> Result<RunFunctionResponse, CallError> {
    tokio::time::sleep(PATIENCE).await;
    Err(CallError::Timeout { target: TARGET.to_owned(), after: PATIENCE })
}

fn unreachable() -> CallError {
    CallError::Unreachable { target: TARGET.to_owned(), waited: PATIENCE, reason: "bad weather".to_owned() }
}

/// Say something else. Nobody is ever told the same wrong thing twice: they would have to believe it.
fn spoil(answer: &mut Value, mood: u64, number: u64) {
    answer["desired"]["composite"]["resource"]["status"]["color"] = format!("mood {number}").into();
    let resources = answer["desired"]["resources"].as_object_mut().unwrap();
    match mood {
        0 => *answer = json!({"results": [{"severity": "SEVERITY_FATAL", "message": "not now"}]}),
        1 => {
            resources.insert("garbage".to_owned(), json!({"resource": {"nothing": "of use"}}));
        }
        2 => {
            let mut misnamed = resource("misnamed", "ConfigMap", "x", "x");
            misnamed["resource"]["metadata"]["name"] = "Not A Name".into();
            resources.insert("misnamed".to_owned(), misnamed);
        }
        3 => {
            let first = resources.keys().next().cloned();
            first.map(|first| resources.remove(&first));
        }
        4 => {
            resources.insert("extra".to_owned(), resource("extra", "Secret", "x", "x"));
        }
        5 => {
            for resource in resources.values_mut() {
                resource["resource"]["metadata"]["annotations"]["color"] = "mood".into();
            }
        }
        _ => {
            let other = format!("other-{number}");
            answer["requirements"]["resources"][other.as_str()] = palette(&other);
        }
    }
}

/// What it says when nothing is wrong with it.
fn good(request: &RunFunctionRequest) -> Value {
    let site = request.observed.as_ref().and_then(|observed| observed.composite()?.resource.as_ref());
    let site = site.unwrap().json().unwrap();
    let color = site["spec"]["color"].as_str().unwrap_or_default();
    let required = request.required_resources.get("palette");
    let shade = required.and_then(|required| {
        required.items.first()?.resource.as_ref()?.json().ok()?["data"]["shade"].as_str().map(str::to_owned)
    });
    let shade = shade.unwrap_or_else(|| "none".to_owned());
    // Who is in no namespace has to say where.
    let namespace = site["metadata"].get("namespace").is_none().then_some("default");
    let input = request.input.as_ref().unwrap().json().unwrap();
    let wishes = input["wishes"].as_object().into_iter().flatten();
    let resources = wishes.map(|(name, kind)| {
        let mut resource = resource(name, kind.as_str().unwrap_or_default(), color, &shade);
        if let Some(namespace) = namespace {
            resource["resource"]["metadata"]["namespace"] = namespace.into();
        }
        if kind == "Site" {
            resource["resource"]["apiVersion"] = "example.org/v1".into();
            resource["resource"]["spec"] = json!({"color": color});
            resource["ready"] = if is_ready(request, name) { "READY_TRUE" } else { "READY_FALSE" }.into();
        }
        (name.clone(), resource)
    });
    json!({
        "desired": {
            "composite": {"resource": {"status": {"color": color}}},
            "resources": resources.collect::<serde_json::Map<_, _>>(),
        },
        "requirements": {"resources": {"palette": palette("palette")}},
    })
}

/// Whether something that is there says that it is ready.
fn is_ready(request: &RunFunctionRequest, name: &str) -> bool {
    let observed =
        request.observed.as_ref().and_then(|observed| observed.resources().get(name)?.resource.as_ref());
    let observed = observed.and_then(|observed| observed.json().ok()).cloned().unwrap_or_default();
    condition(&Value::Object(observed), "Ready").is_some_and(|ready| ready.starts_with("True/"))
}

fn palette(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "matchName": name, "namespace": "default"})
}

fn resource(name: &str, kind: &str, color: &str, shade: &str) -> Value {
    let annotations = json!({"who": name, "color": color, "shade": shade});
    let resource = json!({"apiVersion": "v1", "kind": kind, "metadata": {"annotations": annotations}});
    json!({"resource": resource, "ready": "READY_TRUE"})
}
