//! Packages that `up` installs from a registry on this machine.

use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::registry::{Options, Push, Registry};
use ferroplane_image::store::{Limits, Store};
use ferroplane_image::{Execution, Platform, Reference};
use ferroplane_testkit::{DebianRegistry, RegistrySetup};
use tempfile::TempDir;

use crate::containers::images::TestImage;
use crate::containers::registry::TestRegistry;
use crate::peers::peer;
use crate::plane::Plane;

/// Packages in Debian's registry on the loopback.
pub(crate) struct LocalRegistry {
    pub(crate) address: String,
    debian: DebianRegistry,
}

impl LocalRegistry {
    /// Nothing if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let debian = DebianRegistry::start(&RegistrySetup::default())?;
        Some(Self { address: debian.address.clone(), debian })
    }

    /// Have a package in it, with this `package.yaml`.
    pub(crate) fn push(&self, image: &str, package: &str) {
        let store = Store::open(self.debian.directory().join("store"), Limits::default()).unwrap();
        let mut layer = Layer::new().annotate("io.crossplane.xpkg", "base");
        layer.add_bytes(package.as_bytes().to_vec(), "package.yaml", false).unwrap();
        let mut builder = ImageBuilder::new(Platform::host());
        builder.layers.push(layer);
        let built = builder.build(&store).unwrap();
        let reference: Reference = format!("{}/{image}", self.address).parse().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let registry = Registry::new(Options::default()).unwrap();
        runtime.block_on(registry.push(&reference, &built.digest, &Push::from(&store))).unwrap();
    }
}

fn configuration(address: &str, about: &str) -> String {
    format!(
        "
apiVersion: meta.pkg.crossplane.io/v1
kind: Configuration
metadata: {{name: platform}}
spec:
  dependsOn:
  - {{function: {address}/acme/function-own, version: '>=v1.0.0'}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: CompositeResourceDefinition
metadata: {{name: things.acme.org}}
spec:
  group: acme.org
  names: {{kind: Thing, plural: things}}
  versions:
  - {{name: v1, served: true, referenceable: true, schema: {{openAPIV3Schema: {{type: object, description: {about}}}}}}}
"
    )
}

fn package(kind: &str, name: &str, image: &str) -> String {
    format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{package: '{image}'}}\n"
    )
}

#[test]
fn packages_are_installed_from_a_registry_and_stay_without_it() {
    let (Some(_), Some(registry)) = (peer("kubectl"), LocalRegistry::start()) else { return };
    let address = &registry.address;
    registry.push("acme/platform:v1.0.0", &configuration(address, "one"));
    registry.push("acme/platform:v1.1.0", &configuration(address, "two"));
    let function = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-own}\n";
    registry.push("acme/function-own:v1.0.0", function);
    let plane = Plane::new();
    plane.told(
        "kubectl apply -f -",
        &package("Configuration", "platform", &format!("{address}/acme/platform:v1.0.0")),
    );
    plane.says("kubectl wait configuration/platform --for=condition=Healthy --timeout=60s");
    plane.says("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=60s");
    plane.says("kubectl wait function/acme-function-own --for=condition=Installed --timeout=60s");
    let columns = plane.says("kubectl get configurations");
    assert!(columns.contains("True        True"), "{columns}");
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    // The package of the function has no program, so that it is not healthy.
    let tree = plane.says(&format!("{ferroplane} trace configuration/platform; test $? = 3"));
    for words in ["ConfigurationRevision/platform-", "Function/acme-function-own", "Healthy is False"] {
        assert!(tree.contains(words), "{words}\n{tree}");
    }
    let why = plane.says(&format!("{ferroplane} why configuration/platform"));
    assert!(why.starts_with("Configuration platform is ready."), "{why}");
    plane.told(
        "kubectl apply -f -",
        &package("Configuration", "platform", &format!("{address}/acme/platform:v1.1.0")),
    );
    let about = "jsonpath={.spec.versions[0].schema.openAPIV3Schema.description}";
    plane.says(&format!("kubectl wait xrd/things.acme.org --for={about}=two --timeout=60s"));
    let states = plane.says("kubectl get configurationrevisions -o jsonpath='{.items[*].spec.desiredState}'");
    assert!(states.contains("Active") && states.contains("Inactive"), "{states}");

    // Without its registry, and after a restart.
    drop(registry);
    let directory = plane.stop();
    let plane = Plane::start(directory, &["--data-dir", "data"]);
    plane.says("kubectl wait configuration/platform --for=condition=Healthy --timeout=60s");
    plane.says("kubectl delete configuration platform --timeout=60s");
    plane.says("kubectl wait xrd/things.acme.org --for=delete --timeout=60s");
}

