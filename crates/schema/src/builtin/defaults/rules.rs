//! Defaults that depend on other fields, which no table can say. One function per type that has such.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/v1/defaults.go`, `pkg/apis/apps/v1/defaults.go`,
//! `pkg/apis/batch/v1/defaults.go`.

use ferroplane_cel::quantity::Quantity;
use ferroplane_golang::json::JsonObject;
use serde_json::{Value, json};

use super::super::table::{Type, TypeField};
use super::{image, pod_resources};

fn text<'f>(fields: &'f JsonObject, name: &str) -> &'f str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn set(fields: &mut JsonObject, name: &str, value: impl Into<Value>) {
    fields.insert(name.to_owned(), value.into());
}

fn has(fields: &JsonObject, name: &str) -> bool {
    fields.get(name).is_some_and(|value| !value.is_null())
}

fn is_filled(fields: &JsonObject, name: &str) -> bool {
    match fields.get(name) {
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        _ => false,
    }
}

fn object<'f>(fields: &'f mut JsonObject, name: &str) -> Option<&'f mut JsonObject> {
    fields.get_mut(name)?.as_object_mut()
}

fn objects<'f>(fields: &'f mut JsonObject, name: &str) -> impl Iterator<Item = &'f mut JsonObject> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Whether a default of the tables is one here.
pub(super) fn applies(of: &Type, field: &TypeField, fields: &JsonObject) -> bool {
    match (of.name, field.name) {
        ("DeploymentStrategy" | "DaemonSetUpdateStrategy", "rollingUpdate") => {
            matches!(text(fields, "type"), "" | "RollingUpdate")
        }
        ("StatefulSetUpdateStrategy", "rollingUpdate") => text(fields, "type").is_empty(),
        ("ServiceSpec", "internalTrafficPolicy") => {
            matches!(text(fields, "type"), "" | "ClusterIP" | "NodePort" | "LoadBalancer")
        }
        ("JobSpec", "completions") => !has(fields, "parallelism"),
        ("Volume", "emptyDir") => fields.keys().all(|name| name == "name"),
        _ => true,
    }
}

/// What happens to the whole object before anything else.
pub(super) fn before(of: &Type, root: &mut JsonObject) {
    match of.name {
        "Secret" => merge_text_data(root),
        "ReplicationController" => take_labels_of_template(root, true),
        "Job" => {
            take_labels_of_template(root, false);
            // Only jobs themselves: what the template of a cron job does not say, its jobs are given.
            if let Some(spec) = object(root, "spec") {
                choose_for_job(spec);
            }
        }
        "Namespace" => label_with_name(root),
        "Service" => mark_balanced_addresses(root),
        "CustomResourceDefinition" => {
            if let Some(spec) = object(root, "spec") {
                complete_definition(spec);
            }
            remember_stored_versions(root);
        }
        _ => {}
    }
}

/// What happens to the whole object after everything else.
pub(super) fn after(of: &Type, root: &mut JsonObject) {
    if of.name == "Pod"
        && let Some(spec) = object(root, "spec")
    {
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|period| period < 0)
        {
            set(spec, "terminationGracePeriodSeconds", 1);
        }
        let is_on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
        for list in ["containers", "initContainers"] {
            for container in objects(spec, list) {
                request_limits(container);
                if is_on_host {
                    objects(container, "ports").for_each(open_on_host);
                }
            }
        }
        pod_resources::complete(spec);
    }
}

/// Before the defaults of the tables.
pub(super) fn enter(of: &Type, fields: &mut JsonObject) {
    match of.name {
        "Container" | "EphemeralContainer" => pull_by_tag(fields, "imagePullPolicy", "image"),
        "PodSpec" => agree_on_account(fields),
        "ImageVolumeSource" => pull_by_tag(fields, "pullPolicy", "reference"),
        "NetworkPolicySpec" if !is_filled(fields, "policyTypes") && is_filled(fields, "egress") => {
            // The tables have only the default without egress.
            set(fields, "policyTypes", json!(["Ingress", "Egress"]));
        }
        "Subject"
            if text(fields, "apiGroup").is_empty() && matches!(text(fields, "kind"), "User" | "Group") =>
        {
            set(fields, "apiGroup", "rbac.authorization.k8s.io");
        }
        "ServiceSpec" => choose_for_service(fields),
        "NodeStatus" if !has(fields, "allocatable") => {
            if let Some(capacity) = fields.get("capacity").cloned() {
                set(fields, "allocatable", capacity);
            }
        }
        "PodStatus" => agree_on_first(fields, "podIP", "podIPs", Some("ip")),
        "NodeSpec" => agree_on_first(fields, "podCIDR", "podCIDRs", None),
        "LimitRangeItem" if text(fields, "type") == "Container" => complete_limits(fields),
        "HorizontalPodAutoscalerBehavior" => complete_scaling(fields),
        _ => {}
    }
}

