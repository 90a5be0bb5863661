//! What every controller is given: the API server, what it has that all of them look at, and a voice.

use std::sync::Arc;

use ferroplane_api::keys;

use crate::clock::Clock;
use crate::cluster::{Cluster, Error, Resource, Selector};
use crate::events::Recorder;
use crate::metrics::Metrics;
use crate::mirror::{Mirror, Subject};

/// What every controller is given.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Arc<Metrics>,
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
    pub(crate) async fn start(cluster: Cluster, clock: Clock) -> Result<Self, Error> {
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
        let context = Self {
            recorder: Recorder::start(cluster.clone(), clock.clone()),
            metrics: cluster.metrics().clone(),
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
