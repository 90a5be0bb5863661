//! An expression as it was written, with macros expanded.
//!
//! Our own design: the syntax tree keeps positions, which messages need, and depths, which bound every recursion.

use super::source::Position;
use super::value::Value;

/// Tells the parts of one expression apart. The parser hands them out; no two parts have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ExpressionId(pub(super) u32);

#[derive(Debug, Clone)]
pub(super) struct Expression {
    pub(super) id: ExpressionId,
    pub(super) position: Position,
    /// How many expressions are nested in this one, itself included. Bounds every recursion over it.
    // Small on purpose, as ids are: the parser holds several expressions in each of its many frames.
    pub(super) depth: u32,
    pub(super) kind: ExpressionKind,
}

#[derive(Debug, Clone)]
pub(super) enum ExpressionKind {
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
    Map(Vec<MapEntry>),
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
pub(super) struct MapEntry {
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

impl ExpressionKind {
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

    // Kept in step with `children` by hand: Rust has no way to write both at once.
    fn children_mut(&mut self) -> Vec<&mut Expression> {
        match self {
            Self::Literal(_) | Self::Identifier(_) | Self::Message(_) => Vec::new(),
            Self::Select { operand, .. } => vec![operand],
            Self::Call { target, arguments, .. } => {
                target.iter_mut().map(AsMut::as_mut).chain(arguments).collect()
            }
            Self::List(elements) => elements.iter_mut().map(|element| &mut element.value).collect(),
            Self::Map(entries) => {
                entries.iter_mut().flat_map(|entry| [&mut entry.key, &mut entry.value]).collect()
            }
            Self::Fold(fold) => {
                let Fold { range, initial, condition, step, result, .. } = fold.as_mut();
                vec![range, initial, condition, step, result]
            }
        }
    }
}

impl Expression {
    /// How many expressions there are, itself included.
    pub(super) fn size(&self) -> usize {
        1 + self.kind.children().into_iter().map(Self::size).sum::<usize>()
    }

    /// Gives every part the next free id: a copy stands elsewhere, where names can mean something else.
    pub(super) fn renumber(&mut self, next: &mut u32) {
        self.id = ExpressionId(*next);
        *next += 1;
        for child in self.kind.children_mut() {
            child.renumber(next);
        }
    }
}
