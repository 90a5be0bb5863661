//! What an actor can make the control plane do by having a process of its own called in place of a function.

use std::collections::BTreeSet;

use ferroplane_api::{ANY, AccessGrantSpec, InterceptMode, keys};

use super::actor::{Actor, Work};
use super::composing::CompositeKind;
use super::edges::Finder;
use super::held::Held;
use super::reach::Reach;
use super::routes::AtWork;
use super::rule::Question;
use crate::snapshot::Home;

const PLURAL: &str = "functionintercepts";

impl Finder<'_> {
    /// Who may have calls sent to a process of their own.
    pub(super) fn intercepts(&self) -> Vec<Held> {
        if self.facts.input.kind_of(keys::ROLLOUT, PLURAL).is_none() {
            return Vec::new();
        }
        // Neither whom it is for nor where it goes can be changed afterwards: a user who may only update one gains nothing.
        self.held(&Question::about("create", keys::ROLLOUT, PLURAL, false))
    }

    /// A user who creates a FunctionIntercept answers for a function that Compositions of a kind call.
    pub(super) fn intercept(&mut self, kind: &CompositeKind, intercepts: &[Held]) {
        let called: BTreeSet<&String> = kind.compositions.iter().flat_map(|it| &it.functions).collect();
        let Some(function) = called.first() else { return };
        // `ferroplane up` asks for no grant. A user who may write one does.
        let needs_no_grant = self.facts.input.home == Home::Embedded || self.grants_access();
        for held in intercepts {
            for at in self.at_work(kind, true) {
                if needs_no_grant {
                    let (title, when) = (kind.title(), &at.when);
                    let does = format!(
                        "has a process of their own called in place of Function {function}, which composes {title}{when}"
                    );
                    self.have_composed(does, at, held);
                } else {
                    self.intercept_by_grants(kind, &called, &at, held);
                }
            }
        }
    }

    /// The process has to run on a host that a grant names, which is not known from objects.
    fn intercept_by_grants(
        &mut self,
        kind: &CompositeKind,
        called: &BTreeSet<&String>,
        at: &AtWork,
        held: &Held,
    ) {
        let facts = self.facts;
        for grant in &facts.grants {
            let Some(function) = called.iter().find(|function| is_for(grant, kind, function)) else {
                continue;
            };
            // In shadow, a process is given what functions are given, and nothing of its answer is written.
            for (mode, work, place) in [
                (InterceptMode::ForReal, Work::Anything, "in place of"),
                (InterceptMode::Shadow, Work::Reading, "beside"),
            ] {
                if !allows(grant, mode) {
                    continue;
                }
                for reach in granted_at(grant, &at.reach) {
                    let (title, when) = (kind.title(), &at.when);
                    let does = format!(
                        "has a process that an AccessGrant allows called {place} Function {function}, which composes {title}{when}"
                    );
                    self.add_if(Actor::Composer { reach, work }, does, held, false);
                }
            }
        }
    }
}

/// Whether a grant is for steps that call a function for composite resources of a kind.
fn is_for(grant: &AccessGrantSpec, kind: &CompositeKind, function: &str) -> bool {
    let to = &grant.to;
    let is_kind = |it: &ferroplane_api::GrantedKind| it.api_group == kind.group && it.kind == kind.kind;
    (to.kinds.is_empty() || to.kinds.iter().any(is_kind))
        && (to.functions.is_empty() || to.functions.iter().any(|it| it == function))
}

fn allows(grant: &AccessGrantSpec, mode: InterceptMode) -> bool {
    grant.intercept.iter().any(|it| !it.hosts.is_empty() && it.modes.contains(&mode))
}

/// Where a grant holds, of where composite resources are. Those in no namespace need one for all namespaces.
fn granted_at(grant: &AccessGrantSpec, at: &Reach) -> Vec<Reach> {
    let namespaces = &grant.to.namespaces;
    if namespaces.iter().any(|it| it == ANY) {
        return vec![at.clone()];
    }
    match at {
        Reach::Cluster => Vec::new(),
        _ => namespaces.iter().filter_map(|name| at.confine(&Reach::namespace(name))).collect(),
    }
}
