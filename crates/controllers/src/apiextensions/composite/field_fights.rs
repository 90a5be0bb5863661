//! Who keeps changing fields that are composed: [`Fights`] on the clock of this process.

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

/// Who keeps changing fields of what one composite resource composes. Nothing is kept while nobody does.
#[derive(Debug, Default)]
pub(super) struct FieldFights(Option<Box<Fights>>);

impl FieldFights {
    /// Others have taken these fields. Returns what to say about that.
    pub(super) fn lose(&mut self, losses: Vec<Loss>, clock: FightClock) -> Vec<Event> {
        self.0.get_or_insert_with(Box::default).lose(losses, clock.now())
    }

    /// What to say about those who keep taking fields, given what is said now.
    pub(super) fn condition(&mut self, conditions: &[Condition], clock: FightClock) -> Option<Condition> {
        let Some(fights) = &mut self.0 else { return Fights::default().condition(conditions, clock.now()) };
        let condition = fights.condition(conditions, clock.now());
        self.0.take_if(|fights| fights.is_empty());
        condition
    }

    /// When the last of them is over, if nothing more happens.
    pub(super) fn over_at(&self, clock: FightClock) -> Option<Instant> {
        self.0.as_ref().and_then(|fights| fights.over_at()).map(|time| clock.0 + time)
    }
}
