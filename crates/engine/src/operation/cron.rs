//! When a `CronOperation` makes an operation, and which.
//!
//! # Invariants
//! * One operation for each time at which the schedule holds, however often it is looked at: its name is made of that time.
//! * Times that were missed are made up for once, by the latest of them, and only within the deadline. A deadline that was missed
//!   never holds up the times after it.
//! * A cache that is behind leads to no operation that the API server knows to be made already, or to be kept waiting: whoever is about to
//!   make one reads the `CronOperation` and asks [`check_cron`].

#[cfg(test)]
mod model;

use ferroplane_api::{Object, keys, meta};
use ferroplane_golang::cron::{InvalidSchedule, Schedule};
use ferroplane_golang::time::rfc3339;
use serde_json::Value;

use super::attempt::{Standing, standing};
use super::history::{HistoryLimits, created_at};
use super::watch::deadline;

/// What happens to a new operation while an older one of the same parent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConcurrencyPolicy {
    /// Both run.
    #[default]
    Allow,
    /// The new one waits.
    Forbid,
    /// The older one is deleted.
    Replace,
}

impl ConcurrencyPolicy {
    /// As it stands in a spec. What is not known was refused by the API server.
    pub fn of(spec: &Object) -> Self {
        match spec.get("concurrencyPolicy").and_then(Value::as_str) {
            Some("Forbid") => Self::Forbid,
            Some("Replace") => Self::Replace,
            _ => Self::Allow,
        }
    }
}

/// What a `CronOperation` does now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CronDecision {
    /// The time of the operation that is due, in seconds since 1970.
    pub due: Option<i64>,
    /// Operations that make room for it.
    pub replaced: Vec<String>,
    /// When to look again, in seconds since 1970. None if the schedule never holds again.
    pub look_again_at: Option<i64>,
}

/// What the spec of a `CronOperation` says.
#[derive(Debug, Clone)]
pub struct CronSpec {
    pub schedule: Result<Schedule, InvalidSchedule>,
    pub policy: ConcurrencyPolicy,
    /// How many seconds late an operation may start.
    pub deadline: Option<i64>,
    pub limits: HistoryLimits,
    pub is_suspended: bool,
}

impl CronSpec {
    pub fn of(cron: &Object) -> Self {
        let nothing = Object::new();
        let spec = cron.get("spec").and_then(Value::as_object).unwrap_or(&nothing);
        let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default();
        let is_paused = meta::annotation(cron, keys::PAUSED) == "true";
        Self {
            schedule: Schedule::parse_in(text("schedule"), text("timeZone")),
            policy: ConcurrencyPolicy::of(spec),
            deadline: deadline(spec),
            limits: HistoryLimits::of(spec),
            is_suspended: is_paused || spec.get("suspend").and_then(Value::as_bool) == Some(true),
        }
    }
}

/// Decide what a `CronOperation` does at this second. `operations` are all that it has made and that are still there.
pub fn decide_cron(
    cron: &Object,
    spec: &CronSpec,
    operations: &[Object],
    now: i64,
) -> Result<CronDecision, InvalidSchedule> {
    let schedule = spec.schedule.as_ref().map_err(Clone::clone)?;
    let look_again_at = schedule.next(now);
    if look_again_at.is_none() {
        return Err(InvalidSchedule::new("no time matches it"));
    }
    let nothing = Ok(CronDecision { look_again_at, ..CronDecision::default() });
    let Some(due) = schedule.latest(last_time(cron, operations), now) else { return nothing };
    if spec.deadline.is_some_and(|deadline| due.saturating_add(deadline) < now) {
        return nothing;
    }
    let running = operations.iter().filter(|operation| standing(operation) == Standing::Running);
    let running: Vec<_> = running.map(|operation| meta::name(operation).to_owned()).collect();
    match spec.policy {
        // It is looked at again when the one that runs is done.
        ConcurrencyPolicy::Forbid if !running.is_empty() => nothing,
        ConcurrencyPolicy::Replace => Ok(CronDecision { due: Some(due), replaced: running, look_again_at }),
        ConcurrencyPolicy::Allow | ConcurrencyPolicy::Forbid => {
            Ok(CronDecision { due: Some(due), look_again_at, ..CronDecision::default() })
        }
    }
}

/// What the API server says of a decision that was made by a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CronCheck {
    /// It holds.
    Current,
    /// The operation was made already. It may be gone by now.
    AlreadyMade,
    /// It holds unless one of these operations, which the cache does not have, still exists.
    UnlessThereIs(Vec<String>),
}

/// Compare a decision with the `CronOperation` as the API server has it now. `known` are the operations that the decision was made with.
pub fn check_cron(live: &Object, policy: ConcurrencyPolicy, known: &[Object], due: i64) -> CronCheck {
    if written_time(live).is_some_and(|written| due <= written) {
        return CronCheck::AlreadyMade;
    }
    if policy == ConcurrencyPolicy::Allow {
        return CronCheck::Current;
    }
    let running = live.get("status").and_then(|status| status.get("runningOperationRefs")?.as_array());
    let running = running.into_iter().flatten().filter_map(|reference| reference["name"].as_str());
    let is_unknown = |name: &&str| !known.iter().any(|operation| meta::name(operation) == *name);
    let unknown: Vec<_> = running.filter(is_unknown).map(str::to_owned).collect();
    if unknown.is_empty() { CronCheck::Current } else { CronCheck::UnlessThereIs(unknown) }
}

/// The name of the operation that is due at a time.
pub fn cron_operation_name(cron: &str, due: i64) -> String {
    format!("{cron}-{due}")
}

