//! A schema made ready for objects: looked up quickly, patterns compiled, nothing left to parse.
//!
//! Our own design: Kubernetes walks its structural schema; this one is compiled before the first object.

use std::sync::Arc;

use ferroplane_cancellation::checkpoint;
use serde_json::Value;

use super::compile_budget::CompileBudget;
use super::expressions::CompiledRules;
use super::format::{self, Check};
use super::pattern::Pattern;
use super::props::{Additional, Props};
use super::surround;

/// A compiled schema. Cheap to clone and to share.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(super) root: Arc<SchemaNode>,
    /// Rules in the language of expressions, if there are any.
    pub(super) rules: Option<Arc<CompiledRules>>,
}

impl Schema {
    /// Compiles a schema. Makes the best of one that would be refused, without ever failing.
    pub fn compile(props: &Props) -> Self {
        Self::compile_within(props, &mut CompileBudget::default())
    }

    /// The same for one of so many versions that share what their patterns and rules may cost. Those that there is no room for are
    /// withheld: the definition may never have been checked, and to use a heavy one takes seconds and fills the memory.
    pub fn compile_shared(props: &Props, versions: usize) -> Self {
        let schema = Self::compile_within(props, &mut CompileBudget::of_one_of(versions));
        schema.root.bound_patterns(&mut CompileBudget::of_one_of(versions));
        schema
    }

    fn compile_within(props: &Props, budget: &mut CompileBudget) -> Self {
        let mut root = SchemaNode::compile(props, Purpose::Objects, false);
        // Old definitions may have defaults with unknown fields; every object would carry them otherwise.
        surround::prune_defaults(&mut root);
        let rules = CompiledRules::compile(props, true, budget);
        Self { root: Arc::new(root), rules: rules.map(Arc::new) }
    }

    /// Withholds patterns that would take too long to compile together. A definition with such patterns is refused, but may have been
    /// stored by a release without a limit. Then it is served, and no value matches a pattern that is withheld.
    ///
    /// Returns what compiling the other patterns costs, which each of them is when it is first used. The unit is that of
    /// [`ferroplane_golang::regexp::Expression::weight`].
    pub fn bound_patterns(&self) -> u64 {
        let mut budget = CompileBudget::default();
        self.root.bound_patterns(&mut budget);
        let rules = self.rules.as_deref().map_or(0, CompiledRules::pattern_weight);
        budget.pattern_weight().saturating_add(rules)
    }

    /// The schema of a property, for example `status`.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<Self> {
        let root = Arc::new(self.root.property(name)?.clone());
        let rules = self.rules.as_ref().and_then(|rules| rules.part(name)).map(Arc::new);
        Some(Self { root, rules })
    }
}

/// What a schema is compiled for. Kubernetes reads some things differently when it reads defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Objects,
    Defaults,
}

/// One schema within a schema.
#[expect(clippy::struct_excessive_bools, reason = "a schema says many things with yes or no")]
#[derive(Debug, Clone, Default)]
pub(super) struct SchemaNode {
    pub(super) kinds: Kinds,
    /// The types as messages name them.
    pub(super) kinds_text: Box<str>,
    pub(super) nullable: bool,
    /// Sorted by name.
    pub(super) properties: Box<[(Box<str>, SchemaNode)]>,
    pub(super) additional: Others,
    pub(super) items: Option<Box<SchemaNode>>,
    pub(super) preserves_unknown: bool,
    pub(super) is_embedded: bool,
    pub(super) list: ListType,
    pub(super) default: Option<Value>,
    pub(super) checks: Option<Box<Checks>>,
    /// Whether there are defaults here or below.
    pub(super) has_defaults: bool,
    /// Whether there are embedded resources here or below.
    pub(super) has_embedded: bool,
    /// Whether there are lists that are sets or maps here or below.
    pub(super) has_unique_lists: bool,
}

/// What a schema says about fields that it does not name.
#[derive(Debug, Clone, Default)]
pub(super) enum Others {
    #[default]
    Unsaid,
    Allowed,
    Refused,
    Schema(Box<SchemaNode>),
}

