//! The request as values, in the shape that it has on the wire. Objects are borrowed, not copied.

use std::collections::BTreeMap;

use ferroplane_cel::{Numbers, Value};
use ferroplane_wire::v1::{Resource, Resources, RunFunctionRequest};
use ferroplane_wire::{State, Struct, StructError};

use super::compiled::{Rules, SELF, Selector};

/// What rules can check. What none of them reads is not even decoded.
#[derive(Debug)]
pub(super) struct Variables<'r> {
    given: Vec<(&'static str, Value<'r>)>,
    desired: Vec<(&'r str, &'r Resource)>,
}

impl<'r> Variables<'r> {
    pub(super) fn of(request: &'r RunFunctionRequest, rules: &Rules) -> Result<Self, StructError> {
        let mut given = Vec::new();
        let mut give = |name: &'static str, make: &dyn Fn() -> Result<Value<'r>, StructError>| {
            // A variable that is not given fails only where it is used, and no rule uses it.
            if rules.use_variable(name) {
                given.push((name, make()?));
            }
            Ok(())
        };
        give("observed", &|| state(request.observed.as_ref()))?;
        give("desired", &|| state(request.desired.as_ref()))?;
        give("context", &|| object(request.context.as_ref()))?;
        give("requiredResources", &|| lists(&request.required_resources))?;
        give("extraResources", &|| lists(&request.extra_resources))?;
        let desired = request.desired.iter().flat_map(State::resources);
        let desired = desired.map(|(name, resource)| (name.as_str(), resource)).collect();
        Ok(Self { given, desired })
    }

    /// The variables, with a composed resource if the rule is about one.
    pub(super) fn with(
        &self,
        resource: Option<Value<'r>>,
    ) -> impl Iterator<Item = (&'static str, Value<'r>)> + '_ {
        let given = self.given.iter().map(|(name, value)| (*name, value.clone()));
        given.chain(resource.map(|resource| (SELF, resource)))
    }

    /// How many bytes the names of desired composed resources have together.
    pub(super) fn length_of_names(&self) -> usize {
        self.desired.iter().map(|(name, _)| name.len()).sum()
    }

    /// The desired composed resources that a rule is about. One that cannot be read has nothing in it.
    pub(super) fn matching<'s>(
        &'s self,
        selector: &'s Selector,
    ) -> impl Iterator<Item = (&'r str, Value<'r>)> + 's {
        self.desired.iter().filter_map(|(name, resource)| {
            let object = resource.resource.as_ref().and_then(|resource| resource.json().ok());
            let field =
                |field: &str| object.and_then(|object| object.get(field)?.as_str()).unwrap_or_default();
            let is_selected = selector.selects(name, field("apiVersion"), field("kind"));
            let value = object.map_or_else(
                || Value::object([]),
                // Whole numbers are integers here, as in CRD rules; the sequencer has doubles, as its
                // original has.
                |object| Value::from_json_object(object, Numbers::Integral),
            );
            is_selected.then_some((*name, value))
        })
    }
}

fn state(state: Option<&State>) -> Result<Value<'_>, StructError> {
    let Some(state) = state else { return Ok(Value::object([])) };
    let mut fields = Vec::new();
    if let Some(composite) = state.composite() {
        fields.push(("composite", resource(composite)?));
    }
    let mut resources = Vec::new();
    for (name, composed) in state.resources() {
        resources.push((name.as_str(), resource(composed)?));
    }
    fields.push(("resources", Value::object(resources)));
    Ok(Value::object(fields))
}

fn resource(resource: &Resource) -> Result<Value<'_>, StructError> {
    let details = resource.connection_details.iter();
    let details = details.map(|(name, value)| (name.as_str(), Value::bytes(value.to_vec())));
    Ok(Value::object([
        ("resource", object(resource.resource.as_ref())?),
        ("connection_details", Value::object(details)),
        ("ready", Value::text(resource.ready().as_str_name())),
    ]))
}

fn object(object: Option<&Struct>) -> Result<Value<'_>, StructError> {
    match object {
        Some(object) => Ok(Value::from_json_object(object.json()?, Numbers::Integral)),
        None => Ok(Value::object([])),
    }
}

fn lists(lists: &BTreeMap<String, Resources>) -> Result<Value<'_>, StructError> {
    let mut fields = Vec::new();
    for (name, list) in lists {
        let items = list.items.iter().map(resource).collect::<Result<_, _>>()?;
        fields.push((name.as_str(), Value::object([("items", Value::list(items))])));
    }
    Ok(Value::object(fields))
}
