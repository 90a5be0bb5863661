//! A program with all the processes it starts: they end together.
//!
//! # Invariants
//! * A group is signalled only while its leader has not been reaped: from then on its id may be that of other processes.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The processes of a program, which leads a process group. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Group {
    id: GroupId,
    ended: watch::Receiver<Option<ExitStatus>>,
}

/// The id of a process group, until its leader is reaped.
#[derive(Debug, Clone)]
struct GroupId(Arc<Mutex<Option<Pid>>>);

impl Group {
    pub(super) fn of(child: Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = GroupId(Arc::new(Mutex::new(leader)));
        let (sender, ended) = watch::channel(None);
        tokio::spawn(watch_over(child, leader, id.clone(), sender));
        Self { id, ended }
    }

    /// Wait until the program has ended, and say how it did.
    pub(super) async fn end(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(status)) => status.to_string(),
            // A caller that watches it is gone only when its runtime is, and ends it then.
            Ok(None) | Err(_) => "its process is no longer watched".to_owned(),
        }
    }

    /// Ask all of them to end.
    pub(super) fn terminate(&self) {
        self.id.signal(Signal::TERM);
    }

    /// End all of them.
    pub(super) fn kill(&self) {
        self.id.signal(Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

impl GroupId {
    fn signal(&self, signal: Signal) {
        // Held while the signal is sent, so that the leader cannot be reaped in between.
        send(*self.0.lock().unwrap_or_else(PoisonError::into_inner), signal);
    }

    /// End the group for good. Nothing is signalled from now on.
    fn retire(&self) {
        send(self.0.lock().unwrap_or_else(PoisonError::into_inner).take(), Signal::KILL);
    }
}

/// Wait for the program to end, end what it has left behind, reap it, and say so.
async fn watch_over(
    mut child: Child,
    leader: Option<Pid>,
    group: GroupId,
    ended: watch::Sender<Option<ExitStatus>>,
) {
    if let Some(leader) = leader {
        exited(leader).await;
    }
    // What the leader started may live on in its group, and would keep the port. The leader is not reaped yet, so that
    // the id of the group cannot be that of another one.
    group.retire();
    let status = child.wait().await.unwrap_or_default();
    ended.send_replace(Some(status));
}

/// Wait until a child has ended, and leave it to be reaped.
async fn exited(child: Pid) {
    // Listens before it looks, so that an end in between is not missed.
    let Ok(mut children) = signal(SignalKind::child()) else { return };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    // An error means that there is no such child to wait for.
    while let Ok(None) = waitid(WaitId::Pid(child), options) {
        children.recv().await;
    }
}

fn send(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // It may be gone already, and that is what we want.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process;
    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn leader_is_reaped_only_after_its_group_was_ended() {
        // What it starts keeps on running, and has its id for a group.
        let mut child =
            Command::new("sh").args(["-c", "sleep 600 & exit 3"]).process_group(0).spawn().unwrap();
        let leader = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        exited(leader).await;
        assert!(test_kill_process(leader).is_ok(), "the id of the leader is free");
        let group = GroupId(Arc::new(Mutex::new(Some(leader))));
        group.retire();
        assert_eq!(child.wait().await.unwrap().code(), Some(3));
        assert!(group.0.lock().unwrap().is_none(), "the group could still be signalled");
        assert!(test_kill_process(leader).is_err());
    }

    #[tokio::test]
    async fn end_of_a_program_is_told() {
        let child = Command::new("sh").args(["-c", "exit 3"]).process_group(0).spawn().unwrap();
        assert_eq!(Group::of(child).end().await, "exit status: 3");
    }
}
