//! `function-sequencer`: holds resources back until others are ready, and has them deleted in the opposite order.
//!
//! A rule is a sequence of patterns. What matches a pattern is created only once everything that matches the patterns
//! before it is desired and ready; until then it is taken out of the desired state. On request, each observed resource
//! is also protected by a `Usage` from being deleted before those that come after it.
//!
//! Reproduces upstream's v0.6.0, and `createOnly`, which is to come after it ([`run`]); v0.5.0 and v0.4.0, which protect by
//! other usages ([`run_v0_5`], [`run_v0_4`]); and older releases, which know sequences and nothing else: v0.2.3 to v0.3.0
//! ([`run_v0_3`]), v0.2.2, which deletes what exists ([`run_v0_2`]), and v0.1.0 to v0.1.2, whose sequences have names
//! ([`run_v0_1`]).

mod condition;
mod input;
mod names;
mod usage;

use std::collections::BTreeMap;

use ferroplane_golang::strconv::quote;
use ferroplane_wire::State;
use ferroplane_wire::v1::{
    Ready, Resource, Result as Note, RunFunctionRequest, RunFunctionResponse, Severity,
};

use self::condition::Conditions;
use self::input::{Input, Release, Rule};
use self::names::Names;
use crate::cost_budget::CostBudget;
use crate::effort::{Effort, TakesLong};
use crate::response;

type Answer = Result<RunFunctionResponse, TakesLong>;

/// As upstream from v0.6.0 on.
pub(crate) fn run(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    sequence(request, Input::read(request.input.as_ref()), effort)
}

/// As upstream in v0.5.0.
pub(crate) fn run_v0_5(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    sequence(request, Input::read_v0_4(request.input.as_ref(), Release::V0_5), effort)
}

/// As upstream in v0.4.0.
pub(crate) fn run_v0_4(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    sequence(request, Input::read_v0_4(request.input.as_ref(), Release::V0_4), effort)
}

/// As upstream from v0.2.3 to v0.3.0.
pub(crate) fn run_v0_3(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_sequences(request, Release::V0_3, effort)
}

/// As upstream in v0.2.2.
pub(crate) fn run_v0_2(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_sequences(request, Release::V0_2, effort)
}

/// As upstream from v0.1.0 to v0.1.2.
pub(crate) fn run_v0_1(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_sequences(request, Release::V0_1, effort)
}

fn run_sequences(request: &RunFunctionRequest, release: Release, effort: Effort<'_>) -> Answer {
    let mut response = sequence(request, Input::read_sequences(request.input.as_ref(), release), effort)?;
    // The protocol of that time had no field for it.
    response.results.iter_mut().for_each(|result| result.target = None);
    Ok(response)
}

fn sequence(request: &RunFunctionRequest, input: Result<Input, String>, effort: Effort<'_>) -> Answer {
    let mut response = response::to(request);
    let input = match input {
        Ok(input) => input,
        Err(problem) => return Ok(response::fatal(response, problem)),
    };
    if let Some(ttl) = input.cache_ttl
        && let Some(meta) = &mut response.meta
    {
        meta.ttl = Some(ttl);
    }
    let nothing = State::default();
    let costs = CostBudget::new(effort);
    let mut sequencing = Sequencing::new(request, &nothing, input.release, &costs);
    let outcome = input.rules.iter().try_for_each(|rule| sequencing.follow(rule, &input, request));
    response.results = std::mem::take(&mut sequencing.notes);
    costs.conclude(match outcome {
        Ok(()) => {
            response.desired = Some(sequencing.desired_state(request.desired.as_ref().unwrap_or(&nothing)));
            response
        }
        Err(problem) => {
            // What rules before the mistake held back is desired again; only the readiness of the composite
            // resource stays reset, because the original changes that in place.
            response.desired = request.desired.as_ref().map(|desired| sequencing.untouched_state(desired));
            response::fatal(response, problem)
        }
    })
}

/// How many usages there may be. A pattern for everything after one for everything asks for the square of what exists,
/// which no plane could hold.
const MAX_USAGES: usize = 10_000;

/// What the rules have made of the request so far.
struct Sequencing<'a> {
    /// The desired resources that are not held back.
    desired: BTreeMap<&'a str, &'a Resource>,
    observed: &'a BTreeMap<String, Resource>,
    /// The names of all of them, by pattern.
    names: Names<'a>,
    conditions: Conditions<'a>,
    costs: &'a CostBudget,
    usages: BTreeMap<String, Resource>,
    /// Whether the composite resource cannot be ready because something was held back.
    is_unready: bool,
    notes: Vec<Note>,
}

