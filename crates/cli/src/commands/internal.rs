//! `ferroplane internal`: commands that other programs call, and users do not.

mod adapter;
#[cfg(feature = "wasm")]
mod compile;
mod complete;
mod copy_to;
mod execute;
mod host;
mod supervise;

use std::io::Read as _;
use std::time::Duration;

use anyhow::Context as _;
use clap::Subcommand;
use ferroplane_offline::render::seam;
use ferroplane_runner::grpc;
use ferroplane_wire::render::RenderRequest;
use prost::Message as _;

use crate::Verdict;
use crate::duration;
use crate::terminal::Terminal;
use adapter::Adapter;
#[cfg(feature = "wasm")]
use compile::Compile;
#[cfg(feature = "wasm")]
pub(crate) use compile::compiling_command;
use complete::Complete;
use copy_to::CopyTo;
use execute::Execute;
use host::Host;
use supervise::Supervise;
pub(crate) use supervise::supervising_command;

/// Commands that other programs call
#[derive(Debug, clap::Args)]
pub(crate) struct Internal {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Render(Render),
    Supervise(Supervise),
    Host(Host),
    Complete(Complete),
    Adapter(Adapter),
    Execute(Execute),
    CopyTo(CopyTo),
    #[cfg(feature = "wasm")]
    Compile(Compile),
}

/// Render the protobuf `RenderRequest` on standard input
///
/// It writes a `RenderResponse` to standard output. It is the engine behind `crossplane composition render --crossplane-binary`. Exits with
/// 3, and writes what is known, when a function returned a fatal result.
#[derive(Debug, clap::Args)]
struct Render {
    /// Time limit
    #[arg(long, default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
}

impl Internal {
    /// The definition of the whole command line is made only for the command that reads it: the others are started often.
    pub(crate) fn run(
        self,
        definition: fn() -> clap::Command,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Render(render) => render.run(terminal),
            Command::Supervise(supervise) => match supervise.run()? {},
            Command::Host(host) => Ok(host.run()),
            Command::Complete(complete) => complete.run(&definition(), terminal),
            Command::Adapter(adapter) => adapter.run(),
            Command::Execute(execute) => match execute.run()? {},
            Command::CopyTo(copy_to) => copy_to.run(),
            #[cfg(feature = "wasm")]
            Command::Compile(compile) => compile.run(),
        }
    }
}

impl Render {
    fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read the render request")?;
        let request =
            RenderRequest::decode(bytes.as_slice()).context("standard input is not a RenderRequest")?;
        let options = grpc::Options { timeout: self.timeout, ..grpc::Options::default() };

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answer = runtime.block_on(seam::answer(request, &options, now()));
        let (response, failure) = answer.context("cannot render")?;
        terminal.data(&response.encode_to_vec())?;
        match failure {
            None => Ok(Verdict::Yes),
            Some(failure) => {
                terminal.error(&anyhow::Error::new(failure).context("cannot render"));
                Ok(Verdict::No)
            }
        }
    }
}

/// The time, to the second, in RFC 3339.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
