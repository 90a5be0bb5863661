//! Runs images: fetches them, unpacks them, and runs what is in them in containers.
//!
//! [`Images`] is the only thing that a command needs. It opens the content store, the unpacked images and the container runtime when they
//! are needed first; clones share them. There are four ways to run an image:
//!
//! * [`ContainerRunner`] runs several together to their end, as a pod does.
//! * [`Images::keep`] keeps any other program running, such as that of a Provider package, and leads it to what it may reach.
//! * [`Images::call`] runs its program once, with bytes on its standard input and its answer from standard output.
//! * [`Images::serve`] keeps a gRPC function server running, such as that of a Function package, and gives a [`ServedImage`] to call it.
//!   Where containers cannot be run, [`Images::serve_process`] does the same for one that is a static executable.
//!   Packages that are no servers are called by what [`Images::unserved_function`] gives. In a pod, [`serve_program`] serves them.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use ferroplane_runner::{ImageSettings, ImageSource, Images, ServeImage};
//!
//! let helper = vec!["/proc/self/exe".into(), "internal".into(), "host".into()];
//! let images = Images::new(ImageSettings::new("/var/lib/ferroplane/images", helper));
//! let source = ImageSource::reference("registry.example.org/function-greet:v1.0.0");
//! let mut server = images.serve(ServeImage::function("function-greet", source)).await?;
//! let function = server.function("greet");     // calls it, after a restart too; restarts it if it hangs
//! let state = server.state();                  // whether it serves, or why it is started again
//! let state = server.changed(&state).await;    // waits until that changes, as when it exits
//! let said = server.said();                    // the last lines that it printed
//! server.restart();                            // ends it; it is started again
//! server.stop().await;                         // ends it for good; dropping it does so, too
//! images.close().await;                        // ends whatever still runs, at once
//! # Ok(()) }
//! ```
//!
//! # Invariants
//! * Nothing blocks the threads of the async runtime: the disk is used on others.
//! * What runs does so within limits and without a network, unless a caller that calls says that it was granted.
//! * An image that is in use stays unpacked.

mod adapter;
mod call;
mod code;
mod error;
mod group;
mod package;
mod process;
mod program;
mod program_server;
mod ready;
mod serve;
mod source;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ferroplane_image::auth::Credentials;
use ferroplane_image::registry::{self, Registry};
use ferroplane_image::store::{self, Store};
use ferroplane_image::unpack::{self, Roots};
use ferroplane_sandbox::{CgroupChoice, Chroots, Engine, Processes, Runtime, file_owner, remove_leftovers};
use tokio::sync::OnceCell;

pub use adapter::{CallLimits, FunctionGrants, function_protocol};
pub use error::ImageError;
pub use group::{ContainerError, ContainerRunner};
pub use package::PROTOCOL_ANNOTATION;
pub use program::{KeepImage, KeptImage};
pub use program_server::{ServeProgramError, ServedProgram, serve_program};
pub use ready::ReadyImage;
pub use serve::{ServeImage, ServedFunction, ServedImage};
pub use source::{ImageSource, PullSecret, PullWhen};

use crate::process::LineSink;
use ready::ReadyImages;

/// Below the directory of images: the state of what runs.
const STATE: &str = "containers";
/// How much unpacked images may take up. Those that were used last stay, and those in use.
const MOST_UNPACKED_BYTES: u64 = 10 << 30;
/// How many sets of credentials have connections of their own.
const MOST_REGISTRIES: usize = 16;

/// Where and how images are run.
#[derive(Clone)]
pub struct ImageSettings {
    /// Holds content, unpacked images and the state of containers. Only its user may look into it.
    pub directory: PathBuf,
    /// The command that runs [`ferroplane_sandbox::host::main`]: this program, started again.
    pub helper: Vec<OsString>,
    /// Whether Docker's `config.json` of the user has credentials for registries.
    pub uses_docker_config: bool,
    /// Certificate authorities of registries in PEM, beside those of the system.
    pub authorities: Vec<u8>,
    /// Registries (`host` or `host:port`) that are spoken to without TLS.
    pub plain_http: Vec<String>,
    /// The container runtime, if not the one that is found.
    pub engine: Option<Engine>,
    /// The cgroup that holds the limits of containers.
    pub cgroup: CgroupChoice,
    /// Takes what programs print. Without it, it is logged.
    pub lines: Option<LineSink>,
    /// Takes what functions in packages print, too.
    pub function_log: Option<FunctionLog>,
    /// Is given how far images are that are pulled.
    pub pull_progress: Option<PullProgress>,
    /// Whether a package without a program may name another image that has it. That image is not verified.
    pub follows_packages: bool,
}

/// Is given the name of a function, and every line that it prints.
pub type FunctionLog = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Is given how far a part of an image is, whenever some of it has come.
pub type PullProgress = Arc<dyn Fn(registry::Progress) + Send + Sync>;

impl ImageSettings {
    pub fn new(directory: impl Into<PathBuf>, helper: Vec<OsString>) -> Self {
        Self {
            directory: directory.into(),
            helper,
            uses_docker_config: false,
            authorities: Vec::new(),
            plain_http: Vec::new(),
            engine: None,
            cgroup: CgroupChoice::None,
            lines: None,
            function_log: None,
            pull_progress: None,
            follows_packages: true,
        }
    }
}

