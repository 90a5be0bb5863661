//! The controllers on a cluster: connect, initialise, stand by, lead, hand over.

mod callers;
mod dry_run;
mod health;
mod initialise;
mod options;
mod packages;
mod pages;
mod plans;
mod site;
#[cfg(test)]
mod tests;
mod upstream;
mod webhooks;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use ferroplane_controllers::{
    ActionSettings, Candidacy, Clock, Controllers, Credentials, DigestKey, Election, IDENTITY, LEASE,
    Settings, Standby, Term, find_other_control_planes,
};
use ferroplane_engine::action::PodSupport;
use ferroplane_runner::{External, Images, grpc};
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::level_filters::LevelFilter;
use tracing::{info, warn};

use crate::Verdict;
use crate::external::{RegistryUser, Trust, external_with, image_settings_in};
use crate::functions::discovery::VersionsPage;
use crate::interrupt::Interrupts;
use crate::package_source::RegistryPackages;
use crate::remote_templates::{Patience, template_fetcher};
use crate::terminal::Terminal;
use crate::up::controllers::{built_ins, response_cache};
use crate::up::function_containers::{FunctionContainers, Programs};
pub(crate) use options::{Configuration, File, Options};
use packages::Packages;
use pages::Pages;
use site::Site;
pub(crate) use upstream::Upstream;
use webhooks::WebhookServer;

/// How long work that is under way may take at the end. Less than pods are given to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// How soon to ask for new certificates again. The old ones hold for months.
const AGAIN: Duration = Duration::from_secs(10);

/// Says what a start would do to a cluster.
pub(crate) fn dry_run(configuration: &Configuration, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    runtime.block_on(dry_run::tell(configuration, terminal))
}

/// Runs until it is stopped by a signal.
pub(crate) fn run(configuration: &Configuration, advice: &[String]) -> anyhow::Result<Verdict> {
    let telemetry =
        configuration.telemetry.install(LevelFilter::INFO, configuration.telemetry.is_json(false))?;
    for words in advice {
        warn!(problem = words, "ignoring an option");
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    runtime.block_on(async {
        let mut interrupts = Interrupts::listen().context("cannot wait for signals")?;
        let term = if configuration.lease_duration.is_some() { Term::new() } else { Term::for_ever() };
        let site = Site {
            recorder: site::recorder(configuration)?,
            metadata: telemetry.metadata(),
            packages: packages(configuration)?,
            ..Site::connect(configuration, term)?
        };
        site.health.add_metrics(telemetry.metrics());
        let start =
            |packages| FunctionContainers::start(site.functions.clone(), packages, Programs::WebAssembly);
        let functions = site.packages.clone().map(start);
        let pages = Pages::open(configuration, &site).await?;
        let verdict = tokio::select! {
            biased;
            _ = interrupts.next() => {
                info!("interrupted before the replica was ready");
                Ok(Verdict::Yes)
            }
            Err(error) = pages.serve() => Err(error),
            replica = Replica::start(configuration, &site) => {
                match replica {
                    Ok(replica) => Box::pin(replica.work(&mut interrupts, &pages)).await,
                    Err(error) => Err(error),
                }
            }
        };
        if let Some(functions) = functions {
            functions.stop().await;
        }
        // What was recorded last is kept, too.
        let _ = tokio::task::spawn_blocking(move || site.recorder.stop()).await;
        verdict
    })
}

/// One of several that could lead.
struct Replica<'a> {
    configuration: &'a Configuration,
    site: &'a Site,
    certificates: Certificates,
    standby: Standby,
}

/// The certificates that hold now, and who shows them.
struct Certificates {
    credentials: Credentials,
    /// To functions.
    calls: watch::Sender<grpc::Tls>,
    /// To API servers.
    hooks: Option<Arc<WebhookServer>>,
}

impl Certificates {
    fn new(credentials: Credentials) -> Self {
        let calls = watch::Sender::new(client_tls(&credentials));
        Self { credentials, calls, hooks: None }
    }

    /// Use other certificates from now on. Calls in progress end with those that they began with.
    fn replace(&mut self, credentials: Credentials) -> anyhow::Result<()> {
        self.calls.send_replace(client_tls(&credentials));
        if let Some(hooks) = &self.hooks {
            hooks.show(&credentials)?;
        }
        self.credentials = credentials;
        Ok(())
    }
}

/// Why a replica does not continue as it is.
enum End {
    Told,
    /// The lease is lost.
    Lost,
}

