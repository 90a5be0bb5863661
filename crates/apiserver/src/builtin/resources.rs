//! Descriptors of Kubernetes' own kinds, made of the tables of facts in `ferroplane-schema`.

use std::sync::Arc;

use ferroplane_schema::builtin::{self, KUBERNETES_VERSION, Scope};
use ferroplane_schema::selector::SelectableFields;
use ferroplane_schema::status;
use ferroplane_schema::structural::Scale;
use ferroplane_schema::table::Printer;
use ferroplane_schema::writes::Builtin;
use tokio::sync::watch;

use super::CUSTOM_RESOURCE_CLEANUP;
use crate::options::Propagation;
use crate::registry::{DeletionStrategy, Names, Origin, Part, Resource, Version, collection};
use crate::request::Verb;

const VERBS: [Verb; 8] = [
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];

/// Kinds that need nodes, or what we do not have; they would only look as if they worked.
const ABSENT: [&str; 4] = ["bindings", "componentstatuses", "apiservices", "certificatesigningrequests"];

/// All kinds that are kept.
pub(crate) fn resources() -> Vec<Resource> {
    let mut resources: Vec<Resource> = Vec::new();
    for row in builtin::resources().iter().filter(|row| is_kept(row)) {
        let Some(version) = version(row) else { continue };
        // Other versions of a resource are views of the same objects.
        let known = resources.iter_mut().find(|it| it.group == row.group && it.names.plural == row.plural);
        match known {
            Some(resource) => {
                if is_stored(row) {
                    resource.storage = resource.versions.len();
                }
                resource.versions.push(version);
            }
            None => resources.push(resource(row, version)),
        }
    }
    resources.extend(events());
    resources
}

/// Events have a second group, whose objects are those of the first in another form.
fn events() -> Option<Resource> {
    let find =
        |group: &str| builtin::resources().iter().find(|it| it.group == group && it.plural == "events");
    let (row, stored) = (find("events.k8s.io")?, find("")?);
    let mut events = resource(row, version(row)?);
    events.versions.push(Version { is_served: false, name: "stored".to_owned(), ..version(stored)? });
    events.storage = 1;
    events.collection = collection("", "events");
    Some(events)
}

fn is_kept(row: &builtin::Resource) -> bool {
    (row.verbs.contains(&"get") || is_review(row))
        && !ABSENT.contains(&row.plural)
        && row.storage.0 == row.group
}

/// Whether this is the version in which the objects are stored.
fn is_stored(row: &builtin::Resource) -> bool {
    row.storage == (row.group, row.version)
}

fn is_review(row: &builtin::Resource) -> bool {
    matches!(row.group, "authentication.k8s.io" | "authorization.k8s.io")
}

fn resource(row: &builtin::Resource, version: Version) -> Resource {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Resource {
        group: row.group.to_owned(),
        names: Names {
            plural: row.plural.to_owned(),
            singular: row.singular.to_owned(),
            kind: row.kind.to_owned(),
            list_kind: format!("{}List", row.kind),
            short: texts(&row.short_names),
            categories: texts(&row.categories),
        },
        is_namespaced: row.scope == Scope::Namespaced,
        versions: vec![version],
        storage: 0,
        collection: collection(row.group, row.plural),
        identity: status::Resource::new(row.group, row.plural),
        origin: if is_review(row) { Origin::Review } else { Origin::Builtin },
        deletion: deletion(row.group, row.plural),
        shows_deleted: shows_deleted(row.group, row.plural),
        fingerprint: KUBERNETES_VERSION.to_owned(),
        converter: None,
        end: watch::Sender::default(),
    }
}

fn deletion(group: &str, plural: &str) -> DeletionStrategy {
    let plain = DeletionStrategy::PLAIN;
    let orphaning = DeletionStrategy { default_propagation: Some(Propagation::Orphan), ..plain };
    match (group, plural) {
        // These two have to be emptied first, by controllers that look at the finalizers named here.
        ("", "namespaces") => DeletionStrategy {
            has_spec_finalizers: true,
            is_graceful: false,
            phase: Some("Terminating"),
            ..plain
        },
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            DeletionStrategy { finalizer: Some(CUSTOM_RESOURCE_CLEANUP), is_graceful: false, ..plain }
        }
        // Kubernetes keeps for compatibility what was so before it had a garbage collector.
        ("batch", "jobs") => DeletionStrategy { warning: Some(JOBS_LEAVE_PODS), ..orphaning },
        ("", "replicationcontrollers") => orphaning,
        _ => plain,
    }
}

