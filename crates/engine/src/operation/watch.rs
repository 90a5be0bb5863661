//! Decides what a `WatchOperation` does: which changes were handled, and which operations to create for the others.
//!
//! Nothing here watches. The controller passes objects to a [`WatchState`], creates the operations that it returns, and reports them.

mod fields;
mod mark;
#[cfg(test)]
mod model;
mod names;
mod sighting;
mod spec;
mod state;

pub use fields::{FieldPath, InvalidFieldPath, digests_of_data};
pub use mark::{MARK_BOUND, Mark};
pub use names::{
    DELETED, WATCHED_RESOURCE, annotate_watched, deleted_object, deleted_object_of,
    longer_watch_operation_name, require_watched, watch_operation_name,
};
pub use sighting::{Sighting, TriggerNote};
pub(super) use spec::deadline;
pub use spec::{Selection, WatchSpec};
pub use state::{LOOP_LIMIT, Trigger, WatchDecision, WatchState};
