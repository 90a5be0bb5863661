//! Plans the effect of a change on composite resources and their composed resources, without making it.
//!
//! The code that reconciles makes the plan: select, observe, decide. Writes go to a [`PlannedCluster`] in memory instead, as the API
//! server answers a dry run, and composite resources are visited until nothing changes any more. Their claims come last.
//!
//! # Invariants
//! * Nothing is written: every write is a dry run.
//! * A plan is exact, or it names the composite resources whose changes are unknown, and why.
//! * A client sees no object that it may not read, and cannot propose one that it may not write.

mod access;
mod claims;
mod planned_cluster;
mod proposal;
mod readiness;
mod report;
mod requirers;
mod visit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferroplane_api::{Object, meta};
use ferroplane_client::ApiClient;
use ferroplane_engine::changes::{ChangePlan, ObjectName, Verdict};
use ferroplane_engine::{Defaults, Requirement};
use futures_util::stream::{self, StreamExt as _};
use serde::{Deserialize, Serialize};

use super::controller::Controller;
use super::memory::Name;
use super::select::SelectionSources;
use super::{Composites, GroupKind};
use planned_cluster::{Key, PlannedCluster};
pub use proposal::apply_file;
use proposal::{Proposals, Proposed};
use requirers::Requirers;

/// How many composite resources are visited at a time.
const CONCURRENCY: usize = 32;
/// How many visits a composite resource gets before the plan gives up on it. Each level of nesting takes some.
const VISITS: u32 = 20;
/// How often a plan is made again because an object changed while it was made.
const ATTEMPTS: u32 = 5;

/// What to plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanRequest {
    /// The objects to apply, as in files.
    #[serde(default)]
    pub objects: Vec<Object>,
    /// The revisions that steps would call which name only the function, by function.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub function_revisions: BTreeMap<String, String>,
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("cannot plan {object}: {reason}")]
    Proposal { object: ObjectName, reason: String },
    #[error("cannot plan: {0}")]
    Functions(String),
    #[error("cannot plan: {0} kept changing while the plan was made; try again later")]
    Moving(String),
    #[error(
        "cannot plan: the composite resources of CompositeResourceDefinition `{0}` have not been read yet; try again later"
    )]
    Unread(String),
}

/// Makes plans.
#[derive(Debug, Clone)]
pub struct Planner {
    pub(super) composites: Arc<Composites>,
}

/// The state of a composite resource while a plan is made.
#[derive(Debug, Default)]
struct Progress {
    visits: u32,
    verdict: Option<Verdict>,
    revision: Option<String>,
    /// The requirements of functions in the last visit.
    requirements: Option<Vec<Requirement>>,
    /// The composed resources that the API server would refuse, by resource name.
    refused: BTreeMap<String, (ObjectName, String)>,
    /// Identifies the selection.
    identity: Arc<str>,
}

/// A plan while it is made.
struct Planning {
    composites: Arc<Composites>,
    planned: PlannedCluster,
    sources: PlannedSources,
    now: String,
}

/// The sources of selections in a plan.
struct PlannedSources {
    common: SelectionSources,
    /// The defaults of the proposed definitions, by name.
    defaults: BTreeMap<String, Defaults>,
}

impl PlannedSources {
    fn of(&self, controller: &Controller) -> SelectionSources {
        let defaults = self.defaults.get(&controller.kind.definition).unwrap_or(&controller.defaults);
        SelectionSources { defaults: defaults.clone(), ..self.common.clone() }
    }
}

impl Planner {
    pub(crate) fn new(composites: &Arc<Composites>) -> Self {
        Self { composites: composites.clone() }
    }

    /// Plan a change. `caller` is the API server with the rights of the client.
    pub async fn plan(&self, request: &PlanRequest, caller: &ApiClient) -> Result<ChangePlan, PlanError> {
        let mut moved = String::new();
        for _ in 0..ATTEMPTS {
            let epoch = self.epoch();
            self.until_read().await?;
            let (planning, proposals) = self.begin(request, caller).await?;
            let mut progress = planning.settle(&proposals).await;
            let claimed = planning.settle_claims(&proposals, &mut progress).await;
            match planning.planned.moved().await {
                Some(what) => moved = what.to_string(),
                None if self.epoch() != epoch => {
                    "a definition, a Composition, a Function or a grant".clone_into(&mut moved);
                }
                None => return Ok(planning.report(&proposals, progress, &claimed, caller).await),
            }
        }
        Err(PlanError::Moving(moved))
    }

    /// Increases when the sources of selections or the set of composite resources change.
    fn epoch(&self) -> (u64, u64, u64, u64) {
        let shared = &self.composites.shared;
        let functions = shared.functions.current().epoch;
        (shared.compositions.epoch(), functions, shared.grants.epoch(), self.composites.epoch())
    }

