//! The data that templates of an action can use, and the objects that have to be read for it.
//!
//! Follows Kanister 0.119, pkg/param/param.go: the same names, with the fields that Go's structs have.

use std::collections::BTreeMap;

use ferroplane_api::{
    ActionSpec, Artifact, Cause, CredentialType, KanisterReference, Object, Profile, SecretKey, Workload,
    keys, meta,
};
use ferroplane_golang::base64;
use serde_json::{Value, json};

use super::compile::ActionFailure;
use super::function::{Address, Answer, Request, ResourceName};
use super::secrets::Secrets;

/// The objects that were read for an action.
#[derive(Debug, Clone, Default)]
pub(super) struct Inputs {
    /// Empty if the action has no object.
    pub(super) object: Object,
    pub(super) config_maps: BTreeMap<String, Object>,
    pub(super) secrets: BTreeMap<String, Object>,
    pub(super) profile: Option<Object>,
    /// Secrets that the profile names, in the order of [`profile_secrets`].
    pub(super) profile_secrets: Vec<Object>,
    pub(super) workload: Option<Workload>,
}

/// The kinds of objects that have a name of their own in templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownKind {
    StatefulSet,
    Deployment,
    DeploymentConfig,
    Pvc,
    Namespace,
}

impl KnownKind {
    fn of(reference: &KanisterReference) -> Option<Self> {
        match reference.kind.to_ascii_lowercase().as_str() {
            "statefulset" => Some(Self::StatefulSet),
            "deployment" => Some(Self::Deployment),
            "deploymentconfig" => Some(Self::DeploymentConfig),
            "pvc" | "persistentvolumeclaim" => Some(Self::Pvc),
            "namespace" => Some(Self::Namespace),
            _ => None,
        }
    }

    fn resource(self) -> ResourceName {
        match self {
            Self::StatefulSet => ResourceName::resource("apps/v1", "statefulsets"),
            Self::Deployment => ResourceName::resource("apps/v1", "deployments"),
            Self::DeploymentConfig => ResourceName::resource("apps.openshift.io/v1", "deploymentconfigs"),
            Self::Pvc => ResourceName::resource("v1", "persistentvolumeclaims"),
            Self::Namespace => ResourceName::resource("v1", "namespaces"),
        }
    }

    fn has_pods(self) -> bool {
        matches!(self, Self::StatefulSet | Self::Deployment | Self::DeploymentConfig)
    }

    fn root(self) -> &'static str {
        match self {
            Self::StatefulSet => "StatefulSet",
            Self::Deployment => "Deployment",
            Self::DeploymentConfig => "DeploymentConfig",
            Self::Pvc => "PVC",
            Self::Namespace => "Namespace",
        }
    }
}

/// The object of an action. None if it has none.
pub(super) fn target(reference: &KanisterReference) -> Result<Option<Address>, ActionFailure> {
    if *reference == KanisterReference::default() {
        return Ok(None);
    }
    let invalid = |message: &str| ActionFailure::new(Cause::ActionInvalid, "", message);
    let (kind, mut name) = match KnownKind::of(reference) {
        Some(known) => (known.resource(), reference.name.clone()),
        None => (other_kind(reference)?, reference.name.clone()),
    };
    // Kanister reads a namespace by its name, and shows templates its namespace: one of the two is enough.
    if KnownKind::of(reference) == Some(KnownKind::Namespace) && name.is_empty() {
        name.clone_from(&reference.namespace);
    }
    if name.is_empty() {
        return Err(invalid("the object of an action needs a name"));
    }
    Ok(Some(Address { kind, namespace: reference.namespace.clone(), name }))
}

fn other_kind(reference: &KanisterReference) -> Result<ResourceName, ActionFailure> {
    let KanisterReference { api_version, group, resource, kind, .. } = reference;
    let is_named = !resource.is_empty() || !kind.is_empty();
    if api_version.is_empty() || !is_named {
        let message = format!(
            "the object of an action is of kind `{kind}`: give `apiVersion` and `resource`, or name a Deployment, a StatefulSet, a \
             PVC or a Namespace"
        );
        return Err(ActionFailure::new(Cause::ActionInvalid, "", message));
    }
    let api_version = if group.is_empty() { api_version.clone() } else { format!("{group}/{api_version}") };
    Ok(if resource.is_empty() {
        ResourceName::kind(api_version, kind)
    } else {
        ResourceName::resource(api_version, resource)
    })
}

