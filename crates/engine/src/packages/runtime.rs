//! The objects that run a revision of a Function or Provider on a cluster: a Deployment, a Service, and a `ServiceAccount`.
//!
//! Follows Crossplane 2.4.0, `internal/controller/pkg/runtime/runtime.go`, `runtime_function.go` and `runtime_provider.go`.
//!
//! # Invariants
//! * Pods are the same as Crossplane's in every field but the image, and in the order of variables, volumes and ports: any difference would
//!   restart everything that Crossplane runs when we take over from it. Those of programs that are not servers have an adapter, too, which
//!   Crossplane does not know.
//! * Pods run the image that was resolved and verified, by its digest: a tag may move. Only those that Crossplane started keep the tag.
//! * A `DeploymentRuntimeConfig` can change everything except what the plane relies on: the namespace, owners, selectors, pull secrets
//!   and certificates.
//! * One revision controls each object. Another revision of the package keeps its owner reference, without control: an API server refuses
//!   two controllers, and an object that loses all owners is deleted.

mod adapter;
mod deployment;
mod health;
mod image;

use std::collections::BTreeSet;

use ferroplane_api::{Object, PackageKind, keys, meta};
use serde_json::{Map, Value, json};

use super::establish::{AlreadyControlled, Party, foreign_controller, owners, set_owner};
pub use adapter::AdaptedProgram;
use deployment::deployment;
pub use health::{deployment_trouble, is_available};
pub use image::keep_tag;

/// The field manager of these objects. It is Crossplane's, so that each can take over from the other.
pub const RUNTIME_MANAGER: &str = "pkg.crossplane.io/runtime";
/// On pods: the revision that they run.
const REVISION: &str = "pkg.crossplane.io/revision";
/// The port of functions and of webhooks of providers.
const PORT: u16 = 9443;
/// The longest name of a Service.
const LONGEST_NAME: usize = 63;

/// How the Service of a revision is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RuntimeNames {
    /// After the package, or as a configuration says. A new revision takes it over from the old one.
    #[default]
    Package,
    /// After the revision, or as a configuration says.
    Revision,
    /// The same, where several revisions are active: a name from a configuration gets the revision as suffix, that of the Deployment,
    /// too.
    EachRevision,
}

/// Everything that decides how a revision runs.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeInputs<'a> {
    pub kind: PackageKind,
    pub revision: &'a Object,
    /// The namespace of all objects.
    pub namespace: &'a str,
    /// The image that pods run, unless a configuration names another.
    pub image: &'a str,
    /// The `DeploymentRuntimeConfig`, if there is one.
    pub config: Option<&'a Object>,
    /// The pull secret that an `ImageConfig` names.
    pub image_pull_secret: Option<&'a str>,
    /// The pull secrets of the plane's own service account.
    pub own_pull_secrets: &'a [String],
    /// Whether a provider that can wait for its kinds does so: none of them is active.
    pub awaits_activation: bool,
    /// The program, if it is not a server but is run for every call.
    pub adapted: Option<AdaptedProgram<'a>>,
    pub names: RuntimeNames,
}

/// The objects that run a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeObjects {
    pub service: Object,
    /// None if the pods use a service account that we do not manage.
    pub service_account: Option<Object>,
    pub deployment: Object,
}

/// The objects that run a revision.
pub fn runtime_objects(inputs: &RuntimeInputs<'_>) -> RuntimeObjects {
    let account = service_account(inputs);
    let deployment = deployment(inputs, meta::name(&account));
    let used = deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str();
    let is_used = used == Some(meta::name(&account));
    RuntimeObjects { service: service(inputs), service_account: is_used.then_some(account), deployment }
}

/// The address of a function behind a Service.
pub fn function_endpoint(service: &Object) -> String {
    format!("dns:///{}.{}:{PORT}", meta::name(service), meta::namespace(service))
}

/// The names that the certificate of a server behind a Service has to have.
pub fn server_names(service: &Object) -> Vec<String> {
    let (name, namespace) = (meta::name(service), meta::namespace(service));
    vec![name.to_owned(), format!("{name}.{namespace}"), format!("{name}.{namespace}.svc")]
}

