//! Kinds that have a template of pods.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/apps/validation/validation.go`, `pkg/apis/batch/validation/validation.go`.

use ferroplane_golang::json;
use ferroplane_golang::json::JsonObject;
use serde_json::{Map, Value};

use super::super::table::Type;
use super::{pod, read};
use crate::field::{BadValue, Error, Path};
use crate::selector::{self, LabelSelector};

pub(super) fn check(of: &Type, object: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let path = Path::new("spec");
    let Some(spec) = read::object(object, "spec") else { return errors };
    match of.name {
        "Deployment" => deployment(spec, &path, &mut errors),
        "ReplicaSet" => {
            errors.extend(read::non_negative(spec, "replicas", &path));
            errors.extend(read::non_negative(spec, "minReadySeconds", &path));
            // "deployment" is no slip of ours: `ValidateReplicaSetSpec` says so.
            selected_template(spec, "deployment", "ReplicaSet", &path, &mut errors);
        }
        "StatefulSet" => stateful_set(spec, &path, &mut errors),
        "DaemonSet" => daemon_set(spec, &path, &mut errors),
        "ReplicationController" => replication_controller(spec, &path, &mut errors),
        "Job" => job(spec, &path, &mut errors),
        "CronJob" => cron_job(spec, &path, &mut errors),
        _ => {}
    }
    errors
}

fn deployment(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    errors.extend(read::non_negative(spec, "replicas", path));
    // The templates of deployments are checked by the function for replica sets, whose name is in its words.
    selected_template(spec, "deployment", "ReplicaSet", path, errors);
    if let Some(strategy) = read::object(spec, "strategy") {
        deployment_strategy(strategy, &path.child("strategy"), errors);
    }
    errors.extend(read::non_negative(spec, "minReadySeconds", path));
    errors.extend(read::non_negative(spec, "revisionHistoryLimit", path));
    errors.extend(read::non_negative(spec, "progressDeadlineSeconds", path));
    let ready = read::integer(spec, "minReadySeconds").unwrap_or_default();
    if let Some(deadline) =
        read::integer(spec, "progressDeadlineSeconds").filter(|deadline| *deadline <= ready)
    {
        let path = path.child("progressDeadlineSeconds");
        errors.push(Error::invalid(&path, deadline, "must be greater than minReadySeconds"));
    }
}

