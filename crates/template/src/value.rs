//! Values as templates see them: Go's dynamic values, with the Go type that each has.
//!
//! Our own design: Go has `any` and reflection. Lists never change once made, as no function changes one in place;
//! maps are shared and change in place, as templates rely on for `set`, `unset` and `merge`. All functions that change a map ask for
//! one with strings for keys, so that an [`AnyMap`] never changes either.

use std::any::Any;
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use ferroplane_golang::fmt::Numbers;

use crate::heap::Heap;
use crate::{AnyMap, Failure, Text, Type};

/// A Go value. Cheap to clone: what is large is shared.
#[derive(Clone, Debug)]
pub enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    Int64(i64),
    Uint8(u8),
    Uint64(u64),
    Float(f64),
    Complex(Box<[f64; 2]>),
    String(Text),
    /// `[]byte`.
    Bytes(Text),
    List(Rc<List>),
    Map(Rc<Map>),
    AnyMap(Rc<AnyMap>),
    /// What has fields or methods, like `time.Time`.
    Object(Rc<dyn Object>),
}

impl Value {
    /// The type that it has in Go; [`Type::Any`] for nil, which has none.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Nil => Type::Any,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Int64(_) => Type::Int64,
            Self::Uint8(_) => Type::Uint8,
            Self::Uint64(_) => Type::Uint64,
            Self::Float(_) => Type::Float64,
            Self::Complex(_) => Type::Complex128,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::BYTES,
            Self::List(list) => Type::List(list.element),
            Self::Map(map) => Type::Map(map.element),
            Self::AnyMap(_) => Type::AnyMap,
            Self::Object(object) => object.type_of(),
        }
    }

    /// Whether Go's templates take it for true: what is not empty and not zero.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(truth) => *truth,
            Self::Int(whole) | Self::Int64(whole) => *whole != 0,
            Self::Uint8(whole) => *whole != 0,
            Self::Uint64(whole) => *whole != 0,
            Self::Float(float) => *float != 0.0,
            Self::Complex(parts) => parts.iter().any(|part| *part != 0.0),
            Self::String(text) | Self::Bytes(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::AnyMap(map) => !map.is_empty(),
            Self::Object(object) => object.integer().is_none_or(|whole| whole != 0),
        }
    }

    /// Text as a value.
    pub fn text(text: impl Into<Text>) -> Self {
        Self::String(text.into())
    }

    /// What a JSON document is in Go, with numbers of these types.
    pub fn from_json(heap: &Heap, json: &serde_json::Value, numbers: Numbers) -> Self {
        use ferroplane_golang::fmt::Any as Json;
        match Json::of(json, numbers) {
            Json::Bool(truth) => Self::Bool(truth),
            Json::Int(whole) => Self::Int64(whole),
            Json::Float(float) => Self::Float(float),
            Json::Text(text) => Self::text(text.as_ref()),
            Json::Array(items, _) => {
                let items: Vec<_> = items.iter().map(|item| Self::from_json(heap, item, numbers)).collect();
                // A document has a limit of nesting of its own, far below that of lists.
                List::new(&Type::Any, items).map_or(Self::Nil, Self::List)
            }
            Json::Object(object, _) => {
                let entries = object
                    .iter()
                    .map(|(key, item)| (key.as_str().into(), Self::from_json(heap, item, numbers)));
                Self::Map(heap.map(&Type::Any, entries.collect()))
            }
            Json::Nil | Json::Bytes(_) | Json::NilArray | Json::NilObject => Self::Nil,
        }
    }
}

/// A Go slice. It never changes.
#[derive(Debug)]
pub struct List {
    element: &'static Type,
    items: Vec<Value>,
    is_nil: bool,
    /// How deep lists are nested in each other. Maps end the count: the [`Heap`] frees them one by one.
    depth: u32,
}

impl List {
    /// Deeper nesting is refused, because freeing lists recurses.
    const MAX_DEPTH: u32 = 500;

    /// A list of elements of this type, which is [`Type::Any`] for what Go calls `[]interface {}`.
    pub fn new(element: &'static Type, items: Vec<Value>) -> Result<Rc<Self>, Failure> {
        let depth_of = |item: &Value| if let Value::List(list) = item { list.depth } else { 0 };
        let depth = items.iter().map(depth_of).max().unwrap_or(0) + 1;
        if depth > Self::MAX_DEPTH {
            return Err(Failure::new(format!("lists are nested deeper than {}", Self::MAX_DEPTH)));
        }
        Ok(Rc::new(Self { element, items, is_nil: false, depth }))
    }

