//! What an actor can make the control plane do for it.

use std::collections::BTreeSet;

use ferroplane_api::keys;

use super::actor::{Actor, Work};
use super::composing::CompositeKind;
use super::edges::Finder;
use super::held::{Held, WRITES};
use super::input::DEFINITIONS;
use super::reach::Reach;
use super::rule::{Names, Question};
use crate::snapshot::Home;

/// Where somebody's Composition or function would be at work.
pub(super) struct AtWork {
    pub(super) reach: Reach,
    is_certain: bool,
    /// When, or because of what.
    pub(super) when: String,
}

impl Finder<'_> {
    /// A user who changes a kind chooses its Composition, and a user who deletes it deletes its objects.
    pub(super) fn write_definitions(&mut self) {
        let written = self.held_any(&["update", "patch"], DEFINITIONS, "compositeresourcedefinitions", false);
        let deleted =
            self.held(&Question::about("delete", DEFINITIONS, "compositeresourcedefinitions", false));
        let facts = self.facts;
        for (place, kind) in facts.kinds.iter().enumerate() {
            let has_choice = !kind.compositions.is_empty();
            for held in written.iter().filter(|held| has_choice && held.names.has(&kind.definition)) {
                for at in self.at_work(kind, true) {
                    let does = format!("chooses the Composition of {}{}", kind.title(), at.when);
                    let to = Actor::Composer { reach: at.reach, work: Work::Composing(place) };
                    self.add_if(to, does, held, at.is_certain && held.is_certain);
                }
            }
            for held in deleted.iter().filter(|held| held.names.has(&kind.definition)) {
                let plurals = [Some(&kind.plural), kind.claim_plural.as_ref()];
                for plural in plurals.into_iter().flatten() {
                    let resource = Some((kind.group.clone(), plural.clone()));
                    let does = format!("deletes CompositeResourceDefinition {}", kind.definition);
                    self.add(Actor::Deletion { reach: Reach::Cluster, resource }, does, held);
                }
            }
        }
        self.define_a_kind();
    }

    /// A kind of one's own, with a Composition of one's own, composes anything for every user who creates an object of it.
    fn define_a_kind(&mut self) {
        let defined =
            self.held(&Question::about("create", DEFINITIONS, "compositeresourcedefinitions", false));
        let composed = self.held(&Question::about("create", DEFINITIONS, "compositions", false));
        let Some(held) = defined.first().filter(|_| !composed.is_empty()) else { return };
        let does = "defines a cluster-scoped kind and its Composition, once a user creates an object of it";
        let to = Actor::Composer { reach: Reach::Cluster, work: Work::Anything };
        self.add_if(to, does.to_owned(), held, false);
    }

    /// The ways by Compositions, functions, intercepts and composite resources of every kind.
    pub(super) fn compose(&mut self) {
        let facts = self.facts;
        let changed = self.held_any(&["update", "patch"], DEFINITIONS, "compositions", false);
        let mut added = self.held(&Question::about("create", DEFINITIONS, "compositions", false));
        // A revision counts without its Composition.
        added.extend(self.held(&Question::about("create", DEFINITIONS, "compositionrevisions", false)));
        let (functions, intercepts) = (self.functions(), self.intercepts());
        for (place, kind) in facts.kinds.iter().enumerate() {
            self.write_compositions(kind, &changed, &added);
            self.write_functions(kind, &functions);
            self.intercept(kind, &intercepts);
            self.write_composites(place, kind);
        }
    }

    fn write_compositions(&mut self, kind: &CompositeKind, changed: &[Held], added: &[Held]) {
        let is_of_kind = |names: &Names| kind.compositions.iter().any(|it| names.has(&it.name));
        for held in changed.iter().filter(|held| is_of_kind(&held.names)) {
            let named = kind.compositions.iter().find(|it| held.names.has(&it.name));
            let named = named.map(|it| it.name.as_str()).unwrap_or_default();
            for at in self.at_work(kind, true) {
                let does = format!("changes Composition {named} of {}{}", kind.title(), at.when);
                self.have_composed(does, at, held);
            }
        }
        for held in added {
            for at in self.at_work(kind, false) {
                let does = format!("adds a Composition of {}{}", kind.title(), at.when);
                self.have_composed(does, at, held);
            }
        }
    }

    pub(super) fn have_composed(&mut self, does: String, at: AtWork, held: &Held) {
        let is_certain = at.is_certain && held.is_certain;
        if self.grants_access() {
            let to = Actor::Composer { reach: Reach::Cluster, work: Work::Reading };
            self.add_if(to, format!("{does}, and writes an AccessGrant for it"), held, is_certain);
        }
        self.add_if(Actor::Composer { reach: at.reach, work: Work::Anything }, does, held, is_certain);
    }

    pub(super) fn grants_access(&self) -> bool {
        !self.held_any(&WRITES, keys::FERROPLANE, "accessgrants", false).is_empty()
    }

    /// Who may decide which code answers for a function, and for which functions.
    fn functions(&self) -> Vec<Held> {
        let functions = self.held_any(&WRITES, keys::PKG, "functions", false);
        let revisions = self.held_any(&WRITES, keys::PKG, "functionrevisions", false);
        // Names of revisions are not those of functions, so that those who may write some may mean any function.
        let revisions =
            revisions.into_iter().map(|held| Held { is_certain: false, names: Names::All, ..held });
        // On a cluster a package manager decides what a Function comes to.
        let is_certain = self.facts.input.home == Home::Embedded;
        let functions =
            functions.into_iter().map(|held| Held { is_certain: is_certain && held.is_certain, ..held });
        functions.chain(revisions).collect()
    }

    fn write_functions(&mut self, kind: &CompositeKind, functions: &[Held]) {
        let called: BTreeSet<&String> = kind.compositions.iter().flat_map(|it| &it.functions).collect();
        for held in functions {
            let Some(function) = called.iter().find(|function| held.names.has(function)) else { continue };
            for at in self.at_work(kind, true) {
                let title = kind.title();
                let does = format!("replaces Function {function}, which composes {title}{}", at.when);
                self.have_composed(does, at, held);
            }
        }
    }

    /// Composite resources and claims: what their Compositions compose.
    fn write_composites(&mut self, place: usize, kind: &CompositeKind) {
        if kind.compositions.is_empty() {
            return;
        }
        let composing = kind.composition_names();
        let plurals = [Some(&kind.plural), kind.claim_plural.as_ref()];
        for plural in plurals.into_iter().flatten() {
            let is_claim = *plural != kind.plural;
            let is_namespaced = kind.is_namespaced || is_claim;
            let what = if is_claim { format!("claims ({plural}.{})", kind.group) } else { kind.title() };
            for (verbs, verb, work) in [
                (&WRITES[..], "writes", Work::Composing(place)),
                (&["delete"][..], "deletes", Work::Deleting(place)),
            ] {
                for held in self.held_any(verbs, &kind.group, plural, is_namespaced) {
                    // What a claim makes is in no namespace.
                    let reach = if kind.is_namespaced { held.reach.clone() } else { Reach::Cluster };
                    let does = format!("{verb} {what} {}, composed by {composing}", held.reach.words());
                    self.add(Actor::Composer { reach, work }, does, &held);
                }
            }
        }
    }

    /// Where a user who may change a Composition of a kind, or only add one, decides how its composite resources are composed.
    pub(super) fn at_work(&self, kind: &CompositeKind, is_used: bool) -> Vec<AtWork> {
        let own = self.own_composites(kind);
        let mut at: Vec<AtWork> = Vec::new();
        for reach in own {
            at.push(AtWork { reach, is_certain: true, when: ", and writes such objects".to_owned() });
        }
        if is_used {
            for namespace in &kind.namespaces {
                let reach = if kind.is_namespaced { Reach::namespace(namespace) } else { Reach::Cluster };
                at.push(AtWork { reach, is_certain: true, when: String::new() });
            }
        }
        let reach = if kind.is_namespaced { Reach::Namespaces } else { Reach::Cluster };
        at.push(AtWork { reach, is_certain: false, when: ", once a user creates such an object".to_owned() });
        at
    }

    /// Where a user who acts may make such objects.
    fn own_composites(&self, kind: &CompositeKind) -> Vec<Reach> {
        let mut reaches: Vec<Reach> = Vec::new();
        let composites = self.held_any(&WRITES, &kind.group, &kind.plural, kind.is_namespaced);
        for held in composites.into_iter().filter(|held| held.is_certain) {
            reaches.push(if kind.is_namespaced { held.reach } else { Reach::Cluster });
        }
        let claims =
            kind.claim_plural.as_ref().map(|plural| self.held_any(&WRITES, &kind.group, plural, true));
        if claims.is_some_and(|claims| claims.iter().any(|held| held.is_certain)) {
            reaches.push(Reach::Cluster);
        }
        reaches
    }
}