/// A Deployment whose pods read a certificate that was replaced at some time: programs read theirs once, so that pods that run have to be
/// restarted. Nothing is said about the first certificate, and Crossplane says nothing about any, so that taking over restarts no pods.
pub fn with_certificate(mut deployment: Object, replaced_at: &str) -> Object {
    if !replaced_at.is_empty() {
        let pods = meta::child(meta::child(&mut deployment, "spec"), "template");
        meta::set_annotation(pods, keys::CERTIFICATE_REPLACED_AT, replaced_at);
    }
    deployment
}

/// The object to apply over a live one. A revision of the package that controls it loses control, and with the next write its ownership: a field
/// manager other than ours may have written it, and two controllers are refused.
pub fn take_over(
    mut wanted: Object,
    live: Option<&Object>,
    party: Party<'_>,
) -> Result<Object, AlreadyControlled> {
    let Some(live) = live else { return Ok(wanted) };
    if let Some(foreign) = foreign_controller(live, party) {
        return Err(foreign);
    }
    let mut all: Vec<Value> =
        owners(live).into_iter().filter(|owner| is_one_of(owner, party.siblings)).collect();
    all.retain(|owner| owner["controller"] == true);
    for owner in &mut all {
        owner["controller"] = json!(false);
    }
    set_owner(&mut all, party.revision, true);
    meta::child(&mut wanted, "metadata").insert("ownerReferences".to_owned(), Value::Array(all));
    Ok(wanted)
}

/// The owners that a certificate Secret of this party should have. None if it has them already. A Secret that the package controls stays
/// with it.
pub fn secret_owners(live: &Object, party: Party<'_>) -> Result<Option<Vec<Value>>, AlreadyControlled> {
    let is_packages = meta::controller_uid(live) == Some(meta::uid(party.package));
    if let Some(foreign) = foreign_controller(live, party).filter(|_| !is_packages) {
        return Err(foreign);
    }
    let owner = if is_packages { party.package } else { party.revision };
    if meta::controller_uid(live) == Some(meta::uid(owner)) {
        return Ok(None);
    }
    let mut all = owners(live);
    // The former controller is another revision of the package.
    all.retain(|owner| owner["controller"] != true);
    set_owner(&mut all, owner, true);
    Ok(Some(all))
}

/// Whether the party owns an object, with or without control.
pub fn is_owned_by(live: &Object, party: Party<'_>) -> bool {
    let own = [meta::uid(party.package), meta::uid(party.revision)];
    owners(live).iter().any(|owner| {
        let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
        own.contains(&uid) || party.siblings.contains(uid)
    })
}

fn is_one_of(owner: &Value, uids: &BTreeSet<String>) -> bool {
    owner.get("uid").and_then(Value::as_str).is_some_and(|uid| uids.contains(uid))
}

fn service(inputs: &RuntimeInputs<'_>) -> Object {
    let name = match inputs.names {
        RuntimeNames::Package => package(inputs),
        RuntimeNames::Revision | RuntimeNames::EachRevision => meta::name(inputs.revision),
    };
    let mut service = blank(inputs, "v1", "Service", "serviceTemplate", name);
    let spec = match inputs.kind {
        // A headless Service: the caller sees all pods, and balances calls between them.
        PackageKind::Function => json!({
            "clusterIP": "None",
            "ports": [{"name": "grpc", "protocol": "TCP", "port": PORT, "targetPort": "grpc", "appProtocol": "tls"}],
            "selector": selector(inputs),
        }),
        PackageKind::Provider | PackageKind::Configuration => json!({
            "ports": [{"name": "webhook", "protocol": "TCP", "port": PORT, "targetPort": "webhook"}],
            "selector": selector(inputs),
        }),
    };
    service.insert("spec".to_owned(), spec);
    service
}

