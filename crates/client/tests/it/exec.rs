//! Commands in containers, on a server that speaks what kubelets speak, and on servers that do as none should.

use std::time::Duration;

use ferroplane_client::{ApiClient, CommandEnding, Endpoint, Error, ObjectPath, Resource, Transport};
use ferroplane_testkit::{ExecStep, Kubelet};
use tokio::sync::Notify;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn client(server: &Kubelet) -> ApiClient {
    let endpoint = Endpoint {
        server: format!("https://{}", server.address()),
        authorities: Some(server.authority().as_bytes().to_vec()),
        ..Endpoint::default()
    };
    ApiClient::new(kube::Client::new(Transport::new(endpoint).unwrap(), "default"))
}

fn pods() -> Resource {
    Resource {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        plural: "pods".to_owned(),
        is_namespaced: true,
    }
}

fn command() -> [String; 3] {
    ["sh", "-c", "backup now"].map(str::to_owned)
}

/// Run a command. Returns what it printed, and how it ended.
async fn exec(server: &Kubelet) -> (String, Result<CommandEnding, Error>) {
    let (client, pods, command) = (client(server), pods(), command());
    let pod = ObjectPath { resource: &pods, namespace: "shop", name: "db-0" };
    let mut printed = Vec::new();
    let mut keep = |text: &[u8]| printed.extend_from_slice(text);
    let running = client.exec(pod, "main", &command, &mut keep);
    let ended = tokio::time::timeout(PATIENCE, running).await.expect("it ends");
    (String::from_utf8(printed).unwrap(), ended)
}

fn plays(steps: Vec<ExecStep>) -> Kubelet {
    Kubelet::start(move |_| Ok(steps.clone()))
}

#[tokio::test]
async fn command_is_run_and_what_it_prints_is_kept_apart_however_it_arrives() {
    let long = "x".repeat(300_000);
    let server = plays(vec![
        ExecStep::Stdout(b"one ".to_vec()),
        ExecStep::Stderr(b"first complaint, ".to_vec()),
        ExecStep::StdoutInFrames("tw", "o "),
        ExecStep::Stderr(b"second complaint".to_vec()),
        ExecStep::Stdout(Vec::new()),
        ExecStep::Stdout(long.clone().into_bytes()),
        ExecStep::Exit(0),
    ]);
    let (printed, ended) = exec(&server).await;
    assert_eq!(printed, format!("one two {long}"));
    let stderr = "first complaint, second complaint".to_owned();
    assert_eq!(ended.unwrap(), CommandEnding { exit_code: 0, stderr });
    let target = "/api/v1/namespaces/shop/pods/db-0/exec?command=sh&command=-c&command=backup+now&container=main&stdout=true&stderr=true";
    assert_eq!(server.targets(), [target]);
}

#[tokio::test]
async fn exit_code_of_a_command_is_told_with_the_end_of_its_complaints() {
    let complaint = format!("{}the end", "x".repeat(20_000));
    let server = plays(vec![ExecStep::Stderr(complaint.into_bytes()), ExecStep::Exit(7)]);
    let ended = exec(&server).await.1.unwrap();
    assert_eq!(ended.exit_code, 7);
    assert!(ended.stderr.ends_with("the end") && ended.stderr.len() == 16 << 10, "{}", ended.stderr.len());
}

#[tokio::test]
async fn command_that_cannot_be_run_is_told_as_that() {
    let error = exec(&plays(vec![ExecStep::Fail("no such container")])).await.1.unwrap_err();
    assert_eq!(error.to_string(), "no such container");
    assert!(!error.is_inconclusive());
    for code in [403, 404] {
        let error = exec(&Kubelet::start(move |_| Err(code))).await.1.unwrap_err();
        assert_eq!((error.code(), error.is_inconclusive()), (Some(code), false), "{error}");
    }
    assert!(exec(&Kubelet::start(|_| Err(404))).await.1.unwrap_err().is_not_found());
}

#[tokio::test]
async fn connection_that_ends_before_the_command_leaves_its_outcome_open() {
    for end in [ExecStep::Close, ExecStep::Lose] {
        let server = plays(vec![ExecStep::Stdout(b"half".to_vec()), end.clone()]);
        let (printed, ended) = exec(&server).await;
        let error = ended.unwrap_err();
        assert_eq!((printed.as_str(), error.code()), ("half", None), "{end:?}");
        assert!(error.is_inconclusive(), "{end:?}: {error}");
        assert_eq!(server.targets().len(), 1, "it is not asked again");
    }
}

#[tokio::test]
async fn server_that_sends_what_none_may_send_is_not_believed() {
    let masked = vec![0x82, 0x81, 0, 0, 0, 0, 1];
    let huge = vec![0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0];
    let nonsense = vec![0x8F, 0];
    // It says how the command ended, in no language.
    let unreadable = vec![0x82, 3, 3, b'n', b'o'];
    for bytes in [masked, huge, nonsense, unreadable] {
        let server = plays(vec![ExecStep::Raw(bytes.clone()), ExecStep::Hang]);
        let error = exec(&server).await.1.unwrap_err();
        assert!(error.is_inconclusive(), "{bytes:?}: {error}");
        tokio::time::timeout(PATIENCE, server.until_left()).await.expect("the client has left");
    }
}

#[tokio::test]
async fn command_that_is_given_up_loses_its_connection() {
    let server = plays(vec![ExecStep::Stdout(b"begun".to_vec()), ExecStep::Hang]);
    let (client, pods, command) = (client(&server), pods(), command());
    let pod = ObjectPath { resource: &pods, namespace: "shop", name: "db-0" };
    let begun = Notify::new();
    let mut keep = |text: &[u8]| {
        if text == b"begun" {
            begun.notify_one();
        }
    };
    tokio::select! {
        ended = client.exec(pod, "main", &command, &mut keep) => panic!("it hangs: {ended:?}"),
        () = begun.notified() => {}
    }
    tokio::time::timeout(PATIENCE, server.until_left()).await.expect("the client has left");
}
