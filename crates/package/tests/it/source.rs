//! The source of packages: which files count, and what is refused.

use std::fs;
use std::path::Path;

use ferroplane_package::{PackageSource, SourceOptions, read_package};
use tempfile::TempDir;

pub(crate) const CONFIGURATION: &str = "\
apiVersion: meta.pkg.crossplane.io/v1
kind: Configuration
metadata:
  name: platform
spec:
  dependsOn:
  - provider: registry.example.org/team/provider
    version: \">=v1.0.0\"
";
pub(crate) const COMPOSITION: &str =
    "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata:\n  name: \"on\"\n";
const EXAMPLE: &str = "# How it is used.\napiVersion: example.org/v1\nkind: Application\n";

/// A directory with files.
pub(crate) fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

pub(crate) fn read(root: &Path, ignore: &[&str]) -> Result<PackageSource, String> {
    let ignore: Vec<String> = ignore.iter().map(|pattern| (*pattern).to_owned()).collect();
    let options = SourceOptions { root, examples: &root.join("examples"), ignore: &ignore };
    PackageSource::read(&options).map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        cause.map_or(error.to_string(), |cause| format!("{error}: {cause}"))
    })
}

fn refusal(files: &[(&str, &str)]) -> String {
    let directory = directory(files);
    read(directory.path(), &[]).unwrap_err().replace(&*directory.path().to_string_lossy(), "ROOT")
}

#[test]
fn manifest_comes_first_and_examples_are_kept_apart() {
    let directory = directory(&[
        ("a/composition.yaml", COMPOSITION),
        ("crossplane.yaml", CONFIGURATION),
        ("empty.yaml", ""),
        ("README.md", "# not YAML"),
        (".github/workflow.yml", "on: push\n"),
        ("examples/application.yaml", EXAMPLE),
        ("ignored/a.yaml", "jobs: {}\n"),
        ("b.values.yaml", "replicas: 1\n"),
    ]);
    let source = read(directory.path(), &["ignored", "*.values.yaml"]).unwrap();
    assert_eq!(source.manifest.name, "platform");
    assert_eq!(source.examples.as_deref(), Some(format!("---\n{EXAMPLE}").as_str()));
    let stream = source.stream();
    assert!(stream.starts_with("---\napiVersion: meta.pkg.crossplane.io/v1\n"), "{stream}");
    assert!(stream.ends_with("---\n") && stream.contains("name: \"on\"\n"), "{stream}");
    assert_eq!(read_package(&stream).unwrap(), source.contents);
}

#[test]
fn what_is_no_package_is_refused_with_the_file_and_the_line() {
    let manifest = ("crossplane.yaml", CONFIGURATION);
    for (files, expected) in [
        (&[][..], "cannot find the manifest of a package below `ROOT`: write it to `crossplane.yaml`"),
        (
            &[manifest, ("other.yaml", CONFIGURATION)],
            "the package holds 2 manifests; it must hold exactly one",
        ),
        (
            &[manifest, ("a/secret.yaml", "---\napiVersion: v1\nkind: Secret\n")],
            "cannot read `ROOT/a/secret.yaml`: no package may bring Secret of v1 (line 1)",
        ),
        (
            &[manifest, ("c.yaml", COMPOSITION), ("d.yaml", COMPOSITION)],
            "cannot build the package: it brings Composition `on` twice",
        ),
        (
            &[manifest, ("c.yaml", "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\n")],
            "cannot build the package: Composition in `ROOT/c.yaml` has no name",
        ),
        (
            &[
                manifest,
                (
                    "crd.yaml",
                    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: c}\n",
                ),
            ],
            "cannot build the package: a Configuration may not bring CustomResourceDefinition `c`",
        ),
        (
            &[manifest, ("examples/e.yaml", "---\nreplicas: 1\n")],
            "cannot read the example in line 1 of `ROOT/examples/e.yaml`: it has no `apiVersion` and `kind`",
        ),
    ] {
        assert_eq!(refusal(files), expected);
    }
    let broken = CONFIGURATION.replace(">=v1.0.0", "newest");
    assert_eq!(
        refusal(&[("crossplane.yaml", &broken)]),
        "`newest`, the version of dependency `registry.example.org/team/provider`, is neither a range of versions nor a digest"
    );
}

#[test]
fn links_to_directories_are_not_followed() {
    let directory = directory(&[("crossplane.yaml", CONFIGURATION)]);
    std::os::unix::fs::symlink(directory.path(), directory.path().join("again")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("dangling")).unwrap();
    assert_eq!(read(directory.path(), &[]).unwrap().contents.manifests.len(), 1);
}
