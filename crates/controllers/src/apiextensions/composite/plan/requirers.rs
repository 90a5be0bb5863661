//! The composite resources of a plan whose functions required objects, by what they required.
//!
//! Thousands of composite resources usually require the same few objects, and a plan looks here for each object that it changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ferroplane_api::{Object, meta};

use super::super::dependencies::Wanted;
use super::Progress;
use super::planned_cluster::Key;

/// By the API version and kind of what they required in their last visit, and by its selector.
#[derive(Default)]
pub(super) struct Requirers<'p>(HashMap<(String, String), HashMap<Wanted, BTreeSet<&'p Key>>>);

impl<'p> Requirers<'p> {
    pub(super) fn of(progress: &'p BTreeMap<Key, Progress>) -> Self {
        let mut requirers = Self::default();
        for (key, known) in progress {
            for required in known.requirements.iter().flatten() {
                let selector = &required.selector;
                let kind = (selector.api_version.clone(), selector.kind.clone());
                let of_kind = requirers.0.entry(kind).or_default();
                of_kind.entry(Wanted::of(selector)).or_default().insert(key);
            }
        }
        requirers
    }

    /// Those that required an object. One that required it twice comes twice.
    pub(super) fn of_object(&self, object: &Object) -> impl Iterator<Item = &'p Key> {
        let of_kind = self.0.get(&(meta::api_version(object).to_owned(), meta::kind(object).to_owned()));
        let asked = of_kind.into_iter().flatten().filter(move |(wanted, _)| wanted.selects(object));
        asked.flat_map(|(_, keys)| keys.iter().copied())
    }
}
