//! The rights that each actor has by itself.

use std::collections::BTreeSet;

use ferroplane_api::{ANY, AccessGrantSpec, keys};

use super::actor::{Actor, Work};
use super::composing::{CompositeKind, composite_kinds};
use super::input::{AuditInput, RBAC_GROUP};
use super::reach::Reach;
use super::rights::Rights;
use super::rule::{BLOCK_DELETE, Names, Question};
use super::selector::selectors;
use super::subject::Subject;
use crate::snapshot::Home;

/// Who reads and writes for others.
const CONTROLLERS: &str = "system:ferroplane";
const COMPOSER: &str = "system:ferroplane:composer";
/// The label of roles that say what may be composed.
const AGGREGATED: &str = "rbac.crossplane.io/aggregate-to-crossplane";
pub(super) const WRITES: [&str; 3] = ["create", "update", "patch"];
const READS: [&str; 3] = ["get", "list", "watch"];

/// A right that an actor has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) reach: Reach,
    pub(super) names: Names,
    /// As a sentence without its subject.
    pub(super) does: String,
    pub(super) by: String,
    pub(super) is_certain: bool,
}

/// Everything that is known.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) input: AuditInput,
    pub(super) rights: Rights,
    pub(super) kinds: Vec<CompositeKind>,
    /// Who writes what is composed, and who reads what functions are given.
    pub(super) composers: BTreeSet<Subject>,
    readers: BTreeSet<Subject>,
    pub(super) grants: Vec<AccessGrantSpec>,
}

impl Facts {
    pub(super) fn new(input: AuditInput) -> Self {
        let rights = Rights::read(&input);
        let kinds = composite_kinds(&input);
        let grants = input.of_kind(keys::FERROPLANE, "AccessGrant").filter_map(|grant| {
            // A grant that cannot be read grants nothing.
            serde_json::from_value(grant.get("spec")?.clone()).ok()
        });
        let grants = grants.collect();
        let mut facts =
            Self { input, rights, kinds, composers: BTreeSet::new(), readers: BTreeSet::new(), grants };
        (facts.readers, facts.composers) = facts.control_plane();
        facts
    }

    /// A caller that reads and a user who writes what is composed.
    fn control_plane(&self) -> (BTreeSet<Subject>, BTreeSet<Subject>) {
        let named = self.input.composer.as_deref().map(Subject::user);
        if self.input.home == Home::Embedded {
            let composer = named.unwrap_or_else(|| Subject::user(COMPOSER));
            return (BTreeSet::from([Subject::user(CONTROLLERS)]), BTreeSet::from([composer]));
        }
        let gathering = self.input.of_kind(RBAC_GROUP, "ClusterRole").filter(|role| {
            // As text, because the label may be asked for by `matchLabels` or by an expression.
            let asks = |selector: &serde_json::Value| selector.to_string().contains(AGGREGATED);
            selectors(role).is_some_and(|selectors| selectors.iter().any(asks))
        });
        let gathering: Vec<_> =
            gathering.map(|role| (String::new(), ferroplane_api::meta::name(role).to_owned())).collect();
        let bound: BTreeSet<Subject> =
            gathering.iter().flat_map(|role| self.rights.holders(role)).cloned().collect();
        if let Some(named) = named {
            let readers = if bound.is_empty() { BTreeSet::from([named.clone()]) } else { bound };
            return (readers, BTreeSet::from([named]));
        }
        // Where one of them impersonates another, the other is who composes.
        let is_impersonated =
            |it: &&Subject| bound.iter().any(|other| other != *it && self.impersonates(other, it));
        let impersonated: BTreeSet<_> = bound.iter().filter(is_impersonated).cloned().collect();
        let composers = if impersonated.is_empty() { bound.clone() } else { impersonated };
        (bound, composers)
    }

    /// Whether a subject has a right to impersonate a service account that names it.
    fn impersonates(&self, who: &Subject, whom: &Subject) -> bool {
        let Subject::ServiceAccount { namespace, name } = whom else { return false };
        let question = Question::about("impersonate", "", "serviceaccounts", true);
        self.held_by_subject(who, &question).iter().any(|held| {
            // A right to impersonate everybody says nothing about who composes.
            let is_named = matches!(&held.names, Names::Some(names) if names.contains(name));
            is_named && held.reach.covers(&Reach::namespace(namespace))
        })
    }

    /// What an actor may do by itself, each with where.
    pub(super) fn held(&self, actor: &Actor, question: &Question) -> Vec<Held> {
        if question.verb == BLOCK_DELETE {
            return self.held_blocking(actor, question);
        }
        match actor {
            Actor::Subject(subject) => self.held_by_subject(subject, question),
            Actor::Role { role, reach } => {
                let by = format!("{} {}", if role.0.is_empty() { "ClusterRole" } else { "Role" }, role.1);
                self.held_by_role(role, reach, question, &by)
            }
            Actor::Unlimited(reach) => unlimited(reach, question, "has every right there"),
            Actor::Pod(reach) => {
                let is_mounted = question.group.is_empty()
                    && question.verb == "get"
                    && ["secrets", "configmaps"].contains(&question.resource.as_str())
                    && question.subresource.is_empty();
                if is_mounted { unlimited(reach, question, "mounts it into a pod") } else { Vec::new() }
            }
            Actor::Provider => held_by_provider(question),
            Actor::Deletion { reach, resource } => held_by_deletion(reach, resource.as_ref(), question),
            Actor::Composer { reach, work } => self.held_by_composer(reach, *work, question),
            Actor::Users | Actor::Groups | Actor::ServiceAccounts(_) => Vec::new(),
        }
    }