#[test]
fn dependencies_are_upgraded_and_downgraded_only_if_the_flags_allow_it() {
    let (Some(_), Some(registry)) = (peer("kubectl"), LocalRegistry::start()) else { return };
    let address = &registry.address;
    for (name, version) in [("up", "v1.0.0"), ("up", "v1.1.0"), ("down", "v1.0.0"), ("down", "v1.1.0")] {
        // Another text, so that each has a digest of its own.
        let manifest = format!(
            "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: {name}, annotations: {{version: {version}}}}}\n"
        );
        registry.push(&format!("acme/{name}:{version}"), &manifest);
    }
    let platform = format!(
        "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {{name: platform}}\nspec:\n  dependsOn:\n  \
         - {{function: {address}/acme/up, version: '>=v1.1.0'}}\n  - {{function: {address}/acme/down, version: '<v1.1.0'}}\n"
    );
    registry.push("acme/platform:v1.0.0", &platform);
    let packages = [
        package("Function", "up", &format!("{address}/acme/up:v1.0.0")),
        package("Function", "down", &format!("{address}/acme/down:v1.1.0")),
        package("Configuration", "platform", &format!("{address}/acme/platform:v1.0.0")),
    ];
    let installs = |plane: &Plane, name: &str, version: &str| {
        plane.says(&format!(
            "kubectl wait function/{name} --for=jsonpath={{.spec.package}}={address}/acme/{name}:{version} --timeout=60s"
        ));
    };
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    for function in &packages[..2] {
        plane.told("kubectl apply -f -", function);
    }
    plane.says("kubectl wait function/up function/down --for=condition=Installed --timeout=60s");
    plane.told("kubectl apply -f -", &packages[2]);
    let message = "kubectl get configurationrevisions -o jsonpath='{.items[0].status.conditions[?(@.type==\"RevisionHealthy\")].message}'";
    plane.until_said(message, |said| said.contains("cannot resolve package dependencies"));
    installs(&plane, "up", "v1.0.0");

    let flags = ["--data-dir", "data", "--enable-dependency-version-upgrades"];
    let plane = Plane::start(plane.stop(), &flags);
    installs(&plane, "up", "v1.1.0");
    installs(&plane, "down", "v1.1.0");
    let flags = ["--data-dir", "data", "--enable-dependency-version-downgrades"];
    let plane = Plane::start(plane.stop(), &flags);
    installs(&plane, "down", "v1.0.0");
    plane.says("kubectl wait configuration/platform --for=condition=Healthy --timeout=60s");
    plane.stop();
}

#[test]
fn function_that_is_built_in_is_ready_before_its_registry_answers() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::start(TempDir::new().unwrap(), &["--in-memory"]);
    // Nothing answers at this address, and nobody says so: it is for documentation only (RFC 5737).
    let image = "192.0.2.1/crossplane-contrib/function-auto-ready:v0.5.0";
    plane.told("kubectl apply -f -", &package("Function", "ready", image));
    plane.says("kubectl wait function/ready --for=condition=Healthy --timeout=30s");
    let why = plane.says("kubectl get function ready -o jsonpath='{.status.conditions[*].reason}'");
    assert_eq!(why, "BuiltIn BuiltIn");
}

#[test]
fn package_in_a_private_registry_is_installed_with_a_pull_secret_and_explained_without() {
    let (Some(_), Some(registry)) = (peer("kubectl"), TestRegistry::start(true)) else { return };
    let mut layer = Layer::new().annotate("io.crossplane.xpkg", "base");
    let manifest =
        "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: p}\nspec: {}\n";
    layer.add_bytes(manifest.as_bytes().to_vec(), "package.yaml", false).unwrap();
    let image = registry.push(&TestImage::of(vec![layer], Execution::default()), "private:v1.0.0");
    let plane = Plane::new();
    let private = package("Configuration", "private", &image);
    plane.told("kubectl apply -f -", &private);
    plane.says("kubectl wait configuration/private --for=condition=Installed=false --timeout=60s");
    let message = "kubectl get configuration/private -o jsonpath='{.status.conditions[?(@.type==\"Installed\")].message}'";
    assert!(plane.says(message).contains("credential"), "{}", plane.says(message));
    let secret = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: crossplane-system}}\n---\napiVersion: v1\nkind: Secret\n\
         metadata: {{name: pull, namespace: crossplane-system}}\ntype: kubernetes.io/dockerconfigjson\n\
         stringData: {{.dockerconfigjson: '{}'}}\n",
        registry.docker_config()
    );
    plane.told("kubectl apply -f -", &secret);
    let with_secret = private.replace("spec: {", "spec: {packagePullSecrets: [{name: pull}], ");
    plane.told("kubectl apply -f -", &with_secret);
    plane.says("kubectl wait configuration/private --for=condition=Healthy --timeout=60s");
    plane.stop();
}
