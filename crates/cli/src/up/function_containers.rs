//! Runs the functions in packages for as long as controllers want them: WebAssembly in this process, and every other program in a
//! container of its own. Where containers cannot be run, it may be a process, if the administrator says so.
//!
//! # Invariants
//! * A function runs only if its revision is active. When that ends, so does the container, as soon as nothing calls it any more. All of
//!   them end with the plane.
//! * Functions see nothing of this machine, unless the administrator allows processes, and have no network, unless their Function says so.
//! * A failure that may pass never makes a function a process: only a machine that runs no containers at all does.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};

use super::function_logs::FunctionLogs;
use super::function_processes::{ServerPlace, refusal};
use super::on_demand::{CallServer, OnDemand, RunningServer};
use super::packaged_programs::{ProgramNetwork, follow};
use super::provider_containers::{self, ProviderSite};
use crate::external::{RegistryUser, image_settings_in};
use crate::package_source::RegistryPackages;
use ferroplane_api::keys;
use ferroplane_controllers::{
    ImageRequest, PackagedFunction, PackagedFunctions, PackagedImage, PackagedProviders,
};
use ferroplane_golang::time::duration;
use ferroplane_runner::{
    AsyncFunction, CallError, FunctionGrants, FunctionLog, ImageSettings, ImageSource, Images, PullWhen,
    Runner, ServeImage, ServedImage,
};
use ferroplane_sandbox::ServerState;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Pauses after an image cannot be run at all.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// How long a container that is no longer wanted waits for its last calls. Longer than a reconcile may take.
const LONGEST_FAREWELL: Duration = Duration::from_mins(3);

/// Why a program is not run that is not WebAssembly.
const NO_CODE: &str = "its image says that its program is WebAssembly, and it is not; name the program otherwise to run it in pods";

/// What is run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    /// Every program: what is no WebAssembly, in a container.
    All,
    /// Every program, and as a process where containers cannot be run.
    Unisolated,
    /// WebAssembly alone: a user who may install packages must not start programs beside the control plane.
    WebAssembly,
}

/// Runs the functions in packages.
#[derive(Debug)]
pub(crate) struct FunctionContainers {
    following: Vec<JoinHandle<()>>,
    images: Images,
    logs: Arc<FunctionLogs>,
    provider_logs: Arc<FunctionLogs>,
    /// Holds the directory of the images.
    _packages: RegistryPackages,
}

impl FunctionContainers {
    /// Run what controllers want from now on.
    pub(crate) fn start(
        functions: Arc<PackagedFunctions>,
        packages: RegistryPackages,
        programs: Programs,
    ) -> Self {
        // What was fetched to be installed need not be fetched again to be run.
        let directory = packages.directory().to_owned();
        let settings = image_settings_in(directory, RegistryUser::Own, packages.access());
        let logs = Arc::<FunctionLogs>::default();
        let log = logs.clone();
        let function_log: FunctionLog = Arc::new(move |revision, line| log.append(revision, line));
        // Signatures, rewriting and digests are about the image of the package.
        let settings =
            ImageSettings { function_log: Some(function_log), follows_packages: false, ..settings };
        let images = Images::new(settings);
        let (wanted, starting) = (functions.clone(), images.clone());
        let keep = move |revision, image, unwanted| {
            keep(revision, image, functions.clone(), starting.clone(), programs, unwanted)
        };
        let following = vec![tokio::spawn(follow(wanted, logs.clone(), keep))];
        Self { following, images, logs, provider_logs: Arc::default(), _packages: packages }
    }

    /// Run providers beside them, too.
    #[must_use]
    pub(super) fn with_providers(mut self, providers: Arc<PackagedProviders>, site: ProviderSite) -> Self {
        let (wanted, images, logs) = (providers.clone(), self.images.clone(), self.provider_logs.clone());
        let keep = move |revision, provider, unwanted| {
            let (providers, images) = (providers.clone(), images.clone());
            provider_containers::keep(
                revision,
                provider,
                providers,
                images,
                site.clone(),
                logs.clone(),
                unwanted,
            )
        };
        self.following.push(tokio::spawn(follow(wanted, self.provider_logs.clone(), keep)));
        self
    }

    /// What functions print.
    pub(super) fn logs(&self) -> Arc<FunctionLogs> {
        self.logs.clone()
    }

    /// What providers print.
    pub(super) fn provider_logs(&self) -> Arc<FunctionLogs> {
        self.provider_logs.clone()
    }

    /// End all of them, and return when they are gone.
    pub(crate) async fn stop(self) {
        for following in self.following {
            following.abort();
            let _ = following.await;
        }
        self.images.close().await;
    }
}

