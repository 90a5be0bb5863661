//! The cluster that is worked on, and the ways to it.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use ferroplane_client::{ApiClient, Endpoint, NotInCluster, Transport};
use ferroplane_controllers::{Clock, Fenced, PackagedFunctions, Term};
use ferroplane_recorder::Recorder;
use ferroplane_runner::grpc;
use tracing::warn;

use super::Configuration;
use super::callers::Callers;
use super::health::{Health, Listening};
use super::options::Recordings;
use super::plans::Plans;
use crate::client;
use crate::functions::discovery::VersionsPage;
use crate::package_source::RegistryPackages;
use crate::up::controllers::recorder_in;

/// How soon to ask again a server that does not answer.
const PAUSE: Duration = Duration::from_secs(1);
const CLOCK_CHECK: Duration = Duration::from_hours(1);

/// The cluster that is worked on.
pub(super) struct Site {
    /// Writes always: what every replica has to do.
    pub(super) client: kube::Client,
    pub(super) cluster: ApiClient,
    /// Writes while its replica leads: what controllers do.
    pub(super) fenced: kube::Client,
    /// The same for what is composed, if another client writes that.
    pub(super) composer: Option<ApiClient>,
    pub(super) term: Term,
    pub(super) health: Arc<Health>,
    pub(super) recorder: Recorder,
    /// Whom the API server knows.
    pub(super) callers: Callers,
    /// What plans while this replica leads.
    pub(super) plans: Plans,
    /// What can be called, once that is known.
    pub(super) versions: Arc<OnceLock<VersionsPage>>,
    /// The metadata that is sent to functions with requests.
    pub(super) metadata: Option<grpc::Metadata>,
    /// Where packages come from, if they are installed.
    pub(super) packages: Option<RegistryPackages>,
    /// Functions in packages that this process runs.
    pub(super) functions: Arc<PackagedFunctions>,
    pub(super) server: String,
    /// By which certificates are made and renewed.
    pub(super) clock: Clock,
    /// How often to check the clock while a certificate is valid. Sends no request.
    pub(super) clock_check: Duration,
}

impl Site {
    /// Connects when the first request is sent. Nothing is recorded.
    pub(super) fn connect(configuration: &Configuration, term: Term) -> anyhow::Result<Self> {
        let endpoint = endpoint(configuration)?;
        if endpoint.impersonation.is_some() && configuration.compose_as.is_some() {
            bail!(
                "--compose-as cannot be used with a kubeconfig whose user impersonates another one (`as`): no API server \
                 lets an impersonated user impersonate"
            );
        }
        let (server, callers) = (endpoint.server.clone(), Callers::of(&endpoint));
        let transport = Transport::new(endpoint).with_context(|| format!("cannot connect to {server}"))?;
        let health = Arc::new(Health::default());
        let composer = configuration.compose_as.as_deref().map(|user| {
            // The API server adds the groups of a service account by itself.
            let listening = Listening::new(transport.impersonating(user, &[]), health.clone());
            ApiClient::new(kube::Client::new(Fenced::new(listening, term.clone()), "default"))
        });
        let listening = Listening::new(transport, health.clone());
        let client = kube::Client::new(listening.clone(), "default");
        let fenced = kube::Client::new(Fenced::new(listening, term.clone()), "default");
        let cluster = ApiClient::new(client.clone());
        Ok(Self {
            cluster,
            client,
            fenced,
            composer,
            term,
            health,
            recorder: Recorder::off(),
            callers,
            plans: Plans::default(),
            versions: Arc::default(),
            metadata: None,
            packages: None,
            functions: Arc::default(),
            server,
            clock: Clock::system(),
            clock_check: CLOCK_CHECK,
        })
    }

    /// Pods may start before their API server does.
    pub(super) async fn wait_for_server(&self) {
        let mut has_told = false;
        while let Err(error) = self.client.apiserver_version().await {
            if matches!(error, kube::Error::Api(_)) {
                // It is there, and has something to say to every further request.
                return;
            }
            if !has_told {
                let error = &error as &dyn std::error::Error;
                warn!(server = self.server, error, "the API server does not answer; trying again");
                has_told = true;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Recordings, as the options configure them.
pub(super) fn recorder(configuration: &Configuration) -> anyhow::Result<Recorder> {
    Ok(match &configuration.recordings {
        None => Recorder::off(),
        Some(Recordings { size, directory, redacted_fields, .. }) => {
            let open = |directory: &PathBuf| recorder_in(directory, *size, redacted_fields);
            let opened = directory.as_ref().map(open).transpose()?;
            opened.flatten().map_or_else(|| Recorder::in_memory(*size, redacted_fields), Ok)?
        }
    })
}

/// What was named counts; in a pod, its cluster is meant; then whatever `kubectl` would use.
fn endpoint(configuration: &Configuration) -> anyhow::Result<Endpoint> {
    let context = configuration.context.as_deref();
    if let Some(file) = &configuration.kubeconfig {
        return client::endpoint(std::slice::from_ref(file), context);
    }
    if let Some(named) = client::kubeconfigs_of_environment()? {
        return client::endpoint(&named, context);
    }
    match ferroplane_client::in_cluster() {
        Err(NotInCluster::NoEnvironment) => {}
        endpoint => return Ok(endpoint?),
    }
    let usual = std::env::home_dir().map(|home| home.join(".kube/config")).filter(|file| file.exists());
    let usual = usual.ok_or_else(|| anyhow!("there is no cluster: name a kubeconfig with --kubeconfig"))?;
    client::endpoint(&[usual], context)
}
