//! The state that all controllers share: the clients of the API server, its caches, and the recorder of events.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::Object;
use ferroplane_client::{ApiClient, Change, Error, Informer, InformerScope, Resource};
use ferroplane_engine::{GRANT_API_VERSION, GRANT_KIND};
use ferroplane_recorder::Recorder as Recordings;

use crate::metrics::Metrics;
use crate::runtime::clock::Clock;
use crate::runtime::events::Recorder;
use crate::runtime::queue::Queue;
use crate::runtime::shutdown::Shutdown;
use crate::tuning::Tuning;

/// The shared state.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) cluster: ApiClient,
    /// The same API server, with the rights for composed resources.
    pub(crate) composer: ApiClient,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    pub(crate) recordings: Recordings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tuning: Tuning,
    /// Stops all controllers.
    pub(crate) shutdown: Shutdown,
    pub(crate) definitions: Arc<Informer>,
    pub(crate) compositions: Arc<Informer>,
    pub(crate) revisions: Arc<Informer>,
    pub(crate) functions: Arc<Informer>,
    pub(crate) function_revisions: Arc<Informer>,
    /// Grants of administrators for reads across namespaces. Empty if the kind is not installed.
    pub(crate) grants: Arc<Informer>,
    /// Rollouts of new revisions. If the kind is not installed, new revisions are used at once.
    pub(crate) rollouts: Arc<Informer>,
    /// Intercepts of functions by developers' processes. Empty if the kind is not installed.
    pub(crate) intercepts: Arc<Informer>,
    /// The metadata of every `CustomResourceDefinition`.
    pub(crate) kinds: Arc<Informer>,
}

const EXTENSIONS: &str = "apiextensions.crossplane.io/v1";
const PACKAGES: &str = "pkg.crossplane.io/v1";
const ROLLOUTS: &str = "rollout.ferroplane.io/v1alpha1";

/// The clients of the API server.
pub(crate) struct Clients {
    pub(crate) controllers: kube::Client,
    /// Writes composed resources, if it is another user.
    pub(crate) composer: Option<ApiClient>,
}

/// Watch the metadata of every `CustomResourceDefinition`: providers install hundreds of large definitions, and for most of them it is
/// enough to know that they changed.
fn follow_kinds(cluster: &ApiClient) -> Arc<Informer> {
    let kinds =
        cluster_scoped("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions");
    let kinds = InformerScope { metadata_only: true, ..InformerScope::new(kinds) };
    let kinds = Informer::start(cluster.clone(), kinds);
    let forgetful = cluster.clone();
    kinds.listen(move |_, _| forgetful.forget_resources());
    kinds
}

/// Redact the fields that definitions call sensitive, in all recordings: composite resources turn up in those of others, too.
fn redact_sensitive_fields(definitions: &Informer, recordings: &Recordings) {
    if !recordings.is_on() {
        return;
    }
    let recordings = recordings.clone();
    definitions.listen(move |_, change| {
        if let Change::Applied { object, .. } = change
            && let Ok(definition) = serde_json::from_slice::<Object>(&object.bytes)
        {
            recordings.define(&definition);
        }
    });
}

impl Context {
    /// Start the informers that all controllers use.
    pub(crate) async fn start(
        clients: Clients,
        clock: Clock,
        recordings: Recordings,
        tuning: Tuning,
    ) -> Result<Self, Error> {
        let metrics = Arc::new(Metrics::default());
        let cluster = ApiClient::new(clients.controllers).with_observer(metrics.clone());
        let composer =
            clients.composer.map_or_else(|| cluster.clone(), |user| cluster.clone().acting_as(&user));
        let follow = |api_version: &str, kind: &str, plural: &str| {
            Informer::start(cluster.clone(), InformerScope::new(cluster_scoped(api_version, kind, plural)))
        };
        let kinds = follow_kinds(&cluster);
        let definitions = follow(EXTENSIONS, "CompositeResourceDefinition", "compositeresourcedefinitions");
        redact_sensitive_fields(&definitions, &recordings);
        metrics.include(recordings.clone());
        let context = Self {
            recorder: Recorder::start(cluster.clone(), clock.clone()),
            metrics,
            recordings,
            tuning,
            shutdown: Shutdown::default(),
            definitions,
            compositions: follow(EXTENSIONS, "Composition", "compositions"),
            revisions: follow(EXTENSIONS, "CompositionRevision", "compositionrevisions"),
            functions: follow(PACKAGES, "Function", "functions"),
            function_revisions: follow(PACKAGES, "FunctionRevision", "functionrevisions"),
            grants: follow(GRANT_API_VERSION, GRANT_KIND, "accessgrants"),
            rollouts: follow(ROLLOUTS, "FunctionRollout", "functionrollouts"),
            intercepts: follow(ROLLOUTS, "FunctionIntercept", "functionintercepts"),
            kinds,
            cluster,
            composer,
            clock,
        };
        context.synced().await;
        Ok(context)
    }

    /// Wait until all informers have synced.
    async fn synced(&self) {
        for informer in self.informers() {
            informer.synced().await;
        }
        // Another installation may have installed the kinds of an older release. Without grants, nothing more is
        // allowed. Where rollouts are installed, controllers must wait for them: all composite resources would call
        // the newest revisions at once.
        for informer in [&self.grants, &self.rollouts, &self.intercepts] {
            informer.synced_or_refused().await;
        }
    }

    /// The queue of a controller, with its longest pause after a failure.
    pub(crate) fn queue<K>(&self, longest_pause: Duration, controller: &str) -> Queue<K>
    where
        K: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    {
        Queue::new(longest_pause, self.metrics.work(controller), self.shutdown.clone())
    }

    /// Stop the informers.
    pub(crate) fn stop(&self) {
        for informer in self.informers().into_iter().chain([&self.grants, &self.rollouts, &self.intercepts]) {
            informer.stop();
        }
    }

    /// The informers that every controller needs.
    fn informers(&self) -> [&Arc<Informer>; 6] {
        [
            &self.kinds,
            &self.definitions,
            &self.compositions,
            &self.revisions,
            &self.functions,
            &self.function_revisions,
        ]
    }
}

fn cluster_scoped(api_version: &str, kind: &str, plural: &str) -> Arc<Resource> {
    Arc::new(Resource {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        is_namespaced: false,
    })
}
