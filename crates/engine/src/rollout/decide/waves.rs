//! Selects the composite resources to move next.

use ferroplane_api::RolloutCohort;

use super::judgement::{Ranked, Standing};
use super::{Rollout, key, limit, seconds, time};
use crate::rollout::overlay::LAST;
use crate::rollout::share::{at_most, count};
use crate::rollout::subject::Health;

/// The maximum number of hashes of composite resources in a status.
const MOST_UNREADY: usize = 128;

impl Rollout<'_> {
    /// Move the next composite resources, if those before are ready.
    pub(super) fn advance(&mut self, candidate: &str, all: &[Ranked<'_>]) {
        let waves = &self.it.spec.waves;
        let moved = all.iter().filter(|it| it.has_moved).count();
        let unready = all.iter().filter(|it| it.has_moved && it.standing == Standing::Unready).count();
        loop {
            let number = limit(self.status.wave).max(1);
            let share = waves.get(number - 1).map_or("100%", String::as_str);
            let wanted = count(share, all.len()).max(1);
            if moved < wanted {
                return self.move_more(candidate, all, wanted - moved, unready);
            }
            if unready > 0 {
                return self.wait_for_ready(unready);
            }
            // From when the last one was ready, not from when it was moved: that may have taken all of the time.
            let ready_at = self.status.wave_ready_at.get_or_insert_with(|| time(self.it.now));
            let elapsed = self.it.now - seconds(ready_at).unwrap_or_default();
            if elapsed < self.it.spec.min_ready_seconds {
                self.status.message = format!("Wave {number} ({share}) is ready, and is observed");
                return self.requeue_in(self.it.spec.min_ready_seconds - elapsed);
            }
            if number >= waves.len() {
                return self.promote("all composite resources are ready with it");
            }
            self.status.wave = i64::try_from(number + 1).unwrap_or(i64::MAX);
            let next = waves.get(number).map_or("100%", String::as_str);
            let message = format!("Wave {} ({next}) of `{candidate}` begins", number + 1);
            self.tell(None, "WaveStarted", &message);
        }
    }

    /// Move some of the waiting ones, as many as may be unready.
    fn move_more(&mut self, candidate: &str, all: &[Ranked<'_>], wanted: usize, unready: usize) {
        let most = at_most(&self.it.spec.max_unavailable, all.len()).max(1);
        let allowed = most.saturating_sub(unready).min(wanted);
        if allowed == 0 {
            return self.wait_for_ready(unready);
        }
        let now = time(self.it.now);
        let waiting = || all.iter().filter(|it| !it.has_moved);
        // Those that existed when the others were moved come before those that were created since: to count both
        // would move all new ones at once whose hash is low.
        let until = self.status.cohort.last().map(|last| last.until.clone()).unwrap_or_default();
        let older: Vec<_> = waiting().filter(|it| it.subject.created < until).take(allowed).collect();
        let is_new = older.is_empty();
        let next = if is_new {
            waiting().filter(|it| it.subject.created < now).take(allowed).collect()
        } else {
            older
        };
        let Some(last) = next.last() else {
            // They were created within this second, in which more may be created.
            return self.requeue_in(1);
        };
        let bound = format!("{:016x}", last.place);
        self.status.wave_ready_at = None;
        match self.status.cohort.last_mut() {
            Some(cohort) if !is_new => (cohort.bound, cohort.moved_at) = (bound, now),
            before => {
                if let Some(before) = before {
                    before.bound = format!("{LAST:016x}");
                }
                self.status.cohort.push(RolloutCohort { until: now.clone(), bound, moved_at: now });
                // The last wave but one has all composite resources that existed before.
                let count = self.status.cohort.len();
                self.status.cohort.drain(..count.saturating_sub(2));
            }
        }
        for it in next.iter().filter(|it| it.subject.health != Health::Ready) {
            if self.status.unready_before.len() < MOST_UNREADY {
                self.status.unready_before.push(key(candidate, it.subject));
            }
        }
        let moved = i64::try_from(next.len()).unwrap_or(i64::MAX);
        self.status.composites.moved = self.status.composites.moved.saturating_add(moved);
        self.status.message = format!(
            "Wave {}: {} of {} composite resources have been moved",
            self.status.wave, self.status.composites.moved, self.status.composites.total
        );
        self.requeue_in(self.it.spec.progress_deadline_seconds + 1);
    }

    fn wait_for_ready(&mut self, unready: usize) {
        self.status.message = format!(
            "Wave {}: {unready} composite resources have been moved and are not ready yet",
            self.status.wave
        );
        self.requeue_in(self.it.spec.progress_deadline_seconds.clamp(1, 60));
    }
}
