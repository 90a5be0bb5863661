//! Lock files and bundles.

use std::fs;

use ferroplane_testkit::DebianRegistry;

use super::{COMPOSITION, Workshop, registry};
use crate::plane::{Plane, ferroplane};
use crate::sandbox::Ran;

/// A manifest of a package that depends on others.
fn manifest(kind: &str, name: &str, dependencies: &[(&str, String, &str)]) -> String {
    let mut text = format!(
        "apiVersion: meta.pkg.crossplane.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  dependsOn:\n"
    );
    for (kind, package, version) in dependencies {
        text += &format!(
            "  - {{apiVersion: pkg.crossplane.io/v1, kind: {kind}, package: {package}, version: \"{version}\"}}\n"
        );
    }
    if dependencies.is_empty() { text.replace("spec:\n  dependsOn:\n", "") } else { text }
}

/// A registry with providers and a configuration that needs one of them.
fn published(workshop: &Workshop, registry: &DebianRegistry) {
    let source = |name: &str| format!("{}/team/{name}", registry.address);
    for version in ["v1.0.0", "v1.1.0", "v2.0.0"] {
        let provider = manifest("Provider", "provider", &[]);
        workshop.publish(&provider, &format!("{}:{version}", source("provider")));
    }
    let base = manifest("Configuration", "base", &[("Provider", source("provider"), "<v2.0.0")]);
    workshop.publish(&base, &format!("{}:v0.1.0", source("base")));
    workshop.write("platform/composition.yaml", COMPOSITION);
    let dependencies =
        [("Provider", source("provider"), ">=v1.0.0"), ("Configuration", source("base"), "v0.1.0")];
    workshop.write("platform/crossplane.yaml", &manifest("Configuration", "platform", &dependencies));
}