/// After the defaults of the tables, in the type and in all it has.
pub(super) fn leave(of: &Type, fields: &mut JsonObject) {
    match of.name {
        "ServicePort" if is_no_port(fields.get("targetPort")) => {
            let port = fields.get("port").cloned().unwrap_or_else(|| json!(0));
            set(fields, "targetPort", port);
        }
        // Limits of updates that do not roll.
        "DeploymentStrategy" | "DaemonSetUpdateStrategy" => {
            zero_limits(fields, &["maxSurge", "maxUnavailable"]);
        }
        "StatefulSetUpdateStrategy" => zero_limits(fields, &["partition"]),
        _ => {}
    }
}

fn zero_limits(strategy: &mut JsonObject, names: &[&str]) {
    if let Some(limits) = object(strategy, "rollingUpdate") {
        for name in names {
            limits.entry(*name).or_insert_with(|| json!(0));
        }
    }
}

/// The first of a list has a field of its own, which decides if the two differ.
fn agree_on_first(fields: &mut JsonObject, single: &str, list: &str, name: Option<&str>) {
    let first = fields.get(list).and_then(|list| match name {
        Some(name) => list.get(0)?.get(name),
        None => list.get(0),
    });
    let first = first.and_then(Value::as_str).unwrap_or_default().to_owned();
    let own = text(fields, single).to_owned();
    if own.is_empty() && !first.is_empty() {
        set(fields, single, first);
    } else if !own.is_empty() && own != first {
        let item = name.map_or_else(|| json!(own), |name| json!({name: own}));
        set(fields, list, vec![item]);
    }
}

fn is_no_port(port: Option<&Value>) -> bool {
    match port {
        None | Some(Value::Null) => true,
        Some(Value::String(name)) => name.is_empty(),
        Some(number) => *number == json!(0),
    }
}

/// Whether nothing is done to what is in a field.
pub(super) fn is_left_alone(of: &Type, field: &TypeField, fields: &JsonObject) -> bool {
    matches!(of.name, "DeploymentStrategy" | "DaemonSetUpdateStrategy" | "StatefulSetUpdateStrategy")
        && field.name == "rollingUpdate"
        && text(fields, "type") != "RollingUpdate"
}

/// Texts in a secret are only for writing.
fn merge_text_data(secret: &mut JsonObject) {
    use base64::Engine as _;
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let data = secret.entry("data").or_insert_with(|| json!({}));
    for (key, value) in texts {
        let bytes = value.as_str().unwrap_or_default().as_bytes();
        // Over what `data` says: texts win.
        data[key] = Value::from(base64::engine::general_purpose::STANDARD.encode(bytes));
    }
}

fn take_labels_of_template(root: &mut JsonObject, selects: bool) {
    let template = root.get("spec").and_then(|spec| spec.get("template"));
    let labels = template.and_then(|template| template.get("metadata")?.get("labels"));
    let Some(labels) = labels.filter(|labels| !labels.is_null()).cloned() else { return };
    if selects
        && let Some(spec) = object(root, "spec")
        && !is_filled(spec, "selector")
    {
        set(spec, "selector", labels.clone());
    }
    if let Some(metadata) = object(root, "metadata")
        && !is_filled(metadata, "labels")
    {
        set(metadata, "labels", labels);
    }
}

fn label_with_name(namespace: &mut JsonObject) {
    let Some(metadata) = object(namespace, "metadata") else { return };
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        metadata.entry("labels").or_insert_with(|| json!({}))["kubernetes.io/metadata.name"] = name.into();
    }
}

fn complete_definition(spec: &mut JsonObject) {
    if let Some(conversion) = object(spec, "conversion")
        && let Some(Value::Object(webhook)) = conversion.get("webhook")
        && !has(webhook, "clientConfig")
        && !is_filled(webhook, "conversionReviewVersions")
    {
        conversion.remove("webhook");
    }
    if let Some(names) = object(spec, "names") {
        complete_names(names);
    }
}

fn remember_stored_versions(definition: &mut JsonObject) {
    let versions = definition.get("spec").and_then(|spec| spec.get("versions")?.as_array());
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let stored = versions.into_iter().flatten().filter(is_stored);
    let stored: Vec<_> = stored.filter_map(|version| version.get("name").cloned()).collect();
    if let Some(status) = object(definition, "status")
        && !is_filled(status, "storedVersions")
        && !stored.is_empty()
    {
        set(status, "storedVersions", stored);
    }
}

