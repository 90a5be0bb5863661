//! Calls images and webhooks, good and bad ones.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ferroplane_engine::{ExternalFunction, FunctionType, Permits, chain};
use ferroplane_functions::Library;
use ferroplane_runner::exchange::MAX_ANSWER;
use ferroplane_runner::{CallContext, CallError, Directory, External, ImageCall, ImageOutput, ImageRunner};
use ferroplane_testkit::{Pki, skip};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

fn function(kind: FunctionType, mut settings: Value) -> Struct {
    let group = format!("{kind:?}").to_lowercase();
    settings["apiVersion"] = format!("{group}.fn.ferroplane.io/v1alpha1").into();
    settings["kind"] = format!("{kind:?}").into();
    Struct::try_from(settings.as_object().cloned().unwrap()).unwrap()
}

fn request(input: Struct) -> RunFunctionRequest {
    RunFunctionRequest { input: Some(input), ..RunFunctionRequest::default() }
}

/// A directory that runs images with this, as a control plane has it.
fn directory(run: impl Fn(ImageCall) -> Result<ImageOutput, CallError> + Send + Sync + 'static) -> Directory {
    let run = Arc::new(run);
    let images = ImageRunner::new(move |call| {
        let run = run.clone();
        async move { run(call) }
    });
    let mut directory = Directory::built_in(&Library::built_in().unwrap());
    directory.enable_external(&External::new(images));
    directory
}

async fn call(
    directory: &Directory,
    input: Struct,
    permits: Permits,
    kind: &str,
) -> Result<RunFunctionResponse, String> {
    let context = CallContext { step: "s".to_owned(), permits, ..CallContext::default() };
    let name = format!("function-{kind}-v0.1.0");
    let result = directory.call_for(&name, &request(input), &context).await;
    result.map_err(|error| chain(&error))
}

#[tokio::test]
async fn image_gets_the_request_and_its_answer_counts() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = calls.clone();
    let directory = directory(move |call| {
        noted.lock().unwrap().push(call);
        let standard_output = br#"{"results": [{"severity": "SEVERITY_NORMAL", "message": "hi"}]}"#.to_vec();
        Ok(ImageOutput { standard_output, ..ImageOutput::default() })
    });
    let settings = json!({"image": "registry.example.org/a:v1", "timeout": "3s", "config": {"x": 1}});
    let input = function(FunctionType::Container, settings);
    let response = call(&directory, input, Permits::default(), "container").await.unwrap();
    assert_eq!(response.results[0].message, "hi");
    let calls = calls.lock().unwrap();
    assert_eq!(calls[0].image.reference, "registry.example.org/a:v1");
    assert_eq!(
        (calls[0].timeout, calls[0].has_network, &*calls[0].step),
        (Duration::from_secs(3), false, "s")
    );
    let sent: Value = serde_json::from_slice(&calls[0].standard_input).unwrap();
    assert_eq!(sent["input"], json!({"x": 1}));
}

#[tokio::test]
async fn nothing_runs_that_was_not_permitted() {
    let directory = directory(|_| panic!("it was run"));
    let network = json!({"image": "a", "network": {"policy": "Runner"}});
    let network = function(FunctionType::Container, network);
    let chroot = function(FunctionType::Chroot, json!({"image": "a"}));
    let nothing = Permits::default();
    let error = call(&directory, network, nothing.clone(), "container").await.unwrap_err();
    assert_eq!(error, "cannot let image `a` use the network: it has not been granted");
    let error = call(&directory, chroot.clone(), nothing, "chroot").await.unwrap_err();
    assert_eq!(error, "cannot let image `a` run without a container: it has not been granted");
    let only_network = Permits { network: true, ..Permits::default() };
    assert!(call(&directory, chroot, only_network, "chroot").await.is_err());
}

#[tokio::test]
async fn image_that_fails_is_quoted() {
    let failing = |standard_output: &str, last_words: &str| {
        let (standard_output, last_words) = (standard_output.as_bytes().to_vec(), last_words.to_owned());
        directory(move |_| {
            let failure = Some("exit code 3".to_owned());
            Ok(ImageOutput {
                standard_output: standard_output.clone(),
                failure,
                last_words: last_words.clone(),
            })
        })
    };
    let input =
        |protocol: &str| function(FunctionType::Container, json!({"image": "a", "protocol": protocol}));
    let said = |directory: Directory, protocol: &'static str| async move {
        call(&directory, input(protocol), Permits::default(), "container").await.unwrap_err()
    };
    assert_eq!(
        said(failing("", "no such file\n"), "RunFunction").await,
        "the function's program ended (exit code 3); it said:\nno such file"
    );
    let results = r#"{"kind": "ResourceList", "results": [{"severity": "error", "message": "bad spec"}]}"#;
    assert_eq!(
        said(failing(results, "noise"), "KRM").await,
        "the function's program ended (exit code 3); it said:\nbad spec"
    );
    let garbage =
        directory(|_| Ok(ImageOutput { standard_output: b"<html>".to_vec(), ..ImageOutput::default() }));
    assert!(
        said(garbage, "KRM").await.starts_with("cannot use the response of image `a`: the answer is not")
    );
}

