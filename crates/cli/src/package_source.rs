//! Packages from registries, through a content store on this machine.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_controllers::{
    ImageProgram, ImageRequest, LoadedPackage, PackagePullPolicy, PackageSource, SourceAnswer, SourceError,
};
use ferroplane_image::auth::Credentials;
use ferroplane_image::registry::{
    self, ImageSignature, Options, Pull, PullPolicy, Registry, RetryPolicy, Timeouts,
};
use ferroplane_image::store::{Limits, Store};
use ferroplane_image::{Image, ImageConfig, Reference};
use ferroplane_package::image::read_stream;
use ferroplane_package::{OpenError, read_package};
use http::HeaderValue;
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Where the content is, as where images are run.
const CONTENT: &str = "content";
/// How often a registry is tried in a row. A caller that asks comes back later anyway.
const ATTEMPTS: u32 = 3;
/// How long a connection may take. A function that is built in says after a second that it can be called.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an image may take.
const TOTAL: Duration = Duration::from_mins(10);
/// How long the text of a package may be without being a large one: of those, one at a time is in memory.
const LARGE: usize = 16 << 20;
/// How many lengths of packages are remembered. One that is forgotten is measured again.
const REMEMBERED: usize = 10_000;

/// The content of the images in a directory. A command that puts images there for the control plane uses the same one.
pub(crate) fn open_store(images: &Path) -> anyhow::Result<Store> {
    Store::open(images.join(CONTENT), Limits::default())
        .with_context(|| format!("cannot open the images in {}", images.display()))
}

/// How registries are asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegistryAccess {
    /// Certificate authorities in PEM, beside those of the system.
    pub(crate) authorities: Vec<u8>,
    /// Registries (`host` or `host:port`) that are spoken to without TLS.
    pub(crate) plain_http: Vec<String>,
    /// What registries are shown as the name of this program. None is its own name and version.
    pub(crate) user_agent: Option<HeaderValue>,
}

/// Packages from registries.
#[derive(Debug, Clone)]
pub(crate) struct RegistryPackages {
    store: Store,
    directory: Arc<Path>,
    /// For those who bring no credentials of their own. Shares connections.
    registry: Registry,
    access: Arc<RegistryAccess>,
    /// The lengths of the texts of packages, by image and digest.
    lengths: Arc<Mutex<HashMap<String, usize>>>,
    /// Held while a package is read: its text and what is made of it are in memory together.
    reading: Arc<Semaphore>,
    /// Held while a large package is in memory.
    large: Arc<Semaphore>,
    /// Holds the content store of a plane that keeps nothing.
    _temporary: Option<Arc<TempDir>>,
}

impl RegistryPackages {
    /// Keep what is fetched in this directory or, without one, until the end.
    pub(crate) fn open(directory: Option<&Path>, access: RegistryAccess) -> anyhow::Result<Self> {
        let mut temporary = None;
        let directory = if let Some(directory) = directory {
            directory
        } else {
            let made = tempfile::tempdir().context("cannot create a directory for images")?;
            temporary.insert(Arc::new(made)).path()
        };
        // Containers are shown where their files are, and are in another directory.
        let directory = std::path::absolute(directory)
            .with_context(|| format!("cannot find the directory {}", directory.display()))?;
        let store = open_store(&directory)?;
        let registry = Registry::new(options(Credentials::of_the_user(), &access))
            .context("cannot set up the client for registries")?;
        let (access, directory) = (Arc::new(access), directory.into());
        let (reading, large) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
        let lengths = Arc::default();
        Ok(Self { store, registry, access, directory, lengths, reading, large, _temporary: temporary })
    }

    /// Where images are: their content, and what was unpacked of it.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// How registries are asked.
    pub(crate) fn access(&self) -> &RegistryAccess {
        &self.access
    }

    /// What a tag led to when its package came from a bundle. A registry that answers counts more.
    fn recall(&self, request: &ImageRequest, reference: &Reference) -> Option<String> {
        let known = self.store.recall(reference).ok().flatten();
        known.filter(|_| request.policy != PackagePullPolicy::Always).map(|found| found.digest.to_string())
    }

    /// The length of the text of the package in a fetched image. It is measured once.
    async fn length(&self, request: ImageRequest) -> Result<usize, SourceError> {
        let known = self.lengths().get(&request.image).copied();
        if let Some(length) = known {
            return Ok(length);
        }
        let image = request.image.clone();
        let length = self.with_text(request, |text| Ok(text.len())).await?;
        let mut lengths = self.lengths();
        // Dropping all entries is simple, and costs some measurements. No order has to be maintained.
        if lengths.len() >= REMEMBERED {
            lengths.clear();
        }
        lengths.insert(image, length);
        Ok(length)
    }

