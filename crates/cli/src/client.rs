//! A client of an API server, as a kubeconfig describes it: the embedded plane's own, or any cluster's.

mod kubeconfig;
mod line;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::up::data_directory;
use kubeconfig::Kubeconfig;
use line::Line;

/// Where a pod finds who it is.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Which API server
#[derive(Debug, clap::Args)]
pub(crate) struct Access {
    /// How to reach the API server [default: $KUBECONFIG, or that of `ferroplane up`, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Which context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Where `ferroplane up` keeps everything [default: ~/.local/share/ferroplane]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR")]
    data_dir: Option<PathBuf>,
}

/// A way to an API server.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    /// Where the server is.
    pub(crate) server: String,
    /// The namespace to look into if nobody says otherwise.
    pub(crate) namespace: String,
}

impl Access {
    /// Connects when the first request is sent.
    pub(crate) fn connect(&self) -> anyhow::Result<Connection> {
        let way = self.way()?;
        let (server, namespace) = (way.server.clone(), way.namespace.clone());
        let line = Line::new(way).with_context(|| format!("cannot use the way to {server}"))?;
        let client = kube::Client::new(line, namespace.clone());
        Ok(Connection { client, server, namespace })
    }

    fn way(&self) -> anyhow::Result<line::Way> {
        let files = self.files();
        if files.is_empty() {
            return in_cluster();
        }
        let names: Vec<_> = files.iter().map(|file| format!("`{}`", file.display())).collect();
        let kubeconfig = Kubeconfig::read(&files)?;
        kubeconfig
            .way(self.context.as_deref())
            .with_context(|| format!("cannot use the kubeconfig {}", names.join(", ")))
    }

    /// What was named counts; otherwise the plane on this machine is meant, then whatever `kubectl` would use.
    /// Where `ferroplane up` keeps everything, if that was said.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    fn files(&self) -> Vec<PathBuf> {
        if let Some(file) = &self.kubeconfig {
            return vec![file.clone()];
        }
        let named = std::env::var_os("KUBECONFIG").filter(|_| self.data_dir.is_none());
        let named: Vec<_> =
            named.iter().flat_map(std::env::split_paths).filter(|path| path.exists()).collect();
        if !named.is_empty() {
            return named;
        }
        let own = self.data_dir.clone().or_else(|| data_directory().ok()).map(|it| it.join("kubeconfig"));
        let usual = std::env::home_dir().map(|home| home.join(".kube/config"));
        own.into_iter().chain(usual).filter(|path| path.exists()).take(1).collect()
    }
}

fn in_cluster() -> anyhow::Result<line::Way> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(host), Some(port)) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
    else {
        bail!(
            "there is no kubeconfig: start a control plane with `ferroplane up`, or name one with --kubeconfig"
        )
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let read = |name: &str| {
        std::fs::read(format!("{ACCOUNT}/{name}")).with_context(|| format!("cannot read {ACCOUNT}/{name}"))
    };
    let namespace = read("namespace").ok().and_then(|text| String::from_utf8(text).ok());
    Ok(line::Way {
        server: format!("https://{host}:{port}"),
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        authorities: Some(read("ca.crt")?),
        token: Some(line::Token::File(format!("{ACCOUNT}/token").into())),
        ..line::Way::default()
    })
}
