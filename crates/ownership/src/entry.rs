//! The entries of `metadata.managedFields`, read and written.
//!
//! Follows apimachinery 0.36.4, `pkg/util/managedfields/internal/managedfields.go`.

use std::collections::HashMap;

use ferroplane_golang::json::JsonObject;
use serde_json::{Map, Value, json};

use super::ledger::{Identity, Ledger, Operation, Origin, Record};
use super::stamp::Stamp;
use crate::merge::fields;
use crate::merge::rewrite::Rewrite;

/// An entry as it stands in an object, with absent and null fields empty.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ManagedFieldsEntry<'a> {
    manager: &'a str,
    operation: &'a str,
    api_version: &'a str,
    fields_type: &'a str,
    subresource: &'a str,
    time: Option<Stamp<'a>>,
    fields: Option<&'a Value>,
    /// Whether it would be written as it was read, apart from the fields.
    is_canonical: bool,
}

/// The managed fields of an object. Like upstream, takes entries that are no entries for none at all.
pub(super) fn read_entries(object: &JsonObject) -> Option<Vec<ManagedFieldsEntry<'_>>> {
    read_list(object.get("metadata")?.get("managedFields")?)
}

/// The entries of a list.
pub(super) fn read_list(list: &Value) -> Option<Vec<ManagedFieldsEntry<'_>>> {
    list.as_array()?.iter().map(read_entry).collect()
}

fn read_entry(entry: &Value) -> Option<ManagedFieldsEntry<'_>> {
    let mut read = ManagedFieldsEntry { is_canonical: true, ..ManagedFieldsEntry::default() };
    for (name, value) in entry.as_object()? {
        let place = match name.as_str() {
            "manager" => &mut read.manager,
            "operation" => &mut read.operation,
            "apiVersion" => &mut read.api_version,
            "fieldsType" => &mut read.fields_type,
            "subresource" => &mut read.subresource,
            "time" => {
                read.time = match value {
                    Value::Null => None,
                    value => Some(Stamp::parse(value.as_str()?)?),
                };
                let is_written_so =
                    |stamp: &Stamp<'_>| value.as_str().is_some_and(|text| stamp.is_written_as(text));
                // A time in another zone or with a fraction would be written otherwise, so that the entry
                // cannot be reused as it is.
                read.is_canonical &= read.time.as_ref().is_some_and(is_written_so);
                continue;
            }
            "fieldsV1" => {
                read.fields = Some(value).filter(|value| !value.is_null());
                continue;
            }
            // Unknown fields are dropped when Go writes an entry back.
            _ => {
                read.is_canonical = false;
                continue;
            }
        };
        *place = match value {
            Value::Null => "",
            value => value.as_str()?,
        };
        // Go leaves empty fields out (`omitempty`).
        read.is_canonical &= !place.is_empty();
    }
    Some(read)
}

