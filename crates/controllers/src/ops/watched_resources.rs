//! What functions of an operation require: read from the API server, or told if it is the object that the operation was made for, and
//! that is gone.

use ferroplane_api::{Object, meta};
use ferroplane_engine::{Answer, Want};
use ferroplane_runner::Resources;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;

use crate::live_resources::LiveResources;

/// What there is on an API server, and the object that was there.
#[derive(Debug)]
pub(super) struct WatchedResources<'a> {
    pub(super) live: LiveResources<'a>,
    /// What stands for the object that the operation was made for, once that is gone.
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
}

impl Resources for WatchedResources<'_> {
    async fn fetch(&self, want: &Want) -> Answer {
        let answer = self.live.fetch(want).await;
        match (&answer, want) {
            // One of the same name may have been created since.
            (Answer::Resources(found), Want::Resources(selector)) if found.is_empty() => {
                Answer::Resources(self.gone(selector).into_iter().collect())
            }
            _ => answer,
        }
    }
}
