//! How a strategic merge patch treats the fields of a kind, from the tables.
//!
//! Follows apimachinery 0.36.4, `pkg/util/strategicpatch/meta.go`.

use std::collections::HashSet;

use super::table::{FieldType, Form, Type, TypeField};
use crate::patch::facts::{Facts, PatchField as Fact, PatchShape, Strategy};

/// The facts about a kind, by the names of its types.
pub(super) fn of(kind: &'static Type) -> Facts {
    let mut collector = Collector { facts: Facts::default(), known: HashSet::new() };
    collector.structure(kind);
    collector.facts
}

struct Collector {
    facts: Facts,
    known: HashSet<&'static str>,
}

impl Collector {
    fn structure(&mut self, of: &'static Type) {
        // Types may contain themselves (JSONSchemaProps does).
        if !self.known.insert(of.name) {
            return;
        }
        if of.is_kind {
            for name in ["apiVersion", "kind"] {
                self.facts.add(of.name, name, Fact::new(PatchShape::other("string")));
            }
        }
        for field in of.fields() {
            let shape = self.shape(&field.shape);
            self.facts.add(of.name, field.name, with_patch(field, shape));
        }
    }

    fn shape(&mut self, holds: &'static FieldType) -> PatchShape {
        match &holds.form {
            Form::Struct(reference) => {
                self.structure(reference.get());
                PatchShape::object(reference.name)
            }
            Form::List { item, .. } => PatchShape::list(self.shape(item)),
            Form::Map(item) => {
                self.shape(item);
                PatchShape::other("map")
            }
            // To reflection in Go, bytes are a slice; error messages name it.
            Form::Bytes => PatchShape::list(PatchShape::other("uint8")),
            Form::Text => PatchShape::other("string"),
            Form::Flag => PatchShape::other("bool"),
            Form::Int32 => PatchShape::other("int32"),
            Form::Int64 => PatchShape::other("int64"),
            Form::Double => PatchShape::other("float64"),
            _ => {
                let name = holds.go_name();
                PatchShape::object(name.rsplit('.').next().unwrap_or(&name))
            }
        }
    }
}

fn with_patch(field: &'static TypeField, shape: PatchShape) -> Fact {
    let strategies: Vec<_> = field.patch.unwrap_or_default().split(',').collect();
    let strategy = if strategies.contains(&"replace") {
        Strategy::Replace
    } else if strategies.contains(&"merge") {
        Strategy::Merge
    } else {
        Strategy::Usual
    };
    let fact = Fact::new(shape).with_strategy(strategy);
    match field.merge_key {
        Some(key) => fact.with_merge_key(key),
        None => fact,
    }
}
