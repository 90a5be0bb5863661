//! One thing to render, as both engines are told it.

use std::fmt;

use ferroplane_wire::Struct;
use ferroplane_wire::render::render_request::Input;
use ferroplane_wire::render::{CompositeInput, FunctionInput, RenderRequest};
use serde_json::Value;

/// A render request as JSON, so that it can be changed, shrunk and shown. `functions` are only names: the
/// address is known when the server runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case(pub(crate) Value);

impl Case {
    pub(crate) fn xr(&self) -> &Value {
        &self.0["compositeResource"]
    }

    /// The inputs of the steps, in order.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Value> {
        list(&self.0["composition"]["spec"]["pipeline"]).iter().map(|step| &step["input"])
    }

    pub(crate) fn observed(&self) -> &[Value] {
        list(&self.0["observedResources"])
    }

    /// As it goes over the wire, with every function served at this address. Nothing if it is not a request.
    pub(crate) fn to_request(&self, address: &str) -> Option<RenderRequest> {
        let functions = list(&self.0["functions"]).iter().map(|name| FunctionInput {
            name: name.as_str().unwrap_or_default().to_owned(),
            address: address.to_owned(),
        });
        let input = CompositeInput {
            composite_resource: Some(object(self.xr())?),
            composition: Some(object(&self.0["composition"])?),
            functions: functions.collect(),
            observed_resources: self.objects("observedResources")?,
            required_resources: self.objects("requiredResources")?,
            credentials: self.objects("credentials")?,
            required_schemas: self.objects("requiredSchemas")?,
            composite_resource_definition: object(&self.0["compositeResourceDefinition"]),
        };
        Some(RenderRequest { meta: None, input: Some(Input::Composite(input)) })
    }

    fn objects(&self, field: &str) -> Option<Vec<Struct>> {
        list(&self.0[field]).iter().map(object).collect()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// The items of a list. What is no list has none.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn object(value: &Value) -> Option<Struct> {
    Struct::try_from(value.as_object()?.clone()).ok()
}
