//! The options of requests: what may be asked, and what is said of what may not.

mod delete;
mod list;
mod write;

pub(crate) use delete::{DeleteOptions, Propagation};
pub(crate) use list::{Continue, ListOptions, ResourceVersion};
pub(crate) use write::{WriteKind, WriteOptions};

use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::status::{Resource, Status};

use crate::request::Query;

/// What says no to options of a kind.
fn invalid(kind: &str, errors: &[Error]) -> Status {
    Status::invalid(&Resource::new("meta.k8s.io", kind), "", errors)
}

/// Whether nothing shall be stored. The only value is `All`.
fn dry_run<'q>(values: impl Iterator<Item = &'q str>, errors: &mut Vec<Error>) -> bool {
    let values: Vec<_> = values.collect();
    if values.iter().any(|value| *value != "All") {
        errors.push(Error::not_supported(&Path::new("dryRun"), serde_json::json!(values), ["All"]));
    }
    !values.is_empty()
}

/// A parameter that must be a number, if it is there.
fn number(query: &Query, name: &str) -> Result<Option<i64>, Status> {
    match query.get(name) {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            let quoted = text.replace('"', "\\\"");
            Status::bad_request(&format!("strconv.ParseInt: parsing \"{quoted}\": invalid syntax"))
        }),
    }
}
