//! Makes resources of definitions, and lets definitions go when all their objects are gone.

use std::sync::Arc;

use ferroplane_schema::status::Status;
use ferroplane_schema::writes::Part;
use serde_json::{Map, Value, json};
use tracing::warn;

use crate::builtin::{CUSTOM_RESOURCE_CLEANUP, CUSTOM_RESOURCE_DEFINITIONS};
use crate::clock;
use crate::options::{DeleteOptions, Propagation};
use crate::registry::{self, Catalogue, DefinitionError, Origin, Resource};
use crate::server::ServerState;
use crate::store::{Collection, Entry, Uid};
use crate::verbs::{UNBOUNDED, beside_others};

/// Works until it is stopped.
pub(super) async fn run(server: Arc<ServerState>) {
    tokio::join!(follow(&server), work(&server));
}

async fn work(server: &ServerState) {
    loop {
        let name = next(server).await;
        match reconcile(server, &name).await {
            Ok(()) => server.queues.definitions.done(&name),
            Err(status) => {
                if server.queues.definitions.retry(&name, &status.message) {
                    warn!(definition = %name, problem = status.message, "cannot reconcile the definition yet");
                }
            }
        }
    }
}

/// The next definition to check. That it has one object less matters only if it is to go.
async fn next(server: &ServerState) -> Box<str> {
    loop {
        let name = tokio::select! {
            biased;
            // Changed definitions first: clients wait for their kinds, and emptied ones can wait.
            name = server.queues.definitions.pop() => return name,
            name = server.queues.emptied.pop() => name,
        };
        server.queues.emptied.done(&name);
        let entry = server.store.get(&server.store.collection(CUSTOM_RESOURCE_DEFINITIONS).key("", &name));
        if entry.is_some_and(|entry| entry.metadata().is_terminating) {
            server.queues.definitions.push(name);
        }
    }
}

/// Notices definitions that are new, or have changed.
async fn follow(server: &ServerState) {
    let collection = server.store.collection(CUSTOM_RESOURCE_DEFINITIONS);
    loop {
        let snapshot = server.store.snapshot(&collection);
        for entry in &snapshot {
            server.queues.definitions.push(entry.key().name().into());
        }
        let Ok(mut watcher) = server.store.watch(&collection, snapshot.revision()) else { continue };
        while let Ok(events) = watcher.next().await {
            for event in events {
                server.queues.definitions.push(event.entry().key().name().into());
            }
        }
    }
}

/// Serves everything that was established before the server stopped, before the first request is answered.
pub(crate) fn serve_established(server: &ServerState) {
    let snapshot = server.store.snapshot(&server.store.collection(CUSTOM_RESOURCE_DEFINITIONS));
    let custom = |entry: &Arc<Entry>| {
        let definition: Value = serde_json::from_slice(entry.bytes()).ok()?;
        is_true(&definition, "Established").then(|| registry::custom(&definition).ok()).flatten()
    };
    let compile = || snapshot.iter().filter_map(custom).map(Arc::new).collect::<Vec<_>>();
    // Other tasks of the thread, such as health checks, need not wait for a thousand schemas.
    let resources = beside_others(UNBOUNDED, compile);
    server.registry.change(|catalogue| resources.iter().cloned().for_each(|it| catalogue.insert(it)));
}

async fn reconcile(server: &ServerState, name: &str) -> Result<(), Status> {
    let key = server.store.collection(CUSTOM_RESOURCE_DEFINITIONS).key("", name);
    let Some(entry) = server.store.get(&key) else {
        forget(server, name);
        return Ok(());
    };
    let definition: Value =
        serde_json::from_slice(entry.bytes()).map_err(|error| Status::internal(&error.to_string()))?;
    if entry.metadata().is_terminating {
        return clean_up(server, &entry, &definition).await;
    }
    establish(server, name, &definition).await
}

/// What was defined is no longer served.
fn forget(server: &ServerState, name: &str) {
    let Some((plural, group)) = name.split_once('.') else { return };
    server.registry.change(|catalogue| {
        let is_custom =
            catalogue.find(group, plural).is_some_and(|it| matches!(it.origin, Origin::Custom { .. }));
        if is_custom {
            catalogue.remove(group, plural);
        }
    });
}

