//! Reads the objects that functions of an operation require from the API server. For the watched object, a placeholder stands in if it
//! was deleted.

use ferroplane_api::{Object, meta};
use ferroplane_engine::{Answer, Want};
use ferroplane_runner::Resources;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;

use crate::live_resources::LiveResources;

/// The objects on an API server, and the placeholder of a deleted one.
#[derive(Debug)]
pub(super) struct WatchedResources<'a> {
    pub(super) live: LiveResources<'a>,
    /// The placeholder for the object that the operation was created for, once that is deleted.
    pub(super) gone: Option<Object>,
}

impl WatchedResources<'_> {
    fn gone(&self, selector: &ResourceSelector) -> Option<Struct> {
        let gone = self.gone.as_ref()?;
        let Some(Match::MatchName(name)) = &selector.r#match else { return None };
        let is_it = selector.api_version == meta::api_version(gone)
            && selector.kind == meta::kind(gone)
            && selector.namespace.as_deref().unwrap_or_default() == meta::namespace(gone)
            && name == meta::name(gone);
        is_it.then(|| Struct::try_from(gone.clone()).ok()).flatten()
    }

    /// Whether not even the kind exists any more.
    async fn is_kind_gone(&self, selector: &ResourceSelector) -> bool {
        matches!(self.live.resource(&selector.api_version, &selector.kind).await, Ok(None))
    }
}

impl Resources for WatchedResources<'_> {
    async fn fetch(&self, want: &Want) -> Answer {
        let answer = self.live.fetch(want).await;
        let Want::Resources(selector) = want else { return answer };
        let Some(gone) = self.gone(selector) else { return answer };
        // Another object of the same name may have been created since.
        let is_missing = matches!(&answer, Answer::Resources(found) if found.is_empty());
        let has_failed = matches!(&answer, Answer::Failed(_));
        if is_missing || has_failed && self.is_kind_gone(selector).await {
            return Answer::Resources(vec![gone]);
        }
        answer
    }
}
