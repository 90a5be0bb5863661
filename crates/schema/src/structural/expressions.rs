//! `x-kubernetes-validations`: rules in the Common Expression Language, typed by the schema that they stand in.
//!
//! When a definition is accepted, what a rule could cost at most is estimated from how large the schema lets values
//! become. When an object is held against it, a rule is stopped when it has cost too much.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/cel/compilation.go`.

mod declare;
mod extent;
mod rule;
mod walk;

use std::sync::Arc;

use ferroplane_cancellation::milestone;
use ferroplane_cel::ValueSchema;
use serde_json::Value as Json;

use super::compile::{Purpose, Schema, SchemaNode};
use super::compile_budget::CompileBudget;
use super::correlate::Correlation;
use super::props::Props;
use crate::field::{Error, Path};
use rule::Compiled;
use walk::{Ratchet, RuleValidator, UNSEEN};

/// What all rules about one object may cost.
pub(super) const BUDGET: i64 = 10_000_000;

/// The rules of one schema, without those below it. Nothing if expressions cannot see such a value.
fn compile(props: &Props, is_resource: bool, budget: &mut CompileBudget) -> Option<Vec<Compiled>> {
    if !budget.admits_rules_of(props) {
        return Some(props.validations().iter().map(Compiled::unread).collect());
    }
    let kind = declare::kind(props, is_resource, "selfType")?;
    let compile = |rule| Compiled::new(rule, props, &kind, None).within(budget);
    Some(props.validations().iter().map(compile).collect())
}

/// The same with estimates of what rules cost, and how many such values there can be in an object at most.
pub(super) fn estimate(props: &Props, is_resource: bool) -> Option<(Vec<Compiled>, u64)> {
    let kind = declare::kind(props, is_resource, "selfType")?;
    let (extent, least) = extent::of(props, is_resource)?;
    let compile = |rule| Compiled::new(rule, props, &kind, Some(&extent));
    Some((props.validations().iter().map(compile).collect(), extent::most_in_a_request(least)))
}

/// What evaluating a rule can cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleCost {
    /// For one value, at most.
    pub rule: u64,
    /// Of its message expression, at most.
    pub message: u64,
    /// How many such values an object can have, if nothing around them is limited.
    pub times: u64,
}

impl Props {
    /// What the rules of this schema can cost, without those of schemas within it. Rules that are wrong cost nothing.
    pub fn rule_costs(&self, is_resource: bool) -> Vec<RuleCost> {
        let Some((compiled, times)) = estimate(self, is_resource) else { return Vec::new() };
        let cost =
            |compiled: &Compiled| RuleCost { rule: compiled.cost, message: compiled.message_cost, times };
        compiled.iter().map(cost).collect()
    }
}

/// The rules of a schema and of all within it.
#[derive(Debug, Clone)]
pub(super) struct CompiledRules {
    compiled: Vec<Compiled>,
    /// Expressions see the value so, where there are rules and none around them. Inside of other rules they see it as in the shape that
    /// those have: rules inside of each other do not keep the same fields again and again.
    shape: Option<Arc<ValueSchema>>,
    kind: Box<str>,
    is_int_or_string: bool,
    /// There are rules, but expressions cannot see such a value.
    is_invisible: bool,
    node: Arc<SchemaNode>,
    properties: Vec<(Box<str>, CompiledRules)>,
    items: Option<Box<CompiledRules>>,
    additional: Option<Box<CompiledRules>>,
}

impl Schema {
    /// Which rules an object breaks.
    pub fn validate_rules(&self, object: &Json, old: Option<&Json>, path: &Path<'_>) -> Vec<Error> {
        let Some(rules) = &self.rules else { return Vec::new() };
        // One budget for the object, not for each rule: many cheap rules on many items add up.
        let mut budget = BUDGET;
        let current = old.map(|old| Correlation { old, new: object, node: &self.root });
        let mut walk = RuleValidator { errors: Vec::new(), budget: &mut budget };
        walk.node(rules, object, old, Ratchet { current, nearest: None }, path, &UNSEEN);
        walk.errors
    }
}

/// A schema by which old items are found for new ones. Only what correlates them is checked, so that nothing else is kept.
fn correlating(props: &Props) -> Arc<SchemaNode> {
    let skeleton = Props {
        kind: props.kind.clone(),
        list_type: props.list_type.clone(),
        list_map_keys: props.list_map_keys.clone(),
        items: props
            .items
            .as_ref()
            .map(|_| super::props::Items { schema: Some(Box::default()), schemas: None }),
        ..Props::default()
    };
    Arc::new(SchemaNode::compile(&skeleton, Purpose::Defaults, false))
}

impl CompiledRules {
    /// Rules that there is no room for are withheld.
    pub(super) fn compile(props: &Props, is_resource: bool, budget: &mut CompileBudget) -> Option<Self> {
        Self::compile_within(props, is_resource, None, budget)
    }

