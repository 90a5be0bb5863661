//! Decides when a `CronOperation` creates an operation, and which.
//!
//! # Invariants
//! * There is one operation for each scheduled time, however often the schedule is checked: its name contains that time.
//! * Of the times that were missed, only the latest gets an operation, and only within the deadline. A missed deadline never delays later times.
//! * How often the schedule is checked, and when, never moves a time: those of `@every` are counted from the last one.
//! * A clock that was far ahead once does not stop the schedule for ever: the caller says when times beyond `MOST_AHEAD` are ignored. Until
//!   then this clock may be the wrong one, and nothing is created: a clock that is behind repeats nothing.
//! * A stale cache does not lead to an operation that the API server has already, or that has to wait: before it creates one, the
//!   controller reads the `CronOperation` and calls [`check_cron`].

#[cfg(test)]
mod model;

use ferroplane_api::{Object, keys, meta};
use ferroplane_golang::cron::{InvalidSchedule, Schedule};
use ferroplane_golang::time::rfc3339;
use serde_json::Value;

use super::attempt::{Standing, standing};
use super::history::{HistoryLimits, created_at};
use super::watch::deadline;

/// How many seconds a recorded time may be in the future. The clocks of replicas differ by less. Either a later time was recorded by a clock
/// that was wrong, and if it counted, nothing would be due until it is reached; or the clock that reads it is wrong.
const MOST_AHEAD: i64 = 3600;
/// After how many seconds a schedule is decided again that has such a time.
const DOUBT_PAUSE: i64 = 60;

/// The time at which a schedule is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CronTime {
    /// In seconds since 1970.
    pub now: i64,
    /// Whether recorded times that are too far in the future are ignored. Only if they were in the future for long: the clock of a machine
    /// may be behind until a time server has corrected it.
    pub may_ignore: bool,
}

impl CronTime {
    fn is_far_ahead(self, time: i64) -> bool {
        time > self.now.saturating_add(MOST_AHEAD)
    }

    /// Whether a recorded time is not ignored.
    fn counts(self, time: i64) -> bool {
        !self.may_ignore || !self.is_far_ahead(time)
    }
}

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
    /// The policy in a spec. The API server has refused unknown ones.
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
    /// The latest time, if it gets no operation because its deadline is over.
    pub missed: Option<i64>,
    /// Operations to delete in its favour.
    pub replaced: Vec<String>,
    /// When to decide again, in seconds since 1970. None if the schedule has no further time.
    pub requeue_at: Option<i64>,
    /// The last time in the status, if it is ignored because it is too far in the future.
    pub ignored: Option<i64>,
}

/// The spec of a `CronOperation`.
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

/// Decide what a `CronOperation` does at this time. `operations` are all of its operations that still exist.
pub fn decide_cron(
    cron: &Object,
    spec: &CronSpec,
    operations: &[Object],
    time: CronTime,
) -> Result<CronDecision, InvalidSchedule> {
    let now = time.now;
    let schedule = spec.schedule.as_ref().map_err(Clone::clone)?;
    let last = last_time_at(cron, operations, time);
    let requeue_at = schedule.next_from(last, now);
    if requeue_at.is_none() {
        return Err(InvalidSchedule::new("no time matches it"));
    }
    if time.is_far_ahead(last) {
        let requeue_at = Some(now.saturating_add(DOUBT_PAUSE));
        return Ok(CronDecision { requeue_at, ..CronDecision::default() });
    }
    let ignored = recorded_time(cron).filter(|written| !time.counts(*written));
    let nothing = CronDecision { requeue_at, ignored, ..CronDecision::default() };
    let Some(due) = schedule.latest(last, now) else { return Ok(nothing) };
    if spec.deadline.is_some_and(|deadline| due.saturating_add(deadline) < now) {
        return Ok(CronDecision { missed: Some(due), ..nothing });
    }
    let running = operations.iter().filter(|operation| standing(operation) == Standing::Running);
    let running: Vec<_> = running.map(|operation| meta::name(operation).to_owned()).collect();
    match spec.policy {
        // It is decided again when the running one has ended.
        ConcurrencyPolicy::Forbid if !running.is_empty() => Ok(nothing),
        ConcurrencyPolicy::Replace => Ok(CronDecision { due: Some(due), replaced: running, ..nothing }),
        ConcurrencyPolicy::Allow | ConcurrencyPolicy::Forbid => {
            Ok(CronDecision { due: Some(due), ..nothing })
        }
    }
}

/// Whether a decision that was made from a cache is still valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CronCheck {
    /// It is valid.
    Current,
    /// The operation was created already. It may have been deleted since.
    AlreadyMade,
    /// It is valid unless one of these operations, which the cache does not have, still exists.
    UnlessThereIs(Vec<String>),
}

