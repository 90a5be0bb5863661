//! What this process and the host say to each other: one packet for a message, with open files beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::Limit;

/// A packet is small: what is long is in files beside it.
const LARGEST_PACKET: usize = 32 * 1024;
/// Standard input, output and error, the configuration, the cgroup.
const MOST_FILES: usize = 5;

/// What this process asks of the host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The ledger knows you, and your users are mapped: continue.
    Begin { engine: Engine },
    /// Start a container. Beside it: standard input, output and error, the configuration, and perhaps `cgroup.procs`.
    Run(Run),
    /// Run a program without a container. Beside it: standard input, output and error, and a [`ChrootProgram`].
    Chroot,
    /// Run a server without a container. Beside it: standard output and error, a [`ProcessProgram`], and its executable.
    Process,
    /// End a container and all its processes.
    Kill { id: u64 },
    /// Ask the program to end.
    Terminate { id: u64 },
    /// Open a connection to a port in a container.
    Connect { id: u64, request: u64, port: u16 },
    /// Listen on a port in a container. It is answered as a connection is.
    Listen { id: u64, request: u64, port: u16 },
    /// The files of an image are no longer needed.
    Forget { rootfs: String },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) rootfs: String,
    pub(crate) working_directory: String,
    /// Directories that have to be there, for something is mounted on them.
    pub(crate) mounted_on: Vec<String>,
    /// Whether it has a network namespace of its own.
    pub(crate) is_isolated: bool,
    pub(crate) watch: Watch,
}

/// A program that has another root directory, and no container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChrootProgram {
    pub(crate) rootfs: String,
    /// Where to copy that to, if it cannot be made read-only.
    pub(crate) copy: String,
    pub(crate) command: Vec<String>,
    pub(crate) variables: Vec<String>,
    pub(crate) working_directory: String,
    /// Whom to run it as, if not as ourselves.
    pub(crate) user: Option<u32>,
    pub(crate) cpu_seconds: u64,
    pub(crate) file_bytes: u64,
    pub(crate) files: u64,
    pub(crate) processes: u64,
}

/// A server that has neither a container nor another root directory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProcessProgram {
    pub(crate) command: Vec<String>,
    pub(crate) variables: Vec<String>,
    pub(crate) working_directory: String,
    /// Whom to run it as, if not as ourselves.
    pub(crate) user: Option<u32>,
    pub(crate) memory: u64,
    pub(crate) file_bytes: u64,
    pub(crate) files: u64,
    /// Not limited if the user has other processes, too.
    pub(crate) processes: Option<u64>,
}

/// What the host itself watches.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Watch {
    pub(crate) time_ms: Option<u64>,
    pub(crate) cpu_ms: Option<u64>,
    pub(crate) memory: u64,
    pub(crate) processes: u32,
}

/// What the host tells this process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It has namespaces, and waits for its users to be mapped.
    Unshared,
    /// Containers can be started.
    Ready,
    /// This machine does not allow something.
    Refused {
        step: String,
        cause: String,
    },
    /// A container and all its processes are gone.
    Ended(Ended),
    /// Beside it: the connection, or what accepts them.
    Connected {
        request: u64,
    },
    NotConnected {
        request: u64,
        message: String,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) id: u64,
    /// What the runtime returned, if it was not killed.
    pub(crate) code: Option<i32>,
    /// Why the host killed it.
    pub(crate) exceeded: Option<Limit>,
    /// What the runtime complained about.
    pub(crate) complaint: Option<String>,
    pub(crate) cpu_ms: u64,
    pub(crate) memory: u64,
}

/// Sends one message. Blocks if the socket does.
pub(crate) fn send(socket: &impl AsFd, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > LARGEST_PACKET {
        return Err(io::Error::other("a message to the process that runs containers is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many files beside a message"));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.map(drop).map_err(io::Error::from),
        }
    }
}

/// Receives one message. None when the other side is gone.
pub(crate) fn receive<M: DeserializeOwned>(socket: &impl AsFd) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; LARGEST_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        // Nothing that a runtime is started with may stay open by accident.
        let flags = RecvFlags::CMSG_CLOEXEC;
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?.bytes,
        }
    };
    if length == 0 {
        return Ok(None);
    }
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    Ok(Some((serde_json::from_slice(&bytes[..length])?, files)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn files_travel_beside_messages() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("sockets");
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(b"hello").expect("write");
        send(&ours, &Request::Kill { id: 7 }, &[file.as_fd()]).expect("send");
        let (request, mut files) = receive::<Request>(&theirs).expect("receive").expect("message");
        assert!(matches!(request, Request::Kill { id: 7 }));
        let mut received = std::fs::File::from(files.pop().expect("file"));
        received.rewind().expect("rewind");
        let mut text = String::new();
        received.read_to_string(&mut text).expect("read");
        assert_eq!(text, "hello");
        drop(ours);
        assert!(receive::<Request>(&theirs).expect("end").is_none());
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_before_it_is_sent() {
        let (ours, _theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("sockets");
        let request = Request::Forget { rootfs: "x".repeat(LARGEST_PACKET) };
        assert!(send(&ours, &request, &[]).is_err());
    }
}