#[test]
fn lock_names_what_everything_accepts() {
    let Some(registry) = registry::start(None, false) else { return };
    let workshop = Workshop::new();
    published(&workshop, &registry);
    assert_eq!(workshop.says(&["lock", "platform"]), "crossplane.lock.yaml\n");
    let lock = fs::read_to_string(workshop.path("crossplane.lock.yaml")).unwrap();
    assert!(lock.contains("version: v1.1.0") && lock.contains("version: v0.1.0"), "{lock}");
    assert!(!lock.contains("version: v2.0.0"), "{lock}");
    assert!(lock.find("team-provider").unwrap() < lock.find("team-base").unwrap(), "{lock}");
    workshop.says(&["lock", "platform", "--check"]);

    // A tag moves.
    let provider = format!("{}/team/provider", registry.address);
    let other = manifest("Provider", "provider-moved", &[]);
    workshop.publish(&other, &format!("{provider}:v1.1.0"));
    let ran = workshop.run(&["lock", "platform", "--check"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("provider:v1.1.0` is sha256:"), "{}", ran.stderr);

    // Two that exclude each other are named with their paths.
    let conflicting = manifest(
        "Configuration",
        "platform",
        &[
            ("Provider", provider.clone(), ">=v2.0.0"),
            ("Configuration", format!("{}/team/base", registry.address), "v0.1.0"),
        ],
    );
    workshop.write("platform/crossplane.yaml", &conflicting);
    let refused = workshop.fails(&["lock", "platform"]);
    assert!(refused.contains("cannot resolve") && refused.contains("<v2.0.0"), "{refused}");
    let ran = workshop.run(&["lock", "platform", "--check"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("depends on other packages or versions"), "{}", ran.stderr);
}

#[test]
fn bundle_has_everything_and_needs_no_registry() {
    let Some(registry) = registry::start(None, false) else { return };
    let workshop = Workshop::new();
    published(&workshop, &registry);
    let reference = |name: &str| format!("{}/team/{name}", registry.address);
    workshop.says(&["build", "-f", "platform", "-o", "platform.xpkg"]);
    let platform = format!("{}:v1.0.0", reference("platform"));
    workshop.says(&["push", &platform, "-f", "platform.xpkg"]);
    let printed = workshop.says(&["bundle", &platform, "-o", "bundle.tar", "--cache-dir", "one"]);
    let expected = [
        format!("{}:v1.1.0", reference("provider")),
        format!("{}:v0.1.0", reference("base")),
        platform.clone(),
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    // The same again, from another cache, and by a lock file.
    workshop.says(&["bundle", &platform, "-o", "again.tar", "--cache-dir", "two"]);
    let bundle = fs::read(workshop.path("bundle.tar")).unwrap();
    assert_eq!(bundle, fs::read(workshop.path("again.tar")).unwrap());
    workshop.says(&["lock", &platform]);
    workshop.says(&["bundle", "--lock", "crossplane.lock.yaml", "-o", "locked.tar"]);
    assert_eq!(bundle, fs::read(workshop.path("locked.tar")).unwrap());
    workshop.says(&["bundle", &platform, "-o", "directory"]);
    let refused = workshop.fails(&["bundle", &platform, "-o", "directory"]);
    assert!(refused.contains("the directory is not empty"), "{refused}");

    // The registry is gone.
    drop(registry);
    let plane = Plane::new();
    let install = |bundle: &str, package: &str| {
        format!(
            "{} xpkg install configuration {package} --from-bundle {} --data-dir data --kubeconfig kubeconfig",
            env!("CARGO_BIN_EXE_ferroplane"),
            workshop.path(bundle).display()
        )
    };
    let refused = plane.fails(&install("bundle.tar", "registry.example.org/a/b:v1"), "");
    assert!(refused.contains("cannot find `registry.example.org/a/b:v1` in bundle"), "{refused}");
    let said = plane.says(&install("bundle.tar", &platform));
    for created in ["provider/team-provider", "configuration/team-base", "configuration/team-platform"] {
        assert!(said.contains(&format!("{created} created")), "{said}");
    }
    let packages = plane.says(
        "kubectl get providers,configurations -o jsonpath='{range .items[*]}{.spec.package}{\"\\n\"}{end}'",
    );
    let mut packages: Vec<&str> = packages.lines().collect();
    let mut wanted = expected.clone();
    packages.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(packages, wanted);
    // Nothing but the bundle is asked.
    plane.says("kubectl wait providers,configurations --all --for=condition=Installed --timeout=60s");
    plane.says("kubectl wait configuration/team-base --for=condition=Healthy --timeout=60s");
    // Whoever has it as a directory can do the same again: what exists stays.
    let said = plane.fails(&install("directory", &platform), "");
    assert!(said.contains("it exists already") && !said.contains("provider/team-provider created"), "{said}");
}

const BUCKETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.cloud.example.org}
spec:
  group: cloud.example.org
  scope: Cluster
  names: {kind: Bucket, listKind: BucketList, plural: buckets, singular: bucket}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
";

/// Its size is wrong.
const BUCKET: &str =
    "apiVersion: cloud.example.org/v1\nkind: Bucket\nmetadata: {name: b}\nspec: {size: large}\n";

/// Publish a provider of buckets.
fn publish_buckets(workshop: &Workshop, source: &str) {
    workshop.write("provider/crd.yaml", BUCKETS);
    workshop.write("provider/crossplane.yaml", &manifest("Provider", "provider", &[]));
    workshop.says(&["build", "-f", "provider", "-o", "provider.xpkg"]);
    workshop.says(&["push", &format!("{source}:v1.0.0"), "-f", "provider.xpkg"]);
}

fn validate(workshop: &Workshop, arguments: &[&str]) -> Ran {
    let mut command = ferroplane(workshop.directory.path(), &["validate"]);
    command.args(arguments).env_remove("XDG_CACHE_HOME").env_remove("DOCKER_CONFIG").output().unwrap().into()
}

/// `validate` knows the kinds of packages that manifests name, and of those that they depend on.
#[test]
fn manifests_are_validated_by_the_kinds_of_packages_in_a_registry() {
    let Some(registry) = registry::start(None, false) else { return };
    let workshop = Workshop::new();
    let source = |name: &str| format!("{}/team/{name}", registry.address);
    publish_buckets(&workshop, &source("provider"));
    let base = manifest("Configuration", "base", &[("Provider", source("provider"), ">=v1.0.0")]);
    workshop.publish(&base, &format!("{}:v1.0.0", source("base")));
    let package = format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {{name: base}}\nspec: {{package: '{}:v1.0.0'}}\n",
        source("base")
    );
    workshop.write("package.yaml", &package).write("bucket.yaml", BUCKET);
    let validate = |flags: &[&str]| validate(&workshop, &[&["package.yaml", "bucket.yaml"], flags].concat());
    let without = validate(&[]);
    assert!(without.stdout.contains("1 missing schemas"), "{}{}", without.stdout, without.stderr);
    for flag in ["--download-packages", "--update-cache"] {
        let ran = validate(&[flag]);
        let counts = "0 missing schemas, 1 success cases, 1 failure cases";
        assert!(ran.stdout.contains(counts), "{}{}", ran.stdout, ran.stderr);
    }
    drop(registry);
    let ran = validate(&["--download-packages"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot pull the packages that the manifests name"), "{}", ran.stderr);
}

/// The author of a Configuration validates its objects before it is a package.
#[test]
fn objects_are_validated_by_what_the_source_of_a_package_depends_on() {
    let Some(registry) = registry::start(None, false) else { return };
    let workshop = Workshop::new();
    let provider = format!("{}/team/provider", registry.address);
    publish_buckets(&workshop, &provider);
    let platform = manifest("Configuration", "platform", &[("Provider", provider, ">=v1.0.0")]);
    workshop.write("platform/crossplane.yaml", &platform).write("bucket.yaml", BUCKET);
    let flags = ["bucket.yaml", "--schemas", "platform"];
    let without = validate(&workshop, &flags);
    assert!(without.stdout.contains("1 missing schemas"), "{}{}", without.stdout, without.stderr);
    let ran = validate(&workshop, &[&flags[..], &["--download-packages"]].concat());
    let counts = "0 missing schemas, 0 success cases, 1 failure cases";
    assert!(ran.stdout.contains(counts), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);

    let nameless = platform.replace("package:", "image:");
    workshop.write("platform/crossplane.yaml", &nameless);
    let ran = validate(&workshop, &[&flags[..], &["--download-packages"]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("cannot read what Configuration `platform` depends on"), "{}", ran.stderr);
}
