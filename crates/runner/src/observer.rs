//! Reports calls of functions to metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_wire::v1::{RunFunctionResponse, Severity};

use crate::error::CallError;

/// Something that happened to a call.
#[derive(Debug, Clone, Copy)]
pub enum Happening<'a> {
    /// A function is called.
    Called(Peer<'a>),
    /// The call is over.
    Ended { peer: Peer<'a>, code: &'static str, severity: &'static str, took: Duration },
    /// It had answered the same before, and need not be called.
    Recalled,
    /// It had not.
    NotRecalled,
    /// Its answer is kept.
    Kept { bytes: usize },
}

/// Where a function is, and how it is called.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    pub target: &'a str,
    pub method: &'static str,
}

/// Told what happens, with the name of the function it happens to. Must not take long.
#[derive(Clone)]
pub struct Observer(Arc<Tell>);

type Tell = dyn Fn(&str, Happening<'_>) + Send + Sync;

impl Observer {
    pub fn new(tell: impl Fn(&str, Happening<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, function: &str, happening: Happening<'_>) {
        (self.0)(function, happening);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// How a call ended, as gRPC says it in Go, and the worst that the function said.
pub(crate) fn verdict(result: &Result<RunFunctionResponse, CallError>) -> (&'static str, &'static str) {
    match result {
        Ok(response) => ("OK", worst(response)),
        Err(error) => (error.code(), "Normal"),
    }
}

fn worst(response: &RunFunctionResponse) -> &'static str {
    let said =
        |severity: Severity| response.results.iter().any(|result| result.severity == i32::from(severity));
    if said(Severity::Fatal) {
        "Fatal"
    } else if said(Severity::Warning) {
        "Warning"
    } else {
        "Normal"
    }
}