/// Runs images. Clones share what was fetched and what runs.
#[derive(Clone)]
pub struct Images {
    inner: Arc<Inner>,
}

struct Inner {
    settings: ImageSettings,
    files: OnceCell<Files>,
    runtime: OnceCell<Runtime>,
    chroots: OnceCell<Chroots>,
    processes: OnceCell<Processes>,
    /// By the pull secrets that they use.
    registries: Mutex<Vec<(Vec<Bytes>, Registry)>>,
    ready: ReadyImages,
}

/// What is on the disk.
#[derive(Debug, Clone)]
struct Files {
    store: Store,
    roots: Roots,
}

impl Images {
    /// Opens nothing yet. What a killed process left is ended and removed in the background: programs, and files such as their keys.
    pub fn new(settings: ImageSettings) -> Self {
        let state = settings.directory.join(STATE);
        // Nothing waits for it. No helper is started. What cannot be removed is logged, and is no obstacle.
        std::thread::spawn(move || remove_leftovers(&state));
        let inner = Inner {
            settings,
            files: OnceCell::new(),
            runtime: OnceCell::new(),
            chroots: OnceCell::new(),
            processes: OnceCell::new(),
            registries: Mutex::default(),
            ready: ReadyImages::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Makes sure that this machine lets us run containers.
    pub async fn probe(&self) -> Result<(), ImageError> {
        Ok(self.runtime().await?.probe().await?)
    }

    /// Ends everything that runs, and returns when it is gone. Servers have to be dropped before, or they are started again.
    pub async fn close(&self) {
        if let Some(runtime) = self.inner.runtime.get() {
            runtime.close().await;
        }
        if let Some(processes) = self.inner.processes.get() {
            processes.close().await;
        }
    }

    async fn runtime(&self) -> Result<&Runtime, ImageError> {
        let open = || async {
            let options = self.options();
            // Ends what an earlier process has left behind, which may take seconds.
            Ok(blocking(move || Runtime::new(options)).await??)
        };
        self.inner.runtime.get_or_try_init(open).await
    }

    /// What runs programs without containers.
    async fn chroots(&self) -> Result<&Chroots, ImageError> {
        let open = || async {
            let options = self.options();
            Ok(blocking(move || Chroots::new(options)).await??)
        };
        self.inner.chroots.get_or_try_init(open).await
    }

    /// What keeps programs running without containers.
    async fn processes(&self) -> Result<&Processes, ImageError> {
        let open = || async {
            let options = self.options();
            // Ends what an earlier process has left behind, which may take seconds.
            Ok(blocking(move || Processes::new(options)).await??)
        };
        self.inner.processes.get_or_try_init(open).await
    }

    fn options(&self) -> ferroplane_sandbox::Options {
        let settings = &self.inner.settings;
        let state = settings.directory.join(STATE);
        let mut options = ferroplane_sandbox::Options::new(settings.helper.clone(), state);
        options.engine.clone_from(&settings.engine);
        options.cgroup.clone_from(&settings.cgroup);
        options
    }

    /// Takes what a function in a package prints, beside the log.
    fn function_sink(&self, name: &str) -> Option<LineSink> {
        let (log, name) = (self.inner.settings.function_log.clone()?, name.to_owned());
        Some(Arc::new(move |line: &str| log(&name, line)))
    }

    async fn files(&self) -> Result<&Files, ImageError> {
        let open = || async {
            let directory = self.inner.settings.directory.clone();
            let open = move || {
                let store = Store::open(directory.join("content"), store::Limits::default())?;
                let roots = Roots::open(directory.join("roots"), unpack::Limits::default())?;
                Ok::<_, ImageError>(Files { store, roots: roots.for_owner(file_owner()) })
            };
            blocking(open).await?
        };
        self.inner.files.get_or_try_init(open).await
    }

    /// A client for registries with these pull secrets. It keeps its connections and tokens.
    fn registry(&self, secrets: &[Bytes]) -> Result<Registry, ImageError> {
        let mut registries = self.inner.registries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, registry)) = registries.iter().find(|(its, _)| its == secrets) {
            return Ok(registry.clone());
        }
        let settings = &self.inner.settings;
        let mut credentials =
            if settings.uses_docker_config { Credentials::of_the_user() } else { Credentials::anonymous() };
        for secret in secrets {
            credentials = credentials.with_pull_secret(secret)?;
        }
        let registry = Registry::new(registry::Options {
            credentials,
            authorities: settings.authorities.clone(),
            plain_http: settings.plain_http.clone(),
            ..registry::Options::default()
        })?;
        if registries.len() >= MOST_REGISTRIES {
            registries.remove(0);
        }
        registries.push((secrets.to_vec(), registry.clone()));
        Ok(registry)
    }
}

/// Run blocking work where it delays no other task.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ImageError> {
    tokio::task::spawn_blocking(work).await.map_err(ImageError::Background)
}

impl std::fmt::Debug for ImageSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageSettings").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images").field("directory", &self.inner.settings.directory).finish_non_exhaustive()
    }
}
