//! A gRPC function server in a container: that of a Function package, say. It is started, supervised and called here.
//!
//! It listens on its usual port in a network of its own. Both sides show certificates that no other process has, so that it does not matter
//! who else may be in that network. See [`super`] for how to use it.

mod certificates;
mod function;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_sandbox::{Container, Grants, Limits, Network, Serve, Server, ServerState, SharedDirectory};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tracing::info;

pub(super) use certificates::{
    ServerCertificates, VARIABLE as CERTIFICATES_VARIABLE, files as certificate_files,
};

use super::error::ImageError;
use super::words::LastWords;
use super::{ImageSource, Images, ReadyImage, blocking, package};
use crate::error::CallError;
use crate::grpc::{Client, Connector, Options, Target};
use crate::observer::Peer;
use crate::process::Port;
use certificates::CertificateDirectory;
pub use function::ServedFunction;

/// The default port of function servers.
const PORT: u16 = 9443;
/// Where it finds its certificates, as in a pod.
const CERTIFICATES: &str = "/tls/server";
/// How much memory a server may use.
const MEMORY: u64 = 1 << 30;
/// How many processes and threads, and how many open files: a server works on many requests at once.
const PROCESSES: u32 = 256;
const FILES: u32 = 1024;
/// How long after its connection broke a server may still turn out to have ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A server to run.
#[derive(Debug, Clone)]
pub struct ServeImage {
    /// Names it in logs and errors.
    pub name: String,
    pub source: ImageSource,
    /// Variables beside those of the image.
    pub environment: Vec<(String, String)>,
    /// Whether it was granted the network of this process.
    pub has_network: bool,
    /// Where it listens in a network of its own. In that of this process, it is given a free port.
    pub port: u16,
    pub limits: Limits,
    /// How long it may take to listen, once it is there and unpacked.
    pub patience: Duration,
    /// How it is called.
    pub options: Options,
}

impl ServeImage {
    /// The server of a function that is made with one of the SDKs.
    pub fn function(name: impl Into<String>, source: ImageSource) -> Self {
        let limits = Limits { memory: MEMORY, processes: PROCESSES, files: FILES, ..Limits::default() };
        Self {
            name: name.into(),
            source,
            environment: Vec::new(),
            has_network: false,
            port: PORT,
            limits,
            patience: Duration::from_mins(1),
            options: Options::default(),
        }
    }
}

/// A function server that is kept running. Dropping it ends the server.
#[derive(Debug)]
pub struct ServedImage {
    server: Server,
    client: Arc<Client>,
    words: LastWords,
    /// Stays unpacked.
    image: Arc<ReadyImage>,
    /// What it was given of this machine.
    _belongings: Belongings,
}

/// What a server has of this machine for as long as it is kept running.
#[derive(Debug)]
pub(super) enum Belongings {
    /// It is in a container, and reads its certificates there.
    Container { _certificates: CertificateDirectory, _port: Option<Port> },
    /// It is a process, and listens there.
    Process { _port: Port },
}

impl Images {
    /// Start a server, and return when it listens. From then on it is started again whenever it ends.
    pub async fn serve(&self, serve: ServeImage) -> Result<ServedImage, ImageError> {
        let image = self.prepare_server(&serve.source).await?;
        // Another server may have the usual port in the network of this process, where everybody could reach it, too.
        let own_port = serve.has_network.then(Port::free).transpose().map_err(ImageError::NoPort)?;
        let port = own_port.as_ref().map_or(serve.port, |port| port.address().port());
        let target = target(&serve.name, port);
        let ServerCertificates { server, client } = ServerCertificates::issue(target.host())?;
        let state = self.options().state;
        let written = blocking(move || CertificateDirectory::write(&state, server)).await?;
        let certificates = written.map_err(ImageError::CertificateFiles)?;
        let mut container = image.container();
        if let Some(port) = &own_port {
            listen_on(&mut container, port.address());
        }
        container.environment = serve.environment;
        container.environment.push((CERTIFICATES_VARIABLE.to_owned(), CERTIFICATES.to_owned()));
        let (source, destination) = (certificates.path().to_owned(), CERTIFICATES.to_owned());
        container.directories = vec![SharedDirectory { source, destination, is_writable: false }];
        let network = if serve.has_network { Network::Runner } else { Network::Isolated };
        let words = LastWords::default();
        let log = words.sink(self.server_sink(&serve.name));
        let (limits, patience) = (serve.limits, serve.patience);
        let runtime = self.runtime().await?;
        let (grants, forwards) = (Grants { network }, Vec::new());
        let serve_container = Serve { container, limits, grants, port: Some(port), patience, forwards, log };
        let started = runtime.serve(serve_container).await;
        let server = match started {
            Ok(server) => server,
            Err(source) => return Err(ImageError::Serve { said: words.said(), source }),
        };
        let options = Options { tls: Some(client), renewed_tls: None, ..serve.options };
        let client = Arc::new(client_of(&server, target, options).map_err(ImageError::Client)?);
        let belongings = Belongings::Container { _certificates: certificates, _port: own_port };
        Ok(ServedImage::new(server, client, words, image, belongings))
    }

