//! Where reading is, written out only if something is wrong there.
//!
//! Our own design: a path that is written out only when something is wrong there.

use std::fmt::Write as _;

use super::table::Type;

/// A place in an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldLocation<'p> {
    parent: Option<&'p FieldLocation<'p>>,
    step: LocationStep<'p>,
    depth: usize,
}

#[derive(Debug, Clone, Copy)]
enum LocationStep<'p> {
    Root,
    /// A field, and the type that has it.
    Field(&'p str, &'static Type),
    Index(usize),
    Key(&'p str),
}

impl<'p> FieldLocation<'p> {
    pub(super) const ROOT: FieldLocation<'static> =
        FieldLocation { parent: None, step: LocationStep::Root, depth: 0 };

    pub(super) fn field<'c>(&'c self, name: &'c str, owner: &'static Type) -> FieldLocation<'c> {
        self.below(LocationStep::Field(name, owner))
    }

    pub(super) fn index(&'p self, index: usize) -> FieldLocation<'p> {
        self.below(LocationStep::Index(index))
    }

    pub(super) fn key<'c>(&'c self, key: &'c str) -> FieldLocation<'c> {
        self.below(LocationStep::Key(key))
    }

    fn below<'c>(&'c self, step: LocationStep<'c>) -> FieldLocation<'c> {
        FieldLocation { parent: Some(self), step, depth: self.depth + 1 }
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// The path with indices and keys, as complaints about unknown fields have it.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        self.write_path(&mut path);
        path
    }

    fn write_path(&self, path: &mut String) {
        if let Some(parent) = self.parent {
            parent.write_path(path);
        }
        match self.step {
            LocationStep::Root => {}
            LocationStep::Index(index) => {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{index}]");
            }
            LocationStep::Field(name, _) | LocationStep::Key(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
        }
    }

    /// What Go's decoder says about a value that does not fit here.
    pub(super) fn mismatch(&self, found: &str, wanted: &str) -> String {
        match self.owner() {
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
            Some(owner) => {
                let mut fields = Vec::new();
                self.collect_fields(&mut fields);
                let path = fields.join(".");
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")
            }
        }
    }

    /// The innermost type that has the field.
    fn owner(&self) -> Option<&'static str> {
        match self.step {
            LocationStep::Field(_, owner) => Some(owner.name),
            _ => self.parent.and_then(FieldLocation::owner),
        }
    }

    fn collect_fields(&self, fields: &mut Vec<&'p str>) {
        if let Some(parent) = self.parent {
            parent.collect_fields(fields);
        }
        if let LocationStep::Field(name, owner) = self.step {
            // Go's decoder names embedded structs on the way as well.
            fields.extend(owner.inlined(name));
            fields.push(name);
        }
    }
}
