//! The configuration of a pod: where the API server of its cluster is, and its service account.

use std::path::Path;

use crate::{BearerToken, Endpoint};

/// Where kubelets mount the service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Why there is no configuration of a pod.
#[derive(Debug, thiserror::Error)]
pub enum NotInCluster {
    /// The environment variables of a pod are missing.
    #[error("not running in a pod")]
    NoEnvironment,
    #[error("cannot read {path}")]
    Unreadable { path: String, source: std::io::Error },
}

/// The endpoint of the cluster that this process is a pod of.
pub fn in_cluster() -> Result<Endpoint, NotInCluster> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let address = variable("KUBERNETES_SERVICE_HOST").zip(variable("KUBERNETES_SERVICE_PORT"));
    let (host, port) = address.ok_or(NotInCluster::NoEnvironment)?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let read = |name: &str| {
        let path = format!("{ACCOUNT}/{name}");
        std::fs::read(&path).map_err(|source| NotInCluster::Unreadable { path, source })
    };
    let namespace = read("namespace").ok().and_then(|text| String::from_utf8(text).ok());
    Ok(Endpoint {
        server: format!("https://{host}:{port}"),
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        authorities: Some(read("ca.crt")?),
        token: Some(BearerToken::File(Path::new(ACCOUNT).join("token"))),
        ..Endpoint::default()
    })
}
