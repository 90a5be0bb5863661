//! A client of an API server, as a kubeconfig describes it: the embedded plane's own, or any cluster's.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use ferroplane_client::{ApiClient, Endpoint, Kubeconfig, NotInCluster, Transport};

use crate::up::data_directory;

/// Which API server
#[derive(Debug, clap::Args)]
pub(crate) struct Access {
    /// Kubeconfig file [default: $KUBECONFIG, that of `ferroplane up`, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    // Not by `env`: a value on the command line wins over $KUBECONFIG, and one from the environment does not.
    #[arg(
        long,
        value_name = "DIR",
        help = "Data directory of `ferroplane up`, to use its kubeconfig [default: $FERROPLANE_DATA_DIR or ~/.local/share/ferroplane]"
    )]
    data_dir: Option<PathBuf>,
}

/// An API server, and where to look.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: ApiClient,
    /// The same, for what is not an object.
    pub(crate) kube: kube::Client,
    /// Where the server is.
    pub(crate) server: String,
    /// The namespace to read if the command line names none.
    pub(crate) namespace: String,
}

impl Connection {
    /// Whether the API server is one that `ferroplane up` runs. One that does not say which it is, is not.
    pub(crate) async fn is_embedded(&self) -> bool {
        let version = self.kube.apiserver_version().await;
        version.is_ok_and(|version| version.git_version.contains("+ferroplane"))
    }
}

/// A control plane that is reached beside its API server.
#[derive(Debug, clap::Args)]
pub(crate) struct PlaneAccess {
    /// Address of a port that is forwarded to the leader of `ferroplane start`, such as <http://127.0.0.1:8082>
    ///
    /// The token of the kubeconfig is sent there. It must be a loopback address. `ferroplane up` needs none.
    #[arg(long, value_name = "URL")]
    plane: Option<String>,
}

impl PlaneAccess {
    /// Who plans: the API server itself, unless a control plane beside it is named.
    pub(crate) fn planner(&self, access: &Access, connection: &Connection) -> anyhow::Result<ApiClient> {
        let Some(plane) = &self.plane else { return Ok(connection.client.clone()) };
        let address: http::Uri = plane.parse().with_context(|| format!("--plane {plane} is not a URL"))?;
        let host = address.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let is_loopback = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        if address.scheme_str() != Some("http") || !is_loopback {
            bail!(
                "--plane {plane} is not a loopback address such as http://127.0.0.1:8082; forward a port to it"
            );
        }
        let Endpoint { token, impersonation, .. } = access.endpoint()?;
        if impersonation.is_some() {
            // The control plane goes by the token alone, so the plan would show what only the owner of the token may read.
            bail!(
                "the user of the kubeconfig impersonates another one (`as`), which --plane cannot do; use a token of that user"
            );
        }
        if token.is_none() {
            bail!(
                "the kubeconfig has no token to show to the control plane; make one with `kubectl create token`"
            );
        }
        let endpoint = Endpoint { server: plane.clone(), token, ..Endpoint::default() };
        let transport = Transport::new(endpoint).with_context(|| format!("cannot connect to {plane}"))?;
        Ok(ApiClient::new(kube::Client::new(transport, "default")))
    }
}

impl Access {
    pub(crate) fn new(
        kubeconfig: Option<PathBuf>,
        context: Option<String>,
        data_dir: Option<PathBuf>,
    ) -> Self {
        Self { kubeconfig, context, data_dir }
    }

    /// The names of the contexts of the kubeconfig, in its order.
    pub(crate) fn contexts(&self) -> anyhow::Result<Vec<String>> {
        let kubeconfig = Kubeconfig::read(&self.files()?)?;
        Ok(kubeconfig.contexts().into_iter().map(str::to_owned).collect())
    }

    /// Connects when the first request is sent.
    pub(crate) fn connect(&self) -> anyhow::Result<Connection> {
        let endpoint = self.endpoint()?;
        let (server, namespace) = (endpoint.server.clone(), endpoint.namespace.clone());
        let transport = Transport::new(endpoint).with_context(|| format!("cannot connect to {server}"))?;
        let kube = kube::Client::new(transport, namespace.clone());
        Ok(Connection { client: ApiClient::new(kube.clone()), kube, server, namespace })
    }

    fn endpoint(&self) -> anyhow::Result<Endpoint> {
        let files = self.files()?;
        if files.is_empty() {
            return in_cluster();
        }
        endpoint(&files, self.context.as_deref())
    }

