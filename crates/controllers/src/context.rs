//! What every controller is given: the API server, what it has that all of them look at, and a voice.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_client::{ApiClient, Error, Informer, InformerScope, Resource};
use ferroplane_engine::{GRANT_API_VERSION, GRANT_KIND};
use ferroplane_recorder::Recorder as Recordings;

use crate::metrics::Metrics;
use crate::runtime::clock::Clock;
use crate::runtime::events::Recorder;
use crate::runtime::queue::Queue;
use crate::runtime::shutdown::Shutdown;
use crate::tuning::Tuning;

/// What every controller is given.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) cluster: ApiClient,
    /// The same API server, with the rights that are meant for composed resources.
    pub(crate) composer: ApiClient,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    pub(crate) recordings: Recordings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tuning: Tuning,
    /// Ends all work.
    pub(crate) shutdown: Shutdown,
    pub(crate) definitions: Arc<Informer>,
    pub(crate) compositions: Arc<Informer>,
    pub(crate) revisions: Arc<Informer>,
    pub(crate) functions: Arc<Informer>,
    pub(crate) function_revisions: Arc<Informer>,
    /// What administrators allow beyond namespaces. Where the kind is not installed, there is none.
    pub(crate) grants: Arc<Informer>,
    /// How new revisions of functions reach composite resources. Where the kind is not installed, at once.
    pub(crate) rollouts: Arc<Informer>,
    /// Developers' processes that are called in place of functions. Where the kind is not installed, there are none.
    pub(crate) intercepts: Arc<Informer>,
    /// The metadata of every `CustomResourceDefinition`.
    pub(crate) kinds: Arc<Informer>,
}

const EXTENSIONS: &str = "apiextensions.crossplane.io/v1";
const PACKAGES: &str = "pkg.crossplane.io/v1";
const ROLLOUTS: &str = "rollout.ferroplane.io/v1alpha1";

/// As whom controllers come to the API server.
pub(crate) struct Clients {
    pub(crate) controllers: kube::Client,
    /// Who writes what is composed, if not the same.
    pub(crate) composer: Option<ApiClient>,
}

impl Context {
    /// Begin to follow what all controllers look at.
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
        let kinds = cluster_scoped(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        );
        // Providers bring hundreds of large definitions. Of most of them we only want to know that they changed.
        let kinds = InformerScope { metadata_only: true, ..InformerScope::new(kinds) };
        let kinds = Informer::start(cluster.clone(), kinds);
        let forgetful = cluster.clone();
        kinds.listen(move |_, _| forgetful.forget_resources());
        metrics.include(recordings.clone());
        let context = Self {
            recorder: Recorder::start(cluster.clone(), clock.clone()),
            metrics,
            recordings,
            tuning,
            shutdown: Shutdown::default(),
            definitions: follow(EXTENSIONS, "CompositeResourceDefinition", "compositeresourcedefinitions"),
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
        for informer in context.informers() {
            informer.synced().await;
        }
        // Somebody else may have installed the kinds, for an older release. Without grants, nothing more is allowed.
        let _ = context.grants.synced_or_failed().await;
        let _ = context.rollouts.synced_or_failed().await;
        let _ = context.intercepts.synced_or_failed().await;
        Ok(context)
    }

    /// The work of a controller, of which nothing waits longer than this after a failure.
    pub(crate) fn queue<K>(&self, longest_pause: Duration, controller: &str) -> Queue<K>
    where
        K: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    {
        Queue::new(longest_pause, self.metrics.work(controller), self.shutdown.clone())
    }

    /// Follow no longer.
    pub(crate) fn stop(&self) {
        for informer in self.informers().into_iter().chain([&self.grants, &self.rollouts, &self.intercepts]) {
            informer.stop();
        }
    }

    /// Those without which nobody can work.
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
