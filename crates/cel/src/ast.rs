//! An expression as it was written, with macros expanded.

use super::source::Position;
use super::value::Value;

#[derive(Debug, Clone)]
pub(super) struct Expression {
    pub(super) position: Position,
    /// How many expressions are nested in this one, itself included. Bounds every recursion over it.
    pub(super) depth: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Literal(Value<'static>),
    Identifier(String),
    Select {
        operand: Box<Expression>,
        field: String,
        is_test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Expression>>,
        arguments: Vec<Expression>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// A message of some type. There are none, so only the name matters.
    Message(String),
    Fold(Box<Fold>),
}

#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) value: Expression,
    pub(super) is_optional: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Expression,
    pub(super) value: Expression,
    pub(super) is_optional: bool,
}

/// What every comprehension becomes: a loop with an accumulator.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) range: Expression,
    pub(super) variable: String,
    pub(super) second: Option<String>,
    pub(super) accumulator: String,
    pub(super) initial: Expression,
    pub(super) condition: Expression,
    pub(super) step: Expression,
    pub(super) result: Expression,
}

impl Kind {
    pub(super) fn children(&self) -> Vec<&Expression> {
        match self {
            Self::Literal(_) | Self::Identifier(_) | Self::Message(_) => Vec::new(),
            Self::Select { operand, .. } => vec![operand],
            Self::Call { target, arguments, .. } => {
                target.iter().map(AsRef::as_ref).chain(arguments).collect()
            }
            Self::List(elements) => elements.iter().map(|element| &element.value).collect(),
            Self::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Self::Fold(fold) => {
                vec![&fold.range, &fold.initial, &fold.condition, &fold.step, &fold.result]
            }
        }
    }
}

impl Expression {
    /// How many expressions there are, itself included.
    pub(super) fn size(&self) -> usize {
        1 + self.kind.children().into_iter().map(Self::size).sum::<usize>()
    }
}