/// The requests to perform first.
pub(super) fn requests(spec: &ActionSpec) -> Result<Vec<Request>, ActionFailure> {
    let object = target(&spec.object)?.map(Request::Get);
    let config_maps = spec.config_maps.values().map(|reference| named("v1", "ConfigMap", reference));
    let secrets = spec.secrets.values().map(|reference| named("v1", "Secret", reference));
    let profile = spec
        .profile
        .iter()
        .map(|reference| named(&format!("{}/v1alpha1", keys::KANISTER), "Profile", reference));
    Ok(object.into_iter().chain(config_maps).chain(secrets).chain(profile).collect())
}

pub(super) fn named(api_version: &str, kind: &str, reference: &KanisterReference) -> Request {
    Request::Get(Address {
        kind: ResourceName::kind(api_version, kind),
        namespace: reference.namespace.clone(),
        name: reference.name.clone(),
    })
}

/// The object in an answer, or why it could not be read.
pub(super) fn read(request: &Request, answer: Answer, phase: &str) -> Result<Object, ActionFailure> {
    let what = match request {
        Request::Get(address) => describe(address),
        _ => "objects".to_owned(),
    };
    let message = match answer {
        Answer::Object { object, .. } => return Ok(object),
        Answer::Absent => format!("there is no {what}"),
        // A grant that is missing has a cause of its own.
        Answer::Refused(refused) => {
            let cause = match refused.cause {
                Cause::AccessNotGranted => Cause::AccessNotGranted,
                _ => Cause::ActionInputUnavailable,
            };
            return Err(ActionFailure::new(cause, phase, refused.message));
        }
        _ => format!("cannot read {what}"),
    };
    Err(ActionFailure::new(Cause::ActionInputUnavailable, phase, message))
}

/// The name of an object, for messages.
pub(super) fn describe(address: &Address) -> String {
    use super::function::NamedBy::{Kind, Resource};
    let (Kind(kind) | Resource(kind)) = &address.kind.by;
    if address.namespace.is_empty() {
        format!("{kind} `{}`", address.name)
    } else {
        format!("{kind} `{}/{}`", address.namespace, address.name)
    }
}

impl Inputs {
    /// Take the objects that were read first, in the order of [`requests`].
    pub(super) fn take(spec: &ActionSpec, objects: Vec<Object>) -> Self {
        let mut objects = objects.into_iter();
        let mut next = || objects.next().unwrap_or_default();
        let object = if spec.object == KanisterReference::default() { Object::new() } else { next() };
        let config_maps = spec.config_maps.keys().map(|name| (name.clone(), next())).collect();
        let secrets = spec.secrets.keys().map(|name| (name.clone(), next())).collect();
        let profile = spec.profile.as_ref().map(|_| next());
        Self { object, config_maps, secrets, profile, ..Self::default() }
    }

    /// The requests to perform next: Secrets of the profile, then the pods of the object unless they are known.
    pub(super) fn further_requests(&self, spec: &ActionSpec) -> Result<Vec<Request>, ActionFailure> {
        let secrets = self.profile()?.map(|profile| profile_secrets(&profile)).unwrap_or_default();
        let namespace = self.profile.as_ref().map(meta::namespace).unwrap_or_default();
        let secrets = secrets.into_iter().map(|mut reference| {
            // The Secrets of a Profile are in its own namespace.
            if reference.namespace.is_empty() {
                namespace.clone_into(&mut reference.namespace);
            }
            named("v1", "Secret", &reference)
        });
        let pods = self.lists_pods(spec).then(|| Request::List {
            kind: ResourceName::kind("v1", "Pod"),
            namespace: meta::namespace(&self.object).to_owned(),
            labels: selector(&self.object),
        });
        Ok(secrets.chain(pods).collect())
    }

    /// Take the objects that were read next.
    pub(super) fn take_further(&mut self, spec: &ActionSpec, secrets: Vec<Object>, pods: &[Object]) {
        self.profile_secrets = secrets;
        if self.lists_pods(spec) {
            self.workload = Some(workload(pods));
        }
    }

