//! Images to run: a shell, or a program of a peer.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroplane_image::archive::{export_layout, export_tarball};
use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::store::{Limits, Store};
use ferroplane_image::{Descriptor, Execution, Platform};
use ferroplane_testkit::skip_containers;
use tempfile::TempDir;

use crate::sandbox::Sandbox;

/// The programs of a shell.
const PROGRAMS: [&str; 6] = ["sh", "cat", "sed", "seq", "sleep", "nc"];

/// A machine that can run containers.
pub(crate) struct Machine {
    busybox: PathBuf,
}

/// The machine, if it can run containers. Says so if it cannot.
pub(crate) fn machine() -> Option<Machine> {
    find().map_err(|why| skip_containers(&why)).ok()
}

fn find() -> Result<Machine, String> {
    let busybox =
        ["/bin/busybox", "/usr/bin/busybox"].into_iter().map(PathBuf::from).find(|path| path.exists());
    let busybox = busybox.ok_or("there is no static busybox; on Debian, install `busybox-static`")?;
    let machine = Machine { busybox };
    let sandbox = Sandbox::new().with("request.json", "{}");
    machine.fill(&sandbox.path("probe"));
    fs::write(sandbox.path("probe/function"), "#!/bin/sh\nexec cat\n").unwrap();
    make_executable(&sandbox.path("probe/function"));
    let ran = sandbox.run(&["functions", "run", "./probe", "request.json"]);
    let refusal = ran.stderr.lines().find(|line| line.contains("cannot run containers"));
    if let Some(refusal) = refusal {
        return Err(refusal.to_owned());
    }
    ran.ok();
    Ok(machine)
}

impl Machine {
    /// A shell, as a layer.
    pub(crate) fn layer(&self) -> Layer {
        let mut layer = Layer::new();
        layer.add_file(&self.busybox, "bin/busybox").unwrap();
        for name in PROGRAMS {
            layer.add_symlink("busybox", &format!("bin/{name}")).unwrap();
        }
        layer
    }

    /// Put a shell into a root file system.
    pub(crate) fn fill(&self, root: &Path) {
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::copy(&self.busybox, root.join("bin/busybox")).unwrap();
        for name in PROGRAMS {
            symlink("busybox", root.join("bin").join(name)).unwrap();
        }
    }
}

/// Add a program of this machine, with the libraries that it is linked with. It is at the same place in the image.
pub(crate) fn add_program(layer: &mut Layer, program: &Path) {
    add_files(layer, std::iter::once(program.to_owned()).chain(libraries(program)));
}

/// Files of this machine, each at the place where this machine has it.
pub(crate) fn add_files(layer: &mut Layer, files: impl IntoIterator<Item = PathBuf>) {
    for file in files {
        let at = file.to_str().unwrap().trim_start_matches('/').to_owned();
        layer.add_file(&file.canonicalize().unwrap(), &at).unwrap();
    }
}

/// The libraries that a program or library needs.
pub(crate) fn libraries(program: &Path) -> Vec<PathBuf> {
    let listed = Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let libraries =
        listed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    libraries.map(PathBuf::from).collect()
}

/// Run a command of this machine that makes something.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs this script.
pub(crate) fn shell(script: &str) -> Execution {
    let entrypoint = Some(["/bin/sh", "-c", script].map(str::to_owned).to_vec());
    Execution { entrypoint, user: Some("1000:1000".to_owned()), ..Execution::default() }
}

/// An image that was built.
pub(crate) struct TestImage {
    pub(crate) store: Store,
    pub(crate) descriptor: Descriptor,
    _directory: TempDir,
}

impl TestImage {
    /// An image with a shell.
    pub(crate) fn new(machine: &Machine, execution: Execution) -> Self {
        Self::of(vec![machine.layer()], execution)
    }

    pub(crate) fn of(layers: Vec<Layer>, execution: Execution) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), Limits::default()).unwrap();
        let mut builder = ImageBuilder::new(Platform::host());
        builder.execution = execution;
        builder.layers = layers;
        let descriptor = builder.build(&store).unwrap();
        Self { store, descriptor, _directory: directory }
    }

    /// Write it as a layout and as a tarball.
    pub(crate) fn export(&self, layout: &Path, tarball: &Path) {
        let images = [(self.descriptor.clone(), Some("latest"))];
        export_layout(&self.store, &images, layout).unwrap();
        export_tarball(&self.store, &images, fs::File::create(tarball).unwrap()).unwrap();
    }
}