    fn lengths(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Make something of the text of the package in a fetched image. One text is in memory at a time.
    async fn with_text<T: Send + 'static>(
        &self,
        request: ImageRequest,
        make: impl FnOnce(&str) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let turn = self.reading.clone().acquire_owned().await.map_err(refused)?;
        let store = self.store.clone();
        let reading = move || {
            // Until it is read, also if the caller has stopped waiting.
            let _turn = turn;
            let reference: Reference = request.image.parse().map_err(refused)?;
            let image = store.recall(&reference).map_err(refused)?;
            let image = image.ok_or_else(|| absent(&reference))?;
            make(&read_stream(&store, &image.digest).map_err(invalid)?)
        };
        tokio::task::spawn_blocking(reading).await.map_err(refused)?
    }

    fn registry(&self, request: &ImageRequest) -> Result<Registry, SourceError> {
        if request.pull_secrets.is_empty() {
            return Ok(self.registry.clone());
        }
        let mut credentials = Credentials::of_the_user();
        for secret in &request.pull_secrets {
            credentials = credentials.with_pull_secret(secret).map_err(refused)?;
        }
        Registry::new(options(credentials, &self.access)).map_err(refused)
    }
}

fn options(credentials: Credentials, access: &RegistryAccess) -> Options {
    let mut options = Options {
        credentials,
        authorities: access.authorities.clone(),
        plain_http: access.plain_http.clone(),
        retries: RetryPolicy { attempts: ATTEMPTS, ..RetryPolicy::default() },
        timeouts: Timeouts { connect: CONNECT, total: TOTAL, ..Timeouts::default() },
        ..Options::default()
    };
    if let Some(user_agent) = &access.user_agent {
        options.user_agent = user_agent.clone();
    }
    options
}

impl PackageSource for RegistryPackages {
    fn resolve(&self, request: ImageRequest) -> SourceAnswer<String> {
        let source = self.clone();
        Box::pin(async move {
            let reference: Reference = request.image.parse().map_err(refused)?;
            match source.registry(&request)?.resolve(&reference).await {
                Ok(found) => Ok(found.digest.to_string()),
                Err(error) if error.failure().is_transient() => {
                    source.recall(&request, &reference).ok_or_else(|| unanswered(error))
                }
                Err(error) => Err(unanswered(error)),
            }
        })
    }

    fn fetch(&self, request: ImageRequest) -> SourceAnswer<()> {
        let source = self.clone();
        Box::pin(async move {
            let reference: Reference = request.image.parse().map_err(refused)?;
            // By its digest an image is always the same: it need not be fetched twice, whatever the policy.
            let policy = match request.policy {
                PackagePullPolicy::Always | PackagePullPolicy::IfNotPresent => PullPolicy::IfNotPresent,
                PackagePullPolicy::Never => PullPolicy::Never,
            };
            let pull = Pull::into(&source.store).with_policy(policy);
            source.registry(&request)?.pull(&reference, &pull).await.map_err(unanswered)?;
            Ok(())
        })
    }

    fn turn(&self, request: ImageRequest) -> SourceAnswer<Option<OwnedSemaphorePermit>> {
        let source = self.clone();
        Box::pin(async move {
            // Small packages do not wait for large ones.
            if source.length(request).await? <= LARGE {
                return Ok(None);
            }
            let turn = source.large.clone().acquire_owned().await.map_err(refused)?;
            Ok(Some(turn))
        })
    }

    fn read(&self, request: ImageRequest, turn: Option<OwnedSemaphorePermit>) -> SourceAnswer<LoadedPackage> {
        let source = self.clone();
        Box::pin(async move {
            let contents = |text: &str| read_package(text).map_err(|error| invalid(OpenError::from(error)));
            Ok(LoadedPackage::new(source.with_text(request, contents).await?, turn))
        })
    }

    fn program(&self, request: ImageRequest) -> SourceAnswer<ImageProgram> {
        let store = self.store.clone();
        Box::pin(async move {
            let reading = move || {
                let reference: Reference = request.image.parse().map_err(refused)?;
                let image = store.recall(&reference).map_err(refused)?;
                let image = image.ok_or_else(|| absent(&reference))?;
                let image = Image::load(&store, &image.digest).map_err(refused)?;
                Ok(program(&image.config))
            };
            tokio::task::spawn_blocking(reading).await.map_err(refused)?
        })
    }

