//! Defines the kinds of composite resources: their `CustomResourceDefinition`, and their controller.

mod custom_kind;
mod definer;
mod report;
mod side;
mod termination;

use std::sync::Arc;

use ferroplane_api::{Object, meta};
use ferroplane_engine::{Defined, Underivable, defined_composite, scope};

use crate::apiextensions::composite::{CompositeKind, Composites};
use crate::context::Context;
pub(crate) use custom_kind::CustomKinds;
pub(crate) use definer::Definer;
pub(crate) use side::{Side, Words, resource};

/// Run the controller of composite resources of all definitions, until dropped.
pub(crate) async fn run(context: Arc<Context>, composites: Arc<Composites>) {
    Definer::new(context, CompositeSide(composites)).run().await;
}

/// The composite resources of a definition.
struct CompositeSide(Arc<Composites>);

impl Side for CompositeSide {
    const WORDS: Words = Words {
        controller: "defined/compositeresourcedefinition.apiextensions.crossplane.io",
        finalizer: "defined.apiextensions.crossplane.io",
        condition: "Established",
        watching: "WatchingCompositeResource",
        terminating: "TerminatingCompositeResource",
        establish: "EstablishComposite",
        restart: "RestartComposite",
        terminate: "TerminateComposite",
        status: "compositeResourceType",
        objects: "composite resources",
    };

    fn derive(xrd: &Object) -> Result<Option<Defined>, Underivable> {
        defined_composite(xrd).map(Some)
    }

    fn definition_name(xrd: &Object) -> Option<String> {
        Some(meta::name(xrd).to_owned())
    }

    fn start(&self, xrd: &Object, defined: &Defined) {
        self.0.start(CompositeKind {
            definition: meta::name(xrd).to_owned(),
            generation: meta::generation(xrd),
            resource: resource(defined).into(),
            scope: scope(xrd),
            object: xrd.clone().into(),
        });
    }

    fn stop(&self, definition: &str) {
        self.0.stop(definition);
    }

    fn is_running(&self, definition: &str) -> bool {
        self.0.generation(definition).is_some()
    }

    fn is_outdated(observed: Observed<'_>, xrd: &Object, _: &Defined) -> bool {
        observed.generation != 0 && observed.generation != meta::generation(xrd)
    }

    /// Claims create composite resources: as long as there are claims, deleting composite resources would be useless.
    fn comes_after(xrd: &Object) -> Option<&'static str> {
        crate::runtime::finalizers::has(xrd, crate::apiextensions::claim_definition::FINALIZER)
            .then_some("claims")
    }
}

/// The controller in the status of a definition: it runs, or ran before a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Observed<'a> {
    /// The generation for which it runs; zero if it does not.
    pub(crate) generation: i64,
    /// The version of its kind.
    pub(crate) api_version: &'a str,
}
