//! Renders and prints many composite resources at once.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use ferroplane_api::{Cause, meta};
use ferroplane_engine::Failure;
use ferroplane_runner::{Directory, Runner};
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
                pass_on(first.await.context("rendering was interrupted")?)?;
            }
            let (renderer, functions) = (renderer.clone(), functions.clone());
            rendering.push_back(tokio::spawn(async move { renderer.print(&xr, &functions, options).await }));
        }
        // In order, whichever is done first: what is printed must not depend on how fast functions are.
        for rest in rendering {
            pass_on(rest.await.context("rendering was interrupted")?)?;
        }
        // All tasks have ended, so that nothing else holds them. If one was cut short, programs end with this process.
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
        let failed_at = rendered.failure.as_ref().and_then(|failure| {
            let at = self.templates.failed_at(xr.object(), failure.step()?)?;
            Some(format!("{at}: "))
        });
        let failed_at = failed_at.unwrap_or_default();
        let said = self.said_before(rendered.failure.as_ref(), functions).await;
        let failure = rendered.take_fatal_result().map_err(|error| match said.as_str() {
            "" => error,
            // What a function printed is all that its author has to go by.
            said => anyhow!("{error:#}{said}"),
        });
        let failure = failure.with_context(|| format!("cannot render {name}"))?;
        let sources = options.has_sources.then_some(&*self.templates);
        let text = output::print(rendered, xr.object(), sources, options)?;
        self.templates.forget(xr.object());
        let fatal = failure.map(|failure| format!("{failed_at}{name}: {failure}{said}"));
        Ok(PrintedComposite { text, fatal })
    }

    /// What the program of the function printed that is to blame for a failure, ready to be put after it. Nothing if it is no
    /// program that was started.
    async fn said_before(&self, failure: Option<&Failure>, functions: &Directory) -> String {
        let step = failure.and_then(Failure::step);
        let step = step.and_then(|name| self.pipeline.steps().iter().find(|step| step.name == name));
        let callee = step.and_then(|step| step.callee.as_ref());
        match callee.and_then(|callee| functions.get(&callee.revision)).map(AsRef::as_ref) {
            Some(Runner::Program(program)) if !is_about_end(failure) => program.said().await,
            _ => String::new(),
        }
    }
}

/// Whether the failure says itself what the program printed before it ended.
fn is_about_end(failure: Option<&Failure>) -> bool {
    failure.is_some_and(|failure| failure.cause() == Cause::FunctionExited)
}
