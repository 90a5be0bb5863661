//! What every controller is given: the API server, what it has that all of them look at, and a voice.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::keys;
use ferroplane_recorder::Recorder as Recordings;

use crate::cluster::{Cluster, Error, Resource, Selector};
use crate::metrics::Metrics;
use crate::mirror::{Mirror, Subject};
use crate::runtime::clock::Clock;
use crate::runtime::events::Recorder;
use crate::runtime::queue::Queue;
use crate::runtime::shutdown::Shutdown;

/// What every controller is given.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    pub(crate) recordings: Recordings,
    pub(crate) metrics: Arc<Metrics>,
    /// Ends all work.
    pub(crate) shutdown: Shutdown,
    pub(crate) definitions: Arc<Mirror>,
    pub(crate) compositions: Arc<Mirror>,
    pub(crate) revisions: Arc<Mirror>,
    pub(crate) functions: Arc<Mirror>,
    pub(crate) function_revisions: Arc<Mirror>,
    /// The metadata of every `CustomResourceDefinition`.
    pub(crate) kinds: Arc<Mirror>,
}

impl Context {
    /// Begin to follow what all controllers look at.
    pub(crate) async fn start(cluster: Cluster, clock: Clock, recordings: Recordings) -> Result<Self, Error> {
        let follow = |group: &str, version: &str, kind: &str, plural: &str, heads_only| {
            let resource = Arc::new(Resource {
                api_version: format!("{group}/{version}"),
                kind: kind.to_owned(),
                plural: plural.to_owned(),
                is_namespaced: false,
            });
            Mirror::start(cluster.clone(), Subject { resource, labels: Selector::default(), heads_only })
        };
        let kinds = follow(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            true,
        );
        let forgetful = cluster.clone();
        kinds.listen(move |_, _| forgetful.forget_kinds());
        cluster.metrics().include(recordings.clone());
        let context = Self {
            recorder: Recorder::start(cluster.clone(), clock.clone()),
            metrics: cluster.metrics().clone(),
            recordings,
            shutdown: Shutdown::default(),
            definitions: follow(
                keys::APIEXTENSIONS,
                "v1",
                "CompositeResourceDefinition",
                "compositeresourcedefinitions",
                false,
            ),
            compositions: follow(keys::APIEXTENSIONS, "v1", "Composition", "compositions", false),
            revisions: follow(
                keys::APIEXTENSIONS,
                "v1",
                "CompositionRevision",
                "compositionrevisions",
                false,
            ),
            functions: follow(keys::PKG, "v1", "Function", "functions", false),
            function_revisions: follow(keys::PKG, "v1", "FunctionRevision", "functionrevisions", false),
            kinds,
            cluster,
            clock,
        };
        for mirror in context.mirrors() {
            mirror.complete().await;
        }
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
        for mirror in self.mirrors() {
            mirror.stop();
        }
    }

    fn mirrors(&self) -> [&Arc<Mirror>; 6] {
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
