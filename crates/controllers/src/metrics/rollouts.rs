//! Metrics of rollouts, by the name of the `FunctionRollout`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ferroplane_api::{FunctionRolloutStatus, RolloutCounts, RolloutState};
use ferroplane_metrics::{Exposition, NumberFamily, labels};

const STATES: [RolloutState; 7] = [
    RolloutState::Idle,
    RolloutState::Previewing,
    RolloutState::Progressing,
    RolloutState::Paused,
    RolloutState::RollingBack,
    RolloutState::RolledBack,
    RolloutState::Promoted,
];

#[derive(Debug)]
pub(super) struct Rollouts {
    current: Mutex<BTreeMap<String, (RolloutState, RolloutCounts)>>,
    ended: NumberFamily,
}

impl Default for Rollouts {
    fn default() -> Self {
        let ended = NumberFamily::counter(
            "ferroplane_function_rollouts_ended_total",
            "Function revisions whose rollout ended, by result: Promoted or RolledBack",
        );
        Self { current: Mutex::default(), ended }
    }
}

impl Rollouts {
    /// A rollout is like this now.
    pub(super) fn set(&self, name: &str, status: &FunctionRolloutStatus) {
        let now = (status.state, status.composites.clone());
        self.current.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), now);
    }

    /// A rollout is gone.
    pub(super) fn remove(&self, name: &str) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// A revision was promoted or rolled back.
    pub(super) fn end(&self, name: &str, result: RolloutState) {
        self.ended.add(labels(&[("rollout", name), ("result", result.as_str())]), 1);
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let help = "State of a FunctionRollout: 1 for the current state, 0 for the others";
        let mut states = page.gauge("ferroplane_function_rollout_state", help);
        for (rollout, (is, _)) in &current {
            for state in STATES {
                let labels = labels(&[("rollout", rollout), ("state", state.as_str())]);
                states.series(&labels, u8::from(*is == state));
            }
        }
        let help = "Composite resources of a FunctionRollout: total, moved, ready, failed and manual";
        let mut composites = page.gauge("ferroplane_function_rollout_composite_resources", help);
        for (rollout, (_, counts)) in &current {
            let RolloutCounts { total, moved, ready, failed, manual } = counts;
            let numbers = [
                ("total", total),
                ("moved", moved),
                ("ready", ready),
                ("failed", failed),
                ("manual", manual),
            ];
            for (state, count) in numbers {
                composites.series(&labels(&[("rollout", rollout), ("state", state)]), count);
            }
        }
        self.ended.write(page);
    }
}
