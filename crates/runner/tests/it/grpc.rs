//! Calls functions over gRPC.

mod balance;
mod tls;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferroplane_api::Cause;
use ferroplane_runner::CallError;
use ferroplane_runner::grpc::{Client, Options};
use ferroplane_testkit::raw::{HttpServer, answer, message};
use ferroplane_testkit::{FunctionServer, TcpServer, Versions, forward};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::{asks, said, says};
use balance::Names;

fn client(address: &str, options: Options) -> Client {
    Client::new(address.parse().unwrap(), options).unwrap()
}

/// For what is expected not to answer.
fn impatient() -> Options {
    Options { timeout: Duration::from_millis(500), ..Options::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "it is what functions do")]
fn echoes(request: RunFunctionRequest) -> Result<RunFunctionResponse, Status> {
    Ok(says(request.meta.unwrap_or_default().tag))
}

async fn failure(client: &Client) -> CallError {
    client.call(&asks("hello")).await.unwrap_err()
}

/// A call after a server has gone. One may still go to a connection whose end is not known yet, and no more.
async fn call_after_a_loss(client: &Client) -> RunFunctionResponse {
    match client.call(&asks("hello")).await {
        Err(CallError::Lost { .. }) => client.call(&asks("hello")).await.unwrap(),
        result => result.unwrap(),
    }
}

/// What an error says, wherever the function was.
fn text(error: &CallError, address: &str) -> String {
    error.to_string().replace(address, "ADDRESS")
}

#[tokio::test]
async fn function_answers_in_plain_text() {
    let server = FunctionServer::start(echoes).await;
    let client = client(&server.address(), Options::default());
    assert_eq!(said(&client.call(&asks("hello")).await.unwrap()), "hello");
}

/// An address that nothing listens on, and nobody will by chance.
fn reserve() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

#[tokio::test]
async fn call_waits_for_the_function_to_come_up() {
    let (_reserved, address) = reserve();
    let client = client(&address, Options::default());
    let request = asks("hello");
    let mut call = Box::pin(client.call(&request));
    // There is nothing to await: a connection that is refused leaves no trace.
    let early = tokio::time::timeout(Duration::from_millis(100), &mut call).await;
    assert!(early.is_err(), "{early:?}");

    let _server = FunctionServer::serve(&address, Versions::Both, None, echoes).await;
    assert_eq!(said(&call.await.unwrap()), "hello");
}

#[tokio::test]
async fn function_that_does_not_come_up_is_given_up_on() {
    let (_reserved, address) = reserve();
    let error = failure(&client(&address, impatient())).await;
    let text = text(&error, &address);
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    let expected = "cannot reach the function at ADDRESS within 0.5s: Connection refused";
    assert!(text.starts_with(expected), "{text}");
}

#[tokio::test]
async fn function_that_is_not_there_is_known_in_seconds_however_long_it_may_work() {
    let (_reserved, address) = reserve();
    let client = client(&address, Options { timeout: Duration::from_hours(1), ..Options::default() });
    let began_at = std::time::Instant::now();
    let first = text(&failure(&client).await, &address);
    assert!(
        first.starts_with("cannot reach the function at ADDRESS within 2s: Connection refused"),
        "{first}"
    );
    assert!(began_at.elapsed() < Duration::from_secs(20), "{:?}", began_at.elapsed());
    // The caller next is told the same, and does not wait: nobody has seen it since.
    let began_at = std::time::Instant::now();
    for _ in 0..10 {
        assert_eq!(text(&failure(&client).await, &address), first);
    }
    assert!(began_at.elapsed() < Duration::from_secs(10), "{:?}", began_at.elapsed());
}

#[tokio::test]
async fn function_that_is_back_is_noticed_without_a_call() {
    let (_reserved, address) = reserve();
    let client = client(&address, impatient());
    let back = Arc::new(tokio::sync::Notify::new());
    let noticed = back.clone();
    client.on_return(move || noticed.notify_one());
    assert!(matches!(failure(&client).await, CallError::Unreachable { .. }));
    let _server = FunctionServer::serve(&address, Versions::Both, None, echoes).await;
    tokio::time::timeout(Duration::from_secs(30), back.notified()).await.unwrap();
    assert_eq!(said(&client.call(&asks("hello")).await.unwrap()), "hello");
}