/// A server that answers every request with this, after TLS.
async fn serve(answer: Vec<u8>) -> (u16, String) {
    let authority = Pki::new();
    let server = authority.issue(&["localhost", "127.0.0.1"]);
    let certificates =
        CertificateDer::pem_slice_iter(server.certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, answer) = (acceptor.clone(), answer.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    (port, BASE64_STANDARD.encode(authority.ca()))
}

fn http(status: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend(body);
    answer
}

const PERMITTED: Permits = Permits { network: false, chroot: false, local_addresses: true };

async fn post(settings: Value, permits: Permits) -> Result<RunFunctionResponse, String> {
    let directory = directory(|_| panic!("there is no image"));
    call(&directory, function(FunctionType::Webhook, settings), permits, "webhook").await
}

#[tokio::test]
async fn webhook_is_called_over_verified_tls() {
    let answer = br#"{"results": [{"severity": "SEVERITY_NORMAL", "message": "hi"}]}"#;
    let (port, authority) = serve(http("200 OK", answer)).await;
    let url = format!("https://localhost:{port}/f?x=1");
    let response = post(json!({"url": url, "caBundle": authority}), PERMITTED).await.unwrap();
    assert_eq!(response.results[0].message, "hi");
    let (_, stranger) = serve(Vec::new()).await;
    let error = post(json!({"url": url, "caBundle": stranger}), PERMITTED).await.unwrap_err();
    assert!(error.starts_with("cannot establish TLS"), "{error}");
}

#[tokio::test]
async fn webhook_on_this_machine_takes_a_grant() {
    let (port, authority) = serve(http("200 OK", b"{}")).await;
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"] {
        let settings =
            json!({"url": format!("https://{host}:{port}/"), "caBundle": authority, "timeout": "2s"});
        let error = post(settings, Permits::default()).await.unwrap_err();
        assert!(error.contains("no AccessGrant allows to call it"), "{host}: {error}");
    }
}

#[tokio::test]
async fn webhook_at_a_link_local_address_is_refused_with_a_grant_too() {
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"] {
        let settings = json!({"url": format!("https://{host}:1/"), "timeout": "2s"});
        for permits in [Permits::default(), PERMITTED] {
            let error = post(settings.clone(), permits).await.unwrap_err();
            assert!(error.contains("no AccessGrant allows it"), "{host}: {error}");
        }
    }
}

#[tokio::test]
async fn webhooks_that_misbehave_end_in_time_and_with_a_reason() {
    let cases: [(Vec<u8>, &str); 5] = [
        (http("302 Found", b""), "redirects are not followed"),
        (http("500 Internal Server Error", b"boom\nmore"), "500 Internal Server Error: boom"),
        (http("200 OK", b"<html>"), "cannot use the response of webhook"),
        (b"garbage".to_vec(), "lost the connection"),
        (http("200 OK", &vec![b' '; MAX_ANSWER + 1]), "is larger than the 16777216 bytes"),
    ];
    for (answer, expected) in cases {
        let (port, authority) = serve(answer).await;
        let settings = json!({"url": format!("https://localhost:{port}/"), "caBundle": authority});
        let error = post(settings, PERMITTED).await.unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // It accepts, and never says a word.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let (_, authority) = serve(Vec::new()).await;
    let error =
        post(json!({"url": url, "caBundle": authority, "timeout": "200ms"}), PERMITTED).await.unwrap_err();
    assert!(error.ends_with("did not answer within 0.2s"), "{error}");
}

#[tokio::test]
async fn input_that_is_none_is_named() {
    let directory = directory(|_| panic!("it was run"));
    let input = function(FunctionType::Container, json!({"image": ""}));
    let error = call(&directory, input, Permits::default(), "container").await.unwrap_err();
    assert!(error.starts_with("cannot use the input of function-container: image: expected"), "{error}");
    assert!(ExternalFunction::read(FunctionType::Container, &serde_json::Map::new()).is_err());
}

/// Runs a program instead of an image.
fn run_program(program: &str, arguments: &[&str], call: &ImageCall) -> ImageOutput {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/container-functions"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&call.standard_input).unwrap();
    let output = child.wait_with_output().unwrap();
    let failure = (!output.status.success()).then(|| output.status.to_string());
    ImageOutput { standard_output: output.stdout, failure, ..ImageOutput::default() }
}

#[tokio::test]
async fn example_programs_label_every_resource() {
    let text = include_str!("../../../../examples/container-functions/request.txt");
    let programs: [(&str, &[&str], &str, &str); 2] = [
        ("sh", &["shell/function.sh"], "RunFunction", "jq"),
        ("python3", &["python/function.py"], "ResourceList", "python3"),
    ];
    for (program, arguments, protocol, needs) in programs {
        if std::process::Command::new(needs).arg("--version").output().is_err() {
            skip(&format!("{program} {arguments:?}, because there is no {needs}"));
            continue;
        }
        let directory = directory(move |call| Ok(run_program(program, arguments, &call)));
        let mut request: RunFunctionRequest =
            ferroplane_wire::from_json(&serde_json::from_str(text).unwrap()).unwrap();
        request.input = Some(function(FunctionType::Container, json!({"image": "a", "protocol": protocol})));
        let name = "function-container-v0.1.0";
        let response = directory.call(name, &request).await.unwrap();
        let desired = response.desired.unwrap();
        assert_eq!(desired.resources().len(), 2);
        for resource in desired.resources().values() {
            let object = resource.resource.as_ref().unwrap().json().unwrap();
            assert_eq!(object["metadata"]["labels"]["labelizer.xfn.crossplane.io/processed"], "true");
            assert!(object["metadata"].get("annotations").is_none());
        }
    }
}

#[test]
fn replays_ask_no_images_and_no_webhooks() {
    let directory = Directory::reproducible(&Library::built_in().unwrap());
    for kind in ["container", "chroot", "webhook"] {
        assert!(directory.get(&format!("function-{kind}-v0.1.0")).is_none(), "{kind}");
    }
    assert!(directory.get("function-auto-ready-v0.7.0").is_some());
}
