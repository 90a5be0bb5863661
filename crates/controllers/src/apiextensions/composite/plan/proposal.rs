//! The proposed objects: files, as the API server would have them if the client applied them.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{Object, TypeRef, keys, meta};
use ferroplane_client::{ApiClient, ApplyOptions, Error, ObjectPath, Resource, Subresource};
use ferroplane_engine::changes::{ObjectName, harmful_schema_change};
use ferroplane_engine::{
    Counterpart, Defaults, bind, bound_elsewhere, chain, claimed_name, conditions_to_json, defined_composite,
    defined_group, pipeline_condition, plan_revisions, validate_pipeline,
};
use serde_json::{Value, json};

use super::super::rights::may;
use super::super::{Composites, Shared};
use super::claims::is_left_alone;
use super::{PlanError, PlanRequest, group_kind};
use crate::apiextensions::revision::capabilities;
use crate::function_registry::CallableFunctions;

/// The field manager of objects from files, unless another one owns them.
const MANAGER: &str = "ferroplane/apply";
/// The field managers of files. The one that applied a file before stays the owner of its fields, so that fields that the file no longer
/// has are removed.
const MANAGERS: [&str; 3] = [MANAGER, "ferroplane/up", "kubectl"];
/// The annotation in which client-side `kubectl apply` stores what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A proposed object.
#[derive(Debug)]
pub(super) struct Proposed {
    pub(super) before: Option<Object>,
    pub(super) after: Object,
}

/// All proposed objects.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    pub(super) objects: Vec<Proposed>,
    pub(super) function_revisions: BTreeMap<String, String>,
    /// Why the composite resources of a definition cannot be planned, by definition.
    pub(super) unknowable: BTreeMap<String, String>,
}

impl Proposals {
    pub(super) async fn read(
        request: &PlanRequest,
        caller: &ApiClient,
        composites: &Composites,
    ) -> Result<Self, PlanError> {
        let mut proposals = Self::default();
        // Before anything is read with our own rights: the plan shows the results of functions.
        refuse_foreign_functions(request, caller).await?;
        proposals.function_revisions.clone_from(&request.function_revisions);
        for object in &request.objects {
            let refuse = |reason: String| PlanError::Proposal { object: ObjectName::of(object), reason };
            let proposed = propose(object, caller).await.map_err(refuse)?;
            proposals.note(&proposed, &composites.shared).map_err(refuse)?;
            let claimed = claimed_composite(&proposed.after, &composites.shared).await.map_err(refuse)?;
            for Proposed { after, .. } in claimed.iter().chain([&proposed]) {
                refuse_unfollowed(after, composites).map_err(refuse)?;
            }
            proposals.objects.push(proposed);
            proposals.objects.extend(claimed);
        }
        Ok(proposals)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.function_revisions.is_empty()
    }

    /// Record the consequences of an object.
    fn note(&mut self, proposed: &Proposed, shared: &Shared) -> Result<(), String> {
        let Proposed { before, after } = proposed;
        if is_kind(after, keys::APIEXTENSIONS, "CompositeResourceDefinition") {
            let harm = before.as_ref().and_then(|before| harmful_schema_change(before, after));
            if let Some(harm) = harm {
                let reason =
                    format!("its definition changes {harm}: apply the definition first, then plan the rest");
                self.unknowable.insert(meta::name(after).to_owned(), reason);
            }
        }
        if is_kind(after, "pkg.crossplane.io", "Function") {
            let package = |object: &Object| object.get("spec").and_then(|spec| spec.get("package")).cloned();
            // Only a change of the package changes what is called. A change of labels must not require an installed
            // revision.
            if before.as_ref().and_then(package) != package(after) {
                let revision = installed_revision(after, shared)?;
                self.function_revisions.insert(meta::name(after).to_owned(), revision);
            }
        }
        Ok(())
    }

