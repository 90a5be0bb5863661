//! Starting and building packages, without a registry.

use std::fs;

use super::{CONFIGURATION, FUNCTION, Workshop, uncompressed};

#[test]
fn package_is_the_same_wherever_and_whenever_it_is_built() {
    let (one, two) = (Workshop::new(), Workshop::new());
    for workshop in [&one, &two] {
        workshop.configuration("package");
        let printed = workshop.says(&["build", "-f", "package", "-o", "platform.xpkg"]);
        assert_eq!(printed, "platform.xpkg\n");
    }
    let content = fs::read(one.path("platform.xpkg")).unwrap();
    assert_eq!(content, fs::read(two.path("platform.xpkg")).unwrap());
    one.says(&["build", "-f", "package", "-o", "again.xpkg"]);
    assert_eq!(content, fs::read(one.path("again.xpkg")).unwrap());
}

#[test]
fn every_template_builds() {
    for (template, manifest) in [
        ("configuration", "crossplane.yaml"),
        ("function", "package/crossplane.yaml"),
        ("provider-template", "package/crossplane.yaml"),
    ] {
        let workshop = Workshop::new();
        workshop.says(&["init", "my-package", template, "-d", "new"]);
        let root = workshop.path("new").join(manifest);
        let root = root.parent().unwrap().to_str().unwrap();
        workshop.says(&["build", "-f", root, "-o", "p.xpkg"]);
        let stream = workshop.says(&["extract", "--from-xpkg", "p.xpkg", "-o", "-"]);
        assert!(stream.contains("name: my-package"), "{stream}");
        let refused = workshop.fails(&["init", "my-package", template, "-d", "new"]);
        assert!(refused.contains("it is not empty"), "{refused}");
    }
    let refused = Workshop::new().fails(&["init", "My_Package", "function"]);
    assert!(refused.contains("is not a valid name of a package"), "{refused}");
}

