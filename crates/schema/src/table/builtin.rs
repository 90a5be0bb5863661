//! The columns of Kubernetes' own kinds, which are not paths: some are counted, joined, or told in words.
//!
//! Of a kind that is not listed here, the moment of creation is shown, as Kubernetes does.
//!
//! Follows Kubernetes 1.36.4, `pkg/printers/internalversion/printers.go`.

mod cluster;
mod network;
mod pods;
mod seen;
mod storage;
mod workloads;

use serde_json::Value;

use super::{CellSource, Column};
use seen::Seen;

/// A column as the tables of this module write it down.
struct BuiltinColumn {
    name: &'static str,
    kind: &'static str,
    is_on_demand: bool,
    cell: fn(&Seen<'_>) -> Value,
}

const fn text(name: &'static str, cell: fn(&Seen<'_>) -> Value) -> BuiltinColumn {
    BuiltinColumn { name, kind: "string", is_on_demand: false, cell }
}

const fn integer(name: &'static str, cell: fn(&Seen<'_>) -> Value) -> BuiltinColumn {
    BuiltinColumn { name, kind: "integer", is_on_demand: false, cell }
}

const fn boolean(name: &'static str, cell: fn(&Seen<'_>) -> Value) -> BuiltinColumn {
    BuiltinColumn { name, kind: "boolean", is_on_demand: false, cell }
}

const fn wide(name: &'static str, cell: fn(&Seen<'_>) -> Value) -> BuiltinColumn {
    BuiltinColumn { name, kind: "string", is_on_demand: true, cell }
}

const NAME: BuiltinColumn = text("Name", |it| it.text("/metadata/name").into());
const AGE: BuiltinColumn = text("Age", |it| it.age("/metadata/creationTimestamp").into());
const CREATED: BuiltinColumn = BuiltinColumn {
    name: "Created At",
    kind: "date",
    ..text("", |it| it.text("/metadata/creationTimestamp").into())
};

const ONLY_AGE: &[BuiltinColumn] = &[NAME, AGE];
const UNLISTED: &[BuiltinColumn] = &[NAME, CREATED];

/// The columns of a kind of Kubernetes.
pub(super) fn columns(group: &str, plural: &str) -> Vec<Column> {
    let known = workloads::columns(group, plural)
        .or_else(|| network::columns(group, plural))
        .or_else(|| storage::columns(group, plural))
        .or_else(|| cluster::columns(group, plural));
    known.unwrap_or(UNLISTED).iter().map(Column::known).collect()
}

impl Column {
    /// Every table begins with it.
    pub(super) fn name() -> Self {
        Self { description: "The name of the object".to_owned(), ..Self::known(&NAME) }
    }

    fn known(known: &BuiltinColumn) -> Self {
        let format = if known.name == "Name" { "name" } else { "" };
        Self {
            name: known.name.to_owned(),
            kind: known.kind.to_owned(),
            format: format.to_owned(),
            description: String::new(),
            priority: known.is_on_demand.into(),
            source: CellSource::Computed(Computed(known.cell)),
        }
    }
}

/// What a cell is computed with.
#[derive(Clone, Copy)]
pub(super) struct Computed(fn(&Seen<'_>) -> Value);

impl Computed {
    pub(super) fn cell(self, object: &Value, now: super::Instant) -> Value {
        (self.0)(&Seen { object, now })
    }
}

impl std::fmt::Debug for Computed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Computed")
    }
}

#[cfg(test)]
mod tests;
