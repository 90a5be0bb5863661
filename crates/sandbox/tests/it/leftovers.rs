//! A control plane that is killed: nothing of its containers is left, and the next one cleans up what could not end by itself.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ferroplane_sandbox::{Grants, Limits, LineSink, Options, Runtime, Serve, remove_leftovers};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    IMAGE_OF_TEST, attack, call, eventually, helper, image, processes_with, public_directory, sandbox, shell,
};

/// Where the process that plays the control plane keeps its state. It does nothing without it.
const STATE: &str = "FERROPLANE_SANDBOX_TEST_STATE";
const MARKER: &str = "FERROPLANE_SANDBOX_TEST_MARKER";
/// The helper to use in place of the one beside the test.
const HELPER: &str = "FERROPLANE_SANDBOX_TEST_HELPER";

/// Started by the other tests, as a process of its own.
#[tokio::test(flavor = "multi_thread")]
async fn control_plane() {
    let Some(state) = std::env::var_os(STATE) else { return };
    let marker = std::env::var(MARKER).expect("marker");
    let helper = std::env::var_os(HELPER).map_or_else(helper, |copy| vec![copy]);
    let runtime = Runtime::new(Options::new(helper, state)).expect("runtime");
    let container = attack(&["serve", "9443", &marker]);
    let serve = Serve {
        container,
        limits: Limits::default(),
        grants: Grants::default(),
        port: Some(9443),
        forwards: Vec::new(),
        patience: Duration::from_secs(20),
        log: LineSink::nowhere(),
    };
    let _server = runtime.serve(serve).await.expect("server");
    let sleeper = shell(&format!("/bin/attack daemon {marker}; cat; sleep 600; : {marker}"));
    let calling = runtime.call(call(&sleeper));
    println!("\nready");
    let _ = calling.await;
}

fn start(state: &Path, marker: &str, user: Option<u32>) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(&program);
    if user.is_some() {
        // Another user may not be able to enter the directory of the build: the home of root is closed.
        let copies = [("program", program), ("helper", PathBuf::from(helper().remove(0)))];
        let [program, copy_of_helper] = copies.map(|(name, original)| {
            let copy = state.join(name);
            fs::copy(original, &copy).expect("copy");
            copy
        });
        command = Command::new(program);
        command.env(HELPER, copy_of_helper);
    }
    command.args(["--exact", "leftovers::control_plane", "--nocapture"]);
    command.env(STATE, state).env(MARKER, marker).env(IMAGE_OF_TEST, image()).stdout(Stdio::piped());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
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

