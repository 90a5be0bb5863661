//! The names that a server goes by.

use std::net::SocketAddr;

/// Names that every server has: what it is called on this machine, and what programs in a cluster call it.
pub fn server_names(listen: SocketAddr) -> Vec<String> {
    let fixed = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let mut names: Vec<_> = fixed.map(str::to_owned).into();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let address = listen.ip();
    // A server that listens everywhere has no address of its own.
    let address = (!address.is_unspecified()).then(|| address.to_string());
    for name in std::iter::once(host).chain(address) {
        if !name.is_empty() && name.is_ascii() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
