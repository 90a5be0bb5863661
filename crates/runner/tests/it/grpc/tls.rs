//! Calls functions over TLS, and what speaks something else.

use std::future::pending;
use std::sync::Arc;

use ferroplane_runner::CallError;
use ferroplane_runner::grpc::{Client, Options, Tls};
use ferroplane_testkit::{FunctionServer, Leaf, Pki, TcpServer, Versions};

use tokio::sync::{Semaphore, watch};

use super::{client, echoes, failure, impatient, text};
use crate::{asks, said};

/// Trusts this authority, and is this one.
pub(super) fn secure(authority: &Pki, identity: Leaf) -> Options {
    let tls =
        Tls { ca: authority.ca().into(), certificate: identity.certificate.into(), key: identity.key.into() };
    Options { tls: Some(tls), ..Options::default() }
}

async fn secure_server(authority: &Pki, identity: Leaf) -> (FunctionServer, String) {
    let server =
        FunctionServer::serve("127.0.0.1:0", Versions::Both, Some((authority, identity)), echoes).await;
    let address = format!("localhost:{}", server.port());
    (server, address)
}

#[tokio::test]
async fn function_answers_over_mutual_tls() {
    let pki = Pki::new();
    let (_server, address) = secure_server(&pki, pki.issue(&["localhost"])).await;
    let client = client(&address, secure(&pki, pki.issue(&["plane"])));
    assert_eq!(said(&client.call(&asks("hello")).await.unwrap()), "hello");
}

