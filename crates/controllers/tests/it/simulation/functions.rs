//! A function that composes what its input lists, as long as it is in a good mood.

use std::sync::Arc;

use ferroplane_functions::Implementation;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Value, json};

use super::weather::Weather;

pub(super) const NAME: &str = "function-wishes";
/// Who asks for something else each time is asked again after this time.
const FICKLE: &str = "7s";

/// The kinds of what can be composed, and what they are called in paths.
pub(super) const KINDS: [(&str, &str); 3] =
    [("ConfigMap", "configmaps"), ("Secret", "secrets"), ("ServiceAccount", "serviceaccounts")];

pub(super) fn function(weather: Arc<Weather>) -> (String, Implementation) {
    let implementation = Implementation::new(move |request| {
        weather.count_call();
        answer(request, &weather)
    });
    (NAME.to_owned(), implementation)
}

fn answer(request: &RunFunctionRequest, weather: &Weather) -> RunFunctionResponse {
    let mood =
        if weather.is_stormy() && weather.moods.happens(25) { weather.moods.below(7) } else { u64::MAX };
    if mood != u64::MAX {
        weather.note(&format!("function in mood {mood}"));
    }
    let mut answer = good(request);
    match mood {
        0 => answer = json!({"results": [{"severity": "SEVERITY_FATAL", "message": "not now"}]}),
        1 => answer["desired"]["resources"]["garbage"] = json!({"resource": {"nothing": "of use"}}),
        2 => {
            answer["desired"]["resources"]["misnamed"] = resource("misnamed", "ConfigMap", "x", "x");
            answer["desired"]["resources"]["misnamed"]["resource"]["metadata"]["name"] = "Not A Name".into();
        }
        3 => {
            let resources = answer["desired"]["resources"].as_object_mut().unwrap();
            let first = resources.keys().next().cloned();
            first.map(|first| resources.remove(&first));
        }
        4 => answer["desired"]["resources"]["extra"] = resource("extra", "Secret", "x", "x"),
        5 => {
            for resource in answer["desired"]["resources"].as_object_mut().unwrap().values_mut() {
                resource["resource"]["metadata"]["annotations"]["color"] = "mood".into();
            }
        }
        6 => {
            let other = format!("other-{}", weather.moods.below(1000));
            answer["requirements"]["resources"][other.as_str()] = palette(&other);
        }
        _ => {}
    }
    answer["meta"] = if matches!(mood, 3..=6) { json!({"ttl": FICKLE}) } else { json!({}) };
    ferroplane_wire::from_json(&answer).unwrap()
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
    let input = request.input.as_ref().unwrap().json().unwrap();
    let wishes = input["wishes"].as_object().into_iter().flatten();
    let resources = wishes
        .map(|(name, kind)| (name.clone(), resource(name, kind.as_str().unwrap_or_default(), color, &shade)));
    json!({
        "desired": {
            "composite": {"resource": {"status": {"color": color}}},
            "resources": resources.collect::<serde_json::Map<_, _>>(),
        },
        "requirements": {"resources": {"palette": palette("palette")}},
    })
}

fn palette(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "matchName": name, "namespace": "default"})
}

fn resource(name: &str, kind: &str, color: &str, shade: &str) -> Value {
    let annotations = json!({"who": name, "color": color, "shade": shade});
    let resource = json!({"apiVersion": "v1", "kind": kind, "metadata": {"annotations": annotations}});
    json!({"resource": resource, "ready": "READY_TRUE"})
}
