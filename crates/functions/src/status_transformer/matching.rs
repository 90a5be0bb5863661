//! Decides whether a matcher matches, and what its expressions capture.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ferroplane_golang::regexp::Expression;
use ferroplane_golang::strconv::quote;
use ferroplane_wire::State;
use ferroplane_wire::v1::{Resource, RunFunctionRequest};
use serde_json::{Map, Value};

use super::conditions;
use super::extra::{self, ExtraResource};
use super::settings::{ConditionMatcher, Matcher};
use super::template::Groups;
use crate::cost_budget::CostBudget;
use crate::pattern_budget::PatternBudget;

/// The name the composite resource has among the resources of a matcher.
const COMPOSITE: &str = "function-status-transformer.reserved-keys.composite-resource";

/// What the expressions of matchers may cost.
#[derive(Debug)]
pub(super) struct Budgets<'a> {
    /// To compile them.
    pub(super) patterns: PatternBudget,
    /// To match them.
    pub(super) costs: &'a CostBudget,
}

/// What matchers may check.
#[derive(Debug)]
pub(super) struct ObservedState<'a> {
    request: &'a RunFunctionRequest,
    composite: Cow<'a, Map<String, Value>>,
    extra: Option<Vec<ExtraResource<'a>>>,
}

impl<'a> ObservedState<'a> {
    pub(super) fn new(request: &'a RunFunctionRequest) -> Result<Self, String> {
        let composite = request.observed.as_ref().and_then(|observed| observed.composite());
        let composite = composite.map_or(Ok(Cow::default()), object);
        let composite = composite.map_err(|problem| format!("cannot get observed XR: {problem}"))?;
        Ok(Self { request, composite, extra: None })
    }

    /// Load the extra resources, unless that was done before.
    pub(super) fn load_extra(&mut self) -> Result<(), String> {
        if self.extra.is_none() {
            self.extra = Some(extra::load(self.request.context.as_ref())?);
        }
        Ok(())
    }
}

fn object(resource: &Resource) -> Result<Cow<'_, Map<String, Value>>, String> {
    let json = resource.resource.as_ref().map(|resource| resource.json()).transpose();
    json.map(|json| json.map_or_else(Cow::default, Cow::Borrowed)).map_err(|error| error.to_string())
}

/// The resources of a matcher, by name.
type Resources<'a> = BTreeMap<&'a str, Cow<'a, Map<String, Value>>>;

/// What was captured, if the matcher matches.
pub(super) fn matches(
    matcher: &Matcher<'_>,
    state: &ObservedState<'_>,
    budgets: &mut Budgets<'_>,
) -> Result<Option<Groups>, String> {
    let resources = select(matcher, state, budgets)?;
    let matchers = matcher.conditions.as_deref().unwrap_or_default();
    // Nothing matches nothing, though "all of none" would be true: a hook must not act because a resource is
    // gone.
    if resources.is_empty() || matchers.is_empty() {
        return Ok(None);
    }
    // Compiled at most once for all resources, and only when one gets as far as its message: a bad expression
    // that no resource gets to is no failure, as in the original.
    let mut conditions = Conditions { matchers, expressions: vec![None; matchers.len()], budgets };
    match matcher.kind {
        Some("AnyResourceMatchesAnyCondition") => conditions.any_any(&resources),
        Some("AnyResourceMatchesAllConditions") => conditions.any_all(&resources),
        Some("AllResourcesMatchAnyCondition") => conditions.all_any(&resources),
        // An unknown type counts as the strictest one.
        _ => conditions.all_all(&resources),
    }
}

