//! What a template may cost: limits that every step has, and annotations of its input that set others.
//!
//! Our own design: the original has no limits. They are annotations, because the original refuses fields that it does not know:
//! a Composition that sets a limit still works with it.

use std::time::Duration;

use ferroplane_golang::time::duration;
use ferroplane_template::{Budget, Exhausted};
use ferroplane_wire::Struct;
use serde_json::{Map, Value};

const STEPS: &str = "ferroplane.io/template-steps";
const MEMORY: &str = "ferroplane.io/template-memory";
const OUTPUT: &str = "ferroplane.io/template-output";
const TIME: &str = "ferroplane.io/template-time";

/// The most that annotations can ask for.
const CEILING: Limits = Limits {
    budget: Budget { steps: 100_000_000, memory: 1 << 30, output: 64 << 20, depth: 500 },
    time: Duration::from_mins(1),
};

/// What is tried before a template is known to take long: some milliseconds.
const BRIEF: Budget = Budget { steps: 50_000, memory: 4 << 20, output: 256 << 10, depth: 500 };

/// What a template may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) budget: Budget,
    pub(super) time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { budget: Budget::default(), time: Duration::from_secs(20) }
    }
}

impl Limits {
    /// What the annotations of an input say.
    pub(super) fn read(input: &Map<String, Value>) -> Result<Self, String> {
        let mut limits = Self::default();
        let Some(annotations) = annotations(input) else { return Ok(limits) };
        let Budget { steps, memory, output, .. } = CEILING.budget;
        set(annotations, STEPS, whole, steps, &mut limits.budget.steps)?;
        set(annotations, MEMORY, bytes, memory, &mut limits.budget.memory)?;
        set(annotations, OUTPUT, bytes, output, &mut limits.budget.output)?;
        set(annotations, TIME, time, CEILING.time, &mut limits.time)?;
        Ok(limits)
    }

    /// The part of the budget that a brief call has.
    pub(super) fn brief(&self) -> Budget {
        let own = self.budget;
        Budget {
            steps: own.steps.min(BRIEF.steps),
            memory: own.memory.min(BRIEF.memory),
            output: own.output.min(BRIEF.output),
            ..own
        }
    }
}

/// How to raise the limit that a template reached. Empty if it cannot be raised.
pub(super) fn remedy(limit: Exhausted) -> Option<String> {
    let (annotation, ceiling) = match limit {
        Exhausted::Steps(steps) if steps < CEILING.budget.steps => (STEPS, CEILING.budget.steps.to_string()),
        Exhausted::Memory(memory) if memory < CEILING.budget.memory => {
            (MEMORY, mebibytes(CEILING.budget.memory))
        }
        Exhausted::Output(output) if output < CEILING.budget.output => {
            (OUTPUT, mebibytes(CEILING.budget.output))
        }
        Exhausted::Time(time) if time < CEILING.time => (TIME, format!("{:?}", CEILING.time)),
        _ => return None,
    };
    Some(format!("the annotation {annotation} of the step's input sets another limit, up to {ceiling}"))
}

/// What an input is without its limits, if it has any: another limit is no other template, so that random values stay.
pub(super) fn without_limits(input: &Map<String, Value>) -> Option<Struct> {
    annotations(input)?.keys().find(|key| is_limit(key))?;
    let mut input = input.clone();
    let metadata = input.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    annotations.retain(|key, _| !is_limit(key));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    if metadata.is_empty() {
        input.remove("metadata");
    }
    Struct::try_from(input).ok()
}

fn is_limit(key: &str) -> bool {
    [STEPS, MEMORY, OUTPUT, TIME].contains(&key)
}

fn annotations(input: &Map<String, Value>) -> Option<&Map<String, Value>> {
    input.get("metadata")?.get("annotations")?.as_object()
}

fn set<T: Copy + PartialOrd>(
    annotations: &Map<String, Value>,
    key: &str,
    read: fn(&str) -> Option<T>,
    ceiling: T,
    limit: &mut T,
) -> Result<(), String> {
    let Some(value) = annotations.get(key) else { return Ok(()) };
    let shown = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let wanted = value.as_str().and_then(read).ok_or_else(|| {
        format!(
            "cannot read the annotation {key}: {shown:?} is not a limit; write a text like \"{}\"",
            example(key)
        )
    })?;
    if wanted > ceiling {
        return Err(format!(
            "cannot use the annotation {key}: {shown} is more than the {} that a template may have at most",
            most(key)
        ));
    }
    *limit = wanted;
    Ok(())
}

fn example(key: &str) -> &'static str {
    match key {
        STEPS => "20000000",
        TIME => "30s",
        _ => "32Mi",
    }
}

fn most(key: &str) -> String {
    match key {
        STEPS => CEILING.budget.steps.to_string(),
        MEMORY => mebibytes(CEILING.budget.memory),
        OUTPUT => mebibytes(CEILING.budget.output),
        _ => format!("{:?}", CEILING.time),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{}Mi", bytes >> 20)
}

fn whole(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

/// A number of bytes, or of units of 1024 of them.
fn bytes(text: &str) -> Option<u64> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let (number, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).unwrap_or((text, 0));
    whole(number)?.checked_mul(1 << shift)
}

fn time(text: &str) -> Option<Duration> {
    let nanoseconds = u64::try_from(duration::parse(text).ok()?).ok()?;
    Some(Duration::from_nanos(nanoseconds)).filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(annotations: &Value) -> Result<Limits, String> {
        Limits::read(json!({"metadata": {"annotations": annotations}}).as_object().unwrap())
    }

    #[test]
    fn annotations_set_limits_up_to_the_ceiling() {
        let all = json!({STEPS: "20000000", MEMORY: "1Gi", OUTPUT: "1000", TIME: "1m", "other": "x"});
        let budget = Budget { steps: 20_000_000, memory: 1 << 30, output: 1000, depth: 500 };
        assert_eq!(read(&all), Ok(Limits { budget, time: Duration::from_mins(1) }));
        assert_eq!(read(&json!({})), Ok(Limits::default()));
        assert_eq!(
            read(&json!({TIME: "1m1ms"})),
            Err("cannot use the annotation ferroplane.io/template-time: 1m1ms is more than the 60s that a template may have at most".to_owned())
        );
        for (key, value) in [(STEPS, "100000001"), (MEMORY, "1025Mi"), (OUTPUT, "1Gi")] {
            assert!(read(&json!({key: value})).is_err(), "{key}: {value}");
        }
    }

    #[test]
    fn limit_that_is_none_is_refused() {
        for (key, value) in [
            (STEPS, "many"),
            (STEPS, "0"),
            (MEMORY, "1e3"),
            (MEMORY, "99999999999Gi"),
            (TIME, "-1s"),
            (TIME, "5"),
        ] {
            assert!(
                read(&json!({key: value})).unwrap_err().starts_with("cannot read the annotation"),
                "{value}"
            );
        }
        assert!(read(&json!({STEPS: 5})).is_err());
    }

    #[test]
    fn input_without_limits_is_what_it_was_before() {
        let plain = json!({"inline": {"template": "x"}});
        let mut limited = plain.clone();
        limited["metadata"] = json!({"annotations": {TIME: "1s"}});
        let stripped = without_limits(limited.as_object().unwrap()).unwrap();
        assert_eq!(stripped.json().unwrap(), plain.as_object().unwrap());
        assert_eq!(without_limits(plain.as_object().unwrap()), None);
    }
}