const JOBS_LEAVE_PODS: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

fn version(row: &builtin::Resource) -> Option<Version> {
    let has = |name: &str| row.subresources.iter().any(|part| part.name == name);
    Some(Version {
        name: row.version.to_owned(),
        is_served: true,
        behaviour: Arc::new(Builtin::new(row)?),
        is_verbatim: is_stored(row),
        has_status: has("status"),
        scale: has("scale").then(|| Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: Some(".status.selector".to_owned()),
        }),
        printer: Printer::of_builtin(row.group, row.plural),
        selectable: selectable_fields(row)?,
        deprecation: None,
        verbs: VERBS.into_iter().filter(|verb| row.verbs.contains(&verb.name())).collect(),
        parts: parts(row.group, row.plural),
    })
}

/// Kinds that show what was deleted.
fn shows_deleted(group: &str, plural: &str) -> bool {
    match group {
        "" => matches!(
            plural,
            "namespaces"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "pods"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        ),
        "storage.k8s.io" => plural != "csistoragecapacities",
        _ => group == "resource.k8s.io",
    }
}

/// Subresources besides status and scale that we have.
fn parts(group: &str, plural: &str) -> &'static [Part] {
    match (group, plural) {
        ("", "namespaces") => &[Part { name: "finalize", kind: None, verbs: &[Verb::Update] }],
        ("", "serviceaccounts") => &[Part {
            name: "token",
            kind: Some(("authentication.k8s.io", "v1", "TokenRequest")),
            verbs: &[Verb::Create],
        }],
        ("", "pods") => &[
            Part { name: "binding", kind: Some(("", "v1", "Binding")), verbs: &[Verb::Create] },
            Part { name: "ephemeralcontainers", kind: None, verbs: &[Verb::Get, Verb::Patch, Verb::Update] },
            Part { name: "eviction", kind: Some(("policy", "v1", "Eviction")), verbs: &[Verb::Create] },
        ],
        _ => &[],
    }
}

fn selectable_fields(row: &builtin::Resource) -> Option<SelectableFields> {
    let fields = SelectableFields::of_builtin(selectable(row.group, row.plural).iter().copied()).ok()?;
    if (row.group, row.plural) != ("", "events") {
        return Some(fields);
    }
    // Newer events name their source elsewhere.
    fields.with("source", &[".source.component", ".reportingComponent"]).ok()
}

/// Fields besides name and namespace that objects can be selected by.
fn selectable(group: &str, plural: &str) -> &'static [&'static str] {
    match (group, plural) {
        ("", "events") => &[
            ".involvedObject.kind",
            ".involvedObject.namespace",
            ".involvedObject.name",
            ".involvedObject.uid",
            ".involvedObject.apiVersion",
            ".involvedObject.resourceVersion",
            ".involvedObject.fieldPath",
            ".reason",
            ".reportingComponent",
            ".type",
        ],
        ("events.k8s.io", "events") => &[
            ".regarding.kind",
            ".regarding.namespace",
            ".regarding.name",
            ".regarding.uid",
            ".regarding.apiVersion",
            ".regarding.resourceVersion",
            ".regarding.fieldPath",
            ".reason",
            ".reportingController",
            ".type",
        ],
        ("", "namespaces") => &[".status.phase"],
        ("", "secrets") => &[".type"],
        ("", "pods") => &[
            ".spec.nodeName",
            ".spec.restartPolicy",
            ".spec.schedulerName",
            ".spec.serviceAccountName",
            ".status.nominatedNodeName",
            ".status.phase",
            ".status.podIP",
        ],
        ("", "replicationcontrollers") => &[".status.replicas"],
        ("batch", "jobs") => &[".status.successful"],
        ("", "services") => &[".spec.clusterIP", ".spec.type"],
        _ => &[],
    }
}
