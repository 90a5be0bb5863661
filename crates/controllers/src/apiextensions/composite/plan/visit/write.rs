//! Puts the writes of a visit into the planned cluster, as the API server would store them. Writes nothing to the API server.

use std::collections::BTreeSet;

use bytes::Bytes;
use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Resource, Subresource};
use ferroplane_engine::changes::ObjectName;
use ferroplane_engine::composite::{
    Ending, Published, Selected, conclude, keep_machinery, machinery_to_record,
};
use ferroplane_engine::wording::cannot_apply;
use ferroplane_engine::{Outcome, Plan, Reference, Wanted, chain, field_manager, managers_to_keep};
use ferroplane_ownership::{holds, owns};
use serde_json::{Value, json};

use super::super::planned_cluster::{Key, merge};
use super::super::{Planning, Progress, group_kind};
use super::{Stop, Visited};
use crate::apiextensions::composite::apply::name_of;
use crate::apiextensions::composite::connection::{
    encoded, is_controlled_by, refuse_foreign, secret as connection_secret,
};
use crate::apiextensions::composite::controller::Controller;
use crate::apiextensions::composite::observe::{ObservedState, resource_of};
use crate::apiextensions::composite::secrets;
use crate::apiextensions::composite::settle::{identity, is_about_undeclared_field, remove_own_fields};

impl Planning {
    /// Delete composed resources that are no longer desired, and what those compose.
    pub(super) async fn delete_unwanted(&self, visited: &mut Visited<'_>, plan: &Plan) -> Result<(), Stop> {
        for deletion in &plan.delete {
            let Ok(object) = deletion.object.json() else { continue };
            self.delete(object.clone(), &mut visited.changed).await?;
        }
        Ok(())
    }

    async fn delete(&self, object: Object, changed: &mut Vec<Object>) -> Result<(), Stop> {
        let mut doomed = vec![object];
        while let Some(object) = doomed.pop() {
            self.planned.remove(Key::of(&object));
            if let Some(controller) = self.composites.of_kind(&group_kind(&object)) {
                let state = controller.observe(&object, &self.planned).await?;
                let composed =
                    state.observed.values().filter_map(|observed| observed.object.json().ok().cloned());
                let is_its = |composed: &Object| meta::controller_uid(composed) == Some(meta::uid(&object));
                doomed.extend(composed.filter(is_its));
            }
            changed.push(object);
        }
        Ok(())
    }

    /// Record the selection and the references.
    pub(super) async fn record(
        &self,
        visited: &mut Visited<'_>,
        selected: &Selected,
        references: Option<&[Reference]>,
    ) {
        let live = &visited.live;
        let is_ours = |path: &[&str]| owns(live, keys::COMPOSITE_MANAGER, "", path);
        let body = machinery_to_record(live, visited.controller.layout, selected, references, is_ours);
        let mut recorded = live.clone();
        merge(&mut recorded, &body);
        if !is_same(live, &recorded)
            && let Some(spec) = self.defaulted_spec(visited.controller, &recorded).await
        {
            recorded.insert("spec".to_owned(), spec);
        }
        self.write_self(visited, recorded);
    }

    /// The spec of a composite resource with the defaults of its schema. The API server defaults an object under an unused name, because
    /// its own object is not the planned one.
    async fn defaulted_spec(&self, controller: &Controller, composite: &Object) -> Option<Value> {
        let mut anew = identity(composite);
        let name =
            format!("{}-anew", &meta::name(composite)[..meta::name(composite).floor_char_boundary(50)]);
        meta::set_field(&mut anew, "name", &name);
        anew.insert("spec".to_owned(), composite.get("spec")?.clone());
        let path = ObjectPath {
            resource: &controller.kind.resource,
            namespace: meta::namespace(composite),
            name: &name,
        };
        let cluster = controller.shared.context.cluster.clone().with_dry_run();
        let answered = cluster.apply(path, Subresource::None, keys::COMPOSITE_MANAGER, &anew).await.ok()?;
        serde_json::from_slice::<Object>(&answered).ok()?.remove("spec")
    }

    fn write_self(&self, visited: &mut Visited<'_>, after: Object) {
        if !is_same(&visited.live, &after) {
            visited.changed.push(after.clone());
        }
        self.planned.put(after.clone());
        visited.live = after;
    }