#[tokio::test]
async fn name_without_an_address_is_known_in_seconds() {
    let client = balance::Names::of([]).client(9443, Options::default());
    let began_at = std::time::Instant::now();
    let text = failure(&client).await.to_string();
    assert!(text.ends_with("within 2s: `function.test` has no addresses"), "{text}");
    assert!(began_at.elapsed() < Duration::from_secs(20), "{:?}", began_at.elapsed());
}

#[tokio::test]
async fn function_that_does_not_answer_is_given_up_on() {
    let server = FunctionServer::start_async(|_| pending()).await;
    let error = failure(&client(&server.address(), impatient())).await;
    let text = text(&error, &server.address());
    assert!(matches!(error, CallError::Timeout { .. }), "{error:?}");
    assert_eq!(text, "the function at ADDRESS did not answer within 0.5s");
}

#[tokio::test]
async fn connection_without_an_answer_is_not_used_again() {
    let server = FunctionServer::start(echoes).await;
    let address = server.address();
    let (closed, mut is_closed) = mpsc::unbounded_channel();
    let proxy = TcpServer::start(move |mut stream, nth| {
        let (address, closed) = (address.clone(), closed.clone());
        async move {
            if nth > 0 {
                return forward(stream, address).await;
            }
            while stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {}
            closed.send(()).unwrap();
        }
    });
    let client = client(&proxy.address(), Options { timeout: Duration::from_secs(2), ..Options::default() });
    let error = client.call(&asks("hello")).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error:?}");
    assert_eq!(said(&client.call(&asks("again")).await.unwrap()), "again");
    is_closed.recv().await.unwrap();
}

#[tokio::test]
async fn client_that_is_dropped_leaves_no_connection_behind() {
    let server = FunctionServer::start(echoes).await;
    let address = server.address();
    let (closed, mut is_closed) = mpsc::unbounded_channel();
    let proxy = TcpServer::start(move |stream, _| {
        let (address, closed) = (address.clone(), closed.clone());
        async move {
            forward(stream, address).await;
            closed.send(()).unwrap();
        }
    });
    let names = Names::of([[127, 0, 0, 1]]);
    let port = proxy.address().parse::<SocketAddr>().unwrap().port();
    for client in [client(&proxy.address(), Options::default()), names.client(port, Options::default())] {
        client.call(&asks("hello")).await.unwrap();
        assert!(is_closed.try_recv().is_err());
        drop(client);
        is_closed.recv().await.unwrap();
    }
    // Nobody asks for addresses any more, either.
    assert_eq!(Arc::strong_count(&names.0), 1);
}