impl Others {
    pub(super) fn schema(&self) -> Option<&SchemaNode> {
        match self {
            Self::Schema(node) => Some(node),
            _ => None,
        }
    }

    pub(super) fn is_said(&self) -> bool {
        !matches!(self, Self::Unsaid)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Box<[Box<str>]>),
}

/// A set of types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const STRING: Self = Self(1);
    pub(super) const NUMBER: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    pub(super) const BOOLEAN: Self = Self(8);
    pub(super) const ARRAY: Self = Self(16);
    pub(super) const OBJECT: Self = Self(32);
    pub(super) const NULL: Self = Self(64);
    // An unknown type matches no value, unlike no type, which matches all.
    const OTHER: Self = Self(128);

    fn named(name: &str) -> Self {
        match name {
            "" => Self::default(),
            "string" => Self::STRING,
            "number" => Self::NUMBER,
            "integer" => Self::INTEGER,
            "boolean" => Self::BOOLEAN,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            "null" => Self::NULL,
            _ => Self::OTHER,
        }
    }

    pub(super) fn contains(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn is_numeric(self) -> bool {
        self.contains(Self(Self::NUMBER.0 | Self::INTEGER.0))
    }
}

/// Restrictions on values. Most schemas have none.
#[derive(Debug, Clone, Default)]
pub(super) struct Checks {
    pub(super) format: Box<str>,
    pub(super) format_check: Option<Check>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_length: Option<i64>,
    pub(super) pattern: Pattern,
    pub(super) max_items: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) values: Box<[Value]>,
    pub(super) max_properties: Option<i64>,
    pub(super) min_properties: Option<i64>,
    pub(super) required: Box<[Box<str>]>,
    pub(super) all_of: Box<[SchemaNode]>,
    pub(super) any_of: Box<[SchemaNode]>,
    pub(super) one_of: Box<[SchemaNode]>,
    pub(super) not: Option<Box<SchemaNode>>,
}

impl Checks {
    pub(super) fn has_junctors(&self) -> bool {
        !self.all_of.is_empty() || !self.any_of.is_empty() || !self.one_of.is_empty() || self.not.is_some()
    }

    fn bound_patterns(&self, budget: &mut CompileBudget) {
        // One that is none is never compiled.
        if let Some(Ok(expression)) = self.pattern.expression()
            && !budget.admits(expression.weight())
        {
            self.pattern.withhold();
        }
        let junctors =
            self.all_of.iter().chain(&*self.any_of).chain(&*self.one_of).chain(self.not.as_deref());
        junctors.for_each(|node| node.bound_patterns(budget));
    }
}

impl SchemaNode {
    pub(super) fn compile(props: &Props, purpose: Purpose, is_nested: bool) -> Self {
        checkpoint();
        let (kinds, kinds_text) = kinds_of(props, purpose);
        let below = |schema: &Props| Self::compile(schema, purpose, is_nested);
        let properties: Box<[_]> =
            props.properties().map(|(name, schema)| (name.as_str().into(), below(schema))).collect();
        let additional = match &props.additional_properties {
            None => Others::Unsaid,
            // Under a junctor, structural schemas have no `additionalProperties` in Go, and the validator for
            // defaults is made from the structural form.
            Some(_) if is_nested && purpose == Purpose::Defaults => Others::Unsaid,
            Some(Additional::Allowed(true)) => Others::Allowed,
            Some(Additional::Allowed(false)) => Others::Refused,
            Some(Additional::Schema(schema)) => Others::Schema(Box::new(below(schema))),
        };
        let list = match props.list_type.as_deref() {
            Some("set") => ListType::Set,
            Some("map") => {
                ListType::Map(props.list_map_keys().iter().map(|key| key.as_str().into()).collect())
            }
            _ => ListType::Atomic,
        };
        Self {
            kinds,
            kinds_text,
            nullable: props.nullable,
            properties,
            additional,
            items: props.item().map(|item| Box::new(below(item))),
            preserves_unknown: props.preserves_unknown_fields(),
            is_embedded: props.embedded_resource,
            list,
            default: props.default.clone(),
            checks: Checks::compile(props, purpose),
            ..Self::default()
        }
        .with_facts()
    }