    async fn begin(
        &self,
        request: &PlanRequest,
        caller: &ApiClient,
    ) -> Result<(Planning, Proposals), PlanError> {
        let shared = &self.composites.shared;
        let planned = PlannedCluster::new(self.composites.clone());
        let proposals = Proposals::read(request, caller, &self.composites).await?;
        for Proposed { before, after } in &proposals.objects {
            planned.propose(before.as_ref(), after.clone());
        }
        let callables = shared.functions.current().preferring(&proposals.function_revisions);
        // The plan shows the final result of a change, without rollouts.
        let callables =
            callables.map_err(PlanError::Functions)?.without_rollouts_of(&proposals.changed_compositions());
        let callables = Arc::new(callables);
        let (compositions, revisions) = proposals.compositions(shared, &callables)?;
        let common = SelectionSources {
            compositions: Arc::new(shared.compositions.with(&compositions, &revisions)),
            callables,
            defaults: Defaults::default(),
        };
        let sources = PlannedSources { common, defaults: proposals.defaults() };
        let now = shared.context.clock.now();
        Ok((Planning { composites: self.composites.clone(), planned, sources, now }, proposals))
    }
}

impl Planning {
    /// Visit everything that the change affects, until nothing changes any more.
    async fn settle(&self, proposals: &Proposals) -> BTreeMap<Key, Progress> {
        let mut progress = BTreeMap::<Key, Progress>::new();
        let mut waiting = self.reached_at_first(proposals);
        while !waiting.is_empty() {
            let batch: Vec<_> = std::mem::take(&mut waiting)
                .into_iter()
                .map(|key| {
                    let known = progress.remove(&key).unwrap_or_default();
                    self.visit_once(key, known)
                })
                .collect();
            let visited: Vec<_> = stream::iter(batch).buffer_unordered(CONCURRENCY).collect().await;
            let mut changed = Vec::new();
            for (key, known, objects) in visited {
                progress.insert(key, known);
                changed.extend(objects);
            }
            // After all of them: one that was visited at the same time may have read an object before it changed.
            let requirers = Requirers::of(&progress);
            for object in &changed {
                waiting.extend(self.concerned_by(object, &requirers));
            }
        }
        progress
    }

    async fn visit_once(&self, key: Key, mut known: Progress) -> (Key, Progress, Vec<Object>) {
        known.visits += 1;
        if known.visits > VISITS {
            let reason = "it never settles: functions return another desired state each time they are called";
            known.verdict = Some(Verdict::Refused { reason: reason.to_owned() });
            return (key, known, Vec::new());
        }
        let changed = self.visit(&key, &mut known).await;
        (key, known, changed)
    }

    /// The composite resources that a change affects directly.
    fn reached_at_first(&self, proposals: &Proposals) -> BTreeSet<Key> {
        let mut reached = BTreeSet::new();
        for Proposed { before, after } in &proposals.objects {
            for object in before.iter().chain([after]) {
                reached.extend(self.concerned_by(object, &Requirers::default()));
            }
        }
        for controller in self.composites.all() {
            let sources = self.sources.of(&controller);
            let is_unknowable = proposals.unknowable.contains_key(&controller.kind.definition);
            for live in controller.informer.objects() {
                // The selection is cheap to compute, and the same for most.
                let now = controller.select(&live).identity;
                if is_unknowable || controller.select_from(&live, &sources).identity != now {
                    reached.insert(Key::of(&live));
                }
            }
        }
        // If nothing is proposed, only functions can tell whether anything changes.
        if proposals.is_empty() {
            let all = self.composites.all().into_iter();
            reached
                .extend(all.flat_map(|controller| controller.informer.objects()).map(|live| Key::of(&live)));
        }
        reached
    }

    /// The composite resources to visit because of a changed object: itself, its composer, and those whose functions require it.
    fn concerned_by(&self, object: &Object, requirers: &Requirers<'_>) -> BTreeSet<Key> {
        let mut concerned = BTreeSet::new();
        if self.composites.of_kind(&group_kind(object)).is_some() {
            concerned.insert(Key::of(object));
        }
        concerned.extend(self.composite_of(object));
        for (definition, name) in self.composites.shared.dependencies.interested_in(object) {
            if let Some(controller) = self.composites.get(&definition) {
                concerned.insert(Key::named(&controller.kind.resource, &name));
            }
        }
        concerned.extend(requirers.of_object(object).cloned());
        concerned
    }

    /// The composite resource that controls an object.
    fn composite_of(&self, object: &Object) -> Option<Key> {
        let owner = meta::controller(object)?;
        let text = |field: &str| owner.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
        let kind: GroupKind = (meta::group(text("apiVersion")).to_owned(), text("kind").to_owned());
        let controller = self.composites.of_kind(&kind)?;
        let namespace = if controller.is_namespaced() { meta::namespace(object) } else { "" };
        let name: Name = ferroplane_client::cache_key(namespace, text("name")).into();
        Some(Key::named(&controller.kind.resource, &name))
    }
}

pub(super) fn group_kind(object: &Object) -> GroupKind {
    (meta::group(meta::api_version(object)).to_owned(), meta::kind(object).to_owned())
}
