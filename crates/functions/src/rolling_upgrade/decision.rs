//! Decides what is next in a rolling upgrade: upgrade more, wait, or stop.

use super::settings::{RollingUpgrade, normal, shown};
use crate::fleet::{is_being_deleted, is_paused, unhealthy_because};
use crate::selection::JsonObject;

/// The objects of an upgrade, by how far they are.
#[derive(Debug, Default)]
pub(super) struct Fleet<'r> {
    upgraded: Vec<&'r JsonObject>,
    pending: Vec<&'r JsonObject>,
    /// They have another version, or are to be left alone.
    skipped: usize,
}

/// What is next.
#[derive(Debug)]
pub(super) struct Decision<'r> {
    pub(super) next: Next<'r>,
    /// The batch that is being upgraded or waited for, from one.
    pub(super) batch: usize,
    /// How many have the version, before anything is done.
    pub(super) upgraded: usize,
    pub(super) pending: usize,
    pub(super) skipped: usize,
}

#[derive(Debug)]
pub(super) enum Next<'r> {
    Upgrade(Vec<&'r JsonObject>),
    /// Wait for these, each for a reason.
    Hold(Vec<(&'r JsonObject, String)>),
    Finish,
}

impl<'r> Fleet<'r> {
    pub(super) fn of(settings: &RollingUpgrade<'_>, targets: Vec<&'r JsonObject>) -> Self {
        let mut fleet = Self::default();
        for target in targets {
            let version = settings.version_field.get(target).ok().and_then(normal);
            let is_wanted = version.as_ref() == Some(&settings.to_version);
            let is_left = settings.from_versions.is_empty()
                || version.is_some_and(|version| settings.from_versions.contains(&version));
            match () {
                // Before anything else: what is being deleted is never healthy again and would hold up the
                // rest.
                () if is_being_deleted(target) => fleet.skipped += 1,
                () if is_wanted => fleet.upgraded.push(target),
                // Nothing would carry the upgrade out, and the batch would never be healthy.
                () if is_paused(target) || !is_left => fleet.skipped += 1,
                () => fleet.pending.push(target),
            }
        }
        fleet
    }

    pub(super) fn decide(self, settings: &RollingUpgrade<'_>) -> Decision<'r> {
        let (upgraded, size) = (self.upgraded.len(), self.upgraded.len() + self.pending.len());
        let ends: Vec<_> = settings.batches.iter().map(|part| end_of_batch(*part, size)).collect();
        let batch_that = |is_it: &dyn Fn(usize) -> bool| ends.iter().position(|end| is_it(*end));
        let unhealthy: Vec<_> = self
            .upgraded
            .iter()
            .filter_map(|object| Some((*object, why_unhealthy(object, settings)?)))
            .collect();
        let (next, batch) = if !unhealthy.is_empty() {
            (Next::Hold(unhealthy), batch_that(&|end| end >= upgraded))
        } else if let Some(batch) = batch_that(&|end| end > upgraded) {
            // The end of a batch counts those that others upgraded, so that a batch is never larger than it
            // should be.
            (Next::Upgrade(self.pending[..ends[batch] - upgraded].to_vec()), Some(batch))
        } else {
            (Next::Finish, None)
        };
        let batch = batch.map_or(ends.len(), |batch| batch + 1);
        Decision { next, batch, upgraded, pending: self.pending.len(), skipped: self.skipped }
    }
}

impl<'r> Decision<'r> {
    pub(super) fn to_upgrade(&self) -> &[&'r JsonObject] {
        match &self.next {
            Next::Upgrade(objects) => objects,
            Next::Hold(_) | Next::Finish => &[],
        }
    }

    pub(super) fn state(&self) -> &'static str {
        match self.next {
            Next::Upgrade(_) => "Upgrading",
            Next::Hold(_) => "Holding",
            Next::Finish => "Complete",
        }
    }
}

/// How many of a fleet have the version when a batch is complete. The smallest batch has one.
#[expect(clippy::cast_precision_loss, reason = "no fleet has as many objects as a double has digits")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of the size is at most the size"
)]
fn end_of_batch(part: f64, size: usize) -> usize {
    // Seven hundredths of a hundred are a little more than seven to a computer, and still seven to the user.
    const ERROR: f64 = 1e-6;
    let end = (part * size as f64 - ERROR).ceil().max(1.0) as usize;
    end.min(size)
}

fn why_unhealthy(object: &JsonObject, settings: &RollingUpgrade<'_>) -> Option<String> {
    if let Some(field) = &settings.observed_version_field {
        let observed = field.get(object).ok().and_then(normal);
        if observed.as_ref() != Some(&settings.to_version) {
            let is = observed.map_or_else(|| "not set".to_owned(), |version| shown(&version));
            return Some(format!("{} is {is}", field.text()));
        }
    }
    unhealthy_because(object, &settings.healthy_conditions)
}
