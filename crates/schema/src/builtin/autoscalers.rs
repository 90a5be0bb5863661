//! The two versions of autoscalers. The first knows of the processor only; what else the second says is kept for it in
//! annotations, in forms of its own.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/autoscaling/v1/conversion.go`, `pkg/apis/autoscaling/annotations.go`.

use ferroplane_golang::json;
use ferroplane_golang::json::JsonObject;
use serde_json::{Map, Value, json};

const FIRST: &str = "autoscaling/v1";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];
/// What the processor should be used to if nothing is said.
const USUAL_UTILIZATION: i64 = 80;

/// A field of a metric: its name in the first version, where it is in the second, and what it is if it is not said.
type MetricField = (&'static str, &'static str, Option<&'static str>);
/// The fields of a kind of metric.
type MetricFields = (&'static str, &'static [MetricField]);

const WANTED: [MetricFields; 5] = [
    (
        "object",
        &[
            ("target", "/describedObject", None),
            ("metricName", "/metric/name", Some("")),
            ("targetValue", "/target/value", Some("0")),
            ("selector", "/metric/selector", None),
            ("averageValue", "/target/averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", Some("")),
            ("targetAverageValue", "/target/averageValue", Some("0")),
            ("selector", "/metric/selector", None),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", Some("")),
            ("targetAverageUtilization", "/target/averageUtilization", None),
            ("targetAverageValue", "/target/averageValue", None),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", Some("")),
            ("targetAverageUtilization", "/target/averageUtilization", None),
            ("targetAverageValue", "/target/averageValue", None),
            ("container", "/container", Some("")),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", Some("")),
            ("metricSelector", "/metric/selector", None),
            ("targetValue", "/target/value", None),
            ("targetAverageValue", "/target/averageValue", None),
        ],
    ),
];

const MEASURED: [MetricFields; 5] = [
    (
        "object",
        &[
            ("target", "/describedObject", None),
            ("metricName", "/metric/name", Some("")),
            ("currentValue", "/current/value", Some("0")),
            ("selector", "/metric/selector", None),
            ("averageValue", "/current/averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", Some("")),
            ("currentAverageValue", "/current/averageValue", Some("0")),
            ("selector", "/metric/selector", None),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", Some("")),
            ("currentAverageUtilization", "/current/averageUtilization", None),
            ("currentAverageValue", "/current/averageValue", Some("0")),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", Some("")),
            ("currentAverageUtilization", "/current/averageUtilization", None),
            ("currentAverageValue", "/current/averageValue", Some("0")),
            ("container", "/container", Some("")),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", Some("")),
            ("metricSelector", "/metric/selector", None),
            ("currentValue", "/current/value", Some("0")),
            ("currentAverageValue", "/current/averageValue", None),
        ],
    ),
];

/// The order of fields in annotations, which is that of their types in Go.
const ORDER: [&str; 36] = [
    "type",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "kind",
    "name",
    "apiVersion",
    "target",
    "metricName",
    "metricSelector",
    "targetValue",
    "currentValue",
    "targetAverageUtilization",
    "currentAverageUtilization",
    "targetAverageValue",
    "currentAverageValue",
    "container",
    "selector",
    "averageValue",
    "matchLabels",
    "matchExpressions",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Tolerance",
    "Type",
    "Value",
    "PeriodSeconds",
];

/// Brings an autoscaler, which has been read, into another version.
pub(crate) fn convert(autoscaler: &mut JsonObject, api_version: &str) {
    if api_version == FIRST {
        to_first(autoscaler);
    } else {
        to_second(autoscaler);
    }
    autoscaler.insert("apiVersion".to_owned(), api_version.into());
}

/// Annotations that only the first version has.
pub(crate) fn drop_annotations(autoscaler: &mut JsonObject) {
    let Some(metadata) = autoscaler.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn to_first(autoscaler: &mut JsonObject) {
    drop_annotations(autoscaler);
    let mut annotations = Vec::new();
    if let Some(Value::Object(spec)) = autoscaler.get_mut("spec") {
        let metrics = take_list(spec, "metrics");
        if let Some(utilization) = metrics.iter().find_map(wanted_utilization) {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), utilization);
        }
        let others = metrics.iter().filter(|metric| wanted_utilization(metric).is_none());
        let others: Vec<_> = others.map(|metric| flatten(metric, &WANTED)).collect();
        if !others.is_empty() {
            annotations.push((METRICS, Value::from(others)));
        }
        if let Some(behavior) = spec.remove("behavior").filter(|behavior| !behavior.is_null()) {
            annotations.push((BEHAVIOR, behavior_in_go(&behavior)));
        }
    }
    if let Some(Value::Object(status)) = autoscaler.get_mut("status") {
        let metrics = take_list(status, "currentMetrics");
        // The last one here, the first one above: Kubernetes leaves only the loop of the other conversion
        // early.
        if let Some(utilization) = metrics.iter().rev().find_map(measured_utilization) {
            status.insert("currentCPUUtilizationPercentage".to_owned(), utilization);
        }
        if !metrics.is_empty() {
            let metrics: Vec<_> = metrics.iter().map(|metric| flatten(metric, &MEASURED)).collect();
            annotations.push((CURRENT_METRICS, metrics.into()));
        }
        let conditions = take_list(status, "conditions");
        if !conditions.is_empty() {
            annotations.push((CONDITIONS, conditions.into()));
        }
    }
    if !annotations.is_empty()
        && let Some(Value::Object(metadata)) = autoscaler.get_mut("metadata")
        && let Value::Object(all) = metadata.entry("annotations").or_insert_with(|| json!({}))
    {
        all.extend(annotations.into_iter().map(|(name, value)| (name.to_owned(), in_go(&value).into())));
    }
}