    pub(super) fn held_by_subject(&self, subject: &Subject, question: &Question) -> Vec<Held> {
        if subject.is_masters() {
            return unlimited(&Reach::Cluster, question, "may do everything: RBAC is not evaluated");
        }
        let bound = self.rights.bound_to(subject);
        bound.flat_map(|bound| self.held_by_role(&bound.role, &bound.reach, question, &bound.by)).collect()
    }

    fn held_by_role(
        &self,
        role: &(String, String),
        bound: &Reach,
        question: &Question,
        by: &str,
    ) -> Vec<Held> {
        let is_custom = self.input.is_custom(&question.group);
        let Some((reach, only)) = reach_of(bound, question) else { return Vec::new() };
        let allowed = self.rights.rules(role).iter().filter_map(|rule| rule.allows(question, is_custom));
        let Some(names) = allowed.reduce(join).and_then(|names| names.and(&only)) else { return Vec::new() };
        let does = format!("may {} {}", question.verb, question.resource_words());
        vec![Held { reach, names, does, by: by.to_owned(), is_certain: true }]
    }

    fn held_by_composer(&self, reach: &Reach, work: Work, question: &Question) -> Vec<Held> {
        if question.path.is_some() || !question.subresource.is_empty() {
            return Vec::new();
        }
        let verb = question.verb.as_str();
        let is_write = WRITES.contains(&verb) || verb == "delete";
        match work {
            Work::Anything | Work::Reading if READS.contains(&verb) => self.read_for_others(reach, question),
            Work::Anything if is_write => self.write_for_others(reach, question, true),
            Work::Composing(place) if is_write => self.compose(reach, place, question),
            Work::Deleting(place) if verb == "delete" => self.compose(reach, place, question),
            _ => Vec::new(),
        }
    }

    fn compose(&self, reach: &Reach, place: usize, question: &Question) -> Vec<Held> {
        match self.kinds[place].composes(&question.group, &question.resource) {
            Some(false) => Vec::new(),
            answer => self.write_for_others(reach, question, answer == Some(true)),
        }
    }

    fn write_for_others(&self, reach: &Reach, question: &Question, is_certain: bool) -> Vec<Held> {
        let held = self.composers.iter().flat_map(|composer| {
            let held = self.held_by_subject(composer, question).into_iter();
            held.map(move |held| Held { does: format!("{composer} {}", held.does), ..held })
        });
        let confined = held.filter_map(|held| {
            Some(Held {
                reach: reach.confine(&held.reach)?,
                is_certain: is_certain && held.is_certain,
                ..held
            })
        });
        confined.collect()
    }

    fn read_for_others(&self, reach: &Reach, question: &Question) -> Vec<Held> {
        let held = self.readers.iter().flat_map(|reader| {
            let held = self.held_by_subject(reader, question).into_iter();
            held.map(move |held| Held { does: format!("{reader} {} for functions", held.does), ..held })
        });
        held.flat_map(|held| self.readable(reach, question, held)).collect()
    }

    /// What functions that run for composite resources there are given of what may be read.
    fn readable(&self, reach: &Reach, question: &Question, held: Held) -> Vec<Held> {
        // Cluster-scoped kinds are open to all.
        if held.reach == Reach::Cluster {
            return vec![held];
        }
        let own = reach.confine(&held.reach).map(|reach| Held { reach, ..held.clone() });
        let granted = self.grants.iter().filter(|grant| reaches(grant, reach)).flat_map(|grant| {
            let is_limited = !grant.to.kinds.is_empty() || !grant.to.functions.is_empty();
            let reads = grant.read.iter().flat_map(|read| self.granted(read, question));
            reads.map(move |(there, names)| (there, names, is_limited))
        });
        let granted = granted.filter_map(|(there, names, is_limited)| {
            let does = format!("{}, by an AccessGrant", held.does);
            let (reach, names) = (there.confine(&held.reach)?, held.names.and(&names)?);
            Some(Held { reach, names, does, is_certain: held.is_certain && !is_limited, ..held.clone() })
        });
        own.into_iter().chain(granted).collect()
    }

