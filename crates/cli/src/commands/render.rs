//! `ferroplane render`: shows what a composite resource would become.

mod from_recording;
mod inputs;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args as _, ValueEnum};
use ferroplane_functions::{Library, prepare_scripts};
use ferroplane_offline::manifest::Files;
use ferroplane_offline::render::{self, Callers, InputFiles, PrintOptions, PrintedComposite, Renderer};
use ferroplane_runner::{Directory, ImageSettings, Images, PullProgress, grpc};
use indicatif::ProgressBar;
use tokio::time::Instant;

use super::internal::supervising_command;
use crate::Verdict;
use crate::duration;
use crate::external::{RegistryUser, Trust, external_with, image_settings};
use crate::interrupt::Interrupts;
use crate::remote_templates::{Patience, template_fetcher};
use crate::terminal::{Terminal, until_unread};
use crate::xpkg::registry::ClientFlags;
use crate::xpkg::transfer::PulledImages;
use from_recording::Recorded;
use inputs::Inputs;

/// Show what composite resources would become, without a cluster
///
/// Runs the functions of a Composition on a composite resource (XR) and prints the XR's status, the resources it
/// would be composed of and those that would be deleted. Needs neither Docker nor a cluster: functions are built
/// in, pulled as images and run in containers, started as programs, or already running. Containers need `crun` or `runc`.
///
/// Annotations of a Function say how to call it. `render.ferroplane.io/command` starts a program, such as
/// "./my-function" or "python main.py --address {address} --insecure", if --allow-commands says that you trust it.
/// `render.crossplane.io/runtime: Development` calls a function that is running at localhost:9443, or at
/// `render.crossplane.io/runtime-development-target`, with mutual TLS if `render.ferroplane.io/tls-certs-dir` names
/// a directory with ca.crt, tls.crt and tls.key. Relative paths start at the directory of the Function's file. Without
/// --allow-commands, the directory has to be below it.
///
/// An Operation, a CronOperation or a WatchOperation takes the place of both XR and Composition. What is printed is the operation's status,
/// and what it would apply.
///
/// Exits with 3 when a function returns a fatal result; what was rendered before it is still printed.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
#[command(after_help = "Examples:
  ferroplane render xr.yaml composition.yaml functions.yaml
  ferroplane render xrs/ composition.yaml functions/ --include-function-results
  kubectl get app my-app -o yaml | ferroplane render - composition.yaml
  ferroplane render xr.yaml composition.yaml functions.yaml --watch
  ferroplane render operation.yaml functions.yaml
  ferroplane render watch-operation.yaml --watched-resource app.yaml
  ferroplane render --from-recording app/shop --into tests/shop")]
pub(crate) struct Render {
    #[command(flatten)]
    inputs: Inputs,

    /// Print the results of functions, as objects of kind Result
    #[arg(short = 'r', long)]
    include_function_results: bool,

    /// Print the XR with its metadata and spec
    #[arg(short = 'x', long)]
    include_full_xr: bool,

    /// Print the final context, as an object of kind Context
    #[arg(short = 'c', long)]
    include_context: bool,

    /// Do not print deletions (objects of kind Deletion)
    #[arg(long)]
    hide_deletions: bool,

    /// Print above each resource which line of a Go template printed it
    #[arg(long)]
    show_sources: bool,

    /// Host, with an optional path prefix, from which templates may be fetched; may be repeated
    ///
    /// For steps of function-go-templating with `source: Remote`.
    #[arg(long, value_name = "PLACE", value_delimiter = ',')]
    allow_remote_templates: Vec<String>,

    /// Output format; in JSON, each XR and its resources are one List
    #[arg(long, value_enum, default_value_t)]
    output: Format,

    /// Render again whenever a file changes; does not work with `-`
    #[arg(long)]
    watch: bool,

    /// Time limit for rendering
    #[arg(long, default_value = "1m", value_parser = duration::parse)]
    timeout: Duration,

    /// Number of XRs to render at the same time
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_concurrency: u32,

    #[command(flatten)]
    registries: ClientFlags,

