//! Starts the host: namespaces, the ledger, users, and only then anything else.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Inner;
use super::connection::{Host, receive};
use crate::cgroups::CgroupDirectory;
use crate::error::Error;
use crate::protocol::{self, Report, Request};
use crate::spec::Mapping;
use crate::users::unprivileged;

/// How long a step of the start may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Starts the host.
pub(super) async fn launch(inner: &Inner) -> Result<Host, Error> {
    let (ours, theirs) = sockets().map_err(Error::Host)?;
    let mut child = spawn(inner, theirs).map_err(Error::Host)?;
    let socket = UnixStream::from_std(ours.into()).map_err(Error::Host)?;
    let pid = child.id().ok_or_else(|| Error::Host(io::ErrorKind::NotFound.into()))?;

    expect(&socket, &mut child, |report| matches!(report, Report::Unshared)).await?;
    // Recorded before it may start anything: in any other order a crash here leaves containers without a record.
    let entry = inner.ledger.note(pid, inner.cgroup.as_ref().map(CgroupDirectory::path));
    let entry = entry.map_err(|source| Error::State { path: inner.options.state.clone(), source })?;
    match begin(inner, pid, &socket, &mut child).await {
        Ok(()) => Ok(Host::new(socket, child, entry)),
        Err(error) => {
            entry.remove();
            Err(error)
        }
    }
}

async fn begin(inner: &Inner, pid: u32, socket: &UnixStream, child: &mut Child) -> Result<(), Error> {
    map_users(pid, inner.mapping)?;
    let begin = Request::Begin { engine: inner.engine.clone() };
    protocol::send(socket, &begin, &[]).map_err(Error::Host)?;
    expect(socket, child, |report| matches!(report, Report::Ready)).await
}

/// A socket for us, and one for a helper.
pub(super) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

fn spawn(inner: &Inner, socket: OwnedFd) -> io::Result<Child> {
    let Some((program, arguments)) = inner.options.helper.split_first() else {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    };
    Command::new(program)
        .args(arguments)
        .env_clear()
        // Only a process with a single thread may have a new user namespace, and this allocator likes to have threads of its own.
        .env("_RJEM_MALLOC_CONF", "background_thread:false")
        .current_dir("/")
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Waits for a report of the host.
async fn expect(
    socket: &UnixStream,
    child: &mut Child,
    is_expected: impl Fn(&Report) -> bool,
) -> Result<(), Error> {
    match timeout(PATIENCE, receive(socket)).await {
        Ok(Ok(Some((report, _)))) if is_expected(&report) => Ok(()),
        Ok(Ok(Some((Report::Refused { step, cause }, _)))) => {
            let remedy = remedy(&step);
            Err(Error::Forbidden { step, cause, remedy })
        }
        Ok(Ok(_)) => {
            let status = timeout(PATIENCE, child.wait()).await.ok().and_then(Result::ok);
            let how =
                status.map_or_else(|| "said nothing".to_owned(), |status| format!("ended with {status}"));
            Err(Error::Host(io::Error::other(format!("it {how}"))))
        }
        Ok(Err(error)) => Err(Error::Host(error)),
        Err(_) => Err(Error::Host(io::ErrorKind::TimedOut.into())),
    }
}

fn remedy(step: &str) -> &'static str {
    if step.contains("namespaces") {
        "allow user namespaces (`sysctl user.max_user_namespaces`, on Debian `kernel.unprivileged_userns_clone`, on Ubuntu \
         `kernel.apparmor_restrict_unprivileged_userns`), or run it outside of a container"
    } else {
        "run it outside of a container, or in one with an unmasked `/proc` and no seccomp profile"
    }
}

/// Says who the users of the host are. Number 0 is our own user, since it has to read the files of images; the others are nobody's.
fn map_users(pid: u32, mapping: Mapping) -> Result<(), Error> {
    let write = |file: &str, text: &str| fs::write(format!("/proc/{pid}/{file}"), text);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let own = |id: u32| format!("0 {id} 1\n");
    let more = |id: u32| format!("0 {id} 1\n1 {} 2\n", unprivileged());
    let map = |file: &str, id: u32| match mapping {
        Mapping::Own => write(file, &own(id)),
        Mapping::Unprivileged => write(file, &more(id)),
    };
    // A user who is not an administrator may map groups only after giving up the right to drop them.
    let groups = if mapping == Mapping::Own { write("setgroups", "deny") } else { Ok(()) };
    let mapped = groups.and_then(|()| map("uid_map", uid)).and_then(|()| map("gid_map", gid));
    mapped.map_err(|cause| Error::Forbidden {
        step: "map users into a user namespace".to_owned(),
        cause: cause.to_string(),
        remedy: "run it as an ordinary user, or as root with the capabilities SETUID, SETGID and SETFCAP",
    })
}
