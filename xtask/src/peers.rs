//! Peers: programs we did not write, or that stand on SDKs we did not write, for our tests to run against.
//!
//! Each peer becomes one executable file of a stable name in [`directory`]. What it is made from is pinned
//! in `tests/peers/`, versions and checksums alike, so that every machine gets the same code.
//! `docs/peers.md` says what each peer does.
//!
//! Never starts a peer, and never writes outside the directory and the caches of the languages, except that
//! it installs missing Debian packages when it may.
//!
//! # Invariants
//! * A peer whose recipe and sources did not change is left alone, and costs no process.
//! * A stamp is written last: what was interrupted is made again.

mod recipe;
mod tool;

use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};

use recipe::Recipe;
use tool::Tool;

/// Where the builds of releases put the version that a program reports and compares with.
const CROSSPLANE_VERSION: &str = "github.com/crossplane/crossplane-runtime/v2/pkg/version.version";
const KUBERNETES_VERSION: &str = "k8s.io/component-base/version.gitVersion";

/// The peers of the ordinary test run: the greeters and the functions of others.
const DEFAULT: &[Peer] = &[
    Peer::new("greeter-go", Recipe::Go { source: "go", package: ".", version: None }),
    Peer::new("greeter-python", Recipe::Python { source: "python" }),
    Peer::new("greeter-typescript", Recipe::Node { source: "typescript" }),
    Peer::new(
        "function-auto-ready",
        Recipe::Go {
            source: "oracles/function-auto-ready",
            package: "github.com/crossplane/function-auto-ready",
            version: None,
        },
    ),
    Peer::new(
        "function-patch-and-transform",
        Recipe::Go {
            source: "oracles/function-patch-and-transform",
            package: "github.com/crossplane-contrib/function-patch-and-transform",
            version: None,
        },
    ),
    Peer::new(
        "function-go-templating",
        Recipe::Go {
            source: "oracles/function-go-templating",
            package: "github.com/crossplane-contrib/function-go-templating",
            version: None,
        },
    ),
    Peer::new(
        "function-many-robots",
        Recipe::Go { source: "../../examples/robots/function", package: ".", version: None },
    ),
    Peer::new("krm-set-labels", Recipe::Go { source: "krm", package: ".", version: None }),
    Peer::new(
        "kpt-set-namespace",
        Recipe::Go {
            source: "oracles/kpt-set-namespace",
            package: "github.com/GoogleContainerTools/kpt-functions-catalog/functions/go/set-namespace",
            version: None,
        },
    ),
    Peer::new("text-template", Recipe::Go { source: "oracles/text-template", package: ".", version: None }),
    Peer::new("kubernetes-cel", Recipe::Go { source: "oracles/cel", package: ".", version: None }),
    Peer::new("kubernetes-views", Recipe::Go { source: "oracles/views", package: ".", version: None }),
    Peer::new(
        "kubernetes-structural",
        Recipe::Go { source: "oracles/structural", package: ".", version: None },
    ),
    Peer::new(
        "kubernetes-managed-fields",
        Recipe::Go { source: "oracles/kubernetes-managed-fields", package: ".", version: None },
    )
    .slow(),
    Peer::new(
        "kubectl",
        Recipe::Go {
            source: "oracles/kubectl",
            package: ".",
            version: Some((KUBERNETES_VERSION, "v1.36.4")),
        },
    )
    .slow(),
    Peer::new(
        "kubernetes-rbac",
        Recipe::Go { source: "oracles/kubernetes-rbac", package: ".", version: None },
    )
    .slow(),
    Peer::new(
        "crossplane-compositions",
        Recipe::Go { source: "oracles/crossplane-compositions", package: ".", version: None },
    ),
    Peer::new("clients-go", Recipe::Go { source: "clients/go", package: ".", version: None }).slow(),
    Peer::new("provider-notes", Recipe::Go { source: "provider", package: ".", version: None }).slow(),
    Peer::new("otel-collector", Recipe::Go { source: "collector", package: ".", version: None }).slow(),
    Peer::new("clients-python", Recipe::Python { source: "clients/python" }),
    Peer::new("clients-typescript", Recipe::Node { source: "clients/typescript" }),
];

