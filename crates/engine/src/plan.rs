//! Makes a plan of the desired state that functions return.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ferroplane_api::{Object, keys, meta, names};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{Ready, Resource};
use serde_json::Value;

use crate::access::is_own_webhook_configuration;
use crate::conversation::{Answer, Want};
use crate::failure::Failure;
use crate::inputs::{Layout, Observed};
use crate::names::composed_name;
use crate::operation;
use crate::outcome::{Event, EventKind};
use crate::requirements::MISMATCH;
use crate::run::Run;

/// The reason of the event for a resource that is composed in another namespace than a function desired.
pub const NAMESPACE_OVERRIDDEN: &str = "NamespaceOverridden";

/// The changes to make, in this order: delete, record the references, apply, write the status. An operation uses only the references and
/// what is applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Composed resources that are no longer desired.
    pub delete: Vec<Deletion>,
    /// The references from now on. They have to be recorded before anything is applied.
    pub references: Vec<Reference>,
    /// The desired resources, complete with names, by resource name. Composed resources have their owner.
    pub apply: Vec<Wanted>,
    /// The status that functions desire for the composite resource.
    pub status: Option<Object>,
    /// Whether functions say that the composite resource is ready. None: it is ready when all composed resources are.
    pub is_ready: Option<bool>,
    /// Connection details of the composite resource. Only legacy ones have them.
    pub connection_details: BTreeMap<String, Bytes>,
}

/// A desired resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Its resource name.
    pub resource: String,
    /// The last step that changed it.
    pub step: String,
    pub object: Object,
    pub is_ready: bool,
}

/// A composed resource that is no longer desired.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion {
    /// Its resource name.
    pub resource: String,
    /// As it was observed.
    pub object: Struct,
}

/// A reference from a composite resource to a composed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    /// Only in references of cluster-scoped composite resources.
    pub namespace: Option<String>,
}

impl Reference {
    /// A reference to an object, with its namespace if requested and if it has one.
    pub fn to(object: &Object, with_namespace: bool) -> Self {
        let namespace =
            Some(meta::namespace(object)).filter(|namespace| with_namespace && !namespace.is_empty());
        Self {
            api_version: meta::api_version(object).to_owned(),
            kind: meta::kind(object).to_owned(),
            name: meta::name(object).to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }
}

/// Which kinds are namespaced, as far as that was read.
pub(crate) struct Scopes<'a>(BTreeMap<(&'a str, &'a str), Result<bool, &'a str>>);

impl<'a> Scopes<'a> {
    pub(crate) fn new(wants: &'a [Want], answers: &'a [Answer]) -> Self {
        let scopes = wants.iter().zip(answers).filter_map(|(want, answer)| {
            let Want::Scope { api_version, kind } = want else { return None };
            let scope = match answer {
                Answer::Scope { is_namespaced } => Ok(*is_namespaced),
                Answer::Failed(reason) => Err(reason.as_str()),
                _ => Err(MISMATCH),
            };
            Some(((api_version.as_str(), kind.as_str()), scope))
        });
        Self(scopes.collect())
    }

    /// Whether objects of this kind are known to be namespaced. The API server decides about unknown kinds.
    pub(crate) fn is_namespaced(&self, object: &Object) -> bool {
        // This very plan may install the kind, with a Provider or a CRD.
        self.0.get(&(meta::api_version(object), meta::kind(object))) == Some(&Ok(true))
    }
}

/// The parts of the composite resource that names and owners of composed resources are made of.
struct Composite<'a> {
    object: &'a Object,
    namespace: &'a str,
    prefix: &'a str,
}

pub(crate) fn make(run: &mut Run, scopes: &Scopes<'_>) -> Result<Plan, Failure> {
    // Taken, not cloned: desired state is the largest thing in a run, and nothing reads it afterwards.
    let (desired, resources) = run.take_desired().into_parts();
    let mut events = Vec::new();
    let plan = decide(run, desired.as_ref(), resources, scopes, &mut events);
    run.events.append(&mut events);
    plan
}

