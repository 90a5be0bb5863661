//! The Deployment of a revision: its template, completed.
//!
//! Follows Crossplane 2.4.0, `internal/controller/pkg/runtime/runtime_override_options.go`.

use ferroplane_api::{Object, PackageKind, keys, meta};
use serde_json::{Value, json};

use super::adapter::AdaptedProgram;
use super::image::full_name;
use super::{PORT, REVISION, RuntimeInputs, blank, package_pull_secrets, pull_secrets, selector, spec_text};

/// The container with the program of the package. A template may have others.
pub(super) const CONTAINER: &str = "package-runtime";
/// The user that programs run as.
const USER: u32 = 2000;
const METRICS_PORT: u16 = 8080;
const SCRAPE: &str = "prometheus.io/scrape";

/// The Deployment of a revision whose pods use this service account, unless their template names another.
pub(super) fn deployment(inputs: &RuntimeInputs<'_>, service_account: &str) -> Object {
    let revision = meta::name(inputs.revision);
    let mut deployment = blank(inputs, "apps/v1", "Deployment", "deploymentTemplate", revision);
    let template =
        inputs.config.and_then(|config| config.get("spec")?.get("deploymentTemplate")?.get("spec"));
    let mut spec = template.cloned().and_then(without_nulls).unwrap_or_else(|| json!({}));
    if inputs.awaits_activation {
        spec["replicas"] = json!(0);
    } else if spec.get("replicas").is_none() {
        spec["replicas"] = json!(1);
    }
    if !spec["selector"].is_object() {
        spec["selector"] = json!({});
    }
    spec["selector"]["matchLabels"] = selector(inputs);
    let mut pods = spec["template"].as_object().cloned().unwrap_or_default();
    for (key, value) in selector(inputs).as_object().into_iter().flatten() {
        meta::set_label(&mut pods, key, value.as_str().unwrap_or_default());
    }
    complete_pods(inputs, meta::child(&mut pods, "spec"), service_account);
    if inputs.kind == PackageKind::Provider {
        scrape(&mut pods);
    }
    spec["template"] = Value::Object(pods);
    deployment.insert("spec".to_owned(), spec);
    deployment
}