    /// A list that is nil: it has no items, and is null in JSON.
    pub fn nil(element: &'static Type) -> Rc<Self> {
        Rc::new(Self { element, items: Vec::new(), is_nil: true, depth: 1 })
    }

    pub fn element(&self) -> &'static Type {
        self.element
    }

    pub fn is_nil(&self) -> bool {
        self.is_nil
    }
}

impl std::ops::Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.items
    }
}

/// A Go map with strings for keys. It is shared and changes in place. [`Heap::map`] makes one.
pub struct Map {
    element: &'static Type,
    is_nil: bool,
    entries: RefCell<BTreeMap<Text, Value>>,
    /// Makes the entries when they are first read.
    pending: Cell<Option<MakeEntries>>,
}

/// Makes the entries of a map.
pub(crate) type MakeEntries = Box<dyn FnOnce() -> BTreeMap<Text, Value>>;

impl Map {
    pub(crate) fn new(element: &'static Type, entries: BTreeMap<Text, Value>, is_nil: bool) -> Self {
        Self { element, is_nil, entries: RefCell::new(entries), pending: Cell::new(None) }
    }

    pub(crate) fn pending(element: &'static Type, make: MakeEntries) -> Self {
        let pending = Cell::new(Some(make));
        Self { element, is_nil: false, entries: RefCell::default(), pending }
    }

    /// The entries, which are there from now on.
    fn made(&self) -> &RefCell<BTreeMap<Text, Value>> {
        if let Some(make) = self.pending.take() {
            // The entries are made before the map is borrowed, and never twice: what makes them was taken
            // out.
            *self.entries.borrow_mut() = make();
        }
        &self.entries
    }

    /// The type of its values, which is [`Type::Any`] for what Go calls `map[string]interface {}`.
    pub fn element(&self) -> &'static Type {
        self.element
    }

    pub fn is_nil(&self) -> bool {
        self.is_nil
    }

    pub fn len(&self) -> usize {
        self.made().borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.made().borrow().is_empty()
    }

    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.made().borrow().get(key).cloned()
    }

    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.made().borrow().contains_key(key)
    }

    /// Adds or replaces an entry. A nil map takes none.
    pub fn insert(&self, key: Text, value: Value) -> Result<(), Failure> {
        if self.is_nil {
            return Err(Failure::new("assignment to entry in nil map"));
        }
        // What was there is dropped after the map is free again, in case it is the last that refers to something.
        let _before = self.made().borrow_mut().insert(key, value);
        Ok(())
    }

    pub fn remove(&self, key: &[u8]) -> Option<Value> {
        self.made().borrow_mut().remove(key)
    }

    /// The entries in the order of their keys. Nothing may change the map meanwhile: use [`Map::to_vec`] where values of unknown origin
    /// are read or changed.
    pub fn entries(&self) -> Ref<'_, BTreeMap<Text, Value>> {
        self.made().borrow()
    }

    /// A copy of the entries in the order of their keys.
    pub fn to_vec(&self) -> Vec<(Text, Value)> {
        self.made().borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub(crate) fn clear(&self) {
        drop(self.pending.take());
        drop(self.entries.take());
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not its entries: a map may contain itself.
        f.debug_struct("Map").field("element", &self.element).finish_non_exhaustive()
    }
}

/// A value with fields or methods: a struct, a pointer to one, or a named integer.
pub trait Object: fmt::Debug {
    fn type_of(&self) -> Type;

    /// The value of an exported field.
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }

    /// The names of its exported fields, in the order of their declaration.
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// What JSON shows of it: names and values, in the order of their declaration.
    fn json_fields(&self) -> Vec<(&'static str, Value)> {
        self.fields().iter().map(|name| (*name, self.field(name).unwrap_or(Value::Nil))).collect()
    }

    /// The method with this name. It is called with this object as the first argument, which is not among its
    /// parameters.
    fn method(&self, _name: &str) -> Option<&'static crate::Function> {
        None
    }

    /// What `String()` or `Error()` gives, if the type has it: printing uses it.
    fn string(&self) -> Option<Text> {
        None
    }

    /// The value of a named integer.
    fn integer(&self) -> Option<i64> {
        None
    }

    /// Whether Go's `==` holds; none if the type is not comparable.
    fn equals(&self, other: &dyn Object) -> Option<bool>;

    /// To find out what it is.
    fn as_any(&self) -> &dyn Any;
}
