//! The connection to the host: sends requests, and hands its reports to a caller that waits for them.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::ledger::Entry;
use crate::protocol::{self, Ended, Report, Request};

/// A handle of the host. The host ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub(super) struct Host {
    outgoing: mpsc::UnboundedSender<Packet>,
    waiting: Arc<Mutex<Waiting>>,
    gone: watch::Receiver<bool>,
    closing: Arc<Notify>,
}

type Packet = (Request, Vec<OwnedFd>);
type Connection = Result<OwnedFd, String>;

/// Who waits for a report. Dropping a sender tells them that there will be none.
#[derive(Debug, Default)]
struct Waiting {
    is_gone: bool,
    ends: HashMap<u64, oneshot::Sender<Ended>>,
    connections: HashMap<u64, oneshot::Sender<Connection>>,
}

impl Host {
    pub(super) fn new(socket: UnixStream, child: Child, entry: Entry) -> Self {
        let (outgoing, requests) = mpsc::unbounded_channel();
        let waiting = Arc::<Mutex<Waiting>>::default();
        let (gone_sender, gone) = watch::channel(false);
        let closing = Arc::<Notify>::default();
        let host = Self { outgoing, waiting: Arc::clone(&waiting), gone, closing: Arc::clone(&closing) };
        tokio::spawn(async move {
            let socket = Arc::new(socket);
            tokio::select! {
                () = write_all(Arc::clone(&socket), requests) => {}
                () = read_all(&socket, &waiting) => {}
                () = closing.notified() => {}
            }
            // The host takes the closed socket as the word to end.
            drop(socket);
            *lock(&waiting) = Waiting { is_gone: true, ..Waiting::default() };
            end(child, entry).await;
            let _ = gone_sender.send(true);
        });
        host
    }

    pub(super) fn is_gone(&self) -> bool {
        lock(&self.waiting).is_gone
    }

    /// Sends a request. If the host has ended, a caller that waits for an answer gets an error.
    pub(super) fn send(&self, request: Request, files: Vec<OwnedFd>) {
        let _ = self.outgoing.send((request, files));
    }

    /// Gives notice that a container will end.
    pub(super) fn await_end(&self, id: u64) -> oneshot::Receiver<Ended> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if !waiting.is_gone {
            waiting.ends.insert(id, sender);
        }
        receiver
    }

    /// Gives notice that a connection will be answered.
    pub(super) fn await_connection(&self, request: u64) -> oneshot::Receiver<Connection> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if !waiting.is_gone {
            waiting.connections.insert(request, sender);
        }
        receiver
    }

    /// Ends the host, whatever other handles of it exist.
    pub(super) fn give_up(&self) {
        self.closing.notify_one();
    }

    /// Ends the host, and waits until it is gone.
    pub(super) async fn close(self, patience: Duration) {
        self.give_up();
        let mut gone = self.gone;
        let _ = tokio::time::timeout(patience, gone.wait_for(|gone| *gone)).await;
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives one message of the host.
pub(super) async fn receive(socket: &UnixStream) -> io::Result<Option<(Report, Vec<OwnedFd>)>> {
    loop {
        socket.readable().await?;
        match socket.try_io(Interest::READABLE, || protocol::receive(socket)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

async fn read_all(socket: &UnixStream, waiting: &Mutex<Waiting>) {
    while let Ok(Some((report, files))) = receive(socket).await {
        let mut waiting = lock(waiting);
        match report {
            Report::Ended(ended) => {
                if let Some(waiter) = waiting.ends.remove(&ended.id) {
                    let _ = waiter.send(ended);
                }
            }
            Report::Connected { request } => {
                let connection = files.into_iter().next().ok_or_else(|| "there is no socket".to_owned());
                waiting.answer(request, connection);
            }
            Report::NotConnected { request, message } => waiting.answer(request, Err(message)),
            Report::Unshared | Report::Ready | Report::Refused { .. } => {}
        }
    }
}

impl Waiting {
    fn answer(&mut self, request: u64, connection: Connection) {
        if let Some(waiter) = self.connections.remove(&request) {
            let _ = waiter.send(connection);
        }
    }
}

async fn write_all(socket: Arc<UnixStream>, mut requests: mpsc::UnboundedReceiver<Packet>) {
    while let Some((request, files)) = requests.recv().await {
        let files: Vec<_> = files.iter().map(OwnedFd::as_fd).collect();
        let written = loop {
            if socket.writable().await.is_err() {
                return;
            }
            match socket.try_io(Interest::WRITABLE, || protocol::send(&*socket, &request, &files)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => break result,
            }
        };
        // A request that cannot be sent would never be answered.
        if written.is_err() {
            return;
        }
    }
}

/// Waits until the host is gone, and with it everything that it started.
async fn end(mut child: Child, entry: Entry) {
    if tokio::time::timeout(Duration::from_secs(5), child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
    entry.remove();
}