/// Whether an operation can be deleted without being made again: the status says that its time has been.
pub fn cron_may_forget(cron: &Object, operation: &Object) -> bool {
    time_of(cron, operation).is_none_or(|time| written_time(cron).is_some_and(|written| time <= written))
}

/// The time of an operation, from its name.
fn time_of(cron: &Object, operation: &Object) -> Option<i64> {
    meta::name(operation).strip_prefix(meta::name(cron))?.strip_prefix('-')?.parse().ok()
}

fn written_time(cron: &Object) -> Option<i64> {
    let status = cron.get("status").and_then(|status| status.get("lastScheduleTime")?.as_str());
    status.and_then(rfc3339::moment).map(|moment| moment.seconds)
}

/// The last time for which there is an operation, or was one, in seconds since 1970; when the `CronOperation` was created, if there is none.
pub fn last_time(cron: &Object, operations: &[Object]) -> i64 {
    // By names, not by when they were created: an API server whose clock is behind would have them created before they were due.
    let made = operations.iter().filter_map(|operation| time_of(cron, operation));
    // What was made may be gone: history limits can be zero.
    made.chain(written_time(cron)).max().unwrap_or_else(|| created_at(cron))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOURLY: &str = "0 * * * *";
    const HOUR: i64 = 3600;

    fn cron(status: &Value) -> Object {
        let cron =
            json!({"metadata": {"name": "c", "creationTimestamp": "1970-01-01T00:30:00Z"}, "status": status});
        cron.as_object().unwrap().clone()
    }

    fn operation(due: i64, succeeded: &str) -> Object {
        let operation = json!({
            "metadata": {"name": cron_operation_name("c", due)},
            "status": {"conditions": [{"type": "Succeeded", "status": succeeded, "reason": "x"}]},
        });
        operation.as_object().unwrap().clone()
    }

    fn decide(policy: &str, deadline: Option<i64>, operations: &[Object], now: i64) -> CronDecision {
        let mut cron = cron(&json!({}));
        let spec =
            json!({"schedule": HOURLY, "concurrencyPolicy": policy, "startingDeadlineSeconds": deadline});
        cron.insert("spec".to_owned(), spec);
        decide_cron(&cron, &CronSpec::of(&cron), operations, now).unwrap()
    }

    #[test]
    fn nothing_is_due_before_the_first_time_and_then_once() {
        let allow = "Allow";
        let before = decide(allow, None, &[], HOUR - 1);
        assert_eq!((before.due, before.look_again_at), (None, Some(HOUR)));
        assert_eq!(decide(allow, None, &[], HOUR).due, Some(HOUR));
        assert_eq!(decide(allow, None, &[operation(HOUR, "True")], HOUR + 5).due, None);
    }

    #[test]
    fn operation_that_history_has_lost_is_not_made_again() {
        let mut cron = cron(&json!({"lastScheduleTime": "1970-01-01T01:00:00Z"}));
        cron.insert("spec".to_owned(), json!({"schedule": HOURLY}));
        assert_eq!(decide_cron(&cron, &CronSpec::of(&cron), &[], HOUR + 5).unwrap().due, None);
    }

    #[test]
    fn missed_times_are_made_up_for_by_the_latest_within_the_deadline() {
        let now = 10 * HOUR + 60;
        assert_eq!(decide("Allow", None, &[], now).due, Some(10 * HOUR));
        assert_eq!(decide("Allow", Some(60), &[], now).due, Some(10 * HOUR));
        let late = decide("Allow", Some(59), &[], now);
        assert_eq!((late.due, late.look_again_at), (None, Some(11 * HOUR)));
        assert_eq!(decide("Allow", Some(59), &[], 11 * HOUR).due, Some(11 * HOUR));
    }

    #[test]
    fn spec_is_read_as_it_ships_and_as_the_design_writes_it() {
        let spec = |spec: serde_json::Value| {
            let mut cron = cron(&json!({}));
            cron.insert("spec".to_owned(), spec);
            CronSpec::of(&cron)
        };
        let design = spec(
            json!({"schedule": "@daily", "startDeadline": "10m", "failedHistoryLimit": 0, "suspend": true}),
        );
        assert_eq!((design.deadline, design.is_suspended), (Some(600), true));
        assert_eq!(design.limits, HistoryLimits { succeeded: 3, failed: 0 });
        let never = spec(json!({"schedule": "0 0 31 2 *"}));
        assert_eq!(
            decide_cron(&cron(&json!({})), &never, &[], 0).unwrap_err().to_string(),
            "no time matches it"
        );
        assert!(decide_cron(&cron(&json!({})), &spec(json!({"schedule": "x"})), &[], 0).is_err());
    }

    #[test]
    fn policies_say_what_becomes_of_an_operation_that_runs() {
        let running = [operation(HOUR, "Unknown")];
        let now = 2 * HOUR;
        assert_eq!(decide("Allow", None, &running, now).due, Some(now));
        let forbidden = decide("Forbid", None, &running, now);
        assert_eq!((forbidden.due, forbidden.look_again_at), (None, Some(3 * HOUR)));
        let replaced = decide("Replace", None, &running, now);
        assert_eq!((replaced.due, replaced.replaced), (Some(now), vec!["c-3600".to_owned()]));
        // One that nobody has looked at yet runs, too.
        let fresh = json!({"metadata": {"name": "c-3600"}}).as_object().unwrap().clone();
        assert_eq!(decide("Forbid", None, &[fresh], now).due, None);
        // The same time twice replaces nothing.
        assert_eq!(
            decide("Replace", None, &running, HOUR + 1),
            CronDecision { look_again_at: Some(now), ..CronDecision::default() }
        );
    }
}
