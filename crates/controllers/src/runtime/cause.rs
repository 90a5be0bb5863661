//! The object that is reconciled, as the cause of what is written meanwhile.

use ferroplane_api::{Object, meta};
use ferroplane_client::RequestCause;

/// What the audit log is to name as the cause.
pub(crate) fn cause_of_writes(object: &Object) -> RequestCause {
    let kind = (meta::api_version(object), meta::kind(object));
    let name = (meta::namespace(object), meta::name(object));
    RequestCause::new(kind, name, meta::uid(object), meta::generation(object))
}