    /// The data directory of `ferroplane up`, if the command line or the environment names one.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        let named = std::env::var_os("FERROPLANE_DATA_DIR").filter(|name| !name.is_empty());
        self.data_dir.clone().or_else(|| named.map(PathBuf::from))
    }

    /// The kubeconfigs that were named on the command line; otherwise those that `kubectl` would use because of the environment, that of the
    /// plane on this machine, or the usual one. Where a user has named one that is not there, no other cluster is meant.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        if let Some(file) = &self.kubeconfig {
            return Ok(vec![file.clone()]);
        }
        if let Some(directory) = &self.data_dir {
            let file = directory.join("kubeconfig");
            if is_missing(&file) {
                bail!(
                    "there is no kubeconfig in --data-dir `{}`: start a control plane there with `ferroplane up`, or name one with --kubeconfig",
                    directory.display()
                );
            }
            return Ok(vec![file]);
        }
        if let Some(named) = kubeconfigs_of_environment()? {
            return Ok(named);
        }
        let own = self.data_dir().or_else(|| data_directory().ok()).map(|it| it.join("kubeconfig"));
        let usual = std::env::home_dir().map(|home| home.join(".kube/config"));
        Ok(own.into_iter().chain(usual).find(|path| !is_missing(path)).into_iter().collect())
    }
}

/// The kubeconfigs that `$KUBECONFIG` names. None if it names none.
pub(crate) fn kubeconfigs_of_environment() -> anyhow::Result<Option<Vec<PathBuf>>> {
    existing(&std::env::var_os("KUBECONFIG").unwrap_or_default())
}

/// The files of a list that exist, as `kubectl` takes them. If none does, the list leads nowhere: the user who made it does not mean another cluster.
fn existing(list: &OsStr) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let named: Vec<_> = std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect();
    if named.is_empty() {
        return Ok(None);
    }
    let found: Vec<_> = named.iter().filter(|path| !is_missing(path)).cloned().collect();
    if found.is_empty() {
        let missing: Vec<_> = named.iter().map(|path| format!("`{}`", path.display())).collect();
        bail!("cannot find the kubeconfig that $KUBECONFIG names: {}", missing.join(", "));
    }
    Ok(Some(found))
}

/// Whether there is no such file. One that cannot be accessed is there, and its error is reported when it is read.
fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// The endpoint that kubeconfigs describe.
pub(crate) fn endpoint(files: &[PathBuf], context: Option<&str>) -> anyhow::Result<Endpoint> {
    let names: Vec<_> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    let kubeconfig = Kubeconfig::read(files)?;
    kubeconfig.endpoint(context).with_context(|| format!("cannot use the kubeconfig {}", names.join(", ")))
}

fn in_cluster() -> anyhow::Result<Endpoint> {
    match ferroplane_client::in_cluster() {
        Err(NotInCluster::NoEnvironment) => bail!(
            "there is no kubeconfig: start a control plane with `ferroplane up`, or name one with --kubeconfig"
        ),
        endpoint => Ok(endpoint?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_kubeconfigs_of_a_list_are_skipped_unless_all_are_missing() {
        let directory = tempfile::tempdir().unwrap();
        let (there, missing) = (directory.path().join("there"), directory.path().join("missing"));
        std::fs::write(&there, "{}").unwrap();
        let list = |paths: &[&Path]| existing(&std::env::join_paths(paths).unwrap());
        assert_eq!(list(&[&missing, &there]).unwrap(), Some(vec![there.clone()]));
        assert_eq!(list(&[Path::new("")]).unwrap(), None, "an empty variable is as none");
        let error = list(&[&missing, Path::new("other")]).unwrap_err().to_string();
        let names = format!("`{}`, `other`", missing.display());
        assert_eq!(error, format!("cannot find the kubeconfig that $KUBECONFIG names: {names}"));
    }

    #[test]
    fn data_directory_without_a_kubeconfig_leads_to_no_other_cluster() {
        let directory = tempfile::tempdir().unwrap();
        let access = Access::new(None, None, Some(directory.path().to_owned()));
        let error = access.files().unwrap_err().to_string();
        assert!(error.contains(&directory.path().display().to_string()), "{error}");
        std::fs::write(directory.path().join("kubeconfig"), "{}").unwrap();
        assert_eq!(access.files().unwrap(), [directory.path().join("kubeconfig")]);
        // A file that was named is always meant.
        let missing = directory.path().join("missing");
        let access = Access::new(Some(missing.clone()), None, None);
        assert!(format!("{:#}", access.endpoint().unwrap_err()).contains(&missing.display().to_string()));
    }
}
