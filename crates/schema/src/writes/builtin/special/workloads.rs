//! What pods and jobs are given when they are made.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry/core/pod/strategy.go`, `pkg/registry/batch/job/strategy.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::{Value, json};

use super::super::super::metadata_text;

/// The resources whose amounts decide how well a pod is served.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// A new pod waits for a node.
pub(super) fn await_a_node(pod: &mut JsonObject) {
    let class = service_class(pod.get("spec").unwrap_or(&Value::Null));
    let status = pod.entry("status").or_insert_with(|| json!({}));
    status["phase"] = "Pending".into();
    status["qosClass"] = class.into();
}

/// How well a pod is served: guaranteed if every container has limits and asks for no less, at best effort if none asks
/// for anything.
fn service_class(spec: &Value) -> &'static str {
    let all = ["containers", "initContainers"].into_iter().filter_map(|name| spec[name].as_array()).flatten();
    let mut is_guaranteed = true;
    let mut asks = false;
    for container in all {
        let amount = |of: &str, name: &str| {
            let text = container["resources"][of][name].as_str()?;
            Some(text).filter(|text| !is_nothing(text))
        };
        for name in COUNTED {
            let (limit, request) = (amount("limits", name), amount("requests", name));
            asks |= limit.is_some() || request.is_some();
            // Texts can be compared: quantities were brought into their canonical form when the object was
            // read.
            is_guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (asks, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn is_nothing(quantity: &str) -> bool {
    !quantity.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Unless someone chooses otherwise, the pods of a job are those that bear its identity.
pub(super) fn select_own_pods(job: &mut JsonObject) {
    let (uid, name) = (metadata_text(job, "uid").to_owned(), metadata_text(job, "name").to_owned());
    let Some(Value::Object(spec)) = job.get_mut("spec") else { return };
    if spec.get("manualSelector").is_some_and(|is_manual| *is_manual == true) {
        return;
    }
    let template = spec.entry("template").or_insert_with(|| json!({}));
    for (label, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        // The two labels without a domain are from before there was a rule for names; controllers of others
        // still select by them.
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        // Texts and lists cannot be indexed by name; the validation says what is wrong with them.
        if let Some(labels) = fields(template, "metadata").and_then(|metadata| fields(metadata, "labels")) {
            labels[label] = value.as_str().into();
        }
    }
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    if let Some(labels) = fields(selector, "matchLabels") {
        labels["batch.kubernetes.io/controller-uid"] = uid.into();
    }
}

/// The object in a field, made if there is none. Nothing if there is something else.
fn fields<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    let field = value.as_object_mut()?.entry(name).or_insert_with(|| json!({}));
    if field.is_null() {
        *field = json!({});
    }
    field.is_object().then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_served_as_well_as_they_ask() {
        let class = |resources: Value| service_class(&json!({"containers": [{"resources": resources}]}));
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        assert_eq!(class(json!({"requests": {"cpu": "0"}})), "BestEffort");
        assert_eq!(class(json!({"limits": {"cpu": "1", "memory": "1Gi"}})), "Guaranteed");
        let less = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        assert_eq!(class(less), "Burstable");
    }

    #[test]
    fn a_job_selects_its_own_pods() {
        let job = json!({"metadata": {"uid": "u", "name": "n"}, "spec": {"template": {"metadata": null}}});
        let mut job = job.as_object().unwrap().clone();
        select_own_pods(&mut job);
        assert_eq!(
            job["spec"]["selector"]["matchLabels"],
            json!({"batch.kubernetes.io/controller-uid": "u"})
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "n");
    }
}
