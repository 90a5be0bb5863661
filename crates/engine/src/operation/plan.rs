//! The objects that an operation applies: those that its functions return, unchanged.

use std::collections::BTreeMap;

use ferroplane_api::{Object, meta, names};
use ferroplane_wire::v1::Resource;
use serde_json::Value;

use super::attempt::is_action_set;
use crate::failure::{Failure, Inapplicable};
use crate::names::composed_name;
use crate::plan::{Plan, Reference, Scopes, Wanted, group_kind};
use crate::run::Run;

pub(crate) fn plan(run: &mut Run, scopes: &Scopes<'_>) -> Result<Plan, Failure> {
    // Functions cannot desire a composite resource for an operation.
    let (_, resources) = run.take_desired().into_parts();
    let mut apply: Vec<Wanted> = Vec::with_capacity(resources.len());
    let mut seen = BTreeMap::new();
    for (resource, desired) in resources {
        let step = run.said_by.get(&resource).cloned().unwrap_or_default();
        let object = read(desired, run.subject(), &resource, scopes).and_then(|object| {
            let identity = identity(&object);
            match seen.insert(identity.clone(), resource.clone()) {
                Some(other) => Err(Inapplicable::SameAs(other, identity)),
                None => Ok(object),
            }
        });
        match object {
            // Nothing waits for what an operation applies to become ready.
            Ok(object) => apply.push(Wanted { resource, step, object, is_ready: true }),
            Err(problem) => return Err(Failure::Inapplicable { step, resource, problem }),
        }
    }
    Ok(Plan {
        delete: Vec::new(),
        references: apply.iter().map(|wanted| Reference::to(&wanted.object, true)).collect(),
        apply,
        status: None,
        is_ready: None,
        connection_details: BTreeMap::new(),
    })
}

/// The object to apply, if it can be applied unchanged: no name and no namespace are added.
fn read(
    desired: Resource,
    operation: &Object,
    resource: &str,
    scopes: &Scopes<'_>,
) -> Result<Object, Inapplicable> {
    let object = desired.resource.and_then(|object| object.into_json().ok());
    let mut object = object.ok_or(Inapplicable::NotAnObject)?;
    if is_action_set(&object) {
        adopt(&mut object, operation, resource);
    }
    for field in ["apiVersion", "kind"] {
        if object.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(Inapplicable::Missing(field));
        }
    }
    if meta::name(&object).is_empty() {
        return Err(Inapplicable::Missing("metadata.name"));
    }
    let (group, kind) = group_kind(&object);
    if !names::is_valid(meta::name(&object), group, kind) {
        return Err(Inapplicable::Name(meta::name(&object).to_owned()));
    }
    if meta::namespace(&object).is_empty() && scopes.is_namespaced(&object) {
        return Err(Inapplicable::NoNamespace(kind.to_owned()));
    }
    Ok(object)
}

/// An ActionSet runs once, like the operation that creates it: each operation creates another one and owns it, so that history limits of
/// schedules cover both.
fn adopt(action_set: &mut Object, operation: &Object, resource: &str) {
    let generate_name = meta::generate_name(action_set).to_owned();
    if meta::name(action_set).is_empty() && !generate_name.is_empty() {
        let name = composed_name(&generate_name, meta::uid(operation), resource);
        let metadata = meta::child(action_set, "metadata");
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), name.into());
    }
    // An operation that is rendered from a file has no uid.
    if !meta::uid(operation).is_empty() {
        meta::set_controller(action_set, operation);
    }
}

fn identity(object: &Object) -> String {
    let (group, kind) = group_kind(object);
    let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    match meta::namespace(object) {
        "" => format!("{kind} `{}`", meta::name(object)),
        namespace => format!("{kind} `{namespace}/{}`", meta::name(object)),
    }
}
