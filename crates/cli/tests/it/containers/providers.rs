//! Provider packages that `up` installs and runs, made of a provider on controller-runtime.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use ferroplane_image::Execution;
use ferroplane_image::build::Layer;
use rustix::process::Signal;
use tempfile::TempDir;

use super::images::{TestImage, machine};
use super::registry::TestRegistry;
use crate::peers::peer;
use crate::plane::Plane;

const PACKAGE: &str = "
apiVersion: meta.pkg.crossplane.io/v1
kind: Provider
metadata: {name: provider-notes}
spec: {CAPABILITIES}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: notes.notes.example.org}
spec:
  group: notes.example.org
  scope: Cluster
  names: {kind: Note, listKind: NoteList, plural: notes, singular: note, categories: [crossplane, managed]}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: providerconfigs.notes.example.org}
spec:
  group: notes.example.org
  scope: Cluster
  names: {kind: ProviderConfig, listKind: ProviderConfigList, plural: providerconfigs, singular: providerconfig}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const FERROPLANE: &str = env!("CARGO_BIN_EXE_ferroplane");

/// What the tests of providers need: the provider, a registry, and an address that the provider tries to reach.
struct Ground {
    program: PathBuf,
    registry: TestRegistry,
    probe: String,
    _listener: TcpListener,
}

impl Ground {
    /// Nothing where containers, kubectl or the provider are missing.
    fn find() -> Option<Self> {
        machine()?;
        peer("kubectl")?;
        let (program, registry) = (peer("provider-notes")?, TestRegistry::start(false)?);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let probe = listener.local_addr().unwrap().to_string();
        Some(Self { program, registry, probe, _listener: listener })
    }
}

/// A provider that tries to reach an address before it does anything else.
fn package(provider: &Path, probe: &str, capabilities: &str, version: &str) -> TestImage {
    let mut program = Layer::new();
    program.add_file(provider, "provider").unwrap();
    let mut manifests = Layer::new().annotate("io.crossplane.xpkg", "base");
    let text = format!("# {version}{}", PACKAGE.replace("{CAPABILITIES}", capabilities));
    manifests.add_bytes(text.into_bytes(), "package.yaml", false).unwrap();
    let entrypoint = Some(vec!["/provider".to_owned(), format!("-probe={probe}")]);
    let user = Some("65532:65532".to_owned());
    TestImage::of(vec![program, manifests], Execution { entrypoint, user, ..Execution::default() })
}

fn provider(name: &str, image: &str, network: &str) -> String {
    format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Provider\nmetadata: {{name: {name}, annotations: {{ferroplane.io/network: {network}}}}}\n\
         spec: {{package: '{image}'}}\n"
    )
}

fn note(text: &str) -> String {
    format!(
        "apiVersion: notes.example.org/v1alpha1\nkind: Note\nmetadata: {{name: a}}\nspec: {{forProvider: {{text: {text}}}}}\n"
    )
}

fn healthy(plane: &Plane, name: &str) -> String {
    plane.says(&format!("kubectl wait provider/{name} --for=condition=Healthy --timeout=120s"));
    plane.says(&format!("kubectl get provider/{name} -o jsonpath='{{.status.currentRevision}}'"))
}

fn runtime(plane: &Plane, revision: &str) -> String {
    plane.says(&format!(
        "kubectl get providerrevision/{revision} -o jsonpath='{{.status.conditions[?(@.type==\"RuntimeHealthy\")].message}}'"
    ))
}

/// Who controls the kind, and whether a definition owns it.
fn owners(plane: &Plane) -> (String, String) {
    let by = |field: &str, value: &str| {
        plane.says(&format!(
            "kubectl get crd/notes.notes.example.org -o jsonpath='{{.metadata.ownerReferences[?(@.{field}=={value})].name}}'"
        ))
    };
    (by("controller", "true"), by("kind", "\"ManagedResourceDefinition\""))
}

/// The processes on this machine whose command line has this in it.
fn processes_with(marker: &str) -> usize {
    let is_it = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_it).count()
}

