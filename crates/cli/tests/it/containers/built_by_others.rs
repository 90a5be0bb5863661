//! Images that the tools of others have built are run.

use std::fs;
use std::path::Path;
use std::process::Command;

use ferroplane_testkit::skip;
use serde_json::Value;

use super::images::{Machine, machine, run};
use super::{LABELIZER, answer, sandbox};
use crate::sandbox::Sandbox;

/// Several layers, one of which removes a file of another, and everything about the program that an image can say.
const DOCKERFILE: &str = r#"FROM scratch
COPY root /
RUN ["/bin/sh", "-c", "echo made > /made; echo gone > /gone"]
RUN ["/bin/busybox", "rm", "/gone"]
ENV GREETING=hello
WORKDIR /srv
USER 1000:1000
ENTRYPOINT ["/bin/sh", "/function.sh"]
CMD ["an argument"]
"#;

/// Whether a tool is there. Says so if it is not; if somebody insists, it has to be.
pub(crate) fn is_there(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok();
    assert!(is_there || std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_none(), "{tool} is not there");
    if !is_there {
        skip(&format!("{tool} is not installed; on Debian, install the package `{tool}`"));
    }
    is_there
}

/// Files of an image, with a program that tells what it was given before it answers.
fn context(sandbox: &Sandbox, machine: &Machine) {
    let root = sandbox.path("root");
    machine.fill(&root);
    fs::create_dir(root.join("srv")).unwrap();
    let script = format!(
        "echo \"$1 $GREETING $(/bin/busybox pwd) $(/bin/busybox id -u):$(/bin/busybox id -g) $(cat /made)\" >&2\n\
         test ! -e /gone || exit 9\nexec {LABELIZER}\n"
    );
    fs::write(root.join("function.sh"), script).unwrap();
    fs::write(sandbox.path("Dockerfile"), DOCKERFILE).unwrap();
}

/// Call an image, and look at what it did and what it was given.
#[track_caller]
fn is_run(sandbox: &Sandbox, image: &str) {
    let ran = sandbox.run(&["functions", "run", image, "request.json"]);
    assert!(ran.stderr.contains("an argument hello /srv 1000:1000 made"), "{image}: {ran:?}");
    let answer: Value = answer(ran);
    let labels = &answer["desired"]["resources"]["a"]["resource"]["metadata"]["labels"];
    assert_eq!(labels["labelizer.xfn.crossplane.io/processed"], "true", "{image}: {answer:#}");
}

/// Builds and writes images without a daemon, below a directory of its own.
fn buildah(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("buildah");
    command.current_dir(directory).args(["--storage-driver", "vfs", "--root"]).arg(directory.join("storage"));
    run(command.arg("--runroot").arg(directory.join("run")).args(arguments));
}

#[test]
fn image_that_buildah_built_is_run() {
    let Some(machine) = machine() else { return };
    if !is_there("buildah") {
        return;
    }
    let sandbox = sandbox();
    context(&sandbox, &machine);
    let directory = sandbox.path(".");
    buildah(&directory, &["build", "--isolation", "chroot", "--layers", "--quiet", "--tag", "image", "."]);
    for (to, path) in [
        ("oci:layout:latest", "layout"),
        ("oci-archive:oci.tar:latest", "./oci.tar"),
        ("docker-archive:docker.tar:image:latest", "./docker.tar"),
    ] {
        buildah(&directory, &["push", "--quiet", "image", to]);
        is_run(&sandbox, path);
    }
}

#[test]
fn image_that_umoci_built_is_run() {
    let Some(machine) = machine() else { return };
    if !is_there("umoci") || !is_there("skopeo") {
        return;
    }
    let sandbox = sandbox();
    context(&sandbox, &machine);
    let umoci = |arguments: &[&str]| {
        run(Command::new("umoci").current_dir(sandbox.path(".")).args(arguments));
    };
    umoci(&["init", "--layout", "layout"]);
    umoci(&["new", "--image", "layout:latest"]);
    umoci(&["unpack", "--rootless", "--image", "layout:latest", "lower"]);
    fs::write(sandbox.path("root/made"), "made").unwrap();
    fs::write(sandbox.path("root/gone"), "gone").unwrap();
    run(Command::new("cp").current_dir(sandbox.path(".")).args(["-a", "root/.", "lower/rootfs/"]));
    umoci(&["repack", "--image", "layout:latest", "lower"]);
    umoci(&["unpack", "--rootless", "--image", "layout:latest", "upper"]);
    fs::remove_file(sandbox.path("upper/rootfs/gone")).unwrap();
    umoci(&["repack", "--image", "layout:latest", "upper"]);
    umoci(&[
        "config",
        "--image",
        "layout:latest",
        "--config.env=GREETING=hello",
        "--config.workingdir=/srv",
        "--config.user=1000:1000",
        "--config.entrypoint=/bin/sh",
        "--config.entrypoint=/function.sh",
        "--config.cmd=an argument",
    ]);
    is_run(&sandbox, "layout");
    let copy = ["--insecure-policy", "copy", "oci:layout:latest", "docker-archive:skopeo.tar:image:latest"];
    run(Command::new("skopeo").current_dir(sandbox.path(".")).args(copy));
    is_run(&sandbox, "./skopeo.tar");
}
