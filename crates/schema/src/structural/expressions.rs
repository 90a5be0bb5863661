//! `x-kubernetes-validations`: rules in the Common Expression Language, typed by the schema that they stand in.
//!
//! Kubernetes also estimates, when a definition is accepted, what a rule could cost at most. We do not: here a rule is
//! stopped when it has cost too much.

mod declare;
mod walk;

use std::sync::Arc;

use serde_json::Value as Json;

use super::compile::{Node, Purpose, Schema};
use super::correlate::Correlation;
use super::field_path;
use super::props::{Props, Rule};
use crate::cel::{Environment, Program, Shape, Type};
use crate::field::{Error, Path};
use walk::{Ratchet, Walk};

/// What all rules about one object may cost.
pub(super) const BUDGET: i64 = 10_000_000;

/// A rule that was looked at.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    pub(super) rule: Rule,
    /// What to evaluate, or why not. Nothing if the rule is empty.
    pub(super) program: Option<Result<Program, String>>,
    pub(super) message: Option<Result<Program, String>>,
    pub(super) uses_old_self: bool,
    /// Where an error belongs, below the value.
    field_path: String,
}

/// The rules of one schema, without those below it. Nothing if expressions cannot see such a value.
pub(super) fn compile(props: &Props, is_resource: bool) -> Option<Vec<Compiled>> {
    let kind = declare::kind(props, is_resource, "selfType")?;
    Some(props.validations().iter().map(|rule| compile_rule(rule, props, &kind)).collect())
}

fn compile_rule(rule: &Rule, props: &Props, kind: &Type) -> Compiled {
    let mut compiled = Compiled {
        rule: rule.clone(),
        program: None,
        message: None,
        uses_old_self: false,
        field_path: String::new(),
    };
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let old = if rule.optional_old_self == Some(true) {
        Type::Optional(Box::new(kind.clone()))
    } else {
        kind.clone()
    };
    let environment = Environment::new().variable("self", kind.clone()).variable("oldSelf", old);
    let program = match environment.compile(&rule.rule) {
        Err(error) => Err(format!("compilation failed: {error}")),
        Ok(program) if *program.result_type() != Type::Bool => {
            Err("cel expression must evaluate to a bool".to_owned())
        }
        Ok(program) => Ok(program),
    };
    let is_fine = program.is_ok();
    compiled.uses_old_self = program.as_ref().is_ok_and(|program| program.uses("oldSelf"));
    compiled.program = Some(program);
    if !is_fine {
        return compiled;
    }
    if !rule.message_expression.is_empty() {
        let message = match environment.compile(&rule.message_expression) {
            Err(error) => Err(format!("messageExpression compilation failed: {error}")),
            Ok(program) if *program.result_type() != Type::String => {
                Err("messageExpression must evaluate to a string".to_owned())
            }
            Ok(program) => Ok(program),
        };
        let is_fine = message.is_ok();
        compiled.message = Some(message);
        if !is_fine {
            return compiled;
        }
    }
    if !rule.field_path.is_empty()
        && let Ok(known) = field_path::resolve(&rule.field_path, props, true)
    {
        compiled.field_path = known.path;
    }
    compiled
}

/// The rules of a schema and of all within it.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    compiled: Vec<Compiled>,
    /// Expressions see the value so. There only if there are rules here.
    shape: Arc<Shape>,
    kind: Box<str>,
    is_int_or_string: bool,
    /// There are rules, but expressions cannot see such a value.
    is_invisible: bool,
    node: Arc<Node>,
    properties: Vec<(Box<str>, Rules)>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
}

impl Schema {
    /// Which rules an object breaks.
    pub fn validate_rules(&self, object: &Json, old: Option<&Json>, path: &Path<'_>) -> Vec<Error> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let mut budget = BUDGET;
        let current = old.map(|old| Correlation { old, new: object, node: &self.root });
        let mut walk = Walk { errors: Vec::new(), budget: &mut budget };
        walk.node(rules, object, old, Ratchet { current, nearest: None }, path);
        walk.errors
    }
}

impl Rules {
    pub(super) fn compile(props: &Props, is_resource: bool) -> Option<Self> {
        if !props.has(&mut |schema| !schema.validations().is_empty()) {
            return None;
        }
        let below = |props: &Props| Self::compile(props, props.embedded_resource);
        // Fields that expressions cannot see are left out, with all that is in them.
        let is_visible = |props: &Props, is_resource: bool| declare::kind(props, is_resource, "").is_some();
        let sees = is_visible(props, is_resource);
        let visible = |property: &&Props| sees && is_visible(property, property.embedded_resource);
        let properties = props.properties().filter(|(_, property)| visible(property));
        let properties: Vec<_> = properties
            .filter_map(|(name, property)| Some((name.as_str().into(), below(property)?)))
            .collect();
        let items = props.item().and_then(below).map(Box::new);
        let additional = props.additional_schema().and_then(below).map(Box::new);
        let has_rules = !props.validations().is_empty();
        let compiled = if has_rules { compile(props, is_resource) } else { Some(Vec::new()) };
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
        let shape = if compiled.is_empty() { Shape::default() } else { declare::shape(props, is_resource) };
        // Only what correlates old items with new ones is looked at.
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
        let node = Arc::new(Node::compile(&skeleton, Purpose::Defaults, false));
        Some(Self {
            compiled,
            shape: Arc::new(shape),
            kind: props.kind.as_str().into(),
            is_int_or_string: props.int_or_string,
            is_invisible,
            node,
            properties,
            items,
            additional,
        })
    }

    pub(super) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.iter().find(|(candidate, _)| **candidate == *name).map(|(_, rules)| rules)
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
        let mut walk = Walk { errors: Vec::new(), budget };
        walk.node(self, value, old, Ratchet { current: None, nearest: None }, path);
        walk.errors
    }
}
