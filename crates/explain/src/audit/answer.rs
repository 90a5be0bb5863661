//! Answers: who can, where, and by which route.

use std::collections::BTreeSet;

use ferroplane_api::{keys, meta};
use ferroplane_engine::used_by;
use serde::Serialize;

use super::actor::Actor;
use super::graph::Graph;
use super::held::{Facts, Held};
use super::input::AuditInput;
use super::reach::Reach;
use super::rule::{Names, Question};
use super::subject::Subject;

/// Who can cause what.
#[derive(Debug)]
pub struct Audit {
    pub(super) facts: Facts,
    graph: Graph,
}

/// A subject that can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub subject: Subject,
    #[serde(rename = "where")]
    pub reach: Reach,
    /// Only objects of these names. Empty for all.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<String>,
    /// Whether it takes nothing but what exists now. Otherwise it depends on what functions do, or on objects that others create.
    pub is_certain: bool,
    /// The shortest one. A direct right has one step.
    pub route: Vec<Step>,
}

/// One step of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What is done, as a sentence without its subject.
    pub does: String,
    /// The binding that allows it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
}

impl Answer {
    pub fn is_direct(&self) -> bool {
        self.route.len() == 1
    }

    /// Whether this implies the other one, apart from the subject.
    fn covers(&self, other: &Self) -> bool {
        self.reach.covers(&other.reach)
            && (self.names.is_empty() || self.names == other.names)
            && (self.is_certain || !other.is_certain)
    }
}

impl Audit {
    pub fn new(input: AuditInput) -> Self {
        let facts = Facts::new(input);
        let graph = Graph::new(&facts);
        Self { facts, graph }
    }

    /// Everybody who can do something, in the end, each by the shortest route.
    pub fn who_can(&self, question: &Question) -> Vec<Answer> {
        let held: Vec<Vec<Held>> = self.graph.actors.iter().map(|actor| self.held(actor, question)).collect();
        let mut answers: Vec<Answer> = Vec::new();
        // Rights to objects of all names first, so that a right to some of them is not listed beside it.
        for is_named in [false, true] {
            let kinds: BTreeSet<&Reach> = held.iter().flatten().map(|held| &held.reach).collect();
            for reach in kinds {
                let is_it = |held: &&Held| held.reach == *reach && (held.names != Names::All) == is_named;
                // A route that is certain is worth more than a shorter one that is not.
                for only_certain in [true, false] {
                    let matching = |all: &[Held]| -> Option<Held> {
                        let all = all.iter().filter(is_it);
                        all.filter(|held| held.is_certain || !only_certain)
                            .min_by_key(|held| !held.is_certain)
                            .cloned()
                    };
                    let ends: Vec<Option<Held>> = held.iter().map(|all| matching(all)).collect();
                    self.add_answers(&ends, only_certain, &mut answers);
                }
            }
        }
        leave_out_members(&mut answers);
        answers.sort_by(|one, other| {
            let key = |it: &Answer| (it.subject.clone(), it.reach.clone(), !it.is_certain, it.names.clone());
            key(one).cmp(&key(other))
        });
        answers
    }

    fn held(&self, actor: &Actor, question: &Question) -> Vec<Held> {
        let held = self.facts.held(actor, question).into_iter();
        // A caller that asks about one namespace need not be notified of others.
        held.filter_map(|held| Some(Held { reach: question.asked_at(&held.reach)?, ..held })).collect()
    }

    fn add_answers(&self, ends: &[Option<Held>], only_certain: bool, answers: &mut Vec<Answer>) {
        let to: Vec<usize> = (0..ends.len()).filter(|place| ends[*place].is_some()).collect();
        if to.is_empty() {
            return;
        }
        let directions = self.graph.directions(&to, only_certain);
        for (place, actor) in self.graph.actors.iter().enumerate() {
            let Actor::Subject(subject) = actor else { continue };
            let Some((way, end)) = self.graph.follow(&directions, place) else { continue };
            let Some(held) = &ends[end] else { continue };
            let answer = Answer {
                subject: subject.clone(),
                reach: held.reach.clone(),
                names: match &held.names {
                    Names::All => BTreeSet::new(),
                    Names::Some(names) => names.clone(),
                },
                is_certain: held.is_certain && way.iter().all(|edge| edge.is_certain),
                route: way
                    .iter()
                    .map(|edge| Step { does: edge.does.clone(), by: edge.by.clone() })
                    .chain([Step { does: held.does.clone(), by: held.by.clone() }])
                    .collect(),
            };
            let is_known = |known: &Answer| known.subject == answer.subject && known.covers(&answer);
            if !answers.iter().any(is_known) {
                answers.push(answer);
            }
        }
    }

    /// What a reader of answers should know.
    pub fn notes(&self, question: Option<&Question>) -> Vec<String> {
        let mut notes = Vec::new();
        if self.facts.composers.is_empty() && !self.facts.kinds.is_empty() {
            let words = "the user that composes is unknown, so rights through the control plane are left out; name the user \
                         with --composer";
            notes.push(words.to_owned());
        }
        let dangling = &self.facts.rights.dangling;
        notes.extend(
            dangling.iter().take(5).map(|it| {
                format!("there is {it}; a user who creates the role decides which rights it gives")
            }),
        );
        if dangling.len() > 5 {
            notes.push(format!("there are {} more bindings of roles that do not exist", dangling.len() - 5));
        }
        if let Some(question) = question.filter(|question| question.verb == "delete") {
            notes.extend(self.blocking(question));
        }
        notes
    }

    /// Usages that keep objects that are asked about from being deleted.
    fn blocking(&self, question: &Question) -> Vec<String> {
        let Some(kind) = self.facts.input.kind_of(&question.group, &question.resource) else {
            return Vec::new();
        };
        let usages = self.facts.input.objects.iter().filter(|object| {
            let group = meta::group(meta::api_version(object));
            [keys::PROTECTION, keys::APIEXTENSIONS].contains(&group) && meta::kind(object).ends_with("Usage")
        });
        let blocked = usages.filter_map(|usage| {
            let used = used_by(usage)?;
            let is_it = used.group == kind.group && used.kind == kind.kind;
            let is_there = question.namespace.as_ref().is_none_or(|namespace| *namespace == used.namespace);
            let is_named = question.name.as_ref().is_none_or(|name| *name == used.name);
            let path = if used.namespace.is_empty() {
                used.name.clone()
            } else {
                format!("{}/{}", used.namespace, used.name)
            };
            let words = format!(
                "{} {} keeps {} {path} from being deleted by any user",
                meta::kind(usage),
                meta::name(usage),
                kind.kind
            );
            (is_it && is_there && is_named).then_some(words)
        });
        blocked.collect()
    }
}

/// What a subject can do only as a member of a group is listed for the group alone.
fn leave_out_members(answers: &mut Vec<Answer>) {
    let of_groups: Vec<Answer> =
        answers.iter().filter(|it| matches!(it.subject, Subject::Group { .. })).cloned().collect();
    answers.retain(|answer| {
        let groups = answer.subject.implied_groups();
        let is_told = |it: &Answer| groups.contains(&it.subject) && it.covers(answer);
        !of_groups.iter().any(is_told)
    });
}