/// Whether the list asks to forget all owners: it is empty, or has one empty entry.
pub(super) fn is_reset(entries: &[ManagedFieldsEntry<'_>]) -> bool {
    match entries {
        [] => true,
        [only] => {
            *only == ManagedFieldsEntry { is_canonical: only.is_canonical, ..ManagedFieldsEntry::default() }
        }
        _ => false,
    }
}

/// Reads the owners from entries. A later entry of the same identity replaces an earlier one.
pub(super) fn decode(entries: Vec<ManagedFieldsEntry<'_>>) -> Result<Ledger<'_>, String> {
    let mut ledger = Ledger { records: Vec::with_capacity(entries.len()) };
    // There are few entries, unless a client wants to waste our time.
    let mut known = (entries.len() > 32).then(HashMap::new);
    for (index, entry) in entries.into_iter().enumerate() {
        let record = decode_entry(index, entry)?;
        let position = match &mut known {
            None => ledger.position(&record.identity),
            // The text leaves the version of appliers out, as `is_same` does, so that both ways find the same
            // records.
            Some(known) => known.insert(record.identity.text(), ledger.records.len()),
        };
        match (position, &mut known) {
            (None, _) => ledger.records.push(record),
            (Some(position), known) => {
                // `insert` above has overwritten the position of the entry that is replaced.
                known.as_mut().map(|known| known.insert(record.identity.text(), position));
                ledger.records[position] = record;
            }
        }
    }
    Ok(ledger)
}

fn decode_entry(index: usize, entry: ManagedFieldsEntry<'_>) -> Result<Record<'_>, String> {
    let operation = match entry.operation {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    if entry.api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match entry.fields_type {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
        other => {
            let other = ferroplane_golang::strconv::quote(other);
            return Err(format!("invalid fieldsType {other} in managed fields entry {index}"));
        }
    }
    let origin = entry.fields.map(|fields| Origin { index, fields, api_version: entry.api_version });
    // An entry without fields is valid and owns nothing.
    let read = entry.fields.map(fields::read).transpose();
    let read = read.map_err(|error| format!("error decoding versioned set: error decoding set: {error}"))?;
    let is_canonical = entry.is_canonical && read.as_ref().is_some_and(|read| read.is_canonical);
    Ok(Record {
        identity: Identity {
            manager: entry.manager.into(),
            operation,
            api_version: entry.api_version.into(),
            subresource: entry.subresource.into(),
        },
        time: entry.time,
        set: read.map(|read| read.set).unwrap_or_default(),
        source: is_canonical.then_some(index),
        origin: origin.filter(|_| is_canonical),
        is_retimed: false,
    })
}

/// Checks that managed fields can be read.
pub fn validate(managed_fields: &Value) -> Result<(), String> {
    decode(read_list(managed_fields).unwrap_or_default()).map(drop)
}

/// Where an entry of new managed fields comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Slot {
    /// As it was.
    Old(usize),
    /// As it was, but for the time.
    Retimed(usize, String),
    /// As it was, but for some of the fields, and perhaps the time.
    Rewritten(usize, Rewrite, Option<String>),
    New(Value),
}

/// The entries of the owners, in the order of the wire.
pub(super) fn encode(ledger: &mut Ledger<'_>) -> Vec<Slot> {
    ledger.records.sort_by(|one, other| {
        let seconds = |record: &Record<'_>| record.time.as_ref().map_or(0, |time| time.seconds);
        let (own, others) = (&one.identity, &other.identity);
        // The order is `sortEncodedManagedFields` of upstream: it is stored, and clients diff it.
        own.operation
            .cmp(&others.operation)
            .then_with(|| seconds(one).cmp(&seconds(other)))
            .then_with(|| own.manager.cmp(&others.manager))
            .then_with(|| own.api_version.cmp(&others.api_version))
            .then_with(|| own.subresource.cmp(&others.subresource))
    });
    ledger.records.iter().map(encode_record).collect()
}

fn encode_record(record: &Record<'_>) -> Slot {
    match (record.source, &record.time) {
        (Some(source), Some(time)) if record.is_retimed => Slot::Retimed(source, time.text.to_string()),
        (Some(source), _) if !record.is_retimed => Slot::Old(source),
        _ => rewritten(record).unwrap_or_else(|| Slot::New(entry_of(record))),
    }
}

/// The entry that a record comes from with what changed, if it is still about the same owner.
fn rewritten(record: &Record<'_>) -> Option<Slot> {
    let origin = record.origin.filter(|origin| origin.api_version == record.identity.api_version)?;
    let time = match &record.time {
        _ if !record.is_retimed => None,
        Some(time) => Some(time.text.to_string()),
        None => return None,
    };
    Some(Slot::Rewritten(origin.index, Rewrite::between(origin.fields, &record.set)?, time))
}

fn entry_of(record: &Record<'_>) -> Value {
    let mut entry = Map::new();
    let mut insert = |name: &str, text: &str| {
        if !text.is_empty() {
            entry.insert(name.to_owned(), text.into());
        }
    };
    insert("apiVersion", &record.identity.api_version);
    insert("manager", &record.identity.manager);
    insert("operation", record.identity.operation.name());
    insert("subresource", &record.identity.subresource);
    insert("time", record.time.as_ref().map_or("", |time| &time.text));
    insert("fieldsType", "FieldsV1");
    entry.insert("fieldsV1".to_owned(), fields::write(&record.set));
    Value::Object(entry)
}

/// Whether the slots leave a list of that length as it was.
pub(super) fn is_same(slots: &[Slot], length: usize) -> bool {
    slots.len() == length && slots.iter().enumerate().all(|(index, slot)| *slot == Slot::Old(index))
}

/// Puts new managed fields in the place of the old ones.
pub(super) fn write_entries(object: &mut JsonObject, old: Option<Value>, slots: Vec<Slot>) {
    let mut old = match old {
        Some(Value::Array(old)) => old,
        _ => Vec::new(),
    };
    // Entries are moved out of the old list rather than copied; each slot names another index, because each
    // record comes from one entry.
    let mut take = |index: usize| old.get_mut(index).map(Value::take).unwrap_or_default();
    let entries = slots.into_iter().map(|slot| match slot {
        Slot::Old(index) => take(index),
        Slot::Retimed(index, time) => {
            let mut entry = take(index);
            entry["time"] = time.into();
            entry
        }
        Slot::Rewritten(index, rewrite, time) => {
            let mut entry = take(index);
            rewrite.perform(&mut entry["fieldsV1"]);
            if let Some(time) = time {
                entry["time"] = time.into();
            }
            entry
        }
        Slot::New(entry) => entry,
    });
    let entries: Vec<_> = entries.collect();
    // No empty list and no empty metadata are left behind: an object without owners has no such field.
    if entries.is_empty() {
        take_entries(object);
    } else if let Value::Object(metadata) = object.entry("metadata").or_insert_with(|| json!({})) {
        metadata.insert("managedFields".to_owned(), entries.into());
    }
}

/// Removes the managed fields.
pub(super) fn take_entries(object: &mut JsonObject) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}