    fn with_facts(mut self) -> Self {
        self.has_defaults = self.default.is_some() || self.children().any(|node| node.has_defaults);
        self.has_embedded = self.is_embedded || self.children().any(|node| node.has_embedded);
        self.has_unique_lists =
            self.list != ListType::Atomic || self.children().any(|node| node.has_unique_lists);
        self
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        let properties = self.properties.iter().map(|(_, node)| node);
        properties.chain(self.items.as_deref()).chain(self.additional.schema())
    }

    fn bound_patterns(&self, budget: &mut CompileBudget) {
        checkpoint();
        if let Some(checks) = self.checks.as_deref() {
            checks.bound_patterns(budget);
        }
        self.children().for_each(|node| node.bound_patterns(budget));
    }

    pub(super) fn property(&self, name: &str) -> Option<&Self> {
        let index = self.properties.binary_search_by(|(candidate, _)| (**candidate).cmp(name)).ok()?;
        Some(&self.properties[index].1)
    }

    /// Whether all defaults are the same in two compilations of one schema.
    pub(super) fn has_same_defaults(&self, other: &Self) -> bool {
        self.default == other.default
            && self.children().zip(other.children()).all(|(one, other)| one.has_same_defaults(other))
    }

    /// The schema of a field, whether it is named or not.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.property(name).or_else(|| self.additional.schema())
    }
}

fn kinds_of(props: &Props, purpose: Purpose) -> (Kinds, Box<str>) {
    if props.int_or_string && purpose == Purpose::Objects {
        return (Kinds(Kinds::INTEGER.0 | Kinds::STRING.0), "integer,string".into());
    }
    (Kinds::named(&props.kind), props.kind.as_str().into())
}

impl Checks {
    fn compile(props: &Props, purpose: Purpose) -> Option<Box<Self>> {
        let format = match purpose {
            Purpose::Objects => {
                let kind = if props.int_or_string { "" } else { props.kind.as_str() };
                // Kubernetes drops formats that it does not know for the type before it validates objects,
                // but not before it validates defaults.
                if format::is_supported(kind, &props.format) { props.format.as_str() } else { "" }
            }
            Purpose::Defaults => props.format.as_str(),
        };
        let nested =
            |list: &[Props]| list.iter().map(|props| SchemaNode::compile(props, purpose, true)).collect();
        let checks = Self {
            format: format.into(),
            format_check: format::find(format),
            maximum: props.maximum,
            exclusive_maximum: props.exclusive_maximum,
            minimum: props.minimum,
            exclusive_minimum: props.exclusive_minimum,
            multiple_of: props.multiple_of,
            max_length: props.max_length,
            min_length: props.min_length,
            pattern: props.pattern.clone(),
            max_items: props.max_items,
            min_items: props.min_items,
            unique_items: props.unique_items,
            values: props.values().into(),
            max_properties: props.max_properties,
            min_properties: props.min_properties,
            required: props.required().iter().map(|name| name.as_str().into()).collect(),
            all_of: nested(props.all_of()),
            any_of: nested(props.any_of()),
            one_of: nested(props.one_of()),
            not: props.not.as_ref().map(|props| Box::new(SchemaNode::compile(props, purpose, true))),
        };
        // Numbers are always checked: their type and format alone set a range.
        (!checks.are_empty() || props.kind == "integer" || props.kind == "number").then(|| Box::new(checks))
    }

    fn are_empty(&self) -> bool {
        let numbers = [self.maximum, self.minimum, self.multiple_of];
        let counts = [
            self.max_length,
            self.min_length,
            self.max_items,
            self.min_items,
            self.max_properties,
            self.min_properties,
        ];
        self.format.is_empty()
            && numbers.iter().all(Option::is_none)
            && counts.iter().all(Option::is_none)
            && self.pattern.is_empty()
            && !self.unique_items
            && self.values.is_empty()
            && self.required.is_empty()
            && !self.has_junctors()
    }
}