fn decide(
    run: &Run,
    desired: Option<&Resource>,
    resources: BTreeMap<String, Resource>,
    scopes: &Scopes<'_>,
    events: &mut Vec<Event>,
) -> Result<Plan, Failure> {
    let object = run.subject();
    let composite = Composite {
        object,
        namespace: meta::namespace(object),
        prefix: meta::label(object, keys::COMPOSITE),
    };
    let mut apply = Vec::with_capacity(resources.len());
    for (name, resource) in resources {
        let step = run.said_by.get(&name).map_or("", String::as_str);
        let item = Item { name: &name, step, observed: run.inputs.subject.observed().get(&name) };
        apply.push(item.materialise(resource, &composite, scopes, events)?);
    }
    // After names are made: two resources collide by the names that they get, not by those that they ask for.
    refuse_same_object(&apply)?;
    Ok(Plan {
        delete: unwanted(run, &apply)?,
        references: references(&composite, &apply),
        status: status_of(desired)?,
        is_ready: match Ready::try_from(desired.map_or(0, |desired| desired.ready)) {
            Ok(Ready::True) => Some(true),
            Ok(Ready::False) => Some(false),
            _ => None,
        },
        connection_details: match run.inputs.subject.composite().map(|composite| composite.layout) {
            // Crossplane v2 removed connection details from modern composite resources: functions compose the Secret
            // themselves.
            Some(Layout::Legacy) => desired.map(|desired| desired.connection_details.clone()),
            Some(Layout::Modern) | None => None,
        }
        .unwrap_or_default(),
        apply,
    })
}

/// One entry of the desired state.
struct Item<'a> {
    name: &'a str,
    step: &'a str,
    observed: Option<&'a Observed>,
}

