//! A composite resource is visited as it would be reconciled: select, observe, decide. What would be written is put in the planned cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::{Error, ObjectPath, Resource, Subresource};
use ferroplane_engine::changes::{ObjectName, Verdict};
use ferroplane_engine::composite::{
    Begin, Ending, Machinery, Published, Selected, begin, composite_connection_secret,
    composite_for_functions, conclude, machinery_to_record,
};
use ferroplane_engine::rollout::{compare, compare_alone};
use ferroplane_engine::wording::cannot_apply;
use ferroplane_engine::{
    Inputs, Layout, Note, Outcome, Plan, Reference, Said, Subject, Trouble, Wanted, chain, field_manager,
    managers_to_keep,
};
use ferroplane_ownership::{holds, owns};
use ferroplane_runner::drive_noting;
use ferroplane_wire::Struct;
use serde_json::{Value, json};

use super::super::apply::name_of;
use super::super::connection::{encoded, refuse_foreign, secret as connection_secret};
use super::super::controller::Controller;
use super::super::intercept::Intercepted;
use super::super::observe::{ObservedState, resource_of};
use super::super::problem::Problem;
use super::super::reconcile::Question;
use super::super::secrets;
use super::super::select::{Follows, Selection};
use super::super::settle::{identity, is_about_undeclared_field, remove_own_fields};
use super::super::trial::OnTrial;
use super::planned_cluster::{Key, merge};
use super::{Planning, Progress};
use crate::function_registry::CallableFunctions;

/// A run in place of another: what came of it, what was noted, and what it was given.
type Rerun = (Outcome, Vec<Note>, Inputs);

/// Why a visit ends before its end.
enum Stop {
    /// It would be reconciled, and fail.
    Fails(String),
    /// Nobody can say.
    Refused(String),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Conflict => Self::Refused("something changed while the plan was made".to_owned()),
            Problem::Gone => Self::Refused("it was deleted while the plan was made".to_owned()),
            Problem::Early => {
                Self::Refused("the pipeline of its revision has not been checked yet".to_owned())
            }
            Problem::Trouble(report) => {
                let message = match report.denied {
                    Some(denied) => format!("{}: {denied}", report.trouble.message),
                    None => report.trouble.message,
                };
                if is_unknowable(report.trouble.failure.cause) {
                    Self::Refused(message)
                } else {
                    Self::Fails(message)
                }
            }
        }
    }
}

/// Whether a failure says nothing about what would happen: it may be over when the change is made.
fn is_unknowable(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::FunctionUnreachable
            | Cause::FunctionNotConnectable
            | Cause::FunctionTlsFailed
            | Cause::FunctionTimeout
            | Cause::FunctionConnectionLost
            | Cause::FunctionExited
            | Cause::CompositionTimeout
            | Cause::CompositionRevisionNotValidated
            | Cause::PermissionDenied
            | Cause::ApiServerUnreachable
            | Cause::ApiServerOverloaded
            | Cause::WebhookUnreachable
    )
}

/// A composite resource that is visited.
struct Visited<'a> {
    controller: &'a Controller,
    /// As it would be. What would be written to it is merged in.
    live: Object,
    changed: Vec<Object>,
}

impl Planning {
    /// Visit a composite resource. Returns the objects that are different from now on.
    pub(super) async fn visit(&self, key: &Key, known: &mut Progress) -> Vec<Object> {
        let kind = (key.group.clone(), key.kind.clone());
        let Some(controller) = self.composites.of_kind(&kind) else { return Vec::new() };
        let path =
            ObjectPath { resource: &controller.kind.resource, namespace: &key.namespace, name: &key.name };
        let live = match self.planned.get(path).await {
            Ok(Some(live)) => live,
            // Whatever composed it has it deleted.
            Ok(None) => return Vec::new(),
            Err(error) => {
                known.verdict =
                    Some(Verdict::Refused { reason: format!("cannot read it: {}", chain(&error)) });
                return Vec::new();
            }
        };
        let skipped = match begin(&live) {
            Begin::Run => None,
            Begin::Paused => Some("it is paused"),
            Begin::Deleting => Some("it is being deleted"),
        };
        if let Some(reason) = skipped {
            known.verdict = Some(Verdict::Skipped { reason: reason.to_owned() });
            return Vec::new();
        }
        let mut visited = Visited { controller: &controller, live, changed: Vec::new() };
        known.verdict = match self.compose(&mut visited, known).await {
            Ok(()) => None,
            Err(Stop::Fails(reason)) => Some(Verdict::Fails { reason }),
            Err(Stop::Refused(reason)) => Some(Verdict::Refused { reason }),
        };
        visited.changed
    }