    fn lists_pods(&self, spec: &ActionSpec) -> bool {
        self.workload.is_none() && KnownKind::of(&spec.object).is_some_and(KnownKind::has_pods)
    }

    fn profile(&self) -> Result<Option<Profile>, ActionFailure> {
        let Some(profile) = &self.profile else { return Ok(None) };
        Profile::of(profile).map(Some).map_err(|error| {
            let message = format!("cannot read Profile `{}`: {error}", meta::name(profile));
            ActionFailure::new(Cause::ActionInputUnavailable, "", message)
        })
    }

    /// The data for templates before any phase has run. `objects` of phases are rendered with it.
    pub(super) fn data(&self, spec: &ActionSpec, time: &str) -> Object {
        let mut data = Object::new();
        if let Some(known) = KnownKind::of(&spec.object) {
            data.insert(known.root().to_owned(), self.known(known));
        }
        let fields = [
            ("Object", Value::Object(self.object.clone())),
            ("ArtifactsIn", spec.artifacts.iter().map(|(name, it)| (name.clone(), artifact(it))).collect()),
            ("ConfigMaps", map(&self.config_maps, config_map)),
            ("Secrets", map(&self.secrets, secret)),
            ("Time", time.into()),
            ("Options", json!(spec.options)),
            ("Phases", json!({})),
            ("PodOverride", Value::Object(spec.pod_override.clone())),
            ("PodLabels", json!(spec.pod_labels)),
            ("PodAnnotations", json!(spec.pod_annotations)),
        ];
        data.extend(fields.map(|(name, value)| (name.to_owned(), value)));
        if let Ok(Some(profile)) = self.profile() {
            data.insert("Profile".to_owned(), self.profile_value(&profile));
        }
        data
    }

    fn known(&self, known: KnownKind) -> Value {
        let (name, namespace) = (meta::name(&self.object), meta::namespace(&self.object));
        if known == KnownKind::Namespace {
            return json!({"Name": name, "Namespace": name});
        }
        let mut value = json!({"Name": name, "Namespace": namespace});
        if let Some(Workload { pods, containers, persistent_volume_claims }) =
            self.workload.as_ref().filter(|_| known.has_pods())
        {
            value["Pods"] = json!(pods);
            value["Containers"] = json!(containers);
            value["PersistentVolumeClaims"] = json!(persistent_volume_claims);
        }
        value
    }

    fn profile_value(&self, profile: &Profile) -> Value {
        let Profile { location, credential, skip_ssl_verify } = profile;
        let mut secrets = self.profile_secrets.iter();
        let mut next = || secrets.next().cloned().unwrap_or_default();
        let mut value =
            json!({"Type": credential.r#type, "KeyPair": null, "Secret": null, "KopiaServerSecret": null});
        // Only the Secrets that belong to the type were read, so that the fields of other types must not use them.
        match credential.r#type {
            CredentialType::KeyPair => {
                if let Some(pair) = &credential.key_pair {
                    let object = next();
                    value["KeyPair"] = json!({
                        "ID": text(&object, &pair.id_field), "Secret": text(&object, &pair.secret_field),
                    });
                }
            }
            CredentialType::Secret => {
                if credential.secret.is_some() {
                    value["Secret"] = secret(&next());
                }
            }
            CredentialType::Kopia => {
                if let Some(server) = &credential.kopia_server_secret {
                    let mut read = |key: &SecretKey| key.secret.as_ref().map(|_| text(&next(), &key.key));
                    let (password, certificate) = (read(&server.user_passphrase), read(&server.tls_cert));
                    value["KopiaServerSecret"] = json!({
                        "Username": server.username, "Hostname": server.hostname, "Password": password,
                        "Cert": certificate, "ConnectOptions": server.connect_options,
                    });
                }
            }
        }
        json!({
            "Location": {
                "Type": location.r#type, "Bucket": location.bucket, "Endpoint": location.endpoint,
                "Prefix": location.prefix, "Region": location.region,
            },
            "Credential": value,
            "SkipSSLVerify": skip_ssl_verify,
        })
    }

    /// The values to redact: those of all Secrets that were read.
    pub(super) fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::default();
        for secret in self.secrets.values().chain(&self.profile_secrets) {
            secrets.add(secret);
        }
        secrets
    }
}

