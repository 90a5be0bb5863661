//! How values merge: what is granular, what is one piece, which keys name the items of a list.
//!
//! Shapes refer to each other by number, so that types may contain themselves. Two of them always exist: the one of undeclared values,
//! [`DEDUCED`], whose maps are granular and whose lists are one piece, and the
//! one of values inside such lists, [`UNTYPED`].
//!
//! Follows structured-merge-diff 6.3.3, `schema/elements.go`.

mod metadata;
mod openapi;

use std::sync::Arc;

use serde_json::Value;

pub use openapi::Error;

/// The number of a shape among its [`Shapes`].
pub type Id = u32;

/// Undeclared values: granular maps, and lists in one piece.
pub const DEDUCED: Id = 0;
/// Values in one piece.
pub const UNTYPED: Id = 1;

/// The shapes of a kind.
#[derive(Debug, Clone)]
pub struct Shapes {
    shapes: Vec<MergeShape>,
    root: Id,
}

/// What a value may be. Several at once, if its type is not known.
#[derive(Debug, Clone, Default)]
pub struct MergeShape {
    pub scalar: Option<ScalarShape>,
    pub list: Option<ListShape>,
    pub map: Option<MapShape>,
}

/// Kinds of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarShape {
    Numeric,
    Text,
    Boolean,
    Untyped,
}

/// A list, and how its items are identified.
#[derive(Debug, Clone)]
pub struct ListShape {
    pub items: Items,
    pub element: Id,
}

/// How the items of a list are identified.
#[derive(Debug, Clone)]
pub enum Items {
    /// Not at all: the list is one piece.
    Atomic,
    /// By their values.
    Set,
    /// By the values of these fields, sorted by name.
    Keyed(Vec<ListKey>),
}

/// A field that tells the items of a list apart.
#[derive(Debug, Clone)]
pub struct ListKey {
    pub(super) name: Arc<str>,
    /// What an item means that does not say.
    pub(super) default: Option<Value>,
    /// Where the schema names it.
    pub(super) place: usize,
}

impl Items {
    /// Items that these fields tell apart, with what is meant by items that do not say.
    pub fn keyed<'n>(keys: impl IntoIterator<Item = (&'n str, Option<Value>)>) -> Self {
        let key = |(place, (name, default)): (usize, (&str, Option<Value>))| ListKey {
            name: Arc::from(name),
            default,
            place,
        };
        let mut keys: Vec<_> = keys.into_iter().enumerate().map(key).collect();
        keys.sort_by(|one, other| one.name.cmp(&other.name));
        Self::Keyed(keys)
    }
}

/// An object with fields of known names, others, or both.
#[derive(Debug, Clone, Default)]
pub struct MapShape {
    /// Sorted by length and name, so that most names differ by their length already.
    fields: Vec<(Arc<str>, Id)>,
    /// The shape of all other fields. Without, there may be none.
    pub element: Option<Id>,
    /// Whether it is one piece.
    pub is_atomic: bool,
    /// Whether nothing is known about its fields, so that owners keep what they wrote down.
    pub is_undeclared: bool,
}

impl Shapes {
    /// Shapes to add to.
    pub fn new() -> Self {
        let untyped_list = || Some(ListShape { items: Items::Atomic, element: UNTYPED });
        let map = |element, is_atomic| MapShape {
            element: Some(element),
            is_atomic,
            is_undeclared: element == DEDUCED,
            ..MapShape::default()
        };
        let deduced = MergeShape {
            scalar: Some(ScalarShape::Untyped),
            list: untyped_list(),
            map: Some(map(DEDUCED, false)),
        };
        let untyped = MergeShape {
            scalar: Some(ScalarShape::Untyped),
            list: untyped_list(),
            map: Some(map(UNTYPED, true)),
        };
        Self { shapes: vec![deduced, untyped], root: DEDUCED }
    }

    /// The shapes of a kind without a schema: everything is deduced.
    pub fn deduced() -> Self {
        Self::new()
    }

    /// Adds a shape.
    pub fn add(&mut self, shape: MergeShape) -> Id {
        self.shapes.push(shape);
        // A schema is a document of some megabytes at most, which cannot have that many shapes.
        Id::try_from(self.shapes.len() - 1).unwrap_or(DEDUCED)
    }

    /// Replaces a shape, which lets it contain itself.
    pub fn set(&mut self, id: Id, shape: MergeShape) {
        // The two shapes that always exist cannot be replaced, because `takes_anything` knows them by number.
        if let Some(place) = self.shapes.get_mut(id as usize).filter(|_| id > UNTYPED) {
            *place = shape;
        }
    }

    /// Says which shape an object of the kind has.
    pub fn set_root(&mut self, id: Id) {
        self.root = id;
        // Nothing is added afterwards, and every version of every kind has its own.
        self.shapes.shrink_to_fit();
    }

