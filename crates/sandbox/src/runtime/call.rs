//! One call: bytes on standard input, bytes from standard output, lines from standard error.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::Runtime;
use super::start::{Pipes, Start, Started};
use crate::container::Container;
use crate::error::{Error, Limit};
use crate::limits::{Grants, Limits};
use crate::lines::{self, Budget, LineSink};
use crate::protocol::Ended;

/// How long after its time limit a call may take to come back before the host is given up.
const GRACE: Duration = Duration::from_secs(10);
/// How long to wait for the last lines of a program that is gone.
pub(super) const LAST_LINES: Duration = Duration::from_secs(1);

/// What to call, and with what.
#[derive(Debug)]
pub struct Call<'a> {
    pub container: &'a Container,
    pub input: &'a [u8],
    pub limits: Limits,
    pub grants: Grants,
    /// Who calls. When there are too many calls, the next one is that of the key that uses the least.
    pub key: &'a str,
    /// Takes what the program writes to standard error.
    pub log: LineSink,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub stdout: Vec<u8>,
    /// What the program returned; 128 and the signal if one ended it.
    pub exit_code: i32,
    pub usage: Usage,
}

/// What the program was seen to use, at intervals. A short one may not have been seen at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub cpu_time: Duration,
    pub memory: u64,
}

impl Runtime {
    /// Runs a program once. If the returned future is dropped, the program is ended.
    pub async fn call(&self, call: Call<'_>) -> Result<Output, Error> {
        let _place = self.inner.queue.enter(call.key).await?;
        let Call { container, input, limits, grants, .. } = call;
        let start = Start { container, input, limits: &limits, grants, is_server: false };
        let (mut started, Pipes { mut output, log }) = self.start(start).await?;
        let budget = Budget { bytes: limits.log, renewed_after: None };
        let log = tokio::spawn(lines::hand_on(log, budget, call.log));
        let finished =
            timeout(limits.time.saturating_add(GRACE), finish(&mut started, &mut output, limits.output))
                .await;
        let result = finished.unwrap_or_else(|_| {
            // It should have ended the program long ago. The next call starts another one.
            started.host.give_up();
            Err(Error::HostEnded)
        });
        drop(started);
        // Its last lines say why it failed.
        let _ = timeout(LAST_LINES, log).await;
        result
    }
}

async fn finish(started: &mut Started, output: &mut pipe::Receiver, most: u64) -> Result<Output, Error> {
    let Some(stdout) = read(output, most).await? else {
        started.kill();
        started.end().await?;
        return Err(Error::Exceeded(Limit::Output));
    };
    let ended = started.end().await?;
    let usage = Usage { cpu_time: Duration::from_millis(ended.cpu_ms), memory: ended.memory };
    Ok(Output { stdout, exit_code: exit_code(ended)?, usage })
}

/// Everything that the program writes, or nothing if that is too much.
pub(super) async fn read(from: &mut pipe::Receiver, most: u64) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes).await.map_err(Error::Pass)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// What the program returned, unless it was stopped or never started.
pub(super) fn exit_code(ended: Ended) -> Result<i32, Error> {
    if let Some(limit) = ended.exceeded {
        return Err(Error::Exceeded(limit));
    }
    match (ended.code, ended.complaint) {
        (Some(0), _) => Ok(0),
        (_, Some(message)) => Err(Error::Start { message }),
        (Some(code), None) => Ok(code),
        (None, None) => Err(Error::Start { message: "the runtime was killed".to_owned() }),
    }
}
