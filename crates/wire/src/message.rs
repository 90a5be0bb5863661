//! What the plane says of itself in every request, and what it accepts as an answer.

use crate::codec::StructError;
use crate::v1::{Capability, Resource, RunFunctionResponse};

/// What this build of the plane understands, in the order of their numbers.
pub fn capabilities() -> Vec<i32> {
    [
        Capability::Capabilities,
        Capability::RequiredResources,
        Capability::Credentials,
        Capability::Conditions,
        Capability::RequiredSchemas,
    ]
    .map(i32::from)
    .to_vec()
}

/// A response that cannot be used, and the field that is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` of the response is not a JSON object")]
pub struct BadResponse {
    field: String,
    #[source]
    source: StructError,
}

/// Whether every object in the response is one. Nothing that fails this may reach the next function, or the
/// next function would be blamed for it.
pub fn check(response: &RunFunctionResponse) -> Result<(), BadResponse> {
    let blame = |field: &dyn Fn() -> String| {
        let field = field();
        move |source| BadResponse { field, source }
    };
    if let Some(desired) = &response.desired {
        if let Some(composite) = desired.composite() {
            check_resource(composite).map_err(blame(&|| "desired.composite".to_owned()))?;
        }
        for (name, resource) in desired.resources() {
            check_resource(resource).map_err(blame(&|| format!("desired.resources[{name:?}]")))?;
        }
    }
    for (field, object) in [("context", &response.context), ("output", &response.output)] {
        if let Some(object) = object {
            object.check().map_err(blame(&|| field.to_owned()))?;
        }
    }
    Ok(())
}

fn check_resource(resource: &Resource) -> Result<(), StructError> {
    resource.resource.as_ref().map_or(Ok(()), crate::Struct::check)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;

    use super::*;
    use crate::{State, Struct};

    #[test]
    fn blames_the_field_that_is_no_object() {
        let garbage =
            Resource { resource: Some(Struct::from(Bytes::from_static(b"\x0a\xff"))), ..Resource::default() };
        let desired = State::new(None, BTreeMap::from([("bucket".to_owned(), garbage)]));
        let error = check(&RunFunctionResponse { desired: Some(desired), ..Default::default() }).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"field `desired.resources["bucket"]` of the response is not a JSON object"#
        );
    }
}
