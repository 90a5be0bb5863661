//! Runs the providers in packages for as long as controllers want them, each in a container of its own.
//!
//! A provider finds what it would find in a pod: the address of the API server in its environment, and the token of its service account in
//! the usual directory. In a network of its own it reaches that API server and nothing else.
//!
//! # Invariants
//! * A provider runs only if its revision is active. It ends before its successor is called healthy, and all of them end with the plane.
//! * What it may do is what the roles of its service account allow. Its token is short-lived and renewed in time.
//! * It shares the network of this machine only if its Provider says so.

mod credentials;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_api::keys;
use ferroplane_client::ApiClient;
use ferroplane_controllers::{PackagedProvider, PackagedProviders, ProviderState};
use ferroplane_runner::{ImageSource, Images, KeepImage, KeptImage, LineSink, PullWhen};
use ferroplane_sandbox::ServerState;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::function_logs::FunctionLogs;
use super::packaged_programs::ProgramNetwork;
use credentials::{Credentials, RENEWED_AFTER};

/// Pauses after an image cannot be run at all.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How soon a token is asked for again that could not be obtained.
const NEXT_TRY: Duration = Duration::from_secs(10);
/// Where programs in pods find their token.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What providers find on this machine.
#[derive(Debug, Clone)]
pub(crate) struct ProviderSite {
    /// The API server, which issues tokens.
    pub(super) administrator: ApiClient,
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// Whom to trust that it is the one, in PEM.
    pub(super) authority: String,
    /// Where their tokens are.
    pub(super) tokens: Arc<TokenDirectory>,
}

/// Holds the tokens of providers. It belongs to this process, as the whole data directory does.
#[derive(Debug)]
pub(crate) struct TokenDirectory {
    path: PathBuf,
    /// How many directories were given out.
    count: AtomicU64,
    /// Of a plane that keeps nothing else.
    _temporary: Option<tempfile::TempDir>,
}

impl TokenDirectory {
    /// Tokens that an earlier process left behind are removed.
    pub(super) fn open(data_dir: Option<&Path>) -> anyhow::Result<Arc<Self>> {
        let Some(data_dir) = data_dir else {
            let temporary =
                tempfile::tempdir().context("cannot create a directory for the tokens of providers")?;
            return Ok(Arc::new(Self::at(temporary.path().to_owned(), Some(temporary))));
        };
        let path = data_dir.join("providers");
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
            }
            // A container has to know where it is.
            _ => {
                let path = std::path::absolute(&path).unwrap_or(path);
                Ok(Arc::new(Self::at(path, None)))
            }
        }
    }

    fn at(path: PathBuf, temporary: Option<tempfile::TempDir>) -> Self {
        Self { path, count: AtomicU64::new(0), _temporary: temporary }
    }

    /// A directory for the token of one container. No other container gets it, not even one of the same account: when a provider is
    /// started anew, the container before it still ends, and takes its own directory with it.
    fn allocate(&self, account: &str) -> PathBuf {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("{account}.{number}"))
    }
}

/// How a provider runs in this network.
fn describe(network: ProgramNetwork) -> String {
    match network {
        ProgramNetwork::Isolated => format!(
            "runs in a container on this machine that reaches the API server and nothing else; the annotation `{}: Runner` of the \
             Provider grants it the network of this machine",
            keys::NETWORK
        ),
        ProgramNetwork::Runner => {
            "runs in a container on this machine, with the network of this machine".to_owned()
        }
    }
}