    /// The names of the Compositions that are proposed.
    pub(super) fn changed_compositions(&self) -> BTreeSet<String> {
        let after = self.objects.iter().map(|proposed| &proposed.after);
        let compositions = after.filter(|object| is_kind(object, keys::APIEXTENSIONS, "Composition"));
        compositions.map(|composition| meta::name(composition).to_owned()).collect()
    }

    /// The Compositions that are proposed, and the revisions that they would have.
    pub(super) fn compositions(
        &self,
        shared: &Shared,
        callables: &CallableFunctions,
    ) -> Result<(Vec<Object>, Vec<Object>), PlanError> {
        let after = self.objects.iter().map(|proposed| &proposed.after);
        let compositions: Vec<_> =
            after.filter(|object| is_kind(object, keys::APIEXTENSIONS, "Composition")).cloned().collect();
        let mut planned = Vec::new();
        for composition in &compositions {
            let name = meta::name(composition);
            let mut revisions = shared.context.revisions.objects();
            revisions.retain(|revision| meta::label(revision, keys::COMPOSITION_NAME) == name);
            let revisions = plan_revisions(composition, &revisions).map_err(|error| PlanError::Proposal {
                object: ObjectName::of(composition),
                reason: error.to_string(),
            })?;
            // An older revision with the same content becomes the latest one again, as when the Composition is
            // applied.
            planned.extend(revisions.update);
            planned.extend(revisions.create.map(|revision| judged(revision, shared, callables)));
        }
        Ok((compositions, planned))
    }

    /// The defaults that proposed definitions have for compositions, by definition.
    pub(super) fn defaults(&self) -> BTreeMap<String, Defaults> {
        let after = self.objects.iter().map(|proposed| &proposed.after);
        let definitions =
            after.filter(|object| is_kind(object, keys::APIEXTENSIONS, "CompositeResourceDefinition"));
        definitions.map(|xrd| (meta::name(xrd).to_owned(), Defaults::read(xrd))).collect()
    }
}

/// Apply an object of a file like the client that applied it before: with server-side apply or, if it used client-side apply, by merging
/// the changes of the file. Only if the object has this version, if one is given. Returns it before and after.
pub async fn apply_file(
    client: &ApiClient,
    path: ObjectPath<'_>,
    object: &Object,
    version: Option<&str>,
) -> Result<(Option<Object>, Object), Error> {
    let before = client.get_object(path).await?;
    let last_applied = before.as_ref().map(|before| meta::annotation(before, LAST_APPLIED));
    let last_applied: Option<Object> =
        last_applied.filter(|text| !text.is_empty()).and_then(|text| serde_json::from_str(text).ok());
    // kubectl's client-side apply leaves this annotation. Server-side apply on top of it would let two managers own
    // every field.
    let bytes = if let (Some(_), Some(last_applied)) = (&before, last_applied) {
        let changes = at_version(three_way(&last_applied, object), version);
        client.merge(path, Subresource::None, &Value::Object(changes)).await?
    } else {
        let field_manager = before.as_ref().map_or(MANAGER, manager_of);
        // Strict, as kubectl applies: a misspelt field should be an error in the plan, not a silent loss.
        let options = ApplyOptions { field_manager, is_forced: true, is_strict: true };
        let object = at_version(object.clone(), version);
        client.apply_with(path, Subresource::None, options, &object).await?
    };
    let after = serde_json::from_slice(&bytes).map_err(Error::invalid_answer)?;
    Ok((before, after))
}

/// An object that is written only if the stored one has this version.
fn at_version(mut object: Object, version: Option<&str>) -> Object {
    if let Some(version) = version {
        meta::set_field(&mut object, "resourceVersion", version);
    }
    object
}

/// The merge patch with the changes of a file since it was applied last, and the updated annotation.
fn three_way(last_applied: &Object, object: &Object) -> Object {
    let mut patch = object.clone();
    remove_dropped(&mut patch, last_applied);
    let applied = serde_json::to_string(object).unwrap_or_default();
    // As kubectl does: otherwise its next apply would compare with a file that is older than the object.
    meta::set_annotation(&mut patch, LAST_APPLIED, &applied);
    patch
}

