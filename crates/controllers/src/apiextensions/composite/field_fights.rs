//! Detects field managers that keep changing composed fields: [`Fights`] on the clock of this process.

use std::time::Duration;

use ferroplane_api::Condition;
use ferroplane_engine::{Event, Fights, Loss};
use tokio::time::Instant;

/// The clock that fights are timed by.
#[derive(Debug, Clone, Copy)]
pub(super) struct FightClock(Instant);

impl FightClock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Duration {
        self.0.elapsed()
    }
}

/// Fights over fields of one composite resource. Allocated only while there are any.
#[derive(Debug, Default)]
pub(super) struct FieldFights(Option<Box<Fights>>);

impl FieldFights {
    /// Other managers have changed these fields. Returns the events to record.
    pub(super) fn lose(&mut self, losses: Vec<Loss>, clock: FightClock) -> Vec<Event> {
        self.0.get_or_insert_with(Box::default).lose(losses, clock.now())
    }

    /// The condition about fights, given the current conditions.
    pub(super) fn condition(&mut self, conditions: &[Condition], clock: FightClock) -> Option<Condition> {
        let Some(fights) = &mut self.0 else { return Fights::default().condition(conditions, clock.now()) };
        let condition = fights.condition(conditions, clock.now());
        self.0.take_if(|fights| fights.is_empty());
        condition
    }

    /// When the last fight is over if nothing more changes.
    pub(super) fn over_at(&self, clock: FightClock) -> Option<Instant> {
        self.0.as_ref().and_then(|fights| fights.over_at()).map(|time| clock.0 + time)
    }
}
