//! Leads a program that has a network of its own to addresses of this machine, and to nothing else.
//!
//! The host listens in the program's network, and hands the listener out: bytes are copied by this process, and the program sees no
//! other end than that.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::Runtime;
use super::super::connection::Host;
use super::super::start::Started;
use super::Serve;
use crate::protocol::Request;

/// How often to ask whether the program has a network yet. It has one long before it runs.
const KNOCK: Duration = Duration::from_millis(1);
/// How often at most: the program may have ended.
const MOST_KNOCKS: usize = 10_000;
/// How many connections one program may have.
const MOST_CONNECTIONS: usize = 256;

/// A port of the program's own loopback that leads to an address of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    pub port: u16,
    pub to: SocketAddr,
}

impl Runtime {
    /// Lead a program that was just started to where it may go. It ends with what is returned.
    pub(super) fn forward(&self, serve: &Serve, started: &Started) -> JoinSet<()> {
        let mut forwards = JoinSet::new();
        for forward in &serve.forwards {
            forwards.spawn(keep(self.clone(), started.host.clone(), started.id, *forward));
        }
        forwards
    }

    async fn listen(&self, host: &Host, id: u64, port: u16) -> Option<OwnedFd> {
        for _ in 0..MOST_KNOCKS {
            let request = self.number();
            let answer = host.await_connection(request);
            host.send(Request::Listen { id, request, port }, Vec::new());
            match answer.await {
                Ok(Ok(listener)) => return Some(listener),
                Ok(Err(_)) => sleep(KNOCK).await,
                // The host is gone, and the program with it.
                Err(_) => return None,
            }
        }
        None
    }
}

async fn keep(runtime: Runtime, host: Host, id: u64, forward: Forward) {
    let Some(listener) = runtime.listen(&host, id, forward.port).await else { return };
    let listener = std::net::TcpListener::from(listener);
    let Ok(listener) = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) else {
        return;
    };
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let Ok((inside, _)) = listener.accept().await else {
            // Too many open files, say: what is open may end.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        connections.spawn(async move {
            join(inside, forward.to).await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Copies bytes until one side has had enough.
async fn join(mut inside: TcpStream, to: SocketAddr) {
    let Ok(mut outside) = TcpStream::connect(to).await else { return };
    let _ = (inside.set_nodelay(true), outside.set_nodelay(true));
    let _ = copy_bidirectional(&mut inside, &mut outside).await;
}