fn remove_dropped(patch: &mut Object, last_applied: &Object) {
    for (field, before) in last_applied {
        match (patch.get_mut(field), before) {
            (None, _) => {
                patch.insert(field.clone(), Value::Null);
            }
            // Lists are replaced as a whole, as merge patches do for custom resources.
            (Some(Value::Object(patch)), Value::Object(before)) => remove_dropped(patch, before),
            _ => {}
        }
    }
}

/// The field manager that applied an object before.
fn manager_of(object: &Object) -> &'static str {
    let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields")?.as_array());
    let has_applied = |manager: &&&str| {
        let is_its = |entry: &Value| entry["manager"] == **manager && entry["operation"] == "Apply";
        entries.into_iter().flatten().any(is_its)
    };
    // As the manager that owns the fields: under another name, fields that the file dropped would stay.
    MANAGERS.iter().find(has_applied).unwrap_or(&MANAGER)
}

/// Dry-run an object with the rights of the client.
async fn propose(object: &Object, caller: &ApiClient) -> Result<Proposed, String> {
    let (api_version, kind) = (meta::api_version(object), meta::kind(object));
    let resource = caller.resource(api_version, kind).await.map_err(|error| chain(&error))?;
    let Some(resource) = resource else {
        return Err(format!(
            "there is no kind {kind} in {api_version}: apply its XRD or CRD first, then plan"
        ));
    };
    if meta::name(object).is_empty() {
        return Err("it has no metadata.name".to_owned());
    }
    let object = in_namespace(object, &resource);
    let path =
        ObjectPath { resource: &resource, namespace: meta::namespace(&object), name: meta::name(&object) };
    let dry = caller.clone().with_dry_run();
    let (before, after) = apply_file(&dry, path, &object, None).await.map_err(|error| chain(&error))?;
    Ok(Proposed { before, after })
}

/// An object in the namespace that it would be applied in.
pub(super) fn in_namespace(object: &Object, resource: &Resource) -> Object {
    let mut object = object.clone();
    if resource.is_namespaced && meta::namespace(&object).is_empty() {
        // kubectl would take the namespace of its context, which is not known here.
        meta::set_field(&mut object, "namespace", "default");
    }
    object
}

/// The composite resource of a claim, as planned. None if it stays as it is.
async fn claimed_composite(claim: &Object, shared: &Shared) -> Result<Option<Proposed>, String> {
    let is_its = |xrd: &Object| {
        let names = xrd.get("spec").and_then(|spec| spec.get("claimNames")?.get("kind")?.as_str());
        names == Some(meta::kind(claim)) && defined_group(xrd) == meta::group(meta::api_version(claim))
    };
    if is_left_alone(claim) {
        return Ok(None);
    }
    let Some(xrd) = shared.context.definitions.objects().into_iter().find(|xrd| is_its(xrd)) else {
        return Ok(None);
    };
    let defined = defined_composite(&xrd).map_err(|error| chain(&error))?;
    let kind = TypeRef { api_version: defined.api_version.clone(), kind: defined.kind.clone() };
    let cluster = &shared.context.cluster;
    let resource = cluster.resource(&kind.api_version, &kind.kind).await.map_err(|error| chain(&error))?;
    let resource = resource.ok_or_else(|| format!("kind {} is not served yet", kind.kind))?;
    let named = claim.get("spec").and_then(|spec| spec.get("resourceRef")?.get("name")?.as_str());
    let name = named.map_or_else(|| claimed_name(claim, 0), str::to_owned);
    let path = ObjectPath { resource: &resource, namespace: "", name: &name };
    let present = cluster.get_object(path).await.map_err(|error| chain(&error))?;
    if let Some(other) = present.as_ref().and_then(|present| bound_elsewhere(claim, present)) {
        return Err(format!("its composite resource `{name}` belongs to claim `{other}`"));
    }
    let is_enforced = xrd.get("spec").and_then(|spec| spec.get("enforcedCompositionRef")).is_some();
    let other = Counterpart { kind: &kind, name: &name, present: present.as_ref(), is_enforced };
    let wanted = bind(claim, other).composite;
    let dry = cluster.clone().with_dry_run();
    let bytes = dry.apply(path, Subresource::None, keys::CLAIM_MANAGER, &wanted).await;
    let bytes = bytes.map_err(|error| chain(&error))?;
    let after = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    Ok(Some(Proposed { before: present, after }))
}

