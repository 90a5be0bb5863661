//! The last start of the controllers, for rollouts. Functions that the control plane runs itself start again with it.

use std::collections::BTreeSet;

use ferroplane_engine::rollout::{Overlay, Overlays, Restart, overlays};
use tokio::time::Instant;

use super::FunctionRegistry;

/// When the controllers were started, and the candidates at that time.
#[derive(Debug)]
pub(super) struct Start {
    at: Instant,
    candidates: BTreeSet<String>,
}

impl FunctionRegistry {
    /// The controllers are started. Standby replicas call nothing, and start no functions.
    pub(crate) fn note_start(&self) {
        let Overlays { functions, compositions } = overlays(&self.rollouts.objects());
        let under_way = functions.into_values().chain(compositions.into_values());
        let candidates = under_way.filter_map(|overlay| overlay.candidate).collect();
        // They are started once.
        let _ = self.start.set(Start { at: Instant::now(), candidates });
    }

    /// The last start of the controllers, for a rollout of this candidate.
    pub(crate) fn restart(&self, candidate: &str) -> Restart {
        let Some(Start { at, candidates }) = self.start.get() else { return Restart::default() };
        Restart {
            uptime: at.elapsed(),
            is_resumed: candidates.contains(candidate),
            has_answered: self.calls.has_answered(candidate),
        }
    }

    /// Whether a revision of a rollout may still be starting with the control plane.
    pub(crate) fn may_be_starting(&self, overlay: &Overlay, revision: &str) -> bool {
        let candidate = overlay.candidate.as_deref().unwrap_or_default();
        let left = self.restart(candidate).time_left(overlay.progress_deadline_seconds);
        left.is_some() && !self.calls.has_answered(revision)
    }
}
