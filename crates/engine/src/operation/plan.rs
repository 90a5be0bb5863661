//! What an operation applies: what its functions want, as they want it.

use std::collections::BTreeMap;

use ferroplane_api::{Object, meta, names};
use ferroplane_wire::v1::Resource;
use serde_json::Value;

use crate::failure::{Failure, Inapplicable};
use crate::plan::{Plan, Reference, Scopes, Wanted, group_kind};
use crate::run::Run;

pub(crate) fn plan(run: &mut Run, scopes: &Scopes<'_>) -> Result<Plan, Failure> {
    // Of an operation, functions can want nothing.
    let (_, resources) = run.take_desired().into_parts();
    let mut apply: Vec<Wanted> = Vec::with_capacity(resources.len());
    let mut seen = BTreeMap::new();
    for (resource, desired) in resources {
        let step = run.said_by.get(&resource).cloned().unwrap_or_default();
        let object = read(desired, scopes).and_then(|object| {
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

/// The object that is wanted, if it can be applied as it is: nobody adds a name or a namespace.
fn read(desired: Resource, scopes: &Scopes<'_>) -> Result<Object, Inapplicable> {
    let object = desired.resource.and_then(|object| object.into_json().ok());
    let object = object.ok_or(Inapplicable::NotAnObject)?;
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

fn identity(object: &Object) -> String {
    let (group, kind) = group_kind(object);
    let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    match meta::namespace(object) {
        "" => format!("{kind} `{}`", meta::name(object)),
        namespace => format!("{kind} `{namespace}/{}`", meta::name(object)),
    }
}
