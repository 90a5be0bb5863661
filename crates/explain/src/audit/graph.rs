//! All actors, the ways between them, and the shortest of these.

use std::collections::{BTreeMap, VecDeque};

use super::actor::{Actor, Edge};
use super::edges::edges;
use super::held::Facts;

/// All actors that any subject can become, and how.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) actors: Vec<Actor>,
    /// By actor: whom it can become.
    ways: Vec<Vec<(usize, Edge)>>,
    /// By actor: who can become it, and by which of their ways.
    back: Vec<Vec<(usize, usize)>>,
}

/// Where each actor has to go next. None for those who have arrived, or cannot.
pub(super) struct Directions {
    next: Vec<Option<usize>>,
    has_arrived: Vec<bool>,
}

impl Graph {
    pub(super) fn new(facts: &Facts) -> Self {
        let mut actors: Vec<Actor> = facts.rights.subjects().cloned().map(Actor::Subject).collect();
        let mut index: BTreeMap<Actor, usize> =
            actors.iter().enumerate().map(|(place, actor)| (actor.clone(), place)).collect();
        let mut ways: Vec<Vec<(usize, Edge)>> = Vec::new();
        // Actors are found while others are checked.
        while ways.len() < actors.len() {
            let found = edges(facts, &actors[ways.len()]);
            let mut numbered = Vec::with_capacity(found.len());
            for edge in found {
                let place = *index.entry(edge.to.clone()).or_insert_with(|| {
                    actors.push(edge.to.clone());
                    actors.len() - 1
                });
                numbered.push((place, edge));
            }
            ways.push(numbered);
        }
        let mut back = vec![Vec::new(); actors.len()];
        for (from, ways) in ways.iter().enumerate() {
            for (number, (to, _)) in ways.iter().enumerate() {
                back[*to].push((from, number));
            }
        }
        Self { actors, ways, back }
    }

    /// The shortest ways to some actors, from everywhere.
    pub(super) fn directions(&self, to: &[usize], only_certain: bool) -> Directions {
        let mut next = vec![None; self.actors.len()];
        let mut has_arrived = vec![false; self.actors.len()];
        let mut is_known = vec![false; self.actors.len()];
        let mut pending: VecDeque<usize> = to.iter().copied().collect();
        for place in to {
            (has_arrived[*place], is_known[*place]) = (true, true);
        }
        // Backwards from the ends, so that one search serves all subjects; breadth first, so that routes are
        // the shortest.
        while let Some(place) = pending.pop_front() {
            for (from, number) in &self.back[place] {
                let is_open = !only_certain || self.ways[*from][*number].1.is_certain;
                if is_open && !is_known[*from] {
                    is_known[*from] = true;
                    next[*from] = Some(*number);
                    pending.push_back(*from);
                }
            }
        }
        Directions { next, has_arrived }
    }

    /// The way of an actor, and where it ends. None if it leads nowhere.
    pub(super) fn follow(&self, directions: &Directions, from: usize) -> Option<(Vec<&Edge>, usize)> {
        let mut way = Vec::new();
        let mut here = from;
        while !directions.has_arrived[here] {
            let (there, edge) = &self.ways[here][directions.next[here]?];
            way.push(edge);
            here = *there;
        }
        Some((way, here))
    }
}
