//! Code that was compiled, and calls of it.

mod compiled;
mod verdict;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

pub(crate) use compiled::{Compiled, Linkers};

use crate::error::Error;
use crate::grants::{Grants, Stillness};
use crate::limits::Limits;
use crate::log::LogSink;
use crate::runtime::{Runtime, Shared};

/// Code that was compiled and can be called. Clones are the same code.
#[derive(Debug, Clone)]
pub struct Program {
    runtime: Runtime,
    compiled: Arc<Compiled>,
}

/// How bytes come in and go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contract {
    /// The request is on stdin, the answer on stdout.
    Command,
    /// The code exports the function of `wit/function.wit`.
    Component,
}

/// One call of code.
#[derive(Clone)]
pub struct Call {
    pub request: Bytes,
    pub grants: Arc<Grants>,
    pub limits: Limits,
    /// What it sees instead of the clocks and the randomness that it was not granted.
    pub stillness: Stillness,
    /// Takes what it writes to the log.
    pub log: LogSink,
    /// Who it is made for. The next call is that of the tenant that uses the least.
    pub tenant: u64,
    /// Who calls. Callers of a tenant are served in turn.
    pub caller: u64,
    /// Keeps the instance for the next call with the same key, and nothing granted to it. What the code remembers, that call will see.
    /// Holds for components only: a command ends with its answer.
    pub warm: Option<u64>,
}

impl Call {
    /// A call without grants, with the default limits and without a log.
    pub fn new(request: impl Into<Bytes>) -> Self {
        Self {
            request: request.into(),
            grants: Arc::default(),
            limits: Limits::default(),
            stillness: Stillness::default(),
            log: Arc::new(|_| ()),
            tenant: 0,
            caller: 0,
            warm: None,
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut call = f.debug_struct("Call");
        call.field("request", &self.request.len())
            .field("grants", &self.grants)
            .field("limits", &self.limits);
        call.field("tenant", &self.tenant).field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Program {
    pub(crate) fn new(runtime: Runtime, compiled: Arc<Compiled>) -> Self {
        Self { runtime, compiled }
    }

    /// How it takes its request.
    pub fn contract(&self) -> Contract {
        self.compiled.contract()
    }

    /// The SHA-256 of its code.
    pub fn digest(&self) -> [u8; 32] {
        self.compiled.digest
    }

    /// Whether this and another are the same code, compiled once.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.compiled, &other.compiled)
    }

    /// Call it. A call whose future is dropped is stopped.
    pub async fn call(&self, call: Call) -> Result<Vec<u8>, Error> {
        let shared = &self.runtime.0;
        if call.limits.fuel.is_some() && !shared.options.meter_fuel {
            return Err(Error::NotMetered);
        }
        let (reply, answer) = oneshot::channel();
        // The workers belong to the runtime: a job that held it would keep it alive for ever.
        let (weak, compiled) = (Arc::downgrade(shared), self.compiled.clone());
        let (tenant, caller) = (call.tenant, call.caller);
        let job = move |tokio: &tokio::runtime::Runtime| {
            if let Some(shared) = weak.upgrade() {
                run_to_end(tokio, &shared, &compiled, &call, reply);
            }
        };
        let submitted = shared.workers.submit(tenant, caller, Box::new(job));
        // Held until there is an answer: a call that still waits when this future is dropped goes with it.
        let _submitted = submitted.map_err(|limit| Error::QueueFull { limit })?;
        answer.await.map_err(|_| Error::Lost)?
    }
}

type Reply = oneshot::Sender<Result<Vec<u8>, Error>>;

fn run_to_end(
    tokio: &tokio::runtime::Runtime,
    shared: &Shared,
    compiled: &Compiled,
    call: &Call,
    mut reply: Reply,
) {
    let limit = call.limits.time;
    let result = tokio.block_on(async {
        let _ticking = shared.ticker.during_call();
        tokio::select! {
            biased;
            // First: a call whose caller has gone is not begun.
            () = reply.closed() => None,
            result = tokio::time::timeout(limit, compiled.run(shared, call)) => Some(result),
        }
    });
    // Nothing waits any more if there is none.
    if let Some(result) = result {
        let _ = reply.send(result.unwrap_or(Err(Error::Time { limit })));
    }
}