/// Serves what is defined, and says so in the definition.
async fn establish(server: &ServerState, name: &str, definition: &Value) -> Result<(), Status> {
    let names = Names::of(definition);
    let problem = names.conflict(&server.registry.catalogue());
    let was_established = is_true(definition, "Established");
    if problem.is_none() || was_established {
        // First it is served, then it is said to be: who reads it can rely on it.
        if let Err(error) = serve(server, &names, definition) {
            // Nothing comes of compiling the same again; a change of the definition is noticed.
            warn!(definition = name, problem = %error, "cannot serve the definition");
            return Ok(());
        }
    }
    let status = status_after(definition, problem.as_ref());
    if definition.get("status") == Some(&status) {
        return Ok(());
    }
    let Some(resource) = server.resource_of_definitions() else { return Ok(()) };
    let patch = json!({
        "metadata": {"resourceVersion": definition["metadata"]["resourceVersion"]},
        "status": status,
    });
    match server.patch(&resource, Part::Status, "", name, &patch).await {
        // It has changed meanwhile, and will be checked again for that.
        Err(status) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

/// Serves what is defined, unless it is served as it is already: those who watch it need not begin again.
fn serve(server: &ServerState, names: &Names<'_>, definition: &Value) -> Result<(), DefinitionError> {
    // To compile a schema takes longer than to compare a fingerprint, and every change of a status comes by here.
    let fingerprint = registry::fingerprint(definition);
    if server.registry.catalogue().has_edition(names.group, names.plural, &fingerprint) {
        return Ok(());
    }
    // A schema of some kilobytes can have rules and patterns that take long to read.
    let resource = Arc::new(beside_others(UNBOUNDED, || registry::custom(definition))?);
    server.registry.change(|catalogue| catalogue.insert(Arc::clone(&resource)));
    Ok(())
}

impl ServerState {
    fn resource_of_definitions(&self) -> Option<Arc<Resource>> {
        self.find("apiextensions.k8s.io", "customresourcedefinitions")
    }
}

/// The names that a definition wants.
#[derive(Debug)]
struct Names<'d> {
    group: &'d str,
    plural: &'d str,
    singular: &'d str,
    kind: &'d str,
    list_kind: &'d str,
    short: Vec<&'d str>,
}

/// Why names cannot be obtained.
struct Conflict {
    reason: &'static str,
    message: String,
}

impl<'d> Names<'d> {
    fn of(definition: &'d Value) -> Self {
        let names = &definition["spec"]["names"];
        let text = |name: &str| names[name].as_str().unwrap_or_default();
        let short = names["shortNames"].as_array().into_iter().flatten();
        Self {
            group: definition["spec"]["group"].as_str().unwrap_or_default(),
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short: short.filter_map(Value::as_str).collect(),
        }
    }

    /// Whether another resource of the group has one of the names already. What was made of a definition of the same
    /// name was made of this one, or of one that is gone.
    fn conflict(&self, catalogue: &Catalogue) -> Option<Conflict> {
        let is_former = |other: &Resource| {
            other.names.plural == self.plural && matches!(other.origin, Origin::Custom { .. })
        };
        let others: Vec<_> = catalogue.resources(self.group).filter(|other| !is_former(other)).collect();
        let is_resource = |name: &str| {
            others.iter().any(|other| {
                let names = &other.names;
                names.plural == name || names.singular == name || names.short.iter().any(|it| it == name)
            })
        };
        let is_kind =
            |name: &str| others.iter().any(|other| other.names.kind == name || other.names.list_kind == name);
        let in_use =
            |reason, name: &str| Conflict { reason, message: format!("\"{name}\" is already in use") };
        // Of several conflicts, a server tells the last one that it comes upon.
        if is_kind(self.list_kind) {
            return Some(in_use("ListKindConflict", self.list_kind));
        }
        if is_kind(self.kind) {
            return Some(in_use("KindConflict", self.kind));
        }
        if let Some(name) = self.short.iter().find(|name| is_resource(name)) {
            return Some(in_use("ShortNamesConflict", name));
        }
        if is_resource(self.singular) {
            return Some(in_use("SingularConflict", self.singular));
        }
        if is_resource(self.plural) {
            return Some(in_use("PluralConflict", self.plural));
        }
        None
    }
}

/// The status of a definition whose names are accepted or not.
fn status_after(definition: &Value, problem: Option<&Conflict>) -> Value {
    let mut status = definition.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut set = |kind: &str, is_true: bool, reason: &str, message: &str| {
        set_condition(&mut status, kind, is_true, reason, message);
    };
    match problem {
        Some(Conflict { reason, message }) => set("NamesAccepted", false, reason, message),
        None => set("NamesAccepted", true, "NoConflicts", "no conflicts found"),
    }
    let was_established = is_true(definition, "Established");
    match problem {
        None if !was_established => {
            let words = "the initial names have been accepted";
            set("Established", true, "InitialNamesAccepted", words);
        }
        Some(_) if !was_established => set("Established", false, "NotAccepted", "not all names are accepted"),
        _ => {}
    }
    if problem.is_none() {
        status["acceptedNames"] = definition["spec"]["names"].clone();
    }
    status
}

/// Sets a condition. Its time changes only if its verdict does.
fn set_condition(status: &mut Value, kind: &str, is_true: bool, reason: &str, message: &str) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let verdict = if is_true { "True" } else { "False" };
    let old = conditions.iter_mut().find(|condition| condition["type"] == kind);
    let is_same = old.as_ref().is_some_and(|old| old["status"] == verdict);
    let time = match &old {
        Some(old) if is_same => old["lastTransitionTime"].clone(),
        _ => clock::timestamp().into(),
    };
    let new = json!({
        "type": kind,
        "status": verdict,
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    });
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

fn is_true(definition: &Value, kind: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Deletes all objects of a definition that is to go, and lets it go when none is left.
async fn clean_up(server: &ServerState, entry: &Entry, definition: &Value) -> Result<(), Status> {
    let names = Names::of(definition);
    let catalogue = server.registry.catalogue();
    let holder = catalogue.find(names.group, names.plural);
    if holder.is_some_and(|resource| !matches!(resource.origin, Origin::Custom { .. })) {
        // Its names are those of a built-in kind: it was never served, and the objects are not its own.
        return release(server, entry).await;
    }
    if is_true(definition, "Established") {
        // One that cannot be read any more can still go.
        let _ = serve(server, &names, definition);
    }
    let collection = server.store.collection(&format!("{}/{}", names.group, names.plural));
    let problem = delete_all(server, &collection).await.err();
    let left = server.store.snapshot(&collection).len();
    if left > 0 {
        let message = format!("CustomResource deletion is in progress: {left} left");
        report_progress(server, definition, &message).await?;
        return problem.map_or(Ok(()), Err);
    }
    if let Some(dependent) =
        uncollected_dependent(server, &names, definition["spec"]["scope"] == "Namespaced")
    {
        let (resource, path) = (dependent.key().collection().name(), dependent.key().path());
        let message = format!(
            "CustomResource deletion is in progress: what the objects owned is not deleted yet, such as {resource} {path}"
        );
        report_progress(server, definition, &message).await?;
        // Nothing but a deletion somewhere else tells that it is gone, and that has a failure tried again.
        return Err(Status::internal(&message));
    }
    release(server, entry).await
}

/// Deletes every object of a kind. One that cannot be deleted does not keep the others.
async fn delete_all(server: &ServerState, collection: &Collection) -> Result<(), Status> {
    let mut outcome = Ok(());
    for object in server.store.snapshot(collection).iter().filter(|object| !object.metadata().is_terminating)
    {
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        match server.delete(object, options, None).await {
            Err(status) if status.code != 404 => outcome = outcome.and(Err(status)),
            _ => {}
        }
    }
    outcome
}

/// Something that an object of a kind owned which is gone. It has to go while the kind is known: of kinds that are not,
/// owners are taken to be there.
fn uncollected_dependent(server: &ServerState, names: &Names<'_>, is_namespaced: bool) -> Option<Arc<Entry>> {
    let is_gone = |uid: &Uid| server.store.by_uid(uid).is_none();
    let is_left = |entry: &Entry| {
        let metadata = entry.metadata();
        // The namespace of a namespaced owner of a cluster-scoped object is unknown.
        let can_be_owned = !is_namespaced || !entry.key().namespace().is_empty();
        if metadata.is_terminating || !can_be_owned || !metadata.owners.iter().any(is_gone) {
            return false;
        }
        let object: Value = serde_json::from_slice(entry.bytes()).unwrap_or_default();
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|owner| {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
            text("kind") == names.kind && group == names.group && is_gone(&Uid::from(text("uid")))
        })
    };
    let mut collections = server.store.collections().into_iter();
    collections.find_map(|collection| {
        server.store.snapshot(&collection).iter().find(|entry| is_left(entry)).cloned()
    })
}

async fn report_progress(server: &ServerState, definition: &Value, message: &str) -> Result<(), Status> {
    let mut status = definition.get("status").cloned().unwrap_or_else(|| json!({}));
    set_condition(&mut status, "Terminating", true, "InstanceDeletionInProgress", message);
    if definition.get("status") == Some(&status) {
        return Ok(());
    }
    let Some(resource) = server.resource_of_definitions() else { return Ok(()) };
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    match server.patch(&resource, Part::Status, "", name, &json!({ "status": status })).await {
        Err(status) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

/// Takes away our finalizer; if there is no other, the definition goes.
async fn release(server: &ServerState, entry: &Entry) -> Result<(), Status> {
    let mut object: Map<String, Value> =
        serde_json::from_slice(entry.bytes()).map_err(|error| Status::internal(&error.to_string()))?;
    let finalizers = object.get_mut("metadata").and_then(|metadata| metadata["finalizers"].as_array_mut());
    let is_kept = finalizers.is_some_and(|finalizers| {
        finalizers.retain(|finalizer| finalizer != CUSTOM_RESOURCE_CLEANUP);
        !finalizers.is_empty()
    });
    if !super::remove_finalizer(server, entry, &object, is_kept).await? {
        server.queues.definitions.push(entry.key().name().into());
    }
    Ok(())
}