    /// The image with the program of a package, or of what is no package.
    pub(super) async fn prepare_server(&self, source: &ImageSource) -> Result<Arc<ReadyImage>, ImageError> {
        let image = self.prepare(source).await?;
        if image.has_program() {
            return Ok(image);
        }
        let path = image.path().to_owned();
        let meta = blocking(move || package::read(&path)).await?;
        let named = meta.and_then(|meta| meta.image).ok_or(ImageError::NoServer)?;
        if !self.inner.settings.follows_packages {
            return Err(ImageError::OtherImage { image: named });
        }
        let other = match source {
            ImageSource::Registry { policy, secrets, .. } => {
                ImageSource::Registry { reference: named.clone(), policy: *policy, secrets: secrets.clone() }
            }
            ImageSource::Path(_) => ImageSource::reference(&named),
        };
        let image = self.prepare(&other).await?;
        if image.has_program() { Ok(image) } else { Err(ImageError::PackageInPackage { image: named }) }
    }

    /// Whether an image is a Function package, which is served; others are run for every call.
    pub async fn is_function_package(&self, source: &ImageSource) -> Result<bool, ImageError> {
        let path = self.prepare(source).await?.path().to_owned();
        Ok(blocking(move || package::read(&path)).await?.is_some_and(|meta| meta.kind == "Function"))
    }

    pub(super) fn server_sink(&self, name: &str) -> impl Fn(&str) + Send + Sync + 'static {
        let (lines, function) = (self.inner.settings.lines.clone(), name.to_owned());
        let also = self.function_sink(name);
        move |line: &str| {
            if let Some(also) = &also {
                also(line);
            }
            if let Some(lines) = &lines {
                lines(line);
            } else {
                info!(target: "ferroplane::function", function, "{line}");
            }
        }
    }
}

/// Tells a server that is made with one of the SDKs where to listen.
pub(super) fn listen_on(container: &mut Container, address: SocketAddr) {
    let own = container.image.cmd.iter().cloned();
    container.arguments = Some(own.chain([format!("--address={address}")]).collect());
}

/// What a server is called by its client: in its certificate, in HTTP and in errors.
fn target(name: &str, port: u16) -> Target {
    let named = format!("{name}:{port}").parse::<Target>().ok();
    let certified = named.filter(|target| ServerName::try_from(target.host()).is_ok());
    certified.unwrap_or_else(|| format!("function:{port}").parse().expect("a word and a port are a target"))
}

fn client_of(server: &Server, target: Target, options: Options) -> Result<Client, CallError> {
    let connector = server.connector();
    let connect = Connector::new(move || {
        let connector = connector.clone();
        async move { connector.connect().await.map_err(io::Error::other) }
    });
    Client::with_connector(target, options, connect)
}

impl ServedImage {
    pub(super) fn new(
        server: Server,
        client: Arc<Client>,
        words: LastWords,
        image: Arc<ReadyImage>,
        belongings: Belongings,
    ) -> Self {
        Self { server, client, words, image, _belongings: belongings }
    }

    /// Call the function.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let connector = self.server.connector();
        let result = self.client.call(request).await;
        // The connection breaks before the end of the program is known: wait for the better reason.
        if let Err(CallError::Lost { .. } | CallError::Unreachable { .. }) = result
            && let Ok(ServerState::Waiting { why }) = timeout(LAST_WORDS, connector.not_serving()).await
        {
            return Err(CallError::Ended { how: why, said: self.words.said() });
        }
        result
    }

    /// Calls the function for as long as this server is kept running, and restarts the server if it hangs.
    pub fn function(&self, name: &str) -> ServedFunction {
        ServedFunction::new(name, self.client.clone(), self.server.connector())
    }

    pub(crate) fn peer(&self) -> Peer<'_> {
        self.client.peer()
    }

    pub fn state(&self) -> ServerState {
        self.server.state()
    }

    /// Wait until it is in another state than this.
    pub async fn changed(&mut self, from: &ServerState) -> ServerState {
        self.server.changed(from).await
    }

    /// The last lines that it printed.
    pub fn said(&self) -> String {
        self.words.text()
    }

    /// The image that it runs.
    pub fn image(&self) -> &ReadyImage {
        &self.image
    }

    /// End the program as it runs now. It is started again.
    pub fn restart(&self) {
        self.server.restart();
    }

    /// End the program at once, as functions can be, and return when it is gone.
    pub async fn end(self) {
        self.server.restart();
        self.server.stop().await;
    }

    /// Let the program end by itself within two seconds, or end it, and return when it is gone.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_called_by_its_name_unless_no_certificate_can_have_that() {
        for (name, expected) in [
            ("function-a-1234", "function-a-1234:9443"),
            ("acme.function_b", "acme.function_b:9443"),
            ("", "function:9443"),
            ("a b", "function:9443"),
            ("-a-", "function:9443"),
            ("a".repeat(64).as_str(), "function:9443"),
        ] {
            let target = target(name, PORT);
            assert_eq!(target.to_string(), expected, "{name}");
            ServerCertificates::issue(target.host()).expect("certificates");
        }
    }
}
