//! Offers claims: creates the kinds of claims that definitions have, and runs their controllers.

use std::sync::Arc;

use ferroplane_api::{Object, meta};
use ferroplane_engine::{Defined, Underivable, defined_claim, defined_composite};

use crate::apiextensions::claim::{ClaimKind, Claims};
use crate::apiextensions::definition::{Definer, Observed, Side, Words, resource};
use crate::context::Context;

/// The finalizer that keeps a definition until its claims are deleted.
pub(crate) const FINALIZER: &str = "offered.apiextensions.crossplane.io";

/// Run the controller of claims of all definitions, until dropped.
pub(crate) async fn run(context: Arc<Context>, claims: Arc<Claims>) {
    Definer::new(context, ClaimSide(claims)).run().await;
}

/// The claims of a definition.
struct ClaimSide(Arc<Claims>);

impl Side for ClaimSide {
    const WORDS: Words = Words {
        controller: "offered/compositeresourcedefinition.apiextensions.crossplane.io",
        finalizer: FINALIZER,
        condition: "Offered",
        watching: "WatchingCompositeResourceClaim",
        terminating: "TerminatingCompositeResourceClaim",
        establish: "OfferClaim",
        restart: "OfferClaim",
        terminate: "RedactClaim",
        status: "compositeResourceClaimType",
        objects: "claims",
    };

    fn derive(xrd: &Object) -> Result<Option<Defined>, Underivable> {
        let Some(claim) = defined_claim(xrd)? else { return Ok(None) };
        // The composite resources have to be valid, too.
        defined_composite(xrd)?;
        Ok(Some(claim))
    }

    fn definition_name(xrd: &Object) -> Option<String> {
        let spec = xrd.get("spec")?;
        let plural = spec.get("claimNames")?.get("plural")?.as_str()?;
        Some(format!("{plural}.{}", spec.get("group")?.as_str()?))
    }

    fn start(&self, xrd: &Object, defined: &Defined) {
        let Ok(composite) = defined_composite(xrd) else { return };
        let enforced = xrd.get("spec").and_then(|spec| spec.get("enforcedCompositionRef"));
        self.0.start(ClaimKind {
            definition: meta::name(xrd).to_owned(),
            resource: resource(defined).into(),
            composite: resource(&composite).into(),
            is_enforced: enforced.is_some_and(serde_json::Value::is_object),
        });
    }

    fn stop(&self, definition: &str) {
        self.0.stop(definition);
    }

    fn is_running(&self, definition: &str) -> bool {
        self.0.is_running(definition)
    }

    /// A change of the version alone makes it another kind.
    fn is_outdated(observed: Observed<'_>, _: &Object, defined: &Defined) -> bool {
        !observed.api_version.is_empty() && observed.api_version != defined.api_version
    }

    fn comes_after(_: &Object) -> Option<&'static str> {
        None
    }
}
