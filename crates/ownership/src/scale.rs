//! Owners of `spec.replicas` of a scale, which is a field of another object.
//!
//! Follows apimachinery 0.36.4, `pkg/util/managedfields/scalehandler.go`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::entry::{decode, encode, read_list, write_entries};
use super::ledger::{Ledger, Record};
use crate::merge::path::Element;
use crate::merge::set::Set;

const SCALE: &str = "autoscaling/v1";

/// Translates between the owners of an object and those of its scale.
#[derive(Debug, Clone)]
pub struct Scale {
    /// The version of the object in which the scale is written.
    pub api_version: String,
    /// Where replicas are in each version. Nowhere, if that version cannot be scaled.
    pub replicas: BTreeMap<String, Option<Vec<String>>>,
}

impl Scale {
    /// The managed fields of the scale of an object with such managed fields.
    pub fn to_subresource(&self, parent: Option<&Value>) -> Result<Option<Value>, String> {
        let mut scale = Ledger::default();
        for record in decode_all(parent)?.records {
            let Some(path) = self.path(&record.identity.api_version) else { continue };
            if record.set.contains(&path) {
                scale.records.push(Record { set: replicas(), source: None, ..with_version(record, SCALE) });
            }
        }
        Ok(write(scale, None))
    }

    /// The managed fields of an object whose scale was written.
    pub fn to_parent(&self, parent: Option<&Value>, scale: Option<&Value>) -> Result<Option<Value>, String> {
        let mut scaled = decode_all(scale)?;
        let mut kept = Ledger::default();
        let decoded = decode_all(parent)?;
        // By the text that is the same for the same identity: there may be thousands on both sides.
        let times: HashMap<_, _> =
            decoded.records.iter().map(|record| (record.identity.text(), record.time.clone())).collect();
        let known: HashSet<_> = scaled.records.iter().map(|record| record.identity.text()).collect();
        let mut replaced = HashSet::new();
        for mut record in decoded.records {
            // An entry of a version that the kind no longer has is dropped, as everywhere.
            if !self.replicas.contains_key(&*record.identity.api_version) {
                continue;
            }
            let path = self.path(&record.identity.api_version).filter(|path| record.set.contains(path));
            if let Some(path) = path {
                let identity = record.identity.text();
                if known.contains(&identity) {
                    replaced.insert(identity);
                } else {
                    // Another manager scaled, and owns the replicas now.
                    let mut taken = Set::default();
                    taken.insert(&path);
                    record.set.subtract(&taken);
                    record.source = None;
                }
            }
            if !record.set.is_empty() {
                kept.records.push(record);
            }
        }
        let replicas = field_path(&["spec", "replicas"]);
        scaled
            .records
            .retain(|record| record.set.contains(&replicas) && !replaced.contains(&record.identity.text()));
        // A record of the same manager for the scale is replaced.
        let scalers: HashSet<_> = scaled.records.iter().map(|record| record.identity.text()).collect();
        kept.records.retain(|record| !scalers.contains(&record.identity.text()));
        for record in scaled.records {
            let time = times.get(&record.identity.text()).cloned().flatten();
            let mut set = Set::default();
            set.insert(&self.path(&self.api_version).unwrap_or_default());
            // The scale's entries have no times of their own: upstream keeps the old one, or none.
            let record = Record { set, source: None, time, ..with_version(record, &self.api_version) };
            kept.records.push(record);
        }
        Ok(write(kept, parent))
    }

    fn path(&self, api_version: &str) -> Option<Vec<Element<'static>>> {
        let path = self.replicas.get(api_version)?.as_ref()?;
        Some(path.iter().map(|name| Element::field(name.clone())).collect())
    }
}

fn field_path(names: &[&'static str]) -> Vec<Element<'static>> {
    names.iter().map(|name| Element::field(*name)).collect()
}

fn replicas() -> Set<'static> {
    Set::of_fields(&[&["spec", "replicas"]])
}

fn with_version<'a>(mut record: Record<'a>, api_version: &'a str) -> Record<'a> {
    record.identity.api_version = Cow::Borrowed(api_version);
    record.origin = None;
    record
}

fn decode_all(entries: Option<&Value>) -> Result<Ledger<'_>, String> {
    decode(entries.and_then(read_list).unwrap_or_default())
}

fn write(mut ledger: Ledger<'_>, old: Option<&Value>) -> Option<Value> {
    let mut object = JsonObject::new();
    write_entries(&mut object, old.cloned(), encode(&mut ledger));
    super::entry::take_entries(&mut object)
}