impl<'a> Sequencing<'a> {
    fn new(
        request: &'a RunFunctionRequest,
        nothing: &'a State,
        release: Release,
        costs: &'a CostBudget,
    ) -> Self {
        let desired = request.desired.as_ref().unwrap_or(nothing).resources();
        let observed = request.observed.as_ref().unwrap_or(nothing).resources();
        Self {
            desired: desired.iter().map(|(name, resource)| (name.as_str(), resource)).collect(),
            observed,
            names: Names::new(desired.keys().chain(observed.keys()), release == Release::V0_1, costs),
            conditions: Conditions::default(),
            costs,
            usages: BTreeMap::new(),
            is_unready: false,
            notes: Vec::new(),
        }
    }

    fn follow(&mut self, rule: &Rule, input: &Input, request: &'a RunFunctionRequest) -> Result<(), String> {
        if rule.delete_only && rule.create_only {
            let sequence = rule.sequence.join(" ");
            return Err(format!(
                "rule for sequence [{sequence}] cannot have both deleteOnly and createOnly set to true"
            ));
        }
        // Evaluated even for a rule that only deletes, to which it means nothing: the original notes that it
        // does not hold, and fails on its mistakes.
        let applies = self.applies(rule, request)?;
        // Even a rule that does not apply now keeps the order in which what exists is deleted: it may have applied
        // when that was created.
        if input.enable_deletion_sequencing && !rule.create_only && !input.release.protects_in_turn() {
            self.protect(&rule.sequence, input)
                .map_err(|problem| format!("cannot generate usages for sequence: {problem}"))?;
        }
        if applies && !rule.delete_only { self.hold_back(&rule.sequence, input) } else { Ok(()) }
    }

    /// Whether the condition of the rule holds.
    fn applies(&mut self, rule: &Rule, request: &'a RunFunctionRequest) -> Result<bool, String> {
        if rule.condition.is_empty() {
            return Ok(true);
        }
        let (condition, sequence) = (quote(&rule.condition), rule.sequence.join(" "));
        let holds = self.conditions.holds(&rule.condition, request, self.is_unready, self.costs);
        let holds = holds.map_err(|problem| {
            format!("cannot evaluate condition {condition} for sequence [{sequence}]: {problem}")
        })?;
        if !holds {
            self.note(format!("Skipping sequence [{sequence}]: condition {condition} evaluated to false"));
        }
        Ok(holds)
    }

    /// Protect each observed resource from being deleted before those that come right after it.
    fn protect(&mut self, sequence: &[String], input: &Input) -> Result<(), String> {
        for pair in sequence.windows(2) {
            let users = self.users(&pair[1], input)?;
            let earlier = self.names.matching(&pair[0])?;
            self.protect_from(&users, &earlier, input)?;
        }
        Ok(())
    }