fn take_list(fields: &mut JsonObject, name: &str) -> Vec<Value> {
    match fields.remove(name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn is_processor(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn wanted_utilization(metric: &Value) -> Option<Value> {
    let utilization = &metric["resource"]["target"]["averageUtilization"];
    (is_processor(metric) && !utilization.is_null()).then(|| utilization.clone())
}

fn measured_utilization(metric: &Value) -> Option<Value> {
    let utilization = &metric["resource"]["current"]["averageUtilization"];
    (is_processor(metric) && !utilization.is_null()).then(|| utilization.clone())
}

/// A metric as the first version writes it.
fn flatten(metric: &Value, kinds: &[MetricFields]) -> Value {
    let mut flat = json!({"type": metric["type"]});
    for (kind, fields) in kinds {
        let Some(source) = metric.get(*kind).filter(|source| !source.is_null()) else { continue };
        let mut out = Map::new();
        for (name, place, default) in *fields {
            let value = source.pointer(place).filter(|value| !value.is_null()).cloned();
            if let Some(value) = value.or_else(|| default.map(Value::from)) {
                out.insert((*name).to_owned(), value);
            }
        }
        flat[*kind] = Value::Object(out);
    }
    flat
}

/// Behaviour is written as it is inside of Kubernetes: with other names, and with what is not there.
fn behavior_in_go(behavior: &Value) -> Value {
    let get = |value: &Value, name: &str| value.get(name).cloned().unwrap_or_default();
    let policy = |policy: &Value| json!({"Type": get(policy, "type"), "Value": get(policy, "value"), "PeriodSeconds": get(policy, "periodSeconds")});
    let rules = |name: &str| match behavior.get(name) {
        Some(rules) if rules.is_object() => {
            let policies = rules.get("policies").and_then(Value::as_array);
            let policies = policies.map(|policies| policies.iter().map(policy).collect::<Vec<_>>());
            json!({
                "StabilizationWindowSeconds": get(rules, "stabilizationWindowSeconds"),
                "SelectPolicy": get(rules, "selectPolicy"),
                "Policies": policies,
                "Tolerance": get(rules, "tolerance"),
            })
        }
        _ => Value::Null,
    };
    json!({"ScaleUp": rules("scaleUp"), "ScaleDown": rules("scaleDown")})
}

/// JSON with fields in the order of Go.
fn in_go(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(in_go).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let rank = |name: &str| ORDER.iter().position(|known| *known == name);
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| rank(name).unwrap_or(ORDER.len()));
            let field = |(name, value): &(&String, &Value)| {
                // Names of labels are names of nothing else.
                let text = if *name == "matchLabels" { json::marshal(value) } else { in_go(value) };
                format!("{}:{text}", json::marshal(&Value::from(name.as_str())))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        other => json::marshal(other),
    }
}

fn to_second(autoscaler: &mut JsonObject) {
    let said = |name: &str| {
        let annotations = autoscaler.get("metadata").and_then(|metadata| metadata.get("annotations"));
        annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_str).map(str::to_owned)
    };
    let list = |name: &str| said(name).and_then(|text| serde_json::from_str::<Vec<Value>>(&text).ok());
    let (metrics, current) = (list(METRICS), list(CURRENT_METRICS));
    let conditions = list(CONDITIONS);
    let behavior = said(BEHAVIOR).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    drop_annotations(autoscaler);
    // Both are always there, even if they say nothing.
    for name in ["spec", "status"] {
        autoscaler.entry(name).or_insert_with(|| json!({}));
    }
    if let Some(Value::Object(spec)) = autoscaler.get_mut("spec") {
        let utilization = spec.remove("targetCPUUtilizationPercentage").filter(|it| !it.is_null());
        let metrics = metrics.filter(|metrics| metrics.iter().all(Value::is_object));
        let mut all: Vec<_> =
            metrics.into_iter().flatten().map(|metric| unfold(&metric, &WANTED, Some("target"))).collect();
        all.retain(|metric| fits(&json!({"spec": {"metrics": [metric]}})));
        all.extend(utilization.map(|utilization| processor(&utilization)));
        if all.is_empty() {
            all.push(processor(&USUAL_UTILIZATION.into()));
        }
        spec.insert("metrics".to_owned(), all.into());
        let behavior = behavior.map(|behavior| lower_names(&behavior));
        let is_said = |behavior: &Value| behavior.as_object().is_some_and(|fields| !fields.is_empty());
        if let Some(behavior) = behavior.filter(is_said).filter(|it| fits(&json!({"spec": {"behavior": it}})))
        {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Some(Value::Object(status)) = autoscaler.get_mut("status") {
        let utilization = status.remove("currentCPUUtilizationPercentage").filter(|it| !it.is_null());
        let measured = utilization.map(|utilization| {
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": utilization}}}])
        });
        let current = current.map(|current| {
            Value::from(current.iter().map(|metric| unfold(metric, &MEASURED, None)).collect::<Vec<_>>())
        });
        let current = current.filter(|current| fits(&json!({"status": {"currentMetrics": current}})));
        if let Some(metrics) = current.or(measured) {
            status.insert("currentMetrics".to_owned(), metrics);
        }
        let conditions = conditions.map(Value::from);
        if let Some(conditions) = conditions.filter(|it| fits(&json!({"status": {"conditions": it}}))) {
            status.insert("conditions".to_owned(), conditions);
        }
    }
}

/// Whether an autoscaler could say this. What a client wrote into an annotation may be anything.
fn fits(part: &Value) -> bool {
    let kind = super::kind("autoscaling", "v2", "HorizontalPodAutoscaler");
    kind.is_some_and(|kind| kind.read(part).is_ok())
}

fn processor(utilization: &Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": utilization});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

/// A metric as the second version has it. What is wanted says of which type it is.
fn unfold(metric: &Value, kinds: &[MetricFields], typed: Option<&str>) -> Value {
    let mut out = json!({"type": metric.get("type").cloned().unwrap_or_default()});
    for (kind, fields) in kinds {
        let Some(source) = metric.get(*kind).filter(|source| source.is_object()) else { continue };
        let mut unfolded = json!({});
        for (name, place, default) in *fields {
            let value = source.get(*name).filter(|value| !value.is_null()).cloned();
            if let Some(value) = value.or_else(|| default.map(Value::from)) {
                put(&mut unfolded, place, value);
            }
        }
        if typed.is_some() {
            let target = &mut unfolded["target"];
            let has = |name: &str| !target[name].is_null();
            let type_name = match *kind {
                "object" if !has("averageValue") => "Value",
                "external" if has("value") => "Value",
                "resource" | "containerResource" if has("averageUtilization") => "Utilization",
                _ => "AverageValue",
            };
            let is_zero = *kind == "object" && has("averageValue") && is_zero(&target["value"]);
            target["type"] = type_name.into();
            if let (true, Value::Object(target)) = (is_zero, target) {
                target.remove("value");
            }
        }
        out[*kind] = unfolded;
    }
    out
}

fn is_zero(quantity: &Value) -> bool {
    quantity.as_str().is_some_and(|text| text == "0") || quantity.as_i64() == Some(0)
}

fn put(object: &mut Value, place: &str, value: Value) {
    match place.trim_start_matches('/').split_once('/') {
        Some((outer, inner)) => object[outer][inner] = value,
        None => object[place.trim_start_matches('/')] = value,
    }
}

/// Names with a small letter in front, and nothing of what is not there.
fn lower_names(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(lower_names).collect(),
        Value::Object(fields) => {
            let said = fields.iter().filter(|(_, value)| !value.is_null());
            let lowered = said.map(|(name, value)| {
                let mut characters = name.chars();
                let first = characters.next().map(|first| first.to_ascii_lowercase());
                (first.into_iter().chain(characters).collect::<String>(), lower_names(value))
            });
            Value::Object(lowered.collect())
        }
        other => other.clone(),
    }
}
