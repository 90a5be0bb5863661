//! Packages of Crossplane's command line, and ours in it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{CONFIGURATION, EXAMPLE, FUNCTION, Workshop, registry, uncompressed};
use crate::containers::built_by_others::is_there;
use crate::containers::images::{machine, run};
use crate::containers::installed::compose_with;
use crate::containers::served;
use crate::logs::PLATFORM;
use crate::peers;
use crate::plane::Plane;

const DEFINITION: &str = "apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {name: apps.example.org}
spec:
  group: example.org
  names: {kind: App, plural: apps}
  versions: [{name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}]
";

/// Crossplane's command line, if it is there.
fn crossplane() -> Option<PathBuf> {
    peers::heavy_peer("crossplane-cli")
}

impl Workshop {
    fn crossplane(&self, program: &PathBuf, arguments: &[&str]) {
        let mut command = Command::new(program);
        command.arg("xpkg").args(arguments).current_dir(self.directory.path());
        let output = command.env("HOME", self.directory.path()).env_remove("DOCKER_CONFIG").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
    }
}

#[test]
fn packages_go_both_ways() {
    let Some(program) = crossplane() else { return };
    let Some(registry) = registry::start(None, false) else { return };
    let workshop = Workshop::new();
    workshop.configuration("package");
    let theirs = ["build", "-f", "package", "-e", "package/examples", "-o", "theirs.xpkg"];
    workshop.crossplane(&program, &theirs);
    workshop.says(&["build", "-f", "package", "-o", "ours.xpkg"]);

    // Each reads the file of the other.
    workshop.crossplane(&program, &["extract", "--from-xpkg", "ours.xpkg", "-o", "ours-by-them.gz"]);
    let ours = workshop.says(&["extract", "--from-xpkg", "ours.xpkg", "-o", "-"]);
    assert_eq!(uncompressed(&workshop.path("ours-by-them.gz")), ours);
    workshop.crossplane(&program, &["extract", "--from-xpkg", "theirs.xpkg", "-o", "theirs-by-them.gz"]);
    let theirs = workshop.says(&["extract", "--from-xpkg", "theirs.xpkg", "-o", "-"]);
    assert_eq!(uncompressed(&workshop.path("theirs-by-them.gz")), theirs);

    // Each pushes the file of the other, and reads what the other pushed.
    let reference = |name: &str| format!("{}/team/{name}:v1.0.0", registry.address);
    workshop.crossplane(&program, &["push", &reference("ours-by-them"), "-f", "ours.xpkg"]);
    workshop.says(&["push", &reference("theirs-by-us"), "-f", "theirs.xpkg"]);
    workshop.says(&["extract", &reference("ours-by-them"), "-o", "a.gz", "--cache-dir", "empty"]);
    assert_eq!(uncompressed(&workshop.path("a.gz")), ours);
    workshop.crossplane(&program, &["extract", &reference("theirs-by-us"), "-o", "b.gz"]);
    assert_eq!(uncompressed(&workshop.path("b.gz")), theirs);
    // Whoever pushes it, the layers of a package are the same.
    workshop.says(&["pull", &reference("ours-by-them"), "-o", "back.xpkg", "--cache-dir", "empty"]);
    workshop.says(&["extract", "--from-xpkg", "back.xpkg", "-o", "c.gz"]);
    assert_eq!(uncompressed(&workshop.path("c.gz")), ours);
    assert!(fs::exists(workshop.path("theirs.xpkg")).unwrap());
}

/// That Crossplane installs ours is shown by `cargo xtask compare --packages`.
#[test]
fn package_of_crossplanes_command_line_is_installed() {
    let (Some(program), Some(_)) = (crossplane(), peers::peer("kubectl")) else { return };
    let Some(registry) = registry::start(None, false) else { return };
    let workshop = Workshop::new();
    workshop.write("package/crossplane.yaml", CONFIGURATION).write("package/examples/app.yaml", EXAMPLE);
    workshop.write("package/apis/definition.yaml", DEFINITION);
    let build = ["build", "-f", "package", "-e", "package/examples", "-o", "theirs.xpkg"];
    workshop.crossplane(&program, &build);
    let image = format!("{}/team/theirs:v1.0.0", registry.address);
    workshop.crossplane(&program, &["push", &image, "-f", "theirs.xpkg"]);

    let plane = Plane::new();
    let package = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {{name: theirs}}\nspec: {{package: '{image}'}}\n"
    );
    plane.told("kubectl apply -f -", &package);
    plane.says("kubectl wait configuration/theirs --for=condition=Healthy --timeout=60s");
    plane.says("kubectl wait xrd/apps.example.org --for=condition=Established --timeout=60s");
}

#[test]
fn function_that_crossplanes_command_line_packed_is_installed_and_called() {
    let (Some(program), Some(_)) = (crossplane(), peers::peer("kubectl")) else { return };
    let (Some(_), Some(auto_ready)) = (machine(), peers::peer("function-auto-ready")) else { return };
    let Some(registry) = registry::start(None, false) else { return };
    if !is_there("skopeo") {
        return;
    }
    let workshop = Workshop::new();
    served::program(&auto_ready).export(&workshop.path("layout"), &workshop.path("layout.tar"));
    // Crossplane's command line embeds what `docker save` writes.
    let copy = ["copy", "--insecure-policy", "oci:layout:latest", "docker-archive:image.tar:program:latest"];
    run(Command::new("skopeo").args(copy).current_dir(workshop.directory.path()));
    workshop.write("package/crossplane.yaml", FUNCTION);
    let build = ["build", "-f", "package", "-o", "theirs.xpkg", "--embed-runtime-image-tarball", "image.tar"];
    workshop.crossplane(&program, &build);
    let image = format!("{}/team/theirs:v1.0.0", registry.address);
    workshop.crossplane(&program, &["push", &image, "-f", "theirs.xpkg"]);
    compose_with(&image, PLATFORM).stop();
}