    /// What matches the pattern and can use others.
    fn users(&mut self, pattern: &str, input: &Input) -> Result<Vec<&'a str>, String> {
        let (later, observed) = (self.names.matching(pattern)?, self.observed);
        let is_user =
            |user: &Resource| input.release == Release::V0_4 || !usage::is_usage(user, input.usage_version);
        Ok(later.iter().copied().filter(|by| observed.get(*by).is_some_and(is_user)).collect())
    }

    /// Protect what exists and is desired from being deleted before its users.
    fn protect_from(&mut self, users: &[&'a str], earlier: &[&'a str], input: &Input) -> Result<(), String> {
        let observed = self.observed;
        for by in users {
            let Some(user) = observed.get(*by) else { continue };
            // Only what is observed: a usage refers to objects by names that desired resources may not have yet.
            for of in earlier.iter().filter(|of| self.desired.contains_key(*of)) {
                let Some(target) = observed.get(*of) else { continue };
                let usage = usage::new(target, user, input.replay_deletion, input.usage_version)?;
                self.usages.insert(format!("{by}-{of}-usage"), usage);
            }
            // Inside the loop, before the map has become as large as the square.
            if self.usages.len() > MAX_USAGES {
                return Err(format!("the rules ask for more than {MAX_USAGES} usages"));
            }
        }
        Ok(())
    }

    /// As v0.4.0 and v0.5.0 protect: a pattern that is the very name of something that exists, from what comes right before
    /// it; what matches another one, from everything before it that is ready.
    fn protect_in_turn(&mut self, sequence: &[String], ready: usize, input: &Input) -> Result<(), String> {
        let Some((pattern, before)) = sequence.split_last() else { return Ok(()) };
        let observed = self.observed;
        if let Some((name, _)) = observed.get_key_value(pattern) {
            let Some(right_before) = before.last() else { return Ok(()) };
            let earlier = self.names.matching(right_before)?;
            return self.protect_from(&[name.as_str()], &earlier, input);
        }
        let users = self.users(pattern, input)?;
        if users.is_empty() {
            return Ok(());
        }
        before[..ready].iter().try_for_each(|before| {
            let earlier = self.names.matching(before)?;
            self.protect_from(&users, &earlier, input)
        })
    }

    /// Take out of the desired state what has to wait.
    fn hold_back(&mut self, sequence: &[String], input: &Input) -> Result<(), String> {
        // Everything before this one was found ready, and nothing has been taken out since.
        let mut first_in_doubt = 0;
        let protects = input.enable_deletion_sequencing && input.release.protects_in_turn();
        for (index, pattern) in sequence.iter().enumerate().skip(1) {
            // A pattern that is the very name of something that exists needs no check: what exists is never
            // held back.
            let is_there = self.observed.contains_key(pattern);
            let unready = if is_there { None } else { self.first_unready(&sequence[first_in_doubt..index])? };
            if protects {
                let ready = unready.map_or(index, |(before, ..)| first_in_doubt + before);
                self.protect_in_turn(&sequence[..=index], ready, input)?;
            }
            if is_there {
                continue;
            }
            let Some((before, ready, all)) = unready else {
                // Only for its error: later releases report a bad pattern even where nothing has to wait.
                if input.release >= Release::V0_4 {
                    self.names.matching(pattern)?;
                }
                first_in_doubt = index;
                continue;
            };
            first_in_doubt += before;
            let waits = self.names.matching(pattern)?;
            self.note(explain(pattern, &sequence[first_in_doubt], ready, all, input.release));
            let count = self.desired.len();
            // Taking out what exists deletes it, which one release does.
            let may_delete = input.release == Release::V0_2;
            for name in waits.iter().filter(|name| may_delete || !self.observed.contains_key(**name)) {
                self.desired.remove(name);
            }
            if self.desired.len() < count {
                // What was just held back may match an earlier pattern, which is then no longer ready.
                first_in_doubt = 0;
                self.is_unready |= input.reset_composite_readiness;
            }
        }
        Ok(())
    }

    /// The first pattern that not all or no resources are ready for, with how many are and how many there are.
    fn first_unready(&mut self, patterns: &[String]) -> Result<Option<(usize, usize, usize)>, String> {
        for (index, pattern) in patterns.iter().enumerate() {
            let names = self.names.matching(pattern)?;
            let matching = names.iter().filter_map(|name| self.desired.get(name));
            let (ready, all) = matching.fold((0, 0), |(ready, all), resource| {
                (ready + usize::from(resource.ready == i32::from(Ready::True)), all + 1)
            });
            if all == 0 || ready < all {
                return Ok(Some((index, ready, all)));
            }
        }
        Ok(None)
    }

    fn note(&mut self, message: String) {
        self.notes.push(response::result(Severity::Normal, message));
    }

    /// The desired state without what has to wait, and with what protects.
    fn desired_state(self, desired: &State) -> State {
        let is_unchanged =
            self.desired.len() == desired.resources().len() && self.usages.is_empty() && !self.is_unready;
        // A clone shares what was encoded and hashed before; a new state has to be encoded again.
        if is_unchanged && desired.resources().values().all(response::is_plain) {
            return desired.clone();
        }
        let composite = self.composite(desired);
        let kept = self.desired.into_iter().map(|(name, resource)| (name.to_owned(), resource.clone()));
        let mut resources: BTreeMap<_, _> = kept.collect();
        resources.values_mut().for_each(response::make_plain);
        // After the others, so that a usage replaces a desired resource of its name.
        resources.extend(self.usages);
        State::new(composite, resources)
    }

    /// The desired state of the request, from before a rule that cannot be followed.
    fn untouched_state(&self, desired: &State) -> State {
        if !self.is_unready {
            return desired.clone();
        }
        State::new(self.composite(desired), desired.resources().clone())
    }

    fn composite(&self, desired: &State) -> Option<Resource> {
        let composite = desired.composite().cloned();
        if !self.is_unready {
            return composite;
        }
        Some(Resource { ready: Ready::False.into(), ..composite.unwrap_or_default() })
    }
}

fn explain(pattern: &str, before: &str, ready: usize, all: usize, release: Release) -> String {
    let (pattern, before) = (quote(pattern), quote(before));
    if release == Release::V0_1 {
        return format!(
            "Delaying creation of resource {pattern} because {before} is not ready or does not exist yet"
        );
    }
    let wait = format!("Delaying creation of resource(s) matching {pattern} because {before}");
    if all == 0 {
        return format!("{wait} does not exist yet");
    }
    format!("{wait} is not fully ready ({ready} of {all})")
}

#[cfg(test)]
mod tests;