fn complete_pods(inputs: &RuntimeInputs<'_>, pods: &mut Object, service_account: &str) {
    pods.entry("securityContext")
        .or_insert_with(|| json!({"runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER}));
    if pods.get("serviceAccountName").and_then(Value::as_str).is_none_or(str::is_empty) {
        pods.insert("serviceAccountName".to_owned(), service_account.into());
    }
    // In place of those of the template, as Crossplane has it.
    let of_image = inputs.image_pull_secret.map(str::to_owned);
    // Those of the service account have no effect on pods that name any, and our own image may need them.
    let own = if inputs.adapted.is_some() { inputs.own_pull_secrets } else { &[] };
    let secrets = package_pull_secrets(inputs.revision).into_iter().chain(of_image);
    let secrets = pull_secrets(secrets.chain(own.iter().cloned()));
    pods.remove("imagePullSecrets");
    if !secrets.is_empty() {
        pods.insert("imagePullSecrets".to_owned(), secrets.into());
    }
    let mut containers = list(pods, "containers");
    let place = containers.iter().position(|container| container["name"] == CONTAINER);
    let container =
        place.map(|place| containers.remove(place)).and_then(|container| container.as_object().cloned());
    let mut container = container.unwrap_or_default();
    container.insert("name".to_owned(), CONTAINER.into());
    let mut volumes = list(pods, "volumes");
    complete_container(inputs, &mut container, &mut volumes);
    if let Some(adapted) = inputs.adapted {
        let (own, mut others) = AdaptedProgram::take_init_container(pods);
        others.insert(0, Value::Object(adapted.serve(&mut container, own, &mut volumes)));
        pods.insert("initContainers".to_owned(), others.into());
    }
    containers.insert(0, Value::Object(container));
    // Ports are identified by number and protocol.
    for port in
        containers.iter_mut().filter_map(|container| container.get_mut("ports")?.as_array_mut()).flatten()
    {
        if let Some(port) = port.as_object_mut() {
            port.entry("protocol").or_insert_with(|| json!("TCP"));
        }
    }
    pods.insert("containers".to_owned(), containers.into());
    if !volumes.is_empty() {
        pods.insert("volumes".to_owned(), volumes.into());
    }
}

fn complete_container(inputs: &RuntimeInputs<'_>, container: &mut Object, volumes: &mut Vec<Value>) {
    container.entry("securityContext").or_insert_with(|| {
        json!({
            "runAsUser": USER, "runAsGroup": USER, "allowPrivilegeEscalation": false, "privileged": false,
            "runAsNonRoot": true,
        })
    });
    let policy = spec_text(inputs.revision, "packagePullPolicy");
    match policy {
        // The package overrides its template.
        Some(policy) => drop(container.insert("imagePullPolicy".to_owned(), policy.into())),
        None => drop(container.entry("imagePullPolicy").or_insert_with(|| json!("IfNotPresent"))),
    }
    if container.get("image").and_then(Value::as_str).is_none_or(str::is_empty) {
        container.insert("image".to_owned(), full_name(inputs.image).into());
    }
    add_port(container, "metrics", METRICS_PORT);
    let server = spec_text(inputs.revision, "tlsServerSecretName");
    if let Some(secret) = spec_text(inputs.revision, "tlsClientSecretName") {
        mount(container, volumes, secret, ("tls-client-certs", "/tls/client", "TLS_CLIENT_CERTS_DIR"));
    }
    if let Some(secret) = server {
        mount(container, volumes, secret, ("tls-server-certs", "/tls/server", "TLS_SERVER_CERTS_DIR"));
    }
    match inputs.kind {
        PackageKind::Function => {
            add_port(container, "grpc", PORT);
            add_variables(container, variables(inputs, "FUNCTION_NAME"));
        }
        PackageKind::Provider | PackageKind::Configuration => {
            let namespace = field("POD_NAMESPACE", "metadata.namespace");
            add_variables(container, std::iter::once(namespace).chain(variables(inputs, "PROVIDER_NAME")));
            if server.is_some() {
                add_port(container, "webhook", PORT);
                // Older providers look for this variable.
                let older = json!({"name": "WEBHOOK_TLS_CERT_DIR", "value": "$(TLS_SERVER_CERTS_DIR)"});
                add_variables(container, [older]);
            }
        }
    }
}

/// Variables that identify the pod.
fn variables(inputs: &RuntimeInputs<'_>, own_name: &str) -> [Value; 3] {
    let label = |key: &str| format!("metadata.labels['{key}']");
    let package = format!("{}/{}", keys::PKG, inputs.kind.name().to_ascii_lowercase());
    [
        field(own_name, &label(&package)),
        field("REVISION_NAME", &label(REVISION)),
        json!({"name": "REVISION_UID", "value": meta::uid(inputs.revision)}),
    ]
}

/// A variable with the value of a field of the pod.
fn field(name: &str, path: &str) -> Value {
    // With the version that an API server would add: otherwise what is applied would differ from the live object
    // every time.
    json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})
}

/// Set variables, in place of those of the template. An API server refuses to apply a list with two of one name.
fn add_variables(container: &mut Object, variables: impl IntoIterator<Item = Value>) {
    let mut present = list(container, "env");
    for variable in variables {
        present.retain(|known| known["name"] != variable["name"]);
        present.push(variable);
    }
    container.insert("env".to_owned(), present.into());
}

/// A port, unless the template has one of that name.
fn add_port(container: &mut Object, name: &str, port: u16) {
    let mut present = list(container, "ports");
    if present.iter().all(|known| known["name"] != name) {
        present.push(json!({"name": name, "containerPort": port, "protocol": "TCP"}));
    }
    container.insert("ports".to_owned(), present.into());
}

/// Mount a Secret with a certificate.
fn mount(
    container: &mut Object,
    volumes: &mut Vec<Value>,
    secret: &str,
    (volume, directory, variable): (&str, &str, &str),
) {
    let item = |key: &str| json!({"key": key, "path": key});
    let items = [item("tls.crt"), item("tls.key"), item("ca.crt")];
    volumes.retain(|known| known["name"] != volume);
    volumes.push(json!({"name": volume, "secret": {"secretName": secret, "items": items}}));
    let mut mounts = list(container, "volumeMounts");
    mounts.retain(|known| known["mountPath"] != directory);
    mounts.push(json!({"name": volume, "readOnly": true, "mountPath": directory}));
    container.insert("volumeMounts".to_owned(), mounts.into());
    add_variables(container, [json!({"name": variable, "value": directory})]);
}

/// Add annotations by which Prometheus scrapes a provider, unless its template has one of them.
fn scrape(pods: &mut Object) {
    let said = pods.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(SCRAPE));
    if said.is_some() {
        return;
    }
    let ports = pods["spec"]["containers"][0]["ports"].as_array();
    let metrics = ports.into_iter().flatten().find(|port| port["name"] == "metrics");
    let port = metrics.and_then(|port| port["containerPort"].as_u64()).unwrap_or(METRICS_PORT.into());
    meta::set_annotation(pods, SCRAPE, "true");
    meta::set_annotation(pods, "prometheus.io/port", &port.to_string());
    meta::set_annotation(pods, "prometheus.io/path", "/metrics");
}

pub(super) fn list(object: &Object, field: &str) -> Vec<Value> {
    object.get(field).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// A value without nulls: server-side apply records no owner of a null, so that it would be applied for ever.
fn without_nulls(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let rest = fields.into_iter().filter_map(|(key, value)| Some((key, without_nulls(value)?)));
            Some(Value::Object(rest.collect()))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_nulls).collect()),
        other => Some(other),
    }
}