    /// Where a walk starts.
    pub fn root(&self) -> Cursor<'_> {
        Cursor { shapes: self, id: self.root }
    }

    fn get(&self, id: Id) -> &MergeShape {
        // An unknown number is a mistake of the code that built the shapes; deducing is the safe answer.
        self.shapes.get(id as usize).unwrap_or(&self.shapes[DEDUCED as usize])
    }
}

impl Default for Shapes {
    fn default() -> Self {
        Self::new()
    }
}

impl MergeShape {
    pub fn scalar(kind: ScalarShape) -> Self {
        Self { scalar: Some(kind), ..Self::default() }
    }

    pub fn list(items: Items, element: Id) -> Self {
        Self { list: Some(ListShape { items, element }), ..Self::default() }
    }

    pub fn map(map: MapShape) -> Self {
        Self { map: Some(map), ..Self::default() }
    }
}

impl MapShape {
    /// An object with these fields and no others.
    pub fn of_fields<'n>(fields: impl IntoIterator<Item = (&'n str, Id)>) -> Self {
        let mut map = Self::default();
        fields.into_iter().for_each(|(name, id)| map.declare(name, id));
        map
    }

    /// An object whose fields have any names and one shape.
    pub fn of_elements(element: Id) -> Self {
        Self { element: Some(element), is_undeclared: element == DEDUCED, ..Self::default() }
    }

    /// The same in one piece, or not.
    #[must_use]
    pub fn with_atomic(self, is_atomic: bool) -> Self {
        Self { is_atomic, ..self }
    }

    /// Declares a field, or declares it anew.
    pub fn declare(&mut self, name: &str, id: Id) {
        match self.position(name) {
            Ok(index) => self.fields[index].1 = id,
            Err(index) => self.fields.insert(index, (Arc::from(name), id)),
        }
    }

    /// Whether no field is declared.
    pub fn is_without_fields(&self) -> bool {
        self.fields.is_empty()
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        let length = name.len();
        self.fields.binary_search_by(|(own, _)| {
            own.len().cmp(&length).then_with(|| own.as_bytes().cmp(name.as_bytes()))
        })
    }

    fn find(&self, name: &str) -> Option<Id> {
        self.position(name).ok().map(|index| self.fields[index].1)
    }
}

/// A place in the shapes of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    shapes: &'a Shapes,
    id: Id,
}

/// Which of the forms of a shape are still possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forms(u8);

const MAP: u8 = 1;
const SCALAR: u8 = 2;
const LIST: u8 = 4;

/// The form that decides how a value is treated.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    Map(&'a MapShape),
    Scalar(ScalarShape),
    List(&'a ListShape),
    None,
}

impl<'a> Cursor<'a> {
    pub(super) fn shape(self) -> &'a MergeShape {
        self.shapes.get(self.id)
    }

    /// Whether any value fits.
    pub(super) fn takes_anything(self) -> bool {
        self.id <= UNTYPED
    }

    pub(super) fn at(self, id: Id) -> Self {
        Self { shapes: self.shapes, id }
    }

    /// The shape of a field, and whether its name is declared.
    pub(super) fn field(self, map: &MapShape, name: &str) -> (Option<Self>, bool) {
        match map.find(name) {
            Some(id) => (Some(self.at(id)), true),
            None => (map.element.map(|id| self.at(id)), false),
        }
    }

    /// The shape of a field. One that may not be there is taken for undeclared.
    pub(super) fn field_or_deduced(self, map: &MapShape, name: &str) -> Self {
        self.field(map, name).0.unwrap_or(self.at(DEDUCED))
    }

    pub(super) fn has_field(self, name: &str) -> bool {
        self.shape().map.as_ref().is_some_and(|map| map.find(name).is_some())
    }

    /// The forms that a value leaves possible. Null leaves all, and so does what does not fit at all.
    pub(super) fn deduce(self, value: &Value) -> Forms {
        let all = self.forms();
        let own = match value {
            Value::Null => 0,
            Value::Array(_) => LIST,
            Value::Object(_) => MAP,
            // Numbers, texts and truths alike: which scalar it may be is checked where values are validated.
            _ => SCALAR,
        };
        if all.0 & own == 0 { all } else { Forms(own) }
    }

    pub(super) fn forms(self) -> Forms {
        let shape = self.shape();
        let bit = |is_there: bool, bit| if is_there { bit } else { 0 };
        Forms(
            bit(shape.map.is_some(), MAP)
                | bit(shape.scalar.is_some(), SCALAR)
                | bit(shape.list.is_some(), LIST),
        )
    }

    /// The form that decides, if several are possible.
    pub(super) fn form(self, forms: Forms) -> Form<'a> {
        let shape = self.shape();
        match (&shape.map, shape.scalar, &shape.list) {
            // Map, scalar, list: the order of `handleAtom` in typed/helpers.go.
            (Some(map), _, _) if forms.0 & MAP != 0 => Form::Map(map),
            (_, Some(scalar), _) if forms.0 & SCALAR != 0 => Form::Scalar(scalar),
            (_, _, Some(list)) if forms.0 & LIST != 0 => Form::List(list),
            _ => Form::None,
        }
    }
}