    /// Each line must hold before the next may happen, as in a reconcile.
    async fn compose(&self, visited: &mut Visited<'_>, known: &mut Progress) -> Result<(), Stop> {
        let controller = visited.controller;
        let Selection { result, identity, grants, .. } =
            controller.select_from(&visited.live, &self.sources.of(controller));
        known.identity = identity;
        let follows = result?;
        known.revision.clone_from(&follows.selected.revision);
        if follows.revision.is_new {
            return Err(Problem::Early.into());
        }
        let Follows { selected: followed, pipeline, trial, intercepted, callables, .. } = follows;
        let pipeline = match pipeline {
            Ok(pipeline) => pipeline,
            Err(problem) => {
                self.record(visited, &followed, None).await;
                return Err(problem.into());
            }
        };
        if let Intercepted::ForReal(intercept) = &intercepted {
            let (function, name) = (intercept.function(), &intercept.name);
            let reason = format!(
                "FunctionIntercept `{name}` sends the calls of function `{function}` to a developer's process"
            );
            return Err(Stop::Refused(reason));
        }
        let finalizer = Some(keys::COMPOSITE_FINALIZER);
        let composite = composite_for_functions(&visited.live, controller.layout, &followed, finalizer);
        let state = controller.observe(&composite, &self.planned).await?;
        let remembered = known.requirements.clone().unwrap_or_else(|| {
            let last = controller.memory.last(&name_of(&visited.live));
            last.map(|last| last.requirements.to_vec()).unwrap_or_default()
        });
        let question = Question {
            composite: &composite,
            pipeline: &pipeline,
            observed: &state.observed,
            remembered,
            grants: &grants,
        };
        let inputs = controller.inputs(question, &self.planned).await?;
        let (mut outcome, mut notes) = self.run(inputs.clone(), &callables).await;
        let mut inputs = inputs;
        let seen = (&visited.live, controller.layout);
        let mut selected = &followed;
        let refused = self.refused_trial((trial.as_ref(), &callables), seen, &inputs, &outcome).await?;
        if let Some(stable) = refused {
            (outcome, notes, inputs) = stable;
            let instead = trial.as_ref().and_then(OnTrial::instead);
            selected = instead.map_or(selected, |instead| &instead.selected);
            known.revision.clone_from(&selected.revision);
        }
        outcome.requirements.extend_from_slice(&state.secrets);
        known.requirements = Some(outcome.requirements.clone());
        let plan = match &outcome.result {
            Ok(plan) => plan,
            Err(failure) => {
                self.record(visited, selected, None).await;
                return Err(Problem::from(Trouble::of(failure)).into());
            }
        };
        self.delete_unwanted(visited, plan).await?;
        self.record(visited, selected, Some(&plan.references)).await;
        known.refused.clear();
        self.apply_wanted(visited, plan, &state, known).await?;
        let published = self.publish(visited, plan).await?;
        self.conclude(visited, &outcome, known.refused.keys().cloned().collect(), published).await?;
        if visited.changed.is_empty() {
            // Nothing changes any more. What is told is exact only if functions say the same again.
            self.compare_runs(inputs, &callables, &outcome, &notes).await?;
        }
        Ok(())
    }

    async fn run(&self, inputs: Inputs, callables: &Arc<CallableFunctions>) -> (Outcome, Vec<Note>) {
        let mut notes = Vec::new();
        let outcome = drive_noting(inputs, &callables.directory, &self.planned, Some(&mut notes)).await;
        (outcome, notes)
    }

    /// What would be carried out in place of what the candidates of rollouts decide, if these refuse that.
    async fn refused_trial(
        &self,
        (trial, callables): (Option<&OnTrial>, &Arc<CallableFunctions>),
        (live, layout): (&Object, Layout),
        inputs: &Inputs,
        outcome: &Outcome,
    ) -> Result<Option<Rerun>, Stop> {
        let Some(trial) = trial.filter(|it| it.is_compared(live, layout, outcome)) else { return Ok(None) };
        let other = match trial.other() {
            Ok(other) => other,
            Err(trouble) if trial.refuses(&compare_alone(&outcome.result)) => {
                return Err(Problem::from(trouble.clone()).into());
            }
            Err(_) => return Ok(None),
        };
        let mut inputs = Inputs { pipeline: other.clone(), ..inputs.clone() };
        if let (Some(instead), Subject::Composite(subject)) = (trial.instead(), &mut inputs.subject) {
            let Ok(object) = Struct::try_from(instead.composite(live, layout)) else { return Ok(None) };
            subject.object = object;
        }
        let (stable, notes) = self.run(inputs.clone(), callables).await;
        let is_refused = trial.refuses(&compare(&stable.result, &outcome.result));
        Ok(is_refused.then_some((stable, notes, inputs)))
    }

