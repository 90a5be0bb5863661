//! The certificates with which functions at endpoints are called. Their files are read again, so that a user who renews them need not restart
//! the control plane.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ferroplane_runner::grpc::{Tls, UnreadableTls};
use tokio::sync::watch;
use tracing::{info, warn};

/// How often the files are read. They are small, and reading them sends no request.
const EVERY: Duration = Duration::from_secs(10);

/// The certificates in a directory, as they are now and whenever they change.
pub(super) fn follow(directory: &Path) -> Result<watch::Receiver<Tls>, UnreadableTls> {
    follow_every(EVERY, directory)
}

fn follow_every(pause: Duration, directory: &Path) -> Result<watch::Receiver<Tls>, UnreadableTls> {
    let (sender, receiver) = watch::channel(Tls::read(directory)?);
    tokio::spawn(keep(pause, directory.to_owned(), sender));
    Ok(receiver)
}

async fn keep(pause: Duration, directory: PathBuf, certificates: watch::Sender<Tls>) {
    let mut had_trouble = false;
    // When nothing calls functions any more, nothing needs to know.
    while !certificates.is_closed() {
        tokio::time::sleep(pause).await;
        let from = directory.clone();
        match tokio::task::spawn_blocking(move || Tls::read(&from)).await {
            Ok(Ok(read)) => {
                had_trouble = false;
                if replace(&certificates, read) {
                    info!(directory = %directory.display(), "calling functions with new certificates");
                }
            }
            Ok(Err(error)) => {
                if !had_trouble {
                    let error = format!("{:#}", anyhow::Error::from(error));
                    warn!(error, "cannot reload certificates; keeping the current ones");
                }
                had_trouble = true;
            }
            Err(_) => return,
        }
    }
}

/// Whether they are others than before.
fn replace(certificates: &watch::Sender<Tls>, read: Tls) -> bool {
    certificates.send_if_modified(|known| {
        let is_new = *known != read;
        *known = read;
        is_new
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, words: &str) {
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            std::fs::write(directory.join(name), format!("{words} {name}")).unwrap();
        }
    }

    #[tokio::test]
    async fn files_that_are_replaced_are_read_again() {
        let directory = tempfile::tempdir().unwrap();
        assert!(follow(directory.path()).is_err());
        write(directory.path(), "old");
        let mut certificates = follow_every(Duration::from_millis(1), directory.path()).unwrap();
        assert_eq!(certificates.borrow_and_update().key, b"old tls.key");
        std::fs::remove_file(directory.path().join("tls.key")).unwrap();
        write(directory.path(), "new");
        let is_new = |tls: &Tls| {
            tls.ca == b"new ca.crt" && tls.certificate == b"new tls.crt" && tls.key == b"new tls.key"
        };
        certificates.wait_for(is_new).await.unwrap();
    }
}