/// Kubernetes' own packages, asked about its kinds.
const KINDS: Peer = Peer::new(
    "kubernetes-kinds",
    Recipe::Go { source: "oracles/kubernetes-kinds", package: ".", version: None },
)
.slow();

/// The peers that take minutes and hundreds of megabytes: Crossplane itself and its command line, Kubernetes, and Kanister.
const HEAVY: &[Peer] = &[
    KINDS,
    Peer::new(
        "helm",
        Recipe::Go { source: "oracles/helm", package: "helm.sh/helm/v4/cmd/helm", version: None },
    )
    .slow(),
    Peer::new(
        "crossplane",
        Recipe::Go {
            source: "oracles/crossplane",
            package: "github.com/crossplane/crossplane/v2/cmd/crossplane",
            version: Some((CROSSPLANE_VERSION, "v2.4.0")),
        },
    )
    .slow(),
    Peer::new(
        "crossplane-cli",
        Recipe::Go {
            source: "oracles/crossplane-cli",
            package: "github.com/crossplane/cli/v2/cmd/crossplane",
            version: Some((CROSSPLANE_VERSION, "v2.5.0")),
        },
    )
    .slow(),
    Peer::new("kanister", Recipe::Go { source: "oracles/kanister", package: ".", version: None }).slow(),
];

/// A real API server and what it needs. They take minutes, too.
const ORACLE: &[Peer] = &[
    Peer::new(
        "etcd",
        Recipe::Go { source: "oracles/etcd", package: "go.etcd.io/etcd/server/v3", version: None },
    ),
    Peer::new(
        "kube-apiserver",
        Recipe::Go {
            source: "oracles/kubernetes",
            package: "k8s.io/kubernetes/cmd/kube-apiserver",
            version: Some((KUBERNETES_VERSION, "v1.36.4")),
        },
    )
    .slow(),
    Peer::new(
        "kube-controller-manager",
        Recipe::Go {
            source: "oracles/kubernetes",
            package: "k8s.io/kubernetes/cmd/kube-controller-manager",
            version: Some((KUBERNETES_VERSION, "v1.36.4")),
        },
    )
    .slow(),
];

/// Makes sure that the peers of the ordinary test run are there, and with `heavy` those that take minutes.
pub(crate) fn ensure(heavy: bool) -> Result<()> {
    ensure_default()?;
    if heavy { ensure_heavy() } else { Ok(()) }
}

/// Makes sure that the peers of the ordinary test run are there.
pub(crate) fn ensure_default() -> Result<()> {
    for tool in [Tool::PROMETHEUS, Tool::REGISTRY, Tool::SKOPEO, Tool::UMOCI, Tool::ZSH, Tool::FISH] {
        tool.ensure()?;
    }
    ensure_containers()?;
    ensure_all(DEFAULT)
}

/// Makes sure that containers can be started, if the machine allows them.
fn ensure_containers() -> Result<()> {
    [Tool::CRUN, Tool::RUNC, Tool::BUSYBOX, Tool::BUILDAH, Tool::JQ].iter().try_for_each(Tool::ensure)
}

/// Makes sure that the peers are there that take minutes.
pub(crate) fn ensure_heavy() -> Result<()> {
    ensure_all(HEAVY)
}

/// Makes sure that the API server of Kubernetes, its database and its controllers are there.
pub(crate) fn ensure_oracle() -> Result<()> {
    ensure_all(ORACLE)
}

/// Whether the servers of the oracle are there already.
pub(crate) fn has_oracle() -> bool {
    ORACLE.iter().all(|peer| directory().join(peer.name).exists())
}

