//! Adapts field sets to shapes that changed since they were written.
//!
//! Follows structured-merge-diff 6.3.3, `typed/reconcile_schema.go`.

use super::path::Element;
use super::set::Set;
use super::shape::{Cursor, Form, Items};

impl Set<'_> {
    /// What became one piece is owned as one piece. Says whether anything changed.
    pub fn reconcile(&mut self, cursor: Cursor<'_>) -> bool {
        let mut is_changed = false;
        for node in self.nodes.iter_mut().filter(|node| !node.below.is_empty()) {
            let Some(cursor) = step(cursor, &node.element) else { continue };
            if is_one_piece(cursor) {
                node.is_member = true;
                node.below = Set::default();
                is_changed = true;
            } else {
                is_changed |= node.below.reconcile(cursor);
            }
        }
        is_changed
    }
}

/// The shape behind a step, unless what is owned there is left as it is.
fn step<'a>(cursor: Cursor<'a>, element: &Element<'_>) -> Option<Cursor<'a>> {
    match cursor.form(cursor.forms()) {
        // Nothing is known about the fields, so that nothing can have become atomic by a new schema.
        Form::Map(map) if map.is_undeclared => None,
        Form::Map(map) => match element {
            Element::Field(name) => cursor.field(map, name).0,
            _ => map.element.map(|id| cursor.at(id)),
        },
        Form::List(list) => Some(cursor.at(list.element)),
        _ => None,
    }
}

fn is_one_piece(cursor: Cursor<'_>) -> bool {
    match cursor.form(cursor.forms()) {
        Form::Map(map) => map.is_atomic && !map.is_undeclared,
        Form::List(list) => matches!(list.items, Items::Atomic),
        _ => false,
    }
}