    pub(super) async fn apply_wanted(
        &self,
        visited: &mut Visited<'_>,
        plan: &Plan,
        state: &ObservedState,
        known: &mut Progress,
    ) -> Result<(), Stop> {
        let manager = field_manager(&visited.live);
        for wanted in &plan.apply {
            let observed = state.observed.get(&wanted.resource);
            let observed = observed.and_then(|observed| observed.object.json().ok());
            let observed = observed.filter(|observed| Key::of(observed) == Key::of(&wanted.object));
            if let Some(observed) = observed {
                refuse_take_over(wanted, observed)?;
                if !self.planned.is_removed(&Key::of(observed))
                    && holds(&wanted.object, observed, &manager, "")
                {
                    continue;
                }
            }
            match self.dry_run(visited.controller, wanted, &manager).await? {
                Ok(after) => {
                    // With the changes that were planned before, which the API server does not know.
                    let before = observed.cloned();
                    if before.as_ref().is_none_or(|before| !is_same(before, &after)) {
                        visited.changed.push(after.clone());
                    }
                    self.planned.put(self.with_own_fields(after, before.as_ref(), &wanted.object));
                }
                Err(error) => {
                    let refused = (ObjectName::of(&wanted.object), chain(&error));
                    known.refused.insert(wanted.resource.clone(), refused);
                }
            }
        }
        Ok(())
    }

    /// Keep the plane's own fields of a nested composite resource when its composer applies it again.
    fn with_own_fields(&self, mut after: Object, before: Option<&Object>, wanted: &Object) -> Object {
        let controller = self.composites.of_kind(&group_kind(&after));
        let (Some(before), Some(controller)) = (before, controller) else { return after };
        keep_machinery(&mut after, controller.layout, before, wanted);
        if let Some(status) = before.get("status") {
            after.insert("status".to_owned(), status.clone());
        }
        if let Some(finalizers) = before.get("metadata").and_then(|metadata| metadata.get("finalizers")) {
            merge_json(&mut after, &json!({"metadata": {"finalizers": finalizers}}));
        }
        after
    }

    /// A composed resource as the API server would store it, or why it would refuse it.
    async fn dry_run(
        &self,
        controller: &Controller,
        wanted: &Wanted,
        manager: &str,
    ) -> Result<Result<Object, Error>, Stop> {
        let composer = controller.shared.context.composer.clone().with_dry_run();
        let what = || cannot_apply(&wanted.resource, &wanted.step);
        let found = resource_of(&composer, &wanted.object).await;
        let found = found.map_err(|error| Stop::Refused(format!("{}: {}", what(), chain(&error))))?;
        let Some(resource) = found else {
            let (kind, api_version) = (meta::kind(&wanted.object), meta::api_version(&wanted.object));
            return Err(Stop::Fails(format!("{}: there is no kind {kind} in {api_version}", what())));
        };
        match self.apply_dry(&composer, &resource, &wanted.object, manager).await {
            Ok(bytes) => {
                let after = serde_json::from_slice(&bytes).map_err(|error| {
                    Stop::Refused(format!("{}: cannot read the response of the API server: {error}", what()))
                })?;
                Ok(Ok(after))
            }
            Err(error) if error.is_invalid() => Ok(Err(error)),
            Err(error) if error.is_forbidden() => {
                let denied = controller.denied(&resource, meta::namespace(&wanted.object)).await;
                Err(Stop::Refused(format!("{}: {}", what(), denied.unwrap_or_else(|| chain(&error)))))
            }
            Err(error) if error.is_not_found() => Err(Stop::Fails(format!("{}: {}", what(), chain(&error)))),
            Err(error) => Err(Stop::Refused(format!("{}: {}", what(), chain(&error)))),
        }
    }

    async fn apply_dry(
        &self,
        composer: &ApiClient,
        resource: &Resource,
        object: &Object,
        manager: &str,
    ) -> Result<Bytes, Error> {
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        let path = ObjectPath { resource, namespace, name };
        // Read before it is put into the planned cluster, so that there is something to compare with.
        let before = self.planned.before(path).await?;
        if before.is_none() || !self.planned.is_removed(&Key::of(object)) {
            return composer.apply(path, Subresource::None, manager, object).await;
        }
        // It is deleted and created again, without any of its fields. The API server still has it, and would merge
        // the two.
        let mut renamed = object.clone();
        let other = format!("{}-anew", &name[..name.floor_char_boundary(200)]);
        meta::set_field(&mut renamed, "name", &other);
        let path = ObjectPath { resource, namespace, name: &other };
        let bytes = composer.apply(path, Subresource::None, manager, &renamed).await?;
        let mut answered: Object = serde_json::from_slice(&bytes).map_err(Error::invalid_answer)?;
        meta::set_field(&mut answered, "name", name);
        Ok(serde_json::to_vec(&answered).unwrap_or_default().into())
    }

