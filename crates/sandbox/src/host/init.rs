//! The second stage: the first process of the pid namespace. Starts containers, watches them, and collects what has ended.

use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::containers::Containers;
use super::namespaces::{ENGINE, die_with_parent};
use super::{Refusal, Step as _, mounts, network};
use crate::engine::Engine;
use crate::protocol::{self, Ended, Report, Request};

/// How often to check what containers use.
const INTERVAL: Duration = Duration::from_millis(20);

pub(super) fn run() -> Result<ExitCode, Refusal> {
    die_with_parent().step("end with its parent")?;
    let engine = std::env::var(ENGINE).map_err(io::Error::other).step("find the runtime")?;
    let engine: Engine = serde_json::from_str(&engine).map_err(io::Error::from).step("find the runtime")?;
    mounts::prepare()?;
    protocol::send(&io::stdin(), &Report::Ready, &[]).step("talk to the process that runs containers")?;
    let mut containers = Containers::new(engine);
    let mut looked = Instant::now();
    loop {
        let wait = containers.next_look(INTERVAL.saturating_sub(looked.elapsed()));
        if wait_for_something(&containers, wait).step("wait for messages")? {
            let Ok(Some((request, files))) = protocol::receive::<Request>(&io::stdin()) else {
                // Nothing needs us any more, and all our descendants end with us.
                return Ok(ExitCode::SUCCESS);
            };
            // A container that has just started need not be checked.
            if containers.is_empty() {
                looked = Instant::now();
            }
            handle(&mut containers, request, files);
        }
        let is_watching = looked.elapsed() >= INTERVAL;
        containers.enforce(is_watching);
        if is_watching {
            looked = Instant::now();
        }
        for ended in containers.reap() {
            tell(&Report::Ended(ended));
        }
    }
}

/// Waits for a message, the end of a container, or time. Says whether there is a message.
fn wait_for_something(containers: &Containers, wait: Option<Duration>) -> io::Result<bool> {
    let socket = io::stdin();
    let mut wanted = vec![PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    wanted.extend(containers.ends().map(|ended| PollFd::new(ended, PollFlags::IN)));
    let wait = wait.map(|wait| Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    });
    match poll(&mut wanted, wait.as_ref()) {
        Ok(_) => Ok(!wanted[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn handle(containers: &mut Containers, request: Request, files: Vec<std::os::fd::OwnedFd>) {
    match request {
        Request::Begin { .. } | Request::Chroot | Request::Process => {}
        Request::Run(run) => {
            if let Err(error) = containers.start(&run, files) {
                containers.kill(run.id);
                tell(&Report::Ended(not_started(run.id, &error)));
            }
        }
        Request::Kill { id } => containers.kill(id),
        Request::Terminate { id } => containers.terminate(id),
        Request::Connect { id, request, port } => match containers.network(id) {
            Some((process, is_isolated)) => network::connect(process, is_isolated, request, port),
            None => network::refuse(request, "the container does not run"),
        },
        Request::Listen { id, request, port } => match containers.network(id) {
            Some((process, true)) => network::listen(process, request, port),
            Some((_, false)) => network::refuse(request, "the container has no network of its own"),
            None => network::refuse(request, "the container does not run"),
        },
        Request::Forget { rootfs } => containers.forget(&rootfs),
    }
}

fn not_started(id: u64, error: &io::Error) -> Ended {
    let complaint = Some(error.to_string());
    Ended { id, code: None, exceeded: None, complaint, cpu_ms: 0, memory: 0 }
}

/// If nothing listens any more, the socket says so soon enough.
fn tell(report: &Report) {
    let _ = protocol::send(&io::stdin(), report, &[]);
}
