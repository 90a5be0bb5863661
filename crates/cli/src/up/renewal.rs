//! Renews certificates while the control plane runs: the one that the server shows, and the one in the kubeconfig.
//!
//! The certificate in the kubeconfig may do everything, so it holds for a week only, and is replaced every day and whenever client
//! certificates are revoked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_apiserver::certificates::{Certificates, Renewed, client_renewal};
use jiff::Timestamp;
use tracing::{error, info};

use super::kubeconfig::{Credential, Kubeconfig};

/// Who has the kubeconfig: one who may do everything.
const ADMIN: &str = "ferroplane-admin";
/// How often to look. Also how soon a revocation counts, and how long `kubectl` may fail on a machine that slept through a renewal.
const LOOK: Duration = Duration::from_secs(10);

/// The certificates of a plane, and where the kubeconfig is.
#[derive(Debug)]
pub(super) struct Renewal {
    certificates: Arc<Certificates>,
    kubeconfig: PathBuf,
    address: SocketAddr,
    /// When the certificate in the kubeconfig is to be renewed.
    due: Timestamp,
}

impl Renewal {
    /// Writes the kubeconfig for the first time.
    pub(super) fn begin(
        certificates: Arc<Certificates>,
        kubeconfig: &Path,
        address: SocketAddr,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let mut renewal = Self { certificates, kubeconfig: kubeconfig.to_owned(), address, due: now };
        renewal.write_kubeconfig(now)?;
        Ok(renewal)
    }

    /// Renews what is due, for as long as the future is polled.
    pub(super) async fn keep(mut self, clock: impl Fn() -> Timestamp) {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = clock();
            let looked = tokio::task::spawn_blocking(move || {
                let result = self.look(now);
                (self, result)
            });
            let Ok((renewal, result)) = looked.await else { return };
            self = renewal;
            if let Err(error) = result {
                let error = format!("{error:#}");
                error!(error, "cannot renew certificates");
            }
        }
    }

    /// Renews what is due.
    fn look(&mut self, now: Timestamp) -> anyhow::Result<()> {
        let Renewed { server, revocation } = self.certificates.renew_if_due(now)?;
        if server {
            info!("renewed the certificate of the server");
        }
        if revocation {
            info!("client certificates were revoked");
        }
        if revocation || now >= self.due {
            self.write_kubeconfig(now)?;
            info!(kubeconfig = %self.kubeconfig.display(), "renewed the certificate in the kubeconfig");
        }
        Ok(())
    }

    fn write_kubeconfig(&mut self, now: Timestamp) -> anyhow::Result<()> {
        let issued = self.certificates.issue_client(ADMIN, &["system:masters"], now);
        let issued = issued.context("cannot issue a certificate for the kubeconfig")?;
        let kubeconfig = Kubeconfig {
            server: format!("https://{}", reachable(self.address)),
            authority: self.certificates.bundle().to_owned(),
            credential: Credential::Certificate { certificate: issued.certificate, key: issued.key },
        };
        kubeconfig.write(&self.kubeconfig)?;
        self.due = client_renewal(now);
        Ok(())
    }
}

/// A server that listens everywhere is reached on this machine by its own name.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use ferroplane_apiserver::certificates::{revoke_clients, server_names};
    use jiff::SignedDuration;

    use super::*;

    fn hours(count: i64) -> SignedDuration {
        SignedDuration::from_hours(count)
    }

    #[test]
    fn kubeconfig_is_renewed_while_the_plane_runs_and_when_clients_are_revoked() {
        let directory = tempfile::tempdir().unwrap();
        let (address, now) = ("127.0.0.1:6443".parse().unwrap(), Timestamp::now());
        let opened = Certificates::open(directory.path(), server_names(address), now).unwrap();
        let path = directory.path().join("kubeconfig");
        let mut renewal = Renewal::begin(Arc::new(opened), &path, address, now).unwrap();
        let read = || std::fs::read_to_string(&path).unwrap();
        let first = read();
        renewal.look(now + hours(23)).unwrap();
        assert_eq!(read(), first);
        renewal.look(now + hours(25)).unwrap();
        let second = read();
        assert_ne!(second, first);
        renewal.look(now + hours(26)).unwrap();
        assert_eq!(read(), second);

        revoke_clients(directory.path(), now + hours(27)).unwrap();
        renewal.look(now + hours(28)).unwrap();
        assert_ne!(read(), second);
        let third = read();
        renewal.look(now + hours(29)).unwrap();
        assert_eq!(read(), third);
    }

    #[tokio::test(start_paused = true)]
    async fn everything_is_renewed_by_a_clock_that_moves() {
        let directory = tempfile::tempdir().unwrap();
        let (address, now) = ("127.0.0.1:6443".parse().unwrap(), Timestamp::now());
        let opened = Certificates::open(directory.path(), server_names(address), now).unwrap();
        let path = directory.path().join("kubeconfig");
        let renewal = Renewal::begin(Arc::new(opened), &path, address, now).unwrap();
        let start = tokio::time::Instant::now();
        // A minute is ten hours.
        let clock = move || now + SignedDuration::try_from(start.elapsed() * 600).unwrap();
        let keeping = tokio::spawn(renewal.keep(clock));
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        let (kubeconfig, server) = (read("kubeconfig"), read("server.crt"));
        tokio::time::sleep(Duration::from_hours(22) / 600).await;
        assert_eq!(read("kubeconfig"), kubeconfig);
        tokio::time::sleep(Duration::from_hours(4) / 600).await;
        let second = read("kubeconfig");
        assert_ne!(second, kubeconfig);
        assert_eq!(read("server.crt"), server);
        tokio::time::sleep(Duration::from_hours(250 * 24) / 600).await;
        assert_ne!(read("server.crt"), server);
        assert_ne!(read("kubeconfig"), second);
        assert!(!keeping.is_finished());
    }
}
