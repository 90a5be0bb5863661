//! What runs a revision of a Function or Provider on a cluster: a Deployment, a Service, and a `ServiceAccount`.
//!
//! Follows Crossplane 2.4.0, `internal/controller/pkg/runtime/runtime.go`, `runtime_function.go` and `runtime_provider.go`.
//!
//! # Invariants
//! * Pods are Crossplane's to the last field, and to the order of variables, volumes and ports: any difference would restart
//!   everything that Crossplane runs when its place is taken.
//! * What a `DeploymentRuntimeConfig` says counts, but for what the plane has to rely on: the namespace, owners, selectors, pull secrets
//!   and certificates.
//! * One revision controls each object. Another revision of the package keeps its reference, without control: an API server refuses
//!   two controllers, and what loses all owners is deleted.

mod deployment;
mod health;

use std::collections::BTreeSet;

use ferroplane_api::{Object, PackageKind, keys, meta};
use serde_json::{Map, Value, json};

use super::establish::{AlreadyControlled, Party, foreign_controller, owners, set_owner};
use deployment::deployment;
pub use health::{deployment_trouble, is_available};

/// The name under which all of this is applied. Crossplane's, so that each takes over from the other.
pub const RUNTIME_MANAGER: &str = "pkg.crossplane.io/runtime";
/// On pods: the revision that they run.
const REVISION: &str = "pkg.crossplane.io/revision";
/// Where functions and webhooks of providers listen.
const PORT: u16 = 9443;
/// As long as the name of a Service may be.
const LONGEST_NAME: usize = 63;

/// What the Service of a revision is called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RuntimeNames {
    /// As the package, or as a configuration says. One revision has it from another.
    #[default]
    Package,
    /// As the revision, or as a configuration says.
    Revision,
    /// The same, where several revisions are active: what a configuration says has the revision as suffix, for the Deployment, too.
    EachRevision,
}

/// What decides how a revision runs.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeInputs<'a> {
    pub kind: PackageKind,
    pub revision: &'a Object,
    /// Where everything runs.
    pub namespace: &'a str,
    /// The image, after it was rewritten.
    pub image: &'a str,
    /// The `DeploymentRuntimeConfig`, if there is one.
    pub config: Option<&'a Object>,
    /// The pull secret that an `ImageConfig` names.
    pub image_pull_secret: Option<&'a str>,
    /// The pull secrets of the plane's own service account.
    pub own_pull_secrets: &'a [String],
    /// Whether a provider that can wait does: none of the kinds that it brings is in use.
    pub awaits_activation: bool,
    pub names: RuntimeNames,
}

/// What runs a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeObjects {
    pub service: Object,
    /// None if the pods use one that somebody else looks after.
    pub service_account: Option<Object>,
    pub deployment: Object,
}

/// What runs a revision.
pub fn runtime_objects(inputs: &RuntimeInputs<'_>) -> RuntimeObjects {
    let account = service_account(inputs);
    let deployment = deployment(inputs, meta::name(&account));
    let used = deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str();
    let is_used = used == Some(meta::name(&account));
    RuntimeObjects { service: service(inputs), service_account: is_used.then_some(account), deployment }
}

/// Where a function is called that is behind a Service.
pub fn function_endpoint(service: &Object) -> String {
    format!("dns:///{}.{}:{PORT}", meta::name(service), meta::namespace(service))
}

/// The names that whoever is behind a Service has to be able to prove.
pub fn server_names(service: &Object) -> Vec<String> {
    let (name, namespace) = (meta::name(service), meta::namespace(service));
    vec![name.to_owned(), format!("{name}.{namespace}"), format!("{name}.{namespace}.svc")]
}

/// What to apply over a live object. Other revisions of the package that own it lose control.
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
    for owner in &mut all {
        owner["controller"] = json!(false);
    }
    set_owner(&mut all, party.revision, true);
    meta::child(&mut wanted, "metadata").insert("ownerReferences".to_owned(), Value::Array(all));
    Ok(wanted)
}

/// The owners that a Secret with a certificate of this party should have, if it does not have them already. That of a provider
/// belongs to the package.
pub fn secret_owners(
    kind: PackageKind,
    live: &Object,
    party: Party<'_>,
) -> Result<Option<Vec<Value>>, AlreadyControlled> {
    let is_packages = meta::controller_uid(live) == Some(meta::uid(party.package));
    if let Some(foreign) = foreign_controller(live, party).filter(|_| !is_packages) {
        return Err(foreign);
    }
    let owner = if kind == PackageKind::Provider || is_packages { party.package } else { party.revision };
    if meta::controller_uid(live) == Some(meta::uid(owner)) {
        return Ok(None);
    }
    let mut all = owners(live);
    // Whoever controlled it is of the same party, and an owner still.
    for controller in all.iter_mut().filter(|owner| owner["controller"] == true) {
        controller["controller"] = json!(false);
    }
    set_owner(&mut all, owner, true);
    Ok(Some(all))
}

/// Whether the party owns an object, in whatever way.
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
        // Without an address of its own: whoever calls it sees all pods, and spreads calls over them.
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

/// A service account with the pull secrets that others gave it: some clusters give each service account one of its own.
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

/// An object with the name, labels and annotations that its template has, which the revision controls.
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

/// A name that all revisions would have, for one of them: with what only its own name has.
fn with_suffix(name: &str, revision: &str) -> String {
    let id = revision.rsplit('-').next().unwrap_or(revision);
    let room = LONGEST_NAME.saturating_sub(id.len() + 1);
    format!("{}-{id}", &name[..name.floor_char_boundary(room)])
}

/// The labels by which pods of the revision are known.
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

/// References to Secrets, each once: an API server refuses to apply a list that names one twice.
fn pull_secrets(names: impl Iterator<Item = String>) -> Vec<Value> {
    let mut known = BTreeSet::new();
    let new = names.filter(|name| !name.is_empty() && known.insert(name.clone()));
    new.map(|name| json!({"name": name})).collect()
}

#[cfg(test)]
mod tests;