#[test]
fn a_provider_on_controller_runtime_runs_as_its_own_service_account_and_is_upgraded() {
    let Some(ground) = Ground::find() else { return };
    let Ground { program, registry, probe, .. } = &ground;
    let images = ["v1.0.0", "v1.1.0"].map(|version| {
        let image = package(program, probe, "{}", version);
        registry.push(&image, &format!("acme/provider-notes:{version}"))
    });
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &provider("notes", &images[0], "Isolated"));
    let first = healthy(&plane, "notes");
    assert!(
        runtime(&plane, &first)
            .starts_with("Runs in a container on this machine that reaches the API server and nothing else"),
        "{}",
        runtime(&plane, &first)
    );
    plane.says("kubectl wait crd/notes.notes.example.org --for=condition=Established --timeout=60s");
    assert_eq!(owners(&plane), (first.clone(), "notes.notes.example.org".to_owned()));
    plane.told("kubectl apply -f -", &note("hello"));
    plane.says("kubectl wait note/a --for=condition=Ready --timeout=60s");
    let written = "kubectl get note/a -o jsonpath='{.status.atProvider.text} {.status.atProvider.by}'";
    assert_eq!(plane.says(written), format!("HELLO {first}"));

    // It can do its work, and nothing else: neither on the API server nor in the network.
    let log = plane.says(&format!("{FERROPLANE} logs provider/notes"));
    assert!(log.contains("probe: unreachable\n") && log.contains("listing pods: Forbidden\n"), "{log}");
    let can = |what: &str| {
        let account = format!("--as=system:serviceaccount:crossplane-system:{first}");
        // Warnings come first.
        let answer = plane.says(&format!("kubectl auth can-i {what} {account} || true"));
        answer.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(can("update notes.notes.example.org"), "yes");
    assert_eq!(can("delete providers.pkg.crossplane.io"), "no");
    assert_eq!(can("create clusterrolebindings.rbac.authorization.k8s.io"), "no");

    plane.told("kubectl apply -f -", &provider("notes", &images[1], "Isolated"));
    let current = "kubectl get provider/notes -o jsonpath='{.status.currentRevision}'";
    let second = plane.says(&format!("while test \"$({current})\" = {first}; do sleep 0.1; done; {current}"));
    plane.says(&format!(
        "kubectl wait providerrevision/{second} --for=condition=RuntimeHealthy --timeout=120s"
    ));
    plane.told("kubectl apply -f -", &note("again"));
    plane.says(&format!(
        "kubectl wait note/a --for=jsonpath='{{.status.atProvider.by}}'={second} --timeout=60s"
    ));
    plane.says(&format!(
        "until test \"$(kubectl get crd/notes.notes.example.org -o jsonpath='{{.metadata.ownerReferences[?(@.controller==true)].name}}')\" = {second}; \
         do sleep 0.1; done"
    ));
    // Who is not active does not run, and nobody runs when the plane is gone, however it goes.
    assert_eq!(processes_with(probe), 1);
    plane.signal(Signal::KILL);
    let mut plane = plane;
    plane.end();
    for _ in 0..500 {
        if processes_with(probe) == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(processes_with(probe), 0);

    // Another plane on the same directory runs it again.
    let plane = Plane::start(plane.into_directory(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &note("later"));
    plane.says("kubectl wait note/a --for=jsonpath='{.status.atProvider.text}'=LATER --timeout=60s");
    plane.says("kubectl delete note/a --timeout=60s");
    plane.says("kubectl delete provider/notes --timeout=60s");
    plane.says("until test -z \"$(kubectl get serviceaccounts -n crossplane-system -o name | grep notes-)\"; do sleep 0.1; done");
    plane.stop();
    assert_eq!(processes_with(probe), 0);
}

#[test]
fn a_provider_that_can_wait_runs_once_a_kind_is_activated_and_has_the_network_it_is_granted() {
    let Some(ground) = Ground::find() else { return };
    let Ground { program, registry, probe, .. } = &ground;
    let image = package(program, probe, "{capabilities: [safe-start]}", "v1");
    let image = registry.push(&image, "acme/provider-notes:v1.0.0");
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    // Everything is activated unless somebody says otherwise first.
    let policy = |kind: &str| {
        format!(
            "apiVersion: apiextensions.crossplane.io/v1alpha1\nkind: ManagedResourceActivationPolicy\nmetadata: {{name: default}}\n\
             spec: {{activate: ['{kind}']}}\n"
        )
    };
    plane.told("kubectl apply -f -", &policy("nothing.example.org"));
    plane.told("kubectl apply -f -", &provider("notes", &image, "Runner"));
    plane.says(
        "kubectl wait provider/notes --for=jsonpath='{.status.conditions[?(@.type==\"Healthy\")].reason}'=AwaitingActivation --timeout=120s",
    );
    plane
        .says("kubectl wait crd/providerconfigs.notes.example.org --for=condition=Established --timeout=60s");
    assert_eq!(plane.says("kubectl get crd/notes.notes.example.org --ignore-not-found -o name"), "");
    assert_eq!(processes_with(probe), 0);

    plane.told("kubectl apply -f -", &policy("*.notes.example.org"));
    plane.says(
        "kubectl wait provider/notes --for=jsonpath='{.status.conditions[?(@.type==\"Healthy\")].reason}'=HealthyPackageRevision --timeout=120s",
    );
    plane.told("kubectl apply -f -", &note("hello"));
    plane.says("kubectl wait note/a --for=condition=Ready --timeout=60s");
    let log = plane.says(&format!("{FERROPLANE} logs provider/notes"));
    assert!(log.contains("probe: reached\n"), "{log}");
    plane.stop();
}