    #[command(flatten)]
    recorded: Recorded,

    /// Ignored: this program is the engine
    #[arg(long, hide = true)]
    crossplane_version: Option<String>,
    /// Ignored: this program is the engine
    #[arg(long, hide = true)]
    crossplane_image: Option<String>,
    /// Ignored: this program is the engine
    #[arg(long, hide = true)]
    crossplane_binary: Option<PathBuf>,
    /// Ignored: nothing runs in Docker
    #[arg(long, hide = true)]
    crossplane_docker_network: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Yaml,
    Json,
}

impl Render {
    /// The same, where the Composition may come first.
    pub(crate) fn in_either_order(mut self: Box<Self>) -> Box<Self> {
        self.inputs.swap_if_composition_is_first();
        self
    }

    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let ignored = [
            ("--crossplane-version", self.crossplane_version.is_some()),
            ("--crossplane-image", self.crossplane_image.is_some()),
            ("--crossplane-binary", self.crossplane_binary.is_some()),
            ("--crossplane-docker-network", self.crossplane_docker_network.is_some()),
        ];
        for (flag, _) in ignored.into_iter().filter(|(_, is_given)| *is_given) {
            terminal.note(&format!("{flag} is ignored: Ferroplane is the engine"));
        }
        let inputs = InputFiles::from(self.inputs.clone());
        if self.inputs.lacks_composition() && !inputs.is_operation() {
            let words = "the following required arguments were not provided:\n  <COMPOSITION>";
            Self::augment_args(clap::Command::new("ferroplane render"))
                .error(clap::error::ErrorKind::MissingRequiredArgument, words)
                .exit();
        }
        if self.watch && inputs.reads_standard_input() {
            bail!("standard input cannot be watched: give a file instead of `-`, or leave out --watch");
        }
        if self.show_sources && self.output == Format::Json {
            bail!("--show-sources writes comments, which JSON does not have: leave out --output json");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let verdict = runtime.block_on(async {
            // Before anything is started, which has to be stopped from then on.
            let mut interrupts = Interrupts::listen().context("cannot listen for signals")?;
            tokio::select! {
                result = self.render_or_watch(&inputs, terminal) => result,
                verdict = interrupts.next() => Ok(verdict),
            }
        });
        // A user who pressed Ctrl-C does not want to wait for a step that is still thinking.
        runtime.shutdown_timeout(GRACE);
        verdict
    }

    async fn render_or_watch(&self, inputs: &InputFiles, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        if let (Some(which), Some(into)) = (&self.recorded.from_recording, &self.recorded.into) {
            return self.recorded.write(which, into, terminal).await;
        }
        loop {
            let mut files = Files::default();
            let result = self.render_once(inputs, &mut files, terminal).await;
            if !self.watch {
                return result;
            }
            if let Err(error) = result {
                terminal.error(&error);
            }
            terminal.note("waiting for a file to change; Ctrl-C ends");
            tokio::select! {
                () = files.until_changed() => {}
                () = until_unread() => return Ok(Verdict::Yes),
            }
            terminal.clear();
        }
    }