#[test]
fn keys_are_removed_even_if_hosts_cannot_be_forgotten() {
    let state = public_directory();
    fs::create_dir_all(state.path().join("ledger/1-1.json")).expect("no entry");
    let left = state.path().join("processes/4294967295.1/tls");
    fs::create_dir_all(&left).expect("directory");
    fs::write(left.join("tls.key"), "secret").expect("key");
    remove_leftovers(state.path()).expect_err("a directory is not removed");
    assert!(!left.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_control_plane_that_is_killed() {
    if sandbox().await.is_none() {
        return;
    }
    let state = public_directory();
    let marker = format!("marker-4717-{}", std::process::id());
    let mut plane = start(state.path(), &marker, None);
    assert!(!processes_with(&marker).is_empty());
    assert_eq!(entries(state.path()), 1);
    kill(&mut plane);
    eventually("all processes are gone", || processes_with(&marker).is_empty());
    // What is left is the note about it, until the next start.
    let _runtime = Runtime::new(Options::new(helper(), state.path())).expect("runtime");
    assert_eq!(entries(state.path()), 0);
    assert!(!fs::read_to_string("/proc/self/mounts").expect("mounts").contains("/sys/fs/ferroplane"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_end_by_itself_is_ended_by_the_next_start() {
    if sandbox().await.is_none() {
        return;
    }
    let opens: fn(&Path) = |state| drop(Runtime::new(Options::new(helper(), state)).expect("runtime"));
    // What a control plane does that may never start a container.
    let cleans_up: fn(&Path) = |state| remove_leftovers(state).expect("removal");
    for (number, starts) in [opens, cleans_up].into_iter().enumerate() {
        let state = public_directory();
        let marker = format!("marker-4718-{number}-{}", std::process::id());
        let mut plane = start(state.path(), &marker, None);
        // Stopped, it does not see that the control plane is gone.
        let stopped = hosts_of(plane.id());
        assert_eq!(stopped.len(), 2);
        for pid in &stopped {
            kill_process(*pid, Signal::STOP).expect("stop");
        }
        kill(&mut plane);
        assert!(!processes_with(&marker).is_empty(), "they run on");
        starts(state.path());
        eventually("all processes are gone", || processes_with(&marker).is_empty());
        assert_eq!(entries(state.path()), 0);
    }
}

/// Both stages of the host of a process.
fn hosts_of(plane: u32) -> Vec<Pid> {
    let children = |pid: i32| {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().map(|pid| pid.parse::<i32>().expect("pid")).collect::<Vec<_>>()
    };
    let threads = fs::read_dir(format!("/proc/{plane}/task")).expect("threads").flatten();
    let first: Vec<i32> = threads
        .flat_map(|thread| fs::read_to_string(thread.path().join("children")))
        .flat_map(|text| {
            text.split_whitespace().map(|pid| pid.parse::<i32>().expect("pid")).collect::<Vec<_>>()
        })
        .collect();
    let second = first.iter().flat_map(|pid| children(*pid)).collect::<Vec<_>>();
    first.into_iter().chain(second).filter_map(Pid::from_raw).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_control_plane_that_lives_is_left_alone() {
    if sandbox().await.is_none() {
        return;
    }
    let state = public_directory();
    let marker = format!("marker-4719-{}", std::process::id());
    let mut plane = start(state.path(), &marker, None);
    let _runtime = Runtime::new(Options::new(helper(), state.path())).expect("runtime");
    assert!(!processes_with(&marker).is_empty());
    assert_eq!(entries(state.path()), 1);
    kill(&mut plane);
    eventually("all processes are gone", || processes_with(&marker).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_user_runs_containers_as_well() {
    if sandbox().await.is_none() {
        return;
    }
    if !rustix::process::getuid().is_root() {
        // Then every other test has shown it.
        return;
    }
    let state = tempfile::tempdir().expect("directory");
    let user = 54_321;
    std::os::unix::fs::chown(state.path(), Some(user), Some(user)).expect("owner");
    let marker = format!("marker-4720-{}", std::process::id());
    let mut plane = start(state.path(), &marker, Some(user));
    let owners = processes_with(&marker).into_iter().filter_map(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(status.lines().find(|line| line.starts_with("Uid:"))?.split_whitespace().nth(1)?.to_owned())
    });
    assert!(owners.into_iter().all(|owner| owner == user.to_string()));
    kill(&mut plane);
    eventually("all processes are gone", || processes_with(&marker).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_killed_fails_the_call_and_not_the_next() {
    let Some(sandbox) = sandbox().await else { return };
    let marker = format!("47.21{}", std::process::id());
    let container = shell(&format!("sleep {marker}"));
    let runtime = sandbox.runtime.clone();
    let running = tokio::spawn(async move { runtime.call(call(&container)).await });
    tokio::task::block_in_place(|| eventually("the program runs", || !processes_with(&marker).is_empty()));
    let ledger = fs::read_dir(sandbox.directory.path().join("state/ledger")).expect("ledger");
    let name = ledger.flatten().next().expect("entry").file_name().into_string().expect("name");
    let pid = name.split('-').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw).expect("pid");
    kill_process(pid, Signal::KILL).expect("kill");
    let error = running.await.expect("task").expect_err("the host is gone");
    assert!(matches!(error, ferroplane_sandbox::Error::HostEnded), "{error:?}");
    tokio::task::block_in_place(|| eventually("the program is gone", || processes_with(&marker).is_empty()));
    assert_eq!(sandbox.shell("echo fine").await, "fine\n");
}
