//! `ferroplane internal adapter`: serves a program that is not a server as a function, in a pod with the image of the program.
//!
//! [`super::copy_to`] brings this program there. For every call [`super::execute`] stands between this process and the program.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_engine::FunctionProtocol;
use ferroplane_runner::grpc::Tls;
use ferroplane_runner::{ServedProgram, function_protocol, serve_program};
use rustix::process::{getpid, set_child_subreaper};
use tokio::net::TcpListener;
use tracing::info;
use tracing::level_filters::LevelFilter;

use super::execute::executing_command;
use crate::Verdict;
use crate::duration;
use crate::interrupt::Interrupts;
use crate::telemetry::Telemetry;

/// The port of functions in pods.
const PORT: u16 = 9443;

/// Programs that run at once, however many processors there are: a container without a limit has all those of its node.
const MOST_AT_ONCE: usize = 16;

/// Serve a program as a function, with mutual TLS
///
/// The program reads a request and writes a response, and is run once for every call. What it writes to standard error is logged.
#[derive(Debug, clap::Args)]
pub(super) struct Adapter {
    /// What the program reads and writes: RunFunction, ResourceList or KRM
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol)]
    protocol: FunctionProtocol,

    /// Directory with `tls.crt`, `tls.key` and `ca.crt`
    #[arg(long, env = "TLS_SERVER_CERTS_DIR", value_name = "DIR")]
    tls_server_certs_dir: PathBuf,

    /// Address to listen on [default: port 9443 of all addresses]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<SocketAddr>,

    /// Name of the function, for errors and logs
    #[arg(long, env = "FUNCTION_NAME", value_name = "NAME", default_value = "function")]
    name: String,

    /// Time limit of a call
    #[arg(long, default_value = "20s", value_parser = duration::parse)]
    timeout: Duration,

    /// Number of programs that run at once [default: twice the number of processors, at most 16]
    #[arg(long, value_name = "COUNT")]
    concurrency: Option<NonZeroUsize>,

    #[command(flatten)]
    telemetry: Telemetry,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Adapter {
    pub(super) fn run(self) -> anyhow::Result<Verdict> {
        let _telemetry = self.telemetry.install(LevelFilter::INFO, self.telemetry.is_json(false))?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<Verdict> {
        // One that is killed cannot end what its program has left behind. That comes to this process, which ends it.
        set_child_subreaper(Some(getpid())).context("cannot adopt what programs leave behind")?;
        let mut interrupts = Interrupts::listen().context("cannot wait for signals")?;
        let tls = Tls::read(&self.tls_server_certs_dir)?;
        let listener = listen(self.address).await?;
        info!(address = %listener.local_addr()?, function = self.name, "serving the program");
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let program = ServedProgram {
            name: self.name,
            command: executing_command().into_iter().map(OsString::from).chain(self.command).collect(),
            protocol: self.protocol,
            timeout: self.timeout,
            concurrency: self.concurrency.map_or(usual_concurrency(processors), NonZeroUsize::get),
        };
        let end = async {
            interrupts.next().await;
        };
        serve_program(program, listener, &tls, end).await.context("cannot serve the program")?;
        info!("the server has ended");
        Ok(Verdict::Yes)
    }
}

fn usual_concurrency(processors: usize) -> usize {
    (processors * 2).min(MOST_AT_ONCE)
}

/// Without an address, all of IPv6 and with it IPv4, or IPv4 alone where there is no IPv6.
async fn listen(address: Option<SocketAddr>) -> anyhow::Result<TcpListener> {
    let bound = match address {
        Some(address) => TcpListener::bind(address).await,
        None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await
            }
            bound => bound,
        },
    };
    bound.with_context(|| match address {
        Some(address) => format!("cannot listen on {address}"),
        None => format!("cannot listen on port {PORT}"),
    })
}

fn protocol(text: &str) -> Result<FunctionProtocol, String> {
    function_protocol(text).map_err(|_| "expected RunFunction, ResourceList or KRM".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_with_many_processors_does_not_run_ever_more_programs_at_once() {
        assert_eq!([1, 2, 8, 64].map(usual_concurrency), [2, 4, 16, 16]);
    }
}