    async fn render_once(
        &self,
        inputs: &InputFiles,
        files: &mut Files,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        let library = Library::built_in().context("this build is broken")?;
        let renderer = Renderer::load(inputs, files, &library)?;
        for note in renderer.notes() {
            terminal.note(note);
        }
        for advisory in renderer.advisories() {
            terminal.warn(&advisory);
        }
        if renderer.runs_scripts() {
            // What takes seconds when it is done for the first time is not the script's to pay for.
            let spinner = terminal.spinner("preparing the interpreter of Starlark");
            tokio::task::spawn_blocking(prepare_scripts).await?;
            spinner.finish_and_clear();
        }
        let deadline = Instant::now() + self.timeout + SLACK;
        let options = grpc::Options { timeout: self.timeout, ..grpc::Options::default() };
        let spinner = terminal.spinner(STARTING);
        let pulled = PulledImages::during(&spinner, STARTING);
        let runs_images = renderer.calls_external() || renderer.serves_images();
        let settings = || image_settings(RegistryUser::Own, &self.registries.access()?);
        let images = runs_images.then(settings).transpose()?.map(|settings| {
            let pulled = pulled.clone();
            let report: PullProgress = Arc::new(move |progress| pulled.report(progress));
            Images::new(ImageSettings { pull_progress: Some(report), ..settings })
        });
        let functions = self.start_functions(&renderer, &options, images.as_ref(), terminal).await;
        spinner.finish_and_clear();
        let mut functions = functions?;
        functions.set_deadline(deadline);
        if let Some(templates) = template_fetcher(&self.allow_remote_templates, None, Patience::Waits)? {
            functions.fetch_templates(templates);
        }
        let progress = terminal.progress(renderer.composites().len(), RENDERING);
        // Images of steps are pulled when they are called first.
        pulled.move_to(&progress, RENDERING);
        let mut results = Results { verdict: Verdict::Yes, errors: Vec::new(), progress };
        let print = |result| results.print(result, terminal);
        renderer.render_all(functions, self.max_concurrency as usize, self.print_options(), print).await?;
        if let Some(images) = images {
            images.close().await;
        }
        results.conclude(terminal)
    }

    /// Start functions, and say so if that takes long: a program that does not listen has until the timeout, and users should see what
    /// they wait for.
    async fn start_functions(
        &self,
        renderer: &Renderer,
        options: &grpc::Options,
        images: Option<&Images>,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Directory> {
        // A render that is killed can end nothing any more.
        let supervisor = supervising_command();
        let trust = if self.inputs.allows_commands() { Trust::Grants } else { Trust::Containers };
        let external = images.map(|images| external_with(trust, images.runner()));
        let callers = Callers { supervisor: &supervisor, external: external.as_ref(), images };
        let mut starting = std::pin::pin!(renderer.start_functions(options, &callers));
        if let Ok(started) = tokio::time::timeout(UNREMARKABLE, &mut starting).await {
            return started;
        }
        let seconds = self.timeout.as_secs_f64();
        terminal.note(&format!(
            "still waiting for functions: images are pulled, and programs have up to {seconds}s to listen (--timeout)"
        ));
        starting.await
    }

    fn print_options(&self) -> PrintOptions {
        PrintOptions {
            format: match self.output {
                Format::Yaml => render::Format::Yaml,
                Format::Json => render::Format::Json,
            },
            is_full: self.include_full_xr,
            has_results: self.include_function_results,
            has_context: self.include_context,
            has_deletions: !self.hide_deletions,
            has_sources: self.show_sources,
        }
    }
}

/// What became of all XRs.
struct Results {
    verdict: Verdict,
    errors: Vec<anyhow::Error>,
    progress: ProgressBar,
}

impl Results {
    fn print(
        &mut self,
        result: anyhow::Result<PrintedComposite>,
        terminal: &mut Terminal,
    ) -> anyhow::Result<()> {
        self.progress.inc(1);
        match result {
            Ok(printed) => self.progress.suspend(|| {
                if let Some(fatal) = printed.fatal {
                    terminal.failure(&fatal);
                    self.verdict = Verdict::No;
                }
                terminal.document(&printed.text)
            }),
            Err(error) => {
                self.errors.push(error);
                Ok(())
            }
        }
    }

    /// The last error is returned; the others are printed now.
    fn conclude(mut self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        self.progress.finish_and_clear();
        let Some(last) = self.errors.pop() else { return Ok(self.verdict) };
        for error in self.errors {
            terminal.error(&error);
        }
        Err(last)
    }
}

/// How long functions may take to start before a note is printed.
const UNREMARKABLE: Duration = Duration::from_secs(3);

/// What is shown while functions start, and while they are called.
const STARTING: &str = "starting functions";
const RENDERING: &str = "rendering";

/// How much later than the timeout of one call the time for all of them is up: whichever call used up the time
/// by itself has more to say about it.
const SLACK: Duration = Duration::from_millis(500);

/// How long what is still going on has to end when we end.
const GRACE: Duration = Duration::from_secs(2);
