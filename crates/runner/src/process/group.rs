//! A program with all the processes it starts: they end together.

use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::sync::watch;

/// The processes of a program, which leads a process group. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Group {
    id: Option<Pid>,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Group {
    pub(super) fn of(child: Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (sender, ended) = watch::channel(None);
        tokio::spawn(watch_over(child, id, sender));
        Self { id, ended }
    }

    /// Wait until the program has ended, and say how it did.
    pub(super) async fn end(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(status)) => status.to_string(),
            // Whoever watches it is gone only when its runtime is, and ends it then.
            Ok(None) | Err(_) => "nobody watches it any more".to_owned(),
        }
    }

    /// Ask all of them to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// End all of them.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // The id of a group that has ended may be somebody else's by now.
        if self.ended.borrow().is_none() {
            send(self.id, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reap the program when it ends, end what it has left behind, and say so.
async fn watch_over(mut child: Child, group: Option<Pid>, ended: watch::Sender<Option<ExitStatus>>) {
    let status = child.wait().await.unwrap_or_default();
    // After the leader was reaped: what it started may live on in its group, and would keep the port.
    send(group, Signal::KILL);
    ended.send_replace(Some(status));
}

fn send(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // It may be gone already, and that is what we want.
        let _ = kill_process_group(group, signal);
    }
}