    /// Put the connection Secret of a legacy composite resource in the planned cluster.
    pub(super) async fn publish(&self, visited: &mut Visited<'_>, plan: &Plan) -> Result<Published, Stop> {
        let (controller, composite) = (visited.controller, &visited.live);
        let Some(reference) = controller.published_secret(composite) else { return Ok(Published::Before) };
        let wanted = controller.published(&plan.connection_details);
        let path = ObjectPath {
            resource: &secrets::resource(),
            namespace: reference.namespace,
            name: reference.name,
        };
        let unreadable =
            |error: Error| Stop::Refused(format!("cannot read its connection Secret: {}", chain(&error)));
        let present = self.planned.get(path).await.map_err(unreadable)?;
        let mut after = match &present {
            Some(present) => {
                refuse_foreign(composite, present)?;
                let mut present = present.clone();
                if !is_controlled_by(&present, composite) {
                    meta::set_controller(&mut present, composite);
                }
                present
            }
            None => connection_secret(composite, reference.namespace, reference.name, &wanted),
        };
        merge_json(&mut after, &json!({"data": encoded(&wanted)}));
        if present.as_ref().is_some_and(|present| is_same(present, &after)) {
            return Ok(Published::Before);
        }
        visited.changed.push(after.clone());
        self.planned.put(after);
        Ok(Published::Now)
    }

    /// The status, as the API server would store it.
    pub(super) async fn conclude(
        &self,
        visited: &mut Visited<'_>,
        outcome: &Outcome,
        unsynced: BTreeSet<String>,
        published: Published,
    ) -> Result<(), Stop> {
        let controller = visited.controller;
        let ending = Ending::Composed { outcome, unsynced, published };
        let mut facts = controller.facts(&name_of(&visited.live), &visited.live, &ending);
        facts.now.clone_from(&self.now);
        let status = Value::Object(conclude(ending, Vec::new(), facts).status);
        let path = ObjectPath {
            resource: &controller.kind.resource,
            namespace: meta::namespace(&visited.live),
            name: meta::name(&visited.live),
        };
        let unreadable = |error: Error| Stop::Refused(format!("cannot read it: {}", chain(&error)));
        let before = self.planned.before(path).await.map_err(unreadable)?;
        let before = before.filter(|before| meta::uid(before) == meta::uid(&visited.live));
        let mut after = visited.live.clone();
        match before {
            // The API server removes fields that functions no longer return, because it knows their manager.
            Some(before) => {
                let mut body = identity(&before);
                meta::set_field(&mut body, "uid", meta::uid(&before));
                body.insert("status".to_owned(), status);
                let status = self.status(controller, path, &before, body).await?;
                after.insert("status".to_owned(), status);
            }
            None => {
                after.insert("status".to_owned(), status);
            }
        }
        self.write_self(visited, after);
        Ok(())
    }

    async fn status(
        &self,
        controller: &Controller,
        path: ObjectPath<'_>,
        before: &Object,
        mut body: Object,
    ) -> Result<Value, Stop> {
        if holds(&body, before, keys::COMPOSITE_MANAGER, "status") {
            return Ok(before.get("status").cloned().unwrap_or(Value::Null));
        }
        let cluster = controller.shared.context.cluster.clone().with_dry_run();
        let apply = |body: Object| {
            let cluster = &cluster;
            async move { cluster.apply(path, Subresource::Status, keys::COMPOSITE_MANAGER, &body).await }
        };
        let written = match apply(body.clone()).await {
            // As in a reconcile: a definition that Crossplane made does not have our fields.
            Err(error) if is_about_undeclared_field(&error) && remove_own_fields(&mut body) => {
                apply(body).await
            }
            written => written,
        };
        let fail = |error: Error| Stop::Fails(format!("cannot write the status: {}", chain(&error)));
        let written: Object = serde_json::from_slice(&written.map_err(fail)?)
            .map_err(|error| Stop::Refused(format!("cannot read the status: {error}")))?;
        Ok(written.get("status").cloned().unwrap_or(Value::Null))
    }
}

/// Refuse to plan a takeover from Crossplane's updates: it is a separate write that cannot be dry-run.
fn refuse_take_over(wanted: &Wanted, observed: &Object) -> Result<(), Stop> {
    let is_ours = |manager: &str| manager.starts_with(keys::COMPOSED_MANAGER_PREFIX);
    if managers_to_keep(observed, is_ours).is_none() {
        return Ok(());
    }
    Err(Stop::Refused(format!(
        "composed resource `{}` was written by another control plane and has not been taken over yet",
        wanted.resource
    )))
}

fn merge_json(into: &mut Object, fields: &Value) {
    if let Value::Object(fields) = fields {
        merge(into, fields);
    }
}

/// Whether two versions of an object differ only in metadata of the API server and in times.
fn is_same(one: &Object, other: &Object) -> bool {
    timeless(one) == timeless(other)
}

fn timeless(object: &Object) -> Object {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|field, value| {
            !["managedFields", "resourceVersion", "generation", "creationTimestamp"].contains(&field.as_str())
                && !value.is_null()
        });
    }
    let conditions = object.get_mut("status").and_then(|status| status.get_mut("conditions")?.as_array_mut());
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.retain(|field, _| !["lastTransitionTime", "observedGeneration"].contains(&field.as_str()));
    }
    if let Some(details) =
        object.get_mut("status").and_then(|status| status.get_mut("connectionDetails")?.as_object_mut())
    {
        details.remove("lastPublishedTime");
    }
    object
}
