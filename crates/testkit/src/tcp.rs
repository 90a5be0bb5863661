//! A TCP server for what no proper server would do.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use tokio::net::TcpStream;

use crate::background::Background;

/// A TCP server. Ends when it is dropped, with all its connections.
#[derive(Debug)]
pub struct TcpServer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _background: Background,
}

impl TcpServer {
    /// Do this with every connection, given how many there were before it.
    pub fn start<F>(handle: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = bind("127.0.0.1:0").expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let connections = Arc::new(AtomicUsize::new(0));
        let (background, count) = (Background::new(), connections.clone());
        background.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it does not block");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(handle(stream, count.fetch_add(1, Ordering::SeqCst)));
            }
        });
        Self { address, connections, _background: background }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// How many connections it has accepted.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Pass on what comes from either side to the other.
pub async fn forward(mut stream: TcpStream, address: String) {
    if let Ok(mut target) = TcpStream::connect(address).await {
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut target).await;
    }
}

/// A listener that a runtime can take over.
pub(crate) fn bind(address: &str) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A port that is free, given out once.
pub fn free_port() -> u16 {
    let [port] = free_ports();
    port
}

/// Ports that are free, each given out once.
pub fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    static NEXT: AtomicU16 = AtomicU16::new(FIRST_PORT);
    std::array::from_fn(|_| {
        let mut candidates = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
        candidates
            .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
            .expect("the candidates do not end")
    })
}

/// Below the range from which Linux takes the ports of connections and of listeners that name none. One of those would be taken again
/// before the program that it was chosen for can listen on it.
const FIRST_PORT: u16 = 20_000;
