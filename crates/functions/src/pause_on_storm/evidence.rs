//! Whether an object is in a storm, and how one can tell.

use std::collections::BTreeMap;

use ferroplane_golang::json::integer;
use ferroplane_golang::time::duration;
use serde_json::Value;

use super::seen::{Seen, seconds};
use super::settings::{ConditionMatcher, EventRate, PauseOnStorm};
use crate::fleet::{name_of, namespace_of, text, value};
use crate::selection::JsonObject;

/// A storm that an object is in.
#[derive(Debug)]
pub(super) struct Storm {
    /// How one can tell.
    pub(super) reason: String,
    /// Storms that are worse have more. What a condition reports counts for most.
    pub(super) strength: u64,
    pub(super) seen: Seen,
}

/// The storm that an object is in. None if it is in none.
pub(super) fn of(settings: &PauseOnStorm<'_>, object: &JsonObject, events: &EventIndex<'_>) -> Option<Storm> {
    let seen = Seen::of(object);
    let told = settings.conditions.iter().find_map(|matcher| by_condition(matcher, object, seen.as_ref()));
    let many = || by_events(settings.events.as_ref()?, object, events, seen.as_ref());
    let storm = told.or_else(many)?;
    let all = settings.events.as_ref().map(|rate| total(rate, object, events)).unwrap_or_default();
    Some(Storm { seen: storm.seen.clone().later(all), ..storm })
}

fn by_condition(matcher: &ConditionMatcher<'_>, object: &JsonObject, seen: Option<&Seen>) -> Option<Storm> {
    let conditions = value(object, &["status", "conditions"])?.as_array()?;
    conditions.iter().find_map(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let is_it = text("type") == matcher.kind
            && text("status") == matcher.status
            && matcher.reason.is_none_or(|reason| text("reason") == reason);
        let since = text("lastTransitionTime");
        // Its controller has not reconciled it since a user resumed it.
        let is_old = seen.is_some_and(|seen| seconds(since).is_none_or(|since| since <= seen.until));
        let reason = match text("reason") {
            "" => format!("{} is {}", matcher.kind, matcher.status),
            reason => format!("{} is {}: {reason}", matcher.kind, matcher.status),
        };
        (is_it && !is_old).then(|| Storm { reason, strength: u64::MAX, seen: Seen::new(0, since) })
    })
}

fn by_events(
    rate: &EventRate<'_>,
    object: &JsonObject,
    events: &EventIndex<'_>,
    seen: Option<&Seen>,
) -> Option<Storm> {
    let about = events.about(object, rate);
    let latest = about.iter().map(|event| event.last).max()?;
    // What ended long before the latest event of all is over.
    if latest < events.latest.saturating_sub(rate.within_seconds) {
        return None;
    }
    let since = latest.saturating_sub(rate.within_seconds);
    let count =
        unseen(about, seen).iter().fold(0_u64, |sum, event| sum.saturating_add(event.count_since(since)));
    (count >= rate.at_least).then(|| Storm {
        reason: format!(
            "{count} events within {}",
            duration::format(rate.within_seconds.saturating_mul(1_000_000_000))
        ),
        strength: count,
        seen: Seen::default(),
    })
}

/// The events without those that had happened when the object was paused. An event that is repeated is one object with a count, so
/// that what was counted then is subtracted.
fn unseen(events: Vec<Repeated>, seen: Option<&Seen>) -> Vec<Repeated> {
    let Some(seen) = seen else { return events };
    let (known, mut new): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.first <= seen.until);
    let count =
        known.iter().fold(0_u64, |sum, event| sum.saturating_add(event.count)).saturating_sub(seen.events);
    let last = known.iter().map(|event| event.last).max().unwrap_or(seen.until);
    // One entry for all that was known: which of those events went on cannot be told from their sum.
    new.push(Repeated { first: seen.until, last: last.max(seen.until), count });
    new
}

/// All that has happened to an object.
fn total(rate: &EventRate<'_>, object: &JsonObject, events: &EventIndex<'_>) -> Seen {
    let about = events.about(object, rate);
    let count = about.iter().fold(0_u64, |sum, event| sum.saturating_add(event.count));
    Seen::new(count, events.latest_text(object))
}

/// Something that has happened several times.
#[derive(Debug, Clone, Copy)]
struct Repeated {
    first: i64,
    last: i64,
    count: u64,
}

impl Repeated {
    /// How often it has happened since a time, if it has happened at a steady rate.
    fn count_since(self, since: i64) -> u64 {
        if self.first >= since {
            return self.count;
        }
        let (part, whole) = (self.last.saturating_sub(since), self.last.saturating_sub(self.first));
        if part < 0 || whole <= 0 {
            return 0;
        }
        let share = i128::from(self.count) * i128::from(part) / i128::from(whole);
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// Events by what they are about.
#[derive(Debug, Default)]
pub(super) struct EventIndex<'r> {
    by_object: BTreeMap<(&'r str, &'r str, &'r str), Vec<&'r JsonObject>>,
    /// When the latest of them happened.
    latest: i64,
}

impl<'r> EventIndex<'r> {
    pub(super) fn of(events: &[&'r JsonObject]) -> Self {
        let mut index = Self { latest: i64::MIN, ..Self::default() };
        for event in events {
            let part = |field: &str| text(event, &["involvedObject", field]);
            index.by_object.entry((part("kind"), part("namespace"), part("name"))).or_default().push(event);
            index.latest = index.latest.max(seconds(last_time(event)).unwrap_or(i64::MIN));
        }
        index
    }

    fn raw(&self, object: &JsonObject) -> Vec<&'r JsonObject> {
        let found = self.by_object.get(&(text(object, &["kind"]), namespace_of(object), name_of(object)));
        let uid = text(object, &["metadata", "uid"]);
        // An object of the same name may have been there before.
        let is_same = |event: &&JsonObject| {
            let about = text(event, &["involvedObject", "uid"]);
            // Some controllers write events without the UID.
            about.is_empty() || uid.is_empty() || about == uid
        };
        found.into_iter().flatten().copied().filter(is_same).collect()
    }

    fn about(&self, object: &JsonObject, rate: &EventRate<'_>) -> Vec<Repeated> {
        let counts =
            |event: &&JsonObject| rate.reasons.is_empty() || rate.reasons.contains(&text(event, &["reason"]));
        self.raw(object).into_iter().filter(counts).filter_map(read).collect()
    }

    fn latest_text(&self, object: &JsonObject) -> &'r str {
        self.raw(object).into_iter().map(last_time).max_by_key(|time| seconds(time)).unwrap_or_default()
    }
}

fn read(event: &JsonObject) -> Option<Repeated> {
    let last = seconds(last_time(event))?;
    let first = [&["firstTimestamp"], &["eventTime"]].iter().find_map(|path| seconds(text(event, *path)));
    let counts = [value(event, &["series", "count"]), value(event, &["count"])];
    let count = counts.into_iter().flatten().find_map(|count| match count {
        Value::Number(number) => integer(number).and_then(|count| u64::try_from(count).ok()),
        _ => None,
    });
    Some(Repeated { first: first.unwrap_or(last).min(last), last, count: count.unwrap_or(1).max(1) })
}

/// When an event happened for the last time. Newer clients count in a series.
fn last_time(event: &JsonObject) -> &str {
    let paths: [&[&str]; 4] =
        [&["series", "lastObservedTime"], &["lastTimestamp"], &["eventTime"], &["firstTimestamp"]];
    paths.into_iter().map(|path| text(event, path)).find(|time| !time.is_empty()).unwrap_or_default()
}
