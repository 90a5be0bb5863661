//! Images, as `ferroplane functions run` calls them: a program that is run once, or a package that is served for one call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_engine::{ExternalCallee, ExternalFunction, ExternalImage, Isolation, chain};
use ferroplane_runner::{
    CallContext, CallLimits, Directory, FunctionGrants, ImageSettings, ImageSource, Images, ServeImage, grpc,
};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::sync::mpsc;

use super::wasm::{self, CodeGrant};
use crate::external::{Trust, external_with};
use crate::terminal::Terminal;
use crate::xpkg::transfer::PulledImages;

/// What is shown while an image runs.
const RUNNING: &str = "running the image";

/// How an image is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invocation {
    /// Served if it is a Function package, run otherwise.
    AsItIs,
    Served,
    Run,
}

/// An image to call.
#[derive(Debug)]
pub(super) struct ImageToCall<'a> {
    pub(super) source: &'a ImageSource,
    pub(super) way: Invocation,
    /// How it is called if it is no Function package.
    pub(super) function: &'a ExternalFunction,
    pub(super) context: &'a CallContext,
    /// The limits that were given.
    pub(super) limits: CallLimits,
    pub(super) code_grants: &'a [CodeGrant],
}

/// The image that an argument means: a file or directory if there is one, as a shell would have it, else one in a registry.
pub(super) fn source(argument: &str) -> anyhow::Result<ImageSource> {
    let path = Path::new(argument);
    let is_path =
        ["/", "./", "../"].iter().any(|start| argument.starts_with(start)) || [".", ".."].contains(&argument);
    if path.exists() {
        return Ok(ImageSource::Path(std::path::absolute(path)?));
    }
    if is_path {
        bail!("cannot find `{argument}`");
    }
    Ok(ImageSource::reference(argument))
}

/// Call an image once. What it prints besides its answer goes to the terminal.
pub(super) async fn call(
    settings: ImageSettings,
    called: &ImageToCall<'_>,
    request: &RunFunctionRequest,
    terminal: &mut Terminal,
) -> anyhow::Result<RunFunctionResponse> {
    let (sender, mut lines) = mpsc::unbounded_channel();
    let take = move |line: &str| {
        let _ = sender.send(line.to_owned());
    };
    let spinner = terminal.spinner(RUNNING);
    let pulled = PulledImages::during(&spinner, RUNNING);
    let images = Images::new(ImageSettings {
        lines: Some(Arc::new(take)),
        pull_progress: Some(Arc::new(move |progress| pulled.report(progress))),
        ..settings
    });
    let mut calling = std::pin::pin!(call_with(&images, called, request));
    let answer = loop {
        tokio::select! {
            biased;
            Some(line) = lines.recv() => spinner.suspend(|| terminal.line(&line)),
            answer = &mut calling => break answer,
        }
    };
    images.close().await;
    spinner.finish_and_clear();
    while let Ok(line) = lines.try_recv() {
        terminal.line(&line);
    }
    answer
}

async fn call_with(
    images: &Images,
    called: &ImageToCall<'_>,
    request: &RunFunctionRequest,
) -> anyhow::Result<RunFunctionResponse> {
    let ImageToCall { source, way, function, context, limits, code_grants } = *called;
    let cannot_run = |error: ferroplane_runner::ImageError| error.for_call(&source.name());
    let ExternalCallee::Image(image) = &function.callee else { bail!("cannot run it: it is not an image") };
    let is_served = match way {
        Invocation::Served => true,
        Invocation::Run => false,
        Invocation::AsItIs => images.is_function_package(source).await.map_err(cannot_run)?,
    };
    if !is_served {
        called.refuse_ineffective(images, image, false).await?;
        // A user who types a grant has decided.
        let external = external_with(Trust::Grants, images.runner_of(source.clone()));
        return Ok(external.call(function, request, context).await?);
    }
    if image.isolation == Isolation::Chroot {
        bail!("cannot serve a package without a container: leave out --grant chroot");
    }
    called.refuse_ineffective(images, image, true).await?;
    let code = wasm::to_annotation(code_grants)?;
    let grants = FunctionGrants { code: &code, has_network: image.wants_network };
    let unserved = images.unserved_function_within("function", source, grants, limits).await;
    if let Some(unserved) = unserved.map_err(cannot_run)? {
        let mut directory = Directory::default();
        directory.insert("function".to_owned(), unserved);
        return Ok(directory.call_for("function", request, context).await?);
    }
    let server = images.serve(served(source, image, function.timeout)).await.map_err(cannot_run)?;
    let answer = server.call(request).await;
    server.end().await;
    answer.map_err(|error| anyhow::anyhow!(chain(&error))).context("cannot call the package")
}

impl ImageToCall<'_> {
    /// Refuse limits and grants that its program would not have.
    async fn refuse_ineffective(
        &self,
        images: &Images,
        image: &ExternalImage,
        is_package: bool,
    ) -> anyhow::Result<()> {
        let (has_code_grants, has_cpu) = (!self.code_grants.is_empty(), self.limits.cpu.is_some());
        let has_network = is_package && image.wants_network;
        if !has_code_grants && !has_cpu && !has_network {
            return Ok(());
        }
        let is_code = images.is_code(self.source).await;
        let is_code = is_code.map_err(|error| error.for_call(&self.source.name()))?;
        if is_code && has_cpu {
            bail!(wasm::NO_PROCESSORS);
        }
        if is_code && has_network {
            bail!(wasm::NO_NETWORK);
        }
        if has_code_grants && !is_code {
            bail!("cannot grant this to a program that is not WebAssembly: it can be granted `network`");
        }
        if has_code_grants && !is_package {
            bail!("cannot grant anything to WebAssembly in an image that is not a Function package");
        }
        Ok(())
    }
}

fn served(source: &ImageSource, image: &ExternalImage, timeout: Duration) -> ServeImage {
    let mut serve = ServeImage::function("function", source.clone());
    serve.has_network = image.wants_network;
    serve.patience = timeout;
    serve.options = grpc::Options { timeout, ..grpc::Options::default() };
    if let Some(memory) = image.memory {
        serve.limits.memory = memory;
    }
    serve.limits.cpu_rate = image.cpu.and_then(|cpu| u32::try_from(cpu).ok());
    serve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_a_file_and_anything_else_is_in_a_registry() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        assert_eq!(source(&path.display().to_string()).unwrap(), ImageSource::Path(path));
        let reference = "registry.example.org/a:v1";
        assert_eq!(source(reference).unwrap(), ImageSource::reference(reference));
        assert!(source("./none").unwrap_err().to_string().contains("cannot find `./none`"));
    }
}
