//! What the tests share: a runtime, an image made of a static shell and a program that attacks, and a look at the machine.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use ferroplane_sandbox::{
    Call, Container, Engine, EngineKind, Error, Grants, ImageConfig, Limits, Line, LineSink, Options, Output,
    Runtime,
};

/// A runtime with a directory of its own.
pub(crate) struct Sandbox {
    pub(crate) runtime: Runtime,
    pub(crate) directory: tempfile::TempDir,
}

/// Both runtimes that this machine has, each of which can do everything.
pub(crate) async fn sandboxes() -> Vec<Sandbox> {
    let mut sandboxes = Vec::new();
    for kind in [EngineKind::Crun, EngineKind::Runc] {
        match Engine::of_kind(kind) {
            Some(engine) => sandboxes.extend(with(Some(engine), helper()).await),
            None => skip_containers(&format!("{kind:?} is not installed")),
        }
    }
    sandboxes
}

/// The runtime that would be used.
pub(crate) async fn sandbox() -> Option<Sandbox> {
    with(None, helper()).await
}

/// The same, whose host is started by this command.
pub(crate) async fn sandbox_started_by(helper: Vec<OsString>) -> Option<Sandbox> {
    with(None, helper).await
}

async fn with(engine: Option<Engine>, helper: Vec<OsString>) -> Option<Sandbox> {
    if busybox().is_none() {
        skip_containers("there is no static busybox; on Debian, install `busybox-static`");
        return None;
    }
    let directory = public_directory();
    let mut options = Options::new(helper, directory.path().join("state"));
    options.engine = engine;
    let runtime = match Runtime::new(options) {
        Ok(runtime) => runtime,
        Err(Error::NoEngine) => {
            skip_containers(&Error::NoEngine.to_string());
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    match runtime.probe().await {
        Ok(()) => Some(Sandbox { runtime, directory }),
        Err(error @ Error::Forbidden { .. }) => {
            skip_containers(&error.to_string());
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// Says why a test does nothing, even though it passes. The harness would keep to itself what `eprintln!` prints.
pub(crate) fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The same for a test that needs containers. Panics where `cargo xtask test` has found that the machine runs them.
fn skip_containers(why: &str) {
    let insists = std::env::var_os("FERROPLANE_REQUIRE_CONTAINERS").is_some_and(|value| !value.is_empty());
    assert!(!insists, "containers are required here: {why}");
    skip(why);
}

fn busybox() -> Option<&'static str> {
    ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists())
}

/// The files of an image, if they can be made here.
pub(crate) fn image_without_containers() -> Option<&'static Path> {
    if busybox().is_none() {
        skip_containers("there is no static busybox; on Debian, install `busybox-static`");
        return None;
    }
    Some(image())
}

pub(crate) fn helper() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_ferroplane-sandbox-host").into()]
}

/// A directory that everybody can pass through, as those of images are.
pub(crate) fn public_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("mode");
    directory
}

impl Sandbox {
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Output, Error> {
        self.runtime.call(call).await
    }

    /// Run a command of the shell, and return what it printed.
    pub(crate) async fn shell(&self, script: &str) -> String {
        let container = shell(script);
        let lines = Lines::default();
        let output = self.call(Call { log: lines.sink(), ..call(&container) }).await;
        let output = output.unwrap_or_else(|error| panic!("{error:?} {:?}", lines.all()));
        String::from_utf8(output.stdout).expect("text") + &lines.all().concat()
    }
}

pub(crate) fn call(container: &Container) -> Call<'_> {
    Call {
        container,
        input: b"",
        limits: Limits::default(),
        grants: Grants::default(),
        key: "test",
        log: LineSink::nowhere(),
    }
}

/// A container that runs a command of the shell as an ordinary user.
pub(crate) fn shell(script: &str) -> Container {
    let entrypoint = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    Container::new(
        image(),
        ImageConfig { entrypoint, user: "1000:1000".to_owned(), ..ImageConfig::default() },
    )
}

/// A container that runs the program of attacks.
pub(crate) fn attack(arguments: &[&str]) -> Container {
    let entrypoint =
        std::iter::once("/bin/attack").chain(arguments.iter().copied()).map(str::to_owned).collect();
    Container::new(
        image(),
        ImageConfig { entrypoint, user: "1000:1000".to_owned(), ..ImageConfig::default() },
    )
}

/// The variable that names the files of an image that is there already.
pub(crate) const IMAGE_OF_TEST: &str = "FERROPLANE_SANDBOX_TEST_IMAGE";

/// The files of an image, made once for all tests.
pub(crate) fn image() -> &'static Path {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        // A process that a test starts may not be allowed to make another one.
        if let Some(image) = std::env::var_os(IMAGE_OF_TEST) {
            return image.into();
        }
        let image = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("image-{}", std::process::id()));
        let _ = fs::remove_dir_all(&image);
        make_image(&image);
        image
    })
}

pub(crate) fn make_image(image: &Path) {
    fs::create_dir_all(image.join("bin")).expect("bin");
    fs::create_dir_all(image.join("etc")).expect("etc");
    fs::write(image.join("etc/passwd"), "root:x:0:0::/:/bin/sh\nfunction:x:2000:3000::/:/bin/sh\n")
        .expect("passwd");
    let attack = image.join("bin/attack");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/attacks/attack.c");
    let built = Command::new("cc").args(["-static", "-O1", "-o"]).arg(&attack).arg(source).status();
    assert!(built.expect("a C compiler is needed").success(), "cannot build the program that attacks");
    let busybox = busybox().expect("the test would have been skipped");
    fs::copy(busybox, image.join("bin/busybox")).expect("busybox");
    for name in ["sh", "cat", "id", "ls", "sleep", "env", "pwd", "grep", "hostname", "touch", "wc", "head"] {
        symlink("busybox", image.join("bin").join(name)).expect("link");
    }
}

/// Keeps lines.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    pub(crate) fn sink(&self) -> LineSink {
        let lines = self.clone();
        LineSink::new(move |line| {
            let text = match line {
                Line::Text(text) => text.to_owned(),
                Line::Dropped(bytes) => format!("dropped {bytes}"),
            };
            lines.0.lock().expect("lock").push(text);
        })
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().expect("lock").clone()
    }
}

/// How many files of programs there are, whichever process started them.
pub(crate) fn left_in(state: &Path, directory: &str) -> usize {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    entries(&state.join(directory)).flat_map(|process| entries(&process.path())).count()
}

/// The processes whose command line has this in it, as this machine sees them.
pub(crate) fn processes_with(marker: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(marker)
        })
        .collect()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never held that {what}");
}
