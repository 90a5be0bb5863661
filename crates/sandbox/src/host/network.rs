//! Connects to a port in the network namespace of a container, or listens on one.
//!
//! A socket belongs to the namespace in which it was made, wherever it is used: the host makes it in there and hands it out, so that no
//! byte has to be copied on the way.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::protocol::{self, Report};

/// The timeout of a connection: the network namespace is on this machine.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn connect(process: Pid, is_isolated: bool, request: u64, port: u16) {
    hand_out(request, move || open(process, is_isolated, port));
}

/// Listens in a network that is not ours.
pub(super) fn listen(process: Pid, request: u64, port: u16) {
    hand_out(request, move || {
        enter(process, true)?;
        // Not on the loopback alone: its interface may not be up yet, and there is no other.
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
    });
}

/// Opens a socket, in a thread of its own: a thread that has moved to another namespace does not come back.
fn hand_out<S: AsFd>(request: u64, open: impl FnOnce() -> io::Result<S> + Send + 'static) {
    let spawned = thread::Builder::new().name("connect".to_owned()).spawn(move || match open() {
        Ok(socket) => {
            let report = Report::Connected { request };
            let _ = protocol::send(&io::stdin(), &report, &[socket.as_fd()]);
        }
        Err(error) => refuse(request, &error.to_string()),
    });
    if let Err(error) = spawned {
        refuse(request, &error.to_string());
    }
}

/// Says that there is no socket.
pub(super) fn refuse(request: u64, message: &str) {
    let report = Report::NotConnected { request, message: message.to_owned() };
    let _ = protocol::send(&io::stdin(), &report, &[]);
}

/// Moves this thread to the network of a container.
fn enter(process: Pid, is_isolated: bool) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{}/ns/net", process.as_raw_nonzero()))?;
    let is_own = namespace.metadata()?.ino() == fs::metadata("/proc/self/ns/net")?.ino();
    match (is_own, is_isolated) {
        // Until the runtime has set up its namespaces, its child is in our own network, where another process may
        // listen on that port.
        (true, true) => Err(io::Error::other("the container has no network yet")),
        // The network of the machine is not that of our user namespace, so that we may not move there, though we are there.
        (true, false) => Ok(()),
        (false, _) => Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?),
    }
}

fn open(process: Pid, is_isolated: bool, port: u16) -> io::Result<TcpStream> {
    enter(process, is_isolated)?;
    let addresses =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    let mut last = io::Error::from(io::ErrorKind::ConnectionRefused);
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_still_in_our_network_is_no_container() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listener");
        let port = listener.local_addr().expect("address").port();
        let refusal = open(rustix::process::getpid(), true, port).expect_err("it is our own network");
        assert_eq!(refusal.to_string(), "the container has no network yet");
        listener.set_nonblocking(true).expect("mode");
        assert!(listener.accept().is_err(), "nobody came");
    }
}
