//! Containers that run together to their end, as those of a pod do: for phases of actions, where there are no pods.
//!
//! # Invariants
//! * All images are there before the first container runs.
//! * Containers that wait for each other never wait for a place, too: a group has a place for each of them, or none.
//! * If the future of a group is dropped, its containers end. What they shared is removed then; if this process is killed, when the next one
//!   starts.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ferroplane_engine::action::{ContainerEnding, ContainerGroup, ContainerRun};
use ferroplane_sandbox::{
    Call, Grants, Limit, Limits, Line, LineSink, Network, SharedDirectory, Workspace, file_owner,
    remove_abandoned,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::error::ImageError;
use super::{ImageSource, Images, PullWhen, ReadyImage, blocking};

/// How long a container may run if nothing is said.
const USUAL_TIME: Duration = Duration::from_hours(1);
/// How much a shared directory may have if nothing is said, and whatever is said.
const USUAL_SHARED: u64 = 256 << 20;
const MOST_SHARED: u64 = 4 << 30;
/// How often a shared directory is measured.
const MEASURED_EVERY: Duration = Duration::from_millis(500);
/// How deep directories in it may be.
const DEEPEST: usize = 64;
/// How much of what a container writes to standard error is kept.
const KEPT_BYTES: usize = 64 << 10;
/// Below the directory of images.
const SHARED: &str = "shared";

/// Why containers did not run to their end.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    #[error("cannot run image `{image}`")]
    Image { image: String, source: Box<ImageError> },
    #[error("cannot run {wanted} containers together: this machine runs {most} at once")]
    TooMany { wanted: usize, most: usize },
    #[error("cannot prepare the directory that containers share")]
    Shared(#[source] io::Error),
    #[error("what the containers share exceeded its limit of {limit} bytes")]
    SharedTooLarge { limit: u64 },
    #[error("cannot finish work in the background")]
    Background(#[source] tokio::task::JoinError),
}

impl ContainerError {
    /// Whether a container took too long.
    pub fn is_timeout(&self) -> bool {
        matches!(self.runtime(), Some(ferroplane_sandbox::Error::Exceeded(Limit::Time)))
    }

    /// Whether a container ended because its runtime did, so that its effects are unknown.
    pub fn is_interruption(&self) -> bool {
        matches!(self.runtime(), Some(ferroplane_sandbox::Error::HostEnded))
    }

    fn image(run: &ContainerRun, source: ImageError) -> Self {
        Self::Image { image: run.image.clone(), source: Box::new(source) }
    }

    fn runtime(&self) -> Option<&ferroplane_sandbox::Error> {
        let Self::Image { source, .. } = self else { return None };
        match &**source {
            ImageError::Runtime(error) => Some(error),
            _ => None,
        }
    }
}

/// Runs groups of containers. Clones share what runs.
#[derive(Debug, Clone)]
pub struct ContainerRunner {
    images: Images,
    /// For what groups share. Opened by the first one that shares something.
    shared: Arc<OnceLock<Workspace>>,
    places: Arc<Semaphore>,
    most: usize,
}

impl ContainerRunner {
    /// No other calls may run with these images: their slots would be missing here.
    pub fn new(images: Images) -> Self {
        let left_over = images.inner.settings.directory.join(SHARED);
        // Nothing waits for it, and its failure does not matter.
        std::thread::spawn(move || remove_abandoned(&left_over));
        // As many as the runtime runs at once.
        let most = images.options().concurrency;
        Self { images, shared: Arc::default(), places: Arc::new(Semaphore::new(most)), most }
    }

    /// Makes sure that this machine lets us run containers.
    pub async fn probe(&self) -> Result<(), ImageError> {
        self.images.probe().await
    }

    /// Run all containers of a group to their end. The network is there for images of which this says so.
    pub async fn run(
        &self,
        group: &ContainerGroup,
        has_network: &(dyn Fn(&str) -> bool + Send + Sync),
    ) -> Result<Vec<ContainerEnding>, ContainerError> {
        let wanted = group.containers.len().max(1);
        let places = u32::try_from(wanted).ok().filter(|_| wanted <= self.most);
        let Some(places) = places else { return Err(ContainerError::TooMany { wanted, most: self.most }) };
        // The semaphore is never closed.
        let _places = self.places.acquire_many(places).await;
        let prepare = |runs: &[ContainerRun]| {
            let runs = runs.iter().map(|run| (run.clone(), has_network(&run.image)));
            runs.collect::<Vec<_>>()
        };
        let (initial, together) = (prepare(&group.initial), prepare(&group.containers));
        let (initial, together) = (self.fetch(initial).await?, self.fetch(together).await?);
        let shared = self.share(group).await?;
        let shared = shared.as_ref();
        let running = async {
            let mut endings = Vec::new();
            for one in initial {
                let ending = self.prepared(one, group, shared).run().await?;
                let has_failed = ending.exit_code != 0;
                endings.push(ending);
                if has_failed {
                    return Ok(endings);
                }
            }
            let all = together.into_iter().map(|one| self.prepared(one, group, shared));
            endings.extend(run_together(all.collect()).await?);
            Ok::<_, ContainerError>(endings)
        };
        let limit = shared_limit(group);
        tokio::select! {
            ended = running => ended,
            () = exceeds(shared, limit) => Err(ContainerError::SharedTooLarge { limit }),
        }
    }

    /// Have all images here.
    async fn fetch(&self, runs: Vec<(ContainerRun, bool)>) -> Result<Vec<Fetched>, ContainerError> {
        let mut fetched = Vec::new();
        for (run, has_network) in runs {
            let source = ImageSource::Registry {
                reference: run.image.clone(),
                // As pods of phases do.
                policy: Some(PullWhen::IfNotPresent),
                secrets: Vec::new(),
            };
            let image = self.images.prepare(&source).await;
            let image = image.map_err(|source| ContainerError::image(&run, source))?;
            fetched.push(Fetched { run, image, has_network });
        }
        Ok(fetched)
    }

    fn prepared(
        &self,
        fetched: Fetched,
        group: &ContainerGroup,
        shared: Option<&SharedFiles>,
    ) -> PreparedContainer {
        PreparedContainer {
            limits: limits(group, &fetched.run),
            shared: shared.map(|files| files.0.clone()),
            images: self.images.clone(),
            key: group.name.clone(),
            fetched,
        }
    }

    /// A directory for a group whose containers share one.
    async fn share(&self, group: &ContainerGroup) -> Result<Option<SharedFiles>, ContainerError> {
        let mut all = group.initial.iter().chain(&group.containers);
        if all.all(|run| run.shared_at.is_none()) {
            return Ok(None);
        }
        let (parent, name) = (self.images.inner.settings.directory.join(SHARED), group.name.clone());
        let shared = self.shared.clone();
        let made = blocking(move || SharedFiles::create(workspace(&shared, &parent)?.path(), &name)).await;
        match made {
            Ok(made) => made.map(Some).map_err(ContainerError::Shared),
            Err(ImageError::Background(error)) => Err(ContainerError::Background(error)),
            Err(error) => Err(ContainerError::Shared(io::Error::other(error))),
        }
    }
}

/// A container whose image is here.
struct Fetched {
    run: ContainerRun,
    image: Arc<ReadyImage>,
    has_network: bool,
}

/// A container that can be run.
struct PreparedContainer {
    images: Images,
    fetched: Fetched,
    limits: Limits,
    shared: Option<PathBuf>,
    key: String,
}

impl PreparedContainer {
    async fn run(self) -> Result<ContainerEnding, ContainerError> {
        let Fetched { run, image, has_network } = &self.fetched;
        let mut container = image.container();
        if !run.command.is_empty() {
            container.image.entrypoint.clone_from(&run.command);
            container.image.cmd.clear();
        }
        if !run.arguments.is_empty() {
            container.arguments = Some(run.arguments.clone());
        }
        container.environment.clone_from(&run.environment);
        let shared = self.shared.clone().zip(run.shared_at.clone());
        let share = |(source, destination)| SharedDirectory { source, destination, is_writable: true };
        container.directories = shared.map(share).into_iter().collect();
        let words = Printed::default();
        let call = Call {
            container: &container,
            input: &[],
            limits: self.limits,
            grants: Grants { network: if *has_network { Network::Runner } else { Network::Isolated } },
            key: &self.key,
            log: words.sink(),
        };
        let failed = |source| ContainerError::image(run, source);
        let runtime = self.images.runtime().await.map_err(failed)?;
        let output = runtime.call(call).await.map_err(|error| failed(ImageError::Runtime(error)))?;
        Ok(ContainerEnding {
            name: run.name.clone(),
            exit_code: output.exit_code,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: words.text(),
        })
    }
}

/// Run containers at the same time. If one cannot be run, the others end.
async fn run_together(all: Vec<PreparedContainer>) -> Result<Vec<ContainerEnding>, ContainerError> {
    let mut running = JoinSet::new();
    for (index, one) in all.into_iter().enumerate() {
        running.spawn(async move { one.run().await.map(|ending| (index, ending)) });
    }
    let mut endings = Vec::new();
    while let Some(ended) = running.join_next().await {
        endings.push(ended.map_err(ContainerError::Background)??);
    }
    endings.sort_by_key(|(index, _)| *index);
    Ok(endings.into_iter().map(|(_, ending)| ending).collect())
}

/// What a container may use. A share of processors holds by their time even where no cgroup holds it.
fn limits(group: &ContainerGroup, run: &ContainerRun) -> Limits {
    let usual = Limits::default();
    let time = group.deadline.map_or(USUAL_TIME, Duration::from_secs);
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = run.cpu.unwrap_or(processors * 1000);
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let cpu_time = Duration::from_millis(milliseconds.saturating_mul(share) / 1000);
    Limits {
        time,
        cpu_time: cpu_time.max(Duration::from_millis(100)),
        cpu_rate: run.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
        memory: run.memory.unwrap_or(usual.memory),
        // Also the size of a file, which may be in the shared directory.
        scratch: group.shared_bytes.map_or(usual.scratch, |bytes| bytes.clamp(usual.scratch, 1 << 30)),
        ..usual
    }
}

fn shared_limit(group: &ContainerGroup) -> u64 {
    group.shared_bytes.unwrap_or(USUAL_SHARED).min(MOST_SHARED)
}

/// Returns when a shared directory has more than this.
async fn exceeds(shared: Option<&SharedFiles>, limit: u64) {
    let Some(SharedFiles(path)) = shared else { return std::future::pending().await };
    loop {
        tokio::time::sleep(MEASURED_EVERY).await;
        let path = path.clone();
        if blocking(move || size(&path, 0)).await.is_ok_and(|size| size > limit) {
            return;
        }
    }
}

/// How many bytes the files in a directory have. What cannot be read is not counted; what is too deep is too much.
fn size(directory: &Path, depth: usize) -> u64 {
    if depth > DEEPEST {
        return u64::MAX;
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path(), depth + 1),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.fold(0, u64::saturating_add)
}

/// A directory that containers share. It goes with this.
#[derive(Debug)]
struct SharedFiles(PathBuf);

/// The directory of this process for what groups share, opened if need be.
fn workspace<'a>(shared: &'a OnceLock<Workspace>, parent: &Path) -> io::Result<&'a Workspace> {
    if shared.get().is_none() {
        // If another group was faster, its directory is used, and this one is removed.
        let _ = shared.set(Workspace::open(parent)?);
    }
    shared.get().ok_or_else(|| io::ErrorKind::NotFound.into())
}

