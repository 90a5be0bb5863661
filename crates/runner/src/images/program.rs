//! A program in a container that nothing calls: that of a Provider package, say. It is started and kept running here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_sandbox::{Forward, Grants, Limits, Network, Serve, Server, ServerState, SharedDirectory};
use tracing::info;

use super::error::ImageError;
use super::words::LastWords;
use super::{ImageSource, Images, ReadyImage};
use crate::process::LineSink;

/// What a program may use that works for itself: it holds everything that it manages in memory.
const MEMORY: u64 = 2 << 30;
const PROCESSES: u32 = 512;
const FILES: u32 = 4096;

/// A program to keep running.
#[derive(Clone)]
pub struct KeepImage {
    /// Names it in logs and errors.
    pub name: String,
    pub source: ImageSource,
    /// Variables beside those of the image.
    pub environment: Vec<(String, String)>,
    /// A directory of this machine that it can read, and where it sees it.
    pub shared: Option<(PathBuf, String)>,
    /// The one address of this machine that it reaches on a port of its own loopback. None if it was granted the network of this process.
    pub leads_to: Option<(u16, SocketAddr)>,
    /// Takes what it prints, beside the log.
    pub lines: LineSink,
}

impl std::fmt::Debug for KeepImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeepImage")
            .field("name", &self.name)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// A program that is kept running. Dropping it ends the program.
#[derive(Debug)]
pub struct KeptImage {
    server: Server,
    words: LastWords,
    /// Stays unpacked.
    _image: Arc<ReadyImage>,
}

impl Images {
    /// Start a program, and return when it has not ended at once. From then on it is started again whenever it ends.
    pub async fn keep(&self, keep: KeepImage) -> Result<KeptImage, ImageError> {
        let image = self.prepare_server(&keep.source).await?;
        let mut container = image.container();
        container.environment = keep.environment;
        let share = |(source, destination)| SharedDirectory { source, destination, is_writable: false };
        container.directories = keep.shared.map(share).into_iter().collect();
        let network = if keep.leads_to.is_some() { Network::Isolated } else { Network::Runner };
        let words = LastWords::default();
        let serve = Serve {
            container,
            limits: Limits { memory: MEMORY, processes: PROCESSES, files: FILES, ..Limits::default() },
            grants: Grants { network },
            port: None,
            patience: Duration::ZERO,
            forwards: keep.leads_to.map(|(port, to)| Forward { port, to }).into_iter().collect(),
            log: words.sink(move |line: &str| {
                (keep.lines)(line);
                info!(target: "ferroplane::provider", provider = keep.name, "{line}");
            }),
        };
        match self.runtime().await?.serve(serve).await {
            Ok(server) => Ok(KeptImage { server, words, _image: image }),
            Err(source) => Err(ImageError::Serve { said: words.said(), source }),
        }
    }
}

impl KeptImage {
    pub fn state(&self) -> ServerState {
        self.server.state()
    }

    /// Wait until it is in another state than this.
    pub async fn changed(&mut self, from: &ServerState) -> ServerState {
        self.server.changed(from).await
    }

    /// The last lines that it printed, ready to be put after a reason, or nothing.
    pub fn said(&self) -> String {
        self.words.said()
    }

    /// Let the program end by itself within two seconds, or end it, and return when it is gone.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}
