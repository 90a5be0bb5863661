//! Which fields differ between two objects.
//!
//! Follows structured-merge-diff 6.3.3, `typed/compare.go`.

use std::cmp::Ordering;

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::list::{check_item, compare_items, first_run, item_element, sorted_positions};
use super::path::{Element, are_equal};
use super::set::Set;
use super::shape::{Cursor, Form, Forms, Items, ListShape, MapShape, ScalarShape};
use super::validate::{Problem, Problems, check_scalar, prefix};

/// What one object lacks, changes and has more than another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison<'a> {
    pub removed: Set<'a>,
    pub modified: Set<'a>,
    pub added: Set<'a>,
}

impl Comparison<'_> {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// The same, which no longer needs the objects that were compared.
    pub fn into_owned(self) -> Comparison<'static> {
        Comparison {
            removed: self.removed.into_owned(),
            modified: self.modified.into_owned(),
            added: self.added.into_owned(),
        }
    }
}

/// Compares two objects, except for their managed fields.
pub fn compare<'a>(
    before: &'a JsonObject,
    after: &'a JsonObject,
    cursor: Cursor<'a>,
) -> Result<Comparison<'a>, Problems> {
    let mut walk = ValueComparer::default();
    if let Form::Map(map) = cursor.form(cursor.forms()) {
        walk.map(Some(before), Some(after), map, cursor);
    }
    if walk.problems.is_empty() { Ok(walk.comparison) } else { Err(Problems(walk.problems)) }
}

