//! Templates that steps read from elsewhere, as the commands fetch them.

use std::path::PathBuf;

use anyhow::Context as _;
use ferroplane_engine::chain;
use ferroplane_image::auth::Credentials;
use ferroplane_image::registry;
use ferroplane_remote_templates::{Fetcher, Options};
use ferroplane_runner::TemplateFetcher;

/// Whether a call may wait for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Waits for templates, because `render` needs them.
    Waits,
    /// It is notified that they are being fetched: a reconcile never waits for the network, and is tried again.
    NeverWaits,
}

/// Fetches templates from these places. Nothing if there are none.
pub(crate) fn template_fetcher(
    allowed: &[String],
    directory: Option<PathBuf>,
    patience: Patience,
) -> anyhow::Result<Option<TemplateFetcher>> {
    if allowed.is_empty() {
        return Ok(None);
    }
    let registry =
        registry::Options { credentials: Credentials::of_the_user(), ..registry::Options::default() };
    let options = Options { allowed: allowed.to_vec(), directory, registry, ..Options::default() };
    let fetcher = Fetcher::new(options).context("cannot fetch templates (--allow-remote-templates)")?;
    Ok(Some(TemplateFetcher::new(move |remote| {
        let fetcher = fetcher.clone();
        async move {
            let templates = match patience {
                Patience::Waits => fetcher.fetch(&remote).await,
                Patience::NeverWaits => fetcher.get(&remote),
            };
            templates.map_err(|error| chain(&error))
        }
    })))
}