    /// The same for a part of a value that expressions see so, if there are rules around it.
    fn compile_within(
        props: &Props,
        is_resource: bool,
        around: Option<&ValueSchema>,
        budget: &mut CompileBudget,
    ) -> Option<Self> {
        milestone();
        if !props.has(&mut |schema| !schema.validations().is_empty()) {
            return None;
        }
        let has_rules = !props.validations().is_empty();
        let own_shape = (has_rules && around.is_none()).then(|| Arc::new(declare::shape(props, is_resource)));
        let shape = around.or(own_shape.as_deref());
        let mut below = |props: &Props, shape: Option<&ValueSchema>| {
            Self::compile_within(props, props.embedded_resource, shape, budget)
        };
        // Fields that expressions cannot see are left out, with all that is in them.
        let sees = declare::is_visible(props, is_resource);
        let visible = |property: &&Props| sees && declare::is_visible(property, property.embedded_resource);
        let properties = props.properties().filter(|(_, property)| visible(property));
        let properties: Vec<_> = properties
            .filter_map(|(name, property)| {
                let shape = shape.filter(|_| !declare::is_replaced(props, is_resource, name));
                let shape = shape.and_then(|shape| declare::property_in(shape, name));
                Some((name.as_str().into(), below(property, shape)?))
            })
            .collect();
        let items_shape = shape.filter(|_| declare::has_items(props, is_resource));
        let items = props.item().and_then(|item| below(item, items_shape.and_then(declare::item_in)));
        let additional = props.additional_schema();
        let additional = additional.and_then(|value| below(value, shape.and_then(declare::additional_in)));
        let compiled = if has_rules { compile(props, is_resource, budget) } else { Some(Vec::new()) };
        let is_invisible = compiled.is_none();
        let compiled = compiled.unwrap_or_default();
        if compiled.is_empty()
            && !is_invisible
            && properties.is_empty()
            && items.is_none()
            && additional.is_none()
        {
            return None;
        }
        Some(Self {
            compiled,
            shape: own_shape,
            kind: props.kind.as_str().into(),
            is_int_or_string: props.int_or_string,
            is_invisible,
            node: correlating(props),
            properties,
            items: items.map(Box::new),
            additional: additional.map(Box::new),
        })
    }

    pub(super) fn property(&self, name: &str) -> Option<&Self> {
        // They are sorted, because those of the schema are.
        let found = self.properties.binary_search_by(|(candidate, _)| (**candidate).cmp(name));
        found.ok().map(|index| &self.properties[index].1)
    }

    /// The rules of a property alone, without those around it.
    pub(super) fn part(&self, name: &str) -> Option<Self> {
        let mut part = self.property(name)?.clone();
        if part.shape.is_none() {
            let shape = self.shape.as_deref().and_then(|shape| declare::property_in(shape, name));
            part.shape = shape.cloned().map(Arc::new);
        }
        Some(part)
    }

    /// What compiling the patterns of all rules costs that are evaluated.
    pub(super) fn pattern_weight(&self) -> u64 {
        let evaluated = self.compiled.iter().filter(|rule| rule.withheld.is_none());
        let own = evaluated.map(Compiled::pattern_weight).fold(0, u64::saturating_add);
        let properties = self.properties.iter().map(|(_, rules)| rules);
        let below = properties.chain(self.items.as_deref()).chain(self.additional.as_deref());
        below.map(Self::pattern_weight).fold(own, u64::saturating_add)
    }

    /// Why expressions cannot see a value.
    fn misfit(&self, value: &Json) -> Option<String> {
        let fits = match &*self.kind {
            "" if self.is_int_or_string => value.is_string() || value.is_i64(),
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "number" => value.is_number(),
            "integer" => value.is_i64(),
            "boolean" => value.is_boolean(),
            _ => true,
        };
        let found = super::object_meta::go_type(value);
        let wanted = match &*self.kind {
            _ if fits => return None,
            "" => "XIntOrString value to be either a string or integer".to_owned(),
            "object" => "a map for the provided schema with type=object".to_owned(),
            "array" => "an array for the provided schema with type=array".to_owned(),
            "number" => format!("float, got {found}"),
            "integer" => format!("int, got {found}"),
            "boolean" => format!("bool, got {found}"),
            other => format!("{other}, got {found}"),
        };
        Some(format!("invalid data, expected {wanted}"))
    }

    /// Which rules a value breaks that replaces an old one, or nothing.
    pub(super) fn check(
        &self,
        value: &Json,
        old: Option<&Json>,
        path: &Path<'_>,
        budget: &mut i64,
    ) -> Vec<Error> {
        let mut walk = RuleValidator { errors: Vec::new(), budget };
        walk.node(self, value, old, Ratchet { current: None, nearest: None }, path, &UNSEEN);
        walk.errors
    }
}
