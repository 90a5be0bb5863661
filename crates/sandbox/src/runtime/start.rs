//! Starts one container, and ends it when its handle is dropped.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, fchmod};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Runtime;
use super::connection::Host;
use crate::cgroups::Cgroup;
use crate::container::Container;
use crate::error::{Error, Limit, SpecError};
use crate::input;
use crate::limits::{Grants, Limits, Network};
use crate::protocol::{Ended, Request, Run, Watch};
use crate::spec;

/// A container that runs. Dropping it ends the container.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) id: u64,
    pub(super) host: Host,
    /// None when its end has been heard of.
    ended: Option<oneshot::Receiver<Ended>>,
    cgroup: Option<Cgroup>,
    /// Dropping it ends them.
    pub(super) forwards: JoinSet<()>,
}

/// What a program writes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) output: pipe::Receiver,
    pub(super) log: pipe::Receiver,
}

/// What to start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) container: &'a Container,
    pub(super) input: &'a [u8],
    pub(super) limits: &'a Limits,
    pub(super) grants: Grants,
    /// A server runs for as long as it likes.
    pub(super) is_server: bool,
}

impl Runtime {
    /// Starts a container. Gives it and what it writes.
    pub(super) async fn start(&self, start: Start<'_>) -> Result<(Started, Pipes), Error> {
        let Start { container, limits, .. } = start;
        let rootfs = container.rootfs.to_str().filter(|path| path.starts_with('/')).map(str::to_owned);
        let rootfs = rootfs.ok_or_else(|| SpecError::Rootfs { path: container.rootfs.clone() })?;
        let (mapping, engine) = (self.inner.mapping, self.inner.engine.kind);
        let spec = spec::derive(container, limits, start.grants, mapping, engine, start.is_server)?;
        let spec = serde_json::to_vec(&spec).map_err(|error| Error::Pass(error.into()))?;
        let working_directory = container.working_directory()?;
        let shared = container.shared_directories()?;
        let mounted_on = shared.into_iter().map(|mount| mount.destination.to_owned()).collect();
        let host = self.host().await?;

        let id = self.number();
        let (output_end, output) = pipe_to_us().map_err(Error::Pass)?;
        let (log_end, log) = pipe_to_us().map_err(Error::Pass)?;
        let input = input::sealed(start.input).map_err(Error::Pass)?;
        let mut files = vec![input, output_end, log_end, input::sealed(&spec).map_err(Error::Pass)?];
        let cgroup = self.inner.cgroup.as_ref().map(|directory| directory.create(limits)).transpose()?;
        if let Some(cgroup) = &cgroup {
            files.push(cgroup.processes().map_err(Error::Pass)?);
        }
        let watch = watch(limits, start.is_server);
        let is_isolated = start.grants.network == Network::Isolated;
        let ended = Some(host.await_end(id));
        let run = Run { id, rootfs, working_directory, mounted_on, is_isolated, watch };
        host.send(Request::Run(run), files);
        Ok((Started { id, host, ended, cgroup, forwards: JoinSet::new() }, Pipes { output, log }))
    }
}

impl Started {
    /// Waits until the container and all its processes are gone.
    pub(super) async fn end(&mut self) -> Result<Ended, Error> {
        let Some(ended) = &mut self.ended else { return Err(Error::HostEnded) };
        let mut ended = ended.await.map_err(|_| Error::HostEnded)?;
        self.ended = None;
        if self.cgroup.as_ref().is_some_and(Cgroup::ran_out_of_memory) {
            ended.exceeded.get_or_insert(Limit::Memory);
        }
        Ok(ended)
    }

    pub(super) fn kill(&self) {
        self.host.send(Request::Kill { id: self.id }, Vec::new());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.kill();
        }
    }
}

fn watch(limits: &Limits, is_server: bool) -> Watch {
    let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 4);
    Watch {
        time_ms: (!is_server).then(|| milliseconds(limits.time).min(YEAR)),
        cpu_ms: (!is_server).then(|| milliseconds(limits.cpu_time)),
        memory: limits.memory,
        processes: limits.processes,
    }
}

/// In milliseconds. Longer times could not be added to a clock.
const YEAR: u64 = 365 * 24 * 3600 * 1000;

/// A pipe: the end that a program writes to, and ours.
pub(super) fn pipe_to_us() -> io::Result<(OwnedFd, pipe::Receiver)> {
    let (sender, receiver) = pipe::pipe()?;
    let sender = sender.into_blocking_fd()?;
    // Scripts open `/dev/stderr` anew, as another user than ours.
    fchmod(&sender, Mode::RUSR | Mode::WUSR | Mode::WGRP | Mode::WOTH)?;
    Ok((sender, receiver))
}
