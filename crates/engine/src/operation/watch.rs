//! What a `WatchOperation` does: which changes it has handled, and which operations it makes for those that it has not.
//!
//! Nothing here watches. [`WatchState`] is told what there is, says which operations to make, and is told when they are made.

mod fields;
mod mark;
#[cfg(test)]
mod model;
mod names;
mod sighting;
mod spec;
mod state;

pub use fields::{FieldPath, InvalidFieldPath};
pub use mark::{MARK_BOUND, Mark};
pub use names::{
    DELETED, WATCHED_RESOURCE, annotate_watched, deleted_object, deleted_object_of,
    longer_watch_operation_name, require_watched, watch_operation_name,
};
pub use sighting::{Sighting, TriggerNote};
pub(super) use spec::deadline;
pub use spec::{Selection, WatchSpec};
pub use state::{LOOP_LIMIT, Trigger, WatchDecision, WatchState};
