//! Calls functions by names that have many addresses.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_runner::CallError;
use ferroplane_runner::grpc::{Client, Options, Resolve};
use ferroplane_testkit::raw::{HttpServer, answer, message};
use ferroplane_testkit::{FunctionServer, Pki, Versions};
use tokio::sync::mpsc;

use super::tls::secure;
use super::{call_after_a_loss, echoes, failure, impatient};
use crate::{asks, said, says};

/// A name server.
#[derive(Clone, Default)]
pub(super) struct Names(pub(super) Arc<Mutex<Vec<IpAddr>>>);

impl Names {
    pub(super) fn of<const N: usize>(addresses: [[u8; 4]; N]) -> Self {
        let names = Self::default();
        names.change_to(addresses);
        names
    }

    fn change_to<const N: usize>(&self, addresses: [[u8; 4]; N]) {
        *self.0.lock().unwrap() = addresses.map(IpAddr::from).into();
    }

    pub(super) fn resolve(&self) -> Resolve {
        let names = self.0.clone();
        Resolve::new(move |host, port| {
            assert_eq!(host, "function.test");
            let addresses = names.lock().unwrap().iter().map(|ip| SocketAddr::new(*ip, port)).collect();
            async move { Ok(addresses) }
        })
    }

    pub(super) fn client(&self, port: u16, options: Options) -> Client {
        let target = format!("dns:///function.test:{port}").parse().unwrap();
        Client::with_resolver(target, options, self.resolve()).unwrap()
    }
}

/// Two servers on the same port of two addresses. Each says which one it is. Nothing else uses these, so
/// nobody takes the port of one that is stopped.
async fn pair() -> (FunctionServer, FunctionServer) {
    let first = FunctionServer::serve("127.0.0.2:0", Versions::Both, None, |_| Ok(says("first"))).await;
    let address = format!("127.0.0.3:{}", first.port());
    let second = FunctionServer::serve(&address, Versions::Both, None, |_| Ok(says("second"))).await;
    (first, second)
}

/// Call until this one answers.
async fn call_until(client: &Client, wanted: &str) {
    for _ in 0..1000 {
        if said(&client.call(&asks("hello")).await.unwrap()) == wanted {
            return;
        }
    }
    panic!("{wanted} was never called");
}

#[tokio::test]
async fn calls_are_spread_over_all_addresses_of_a_name() {
    let (first, _second) = pair().await;
    let client = Names::of([[127, 0, 0, 2], [127, 0, 0, 3]]).client(first.port(), Options::default());
    call_until(&client, "first").await;
    call_until(&client, "second").await;
    call_until(&client, "first").await;
}

#[tokio::test]
async fn address_that_is_dead_stops_no_call() {
    let (first, _second) = pair().await;
    let client =
        Names::of([[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 4]]).client(first.port(), Options::default());
    call_until(&client, "first").await;
    first.stop().await;
    assert_eq!(said(&call_after_a_loss(&client).await), "second");
    call_after_a_loss(&client).await;
    for _ in 0..50 {
        assert_eq!(said(&client.call(&asks("hello")).await.unwrap()), "second");
    }
}

#[tokio::test]
async fn function_that_moves_is_followed() {
    let (first, second) = pair().await;
    let names = Names::of([[127, 0, 0, 2]]);
    // Sooner than names are resolved when nothing is wrong.
    let client =
        names.client(first.port(), Options { timeout: Duration::from_secs(10), ..Options::default() });
    assert_eq!(said(&client.call(&asks("hello")).await.unwrap()), "first");

    names.change_to([[127, 0, 0, 3]]);
    let address = first.address();
    first.stop().await;
    assert_eq!(said(&call_after_a_loss(&client).await), "second");

    let _first = FunctionServer::serve(&address, Versions::Both, None, |_| Ok(says("first"))).await;
    names.change_to([[127, 0, 0, 2]]);
    second.stop().await;
    assert_eq!(said(&call_after_a_loss(&client).await), "first");
}

#[tokio::test]
async fn name_without_addresses_is_given_up_on() {
    let error = failure(&Names::of([]).client(9443, impatient())).await;
    let text = error.to_string();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert_eq!(
        text,
        "cannot reach the function at dns:///function.test:9443 within 0.5s: `function.test` has no addresses"
    );
}

#[tokio::test]
async fn name_that_cannot_be_resolved_is_given_up_on() {
    let resolve = Resolve::new(|_, _| async { Err(std::io::Error::other("the name server is on strike")) });
    let target = "dns:///function.test:9443".parse().unwrap();
    let client = Client::with_resolver(target, impatient(), resolve).unwrap();
    let error = failure(&client).await;
    let text = error.to_string();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert!(text.ends_with("cannot resolve `function.test`: the name server is on strike"), "{text}");
}

#[tokio::test]
async fn function_is_known_by_its_name_wherever_it_is() {
    let pki = Pki::new();
    let identity = pki.issue(&["function.test"]);
    let server = FunctionServer::serve("127.0.0.1:0", Versions::Both, Some((&pki, identity)), echoes).await;
    let client = Names::of([[127, 0, 0, 1]]).client(server.port(), secure(&pki, pki.issue(&["plane"])));
    assert_eq!(said(&client.call(&asks("hello")).await.unwrap()), "hello");

    let (sender, mut authorities) = mpsc::unbounded_channel();
    let server = HttpServer::start(move |request| {
        sender.send(request.uri().authority().unwrap().host().to_owned()).unwrap();
        answer(&[], message(b""), &[("grpc-status", "0")])
    });
    let port = server.address().parse::<SocketAddr>().unwrap().port();
    Names::of([[127, 0, 0, 1]]).client(port, Options::default()).call(&asks("hello")).await.unwrap();
    assert_eq!(authorities.recv().await.unwrap(), "function.test");
}
