//! What an actor can make the control plane do by operations, and by actions of Blueprints.

use ferroplane_api::keys;

use super::actor::{Actor, Work};
use super::edges::Finder;
use super::held::WRITES;
use super::reach::Reach;
use super::rule::Question;
use crate::snapshot::Home;

const ACTION_SETS: &str = "actionsets";
const BLUEPRINTS: &str = "blueprints";

impl Finder<'_> {
    /// The ways by operations and by actions.
    pub(super) fn operate(&mut self) {
        // What the control plane composes is what an author has decided, who is another actor.
        if matches!(self.actor, Actor::Composer { .. }) {
            return;
        }
        self.write_operations();
        self.create_action_sets();
        self.write_blueprints();
    }

    /// The author of an operation chooses its functions, and they may want anything anywhere.
    fn write_operations(&mut self) {
        // On a cluster they are off unless a flag turns them on, which is not known from objects.
        let is_on = self.facts.input.home == Home::Embedded;
        for (plural, verbs, does) in [
            // It runs once, as it was created.
            ("operations", &["create"][..], "creates an Operation of functions that they choose"),
            ("cronoperations", &WRITES[..], "writes a CronOperation of functions that they choose"),
            ("watchoperations", &WRITES[..], "writes a WatchOperation of functions that they choose"),
        ] {
            if self.facts.input.kind_of(keys::OPS, plural).is_none() {
                continue;
            }
            for held in self.held_any(verbs, keys::OPS, plural, false) {
                let to = Actor::Composer { reach: Reach::Cluster, work: Work::Anything };
                self.add_if(to, does.to_owned(), &held, held.is_certain && is_on);
            }
        }
    }

    /// An action does what its Blueprint says, in the namespace of the ActionSet. No role or binding is written by it.
    fn create_action_sets(&mut self) {
        if self.facts.input.kind_of(keys::KANISTER, ACTION_SETS).is_none() {
            return;
        }
        for held in self.held(&Question::about("create", keys::KANISTER, ACTION_SETS, true)) {
            let does = format!("creates an ActionSet {}", held.reach.words());
            let to = Actor::Composer { reach: held.reach.clone(), work: Work::Anything };
            self.add_if(to, does, &held, false);
        }
    }
    /// The author of a Blueprint says what the actions of others do in its namespace.
    fn write_blueprints(&mut self) {
        if self.facts.input.kind_of(keys::KANISTER, BLUEPRINTS).is_none() {
            return;
        }
        for held in self.held_any(&WRITES, keys::KANISTER, BLUEPRINTS, true) {
            let does =
                format!("writes a Blueprint {}, once a user creates an ActionSet of it", held.reach.words());
            let to = Actor::Composer { reach: held.reach.clone(), work: Work::Anything };
            self.add_if(to, does, &held, false);
        }
    }
}
