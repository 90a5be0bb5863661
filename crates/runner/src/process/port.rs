//! Ports for programs to listen on.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// The ports that were given to programs that still run.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port of this machine that no other program of ours is given. One that is not ours may still be faster.
#[derive(Debug)]
pub(super) struct Port(u16);

impl Port {
    /// A port that nobody listens on.
    pub(super) fn free() -> io::Result<Self> {
        // The operating system forgets a port that it chose as soon as it is let go. If two programs that
        // start at once were given the same one, one function would answer for the other.
        loop {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            if TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
                return Ok(Self(port));
            }
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.0).into()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_programs_get_the_same_port() {
        let ports: Vec<_> = (0..2000).map(|_| Port::free().unwrap()).collect();
        let distinct: BTreeSet<_> = ports.iter().map(Port::address).collect();
        assert_eq!(distinct.len(), ports.len());
    }
}