/// The Secrets that a Profile names, in the order in which they are read.
fn profile_secrets(profile: &Profile) -> Vec<KanisterReference> {
    let credential = &profile.credential;
    // Secrets of other types are not read: they may not exist.
    match credential.r#type {
        CredentialType::KeyPair => credential.key_pair.iter().map(|pair| pair.secret.clone()).collect(),
        CredentialType::Secret => credential.secret.iter().cloned().collect(),
        CredentialType::Kopia => credential
            .kopia_server_secret
            .iter()
            .flat_map(|server| [&server.user_passphrase.secret, &server.tls_cert.secret])
            .flatten()
            .cloned()
            .collect(),
    }
}

fn text(secret: &Object, key: &str) -> String {
    let data = secret.get("data").and_then(|data| data.get(key)?.as_str()).unwrap_or_default();
    let bytes = base64::decode(data.as_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn map(objects: &BTreeMap<String, Object>, convert: impl Fn(&Object) -> Value) -> Value {
    objects.iter().map(|(name, object)| (name.clone(), convert(object))).collect()
}

/// A Secret with the fields that Go's struct has.
pub(super) fn secret(object: &Object) -> Value {
    let mut value = go_object(object);
    value["Data"] = object.get("data").cloned().unwrap_or_else(|| json!({}));
    value["Type"] = object.get("type").cloned().unwrap_or_else(|| "".into());
    value
}

/// A ConfigMap with the fields that Go's struct has.
pub(super) fn config_map(object: &Object) -> Value {
    let mut value = go_object(object);
    value["Data"] = object.get("data").cloned().unwrap_or_else(|| json!({}));
    value["BinaryData"] = object.get("binaryData").cloned().unwrap_or_else(|| json!({}));
    value
}

fn go_object(object: &Object) -> Value {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let field = |name: &str| metadata.get(name).cloned().unwrap_or_else(|| json!({}));
    let fields = json!({
        "Name": meta::name(object), "Namespace": meta::namespace(object), "Labels": field("labels"),
        "Annotations": field("annotations"), "UID": meta::uid(object),
    });
    let mut value = fields.clone();
    value["ObjectMeta"] = fields;
    value
}

pub(super) fn artifact(artifact: &Artifact) -> Value {
    json!({"KeyValue": artifact.key_value, "KopiaSnapshot": artifact.kopia_snapshot})
}

/// The label selector of a workload, as users write it.
fn selector(object: &Object) -> String {
    let selector = object.get("spec").and_then(|spec| spec.get("selector")).unwrap_or(&Value::Null);
    // A DeploymentConfig has the labels themselves.
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object();
    let labels =
        labels.into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    labels.collect::<Vec<_>>().join(",")
}

/// The running pods, with their containers and claims.
fn workload(pods: &[Object]) -> Workload {
    let mut running: Vec<_> = pods.iter().filter(|pod| is_running(pod)).collect();
    running.sort_by_key(|pod| meta::name(pod));
    let mut workload = Workload::default();
    for pod in running {
        let name = meta::name(pod).to_owned();
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let containers = spec["containers"].as_array().into_iter().flatten();
        let names = containers.filter_map(|container| container["name"].as_str().map(str::to_owned));
        workload.containers.push(names.collect());
        let claims = mounted_claims(spec);
        if !claims.is_empty() {
            workload.persistent_volume_claims.insert(name.clone(), claims);
        }
        workload.pods.push(name);
    }
    workload
}

fn is_running(pod: &Object) -> bool {
    let phase = pod.get("status").and_then(|status| status.get("phase")?.as_str());
    phase == Some("Running") && !meta::is_being_deleted(pod)
}

/// Where the claims of a pod are mounted.
fn mounted_claims(spec: &Value) -> BTreeMap<String, String> {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let claims: BTreeMap<_, _> = volumes
        .filter_map(|volume| {
            Some((volume["name"].as_str()?, volume["persistentVolumeClaim"]["claimName"].as_str()?))
        })
        .collect();
    let containers = spec["containers"].as_array().into_iter().flatten();
    let mounts = containers.flat_map(|container| container["volumeMounts"].as_array().into_iter().flatten());
    let mounted = mounts.filter_map(|mount| {
        let claim = claims.get(mount["name"].as_str()?)?;
        Some(((*claim).to_owned(), mount["mountPath"].as_str()?.to_owned()))
    });
    mounted.collect()
}