#[tokio::test]
async fn certificates_are_renewed_without_breaking_off_a_call() {
    let (pki, other) = (Pki::new(), Pki::new());
    let (arrived, may_answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (hears, waits) = (arrived.clone(), may_answer.clone());
    let identity = Some((&pki, pki.issue(&["localhost"])));
    let server = FunctionServer::serve_async("127.0.0.1:0", Versions::Both, identity, move |request| {
        let (hears, waits) = (hears.clone(), waits.clone());
        async move {
            if request.meta.as_ref().is_some_and(|meta| meta.tag == "slow") {
                hears.add_permits(1);
                let _ = waits.acquire().await;
            }
            echoes(request)
        }
    });
    let server = server.await;
    let tls = |authority: &Pki| secure(authority, authority.issue(&["plane"])).tls.unwrap();
    let certificates = watch::Sender::new(tls(&pki));
    let options =
        Options { tls: Some(tls(&pki)), renewed_tls: Some(certificates.subscribe()), ..Options::default() };
    let client = Arc::new(client(&format!("localhost:{}", server.port()), options));
    let slow = {
        let client = client.clone();
        tokio::spawn(async move { client.call(&asks("slow")).await })
    };
    let _ = arrived.acquire().await.unwrap();

    certificates.send_replace(tls(&pki));
    assert_eq!(said(&client.call(&asks("renewed")).await.unwrap()), "renewed");
    // Of an authority that the server does not know: only who connects anew is refused.
    certificates.send_replace(tls(&other));
    assert!(matches!(failure(&client).await, CallError::Tls { .. }));
    certificates.send_replace(Tls { key: b"no key".to_vec(), ..tls(&other) });
    assert!(matches!(failure(&client).await, CallError::Tls { .. }), "the last that could be read counts");
    certificates.send_replace(tls(&pki));
    assert_eq!(said(&client.call(&asks("again")).await.unwrap()), "again");

    may_answer.add_permits(1);
    assert_eq!(said(&slow.await.unwrap().unwrap()), "slow");
}

#[tokio::test]
async fn certificate_of_another_authority_is_refused() {
    let (pki, other) = (Pki::new(), Pki::new());
    let (_server, address) = secure_server(&pki, pki.issue(&["localhost"])).await;
    let client = client(&address, secure(&other, pki.issue(&["plane"])));
    let error = failure(&client).await;
    let text = text(&error, &address);
    assert!(matches!(error, CallError::Tls { .. }), "{error:?}");
    assert!(
        text.starts_with("cannot establish TLS with the function at ADDRESS: invalid peer certificate: "),
        "{text}"
    );
    assert!(text.ends_with(" (is it signed by the certificate authority that we were given?)"), "{text}");
}

#[tokio::test]
async fn function_that_does_not_accept_our_certificate_always_gives_the_same_error() {
    let (pki, other) = (Pki::new(), Pki::new());
    let (_server, address) = secure_server(&pki, pki.issue(&["localhost"])).await;
    let client = client(&address, secure(&pki, other.issue(&["plane"])));
    for _ in 0..20 {
        let error = failure(&client).await;
        let text = text(&error, &address);
        assert!(matches!(error, CallError::Tls { .. }), "{error:?}");
        assert_eq!(
            text,
            "cannot establish TLS with the function at ADDRESS: it hung up after the handshake (does it \
             accept our certificate?)"
        );
    }
}

#[tokio::test]
async fn expired_certificate_is_refused_without_telling_the_time() {
    let pki = Pki::new();
    let (_server, address) = secure_server(&pki, pki.issue_expired(&["localhost"])).await;
    let client = client(&address, secure(&pki, pki.issue(&["plane"])));
    let error = failure(&client).await;
    let text = text(&error, &address);
    assert_eq!(
        text,
        "cannot establish TLS with the function at ADDRESS: invalid peer certificate: certificate expired"
    );
}

#[tokio::test]
async fn certificate_for_another_name_is_refused() {
    let pki = Pki::new();
    let (_server, address) = secure_server(&pki, pki.issue(&["elsewhere.test"])).await;
    let client = client(&address, secure(&pki, pki.issue(&["plane"])));
    let error = failure(&client).await;
    let text = text(&error, &address);
    assert!(text.contains("not valid for name \"localhost\"") && text.contains("elsewhere.test"), "{text}");
}

#[tokio::test]
async fn function_without_tls_is_told_from_one_with() {
    let pki = Pki::new();
    let server = FunctionServer::start(echoes).await;
    let client = client(&server.address(), secure(&pki, pki.issue(&["plane"])));
    let error = failure(&client).await;
    let text = text(&error, &server.address());
    assert!(matches!(error, CallError::Tls { .. }), "{error:?}");
    assert!(text.ends_with(" (does it serve without TLS?)"), "{text}");
}

#[tokio::test]
async fn function_with_tls_is_told_from_one_without() {
    let pki = Pki::new();
    let (_server, address) = secure_server(&pki, pki.issue(&["localhost"])).await;
    let client = client(&address, Options::default());
    for _ in 0..20 {
        let error = failure(&client).await;
        let text = text(&error, &address);
        assert!(matches!(error, CallError::Lost { .. }), "{error:?}");
        assert_eq!(
            text,
            "lost the connection to the function at ADDRESS before it answered: it closed the connection or does not \
             speak HTTP/2 (does it expect TLS?)"
        );
    }
}

#[tokio::test]
async fn peer_that_is_silent_in_the_handshake_is_given_up_on() {
    let pki = Pki::new();
    let server = TcpServer::start(|stream, _| async move {
        let _open = stream;
        pending::<()>().await;
    });
    let options = Options { tls: secure(&pki, pki.issue(&["plane"])).tls, ..impatient() };
    let error = failure(&client(&server.address(), options)).await;
    let text = text(&error, &server.address());
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert!(text.ends_with("does not take part in the TLS handshake (does it serve without TLS?)"), "{text}");
}

#[test]
fn certificates_that_are_none_are_refused_at_once() {
    let pki = Pki::new();
    let mut options = secure(&pki, pki.issue(&["plane"]));
    options.tls.as_mut().unwrap().key = b"no key".to_vec();
    for target in ["localhost:9443", "dns:///function.test:9443"] {
        let error = Client::new(target.parse().unwrap(), options.clone()).unwrap_err();
        assert!(matches!(error, CallError::Tls { .. }), "{error:?}");
        assert!(error.to_string().contains(target) && error.to_string().contains("private key"), "{error}");
    }
}

#[test]
fn address_of_any_kind_may_have_a_certificate() {
    let pki = Pki::new();
    for target in ["[::1]:9443", "127.0.0.1:9443", "function_1.test.:9443", "dns:///function.test:9443"] {
        Client::new(target.parse().unwrap(), secure(&pki, pki.issue(&["plane"]))).unwrap();
    }
}
