//! Functions that misbehave, and what becomes of their processes.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ferroplane_testkit::FunctionServer;
use ferroplane_wire::v1::{Resource, RunFunctionResponse};
use ferroplane_wire::{Struct, from_json};
use serde_json::json;

use crate::sandbox::{Sandbox, composition, function, served, started};

fn sandbox_with(functions: &str) -> Sandbox {
    Sandbox::new()
        .with("composition.yaml", &composition(&[("one", "f", "")]))
        .with("functions.yaml", functions)
}

async fn said_about(server: &FunctionServer, flags: &[&str]) -> String {
    let sandbox = sandbox_with(&served("f", &server.address()));
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    tokio::task::spawn_blocking(move || {
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        sandbox.render(&flags).fails_with(1)
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_with_a_broken_object_is_blamed_on_its_step() {
    let server = FunctionServer::start(|_| {
        let broken = Struct::from(bytes::Bytes::from_static(b"\x0a\x03abc"));
        let resource = Resource { resource: Some(broken), ..Resource::default() };
        let desired = ferroplane_wire::State::new(None, [("a".to_owned(), resource)].into());
        Ok(RunFunctionResponse { desired: Some(desired), ..RunFunctionResponse::default() })
    })
    .await;
    let said = said_about(&server, &[]).await;
    assert!(
        said.contains("cannot use the answer of pipeline step `one`: field `desired.resources[\"a\"]`"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn function_that_never_settles_is_given_up_on() {
    let calls = std::sync::atomic::AtomicU32::new(0);
    let server = FunctionServer::start(move |_| {
        let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(from_json(&json!({"requirements": {"resources": {"r": {
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchName": format!("n{call}")
        }}}}))
        .unwrap())
    })
    .await;
    assert!(said_about(&server, &[]).await.contains("pipeline step `one` never settles"));
    assert_eq!(server.calls(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn enormous_answer_is_refused() {
    let server = FunctionServer::start(|_| {
        let text = "x".repeat(100 << 20);
        Ok(from_json(&json!({"desired": {"resources": {"a": {"resource": {"text": text}}}}})).unwrap())
    })
    .await;
    let said = said_about(&server, &[]).await;
    assert!(said.contains("is larger than the 33554432 bytes that are accepted"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answer_is_fine() {
    let server = FunctionServer::start(|_| {
        let text = "x".repeat(8 << 20);
        Ok(from_json(&json!({"desired": {"resources": {"a": {"resource": {
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text}
        }}}}}))
        .unwrap())
    })
    .await;
    let sandbox = sandbox_with(&served("f", &server.address()));
    let printed = tokio::task::spawn_blocking(move || sandbox.render(&[]).ok()).await.unwrap();
    assert!(printed.len() > 8 << 20);
}

#[test]
fn function_that_hangs_is_given_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accepting = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut sink = Vec::new();
        let _ = connection.read_to_end(&mut sink);
    });
    let said = sandbox_with(&served("f", &address)).render(&["--timeout", "300ms"]).fails_with(1);
    assert!(said.contains("0.3s") || said.contains("300ms"), "{said}");
    accepting.join().unwrap();
}

/// Every call is in time by itself, but all of them together are not.
#[tokio::test(flavor = "multi_thread")]
async fn step_at_which_the_time_is_up_is_named() {
    let server = FunctionServer::start(|_| {
        std::thread::sleep(Duration::from_millis(400));
        Ok(RunFunctionResponse::default())
    })
    .await;
    let steps = ["one", "two", "three", "four", "five"].map(|step| (step, "f", ""));
    let sandbox = Sandbox::new()
        .with("composition.yaml", &composition(&steps))
        .with("functions.yaml", &served("f", &server.address()));
    let said = tokio::task::spawn_blocking(move || sandbox.render(&["--timeout", "500ms"]).fails_with(1));
    let said = said.await.unwrap();
    assert!(said.contains("cannot run pipeline step `"), "{said}");
    assert!(said.contains("function `f` was still running when its time limit was reached"), "{said}");
}

#[test]
fn something_that_is_no_function_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut connection, _)) = listener.accept() {
            let _ = connection.write_all(b"220 mail.example ESMTP\r\n");
        }
    });
    let said = sandbox_with(&served("f", &address)).render(&["--timeout", "5s"]).fails_with(1);
    assert!(said.contains("cannot run pipeline step `one`"), "{said}");
    assert!(said.contains(&address), "{said}");
}

/// A function has a minute to answer. That nothing listens is known long before.
#[test]
fn function_that_is_not_running_is_named_with_its_address_and_not_waited_for() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let sandbox = sandbox_with(&served("f", &free));
    let began_at = Instant::now();
    let said = sandbox.render(&[]).fails_with(1);
    assert!(began_at.elapsed() < Duration::from_secs(20), "it took {:?}: {said}", began_at.elapsed());
    assert!(said.contains(&free) && said.contains("Connection refused"), "{said}");
}

/// Whether any process on this machine has this text in its command line.
fn is_running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok()).any(|command| {
        // The test itself has the mark in its memory, not in its command line.
        String::from_utf8_lossy(&command).contains(mark)
    })
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn command_of_a_file_is_not_run_unless_that_is_allowed() {
    let sandbox = sandbox_with(&started("f", "sh -c 'id > owned' {port}"));
    let annotation = "render.ferroplane.io/command=sh -c 'id > owned' {port}";
    for flags in [&[][..], &["-a", annotation]] {
        let said = sandbox.render(flags).fails_with(1);
        assert_eq!(
            said,
            "error: functions.yaml:7: function `f`: its command is not run, because programs run with your rights: pass \
             --allow-commands if you trust the programs that these files start\n"
        );
    }
    assert!(!sandbox.path("owned").exists());
    sandbox.render_with_commands(&["--timeout", "5s"]).fails_with(1);
    assert!(sandbox.path("owned").exists(), "the command was not run though it was allowed");
}

/// A user who renders foreign files, as CI does for a pull request, must not send secrets to where these files say.
#[test]
fn credentials_and_certificates_are_not_used_with_other_machines_unless_that_is_allowed() {
    let refusal = "functions.yaml:8: function `f`: cannot use credentials or certificates with `elsewhere.invalid:1`, which is \
                   not on this machine: pass --allow-commands if you trust these files";
    let secret = "{apiVersion: v1, kind: Secret, metadata: {namespace: ns, name: key}, data: {token: YQ==}}";
    let sandbox = sandbox_with(&served("f", "elsewhere.invalid:1")).with("secret.yaml", secret);
    let credentials = ["--function-credentials", "secret.yaml", "--timeout", "300ms"];
    let said = sandbox.render(&credentials).fails_with(1);
    assert!(said.contains(refusal), "{said}");
    let said = sandbox.render_with_commands(&credentials).fails_with(1);
    assert!(!said.contains("cannot use credentials"), "{said}");
    let said = sandbox.render(&["--timeout", "300ms"]).fails_with(1);
    assert!(!said.contains("cannot use credentials"), "{said}");
    // A user who names the target on the command line trusts it.
    let target = "render.crossplane.io/runtime-development-target=elsewhere.invalid:1";
    let said = sandbox.render(&[&credentials[..], &["-a", target]].concat()).fails_with(1);
    assert!(!said.contains("cannot use credentials"), "{said}");
    // One on this machine is called as ever, and is not there.
    let said = sandbox.with("functions.yaml", &served("f", "localhost:1")).render(&credentials).fails_with(1);
    assert!(!said.contains("cannot use credentials"), "{said}");
}

#[test]
fn certificates_are_read_from_below_the_file_that_names_them() {
    let secure = |target: &str, directory: &str| {
        let annotations = [
            ("render.crossplane.io/runtime", "Development"),
            ("render.crossplane.io/runtime-development-target", target),
            ("render.ferroplane.io/tls-certs-dir", directory),
        ];
        function("f", &annotations)
    };
    let said = sandbox_with(&secure("elsewhere.invalid:1", "certs")).render(&[]).fails_with(1);
    assert!(said.contains("cannot use credentials or certificates"), "{said}");
    for path in ["/etc/ssl", "../certs", "certs/../../certs"] {
        let sandbox = sandbox_with(&secure("localhost:1", path));
        let said = sandbox.render(&[]).fails_with(1);
        let expected = "function `f`: expected a path below the directory of this file, without `..`, or pass --allow-commands";
        assert!(said.contains(expected), "{path}: {said}");
        let said = sandbox.render_with_commands(&[]).fails_with(1);
        assert!(said.contains("cannot read") && said.contains("ca.crt"), "{path}: {said}");
    }
    let said = sandbox_with(&secure("localhost:1", "certs")).render(&[]).fails_with(1);
    assert!(said.contains("cannot read") && said.contains("certs/ca.crt"), "{said}");
}

#[test]
fn answers_are_read_from_below_the_file_that_names_them() {
    let answers = |path: &str| function("f", &[("render.ferroplane.io/answers", path)]);
    let sandbox = sandbox_with(&answers("then/f.json")).with("then/f.json", "[{\"answered\": {}}]");
    sandbox.render(&[]).ok();
    let outside = Sandbox::new().with("f.json", "[{\"answered\": {}}]");
    let absolute = outside.path("f.json").display().to_string();
    for path in [&absolute, "../f.json", "then/../../f.json"] {
        let said = sandbox_with(&answers(path)).render(&[]).fails_with(1);
        let expected = "function `f`: expected a path below the directory of this file, without `..`";
        assert!(said.contains(expected), "{path}: {said}");
    }
}

#[test]
fn no_process_is_left_behind() {
    let mark = format!("left-behind-{}", std::process::id());
    let command = format!("sh -c 'sleep 600 & exec sleep 600' {mark} {{port}}");
    let sandbox = sandbox_with(&started("f", &command));
    sandbox.render_with_commands(&["--timeout", "300ms"]).fails_with(1);
    until("the program is still running", || !is_running(&mark));
}

/// End a render with a signal while its function is running.
fn interrupt(signal: rustix::process::Signal, code: i32) {
    let mark = format!("interrupted-{code}-{}", std::process::id());
    let command = format!("sh -c 'sleep 600 & wait' {mark} {{port}}");
    let sandbox = sandbox_with(&started("f", &command));
    let mut child = sandbox
        .command(&["render", "xr.yaml", "composition.yaml", "functions.yaml", "--allow-commands"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the program was not started", || is_running(&mark));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, signal).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code));
    until("the program is still running", || !is_running(&mark));
}

#[test]
fn ctrl_c_leaves_no_process_behind() {
    interrupt(rustix::process::Signal::INT, 130);
}

#[test]
fn being_told_to_end_leaves_no_process_behind() {
    interrupt(rustix::process::Signal::TERM, 143);
}

#[test]
fn function_that_crashes_while_it_works_is_named_with_what_it_said() {
    // Listens, and ends as soon as somebody says something.
    let script = "import socket,sys; s=socket.create_server(('127.0.0.1', int(sys.argv[1]))); s.accept(); \
                  c,_=s.accept(); c.recv(1); sys.exit('out of luck')";
    let command = format!("python3 -c \"{script}\" {{port}}");
    let functions = "---\napiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata:\n  name: f\n  annotations:\n    \
                     render.ferroplane.io/command: |-\n      COMMAND\n";
    let sandbox = sandbox_with(&functions.replace("COMMAND", &command));
    let said = sandbox.render_with_commands(&[]).fails_with(1);
    assert!(
        said.contains("cannot run pipeline step `one`: the function's program ended (exit status: 1)"),
        "{said}"
    );
    assert!(said.contains("out of luck"), "{said}");
}