    /// Refuse functions that answer the same question differently.
    async fn compare_runs(
        &self,
        inputs: Inputs,
        callables: &Arc<CallableFunctions>,
        outcome: &Outcome,
        notes: &[Note],
    ) -> Result<(), Stop> {
        let (again, notes_again) = self.run(inputs, callables).await;
        let is_same = match (&outcome.result, &again.result) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        };
        if is_same {
            return Ok(());
        }
        let step = differing_step(outcome, notes, &notes_again);
        Err(Stop::Refused(format!("step `{step}` returns different results for the same request")))
    }

    /// What would no longer be wanted is gone, and what it composes with it.
    async fn delete_unwanted(&self, visited: &mut Visited<'_>, plan: &Plan) -> Result<(), Stop> {
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
            if let Some(controller) = self.composites.of_kind(&super::group_kind(&object)) {
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

    /// What was selected, and what would be referred to.
    async fn record(&self, visited: &mut Visited<'_>, selected: &Selected, references: Option<&[Reference]>) {
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

    /// The spec of a composite resource with what its schema adds to what is recorded. The server is shown an object that nobody has, as
    /// what it knows under this name is not what would be there by now.
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

    async fn apply_wanted(
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
                    // As it would be after what was put in the planned cluster before, which the server does not know of.
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

    /// What a composite resource that is composed would say of itself stays when its composer applies it anew.
    fn with_own_fields(&self, mut after: Object, before: Option<&Object>, wanted: &Object) -> Object {
        let controller = self.composites.of_kind(&super::group_kind(&after));
        let (Some(before), Some(controller)) = (before, controller) else { return after };
        let layout = controller.layout;
        for field in
            ["compositionRef", "compositionRevisionRef", "resourceRefs", "writeConnectionSecretToRef"]
        {
            let own = Machinery::of(before, layout).get(field);
            if let (None, Some(own)) = (Machinery::of(wanted, layout).get(field), own) {
                let fields = match layout {
                    Layout::Modern => json!({"spec": {"crossplane": {field: own}}}),
                    Layout::Legacy => json!({"spec": {field: own}}),
                };
                merge_json(&mut after, &fields);
            }
        }
        if let Some(status) = before.get("status") {
            after.insert("status".to_owned(), status.clone());
        }
        if let Some(finalizers) = before.get("metadata").and_then(|metadata| metadata.get("finalizers")) {
            merge_json(&mut after, &json!({"metadata": {"finalizers": finalizers}}));
        }
        after
    }

    /// What the API server would make of a composed resource, or why it would refuse it for good.
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
        composer: &ferroplane_client::ApiClient,
        resource: &Resource,
        object: &Object,
        manager: &str,
    ) -> Result<Bytes, Error> {
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        let path = ObjectPath { resource, namespace, name };
        // Read before it is put in the planned cluster, so that there is something to compare with.
        let before = self.planned.before(path).await?;
        if before.is_none() || !self.planned.is_removed(&Key::of(object)) {
            return composer.apply(path, Subresource::None, manager, object).await;
        }
        // It is deleted first, and what is made anew has nothing of it. The server still has it, and would merge the two.
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
    async fn publish(&self, visited: &mut Visited<'_>, plan: &Plan) -> Result<Published, Stop> {
        let (controller, composite) = (visited.controller, &visited.live);
        let reference = composite_connection_secret(composite, controller.layout);
        let Some(reference) = reference.filter(|reference| !reference.namespace.is_empty()) else {
            return Ok(Published::Before);
        };
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
                present.clone()
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

    /// Its status, as the API server would have it.
    async fn conclude(
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
            // What functions no longer say is removed by the server, which knows who said it.
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
            // As when it is written: a definition that Crossplane made does not have our fields.
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

/// What Crossplane wrote before it applied is taken over first, in a write of its own that cannot be tried out.
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

/// The first step that answered differently.
fn differing_step(outcome: &Outcome, notes: &[Note], again: &[Note]) -> String {
    let answers = |notes: &[Note]| -> Vec<_> {
        let answer = |note: &Note| match &note.said {
            Said::Answered(response) | Said::Recalled(response) => Some(Some(response.clone())),
            Said::Failed { .. } => Some(None),
            Said::Provided(_) => None,
        };
        notes.iter().filter_map(answer).collect()
    };
    let (one, other) = (answers(notes), answers(again));
    let first = one.iter().zip(&other).position(|(one, other)| one != other).unwrap_or_default();
    let calls = outcome.ran.iter().flat_map(|ran| {
        let calls = usize::try_from(ran.calls).unwrap_or(1);
        std::iter::repeat_n(ran.step.as_str(), calls)
    });
    calls.into_iter().nth(first).unwrap_or_default().to_owned()
}

fn merge_json(into: &mut Object, fields: &Value) {
    if let Value::Object(fields) = fields {
        merge(into, fields);
    }
}

/// Whether two versions of an object differ only in what a server keeps for itself, and in times.
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