/// Keep a function running until it is no longer wanted, and then until its last call has ended.
async fn keep(
    revision: String,
    wanted: PackagedImage,
    functions: Arc<PackagedFunctions>,
    images: Images,
    programs: Programs,
    mut unwanted: oneshot::Receiver<()>,
) {
    let mut pause = FIRST_PAUSE;
    let PackagedImage { image: request, grants, idle_timeout, network } = wanted;
    let (idle, network) = match parse_idle_timeout(&idle_timeout)
        .and_then(|idle| Ok((idle, ProgramNetwork::parse(&network)?)))
    {
        Ok(annotations) => annotations,
        Err(error) => {
            functions.set(&revision, Some(PackagedFunction::Down(error.to_string())));
            let _ = unwanted.await;
            return;
        }
    };
    let runtime = FunctionStarter { images, programs, network };
    loop {
        let source = source_of(&request);
        let started = tokio::select! {
            started = runtime.start(&revision, source.clone(), &grants, idle) => started,
            _ = &mut unwanted => return,
        };
        let why = match started {
            Err(error) => format!("{error:#}"),
            Ok(Started::Refused) => NO_CODE.to_owned(),
            Ok(Started::Unserved(runner)) => {
                functions.set(&revision, Some(PackagedFunction::Serving(runner)));
                // The caller holds what is called: there is nothing to end.
                let _ = unwanted.await;
                return;
            }
            Ok(Started::Server(mut server, about)) => {
                return serve(&revision, &mut server, about, &functions, unwanted).await;
            }
            Ok(Started::Idle(idle, place)) => {
                let demanded = Demanded { source, idle, place };
                return serve_on_demand(&revision, demanded, &runtime, &functions, unwanted).await;
            }
        };
        functions.set(&revision, Some(PackagedFunction::Down(why)));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = &mut unwanted => return,
        }
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

fn source_of(request: &ImageRequest) -> ImageSource {
    ImageSource::Registry {
        reference: request.image.clone(),
        // It is named by its digest.
        policy: Some(PullWhen::IfNotPresent),
        secrets: request.pull_secrets.iter().cloned().map(Into::into).collect(),
    }
}

/// How a function was started.
enum Started {
    /// It is no server.
    Unserved(Arc<Runner>),
    /// It is a server, which runs in this way.
    Server(Box<ServedImage>, String),
    /// It is a server, which is started there when it is called and stopped when it was not called for so long.
    Idle(Duration, ServerPlace),
    /// It says that it is WebAssembly, and is not.
    Refused,
}

/// Starts functions.
struct FunctionStarter {
    images: Images,
    programs: Programs,
    network: ProgramNetwork,
}

impl FunctionStarter {
    async fn start(
        &self,
        revision: &str,
        source: ImageSource,
        grants: &str,
        idle: Option<Duration>,
    ) -> anyhow::Result<Started> {
        let grants = FunctionGrants { code: grants, has_network: self.network == ProgramNetwork::Runner };
        if let Some(runner) = self.images.unserved_function(revision, &source, grants).await? {
            return Ok(Started::Unserved(Arc::new(runner)));
        }
        if self.programs == Programs::WebAssembly {
            return Ok(Started::Refused);
        }
        if let Some(idle) = idle {
            // Nothing is tried before it is called, unless the status could say something wrong.
            let may_be_process = self.programs == Programs::Unisolated;
            let usual = ServerPlace::Container(self.network);
            let place = if may_be_process { self.place().await? } else { usual };
            return Ok(Started::Idle(idle, place));
        }
        let place = self.place().await?;
        let server = self.serve(&place, revision, source).await?;
        Ok(Started::Server(Box::new(server), place.describe(None)))
    }

    /// Start a server in this place and in no other: it stands in the status.
    async fn serve(
        &self,
        place: &ServerPlace,
        revision: &str,
        source: ImageSource,
    ) -> anyhow::Result<ServedImage> {
        if let ServerPlace::Process { .. } = place {
            return Ok(self.images.serve_process(revision, source).await?);
        }
        if let Some(why) = self.images.why_no_containers().await? {
            bail!(refusal(&why));
        }
        let has_network = self.network == ProgramNetwork::Runner;
        Ok(self.images.serve(ServeImage { has_network, ..ServeImage::function(revision, source) }).await?)
    }

    /// Where servers can run, and may.
    async fn place(&self) -> anyhow::Result<ServerPlace> {
        match self.images.why_no_containers().await? {
            None => Ok(ServerPlace::Container(self.network)),
            Some(why) if self.programs == Programs::Unisolated => Ok(ServerPlace::Process { why }),
            Some(why) => bail!(refusal(&why)),
        }
    }
}

/// How long a server may continue without being called. None is for ever.
fn parse_idle_timeout(text: &str) -> anyhow::Result<Option<Duration>> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = duration::parse_positive(text).filter(|idle| !idle.is_zero());
    parsed.map(Some).ok_or_else(|| {
        anyhow!(
            "cannot read the annotation `{}: {text}`: expected a duration such as 10m",
            keys::IDLE_TIMEOUT
        )
    })
}

