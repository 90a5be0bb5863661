//! What a pod knows of the API server of its cluster.

use std::path::Path;

use crate::{Token, Way};

/// Where a pod finds who it is.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Why there is no way from here.
#[derive(Debug, thiserror::Error)]
pub enum NoPod {
    #[error("this is no pod of a cluster")]
    Elsewhere,
    #[error("cannot read {path}")]
    Unreadable { path: String, source: std::io::Error },
}

/// The way from a pod to the API server of its cluster.
pub fn in_cluster() -> Result<Way, NoPod> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let address = variable("KUBERNETES_SERVICE_HOST").zip(variable("KUBERNETES_SERVICE_PORT"));
    let (host, port) = address.ok_or(NoPod::Elsewhere)?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let read = |name: &str| {
        let path = format!("{ACCOUNT}/{name}");
        std::fs::read(&path).map_err(|source| NoPod::Unreadable { path, source })
    };
    let namespace = read("namespace").ok().and_then(|text| String::from_utf8(text).ok());
    Ok(Way {
        server: format!("https://{host}:{port}"),
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        authorities: Some(read("ca.crt")?),
        token: Some(Token::File(Path::new(ACCOUNT).join("token"))),
        ..Way::default()
    })
}
