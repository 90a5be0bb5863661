//! Ports for programs to listen on.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Below the ports that operating systems hand out. Of those, one that is free now may be anybody's before a
/// program has had the time to listen on it, and then one function would answer for another.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;
/// How many ports are tried before we believe that there is none.
const TRIES: u32 = 100;

/// The ports of programs that still run.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port of this machine that no other program of ours is given.
#[derive(Debug)]
pub(crate) struct Port(u16);

impl Port {
    /// A port that nothing listens on.
    pub(crate) fn free() -> io::Result<Self> {
        let mut problem = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..TRIES {
            let number = random();
            if !taken().insert(number) {
                continue;
            }
            // Made before binding, so that dropping it gives the number back if that fails.
            let port = Self(number);
            match TcpListener::bind(port.address()) {
                // The listener is closed again. Another program could take the port now, which `start`
                // notices and tries again.
                Ok(_) => return Ok(port),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.0).into()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        taken().remove(&self.0);
    }
}

fn random() -> u16 {
    // Every hasher of the standard library has random keys.
    let number = RandomState::new().hash_one(()) % u64::from(COUNT);
    FIRST + u16::try_from(number).expect("it is below COUNT")
}

fn taken() -> MutexGuard<'static, BTreeSet<u16>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn port_that_somebody_listens_on_is_not_free() {
        let listeners: Vec<_> =
            (0..500).map(|_| TcpListener::bind(Port::free().unwrap().address()).unwrap()).collect();
        let used: BTreeSet<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let ports: Vec<_> = (0..500).map(|_| Port::free().unwrap()).collect();
        assert!(ports.iter().all(|port| !used.contains(&port.address())));
    }
}