fn select<'w>(
    matcher: &Matcher<'_>,
    state: &'w ObservedState<'_>,
    budgets: &mut Budgets<'_>,
) -> Result<Resources<'w>, String> {
    let mut selected = Resources::new();
    for (at, wanted) in matcher.resources.iter().flatten().enumerate() {
        let pattern = wanted.name.unwrap_or_default();
        let name = read(pattern, &mut budgets.patterns)
            .map_err(|error| format!("cannot compile resource key regex, resourcesIndex: {at}: {error}"))?;
        let observed = || state.request.observed.iter().flat_map(State::resources);
        let extra = || state.extra.iter().flatten();
        let lengths = observed().map(|(key, _)| key.len()).chain(extra().map(|extra| extra.name.len()));
        budgets.costs.spend_match(&name, lengths.sum()).map_err(|problem| {
            format!("cannot match resource key regex {}, resourcesIndex: {at}: {problem}", quote(pattern))
        })?;
        for (key, resource) in observed().filter(|(key, _)| name.is_match(key)) {
            let place = || format!("resourcesIndex: {at}, observedMapKey: {key}");
            let resource = object(resource)
                .map_err(|problem| format!("cannot convert resource to object, {}: {problem}", place()))?;
            selected.insert(key, resource);
        }
        if matcher.include_extra_resources.unwrap_or_default() {
            let extra = extra().filter(|extra| name.is_match(&extra.name));
            selected.extend(extra.map(|extra| (extra.name.as_str(), Cow::Borrowed(extra.resource))));
        }
    }
    if matcher.include_composite_as_resource.unwrap_or_default() {
        // After the others, so that a composed resource with the reserved name cannot stand in for it.
        selected.insert(COMPOSITE, Cow::Borrowed(&state.composite));
    }
    Ok(selected)
}

/// An expression that there is room for.
fn read(pattern: &str, budget: &mut PatternBudget) -> Result<Expression, String> {
    let expression = Expression::new(pattern).map_err(|error| error.to_string())?;
    budget.spend(expression.weight())?;
    Ok(expression)
}

/// What conditions should say, with their expressions once they were needed.
struct Conditions<'m, 'b> {
    matchers: &'m [ConditionMatcher<'m>],
    expressions: Vec<Option<Expression>>,
    budgets: &'m mut Budgets<'b>,
}

impl Conditions<'_, '_> {
    fn any_any(&mut self, resources: &Resources<'_>) -> Result<Option<Groups>, String> {
        for resource in resources.values() {
            for at in 0..self.matchers.len() {
                if let Some(groups) = self.one(at, resource)? {
                    return Ok(Some(groups));
                }
            }
        }
        Ok(None)
    }

    /// Resources that match only some conditions leave what they captured behind: so it is in the original.
    fn any_all(&mut self, resources: &Resources<'_>) -> Result<Option<Groups>, String> {
        let mut captured = Groups::new();
        for resource in resources.values() {
            if self.all(resource, &mut captured)? {
                return Ok(Some(captured));
            }
        }
        Ok(None)
    }

    fn all_any(&mut self, resources: &Resources<'_>) -> Result<Option<Groups>, String> {
        let mut captured = Groups::new();
        for resource in resources.values() {
            let mut has_matched = false;
            for at in 0..self.matchers.len() {
                if let Some(groups) = self.one(at, resource)? {
                    // Of two resources that capture the same name, the later one in the order of names wins.
                    // The original leaves that to the order of Go's maps.
                    captured.extend(groups);
                    has_matched = true;
                }
            }
            if !has_matched {
                return Ok(None);
            }
        }
        Ok(Some(captured))
    }

    fn all_all(&mut self, resources: &Resources<'_>) -> Result<Option<Groups>, String> {
        let mut captured = Groups::new();
        for resource in resources.values() {
            if !self.all(resource, &mut captured)? {
                return Ok(None);
            }
        }
        Ok(Some(captured))
    }

    fn all(&mut self, resource: &Map<String, Value>, captured: &mut Groups) -> Result<bool, String> {
        for at in 0..self.matchers.len() {
            match self.one(at, resource)? {
                Some(groups) => captured.extend(groups),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// What the message of the condition has in the groups of the expression, if the condition matches.
    fn one(&mut self, at: usize, resource: &Map<String, Value>) -> Result<Option<Groups>, String> {
        let matcher = &self.matchers[at];
        let condition = conditions::find(resource, matcher.kind.unwrap_or_default());
        let is_wanted = |wanted: Option<&str>, actual| wanted.is_none_or(|wanted| wanted == actual);
        if !is_wanted(matcher.reason, condition.reason) || !is_wanted(matcher.status, condition.status) {
            return Ok(None);
        }
        let Some(message) = matcher.message else { return Ok(Some(Groups::new())) };
        let expression = match &mut self.expressions[at] {
            Some(expression) => expression,
            unread => unread.insert(
                read(message, &mut self.budgets.patterns)
                    .map_err(|error| format!("cannot compile message regex: {error}"))?,
            ),
        };
        let spent = self.budgets.costs.spend_match(expression, condition.message.len());
        spent.map_err(|problem| format!("cannot match message regex {}: {problem}", quote(message)))?;
        let groups = expression.groups(condition.message);
        Ok(groups.map(|groups| groups.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()))
    }
}
