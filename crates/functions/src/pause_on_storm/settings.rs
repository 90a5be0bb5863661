//! What a step says to `function-pause-on-storm`.

use ferroplane_golang::time::duration;
use ferroplane_wire::Struct;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fleet::{ObjectSelector, invalid};
use crate::input;

/// Kubernetes' clients write at most 25 events about one object in a row, and one in five minutes after that. A loop uses them up.
const EVENTS: u64 = 20;
const WITHIN: &str = "10m";
const AT_MOST: usize = 10;

/// What counts as a storm, and what may be paused.
#[derive(Debug)]
pub(super) struct PauseOnStorm<'a> {
    pub(super) targets: ObjectSelector<'a>,
    pub(super) conditions: Vec<ConditionMatcher<'a>>,
    pub(super) events: Option<EventRate<'a>>,
    /// How many objects one run may pause.
    pub(super) at_most: usize,
}

/// A condition that reports a storm.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConditionMatcher<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: Option<&'a str>,
}

/// So many events in so short a time.
#[derive(Debug)]
pub(super) struct EventRate<'a> {
    pub(super) at_least: u64,
    pub(super) within_seconds: i64,
    /// Only these reasons count. All of them, if there are none.
    pub(super) reasons: Vec<&'a str>,
}

/// Crossplane's word, and ours, for a composite resource that changes too often.
const RESPONSIVE: ConditionMatcher<'static> =
    ConditionMatcher { kind: "Responsive", status: "False", reason: None };

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Input<'a> {
    #[serde(rename = "apiVersion")]
    _api_version: Option<&'a str>,
    #[serde(rename = "kind")]
    _kind: Option<&'a str>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    #[serde(borrow, deserialize_with = "input::object")]
    targets: Option<ObjectSelector<'a>>,
    #[serde(borrow, deserialize_with = "input::objects")]
    conditions: Option<Vec<ConditionInput<'a>>>,
    #[serde(borrow, deserialize_with = "input::object")]
    events: Option<EventsInput<'a>>,
    at_most: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ConditionInput<'a> {
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    status: Option<&'a str>,
    reason: Option<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct EventsInput<'a> {
    at_least: Option<u64>,
    within: Option<&'a str>,
    #[serde(borrow)]
    reasons: Option<Vec<&'a str>>,
}

impl<'a> PauseOnStorm<'a> {
    pub(super) fn read(input: Option<&'a Struct>) -> Result<Self, String> {
        let input: Input<'a> = input::whole(input)?;
        let targets = input.targets.ok_or_else(|| invalid("targets", "is required"))?;
        targets.check("targets")?;
        // Who says what counts means that nothing else does.
        let says_nothing = input.conditions.is_none() && input.events.is_none();
        let conditions = match input.conditions {
            Some(conditions) => {
                conditions.iter().enumerate().map(read_condition).collect::<Result<_, _>>()?
            }
            None if says_nothing => vec![RESPONSIVE],
            None => Vec::new(),
        };
        let events = input.events.or_else(|| says_nothing.then(EventsInput::default));
        let events = events.map(read_events).transpose()?;
        let at_most = match input.at_most {
            Some(0) => return Err(invalid("atMost", "has to be at least 1")),
            Some(at_most) => usize::try_from(at_most).unwrap_or(usize::MAX),
            None => AT_MOST,
        };
        Ok(Self { targets, conditions, events, at_most })
    }
}

fn read_condition<'a>(
    (index, condition): (usize, &ConditionInput<'a>),
) -> Result<ConditionMatcher<'a>, String> {
    let field = |name: &str| format!("conditions[{index}].{name}");
    let kind = condition.kind.filter(|kind| !kind.is_empty());
    let kind = kind.ok_or_else(|| invalid(&field("type"), "is required"))?;
    let status = condition.status.unwrap_or("False");
    if !["True", "False", "Unknown"].contains(&status) {
        return Err(invalid(&field("status"), "is none of True, False, Unknown"));
    }
    Ok(ConditionMatcher { kind, status, reason: condition.reason })
}

fn read_events(events: EventsInput<'_>) -> Result<EventRate<'_>, String> {
    let at_least = events.at_least.unwrap_or(EVENTS);
    if at_least < 2 {
        return Err(invalid("events.atLeast", "has to be at least 2: one event is not a storm"));
    }
    let within = duration::parse(events.within.unwrap_or(WITHIN));
    let within = within.map_err(|problem| invalid("events.within", &problem))?;
    let within_seconds = within / 1_000_000_000;
    if within_seconds < 1 {
        return Err(invalid("events.within", "has to be at least 1s"));
    }
    Ok(EventRate { at_least, within_seconds, reasons: events.reasons.unwrap_or_default() })
}
