//! What code may see of the machine. By default nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wasmtime_wasi::sockets::SocketAddrUse;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use crate::clocks::{Seeded, StillMonotonicClock, StillWallClock};
use crate::error::Error;

/// What code may see of the machine it runs on. By default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Variables of its environment, with their values. None of our own environment is ever passed on.
    pub env: BTreeMap<String, String>,
    /// Directories that it may open.
    pub directories: Vec<Directory>,
    /// Addresses that it may connect to. It may never listen, and names are not resolved for it.
    pub addresses: BTreeSet<SocketAddr>,
    /// The clocks of the machine.
    pub clock: bool,
    /// The random numbers of the machine.
    pub randomness: bool,
}

/// A directory that code may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Where it is on this machine.
    pub path: PathBuf,
    /// What the code calls it.
    pub name: String,
    pub is_writable: bool,
}

/// The time and the randomness that code sees which was granted neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stillness {
    /// What its clock shows, as time since 1970.
    pub now: Duration,
    /// What its random numbers are computed from.
    pub seed: u64,
}

impl Grants {
    /// Whether nothing at all is granted.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// A WASI context in which only this can be seen.
    pub(crate) fn context(&self, stillness: Stillness) -> Result<WasiCtxBuilder, Error> {
        let mut wasi = WasiCtxBuilder::new();
        wasi.arg("function");
        for (name, value) in &self.env {
            wasi.env(name, value);
        }
        for directory in &self.directories {
            let permission = if directory.is_writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            wasi.preopened_dir(&directory.path, &directory.name, permission)
                .map_err(|source| Error::Directory { path: directory.path.clone(), source: source.into() })?;
        }
        self.grant_addresses(&mut wasi);
        if !self.clock {
            wasi.wall_clock(StillWallClock(stillness.now));
            wasi.monotonic_clock(StillMonotonicClock::default());
        }
        if !self.randomness {
            wasi.secure_random(Seeded::new(stillness.seed));
            wasi.insecure_random(Seeded::new(stillness.seed));
            wasi.insecure_random_seed(u128::from(stillness.seed));
        }
        // The host holds them while it hands them over, which no limit of the call counts.
        wasi.max_random_size(1 << 20);
        Ok(wasi)
    }

    fn grant_addresses(&self, wasi: &mut WasiCtxBuilder) {
        wasi.allow_ip_name_lookup(false);
        wasi.allow_udp(false);
        wasi.allow_tcp(!self.addresses.is_empty());
        let granted = Arc::new(self.addresses.clone());
        wasi.socket_addr_check(move |address, wanted| {
            let is_granted = match wanted {
                SocketAddrUse::TcpConnect => granted.contains(&address),
                // A socket is bound to the unspecified address by the host itself before it connects.
                SocketAddrUse::TcpBind => address.ip().is_unspecified() && address.port() == 0,
                // Also whatever a later version of the engine asks about.
                _ => false,
            };
            Box::pin(async move { is_granted })
        });
    }
}
