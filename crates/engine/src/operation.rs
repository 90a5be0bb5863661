//! Decides what operations do: pipelines that run to completion once, on a schedule, or when something changes.
//!
//! The pipeline itself is the same conversation as that of a composite resource; what comes before and after it is here.

mod attempt;
mod cron;
mod history;
mod limits;
mod plan;
#[cfg(test)]
mod random;
mod readiness;
mod removals;
mod template;
#[cfg(test)]
mod tests;
mod watch;

pub use attempt::{
    ActionSetResult, AppliedActionSet, Attempt, AttemptEnding, AttemptFailure, Awaited, Begin, Concluded,
    Standing, action_set_result, applied_action_sets, applying, await_action_sets, begin, check_results,
    conclude, has_begun, is_action_set, is_concluded, other_action_sets, restarted, standing, started,
    succeeded_at, unrecorded,
};
pub use cron::{
    ConcurrencyPolicy, CronCheck, CronDecision, CronSpec, CronTime, check_cron, cron_may_forget,
    cron_operation_name, decide_cron, has_future_time, last_time, last_time_to_record,
};
pub use ferroplane_golang::cron::InvalidSchedule;
pub use history::{HistoryLimits, too_many};
pub use limits::attempt_limit;
pub(crate) use plan::plan;
pub(crate) use readiness::is_ready;
pub use removals::{due_removals, take_removals};
pub use template::{CRON_LABEL, WATCH_LABEL, operation_of_cron, operation_of_watch, operation_parent};
pub use watch::{
    DELETED, FieldPath, InvalidFieldPath, LOOP_LIMIT, MARK_BOUND, Mark, Selection, Sighting, Trigger,
    TriggerNote, WATCHED_RESOURCE, WatchDecision, WatchSpec, WatchState, annotate_watched, deleted_object,
    deleted_object_of, digests_of_data, longer_watch_operation_name, require_watched, watch_operation_name,
};

/// The reason of events with results of steps.
pub(crate) const RUN_STEP: &str = "RunPipelineStep";
