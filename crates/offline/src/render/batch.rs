//! Renders and prints many composite resources at once.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::Context as _;
use ferroplane_api::meta;
use ferroplane_runner::Directory;
use tokio::task::JoinHandle;

use super::{PrintOptions, Renderer, output};
use crate::manifest::Manifest;

/// What a composite resource would become, printed.
#[derive(Debug)]
pub struct PrintedComposite {
    pub text: Vec<u8>,
    /// The fatal result of a function, if one gave up.
    pub fatal: Option<String>,
}

impl Renderer {
    /// Render every composite resource, several at once, and pass on the results in the order of the composite
    /// resources. No more results are held in memory than are rendered at once. Stops the functions at the end.
    pub async fn render_all(
        mut self,
        functions: Directory,
        concurrency: usize,
        options: PrintOptions,
        mut pass_on: impl FnMut(anyhow::Result<PrintedComposite>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let xrs = std::mem::take(&mut self.xrs);
        let (renderer, functions) = (Arc::new(self), Arc::new(functions));
        let mut rendering: VecDeque<JoinHandle<_>> = VecDeque::new();
        for xr in xrs {
            if rendering.len() == concurrency
                && let Some(first) = rendering.pop_front()
            {
                pass_on(first.await.context("rendering was cut short")?)?;
            }
            let (renderer, functions) = (renderer.clone(), functions.clone());
            rendering.push_back(tokio::spawn(async move { renderer.print(&xr, &functions, options).await }));
        }
        for rest in rendering {
            pass_on(rest.await.context("rendering was cut short")?)?;
        }
        if let Ok(functions) = Arc::try_unwrap(functions) {
            functions.stop().await;
        }
        Ok(())
    }

    async fn print(
        &self,
        xr: &Manifest,
        functions: &Directory,
        options: PrintOptions,
    ) -> anyhow::Result<PrintedComposite> {
        let name = format!("{} `{}`", meta::kind(xr.object()), meta::name(xr.object()));
        let mut rendered = self.render(xr, functions).await?;
        let failure = rendered.take_fatal_result().with_context(|| format!("cannot render {name}"))?;
        let text = output::print(rendered, xr.object(), options)?;
        Ok(PrintedComposite { text, fatal: failure.map(|failure| format!("{name}: {failure}")) })
    }
}