impl Item<'_> {
    fn materialise(
        &self,
        resource: Resource,
        composite: &Composite<'_>,
        scopes: &Scopes<'_>,
        events: &mut Vec<Event>,
    ) -> Result<Wanted, Failure> {
        let is_ready = match Ready::try_from(resource.ready) {
            Ok(Ready::True) => true,
            Ok(Ready::False) => false,
            // Readiness that is not set counts as not ready, as in Crossplane; but no function knows when
            // operations are ready.
            _ => self.observed.is_some_and(|it| it.object.json().is_ok_and(operation::is_ready)),
        };
        let mut object = self.read(resource)?;
        if let Some(observed) = self.same_object(&object)? {
            // A function may change a resource, but never rename or move it: that would be another resource.
            for (field, value) in [
                ("namespace", meta::namespace(observed)),
                ("name", meta::name(observed)),
                ("generateName", meta::generate_name(observed)),
            ] {
                meta::set_field(&mut object, field, value);
            }
        }
        if composite.namespace.is_empty() {
            self.check_namespace(&object, scopes)?;
        } else {
            self.move_to_namespace(&mut object, composite, scopes, events)?;
        }
        // Before a name is generated: this sets its prefix.
        self.own(&mut object, composite)?;
        if meta::name(&object).is_empty() {
            // Derived and not random: after a crash between recording and creation, the same name is generated
            // again.
            let name = composed_name(meta::generate_name(&object), meta::uid(composite.object), self.name);
            meta::set_field(&mut object, "name", &name);
        }
        self.check_name(&object)?;
        self.refuse_own_webhooks(&object)?;
        Ok(Wanted { resource: self.name.to_owned(), step: self.step.to_owned(), object, is_ready })
    }

    fn read(&self, resource: Resource) -> Result<Object, Failure> {
        let (step, resource_name) = (self.step.to_owned(), self.name.to_owned());
        let object = resource.resource.and_then(|object| object.into_json().ok());
        let Some(object) = object else {
            return Err(Failure::NotAnObject { step, resource: resource_name });
        };
        for field in ["kind", "apiVersion"] {
            if object.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                return Err(Failure::NoType { step, resource: resource_name, field });
            }
        }
        // Templates leave `metadata` empty; anything else that is not an object is a mistake.
        if object.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
            return Err(Failure::Metadata { step, resource: resource_name });
        }
        Ok(object)
    }

    /// The observed resource of this name, if it is the same object. One of another kind is not: it will be deleted, and this one
    /// created.
    fn same_object(&self, object: &Object) -> Result<Option<&Object>, Failure> {
        let Some(observed) = self.observed else { return Ok(None) };
        let observed = observed
            .object
            .json()
            .map_err(|source| Failure::Observed { resource: self.name.to_owned(), source })?;
        Ok((group_kind(observed) == group_kind(object)).then_some(observed))
    }

    /// A namespaced resource has to have a namespace: a cluster-scoped composite resource has none to inherit.
    fn check_namespace(&self, object: &Object, scopes: &Scopes<'_>) -> Result<(), Failure> {
        let kind = meta::kind(object);
        if !meta::namespace(object).is_empty() || !scopes.is_namespaced(object) {
            return Ok(());
        }
        let (step, resource, kind) = (self.step.to_owned(), self.name.to_owned(), kind.to_owned());
        Err(Failure::NamespaceMissing { step, resource, kind })
    }

    fn move_to_namespace(
        &self,
        object: &mut Object,
        composite: &Composite<'_>,
        scopes: &Scopes<'_>,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let kind = meta::kind(object).to_owned();
        match scopes.0.get(&(meta::api_version(object), kind.as_str())) {
            Some(Ok(false)) => {
                let (step, resource) = (self.step.to_owned(), self.name.to_owned());
                return Err(Failure::ClusterScoped { step, resource, kind });
            }
            Some(Err(reason)) => {
                let (step, resource) = (self.step.to_owned(), self.name.to_owned());
                let reason = (*reason).to_owned();
                return Err(Failure::UnknownScope { step, resource, kind, reason });
            }
            // The scope of kinds that are observed in a namespace is known already.
            Some(Ok(true)) | None => {}
        }
        let namespace = meta::namespace(object);
        if !namespace.is_empty() && namespace != composite.namespace {
            events.push(Event::new(
                EventKind::Warning,
                NAMESPACE_OVERRIDDEN,
                format!(
                    "cannot create composed resource \"{}\" in namespace \"{namespace}\", using XR namespace \"{}\" \
                     instead",
                    self.name, composite.namespace
                ),
            ));
        }
        meta::set_field(object, "namespace", composite.namespace);
        Ok(())
    }

    /// Add the labels, annotations and owner of a composed resource.
    fn own(&self, object: &mut Object, composite: &Composite<'_>) -> Result<(), Failure> {
        // The label is set when a composite resource is first reconciled; without it, two composite resources could
        // generate the same names.
        if composite.prefix.is_empty() {
            return Err(Failure::NoPrefix { label: keys::COMPOSITE });
        }
        if meta::name(object).is_empty() && meta::generate_name(object).is_empty() {
            meta::set_field(object, "generateName", &format!("{}-", composite.prefix));
        }
        meta::set_annotation(object, keys::RESOURCE_NAME, self.name);
        meta::set_label(object, keys::COMPOSITE, composite.prefix);
        let claim =
            [keys::CLAIM_NAME, keys::CLAIM_NAMESPACE].map(|key| (key, meta::label(composite.object, key)));
        // Both or none: no selector finds half of a claim.
        if claim.iter().all(|(_, value)| !value.is_empty()) {
            for (key, value) in claim {
                meta::set_label(object, key, value);
            }
        }
        // A function may copy an observed object with its owners. An object of another controller must not be taken
        // over silently.
        if let Some(owner) = meta::controller(object)
            && owner.get("uid").and_then(Value::as_str) != Some(meta::uid(composite.object))
        {
            let name = owner.get("name").and_then(Value::as_str).unwrap_or_default();
            return Err(Failure::Controlled {
                step: self.step.to_owned(),
                resource: self.name.to_owned(),
                owner: format!("{} `{name}`", meta::kind(owner)),
            });
        }
        meta::set_controller(object, composite.object);
        Ok(())
    }

    fn check_name(&self, object: &Object) -> Result<(), Failure> {
        let (group, kind) = group_kind(object);
        if names::is_valid(meta::name(object), group, kind) {
            return Ok(());
        }
        Err(Failure::InvalidName {
            step: self.step.to_owned(),
            resource: self.name.to_owned(),
            name: meta::name(object).to_owned(),
        })
    }

    /// Server-side apply would merge the resource into the object of the control plane, and the next request would show functions the secret
    /// in it.
    fn refuse_own_webhooks(&self, object: &Object) -> Result<(), Failure> {
        if !is_own_webhook_configuration(object) {
            return Ok(());
        }
        Err(Failure::OfControlPlane {
            step: self.step.to_owned(),
            resource: self.name.to_owned(),
            object: format!("{} `{}`", meta::kind(object), meta::name(object)),
        })
    }
}