impl<'a> Replica<'a> {
    /// Everything up to being ready to lead. Each line must hold before the next may happen.
    async fn start(configuration: &'a Configuration, site: &'a Site) -> anyhow::Result<Self> {
        site.wait_for_server().await;
        refuse_company(configuration, site).await?;
        initialise::kinds(site).await?;
        let credentials = initialise::credentials(configuration, site).await?;
        ferroplane_functions::set_secret(credentials.function_secret.as_bytes());
        let mut certificates = Certificates::new(credentials);
        let credentials = &certificates.credentials;
        let standby = stand_by(configuration, site, &certificates.calls).await?;
        site.health.count(&standby.metrics());
        let _ = site.versions.set(VersionsPage::new(standby.function_catalogue())?);
        if let Some(webhooks) = &configuration.webhooks {
            let opened = WebhookServer::open(webhooks.address, credentials).await?;
            opened.serve_reviews_of(&standby, site, credentials);
            initialise::webhooks(configuration, site, credentials).await?;
            certificates.hooks = Some(Arc::new(opened));
        }
        site.health.set_initialised();
        info!("replica is ready");
        Ok(Self { configuration, site, certificates, standby })
    }

    /// Leads when it gets the lease, until it is stopped.
    async fn work(self, interrupts: &mut Interrupts, pages: &Pages) -> anyhow::Result<Verdict> {
        let hooks = self.certificates.hooks.clone();
        let serve_hooks = async {
            match hooks {
                Some(hooks) => hooks.serve().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Err(error) = pages.serve() => Err(error),
            Err(error) = serve_hooks => Err(error),
            verdict = self.lead(interrupts) => verdict,
        }
    }

    async fn lead(mut self, interrupts: &mut Interrupts) -> anyhow::Result<Verdict> {
        let mut election = self.election();
        let (configuration, site) = (self.configuration, self.site);
        // Replicas that do not lead renew certificates, too: the first one does it.
        loop {
            let credentials = tokio::select! {
                biased;
                _ = interrupts.next() => return Ok(Verdict::Yes),
                () = win(election.as_mut()) => break,
                credentials = renewed(configuration, site, self.certificates.credentials.renewal) => credentials,
            };
            self.certificates.replace(credentials)?;
        }
        site.health.set_leading(true);
        let controllers = self.standby.lead();
        site.plans.set(Some(controllers.planner()));
        let end = loop {
            let credentials = tokio::select! {
                biased;
                _ = interrupts.next() => break End::Told,
                () = keep(election.as_mut()) => break End::Lost,
                credentials = renewed(configuration, site, self.certificates.credentials.renewal) => credentials,
            };
            self.certificates.replace(credentials)?;
        };
        site.health.set_leading(false);
        site.plans.set(None);
        match end {
            End::Told => hand_over(controllers, site, election, interrupts).await,
            End::Lost => {
                // Nothing is written any more, whatever is still under way.
                site.health.set_stopping();
                controllers.stop().await;
                Err(lost())
            }
        }
    }

    fn election(&self) -> Option<Election> {
        let duration = self.configuration.lease_duration?;
        let candidacy = Candidacy {
            namespace: self.configuration.namespace.clone(),
            lease: LEASE.to_owned(),
            identity: identity(),
            duration,
        };
        let client = self.site.client.clone();
        Some(Election::new(client, Clock::system(), candidacy, self.site.term.clone()))
    }
}

/// New certificates, when it is time for them. Until they are there, everything continues with the old ones.
async fn renewed(configuration: &Configuration, site: &Site, renewal: Timestamp) -> Credentials {
    until(site, renewal).await;
    info!("renewing certificates");
    loop {
        match initialise::credentials(configuration, site).await {
            Ok(credentials) => return credentials,
            Err(error) => {
                let error = format!("{error:#}");
                warn!(error, "cannot renew certificates; trying again");
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn lost() -> anyhow::Error {
    anyhow!("lost the lease; another replica is the leader, or will be")
}

/// A name that no other replica has.
fn identity() -> String {
    let host = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    let host = host.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    format!("{IDENTITY}{host}_{}", uuid::Uuid::new_v4())
}

async fn win(election: Option<&mut Election>) {
    if let Some(election) = election {
        election.win().await;
    }
}

async fn keep(election: Option<&mut Election>) {
    match election {
        Some(election) => election.keep().await,
        None => std::future::pending().await,
    }
}

/// Waits for a time of day. A machine that slept notices within the hour.
async fn until(site: &Site, time: Timestamp) {
    loop {
        let left = Duration::try_from(time.duration_since(site.clock.timestamp())).unwrap_or_default();
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(site.clock_check)).await;
    }
}

/// What functions are shown.
fn client_tls(credentials: &Credentials) -> grpc::Tls {
    grpc::Tls {
        ca: credentials.authority.clone().into_bytes(),
        certificate: credentials.client.certificate.clone().into_bytes(),
        key: credentials.client.key.clone().into_bytes(),
    }
}

async fn refuse_company(configuration: &Configuration, site: &Site) -> anyhow::Result<()> {
    let found = find_other_control_planes(&site.cluster, &configuration.namespace, Timestamp::now()).await;
    let found = found.context("cannot check for other control planes on the cluster")?;
    match found.objection() {
        Some(objection) => bail!("{objection}"),
        None => Ok(()),
    }
}

/// Where packages come from, if any are installed.
fn packages(configuration: &Configuration) -> anyhow::Result<Option<RegistryPackages>> {
    let open = |packages: &Packages| packages.open(configuration.registry_access()?);
    configuration.packages.as_ref().map(open).transpose()
}

/// What runs images and calls webhooks for steps.
fn external(configuration: &Configuration) -> anyhow::Result<External> {
    let access = configuration.registry_access()?;
    Ok(match &configuration.images {
        Some(directory) => {
            // Beside the images of packages, which others manage.
            let settings = image_settings_in(directory.join("steps"), RegistryUser::Nobody, &access);
            external_with(Trust::Grants, Images::new(settings).runner())
        }
        None => crate::external::external(Trust::Grants, RegistryUser::Nobody, &access),
    })
}

/// How the phases of actions run: in pods of the cluster.
fn action_settings(configuration: &Configuration) -> ActionSettings {
    ActionSettings {
        runs: configuration.runs_actions,
        has_exec: true,
        pods: PodSupport::Cluster,
        containers: None,
        is_strict: configuration.has_strict_function_versions,
        seed: ferroplane_functions::secret_seed("templates of actions"),
    }
}

async fn stand_by(
    configuration: &Configuration,
    site: &Site,
    certificates: &watch::Sender<grpc::Tls>,
) -> anyhow::Result<Standby> {
    let calls = grpc::Options {
        tls: Some(certificates.borrow().clone()),
        renewed_tls: Some(certificates.subscribe()),
        metadata: site.metadata.clone(),
        ..grpc::Options::default()
    };
    let mut answers = response_cache(configuration.answers.as_deref())?;
    if let Some(max_ttl) = configuration.max_answer_ttl {
        answers = answers.with_max_ttl(max_ttl);
    }
    let templates = template_fetcher(
        &configuration.remote_templates,
        configuration.remote_templates_directory.clone(),
        Patience::NeverWaits,
    )?;
    let settings = Settings {
        clock: Clock::system(),
        built_ins: built_ins(
            configuration.enables_alpha_functions.then(|| external(configuration)).transpose()?,
            templates,
        )?,
        calls,
        // A user who may write Functions of a cluster may not run programs in its pods.
        local_functions: Arc::default(),
        answers: Arc::new(answers),
        writes_roles: configuration.writes_roles,
        runs_operations: configuration.runs_operations,
        digest_key: DigestKey::new(ferroplane_functions::secret_seed("digests of Secrets")),
        actions: Some(action_settings(configuration)),
        composer: site.composer.clone(),
        recorder: site.recorder.clone(),
        allows_development_functions: configuration.allows_development_functions,
        tuning: configuration.tuning.clone(),
        enables_function_revision_selectors: configuration.enables_function_revision_selectors,
        packages: configuration
            .packages
            .as_ref()
            .zip(site.packages.as_ref())
            .map(|(packages, source)| packages.manager(configuration, source, site.functions.clone())),
    };
    Standby::start(site.fenced.clone(), settings).await.context("cannot watch the cluster")
}

/// The end that users want: nothing is broken off, and another replica continues at once.
async fn hand_over(
    controllers: Controllers,
    site: &Site,
    election: Option<Election>,
    interrupts: &mut Interrupts,
) -> anyhow::Result<Verdict> {
    info!("shutting down; send a second signal to exit immediately");
    site.health.set_stopping();
    let leaving = async {
        let mut election = election;
        // The lease has to be kept until the last of it is done.
        tokio::select! {
            biased;
            () = finish(controllers) => {}
            () = keep(election.as_mut()) => warn!("lost the lease before all reconciles ended"),
        }
        site.term.end();
        if let Some(election) = &mut election {
            election.release().await;
        }
        Ok(Verdict::Yes)
    };
    tokio::select! {
        biased;
        done = leaving => done,
        signal = interrupts.next() => Ok(signal),
    }
}

async fn finish(controllers: Controllers) {
    let broken_off = controllers.finish(PATIENCE).await;
    if broken_off > 0 {
        warn!(broken_off, "some reconciles did not end in time");
    }
}

/// A future that does not end well, if it ends.
type Unending = Result<Infallible, anyhow::Error>;