    /// Where a grant lets objects be read, and which ones.
    fn granted(&self, read: &ferroplane_api::ReadGrant, question: &Question) -> Vec<(Reach, Names)> {
        let Some(kind) = self.input.kind_of(&question.group, &question.resource) else { return Vec::new() };
        let is_secret = kind.group.is_empty() && kind.kind == "Secret";
        let is_kind = read.kinds.iter().any(|it| *it == kind.kind || it == ANY && !is_secret);
        let is_group = read.api_groups.iter().any(|it| *it == kind.group || it == ANY);
        let names = match &question.name {
            _ if read.names.is_empty() => Names::All,
            Some(name) if read.names.contains(name) => Names::All,
            Some(_) => return Vec::new(),
            None => Names::Some(read.names.iter().cloned().collect()),
        };
        if !is_kind || !is_group {
            return Vec::new();
        }
        let place = |name: &String| if name == ANY { Reach::Namespaces } else { Reach::namespace(name) };
        read.namespaces.iter().map(|name| (place(name), names.clone())).collect()
    }

    /// Who may write Usages keeps objects from being deleted.
    fn held_blocking(&self, actor: &Actor, question: &Question) -> Vec<Held> {
        let kinds = [
            (keys::PROTECTION, "clusterusages", false),
            (keys::APIEXTENSIONS, "usages", false),
            (keys::PROTECTION, "usages", true),
        ];
        let served = |group: &str, plural: &str| self.input.kind_of(group, plural).is_some();
        let kinds = kinds.into_iter().filter(|(group, plural, _)| served(group, plural));
        let questions = kinds.flat_map(|(group, plural, is_namespaced)| {
            WRITES.map(|verb| Question::about(verb, group, plural, is_namespaced))
        });
        let held = questions.flat_map(|question| self.held(actor, &question));
        let blocked = held.filter_map(|held| {
            // A Usage in a namespace reaches that namespace. Those of the cluster reach everything.
            let reach = if held.reach == Reach::Cluster { question.widest() } else { held.reach.clone() };
            let is_possible = question.is_namespaced || reach == Reach::Cluster;
            let does = format!("{}, which keeps objects from being deleted", held.does);
            is_possible.then_some(Held { reach, does, names: Names::All, ..held })
        });
        blocked.collect()
    }
}

/// Where a binding gives what is asked for, and for which names. A namespace is in itself, as far as rights go.
fn reach_of(bound: &Reach, question: &Question) -> Option<(Reach, Names)> {
    if question.path.is_some() {
        return (*bound == Reach::Cluster).then_some((Reach::Cluster, Names::All));
    }
    match bound {
        Reach::Namespace(own) if !question.is_namespaced => {
            let is_itself = question.group.is_empty() && question.resource == "namespaces";
            let is_asked = question.name.as_ref().is_none_or(|name| name == own);
            let itself = Names::Some(BTreeSet::from([own.clone()]));
            // Neither is there one name in a list, nor does a namespace exist before it is created.
            let is_of_one =
                !["create", "list", "watch", "deletecollection"].contains(&question.verb.as_str());
            (is_itself && is_asked && is_of_one).then_some((Reach::Cluster, itself))
        }
        Reach::Namespaces if !question.is_namespaced => None,
        Reach::Namespace(_) | Reach::Namespaces => Some((bound.clone(), Names::All)),
        Reach::Cluster => Some((question.widest(), Names::All)),
    }
}

fn join(one: Names, other: Names) -> Names {
    match (one, other) {
        (Names::Some(mut one), Names::Some(other)) => {
            one.extend(other);
            Names::Some(one)
        }
        _ => Names::All,
    }
}

fn unlimited(reach: &Reach, question: &Question, does: &str) -> Vec<Held> {
    if question.path.is_some() && *reach != Reach::Cluster {
        return Vec::new();
    }
    let reach = reach.confine(&question.widest());
    let held =
        |reach| Held { reach, names: Names::All, does: does.to_owned(), by: String::new(), is_certain: true };
    reach.map(held).into_iter().collect()
}

fn held_by_deletion(reach: &Reach, resource: Option<&(String, String)>, question: &Question) -> Vec<Held> {
    let is_it =
        resource.is_none_or(|(group, plural)| *group == question.group && *plural == question.resource);
    let is_deletion = question.verb == "delete" && question.subresource.is_empty() && question.path.is_none();
    if is_it && is_deletion { unlimited(reach, question, "deletes what is in it") } else { Vec::new() }
}

/// Programs of Providers have rights on all Secrets and ConfigMaps. They have others on kinds of their own, which nothing else relies on.
fn held_by_provider(question: &Question) -> Vec<Held> {
    let is_own = question.group.is_empty()
        && ["secrets", "configmaps"].contains(&question.resource.as_str())
        && question.subresource.is_empty();
    if !is_own {
        return Vec::new();
    }
    let does = format!("the program may {} {}", question.verb, question.resource_words());
    unlimited(&Reach::Cluster, question, &does)
}

/// Whether a grant is for composite resources there.
fn reaches(grant: &AccessGrantSpec, reach: &Reach) -> bool {
    match reach {
        Reach::Namespace(name) => grant.to.namespaces.iter().any(|it| it == name || it == ANY),
        Reach::Cluster | Reach::Namespaces => !grant.to.namespaces.is_empty(),
    }
}