/// Keep a provider running until it is no longer wanted.
pub(super) async fn keep(
    revision: String,
    provider: PackagedProvider,
    providers: Arc<PackagedProviders>,
    images: Images,
    site: ProviderSite,
    logs: Arc<FunctionLogs>,
    mut unwanted: oneshot::Receiver<()>,
) {
    let network = match ProgramNetwork::parse(&provider.network) {
        Ok(network) => network,
        Err(error) => {
            providers.set(&revision, Some(ProviderState::Down(error.to_string())));
            let _ = unwanted.await;
            return;
        }
    };
    let mut pause = FIRST_PAUSE;
    loop {
        let started = tokio::select! {
            started = start(&revision, &provider, network, &images, &site, logs.clone()) => started,
            _ = &mut unwanted => return,
        };
        let why = match started {
            Err(error) => format!("{error:#}"),
            Ok((credentials, image)) => {
                let how = describe(network);
                return attend(&revision, &how, image, &credentials, &site, &providers, unwanted).await;
            }
        };
        providers.set(&revision, Some(ProviderState::Down(why)));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = &mut unwanted => return,
        }
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

async fn start(
    revision: &str,
    provider: &PackagedProvider,
    network: ProgramNetwork,
    images: &Images,
    site: &ProviderSite,
    logs: Arc<FunctionLogs>,
) -> anyhow::Result<(Credentials, KeptImage)> {
    let credentials = Credentials::issue(site, &provider.namespace, revision)
        .await
        .context("cannot give the provider credentials of its service account")?;
    let source = ImageSource::Registry {
        reference: provider.image.image.clone(),
        // It is named by its digest.
        policy: Some(PullWhen::IfNotPresent),
        secrets: provider.image.pull_secrets.iter().cloned().map(Into::into).collect(),
    };
    let (port, to) = (site.address.port(), reachable(site.address));
    let name = revision.to_owned();
    let lines: LineSink = Arc::new(move |line: &str| logs.append(&name, line));
    let image = images
        .keep(KeepImage {
            name: revision.to_owned(),
            source,
            environment: environment(revision, provider, network, to),
            shared: Some((credentials.directory().to_owned(), ACCOUNT.to_owned())),
            leads_to: (network == ProgramNetwork::Isolated).then_some((port, to)),
            lines,
        })
        .await?;
    Ok((credentials, image))
}

/// Report the state of a provider and renew its token until it is no longer wanted.
async fn attend(
    revision: &str,
    how: &str,
    mut image: KeptImage,
    credentials: &Credentials,
    site: &ProviderSite,
    providers: &PackagedProviders,
    mut unwanted: oneshot::Receiver<()>,
) {
    let mut state = image.state();
    let mut renewal = Renewal::begin();
    let told = |state: &ServerState, said: String| match state {
        ServerState::Serving => ProviderState::Running(how.to_owned()),
        ServerState::Starting => ProviderState::Starting,
        ServerState::Waiting { why } => ProviderState::Down(format!("its program ended ({why}){said}")),
        ServerState::Stopped => ProviderState::Down("it was stopped".to_owned()),
    };
    providers.set(revision, Some(told(&state, image.said())));
    loop {
        tokio::select! {
            changed = image.changed(&state) => {
                state = changed;
                providers.set(revision, Some(told(&state, image.said())));
            }
            () = renewal.due() => {
                let renewed = credentials.renew(site).await;
                if let Err(error) = &renewed {
                    tracing::warn!(revision, error = format!("{error:#}"), "cannot renew the token of a provider");
                }
                renewal.postpone(renewed.is_ok());
            }
            _ = &mut unwanted => break,
        }
    }
    image.stop().await;
}

/// When the token of a provider is replaced next. A point in time, so that other events in between do not postpone it: a program that
/// ends again and again needs its token, too.
#[derive(Debug)]
struct Renewal(Instant);

impl Renewal {
    fn begin() -> Self {
        Self(Instant::now() + RENEWED_AFTER)
    }

    async fn due(&self) {
        tokio::time::sleep_until(self.0).await;
    }

    /// The token was replaced, or could not be.
    fn postpone(&mut self, is_renewed: bool) {
        self.0 = Instant::now() + if is_renewed { RENEWED_AFTER } else { NEXT_TRY };
    }
}

/// What a provider finds in its environment, as it would in a pod.
fn environment(
    revision: &str,
    provider: &PackagedProvider,
    network: ProgramNetwork,
    server: SocketAddr,
) -> Vec<(String, String)> {
    let host = match network {
        ProgramNetwork::Isolated => Ipv4Addr::LOCALHOST.to_string(),
        ProgramNetwork::Runner => server.ip().to_string(),
    };
    let variables = [
        ("KUBERNETES_SERVICE_HOST", host),
        ("KUBERNETES_SERVICE_PORT", server.port().to_string()),
        ("POD_NAMESPACE", provider.namespace.clone()),
        ("PROVIDER_NAME", provider.package.clone()),
        ("REVISION_NAME", revision.to_owned()),
        ("REVISION_UID", provider.uid.clone()),
    ];
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// An address that leads to a listener on this one.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn token_of_a_provider_that_restarts_is_renewed() {
        let (mut renewal, began_at) = (Renewal::begin(), Instant::now());
        let mut renewed_after = Vec::new();
        while renewed_after.len() < 3 {
            tokio::select! {
                // The state of its program changes.
                () = tokio::time::sleep(LONGEST_PAUSE) => {}
                () = renewal.due() => {
                    renewed_after.push(began_at.elapsed().as_secs());
                    // The second time, the API server does not answer.
                    renewal.postpone(renewed_after.len() != 2);
                }
            }
        }
        assert_eq!(renewed_after, [2400, 4800, 4810]);
    }

    #[test]
    fn every_address_that_a_server_listens_on_can_be_reached() {
        for (listening, reached) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")]
        {
            assert_eq!(reachable(listening.parse().unwrap()).to_string(), reached);
        }
    }
}
