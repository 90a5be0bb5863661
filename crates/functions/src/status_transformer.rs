//! `function-status-transformer`: makes conditions and events of what the conditions of resources say.
//!
//! Hooks are tried one after the other. All matchers of a hook must match for it to set conditions and create
//! events; their messages are templates over what the expressions of its matchers captured. What goes wrong is
//! said in a condition of its own and stops nothing.
//!
//! # Invariants
//! * Resources are checked in the order of their names, so the same request gets the same answer.

mod conditions;
mod extra;
mod matching;
mod settings;
mod template;

use ferroplane_wire::v1::{
    Condition, Result as Event, RunFunctionRequest, RunFunctionResponse, Severity, Status, Target,
};

use crate::cost_budget::CostBudget;
use crate::effort::{Effort, TakesLong};
use crate::pattern_budget::PatternBudget;
use crate::{input, response};
use matching::{Budgets, ObservedState};
use settings::{CreateEvent, Hook, SetCondition, StatusTransformation};
use template::Groups;

/// The condition that says how the transformation itself went.
const SUCCESS: &str = "StatusTransformationSuccess";

/// Try every hook, and say how it went.
pub(crate) fn run(
    request: &RunFunctionRequest,
    effort: Effort<'_>,
) -> Result<RunFunctionResponse, TakesLong> {
    let costs = CostBudget::new(effort);
    let mut transformation = Transformation {
        response: response::to(request),
        conditions_set: Vec::new(),
        has_failed: false,
        budgets: Budgets { patterns: PatternBudget::default(), costs: &costs },
    };
    if let Err(problem) = transformation.follow(request) {
        transformation.fail("InputFailure", problem);
    }
    if !transformation.has_failed {
        let success = condition(SUCCESS, Status::ConditionTrue, "Available", Target::Composite);
        transformation.response.conditions.push(success);
    }
    costs.conclude(transformation.response)
}

struct Transformation<'a> {
    response: RunFunctionResponse,
    /// The types of the conditions that hooks have set so far.
    conditions_set: Vec<&'a str>,
    has_failed: bool,
    budgets: Budgets<'a>,
}

impl<'a> Transformation<'a> {
    /// Only what leaves nothing to try is an error.
    fn follow(&mut self, request: &'a RunFunctionRequest) -> Result<(), String> {
        let input = input::whole::<StatusTransformation<'_>>(request.input.as_ref())?;
        let mut state = ObservedState::new(request)?;
        for (at, hook) in input.status_condition_hooks.iter().flatten().enumerate() {
            if let Some(groups) = self.matches(hook, at, &mut state)? {
                self.set_conditions(hook, at, &groups);
                self.create_events(hook, at, &groups);
            }
        }
        Ok(())
    }

    /// What the matchers captured, if there are any and all of them match.
    fn matches(
        &mut self,
        hook: &Hook<'_>,
        at: usize,
        state: &mut ObservedState<'_>,
    ) -> Result<Option<Groups>, String> {
        let mut groups = Groups::new();
        for (matcher_at, matcher) in hook.matchers.iter().flatten().enumerate() {
            if matcher.include_extra_resources.unwrap_or_default() {
                state.load_extra()?;
            }
            match matching::matches(matcher, state, &mut self.budgets) {
                Ok(Some(captured)) => groups.extend(captured),
                // Matchers after this one are not even compiled, so that a mistake in them shows only when it
                // would matter.
                Ok(None) => return Ok(None),
                Err(problem) => {
                    let place = format!("statusConditionHookIndex: {at}, matchConditionIndex: {matcher_at}");
                    self.fail("MatchFailure", format!("cannot match resources, {place}: {problem}"));
                    return Ok(None);
                }
            }
        }
        // A hook without matchers never acts, although nothing contradicts it: `allMatched` begins as false
        // in the original.
        Ok(hook.has_matchers().then_some(groups))
    }

    fn set_conditions(&mut self, hook: &Hook<'a>, at: usize, groups: &Groups) {
        for (setter_at, setter) in hook.set_conditions.iter().flatten().enumerate() {
            let kind = setter.kind();
            if self.conditions_set.contains(&kind) && !setter.force.unwrap_or_default() {
                continue;
            }
            match wanted_condition(setter, groups) {
                Ok(condition) => {
                    self.response.conditions.push(condition);
                    // Only now: a condition whose message cannot be made leaves its type free for the next
                    // hook.
                    self.conditions_set.push(kind);
                }
                Err(problem) => {
                    let place = format!("statusConditionHookIndex: {at}, setConditionIndex: {setter_at}");
                    self.fail("SetConditionFailure", format!("cannot set condition, {place}: {problem}"));
                }
            }
        }
    }

    fn create_events(&mut self, hook: &Hook<'_>, at: usize, groups: &Groups) {
        for (creator_at, creator) in hook.create_events.iter().flatten().enumerate() {
            match wanted_event(creator, groups) {
                Ok(event) => self.response.results.push(event),
                Err(problem) => {
                    let place = format!("statusConditionHookIndex: {at}, createEventIndex: {creator_at}");
                    // The original has no reason for events and uses that of conditions; alerts may look for
                    // it.
                    self.fail("SetConditionFailure", format!("cannot create event, {place}: {problem}"));
                }
            }
        }
    }

    fn fail(&mut self, reason: &str, message: String) {
        let failure = condition(SUCCESS, Status::ConditionFalse, reason, Target::Composite);
        // One for each failure, although the composite resource can have only one of this type: as in the
        // original, the last one stays.
        self.response.conditions.push(Condition { message: Some(message), ..failure });
        self.has_failed = true;
    }
}

fn condition(kind: &str, status: Status, reason: &str, target: Target) -> Condition {
    Condition {
        r#type: kind.to_owned(),
        status: status.into(),
        reason: reason.to_owned(),
        message: None,
        target: Some(target.into()),
    }
}

fn wanted_condition(setter: &SetCondition<'_>, groups: &Groups) -> Result<Condition, String> {
    let wanted = setter.condition.unwrap_or_default();
    let status = match wanted.status {
        Some("True") => Status::ConditionTrue,
        Some("False") => Status::ConditionFalse,
        // A misspelled status is not refused, unlike a misspelled type of an event: so it is in the original.
        _ => Status::ConditionUnknown,
    };
    let (kind, reason) = (wanted.kind.unwrap_or_default(), wanted.reason.unwrap_or_default());
    let message = wanted.message.map(|message| filled(message, groups)).transpose()?;
    Ok(Condition { message, ..condition(kind, status, reason, target(setter.target)) })
}

fn wanted_event(creator: &CreateEvent<'_>, groups: &Groups) -> Result<Event, String> {
    let event = creator.event.unwrap_or_default();
    let severity = match event.kind {
        None | Some("Normal") => Severity::Normal,
        Some("Warning") => Severity::Warning,
        Some(other) => return Err(format!("invalid type {other}, must be one of [Normal, Warning]")),
    };
    Ok(Event {
        severity: severity.into(),
        message: filled(event.message.unwrap_or_default(), groups)?,
        reason: event.reason.map(str::to_owned),
        target: Some(target(creator.target).into()),
    })
}

fn target(wanted: Option<&str>) -> Target {
    if wanted == Some("CompositeAndClaim") { Target::CompositeAndClaim } else { Target::Composite }
}

/// A message is a template only if something was captured.
fn filled(message: &str, groups: &Groups) -> Result<String, String> {
    // Braces in a message that captures nothing stay as they are, and cannot be a mistake
    // (`templateMessage`).
    if groups.is_empty() { Ok(message.to_owned()) } else { template::render(message, groups) }
}

#[cfg(test)]
mod tests;