impl SharedFiles {
    fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        // A phase has one group at a time: what is there is of one that was given up.
        let _ = fs::remove_dir_all(&path);
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        let files = Self(path);
        // If we are root, containers run as another user.
        if let Some(owner) = file_owner() {
            chown(&files.0, Some(owner), Some(owner))?;
        }
        Ok(files)
    }
}

impl Drop for SharedFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The last lines that a container writes to standard error. Lines are dropped whole: a part of a secret value would not be recognised.
#[derive(Debug, Clone, Default)]
struct Printed(Arc<Mutex<KeptLines>>);

#[derive(Debug, Default)]
struct KeptLines {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Printed {
    fn sink(&self) -> LineSink {
        let kept = self.0.clone();
        LineSink::new(move |line| {
            if let Line::Text(text) = line {
                kept.lock().unwrap_or_else(PoisonError::into_inner).keep(text);
            }
        })
    }

    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl KeptLines {
    fn keep(&mut self, text: &str) {
        self.bytes += text.len();
        self.lines.push_back(text.to_owned());
        while self.bytes > KEPT_BYTES {
            let Some(gone) = self.lines.pop_front() else { return };
            self.bytes -= gone.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(shared_bytes: Option<u64>, deadline: Option<u64>) -> ContainerGroup {
        let (initial, containers) = (Vec::new(), Vec::new());
        ContainerGroup { name: "g".to_owned(), initial, containers, shared_bytes, deadline }
    }

    fn run(memory: Option<u64>, cpu: Option<u64>) -> ContainerRun {
        ContainerRun {
            name: "c".to_owned(),
            image: "i".to_owned(),
            command: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            shared_at: None,
            memory,
            cpu,
        }
    }

    #[test]
    fn limits_are_the_usual_ones_unless_the_pod_says_otherwise() {
        let usual = limits(&group(None, None), &run(None, None));
        assert_eq!((usual.time, usual.memory), (USUAL_TIME, Limits::default().memory));
        let said = limits(&group(Some(2 << 30), Some(10)), &run(Some(1 << 20), Some(500)));
        assert_eq!((said.time, said.memory, said.scratch), (Duration::from_secs(10), 1 << 20, 1 << 30));
        assert_eq!((said.cpu_time, said.cpu_rate), (Duration::from_secs(5), Some(500)));
        assert_eq!(shared_limit(&group(Some(u64::MAX), None)), MOST_SHARED);
    }

    #[test]
    fn shared_directory_goes_with_its_group_and_those_of_dead_processes_go_with_the_next() {
        let directory = tempfile::tempdir().expect("directory");
        let own = format!("{}-g", std::process::id());
        let left = ["4294967295-g", "other", own.as_str()].map(|name| directory.path().join(name));
        for path in &left {
            fs::create_dir(path).expect("directory");
        }
        let shared = OnceLock::new();
        let parent = workspace(&shared, directory.path()).expect("workspace").path();
        let files = SharedFiles::create(parent, "g").expect("directory");
        let path = files.0.clone();
        assert!(path.is_dir() && left.iter().all(|path| !path.exists()));
        fs::create_dir(path.join("below")).expect("directory");
        fs::write(path.join("below/file"), [0; 100]).expect("file");
        fs::write(path.join("file"), [0; 20]).expect("file");
        assert_eq!(size(&path, 0), 120);
        drop(files);
        assert!(!path.exists());
    }

    #[test]
    fn last_lines_are_kept_whole() {
        let printed = Printed::default();
        let mut kept = printed.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..10 {
            kept.keep(&"x".repeat(KEPT_BYTES / 4));
        }
        drop(kept);
        assert_eq!(printed.text().len(), KEPT_BYTES + 3);
    }
}
