//! Notices when another field manager keeps changing composed resources: two that write the same field with different values never stop.
//!
//! A field that is changed once is corrected without an event. A manager that changes it repeatedly within a short time is named once,
//! with the field.
//!
//! # Invariants
//! * Memory is bounded, whatever happens to composed resources.
//! * There is no clock: the caller passes the time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ferroplane_api::{Condition, Status};

use crate::outcome::{Event, EventKind};

const CONDITION: &str = "Uncontested";
const REASON: &str = "FieldConflict";
/// How often a field has to be changed before that is a fight, and within what time from one change to the next.
const ROUNDS: u32 = 3;
const WINDOW: Duration = Duration::from_mins(10);
/// How many fields of one composite resource are remembered.
const MOST: usize = 32;
/// How many fights a condition names before it only counts.
const LISTED: usize = 3;

/// A field of ours that another manager changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The object, for messages.
    pub object: String,
    pub field: String,
    /// The manager that changed it, if known.
    pub manager: Option<String>,
}

/// The fields of one composite resource that other managers changed recently.
#[derive(Debug, Default)]
pub struct Fights(BTreeMap<Loss, Rounds>);

#[derive(Debug)]
struct Rounds {
    count: u32,
    last: Duration,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, field, manager } = self;
        match manager {
            Some(manager) => write!(f, "`{manager}` keeps changing `{field}` of {object}"),
            None => write!(f, "another client keeps removing `{field}` of {object}"),
        }
    }
}

impl Fights {
    /// Record fields that were changed, and are about to be corrected. Returns messages about new fights.
    pub fn lose(&mut self, losses: impl IntoIterator<Item = Loss>, now: Duration) -> Vec<Event> {
        self.forget(now);
        let mut events = Vec::new();
        for loss in losses {
            // The first ones stay: new noise must not evict a fight that was noticed.
            if self.0.len() == MOST && !self.0.contains_key(&loss) {
                continue;
            }
            let rounds = self.0.entry(loss.clone()).or_insert(Rounds { count: 0, last: now });
            rounds.count = rounds.count.saturating_add(1);
            rounds.last = now;
            // Equal, not at least: one event per fight, however long it lasts.
            if rounds.count == ROUNDS {
                let message = format!("{loss}, which is composed, too: let only one of the two set it");
                events.push(Event::new(EventKind::Warning, REASON, message));
            }
        }
        events
    }

    /// The condition about fights. None if there is none and never was one.
    pub fn condition(&mut self, before: &[Condition], now: Duration) -> Option<Condition> {
        self.forget(now);
        let fights: Vec<_> = self.fights().map(ToString::to_string).collect();
        if fights.is_empty() {
            let was_said = before.iter().any(|condition| condition.kind == CONDITION);
            return was_said.then(|| Condition::new(CONDITION, Status::True, "NoFieldConflict"));
        }
        let mut message = fights[..fights.len().min(LISTED)].join("; ");
        if fights.len() > LISTED {
            message.push_str(&format!("; and {} more", fights.len() - LISTED));
        }
        Some(Condition::new(CONDITION, Status::False, REASON).with_message(message))
    }

    /// When the last fight will be over if nothing changes any more. None without a fight.
    pub fn over_at(&self) -> Option<Duration> {
        let fights = self.0.values().filter(|rounds| rounds.count >= ROUNDS);
        fights.map(|rounds| rounds.last + WINDOW).max()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn fights(&self) -> impl Iterator<Item = &Loss> {
        self.0.iter().filter(|(_, rounds)| rounds.count >= ROUNDS).map(|(loss, _)| loss)
    }

    fn forget(&mut self, now: Duration) {
        self.0.retain(|_, rounds| now < rounds.last + WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(field: &str) -> Loss {
        Loss { object: "ConfigMap `a`".to_owned(), field: field.to_owned(), manager: Some("them".to_owned()) }
    }

    fn minutes(minutes: u64) -> Duration {
        Duration::from_mins(minutes)
    }

    #[test]
    fn field_that_is_taken_again_and_again_is_named_once() {
        let mut fights = Fights::default();
        let mut said = Vec::new();
        for minute in 0..20 {
            said.extend(fights.lose([loss(".data.a")], minutes(minute)));
        }
        let said: Vec<_> =
            said.into_iter().map(|event| format!("{}: {}", event.reason, event.message)).collect();
        assert_eq!(
            said,
            [
                "FieldConflict: `them` keeps changing `.data.a` of ConfigMap `a`, which is composed, too: let only one of \
              the two set it"
            ]
        );
        let condition = fights.condition(&[], minutes(20)).unwrap();
        assert_eq!((condition.status, condition.reason.as_str()), (Status::False, "FieldConflict"));
        assert_eq!(condition.message, "`them` keeps changing `.data.a` of ConfigMap `a`");
    }

    #[test]
    fn who_changes_something_now_and_then_is_not_named() {
        let mut fights = Fights::default();
        for hour in 0..10 {
            assert_eq!(fights.lose([loss(".data.a")], minutes(hour * 60)), []);
        }
        assert_eq!(fights.condition(&[], minutes(600)), None);
    }

    #[test]
    fn fight_is_over_when_nothing_was_lost_for_a_while() {
        let mut fights = Fights::default();
        for minute in 0..3 {
            fights.lose([loss(".data.a")], minutes(minute));
        }
        let said = fights.condition(&[], minutes(3)).unwrap();
        assert_eq!(fights.over_at(), Some(minutes(12)));
        let over = fights.condition(&[said], minutes(12)).unwrap();
        assert_eq!(over.status, Status::True);
        assert!(fights.is_empty());
    }

    #[test]
    fn no_more_is_remembered_than_fits() {
        let mut fights = Fights::default();
        for round in 0..5 {
            fights.lose((0..1000).map(|index| loss(&format!(".data.{index}"))), minutes(round));
        }
        assert_eq!(fights.0.len(), MOST);
        assert!(fights.condition(&[], minutes(5)).unwrap().message.ends_with("; and 29 more"));
    }
}