pub(crate) fn group_kind(object: &Object) -> (&str, &str) {
    (meta::group(meta::api_version(object)), meta::kind(object))
}

/// Two resource names for one object would overwrite each other for ever.
fn refuse_same_object(apply: &[Wanted]) -> Result<(), Failure> {
    let mut seen = BTreeMap::new();
    for wanted in apply {
        let object = &wanted.object;
        let identity = (group_kind(object), meta::namespace(object), meta::name(object));
        if let Some(first) = seen.insert(identity, &wanted.resource) {
            return Err(Failure::SameObject {
                first: first.clone(),
                second: wanted.resource.clone(),
                object: format!("{} `{}`", meta::kind(object), meta::name(object)),
            });
        }
    }
    Ok(())
}

/// Observed resources that no function desires any more, or desires as another kind. Only those that are proven to be ours: a user who
/// can edit references must not be able to have other objects deleted.
fn unwanted(run: &Run, apply: &[Wanted]) -> Result<Vec<Deletion>, Failure> {
    let wanted: BTreeSet<_> =
        apply.iter().map(|wanted| (wanted.resource.as_str(), group_kind(&wanted.object))).collect();
    let mut deletions = Vec::new();
    for (name, observed) in run.inputs.subject.observed() {
        let object =
            observed.object.json().map_err(|source| Failure::Observed { resource: name.clone(), source })?;
        let controller = meta::controller_uid(object);
        // An object read from a file may lack a uid, and two empty uids are not the same.
        let is_ours = controller == Some(meta::uid(run.subject())) && controller != Some("");
        if is_ours && !wanted.contains(&(name.as_str(), group_kind(object))) {
            deletions.push(Deletion { resource: name.clone(), object: observed.object.clone() });
        }
    }
    Ok(deletions)
}

fn references(composite: &Composite<'_>, apply: &[Wanted]) -> Vec<Reference> {
    let mut references: Vec<_> =
        apply.iter().map(|wanted| Reference::to(&wanted.object, composite.namespace.is_empty())).collect();
    // Crossplane sorts by this concatenation, and a stable order keeps the XR from being written again and
    // again.
    references.sort_by_cached_key(|reference| {
        let Reference { api_version, kind, name, namespace } = reference;
        format!("{api_version}{kind}{name}{}", namespace.as_deref().unwrap_or_default())
    });
    references
}

fn status_of(desired: Option<&Resource>) -> Result<Option<Object>, Failure> {
    let object = desired.and_then(|desired| desired.resource.as_ref());
    match object.and_then(|object| object.json().ok()?.get("status")) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(status)) => Ok(Some(status.clone())),
        Some(_) => Err(Failure::Status),
    }
}