    fn tags(&self, request: ImageRequest) -> SourceAnswer<Vec<String>> {
        let source = self.clone();
        Box::pin(async move {
            let reference: Reference = request.image.parse().map_err(refused)?;
            source.registry(&request)?.tags(&reference).await.map_err(unanswered)
        })
    }

    fn signatures(&self, request: ImageRequest, anew: bool) -> SourceAnswer<Vec<ImageSignature>> {
        let source = self.clone();
        Box::pin(async move {
            let reference: Reference = request.image.parse().map_err(refused)?;
            let registry = source.registry(&request)?;
            registry.signatures(&reference, &source.store, anew).await.map_err(unanswered)
        })
    }

    fn attestations(&self, request: ImageRequest, anew: bool) -> SourceAnswer<Vec<ImageSignature>> {
        let source = self.clone();
        Box::pin(async move {
            let reference: Reference = request.image.parse().map_err(refused)?;
            let registry = source.registry(&request)?;
            registry.attestations(&reference, &source.store, anew).await.map_err(unanswered)
        })
    }
}

/// The program that an image names. Its layers are not read for that.
fn program(config: &ImageConfig) -> ImageProgram {
    let execution = config.config.clone().unwrap_or_default();
    ImageProgram {
        is_webassembly: is_webassembly(config),
        entrypoint: execution.entrypoint.unwrap_or_default(),
        cmd: execution.cmd.unwrap_or_default(),
    }
}

/// Whether an image says that its program is WebAssembly: by its processor, or by the name of the program.
fn is_webassembly(config: &ImageConfig) -> bool {
    let execution = config.config.as_ref();
    let entrypoint = execution.and_then(|it| it.entrypoint.as_ref()?.first());
    let program = entrypoint.or_else(|| execution.and_then(|it| it.cmd.as_ref()?.first()));
    config.architecture == "wasm"
        || program.is_some_and(|program| Path::new(program).extension() == Some("wasm".as_ref()))
}

/// The registry does not do what was asked. Whether it answers at all makes a difference.
fn unanswered(error: registry::Error) -> SourceError {
    let is_unreachable = error.failure().is_transient();
    SourceError { message: format!("{:#}", anyhow::Error::from(error)), is_unreachable, is_invalid: false }
}

fn refused(error: impl std::error::Error + Send + Sync + 'static) -> SourceError {
    let message = format!("{:#}", anyhow::Error::from(error));
    SourceError { message, is_unreachable: false, is_invalid: false }
}

/// The contents of a package cannot be used, unless it is the content store that cannot be read.
fn invalid(error: OpenError) -> SourceError {
    match error {
        OpenError::Image(_) | OpenError::Layer { .. } => refused(error),
        other => SourceError::invalid(format!("{:#}", anyhow::Error::from(other))),
    }
}

fn absent(reference: &Reference) -> SourceError {
    SourceError {
        message: format!("cannot read `{reference}`: it is not in the content store any more"),
        is_unreachable: true,
        is_invalid: false,
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_image::Execution;

    use super::*;

    #[test]
    fn image_says_by_its_processor_or_its_program_that_it_is_webassembly() {
        let image = |architecture: &str, entrypoint: &[&str], command: &[&str]| {
            let words = |words: &[&str]| {
                (!words.is_empty()).then(|| words.iter().map(|&word| word.to_owned()).collect())
            };
            let (entrypoint, cmd) = (words(entrypoint), words(command));
            let config = Some(Execution { entrypoint, cmd, ..Execution::default() });
            ImageConfig { architecture: architecture.to_owned(), config, ..ImageConfig::default() }
        };
        assert!(is_webassembly(&image("wasm", &["/function"], &[])));
        assert!(is_webassembly(&image("amd64", &["/function.wasm"], &[])));
        assert!(is_webassembly(&image("amd64", &[], &["/function.wasm"])));
        assert!(!is_webassembly(&image("amd64", &["/run"], &["/function.wasm"])));
        assert!(!is_webassembly(&image("arm64", &["/function"], &[])));
        assert!(!is_webassembly(&ImageConfig::default()));
        let named = program(&image("amd64", &["/run"], &["--all"]));
        assert_eq!((named.entrypoint, named.cmd), (vec!["/run".to_owned()], vec!["--all".to_owned()]));
    }
}
