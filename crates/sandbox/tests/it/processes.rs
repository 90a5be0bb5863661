//! Servers that are processes of this machine: kept running, limited, and gone when the control plane is.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ferroplane_sandbox::{
    Container, Error, ImageConfig, Limits, LineSink, NotStatic, Options, Processes, ServeProcess, Server,
    ServerState, file_owner, remove_leftovers,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{
    IMAGE_OF_TEST, Lines, eventually, helper, image_without_containers, left_in, processes_with,
    public_directory,
};

/// Where the process that plays the control plane keeps its state. It does nothing without it.
const STATE: &str = "FERROPLANE_PROCESS_TEST_STATE";
const MARKER: &str = "FERROPLANE_PROCESS_TEST_MARKER";

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").expect("listener").local_addr().expect("address")
}

fn serve(image: &Path, command: &[&str]) -> ServeProcess {
    let entrypoint = command.iter().map(|&word| word.to_owned()).collect();
    ServeProcess {
        container: Container::new(image, ImageConfig { entrypoint, ..ImageConfig::default() }),
        limits: Limits { memory: 1 << 30, ..Limits::default() },
        address: free_address(),
        patience: Duration::from_secs(20),
        files: Vec::new(),
        log: LineSink::nowhere(),
    }
}

/// A server that echoes what it is sent, and whose command line has a marker.
fn echoing(image: &Path, marker: &str) -> ServeProcess {
    let silent = serve(image, &[]);
    let port = silent.address.port().to_string();
    ServeProcess { address: silent.address, ..serve(image, &["/bin/attack", "serve", &port, marker]) }
}

fn processes(state: &Path) -> Processes {
    Processes::new(Options::new(helper(), state)).expect("processes")
}