/// Refuse a composite resource that no controller reconciles: the plan would lack its composed resources.
fn refuse_unfollowed(object: &Object, composites: &Composites) -> Result<(), String> {
    if composites.of_kind(&group_kind(object)).is_some() {
        return Ok(());
    }
    let is_its = |xrd: &Object| {
        let kind = xrd.get("spec").and_then(|spec| spec.get("names")?.get("kind")?.as_str());
        kind == Some(meta::kind(object)) && defined_group(xrd) == meta::group(meta::api_version(object))
    };
    let definitions = composites.shared.context.definitions.objects();
    definitions.iter().find(|xrd| is_its(xrd)).map_or(Ok(()), |xrd| {
        let name = meta::name(xrd);
        Err(format!("CompositeResourceDefinition `{name}` is not established: wait until it is, then plan"))
    })
}

/// The revision of a Function that has the package that it names.
fn installed_revision(function: &Object, shared: &Shared) -> Result<String, String> {
    let package = function.get("spec").and_then(|spec| spec.get("package")?.as_str()).unwrap_or_default();
    let is_it = |revision: &Object| {
        let image = revision.get("spec").and_then(|spec| spec.get("image")?.as_str()).unwrap_or_default();
        meta::label(revision, keys::PACKAGE) == meta::name(function)
            // A package may be named without its registry, which the revision has filled in.
            && (image == package || image.ends_with(&format!("/{package}")))
    };
    let revisions = shared.context.function_revisions.objects();
    // Every change of a Function's spec makes a revision, so several can have the same image. Only active ones serve.
    let revision = revisions.iter().filter(|revision| is_it(revision)).max_by_key(|revision| {
        let spec = |field: &str| revision.get("spec").and_then(|spec| spec.get(field));
        let is_active = spec("desiredState").and_then(Value::as_str) == Some("Active");
        (is_active, spec("revision").and_then(Value::as_i64))
    });
    revision.map(|revision| meta::name(revision).to_owned()).ok_or_else(|| {
        format!(
            "the package {package} has no FunctionRevision yet: set `activeRevisionLimit: 2`, install it, and run \
             `ferroplane diff` again"
        )
    })
}

/// Refuse other revisions of functions to a client that may not change Functions.
async fn refuse_foreign_functions(request: &PlanRequest, caller: &ApiClient) -> Result<(), PlanError> {
    if request.function_revisions.is_empty() {
        return Ok(());
    }
    let functions = Resource {
        api_version: "pkg.crossplane.io/v1".to_owned(),
        kind: "Function".to_owned(),
        plural: "functions".to_owned(),
        is_namespaced: false,
    };
    if may(caller, "patch", &functions, "").await == Some(true) {
        return Ok(());
    }
    Err(PlanError::Functions("you may not patch functions.pkg.crossplane.io".to_owned()))
}

/// A planned revision, with the result of validating its pipeline.
fn judged(mut revision: Object, shared: &Shared, callables: &CallableFunctions) -> Object {
    let capabilities = capabilities(&shared.context, &shared.functions);
    let spec = revision.get("spec").cloned().unwrap_or_default();
    let verdict = validate_pipeline(&spec, &callables.catalogue, &capabilities);
    let condition = pipeline_condition(&verdict);
    revision.insert("status".to_owned(), json!({"conditions": conditions_to_json(&[condition])}));
    revision
}

fn is_kind(object: &Object, group: &str, kind: &str) -> bool {
    meta::group(meta::api_version(object)) == group && meta::kind(object) == kind
}
