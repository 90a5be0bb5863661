//! Debian's registry: packages are pushed to it and come back, with and without passwords and TLS.

use std::fs;

use ferroplane_testkit::{DebianRegistry, Leaf, Pki, RegistrySetup};

use super::{FUNCTION, Workshop, uncompressed};

/// Nothing if it is not installed, and nobody insists.
pub(super) fn start(tls: Option<&Leaf>, has_passwords: bool) -> Option<DebianRegistry> {
    DebianRegistry::start(&RegistrySetup { tls, has_passwords, tokens: None })
}

/// Push and pull a package with these flags. Returns what came back.
fn round_trip(workshop: &Workshop, address: &str, flags: &[&str]) {
    workshop.configuration("package");
    workshop.says(&["build", "-f", "package", "-o", "p.xpkg"]);
    let reference = format!("{address}/team/platform:v1.0.0");
    let printed = workshop.says(&[&["push", &reference, "-f", "p.xpkg"], flags].concat());
    assert!(printed.starts_with(&format!("{reference}@sha256:")), "{printed}");
    // With an empty cache, all of it comes from the registry.
    let empty = ["--cache-dir", "empty"];
    workshop.says(&[&["pull", &reference, "-o", "back.xpkg"], flags, &empty].concat());
    assert_eq!(fs::read(workshop.path("p.xpkg")).unwrap(), fs::read(workshop.path("back.xpkg")).unwrap());
    let by_digest = printed.trim();
    workshop.says(&[&["extract", by_digest, "-o", "stream.gz"], flags, &["--cache-dir", "another"]].concat());
    let stream = workshop.says(&["extract", "--from-xpkg", "p.xpkg", "-o", "-"]);
    assert_eq!(uncompressed(&workshop.path("stream.gz")), stream);
}

#[test]
fn package_comes_back_from_a_registry_as_it_was() {
    let Some(registry) = start(None, false) else { return };
    round_trip(&Workshop::new(), &registry.address, &[]);
}

#[test]
fn registry_with_passwords_wants_those_of_docker() {
    let Some(registry) = start(None, true) else { return };
    let workshop = Workshop::new();
    workshop.configuration("package");
    workshop.says(&["build", "-f", "package", "-o", "p.xpkg"]);
    let refused = workshop.fails(&["push", &format!("{}/a/b:v1", registry.address), "-f", "p.xpkg"]);
    assert!(refused.contains("log in with `docker login`"), "{refused}");
    workshop.write(".docker/config.json", &registry.docker_config());
    round_trip(&workshop, &registry.address, &[]);
}

#[test]
fn registry_with_tls_has_to_be_trusted() {
    let pki = Pki::new();
    let leaf = pki.issue(&["127.0.0.1"]);
    let Some(registry) = start(Some(&leaf), false) else { return };
    let workshop = Workshop::new();
    workshop.configuration("package").write("ca.pem", &pki.ca());
    workshop.says(&["build", "-f", "package", "-o", "p.xpkg"]);
    let refused = workshop.fails(&["push", &format!("{}/a/b:v1", registry.address), "-f", "p.xpkg"]);
    assert!(refused.contains("certificate") || refused.contains("cannot connect"), "{refused}");
    round_trip(&workshop, &registry.address, &["--certificate-authority", "ca.pem"]);
}

#[test]
fn files_for_several_platforms_become_one_package() {
    let Some(registry) = start(None, false) else { return };
    let workshop = Workshop::new();
    workshop.write("package/crossplane.yaml", FUNCTION);
    for architecture in ["amd64", "arm64"] {
        workshop.write(&format!("bin/{architecture}/function"), architecture);
    }
    let images = "linux/amd64=bin/amd64,linux/arm64=bin/arm64";
    workshop.says(&[
        "build",
        "-f",
        "package",
        "-o",
        "f.xpkg",
        "--embed-runtime-image",
        images,
        "--entrypoint",
        "/function",
    ]);
    let reference = format!("{}/team/function:v1.0.0", registry.address);
    workshop.says(&["push", &reference, "-f", "f-amd64.xpkg,f-arm64.xpkg"]);
    for architecture in ["amd64", "arm64"] {
        let platform = format!("linux/{architecture}");
        let file = format!("back-{architecture}.xpkg");
        let cache = format!("cache-{architecture}");
        workshop.says(&["pull", &reference, "--platform", &platform, "-o", &file, "--cache-dir", &cache]);
        let original = fs::read(workshop.path(&format!("f-{architecture}.xpkg"))).unwrap();
        assert_eq!(fs::read(workshop.path(&file)).unwrap(), original);
    }
    // The whole package as a layout, and from there to another place.
    workshop.says(&["pull", &reference, "--format", "oci-layout", "-o", "layout", "--cache-dir", "third"]);
    let copy = format!("{}/team/copy:v1.0.0", registry.address);
    let (first, second) = (
        workshop.says(&["push", &reference, "-f", "f-amd64.xpkg,f-arm64.xpkg"]),
        workshop.says(&["push", &copy, "-f", "layout"]),
    );
    assert_eq!(first.split('@').nth(1), second.split('@').nth(1));
    // As the program of a package, it is embedded for both platforms.
    let printed =
        workshop.says(&["build", "-f", "package", "-o", "g.xpkg", "--embed-runtime-image", &reference]);
    assert_eq!(printed, "g-amd64.xpkg\ng-arm64.xpkg\n");
    // The same from the layout that was written of it.
    let printed =
        workshop.says(&["build", "-f", "package", "-o", "h.xpkg", "--embed-runtime-image", "layout"]);
    assert_eq!(printed, "h-amd64.xpkg\nh-arm64.xpkg\n");
    for architecture in ["amd64", "arm64"] {
        let file = |name: &str| fs::read(workshop.path(&format!("{name}-{architecture}.xpkg"))).unwrap();
        assert_eq!(file("h"), file("g"), "{architecture}");
    }
    let chosen = ["--embed-runtime-image", "layout", "--platform", "linux/arm64"];
    workshop.says(&[&["build", "-f", "package", "-o", "chosen.xpkg"], &chosen[..]].concat());
    let chosen = fs::read(workshop.path("chosen.xpkg")).unwrap();
    assert_eq!(chosen, fs::read(workshop.path("g-arm64.xpkg")).unwrap());
    let refused = workshop.fails(&["push", &copy, "-f", "f-amd64.xpkg,g-amd64.xpkg"]);
    assert!(refused.contains("another file is for linux/amd64, too"), "{refused}");
    let refused = workshop.fails(&["push", &copy, "-f", "package/crossplane.yaml"]);
    assert!(refused.contains("cannot read the package"), "{refused}");
}

#[test]
fn registry_that_is_gone_is_named() {
    let workshop = Workshop::new();
    let refused = workshop.fails(&["pull", "127.0.0.1:1/team/platform:v1.0.0"]);
    assert!(refused.contains("127.0.0.1:1"), "{refused}");
}