/// A step of a walk, which is named only if there is something to say about it.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathStep<'a> {
    Field(&'a str),
    Item(&'a ListShape, Cursor<'a>, &'a Value),
}

impl<'a> PathStep<'a> {
    fn element(self) -> Element<'a> {
        match self {
            Self::Field(name) => Element::field(name),
            Self::Item(list, cursor, item) => item_element(list, cursor, item).unwrap_or(Element::Unnamed),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ValueComparer<'a> {
    steps: Vec<PathStep<'a>>,
    /// The steps that were named already.
    path: Vec<Element<'a>>,
    pub(super) comparison: Comparison<'a>,
    problems: Vec<Problem>,
}

/// Whether the comparison goes no deeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Leaf,
    Inner,
}

impl<'a> ValueComparer<'a> {
    /// Compares what lies behind a step.
    pub(super) fn step(
        &mut self,
        step: PathStep<'a>,
        before: Option<&'a Value>,
        after: Option<&'a Value>,
        cursor: Cursor<'a>,
    ) {
        let known = self.problems.len();
        self.within(step, |walk| walk.value(before, after, cursor));
        prefix(&mut self.problems[known..], || step.element().to_string());
    }

    /// Does something behind a step.
    pub(super) fn within<T>(&mut self, step: PathStep<'a>, visit: impl FnOnce(&mut Self) -> T) -> T {
        self.steps.push(step);
        let result = visit(self);
        self.steps.pop();
        // Steps are named only when something below differs, and the names are kept for as long as they are
        // on the way: most fields differ in nothing.
        self.path.truncate(self.steps.len());
        result
    }

    fn note(&mut self, choose: for<'c> fn(&'c mut Comparison<'a>) -> &'c mut Set<'a>) {
        let named = self.path.len();
        self.path.extend(self.steps[named..].iter().map(|step| step.element()));
        choose(&mut self.comparison).insert(&self.path);
    }

    fn note_added(&mut self) {
        self.note(|comparison| &mut comparison.added);
    }

    /// Compares a value with the one that takes its place.
    pub(super) fn replaced(&mut self, before: &'a Value, after: &'a Value, cursor: Cursor<'a>) {
        self.value(Some(before), Some(after), cursor);
    }

    fn value(&mut self, before: Option<&'a Value>, after: Option<&'a Value>, cursor: Cursor<'a>) {
        checkpoint();
        let forms = |value: Option<&Value>| value.map(|value| cursor.deduce(value));
        let depth = match (forms(before), forms(after)) {
            (None, None) => return,
            // A value that changes from a map to a list is compared as both, and the second result decides,
            // as upstream does.
            (Some(before_forms), Some(after_forms)) if before_forms != after_forms => {
                self.form(before, after, before_forms, cursor);
                self.form(before, after, after_forms, cursor)
            }
            (_, Some(forms)) | (Some(forms), None) => self.form(before, after, forms, cursor),
        };
        if depth == Depth::Leaf {
            return;
        }
        match (before, after) {
            (None, _) => self.note_added(),
            (_, None) => self.note_removed(),
            _ => {}
        }
    }

    fn form(
        &mut self,
        before: Option<&'a Value>,
        after: Option<&'a Value>,
        forms: Forms,
        cursor: Cursor<'a>,
    ) -> Depth {
        match cursor.form(forms) {
            Form::Map(map) => {
                let (one, other) = (as_map(before), as_map(after));
                if map.is_atomic || is_blank(one.map(JsonObject::len), other.map(JsonObject::len)) {
                    return self.leaf(before, after);
                }
                self.map(one, other, map, cursor);
                Depth::Inner
            }
            Form::List(list) => {
                let (one, other) = (as_list(before), as_list(after));
                let is_atomic = matches!(list.items, Items::Atomic);
                if is_atomic || is_blank(one.map(<[_]>::len), other.map(<[_]>::len)) {
                    return self.leaf(before, after);
                }
                self.list(one.unwrap_or_default(), other.unwrap_or_default(), list, cursor);
                Depth::Inner
            }
            Form::Scalar(scalar) => self.scalar(before, after, scalar),
            Form::None => {
                self.problems.push(Problem::new("schema error: invalid atom: inlined"));
                Depth::Inner
            }
        }
    }

    fn scalar(&mut self, before: Option<&'a Value>, after: Option<&'a Value>, scalar: ScalarShape) -> Depth {
        let one = before.and_then(|value| check_scalar(scalar, value, "lhs: "));
        let other = after.and_then(|value| check_scalar(scalar, value, "rhs: "));
        // A complaint needs both sides to be wrong: objects from before a schema change are compared as they
        // are.
        if let (Some(one), Some(other)) = (one, other) {
            self.problems.extend([one, other]);
            return Depth::Inner;
        }
        self.leaf(before, after)
    }

    /// Notes the difference of values that are one piece.
    fn leaf(&mut self, before: Option<&'a Value>, after: Option<&'a Value>) -> Depth {
        match (before, after) {
            (None, _) => self.note_added(),
            (_, None) => self.note_removed(),
            (Some(before), Some(after)) if !are_equal(before, after) => self.note_modified(),
            _ => {}
        }
        Depth::Leaf
    }

    pub(super) fn note_modified(&mut self) {
        self.note(|comparison| &mut comparison.modified);
    }

    pub(super) fn note_removed(&mut self) {
        self.note(|comparison| &mut comparison.removed);
    }

    fn map(
        &mut self,
        before: Option<&'a JsonObject>,
        after: Option<&'a JsonObject>,
        map: &'a MapShape,
        cursor: Cursor<'a>,
    ) {
        let (mut before, mut after) = (before.into_iter().flatten(), after.into_iter().flatten());
        let (mut one, mut other) = (before.next(), after.next());
        // Both maps are sorted, so that one pass through both finds every name in order; sets are built
        // fastest in order.
        while let Some(name) = one.map(|(name, _)| name).into_iter().chain(other.map(|(name, _)| name)).min()
        {
            let old = one.filter(|(own, _)| *own == name);
            let new = other.filter(|(own, _)| *own == name);
            if old.is_some() {
                one = before.next();
            }
            if new.is_some() {
                other = after.next();
            }
            // Owners do not own the list of owners, and it differs in every write.
            if self.is_at_managed_fields(name) {
                continue;
            }
            let (old, new) = (old.map(|(_, value)| value), new.map(|(_, value)| value));
            self.step(PathStep::Field(name), old, new, cursor.field_or_deduced(map, name));
        }
    }

    fn is_at_managed_fields(&self, name: &str) -> bool {
        name == "managedFields" && matches!(self.steps.as_slice(), [PathStep::Field("metadata")])
    }

    fn list(&mut self, before: &'a [Value], after: &'a [Value], list: &'a ListShape, cursor: Cursor<'a>) {
        // Most lists are the same, and sorting both is what a comparison costs.
        if before == after {
            return;
        }
        self.check_items(before, list, cursor);
        self.check_items(after, list, cursor);
        let (old_order, new_order) = (sorted_positions(list, before), sorted_positions(list, after));
        let (mut old_rest, mut new_rest) = (old_order.as_slice(), new_order.as_slice());
        loop {
            let order = match (old_rest.first(), new_rest.first()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => compare_items(list, &before[*old as usize], &after[*new as usize]),
            };
            let old_run = if order.is_le() { first_run(old_rest, list, before) } else { &[] };
            let new_run = if order.is_ge() { first_run(new_rest, list, after) } else { &[] };
            old_rest = &old_rest[old_run.len()..];
            new_rest = &new_rest[new_run.len()..];
            let old_run = Run { positions: old_run, items: before };
            let new_run = Run { positions: new_run, items: after };
            if let Some(item) =
                old_run.first().or(new_run.first()).filter(|item| check_item(list, cursor, item).is_ok())
            {
                self.items(PathStep::Item(list, cursor, item), old_run, new_run, cursor.at(list.element));
            }
        }
    }

    /// Complains about items without a name.
    fn check_items(&mut self, items: &'a [Value], list: &'a ListShape, cursor: Cursor<'a>) {
        for (index, item) in items.iter().enumerate() {
            if let Err(reason) = check_item(list, cursor, item) {
                self.problems.push(Problem::new(format!("element {index}: {reason}")));
            }
        }
    }

    /// Compares all items of one name. Those that exist more than once are compared as one piece.
    fn items(&mut self, step: PathStep<'a>, before: Run<'a, '_>, after: Run<'a, '_>, cursor: Cursor<'a>) {
        match (before.positions.len(), after.positions.len()) {
            (0 | 1, 0 | 1) => self.step(step, before.first(), after.first(), cursor),
            (2.., 2..) => {
                if !before.is_equal(after) {
                    self.within(step, Self::note_modified);
                }
            }
            (2.., _) => {
                if let Some(item) = after.first() {
                    self.step(step, None, Some(item), cursor);
                }
                self.within(step, Self::note_removed);
            }
            _ => {
                if let Some(item) = before.first() {
                    self.step(step, Some(item), None, cursor);
                }
                self.within(step, Self::note_added);
            }
        }
    }
}

/// Items of the same name.
#[derive(Clone, Copy)]
struct Run<'a, 'p> {
    positions: &'p [u32],
    items: &'a [Value],
}

impl<'a> Run<'a, '_> {
    fn first(self) -> Option<&'a Value> {
        self.positions.first().map(|position| &self.items[*position as usize])
    }

    fn is_equal(self, other: Run<'_, '_>) -> bool {
        let is_same = |(one, other): (&u32, &Value)| are_equal(&self.items[*one as usize], other);
        let others = other.positions.iter().map(|position| &other.items[*position as usize]);
        self.positions.len() == other.positions.len() && self.positions.iter().zip(others).all(is_same)
    }
}

fn as_map(value: Option<&Value>) -> Option<&JsonObject> {
    value.and_then(Value::as_object)
}

fn as_list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}

/// Whether there is nothing on either side. Such values are one piece, which tells null from empty.
fn is_blank(one: Option<usize>, other: Option<usize>) -> bool {
    one.unwrap_or_default() == 0 && other.unwrap_or_default() == 0
}