async fn echo(server: &Server, text: &str) -> String {
    let mut stream = server.connect().await.expect("connection");
    stream.write_all(text.as_bytes()).await.expect("write");
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await.expect("read");
    String::from_utf8(answer).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_executable_is_served_and_started_again_when_it_ends() {
    let Some(image) = image_without_containers() else { return };
    let state = public_directory();
    let processes = processes(state.path());
    let mut server = processes.serve(echoing(image, "marker-4730")).await.expect("server");
    assert_eq!(echo(&server, "hello").await, "hello");
    server.restart();
    let ended = server.changed(&ServerState::Serving).await;
    assert_eq!(ended, ServerState::Waiting { why: "exit code 137".to_owned() });
    while server.state() != ServerState::Serving {
        let state = server.state();
        server.changed(&state).await;
    }
    assert_eq!(echo(&server, "again").await, "again");
    server.stop().await;
    assert!(processes_with("marker-4730").is_empty());
    processes.close().await;
    assert_eq!((left_in(state.path(), "processes"), entries(state.path())), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_a_directory_of_its_own_the_given_variables_and_limits() {
    let Some(image) = image_without_containers() else { return };
    let state = public_directory();
    let lines = Lines::default();
    let script = "pwd; echo tls/*; export -p; ulimit -n; ulimit -c; id -u; read key < tls/key; echo $key; \
                  while read line; do case \"$line\" in NoNewPrivs*) echo $line;; esac; done < /proc/self/status; exit 7";
    let mut told = serve(image, &["/bin/busybox", "sh", "-c", script]);
    told.container.image.env = vec!["GIVEN=yes".to_owned()];
    told.files = vec![("tls/key".to_owned(), b"secret\n".to_vec())];
    told.log = lines.sink();
    let error = processes(state.path()).serve(told).await.expect_err("it ends");
    assert!(matches!(&error, Error::EndedEarly { how, .. } if how == "exit code 7"), "{error:?}");
    let all = lines.all();
    assert!(all[0].starts_with(&format!("{}/processes/", state.path().display())), "{all:?}");
    for expected in ["tls/key", "256", "0", "secret", "NoNewPrivs: 1"] {
        assert!(all.iter().any(|line| line == expected), "{expected}: {all:?}");
    }
    assert!(all.iter().any(|line| line.contains("GIVEN=") && line.contains("yes")), "{all:?}");
    assert!(!all.iter().any(|line| line.contains("CARGO") || line.contains("FERROPLANE")), "{all:?}");
    if let Some(user) = file_owner() {
        assert!(all.contains(&user.to_string()), "{all:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_no_static_executable_is_not_started() {
    if image_without_containers().is_none() {
        return;
    }
    let (state, image) = (public_directory(), public_directory());
    fs::write(image.path().join("function"), "#!/bin/sh\nexit 0\n").expect("script");
    let error =
        processes(state.path()).serve(serve(image.path(), &["/function"])).await.expect_err("refused");
    assert!(matches!(error, Error::NotStatic { why: NotStatic::Script, .. }), "{error:?}");
    assert_eq!(entries(state.path()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_listen_is_ended() {
    let Some(image) = image_without_containers() else { return };
    let state = public_directory();
    let silent = serve(image, &["/bin/attack", "sleep", "marker-4731"]);
    let silent = ServeProcess { patience: Duration::from_millis(300), ..silent };
    let error = processes(state.path()).serve(silent).await.expect_err("it does not listen");
    assert!(matches!(error, Error::Silent { .. }), "{error:?}");
    tokio::task::block_in_place(|| eventually("it is gone", || processes_with("marker-4731").is_empty()));
}

/// Started by the other tests, as a process of its own.
#[tokio::test(flavor = "multi_thread")]
async fn control_plane() {
    let Some(state) = std::env::var_os(STATE) else { return };
    let marker = std::env::var(MARKER).expect("marker");
    let image = image_without_containers().expect("image");
    let files = vec![("tls/tls.key".to_owned(), b"secret".to_vec())];
    let serve = ServeProcess { files, ..echoing(image, &marker) };
    let _server = processes(Path::new(&state)).serve(serve).await.expect("server");
    println!("\nready");
    std::future::pending::<()>().await;
}

fn start(state: &Path, image: &Path, marker: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "processes::control_plane", "--nocapture"]);
    command.env(STATE, state).env(MARKER, marker).env(IMAGE_OF_TEST, image).stdout(Stdio::piped());
    let mut child = command.spawn().expect("control plane");
    let mut lines = BufReader::new(child.stdout.take().expect("output")).lines();
    let is_ready = lines.any(|line| line.is_ok_and(|line| line == "ready"));
    assert!(is_ready, "the control plane got its server running");
    child
}

fn kill(child: &mut Child) {
    child.kill().expect("kill");
    child.wait().expect("wait");
}

fn entries(state: &Path) -> usize {
    fs::read_dir(state.join("ledger")).map_or(0, Iterator::count)
}

/// The helper that the ledger names.
fn helper_in(state: &Path) -> Pid {
    let entry = fs::read_dir(state.join("ledger")).expect("ledger").flatten().next().expect("entry");
    let name = entry.file_name().into_string().expect("name");
    name.split('-').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw).expect("pid")
}

#[test]
fn no_process_is_left_of_a_control_plane_that_is_killed() {
    let Some(image) = image_without_containers() else { return };
    let state = public_directory();
    let marker = format!("marker-4732-{}", std::process::id());
    let mut plane = start(state.path(), image, &marker);
    assert!(!processes_with(&marker).is_empty());
    assert_eq!((left_in(state.path(), "processes"), entries(state.path())), (1, 1));
    kill(&mut plane);
    eventually("the process is gone", || processes_with(&marker).is_empty());
    eventually("its key is gone, too", || left_in(state.path(), "processes") == 0);
    // What is left is the note about it and an empty directory, until the next start.
    processes(state.path());
    assert_eq!(entries(state.path()), 0);
    assert_eq!(fs::read_dir(state.path().join("processes")).expect("directory").count(), 0);
}

#[test]
fn what_a_process_of_our_own_number_left_is_removed_and_no_obstacle() {
    let Some(image) = image_without_containers() else { return };
    let state = public_directory();
    let lives = [std::process::id(), 4_294_967_295];
    let left = lives.map(|life| [format!("{life}-1"), format!("{life}.1")]).concat();
    for name in &left {
        let directory = state.path().join("processes").join(name).join("1/tls");
        fs::create_dir_all(&directory).expect("directory");
        fs::write(directory.join("tls.key"), "secret").expect("key");
    }
    remove_leftovers(state.path()).expect("removal");
    assert_eq!(left_in(state.path(), "processes"), 0, "at the start, before anything is run");
    fs::create_dir_all(state.path().join("processes").join(&left[1]).join("1")).expect("directory");
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    runtime.block_on(async {
        let processes = processes(state.path());
        let server = processes.serve(echoing(image, "marker-4734")).await.expect("server");
        server.stop().await;
        processes.close().await;
    });
}

#[test]
fn a_helper_that_cannot_end_by_itself_is_ended_with_its_program_by_the_next_start() {
    let Some(image) = image_without_containers() else { return };
    let state = public_directory();
    let marker = format!("marker-4733-{}", std::process::id());
    let mut plane = start(state.path(), image, &marker);
    // Stopped, it does not see that the control plane is gone.
    kill_process(helper_in(state.path()), Signal::STOP).expect("stop");
    kill(&mut plane);
    assert!(!processes_with(&marker).is_empty(), "it runs on");
    processes(state.path());
    eventually("the process is gone", || processes_with(&marker).is_empty());
    assert_eq!(entries(state.path()), 0);
}