#[test]
fn templates_that_only_a_download_could_serve_are_refused_with_the_command_that_downloads_them() {
    let workshop = Workshop::new();
    let python = "https://github.com/crossplane/function-template-python";
    let own = "https://git.example.org/acme/template";
    for (template, repository) in [
        ("function-template-python", python),
        ("provider-template-upjet", "https://github.com/crossplane/upjet-provider-template"),
        (own, own),
        ("git@git.example.org:acme/template", "git@git.example.org:acme/template"),
    ] {
        let ran = workshop.run(&["init", "my-package", template, "-d", "new"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("templates are part of this program"), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("`git clone {repository}`")), "{}", ran.stderr);
    }
    let ran = workshop.run(&["init", "my-package", "functoin"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("'function'"), "{}", ran.stderr);
    for flag in ["--ref-name", "-b"] {
        let refused =
            workshop.fails(&["init", "my-package", "function-template-go", flag, "v1", "-d", "new"]);
        assert!(refused.contains("`git clone --branch v1`"), "{refused}");
    }
    assert!(!workshop.path("new").exists(), "nothing is written");
    // Crossplane's template asks for this flag where nobody can answer. Ours has no script.
    for (flag, directory) in [("--run-init-script", "long"), ("-r", "short")] {
        workshop.says(&["init", "my-package", "function-template-go", flag, "-d", directory]);
        assert!(workshop.path(directory).join("function.go").exists());
    }
}

#[test]
fn default_name_has_the_digest_and_extract_finds_it() {
    let workshop = Workshop::new();
    workshop.configuration(".");
    let printed = workshop.says(&["build"]);
    assert!(printed.starts_with("./platform-") && printed.ends_with(".xpkg\n"), "{printed}");
    workshop.says(&["extract", "--from-xpkg", "-o", "stream.yaml"]);
    let stream = uncompressed(&workshop.path("stream.gz"));
    assert!(stream.starts_with("---\napiVersion: meta.pkg.crossplane.io/v1\n"), "{stream}");
    assert!(!stream.contains("An example"), "{stream}");
}

#[test]
fn program_comes_from_a_directory_for_each_platform() {
    let workshop = Workshop::new();
    workshop.write("package/crossplane.yaml", FUNCTION);
    for architecture in ["amd64", "arm64"] {
        workshop.write(&format!("bin/{architecture}/function"), &format!("#!/bin/sh\necho {architecture}\n"));
    }
    let images = "linux/amd64=bin/amd64,linux/arm64=bin/arm64";
    let arguments = ["build", "-f", "package", "-o", "f.xpkg", "--embed-runtime-image", images];
    let refused = workshop.fails(&arguments);
    assert!(refused.contains("say with --entrypoint which of its programs is run"), "{refused}");
    let printed = workshop.says(&[&arguments[..], &["--entrypoint", "/function"]].concat());
    assert_eq!(printed, "f-amd64.xpkg\nf-arm64.xpkg\n");
    let printed = workshop
        .says(&[&arguments[..], &["--entrypoint", "/function", "--platform", "linux/arm64"]].concat());
    assert_eq!(printed, "f.xpkg\n");
    let refused = workshop
        .fails(&[&arguments[..], &["--entrypoint", "/function", "--platform", "linux/s390x"]].concat());
    assert!(refused.contains("no image is for that platform"), "{refused}");
    // A package is an image, and can be the program of another.
    let printed =
        workshop.says(&["build", "-f", "package", "-o", "g.xpkg", "--embed-runtime-image-tarball", "f.xpkg"]);
    assert_eq!(printed, "g.xpkg\n");
}

/// As the design of functions has it: of what `docker save` writes, compressed.
#[test]
fn program_that_is_no_server_becomes_a_function_that_is_run_for_every_call() {
    let workshop = Workshop::new();
    workshop.write("package/crossplane.yaml", FUNCTION).write("bin/jq", "#!/bin/sh\ncat\n");
    let image = ["--embed-runtime-image", "bin", "--entrypoint", "/jq"];
    workshop.says(&[&["build", "-f", "package", "-o", "image.tar"][..], &image].concat());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &fs::read(workshop.path("image.tar")).unwrap()).unwrap();
    fs::write(workshop.path("image.tgz"), gzip.finish().unwrap()).unwrap();
    workshop.says(&["build", "-f", "package", "-o", "f.xpkg", "--from-oci-tarball", "image.tgz"]);
    let stream = workshop.says(&["extract", "--from-xpkg", "f.xpkg", "-o", "-"]);
    assert!(stream.contains("ferroplane.io/protocol: RunFunction"), "{stream}");
    workshop.configuration("platform");
    let refused = workshop.fails(&["build", "-f", "platform", "--from-oci-tarball", "image.tgz"]);
    assert!(refused.contains("a Configuration has none"), "{refused}");
}

#[test]
fn mistakes_are_told_with_a_remedy() {
    let workshop = Workshop::new();
    let refused = workshop.fails(&["build"]);
    assert!(refused.contains("write it to `crossplane.yaml`"), "{refused}");
    workshop.write("crossplane.yaml", CONFIGURATION).write("secret.yaml", "apiVersion: v1\nkind: Secret\n");
    let refused = workshop.fails(&["build"]);
    assert!(refused.contains("secret.yaml`: no package may bring Secret of v1 (line 1)"), "{refused}");
    let refused = workshop.fails(&["build", "--ignore", "secret.yaml", "--embed-runtime-image", "./nothing"]);
    assert!(refused.contains("a Configuration has none"), "{refused}");
    let refused = workshop.fails(&["extract", "--from-xpkg"]);
    assert!(refused.contains("there is no file `*.xpkg`"), "{refused}");
    let refused = workshop.fails(&["extract", "--from-daemon", "a.example/b:v1"]);
    assert!(refused.contains("docker save"), "{refused}");
    let refused =
        workshop.fails(&["push", "a.example/b:v1", "-f", "secret.yaml", "--insecure-skip-tls-verify"]);
    assert!(refused.contains("--certificate-authority"), "{refused}");
}