/// Compare a decision with the `CronOperation` on the API server. `known` are the operations that the decision was made with, at this time.
pub fn check_cron(
    live: &Object,
    policy: ConcurrencyPolicy,
    known: &[Object],
    due: i64,
    time: CronTime,
) -> CronCheck {
    if written_time(live, time).is_some_and(|written| due <= written) {
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

/// The name of the operation for a scheduled time.
pub fn cron_operation_name(cron: &str, due: i64) -> String {
    format!("{cron}-{due}")
}

/// Whether an operation can be deleted without being created again: the status has its time, or its time is ignored anyway.
pub fn cron_may_forget(cron: &Object, operation: &Object, time: CronTime) -> bool {
    let Some(made) = time_of(cron, operation) else { return true };
    !time.counts(made) || written_time(cron, time).is_some_and(|written| made <= written)
}

/// The time of an operation, from its name.
fn time_of(cron: &Object, operation: &Object) -> Option<i64> {
    meta::name(operation).strip_prefix(meta::name(cron))?.strip_prefix('-')?.parse().ok()
}

/// The last time in the status, unless it is ignored.
fn written_time(cron: &Object, time: CronTime) -> Option<i64> {
    recorded_time(cron).filter(|written| time.counts(*written))
}

fn recorded_time(cron: &Object) -> Option<i64> {
    let status = cron.get("status").and_then(|status| status.get("lastScheduleTime")?.as_str());
    status.and_then(rfc3339::moment).map(|moment| moment.seconds)
}

/// Whether a `CronOperation` has a recorded time that is so far in the future that either the clock that recorded it was wrong, or this one
/// is.
pub fn has_future_time(cron: &Object, operations: &[Object], now: i64) -> bool {
    let time = CronTime { now, may_ignore: false };
    time.is_far_ahead(last_time_at(cron, operations, time))
}

/// The last time for clients that show a schedule, by a clock that is right: times too far in the future are ignored.
pub fn last_time(cron: &Object, operations: &[Object], now: i64) -> i64 {
    last_time_at(cron, operations, CronTime { now, may_ignore: true })
}

/// The last time for the status. None if it stays as it is: there is none yet, or this clock may be wrong. Otherwise a time that was ignored
/// once would be recorded again after a restart, from the name of its operation.
pub fn last_time_to_record(cron: &Object, operations: &[Object], time: CronTime) -> Option<i64> {
    let has_made = !operations.is_empty() || recorded_time(cron).is_some();
    Some(last_time_at(cron, operations, time)).filter(|last| has_made && !time.is_far_ahead(*last))
}

/// The last time that had an operation and counts, in seconds since 1970; the creation of the `CronOperation`, if there was none.
fn last_time_at(cron: &Object, operations: &[Object], time: CronTime) -> i64 {
    // By names, not by creation times: an API server whose clock is behind would have created them before they were
    // due.
    let made = operations.iter().filter_map(|operation| time_of(cron, operation));
    // Operations may have been deleted: history limits can be zero.
    let known = made.chain(recorded_time(cron)).filter(|known| time.counts(*known)).max();
    let created = Some(created_at(cron)).filter(|created| time.counts(*created));
    known.or(created).unwrap_or_default()
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

    /// A time at which nothing in the future is ignored.
    fn at(now: i64) -> CronTime {
        CronTime { now, may_ignore: false }
    }

    fn decide(policy: &str, deadline: Option<i64>, operations: &[Object], now: i64) -> CronDecision {
        let mut cron = cron(&json!({}));
        let spec =
            json!({"schedule": HOURLY, "concurrencyPolicy": policy, "startingDeadlineSeconds": deadline});
        cron.insert("spec".to_owned(), spec);
        decide_cron(&cron, &CronSpec::of(&cron), operations, at(now)).unwrap()
    }

    #[test]
    fn nothing_is_due_before_the_first_time_and_then_once() {
        let allow = "Allow";
        let before = decide(allow, None, &[], HOUR - 1);
        assert_eq!((before.due, before.requeue_at), (None, Some(HOUR)));
        assert_eq!(decide(allow, None, &[], HOUR).due, Some(HOUR));
        assert_eq!(decide(allow, None, &[operation(HOUR, "True")], HOUR + 5).due, None);
    }

    /// 2026 and 2027, checked a few seconds late each time. Clocks skip half past two once a year in Berlin and in New York, and show it twice
    /// in Berlin.
    #[test]
    fn every_time_of_years_has_one_operation_also_on_days_on_which_clocks_change() {
        const YEARS: std::ops::Range<i64> = 1_767_225_600..1_830_297_600;
        for (zone, count) in [("UTC", 730), ("Europe/Berlin", 730), ("America/New_York", 728)] {
            let mut cron = cron(&json!({}));
            meta::set_field(&mut cron, "creationTimestamp", "2026-01-01T00:00:00Z");
            cron.insert("spec".to_owned(), json!({"schedule": "30 2 * * *", "timeZone": zone}));
            let spec = CronSpec::of(&cron);
            let (mut now, mut made, mut operations) = (YEARS.start, Vec::new(), Vec::new());
            while now < YEARS.end {
                let decision = decide_cron(&cron, &spec, &operations, at(now)).unwrap();
                if let Some(due) = decision.due {
                    made.push(due);
                    operations = vec![operation(due, "True")];
                }
                now = decision.requeue_at.unwrap() + 7;
            }
            let schedule = spec.schedule.as_ref().unwrap();
            let expected = std::iter::successors(schedule.next(YEARS.start), |time| schedule.next(*time));
            let expected: Vec<_> = expected.take_while(|time| *time < YEARS.end).collect();
            assert_eq!(made, expected, "{zone}");
            assert_eq!(made.len(), count, "{zone}");
        }
    }

    fn every(delay: &str, deadline: Option<i64>) -> Object {
        let mut cron = cron(&json!({}));
        meta::set_field(&mut cron, "creationTimestamp", "1970-01-01T00:00:00Z");
        let schedule = format!("@every {delay}");
        cron.insert(
            "spec".to_owned(),
            json!({"schedule": schedule, "startingDeadlineSeconds": deadline, "concurrencyPolicy": "Forbid"}),
        );
        cron
    }

    #[test]
    fn time_after_a_delay_stays_where_it_is_whenever_it_is_decided_again() {
        let decide = |cron: &Object, operations: &[Object], now| {
            decide_cron(cron, &CronSpec::of(cron), operations, at(now)).unwrap()
        };
        // An operation of three minutes has ended.
        let ended = decide(&every("10m", Some(60)), &[operation(600, "True")], 780);
        assert_eq!((ended.due, ended.requeue_at), (None, Some(1200)));
        // The queue has woken after its longest sleep.
        let woken = decide(&every("90m", None), &[], 3600);
        assert_eq!((woken.due, woken.requeue_at), (None, Some(5400)));
        let missed = decide(&every("10m", Some(60)), &[operation(600, "True")], 1300);
        assert_eq!((missed.due, missed.requeue_at), (None, Some(1800)));
    }

    /// A day, decided only when the controller decides: when its timer fires, and when an operation ends. Every decision replaces the timer.
    #[test]
    fn no_time_after_a_delay_is_lost_if_only_timers_and_operations_wake_the_schedule() {
        const DAY: i64 = 86_400;
        const LONGEST_SLEEP: i64 = 3600;
        for (delay, seconds, takes) in
            [("10m", 600, 180), ("90m", 5400, 60), ("1m", 60, 59), ("5h", 18_000, 7200)]
        {
            let cron = every(delay, Some(30));
            let spec = CronSpec::of(&cron);
            let (mut now, mut made, mut operations) = (0, Vec::<i64>::new(), Vec::<Object>::new());
            let mut ends_at: Option<i64> = None;
            while now < DAY {
                if ends_at.take_if(|at| *at <= now).is_some() {
                    operations = vec![operation(*made.last().unwrap(), "True")];
                }
                let decision = decide_cron(&cron, &spec, &operations, at(now)).unwrap();
                if let Some(due) = decision.due {
                    made.push(due);
                    operations = vec![operation(due, "Unknown")];
                    ends_at = Some(now + takes);
                }
                let timer = decision.requeue_at.unwrap().min(now + LONGEST_SLEEP);
                now = ends_at.map_or(timer, |at| timer.min(at));
            }
            let expected: Vec<_> =
                (1..=DAY).map(|count| count * seconds).take_while(|time| *time < DAY).collect();
            assert_eq!(made, expected, "{delay}");
        }
    }

    #[test]
    fn operation_that_history_has_lost_is_not_made_again() {
        let mut cron = cron(&json!({"lastScheduleTime": "1970-01-01T01:00:00Z"}));
        cron.insert("spec".to_owned(), json!({"schedule": HOURLY}));
        assert_eq!(decide_cron(&cron, &CronSpec::of(&cron), &[], at(HOUR + 5)).unwrap().due, None);
    }

    /// An hourly schedule whose last time is the hundredth hour, with an operation for that and one for the ninth.
    fn cron_that_was_ahead() -> (Object, CronSpec, [Object; 2]) {
        let mut cron = cron(&json!({"lastScheduleTime": "1970-01-05T04:00:00Z"}));
        cron.insert("spec".to_owned(), json!({"schedule": HOURLY, "successfulHistoryLimit": 0}));
        let spec = CronSpec::of(&cron);
        (cron, spec, [operation(9 * HOUR, "True"), operation(100 * HOUR, "True")])
    }

    #[test]
    fn clock_that_was_far_ahead_once_does_not_stop_the_schedule() {
        let (now, ahead) = (10 * HOUR, 100 * HOUR);
        let (mut cron, spec, operations) = cron_that_was_ahead();
        assert!(has_future_time(&cron, &operations, now) && has_future_time(&cron, &[], now));
        let time = CronTime { now, may_ignore: true };
        let decision = decide_cron(&cron, &spec, &operations, time).unwrap();
        assert_eq!((decision.due, decision.ignored), (Some(now), Some(ahead)));
        assert_eq!(check_cron(&cron, spec.policy, &operations, now, time), CronCheck::Current);
        assert!(cron_may_forget(&cron, &operations[1], time), "its time is ignored");
        assert!(!cron_may_forget(&cron, &operations[0], time), "no status has its time");
        assert_eq!(last_time_to_record(&cron, &operations, time), Some(9 * HOUR));
        assert_eq!(last_time(&cron, &operations, now), 9 * HOUR);
        // As long as the clock is ahead, and when that time has come, it counts.
        for later in [ahead - MOST_AHEAD, ahead + 5] {
            assert!(!has_future_time(&cron, &operations, later));
            let decision = decide_cron(&cron, &spec, &operations, at(later)).unwrap();
            assert_eq!((decision.due, decision.ignored), (None, None), "{later}");
        }
        // A `CronOperation` that was created while the clock was ahead.
        meta::set_field(&mut cron, "creationTimestamp", "1970-01-05T04:00:00Z");
        cron.remove("status");
        assert!(has_future_time(&cron, &[], now));
        assert_eq!(decide_cron(&cron, &spec, &[], time).unwrap().due, Some(now));
    }

    #[test]
    fn clock_that_may_be_behind_repeats_nothing_and_forgets_nothing() {
        let now = 10 * HOUR;
        let (mut cron, spec, operations) = cron_that_was_ahead();
        let waits = CronDecision { requeue_at: Some(now + DOUBT_PAUSE), ..CronDecision::default() };
        assert_eq!(decide_cron(&cron, &spec, &operations, at(now)).unwrap(), waits);
        // The cache may be behind, too.
        assert_eq!(check_cron(&cron, spec.policy, &operations, now, at(now)), CronCheck::AlreadyMade);
        assert_eq!(last_time_to_record(&cron, &operations, at(now)), None, "it does not go back");
        cron.remove("status");
        assert!(operations.iter().all(|operation| !cron_may_forget(&cron, operation, at(now))));
        let every = every("10m", Some(60));
        assert_eq!(decide_cron(&every, &CronSpec::of(&every), &operations, at(now)).unwrap(), waits);
    }

    #[test]
    fn missed_times_are_made_up_for_by_the_latest_within_the_deadline() {
        let now = 10 * HOUR + 60;
        assert_eq!(decide("Allow", None, &[], now).due, Some(10 * HOUR));
        assert_eq!(decide("Allow", Some(60), &[], now).due, Some(10 * HOUR));
        let late = decide("Allow", Some(59), &[], now);
        assert_eq!((late.due, late.missed, late.requeue_at), (None, Some(10 * HOUR), Some(11 * HOUR)));
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
            decide_cron(&cron(&json!({})), &never, &[], at(0)).unwrap_err().to_string(),
            "no time matches it"
        );
        assert!(decide_cron(&cron(&json!({})), &spec(json!({"schedule": "x"})), &[], at(0)).is_err());
    }

    #[test]
    fn policies_say_what_becomes_of_an_operation_that_runs() {
        let running = [operation(HOUR, "Unknown")];
        let now = 2 * HOUR;
        assert_eq!(decide("Allow", None, &running, now).due, Some(now));
        let forbidden = decide("Forbid", None, &running, now);
        assert_eq!((forbidden.due, forbidden.requeue_at), (None, Some(3 * HOUR)));
        let replaced = decide("Replace", None, &running, now);
        assert_eq!((replaced.due, replaced.replaced), (Some(now), vec!["c-3600".to_owned()]));
        // An operation without a status counts as running.
        let fresh = json!({"metadata": {"name": "c-3600"}}).as_object().unwrap().clone();
        assert_eq!(decide("Forbid", None, &[fresh], now).due, None);
        // The same scheduled time replaces nothing.
        assert_eq!(
            decide("Replace", None, &running, HOUR + 1),
            CronDecision { requeue_at: Some(now), ..CronDecision::default() }
        );
    }
}