fn complete_names(names: &mut JsonObject) {
    let kind = text(names, "kind").to_owned();
    if text(names, "singular").is_empty() {
        let singular = kind.to_lowercase();
        if !singular.is_empty() {
            set(names, "singular", singular);
        }
    }
    if text(names, "listKind").is_empty() && !kind.is_empty() {
        set(names, "listKind", format!("{kind}List"));
    }
}

fn request_limits(container: &mut JsonObject) {
    let Some(resources) = object(container, "resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    let Some(requests) = requests.as_object_mut() else { return };
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

fn open_on_host(port: &mut JsonObject) {
    if port.get("hostPort").is_none_or(|port| *port == json!(0))
        && let Some(own) = port.get("containerPort").filter(|own| **own != json!(0)).cloned()
    {
        set(port, "hostPort", own);
    }
}

fn pull_by_tag(fields: &mut JsonObject, policy: &str, image: &str) {
    if text(fields, policy).is_empty() {
        let chosen = image::pull_policy(text(fields, image));
        set(fields, policy, chosen);
    }
}

/// The account has two names, of which the older one follows the other.
fn agree_on_account(spec: &mut JsonObject) {
    let newer = text(spec, "serviceAccountName");
    let chosen = if newer.is_empty() { text(spec, "serviceAccount") } else { newer }.to_owned();
    if !chosen.is_empty() {
        set(spec, "serviceAccountName", chosen.clone());
        set(spec, "serviceAccount", chosen);
    }
}

fn choose_for_job(spec: &mut JsonObject) {
    if !has(spec, "backoffLimit") && has(spec, "backoffLimitPerIndex") {
        // The limit per index decides, and this one must not get in its way.
        set(spec, "backoffLimit", i32::MAX);
    }
    if !has(spec, "podReplacementPolicy") && has(spec, "podFailurePolicy") {
        set(spec, "podReplacementPolicy", "Failed");
    }
}

fn choose_for_service(spec: &mut JsonObject) {
    match text(spec, "sessionAffinity") {
        "" | "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let timeout = spec
                .get("sessionAffinityConfig")
                .and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            if timeout.is_none_or(Value::is_null) {
                // Three hours: `DefaultClientIPServiceAffinitySeconds`.
                set(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
            }
        }
        _ => {}
    }
    let kind = text(spec, "type").to_owned();
    let has_external_address = is_filled(spec, "externalIPs") && matches!(kind.as_str(), "" | "ClusterIP");
    if text(spec, "externalTrafficPolicy").is_empty()
        && (matches!(kind.as_str(), "NodePort" | "LoadBalancer") || has_external_address)
    {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" && !has(spec, "allocateLoadBalancerNodePorts") {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn mark_balanced_addresses(service: &mut JsonObject) {
    let kind = service.get("spec").and_then(|spec| spec.get("type")).and_then(Value::as_str);
    if kind != Some("LoadBalancer") {
        return;
    }
    let balancer = object(service, "status").and_then(|status| object(status, "loadBalancer"));
    for ingress in balancer.into_iter().flat_map(|balancer| objects(balancer, "ingress")) {
        if !text(ingress, "ip").is_empty() && !has(ingress, "ipMode") {
            set(ingress, "ipMode", "VIP");
        }
    }
}

fn complete_limits(item: &mut JsonObject) {
    // The order matters: what `default` gets from `max` continues to the requests, before `min` does.
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(Value::Object(amounts)) = item.get(from).cloned() else { continue };
        if amounts.is_empty() {
            continue;
        }
        let target = item.entry(to).or_insert_with(|| json!({}));
        let Some(target) = target.as_object_mut() else { continue };
        for (name, amount) in amounts {
            target.entry(name).or_insert(amount);
        }
    }
}

fn complete_scaling(behavior: &mut JsonObject) {
    let all = |policies: Value, window: Option<i64>| {
        let mut rules = json!({"selectPolicy": "Max", "policies": policies});
        if let Some(window) = window {
            rules["stabilizationWindowSeconds"] = window.into();
        }
        rules
    };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (name, defaults) in
        [("scaleUp", all(json!([pods, percent]), Some(0))), ("scaleDown", all(json!([percent]), None))]
    {
        let Value::Object(mut rules) = defaults else { continue };
        if let Some(Value::Object(own)) = behavior.remove(name) {
            rules.extend(own);
        }
        behavior.insert(name.to_owned(), Value::Object(rules));
    }
}

/// Amounts of resources are kept to the thousandth.
pub(super) fn round_quantities(amounts: &mut JsonObject) {
    for amount in amounts.values_mut() {
        let Some(quantity) = amount.as_str().and_then(|text| Quantity::parse(text).ok()) else { continue };
        *amount = Value::from(quantity.rounded_up_to_thousandths().to_string());
    }
}
