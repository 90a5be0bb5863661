//! A compiled expression: names, overloads and constants are found once, before it is evaluated many times.
//!
//! Follows cel-go 0.29.2, `interpreter/planner.go`.

use std::sync::Arc;

use ferroplane_golang::regexp::Expression;

use super::declarations::{Function, Overload};
use super::value::Value;

/// Something to evaluate.
#[derive(Debug, Clone)]
pub(super) enum ProgramNode {
    Constant(Value<'static>),
    Attribute(Attribute),
    /// Whether the last field of the attribute is there.
    Presence(Attribute),
    And(Box<[ProgramNode; 2]>),
    Or(Box<[ProgramNode; 2]>),
    Equal {
        sides: Box<[ProgramNode; 2]>,
        is_negated: bool,
    },
    /// Whether a constant list has an element.
    InConstant {
        element: Box<ProgramNode>,
        list: Vec<Value<'static>>,
    },
    Call(Box<Call>),
    /// The second operand is checked only if the first has no value.
    OptionalOr {
        sides: Box<[ProgramNode; 2]>,
        is_value: bool,
    },
    List(Vec<ListItem>),
    Map(Vec<MapItem>),
    Fold(Box<Fold>),
}

/// A value and a path into it. Fields cost as they are passed, and the whole costs once.
#[derive(Debug, Clone)]
pub(super) struct Attribute {
    pub(super) root: Root,
    pub(super) qualifiers: Vec<Arc<Qualifier>>,
}

#[derive(Debug, Clone)]
pub(super) enum Root {
    /// A declared variable, by its number.
    Variable(usize),
    /// A name that a macro introduced, by its place.
    Local(usize),
    Operand(Box<ProgramNode>),
    Condition(Box<(ProgramNode, Attribute, Attribute)>),
}

#[derive(Debug, Clone)]
pub(super) struct Qualifier {
    pub(super) key: QualifierKey,
    pub(super) is_optional: bool,
    pub(super) is_test: bool,
}

#[derive(Debug, Clone)]
pub(super) enum QualifierKey {
    Constant(Value<'static>),
    Attribute(Attribute),
    Computed(ProgramNode),
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: &'static Function,
    /// Present if the types of the arguments leave only one.
    pub(super) overload: Option<&'static Overload>,
    pub(super) arguments: Vec<ProgramNode>,
    /// A regular expression that is known already.
    pub(super) regex: Option<Expression>,
    /// The first argument is the accumulator of a loop, which is not read again before it is replaced.
    pub(super) takes_accumulator: bool,
}

#[derive(Debug, Clone)]
pub(super) struct ListItem {
    pub(super) value: ProgramNode,
    pub(super) is_optional: bool,
}

#[derive(Debug, Clone)]
pub(super) struct MapItem {
    pub(super) key: ProgramNode,
    pub(super) value: ProgramNode,
    pub(super) is_optional: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: ProgramNode,
    /// Places of the accumulator, the variable and the second variable are this and the two after it.
    pub(super) place: usize,
    pub(super) has_second: bool,
    pub(super) initial: ProgramNode,
    pub(super) condition: ProgramNode,
    pub(super) step: ProgramNode,
    pub(super) result: ProgramNode,
}

impl Attribute {
    pub(super) fn of(root: Root) -> Self {
        Self { root, qualifiers: Vec::new() }
    }

    /// Goes one step further. Both branches of a condition do.
    pub(super) fn push(&mut self, qualifier: Arc<Qualifier>) {
        match &mut self.root {
            Root::Condition(parts) => {
                // Shared rather than copied: nested conditions would double it at every level.
                parts.1.push(Arc::clone(&qualifier));
                parts.2.push(qualifier);
            }
            _ => self.qualifiers.push(qualifier),
        }
    }
}

impl ProgramNode {
    /// The node as something that has fields.
    pub(super) fn into_attribute(self) -> Attribute {
        match self {
            Self::Attribute(attribute) | Self::Presence(attribute) => attribute,
            other => Attribute::of(Root::Operand(Box::new(other))),
        }
    }

    pub(super) fn as_constant(&self) -> Option<&Value<'static>> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }
}
