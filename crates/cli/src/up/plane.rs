//! A control plane that runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use ferroplane_apiserver::auth::authenticate::{ServiceAccountTokens, StaticTokens};
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::certificates::{Certificates, server_names};

use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::listeners::https::{self, Https};
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Server, Settings};
use ferroplane_controllers::{Controllers, LocalFunctions, reserved_groups};
use ferroplane_recorder::Recorder;
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::controllers::Site;
use super::function_containers::FunctionContainers;
use super::renewal::Renewal;
use super::{Configuration, controllers, function_logs};
use crate::telemetry::Installed;

/// The user of everything but the controllers, which have users of their own, on the API server in this process.
const INSIDER: &str = "system:ferroplane:up";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// A control plane that runs.
#[derive(Debug)]
pub(super) struct Plane {
    server: Server,
    address: SocketAddr,
    kubeconfig: PathBuf,
    end: oneshot::Sender<()>,
    listener: JoinHandle<usize>,
    renewal: JoinHandle<()>,
    controllers: Option<Controllers>,
    containers: Option<FunctionContainers>,
    recorder: Recorder,
    local_functions: Arc<LocalFunctions>,
    /// Holds the kubeconfig of a plane that keeps nothing else.
    _temporary: Option<tempfile::TempDir>,
}

impl Plane {
    pub(super) async fn start(configuration: &Configuration, telemetry: &Installed) -> anyhow::Result<Self> {
        let store = open(configuration.data_dir.as_deref())?;
        let certificates = Arc::new(certificates(configuration)?);
        let listener = Https::open(configuration.listen, &certificates, https::Settings::default()).await;
        let listener = listener.context("cannot listen for clients; choose another address with --listen")?;
        // The listener before everything else: with port 0, only it knows the address that goes into the kubeconfig.
        let address = listener.address();

        let authority = Some(certificates.bundle().to_owned());
        let settings = Settings { authority, address: Some(address), reserved_groups: reserved_groups() };
        let server = start_server(store, settings, configuration).await?;
        let (kubeconfig, temporary) = kubeconfig_path(configuration)?;
        let renewal = Renewal::begin(certificates.clone(), &kubeconfig, address, Timestamp::now())?;
        let (end, ended) = oneshot::channel();
        let service = HttpService::remote(server.clone());
        let listener = tokio::spawn(listener.serve(service, async move {
            let _ = ended.await;
        }));
        let renewal = tokio::spawn(renewal.keep(Timestamp::now));
        let (mut controllers, mut containers, mut recorder) = (None, None, Recorder::off());
        let local_functions = Arc::<LocalFunctions>::default();
        if configuration.manifests.may_run_commands && !configuration.manifests.paths.is_empty() {
            local_functions.await_files();
        }
        if configuration.has_controllers {
            recorder = controllers::recorder(configuration)?;
            let local = local_functions.clone();
            let authority = certificates.bundle().to_owned();
            let site = Site { server: &server, address, authority };
            let started = controllers::start(&site, configuration, recorder.clone(), local, telemetry);
            let (started, functions) = started.await?;
            (controllers, containers) = (Some(started), functions);
        }
        serve_metrics(&server, controllers.as_ref(), telemetry);
        serve_logs(&server, containers.as_ref());
        Ok(Self {
            server,
            address,
            kubeconfig,
            end,
            listener,
            renewal,
            controllers,
            containers,
            recorder,
            local_functions,
            _temporary: temporary,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where programs that serve functions are listed for the controllers.
    pub(super) fn local_functions(&self) -> Arc<LocalFunctions> {
        self.local_functions.clone()
    }

    /// The API server, for what runs beside it in this process.
    pub(super) fn client(&self) -> kube::Client {
        administrator(&self.server)
    }

    /// Ends watches, answers what was asked, and closes the store.
    pub(super) async fn stop(self) {
        if let Some(controllers) = self.controllers {
            controllers.stop().await;
        }
        // Until controllers have stopped, they may still call functions.
        if let Some(containers) = self.containers {
            containers.stop().await;
        }
        // What is recorded and not yet written is not lost.
        let _ = tokio::task::spawn_blocking(move || self.recorder.stop()).await;
        // In this order: controllers write until they have stopped, watches end before connections do, and the store closes
        // when nothing can be written any more.
        self.server.stop();
        let _ = self.end.send(());
        let _ = self.listener.await;
        self.renewal.abort();
        let store = self.server.store().clone();
        drop(self.server);
        store.close().await;
    }
}

/// The API server, with who may use it and a log of what they do before the first request comes.
async fn start_server(
    store: Store,
    settings: Settings,
    configuration: &Configuration,
) -> anyhow::Result<Server> {
    let started = Server::start(store, settings).await;
    let server =
        started.map_err(|status| anyhow::anyhow!(status.message).context("cannot start the API server"))?;
    admit(&server, configuration)?;
    if let Some(log) = configuration.audit.open(configuration.data_dir.as_deref())? {
        server.set_audit_log(log);
    }
    Ok(server)
}

/// Serve what functions and providers print, where they run in containers.
fn serve_logs(server: &Server, containers: Option<&FunctionContainers>) {
    let Some(containers) = containers else { return };
    function_logs::serve(server, function_logs::OF_FUNCTIONS, containers.logs());
    function_logs::serve(server, function_logs::OF_PROVIDERS, containers.provider_logs());
}

/// Have the API server tell the numbers of everybody else in this process with its own.
fn serve_metrics(server: &Server, controllers: Option<&Controllers>, telemetry: &Installed) {
    let (write_process, controllers) = (telemetry.metrics(), controllers.map(Controllers::metrics));
    server.serve_metrics(move |page| {
        write_process(page);
        if let Some(metrics) = &controllers {
            metrics.write(page);
        }
    });
}

/// The API server, for what acts on behalf of the process that started the plane.
pub(super) fn administrator(server: &Server) -> kube::Client {
    let identity = Identity::authenticated(INSIDER, ["system:masters".to_owned()]);
    kube::Client::new(HttpService::in_process(server.clone(), identity), "default")
}

fn open(directory: Option<&Path>) -> anyhow::Result<Store> {
    let store = match directory {
        Some(directory) => Store::open(directory, Options::default()),
        None => Store::in_memory(Options::default()),
    };
    store.context("cannot open the store")
}

fn certificates(configuration: &Configuration) -> anyhow::Result<Certificates> {
    let (names, now) = (server_names(configuration.listen), Timestamp::now());
    let certificates = match &configuration.data_dir {
        Some(directory) => Certificates::open(&directory.join("certificates"), names, now),
        None => Certificates::ephemeral(names, now),
    };
    certificates.context("cannot create certificates")
}

/// Lets clients from outside show who they are.
fn admit(server: &Server, configuration: &Configuration) -> anyhow::Result<()> {
    let tokens = match &configuration.token_file {
        None => StaticTokens::default(),
        Some(file) => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("cannot read the tokens in `{}`", file.display()))?;
            let tokens = StaticTokens::from_csv(&text);
            tokens.with_context(|| format!("cannot use the tokens in `{}`", file.display()))?
        }
    };
    let lookup = server.bound_object_lookup();
    let accounts = match &configuration.data_dir {
        Some(directory) => ServiceAccountTokens::open(&directory.join("certificates"), ISSUER, lookup)
            .context("cannot use the key of service accounts")?,
        None => ServiceAccountTokens::ephemeral(ISSUER, lookup)
            .context("cannot create a key for service accounts")?,
    };
    let accounts = accounts.with_max_expiration(configuration.max_token_expiration);
    server.set_authenticators(tokens, Arc::new(accounts));
    Ok(())
}

/// Where the kubeconfig is, and the directory that holds that of a plane that keeps nothing else.
fn kubeconfig_path(configuration: &Configuration) -> anyhow::Result<(PathBuf, Option<tempfile::TempDir>)> {
    let mut temporary = None;
    let path = match (&configuration.kubeconfig, &configuration.data_dir) {
        (Some(path), _) => path.clone(),
        (None, Some(directory)) => directory.join("kubeconfig"),
        (None, None) => {
            let directory = tempfile::tempdir().context("cannot create a directory for the kubeconfig")?;
            temporary.insert(directory).path().join("kubeconfig")
        }
    };
    // Shown to people, who may be in another directory when they use it.
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok((path, temporary))
}