#[tokio::test]
async fn request_that_the_function_did_not_touch_is_sent_again() {
    let server = FunctionServer::start(echoes).await;
    let address = server.address();
    let proxy = TcpServer::start(move |mut stream, nth| {
        let address = address.clone();
        async move {
            if nth > 0 {
                return forward(stream, address).await;
            }
            // An HTTP/2 server that ends: its settings, and the word that it has done nothing for anybody.
            stream.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
            stream.write_all(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0").await.unwrap();
            while stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {}
        }
    });
    let client = client(&proxy.address(), Options::default());
    assert_eq!(said(&client.call(&asks("hello")).await.unwrap()), "hello");
    assert_eq!((server.calls(), proxy.connections()), (1, 2));
}

#[tokio::test]
async fn connection_that_breaks_during_a_call_is_said_to_be_lost() {
    let (ended, mut may_end) = mpsc::unbounded_channel();
    let server = FunctionServer::start_async(move |request| {
        let ended = ended.clone();
        async move {
            if request.meta.clone().unwrap_or_default().tag == "hello" {
                return echoes(request);
            }
            ended.send(()).unwrap();
            pending().await
        }
    })
    .await;
    let address = server.address();
    let client = client(&address, Options::default());
    client.call(&asks("hello")).await.unwrap();

    let request = asks("crash");
    let crash = async {
        may_end.recv().await.unwrap();
        drop(server);
    };
    let (result, ()) = tokio::join!(client.call(&request), crash);
    let text = text(&result.unwrap_err(), &address);
    assert_eq!(
        text,
        "lost the connection to the function at ADDRESS before it answered: it closed the connection"
    );
}

#[tokio::test]
async fn peer_that_hangs_up_is_said_to_be_lost() {
    let server = TcpServer::start(|mut stream, _| async move {
        let _ = stream.read(&mut [0; 1024]).await;
    });
    let error = failure(&client(&server.address(), Options::default())).await;
    assert!(matches!(error, CallError::Lost { .. }), "{error:?}");
}

#[tokio::test]
async fn peer_that_speaks_no_http2_is_told_so() {
    for greeting in
        ["SSH-2.0-OpenSSH_9.6\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\0\0\0\0\0\0\0\0\0"]
    {
        let server = TcpServer::start(move |mut stream, _| async move {
            let _ = stream.write_all(greeting.as_bytes()).await;
            while stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {}
        });
        let error = failure(&client(&server.address(), Options::default())).await;
        let text = text(&error, &server.address());
        assert!(matches!(error, CallError::Lost { .. }), "{error:?}");
        assert!(
            text.ends_with("it closed the connection or does not speak HTTP/2 (does it expect TLS?)"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn function_that_was_restarted_is_found_again() {
    let server = FunctionServer::serve("127.0.0.2:0", Versions::Both, None, echoes).await;
    let address = server.address();
    let client = client(&address, Options::default());
    client.call(&asks("hello")).await.unwrap();

    server.stop().await;
    let _server = FunctionServer::serve(&address, Versions::Both, None, echoes).await;
    assert_eq!(said(&call_after_a_loss(&client).await), "hello");
}

#[tokio::test]
async fn answer_that_is_no_message_is_refused() {
    let server = HttpServer::start(|_| answer(&[], message(b"\xff\xff\xff"), &[("grpc-status", "0")]));
    let error = failure(&client(&server.address(), Options::default())).await;
    let text = text(&error, &server.address());
    assert!(matches!(error, CallError::Garbage { .. }), "{error:?}");
    let expected =
        "the answer of the function at ADDRESS is not a RunFunctionResponse: failed to decode Protobuf";
    assert!(text.starts_with(expected), "{text}");
}

#[tokio::test]
async fn answer_that_is_not_grpc_is_refused() {
    type Answer = fn() -> http::Response<tonic::body::Body>;
    let answers: [(&str, Answer); 5] = [
        ("html", || answer(&[], "<html>".into(), &[])),
        ("nothing", || answer(&[], "".into(), &[("grpc-status", "0")])),
        ("half a message", || answer(&[], "\0\0\0\0\x05abc".into(), &[])),
        ("no status", || answer(&[], message(b""), &[])),
        ("compressed", || answer(&[("grpc-encoding", "gzip")], message(b""), &[("grpc-status", "0")])),
    ];
    for (what, answer) in answers {
        let server = HttpServer::start(move |_| answer());
        let error = failure(&client(&server.address(), Options::default())).await;
        assert!(matches!(error, CallError::Garbage { .. }), "{what}: {error:?}");
    }
}

#[tokio::test]
async fn status_details_that_are_nonsense_do_no_harm() {
    const STATUS: [(&str, &str); 2] = [("grpc-status", "3"), ("grpc-status-details-bin", "!")];
    for (headers, trailers) in [(&STATUS[..], &[][..]), (&[][..], &STATUS[..])] {
        let server = HttpServer::start(move |_| answer(headers, "".into(), trailers));
        let error = failure(&client(&server.address(), Options::default())).await;
        let text = text(&error, &server.address());
        assert!(matches!(error, CallError::Failed { .. }), "{error:?}");
        assert_eq!(text, "the function at ADDRESS failed with InvalidArgument: it gave no reason");
    }
}

#[tokio::test]
async fn long_message_of_an_error_arrives() {
    let server = FunctionServer::start(|_| Err(Status::internal("a very long story ".repeat(5000)))).await;
    let error = failure(&client(&server.address(), Options::default())).await;
    let text = error.to_string();
    assert!(text.ends_with(&"a very long story ".repeat(5000)), "{} bytes", text.len());
}

#[tokio::test]
async fn metadata_without_end_is_refused() {
    for is_trailer in [false, true] {
        let server = HttpServer::start(move |_| {
            let value = "x".repeat(1 << 20);
            let (long, status) = (("grpc-message", value.as_str()), ("grpc-status", "3"));
            if is_trailer {
                answer(&[], "".into(), &[status, long])
            } else {
                answer(&[status, long], "".into(), &[])
            }
        });
        let error = failure(&client(&server.address(), Options::default())).await;
        let text = error.to_string();
        assert!(text.len() < 1 << 18, "{} bytes", text.len());
    }
}

#[tokio::test]
async fn answer_over_the_limit_is_refused() {
    let server = FunctionServer::start(|_| Ok(says("x".repeat(2000)))).await;
    let options = Options { max_response: 1000, ..Options::default() };
    let error = failure(&client(&server.address(), options)).await;
    let text = text(&error, &server.address());
    assert!(matches!(error, CallError::ResponseTooLarge { limit: 1000, .. }), "{error:?}");
    assert_eq!(text, "the answer of the function at ADDRESS is larger than the 1000 bytes that are accepted");
}

#[tokio::test]
async fn enormous_answer_is_refused_by_default() {
    let server = FunctionServer::start(|_| Ok(says("x".repeat(100_000_000)))).await;
    let error = failure(&client(&server.address(), Options::default())).await;
    assert!(matches!(error, CallError::ResponseTooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn answer_is_refused_by_its_announcement() {
    // Says that 100 MB will come, and then nothing does.
    let server = HttpServer::start(|_| answer(&[], "\0\x06\0\0\0".into(), &[("grpc-status", "0")]));
    let error = failure(&client(&server.address(), Options::default())).await;
    assert!(matches!(error, CallError::ResponseTooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn limit_of_the_function_is_not_taken_for_ours() {
    let status = || {
        Status::out_of_range("Error, decoded message length too large: found 9 bytes, the limit is: 1 bytes")
    };
    let server = FunctionServer::start(move |_| Err(status())).await;
    let error = failure(&client(&server.address(), Options::default())).await;
    assert!(matches!(error, CallError::Failed { code: Code::OutOfRange, .. }), "{error:?}");
}

#[tokio::test]
async fn request_over_the_limit_is_not_sent() {
    let server = FunctionServer::start(echoes).await;
    let client = client(&server.address(), Options { max_request: 1000, ..Options::default() });
    let error = client.call(&asks(&"x".repeat(2000))).await.unwrap_err();
    assert!(matches!(error, CallError::RequestTooLarge { limit: 1000, .. }), "{error:?}");
    assert_eq!(server.calls(), 0);
    client.call(&asks("hello")).await.unwrap();
}

/// A function that serves only the version that it is told to, and the versions that were asked for.
fn versioned(is_beta: Arc<AtomicBool>) -> (HttpServer, mpsc::UnboundedReceiver<&'static str>) {
    let (sender, asked) = mpsc::unbounded_channel();
    let server = HttpServer::start(move |request| {
        let asks_beta = request.uri().path().contains("v1beta1");
        sender.send(if asks_beta { "v1beta1" } else { "v1" }).unwrap();
        let status = if asks_beta == is_beta.load(Ordering::SeqCst) { "0" } else { "12" };
        answer(&[], message(b""), &[("grpc-status", status)])
    });
    (server, asked)
}

fn drain(asked: &mut mpsc::UnboundedReceiver<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| asked.try_recv().ok()).collect()
}

#[tokio::test]
async fn version_that_is_served_is_found_and_remembered() {
    let is_beta = Arc::new(AtomicBool::new(true));
    let (server, mut asked) = versioned(is_beta.clone());
    let client = client(&server.address(), Options::default());
    client.call(&asks("hello")).await.unwrap();
    assert_eq!(drain(&mut asked), ["v1", "v1beta1"]);
    client.call(&asks("hello")).await.unwrap();
    assert_eq!(drain(&mut asked), ["v1beta1"]);

    // It was replaced by a newer one.
    is_beta.store(false, Ordering::SeqCst);
    client.call(&asks("hello")).await.unwrap();
    assert_eq!(drain(&mut asked), ["v1beta1", "v1"]);
    client.call(&asks("hello")).await.unwrap();
    assert_eq!(drain(&mut asked), ["v1"]);
}

#[tokio::test]
async fn function_of_either_version_is_called() {
    for versions in [Versions::Both, Versions::OnlyNewest, Versions::OnlyBeta] {
        let server = FunctionServer::serve("127.0.0.1:0", versions, None, echoes).await;
        let client = client(&server.address(), Options::default());
        assert_eq!(said(&client.call(&asks("hello")).await.unwrap()), "hello", "{versions:?}");
        assert_eq!(server.calls(), 1, "{versions:?}");
    }
}

#[tokio::test]
async fn program_that_is_no_function_is_told_so() {
    let server = FunctionServer::serve("127.0.0.1:0", Versions::Neither, None, echoes).await;
    let error = failure(&client(&server.address(), Options::default())).await;
    let text = text(&error, &server.address());
    assert!(matches!(error, CallError::Unimplemented { .. }), "{error:?}");
    assert_eq!(error.cause(), Cause::FunctionProtocolUnsupported);
    assert_eq!(text, "the program at ADDRESS serves the function protocol neither as v1 nor as v1beta1");
}

#[tokio::test]
async fn error_of_the_function_is_passed_on() {
    let server = FunctionServer::start(|_| Err(Status::permission_denied("not you"))).await;
    let error = failure(&client(&server.address(), Options::default())).await;
    let text = text(&error, &server.address());
    assert!(matches!(error, CallError::Failed { code: Code::PermissionDenied, .. }), "{error:?}");
    assert_eq!(text, "the function at ADDRESS failed with PermissionDenied: not you");
    // It has answered: nothing is tried again.
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn call_that_nobody_waits_for_is_cancelled() {
    let (sender, mut events) = mpsc::unbounded_channel();
    let server = FunctionServer::start_async(move |_| {
        let sender = sender.clone();
        async move {
            sender.send("called").unwrap();
            let _told_when_dropped = Farewell(sender);
            pending().await
        }
    })
    .await;
    let client = client(&server.address(), Options::default());
    let request = asks("hello");
    tokio::select! {
        result = client.call(&request) => panic!("{result:?}"),
        event = events.recv() => assert_eq!(event, Some("called")),
    }
    // Much sooner than its deadline.
    let event = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
    assert_eq!(event.unwrap(), Some("dropped"));
}

struct Farewell(mpsc::UnboundedSender<&'static str>);

impl Drop for Farewell {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

#[tokio::test]
async fn function_is_told_how_long_it_may_take() {
    let (sender, mut timeouts) = mpsc::unbounded_channel();
    let server = HttpServer::start(move |request| {
        sender.send(request.headers().contains_key("grpc-timeout")).unwrap();
        answer(&[], message(b""), &[("grpc-status", "0")])
    });
    for timeout in [Duration::from_secs(10), Duration::MAX] {
        let client = client(&server.address(), Options { timeout, ..Options::default() });
        client.call(&asks("hello")).await.unwrap();
        assert_eq!(timeouts.recv().await, Some(true));
    }
}

#[tokio::test]
async fn calls_share_one_connection() {
    const CALLS: usize = 100;
    let all_are_here = Arc::new(Barrier::new(CALLS));
    let server = FunctionServer::start_async(move |request| {
        let all_are_here = all_are_here.clone();
        async move {
            all_are_here.wait().await;
            echoes(request)
        }
    })
    .await;
    let address = server.address();
    let proxy = TcpServer::start(move |stream, _| forward(stream, address.clone()));
    let client = Arc::new(client(&proxy.address(), Options::default()));
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let client = client.clone();
        calls.spawn(async move {
            let number = number.to_string();
            assert_eq!(said(&client.call(&asks(&number)).await.unwrap()), number);
        });
    }
    calls.join_all().await;
    assert_eq!((server.calls(), proxy.connections()), (CALLS, 1));
}

#[test]
fn client_outlives_the_runtime_that_it_was_used_in() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime().block_on(FunctionServer::start(echoes));
    for target in [server.address(), format!("dns:///function.test:{}", server.port())] {
        let client = Client::with_resolver(
            target.parse().unwrap(),
            Options::default(),
            Names::of([[127, 0, 0, 1]]).resolve(),
        );
        let client = client.unwrap();
        for text in ["one", "two", "three"] {
            let runtime = runtime();
            assert_eq!(said(&runtime.block_on(client.call(&asks(text))).unwrap()), text);
        }
    }
}