fn service_account(inputs: &RuntimeInputs<'_>) -> Object {
    let revision = meta::name(inputs.revision);
    let mut account = blank(inputs, "v1", "ServiceAccount", "serviceAccountTemplate", revision);
    let own = inputs.own_pull_secrets.iter().cloned();
    let secrets = pull_secrets(package_pull_secrets(inputs.revision).into_iter().chain(own));
    if !secrets.is_empty() {
        account.insert("imagePullSecrets".to_owned(), secrets.into());
    }
    account
}

/// A service account with the pull secrets that it has: some clusters add one to each service account.
pub fn keep_pull_secrets(mut account: Object, live: Option<&Object>) -> Object {
    let names = |account: &Object| -> Vec<String> {
        let secrets = account.get("imagePullSecrets").and_then(Value::as_array);
        let name = |secret: &Value| secret["name"].as_str().map(str::to_owned);
        secrets.into_iter().flatten().filter_map(name).collect()
    };
    let all = pull_secrets(names(&account).into_iter().chain(live.map(names).unwrap_or_default()));
    if !all.is_empty() {
        account.insert("imagePullSecrets".to_owned(), all.into());
    }
    account
}

/// An object with the name, labels and annotations of its template, which the revision controls.
fn blank(inputs: &RuntimeInputs<'_>, api_version: &str, kind: &str, template: &str, name: &str) -> Object {
    let mut object =
        Map::from_iter([("apiVersion".to_owned(), json!(api_version)), ("kind".to_owned(), json!(kind))]);
    let template = inputs.config.and_then(|config| config.get("spec")?.get(template)?.get("metadata"));
    for field in ["labels", "annotations"] {
        if let Some(entries) = template.and_then(|template| template.get(field)?.as_object()) {
            meta::child(&mut object, "metadata").insert(field.to_owned(), entries.clone().into());
        }
    }
    let named = template.and_then(|template| template.get("name")?.as_str()).filter(|name| !name.is_empty());
    // Service accounts can be shared.
    let is_own = inputs.names == RuntimeNames::EachRevision && kind != "ServiceAccount";
    let suffixed = named.filter(|_| is_own).map(|named| with_suffix(named, meta::name(inputs.revision)));
    meta::set_field(&mut object, "name", suffixed.as_deref().or(named).unwrap_or(name));
    meta::set_field(&mut object, "namespace", inputs.namespace);
    meta::set_controller(&mut object, inputs.revision);
    object
}

/// The name for one of several revisions: with a suffix from the name of the revision.
fn with_suffix(name: &str, revision: &str) -> String {
    // The hash at the end of its name: the rest is the name of the package, which all revisions share.
    let id = revision.rsplit('-').next().unwrap_or(revision);
    let room = LONGEST_NAME.saturating_sub(id.len() + 1);
    format!("{}-{id}", &name[..name.floor_char_boundary(room)])
}

/// The labels that select the pods of the revision.
fn selector(inputs: &RuntimeInputs<'_>) -> Value {
    let package_label = format!("{}/{}", keys::PKG, inputs.kind.name().to_ascii_lowercase());
    json!({REVISION: meta::name(inputs.revision), package_label: package(inputs)})
}

fn package<'a>(inputs: &RuntimeInputs<'a>) -> &'a str {
    meta::label(inputs.revision, keys::PACKAGE)
}

fn spec_text<'a>(revision: &'a Object, field: &str) -> Option<&'a str> {
    revision.get("spec")?.get(field)?.as_str().filter(|text| !text.is_empty())
}

fn package_pull_secrets(revision: &Object) -> Vec<String> {
    let secrets = revision.get("spec").and_then(|spec| spec.get("packagePullSecrets")?.as_array());
    let name = |secret: &Value| secret.get("name")?.as_str().map(str::to_owned);
    secrets.into_iter().flatten().filter_map(name).collect()
}

/// References to Secrets, without duplicates: an API server refuses to apply a list with two of one name.
fn pull_secrets(names: impl Iterator<Item = String>) -> Vec<Value> {
    let mut known = BTreeSet::new();
    let new = names.filter(|name| !name.is_empty() && known.insert(name.clone()));
    new.map(|name| json!({"name": name})).collect()
}

#[cfg(test)]
mod tests;