/// A server that is started when it is called.
struct Demanded {
    source: ImageSource,
    idle: Duration,
    place: ServerPlace,
}

/// Start and stop a server as it is called until it is no longer wanted, and wait for its last calls.
async fn serve_on_demand(
    revision: &str,
    demanded: Demanded,
    runtime: &FunctionStarter,
    functions: &PackagedFunctions,
    mut unwanted: oneshot::Receiver<()>,
) {
    let Demanded { source, idle, place } = demanded;
    let server = Arc::new(OnDemand::new(&source.name(), idle));
    let called = server.clone();
    let (function, callers) = function_of(move |request| {
        let called = called.clone();
        async move { called.call(request).await }
    });
    let runner = Runner::AsyncFunction(function.described(place.describe(Some(idle))));
    functions.set(revision, Some(PackagedFunction::Serving(Arc::new(runner))));
    let place = &place;
    let mut keeping = pin!(server.keep(|| start_server(runtime, place, revision, source.clone())));
    tokio::select! {
        () = &mut keeping => {}
        _ = &mut unwanted => {}
    }
    // Those who began with it may still need it started.
    tokio::select! {
        () = keeping => {}
        _ = tokio::time::timeout(LONGEST_FAREWELL, callers) => {}
    }
}

async fn start_server(
    runtime: &FunctionStarter,
    place: &ServerPlace,
    revision: &str,
    source: ImageSource,
) -> Result<RunningServer, String> {
    let server = runtime.serve(place, revision, source).await.map_err(|error| format!("{error:#}"))?;
    let function = server.function(revision);
    let call: CallServer = Arc::new(move |request| {
        let function = function.clone();
        Box::pin(async move { function.call(&request).await })
    });
    Ok(RunningServer { call, stop: Box::pin(server.stop()) })
}

/// Report the state of a server until it is no longer wanted, and wait for its last calls.
async fn serve(
    revision: &str,
    server: &mut ServedImage,
    about: String,
    functions: &PackagedFunctions,
    mut unwanted: oneshot::Receiver<()>,
) {
    let program = server.function(revision);
    let (function, callers) = function_of(move |request| {
        let program = program.clone();
        async move { program.call(&request).await }
    });
    let runner = Arc::new(Runner::AsyncFunction(function.described(about)));
    let mut state = server.state();
    loop {
        functions.set(revision, Some(packaged(&state, &runner)));
        tokio::select! {
            changed = server.changed(&state) => state = changed,
            _ = &mut unwanted => break,
        }
    }
    // It is no longer listed. Reconciles that began with it hold the runner until they end.
    drop(runner);
    let _ = tokio::time::timeout(LONGEST_FAREWELL, callers).await;
}

/// A function that calls by this, and what ends when nothing holds it or a call of it any more.
fn function_of<F>(
    call: impl Fn(RunFunctionRequest) -> F + Send + Sync + 'static,
) -> (AsyncFunction, oneshot::Receiver<()>)
where
    F: Future<Output = Result<RunFunctionResponse, CallError>> + Send + 'static,
{
    let (held, callers) = oneshot::channel::<()>();
    let held = Arc::new(held);
    let call = move |request| {
        let (answering, held) = (call(request), held.clone());
        async move {
            let answer = answering.await;
            drop(held);
            answer
        }
    };
    (AsyncFunction::new(call), callers)
}

fn packaged(state: &ServerState, runner: &Arc<Runner>) -> PackagedFunction {
    match state {
        ServerState::Serving => PackagedFunction::Serving(runner.clone()),
        ServerState::Starting => PackagedFunction::Starting,
        ServerState::Waiting { why } => PackagedFunction::Down(why.clone()),
        ServerState::Stopped => PackagedFunction::Down("it was stopped".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_runner::Directory;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn container_is_held_by_whoever_lists_it_and_by_every_call() {
        let may_answer = Arc::new(Semaphore::new(0));
        let waiting = may_answer.clone();
        let (function, mut callers) = function_of(move |_| {
            let waiting = waiting.clone();
            async move {
                let _ = waiting.acquire().await;
                Ok(RunFunctionResponse::default())
            }
        });
        let runner = Arc::new(Runner::AsyncFunction(function));
        let mut directory = Directory::default();
        directory.insert("f-1".to_owned(), runner.clone());
        drop(runner);
        let calling =
            tokio::spawn(async move { directory.call("f-1", &RunFunctionRequest::default()).await });
        tokio::task::yield_now().await;
        assert_eq!(callers.try_recv(), Err(oneshot::error::TryRecvError::Empty), "it is being called");
        may_answer.add_permits(1);
        calling.await.unwrap().unwrap();
        // No message ever comes: the sender is dropped.
        assert!(callers.await.is_err());
    }
}