fn deployment_strategy(strategy: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let rolling = read::object(strategy, "rollingUpdate");
    let below = path.child("rollingUpdate");
    match (read::text(strategy, "type"), rolling) {
        ("Recreate", Some(_)) => {
            let words = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(Error::forbidden(&below, words));
        }
        ("Recreate" | "RollingUpdate", None) => {}
        ("RollingUpdate", Some(rolling)) => {
            let zero = Value::from(0);
            let amount = |name: &str| rolling.get(name).unwrap_or(&zero);
            for name in ["maxUnavailable", "maxSurge"] {
                positive_or_percent(amount(name), &below.child(name), errors);
            }
            // Percentages are compared by their numbers, before anything is rounded: `0%` counts as 0.
            if count(amount("maxUnavailable")) == 0 && count(amount("maxSurge")) == 0 {
                let path = below.child("maxUnavailable");
                errors.push(Error::invalid(
                    &path,
                    amount("maxUnavailable"),
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
            at_most_everything(amount("maxUnavailable"), &below.child("maxUnavailable"), errors);
        }
        (other, _) => {
            errors.push(Error::not_supported(path, unknown_strategy(other), ["Recreate", "RollingUpdate"]));
        }
    }
}

/// A strategy of a type that there is not, with the names of Go.
fn unknown_strategy(kind: &str) -> BadValue {
    BadValue::Text(format!(r#"{{"Type":{},"RollingUpdate":null}}"#, json::marshal(&Value::from(kind))))
}

fn positive_or_percent(amount: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    match amount {
        Value::String(text) => {
            if !is_percent(text) {
                let words = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                             '93%', regex used for validation is '[0-9]+%')";
                errors.push(Error::invalid(path, text, words));
            }
        }
        other => {
            if let Some(number) = other.as_i64().filter(|number| *number < 0) {
                errors.push(Error::invalid(path, number, "must be greater than or equal to 0"));
            }
        }
    }
}

fn is_percent(text: &str) -> bool {
    text.strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn count(amount: &Value) -> i64 {
    match amount {
        Value::String(text) if is_percent(text) => text.trim_end_matches('%').parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

fn at_most_everything(amount: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    if amount.as_str().is_some_and(is_percent) && count(amount) > 100 {
        errors.push(Error::invalid(path, amount, "must not be greater than 100%"));
    }
}

/// A selector that selects something, and a template with labels that it selects.
fn selected_template(
    spec: &JsonObject,
    kind: &str,
    supporter: &str,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    check_selector(spec, kind, path, errors);
    let selector = spec.get("selector").unwrap_or(&Value::Null);
    let selector_path = path.child("selector");
    let Ok(parsed) = LabelSelector::from_object(selector) else {
        errors.push(Error::invalid(&selector_path, shown_selector(selector), "invalid label selector"));
        return;
    };
    let Some(template) = read::object(spec, "template") else { return };
    let path = path.child("template");
    // A selector that is not there parses as one that matches nothing, which Kubernetes does not call empty.
    // So labels are compared in vain, and a second error follows.
    if !parsed.is_empty() || selector.is_null() {
        check_labels(&parsed, template, &path, errors);
    }
    errors.extend(pod::template(template, &path));
    long_running(template, supporter, &path, errors);
}

fn check_selector(spec: &JsonObject, kind: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    let path = path.child("selector");
    match spec.get("selector").filter(|selector| !selector.is_null()) {
        None => errors.push(Error::required(&path, "")),
        Some(selector) => {
            errors.extend(selector::validate(selector, &path));
            if selector.as_object().is_some_and(|selector| {
                read::object(selector, "matchLabels").is_none_or(Map::is_empty)
                    && read::list(selector, "matchExpressions").is_empty()
            }) {
                let words = format!("empty selector is invalid for {kind}");
                errors.push(Error::invalid(&path, shown_selector(selector), words));
            }
        }
    }
}

/// A selector as Go writes it, labels first.
fn shown_selector(selector: &Value) -> BadValue {
    let mut parts = Vec::new();
    for name in ["matchLabels", "matchExpressions"] {
        if let Some(part) = selector.get(name) {
            parts.push(format!("{}:{}", json::marshal(&Value::from(name)), json::marshal(part)));
        }
    }
    BadValue::Text(format!("{{{}}}", parts.join(",")))
}

fn check_labels(selector: &LabelSelector, template: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let labels = read::object(template, "metadata").and_then(|metadata| metadata.get("labels"));
    let label = |name: &str| labels?.get(name)?.as_str();
    if !selector.matches(label) {
        let shown = labels.cloned().unwrap_or_default();
        let words = "`selector` does not match template `labels`";
        errors.push(Error::invalid(&path.child("metadata").child("labels"), shown, words));
    }
}

/// Pods that are replaced when they end.
fn long_running(template: &JsonObject, supporter: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    let Some(spec) = read::object(template, "spec") else { return };
    let path = path.child("spec");
    errors.extend(read::one_of(spec, "restartPolicy", &["Always"], &path));
    if read::has(spec, "activeDeadlineSeconds") {
        let words = format!("activeDeadlineSeconds in {supporter} is not Supported");
        errors.push(Error::forbidden(&path.child("activeDeadlineSeconds"), words));
    }
}

fn stateful_set(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let policy = read::text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let words = "must be 'OrderedReady' or 'Parallel'";
        errors.push(Error::invalid(&path.child("podManagementPolicy"), policy, words));
    }
    let strategy = read::object(spec, "updateStrategy").map(|strategy| read::text(strategy, "type"));
    if let Some(other) = strategy.filter(|strategy| !matches!(*strategy, "RollingUpdate" | "OnDelete")) {
        let words = "must be 'RollingUpdate' or 'OnDelete'";
        errors.push(Error::invalid(&path.child("updateStrategy"), unknown_strategy(other), words));
    }
    errors.extend(read::non_negative(spec, "replicas", path));
    errors.extend(read::non_negative(spec, "minReadySeconds", path));
    let service = read::text(spec, "serviceName");
    if !service.is_empty() {
        errors.extend(read::by_rule(service, crate::names::label, &path.child("serviceName")));
    }
    check_selector(spec, "statefulset", path, errors);
    let selector = spec.get("selector").unwrap_or(&Value::Null);
    let Ok(parsed) = LabelSelector::from_object(selector) else {
        errors.push(Error::invalid(&path.child("selector"), shown_selector(selector), ""));
        return;
    };
    let Some(template) = read::object(spec, "template") else { return };
    let path = path.child("template");
    if !parsed.is_empty() || selector.is_null() {
        check_labels(&parsed, template, &path, errors);
    }
    let claims: Vec<_> = read::objects(spec, "volumeClaimTemplates")
        .filter_map(|(_, claim)| Some(read::text(read::object(claim, "metadata")?, "name")))
        .collect();
    errors.extend(pod::numbered_template(template, &claims, &path));
    long_running(template, "StatefulSet", &path, errors);
}

fn daemon_set(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let selector = spec.get("selector").unwrap_or(&Value::Null);
    errors.extend(selector::validate(selector, &path.child("selector")));
    let Some(template) = read::object(spec, "template") else { return };
    let template_path = path.child("template");
    if let Ok(parsed) = LabelSelector::from_object(selector) {
        check_labels(&parsed, template, &template_path, errors);
    }
    if !selector.is_null() {
        let before = errors.len();
        check_selector(spec, "daemonset", path, errors);
        // Only whether it is empty was not checked before.
        let words = "empty selector is invalid for daemonset";
        let mut index = 0;
        errors.retain(|error| {
            index += 1;
            index <= before || error.detail == words
        });
    }
    errors.extend(pod::template(template, &template_path));
    long_running(template, "DaemonSet", &template_path, errors);
    errors.extend(read::non_negative(spec, "minReadySeconds", path));
    let strategy = read::object(spec, "updateStrategy").map(|strategy| read::text(strategy, "type"));
    if let Some(other) = strategy.filter(|strategy| !matches!(*strategy, "RollingUpdate" | "OnDelete")) {
        let path = path.child("updateStrategy");
        errors.push(Error::not_supported(&path, unknown_strategy(other), ["RollingUpdate", "OnDelete"]));
    }
    errors.extend(read::non_negative(spec, "revisionHistoryLimit", path));
}

fn replication_controller(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    errors.extend(read::non_negative(spec, "minReadySeconds", path));
    let selector = read::object(spec, "selector").filter(|selector| !selector.is_empty());
    if selector.is_none() {
        errors.push(Error::required(&path.child("selector"), ""));
    }
    errors.extend(read::non_negative(spec, "replicas", path));
    let template_path = path.child("template");
    let Some(template) = read::object(spec, "template") else {
        errors.push(Error::required(&template_path, ""));
        return;
    };
    if let Some(selector) = selector {
        let wanted = serde_json::json!({"matchLabels": selector});
        if let Ok(parsed) = LabelSelector::from_object(&wanted) {
            check_labels(&parsed, template, &template_path, errors);
        }
    }
    errors.extend(pod::template(template, &template_path));
    long_running(template, "ReplicationController", &template_path, errors);
}

fn job(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    for name in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        errors.extend(read::non_negative(spec, name, path));
    }
    let Some(template) = read::object(spec, "template") else { return };
    let path = path.child("template");
    errors.extend(pod::template(template, &path));
    if let Some(pod_spec) = read::object(template, "spec") {
        let policy = read::text(pod_spec, "restartPolicy");
        let at = path.child("spec").child("restartPolicy").to_string();
        let at = Path::new(&at);
        match policy {
            "OnFailure" | "Never" => {}
            "" | "Always" => errors.push(Error::required(&at, r#"valid values: "OnFailure", "Never""#)),
            other => errors.push(Error::not_supported(&at, other, ["OnFailure", "Never"])),
        }
    }
}

fn cron_job(spec: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    if read::text(spec, "schedule").is_empty() {
        errors.push(Error::required(&path.child("schedule"), ""));
    }
    errors.extend(read::non_negative(spec, "startingDeadlineSeconds", path));
    errors.extend(read::one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], path));
    let template = read::object(spec, "jobTemplate").and_then(|template| read::object(template, "spec"));
    if let Some(template) = template {
        job(template, &path.child("jobTemplate").child("spec"), errors);
    }
    errors.extend(read::non_negative(spec, "successfulJobsHistoryLimit", path));
    errors.extend(read::non_negative(spec, "failedJobsHistoryLimit", path));
}

/// What may not change.
pub(super) fn update(of: &Type, object: &JsonObject, old: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let (Some(new), Some(old)) = (read::object(object, "spec"), read::object(old, "spec")) else {
        return errors;
    };
    if matches!(of.name, "Deployment" | "ReplicaSet" | "DaemonSet")
        && new.get("selector") != old.get("selector")
    {
        let selector = new.get("selector").unwrap_or(&Value::Null);
        let shown = if selector.is_null() { BadValue::from(selector) } else { shown_selector(selector) };
        errors.push(Error::invalid(&Path::new("spec").child("selector"), shown, "field is immutable"));
    }
    errors
}
