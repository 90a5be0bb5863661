//! The object that is being reconciled, as the cause of its writes.

use ferroplane_api::{Object, meta};
use ferroplane_client::RequestCause;

/// The cause for the audit log.
pub(crate) fn cause_of_writes(object: &Object) -> RequestCause {
    let kind = (meta::api_version(object), meta::kind(object));
    let name = (meta::namespace(object), meta::name(object));
    RequestCause::new(kind, name, meta::uid(object), meta::generation(object))
}
