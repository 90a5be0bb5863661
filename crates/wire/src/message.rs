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
pub enum BadResponse {
    #[error("field `{field}` of the response is not a JSON object")]
    NotAnObject { field: String, source: StructError },
    #[error("the response has {count} {field}: at most {MAX_ENTRIES} are accepted")]
    TooMany { field: &'static str, count: usize },
}

/// How many results, conditions and requirements one response may have. Each will be an event, an entry of the
/// status or a watch: more would be unreadable.
pub const MAX_ENTRIES: usize = 1000;

/// Whether the response can be used: every object in it is one, and it does not say too much. Nothing that
/// fails this may reach the next function, or the next function would be blamed for it.
pub fn check(response: &RunFunctionResponse) -> Result<(), BadResponse> {
    // The counts first, which cost nothing.
    check_counts(response)?;
    check_objects(response)
}

fn check_counts(response: &RunFunctionResponse) -> Result<(), BadResponse> {
    let asked = response.requirements.as_ref();
    let asked =
        asked.map_or(0, |asked| asked.resources.len() + asked.extra_resources.len() + asked.schemas.len());
    let counts = [
        ("results", response.results.len()),
        ("conditions", response.conditions.len()),
        ("requirements", asked),
    ];
    match counts.into_iter().find(|(_, count)| *count > MAX_ENTRIES) {
        Some((field, count)) => Err(BadResponse::TooMany { field, count }),
        None => Ok(()),
    }
}

fn check_objects(response: &RunFunctionResponse) -> Result<(), BadResponse> {
    let blame = |field: &dyn Fn() -> String| {
        let field = field();
        move |source| BadResponse::NotAnObject { field, source }
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
    fn response_that_says_too_much_is_refused() {
        let conditions = vec![crate::v1::Condition::default(); MAX_ENTRIES + 1];
        let response = RunFunctionResponse { conditions, ..Default::default() };
        assert_eq!(
            check(&response).unwrap_err().to_string(),
            "the response has 1001 conditions: at most 1000 are accepted"
        );
    }

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
