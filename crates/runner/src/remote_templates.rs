//! Adds templates from elsewhere to the requests of built-in functions that name them.
//!
//! Functions see the request and nothing else. Another crate decides what is fetched, from where and when.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use ferroplane_engine::RemoteTemplates;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{Resource, Resources, RunFunctionRequest};

use crate::error::CallError;

type Fetching = Pin<Box<dyn Future<Output = Result<Struct, String>> + Send>>;

/// Brings the templates at a place, as an object whose `data` are their files, or says why it does not.
#[derive(Clone)]
pub struct TemplateFetcher(Arc<dyn Fn(String) -> Fetching + Send + Sync>);

impl TemplateFetcher {
    pub fn new<F>(fetch: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Struct, String>> + Send + 'static,
    {
        Self(Arc::new(move |remote| Box::pin(fetch(remote))))
    }

    /// The request with the templates that its input names. Nothing if it names none.
    pub(crate) async fn add_to(
        &self,
        request: &RunFunctionRequest,
    ) -> Result<Option<RunFunctionRequest>, CallError> {
        let input = request.input.as_ref().and_then(|input| input.json().ok());
        let Some(remote) = input.and_then(RemoteTemplates::named_by) else { return Ok(None) };
        // What cannot be read is for the function to complain about.
        if RemoteTemplates::parse(remote).is_err() {
            return Ok(None);
        }
        let fetched = (self.0)(remote.to_owned()).await;
        let files = fetched.map_err(|reason| CallError::Templates { remote: remote.to_owned(), reason })?;
        let item = Resource { resource: Some(files), ..Resource::default() };
        let mut request = request.clone();
        request.required_resources.insert(remote.to_owned(), Resources { items: vec![item] });
        Ok(Some(request))
    }
}

impl fmt::Debug for TemplateFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TemplateFetcher")
    }
}