/// Makes sure that Python can make virtual environments.
pub(crate) fn ensure_python() -> Result<()> {
    Tool::PYTHON.ensure()
}

/// Makes sure that the peer is there that knows the kinds of Kubernetes.
pub(crate) fn ensure_kinds() -> Result<()> {
    ensure_all(&[KINDS])
}

/// Where peers live: `$FERROPLANE_PEERS`, or `~/.cache/ferroplane/peers`.
pub(crate) fn directory() -> PathBuf {
    let chosen = env::var_os("FERROPLANE_PEERS").filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || env::home_dir().unwrap_or_else(env::temp_dir);
    let directory = chosen.unwrap_or_else(|| home().join(".cache/ferroplane/peers"));
    // Recipes change the working directory, which would change what a relative path means.
    std::path::absolute(&directory).unwrap_or(directory)
}

/// A program, and how to get it.
#[derive(Debug, Hash)]
struct Peer {
    name: &'static str,
    recipe: Recipe,
    takes_minutes: bool,
}

impl Peer {
    const fn new(name: &'static str, recipe: Recipe) -> Self {
        Self { name, recipe, takes_minutes: false }
    }

    const fn slow(self) -> Self {
        Self { takes_minutes: true, ..self }
    }

    fn ensure(&self, directory: &Path) -> Result<()> {
        let stamp = directory.join(format!(".stamp-{}", self.name));
        let fingerprint = self.fingerprint()?;
        let is_current = fs::read_to_string(&stamp).is_ok_and(|found| found == fingerprint);
        if !is_current || !directory.join(self.name).exists() {
            let patience = if self.takes_minutes { " (takes minutes)" } else { "" };
            eprintln!("peer {}: building{patience}…", self.name);
            remove_if_there(&stamp)?;
            self.recipe.install(&self.source(), directory, self.name)?;
            fs::write(&stamp, fingerprint).with_context(|| format!("cannot write {}", stamp.display()))?;
        }
        eprintln!("peer {}: ready", self.name);
        Ok(())
    }

    fn source(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/peers").join(self.recipe.source())
    }

    /// Changes when the peer would come out differently, and when the standard library hashes differently.
    fn fingerprint(&self) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        include_str!("peers/recipe.rs").hash(&mut hasher);
        self.hash(&mut hasher);
        for file in files(&self.source())? {
            file.file_name().hash(&mut hasher);
            fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.hash(&mut hasher);
        }
        Ok(format!("{:016x}\n", hasher.finish()))
    }
}

fn ensure_all(peers: &[Peer]) -> Result<()> {
    let directory = directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    // Two test runs at once must not install the same peer over each other. Closing the file unlocks it.
    let lock = File::create(directory.join(".lock")).context("cannot create the lock file of the peers")?;
    lock.lock().context("cannot lock the directory of the peers")?;
    for peer in peers {
        peer.ensure(&directory).with_context(|| format!("cannot make peer `{}`", peer.name))?;
    }
    Ok(())
}

/// The files directly in a directory, sorted. What tools leave behind, like `node_modules`, is a directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

fn remove_if_there(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Runs a program to its end, silently unless it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {command:?}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let reason = anyhow!("{}: {}", output.status, String::from_utf8_lossy(&said).trim());
    Err(reason.context(format!("cannot run {command:?}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_peer_has_sources_and_a_fingerprint_of_its_own() {
        let peers = DEFAULT.iter().chain(HEAVY).chain(ORACLE);
        let fingerprints = peers.map(|peer| peer.fingerprint().unwrap()).collect::<BTreeSet<_>>();
        assert_eq!(fingerprints.len(), DEFAULT.len() + HEAVY.len() + ORACLE.len());
    }

    #[test]
    fn failed_program_is_quoted() {
        let error = run(Command::new("sh").args(["-c", "echo no luck >&2; exit 7"])).unwrap_err();
        assert!(format!("{error:#}").ends_with("exit status: 7: no luck"), "{error:#}");
    }
}
