//! Explains the status of a failed call, with the remedy.
//!
//! Everything said here is repeated in conditions, so it must not change from one try to the next.

use std::error::Error;

use tonic::{Code, Status};

use super::attempt::{NotAResponse, Progress};
use super::{Options, Target};
use crate::error::CallError;

/// Whose call failed, and how far it got.
pub(super) struct Fault<'a> {
    pub(super) target: &'a Target,
    pub(super) options: &'a Options,
    pub(super) progress: &'a Progress,
    /// The function has answered before, so it does speak what we speak.
    pub(super) has_answered: bool,
}

impl Fault<'_> {
    /// What the status means.
    pub(super) fn explain(&self, status: &Status) -> CallError {
        let target = self.target.to_string();
        // Only what happened to us has a source: a status that came from the function is just a status.
        if let Some(source) = status.source() {
            return match source.downcast_ref::<NotAResponse>() {
                Some(garbage) => CallError::Garbage { target, reason: garbage.to_string() },
                None => self.broken(&innermost(source), has_spoken_http(source)),
            };
        }
        let message = match status.message() {
            "" => "it gave no reason".to_owned(),
            message => message.to_owned(),
        };
        match status.code() {
            Code::Unimplemented if self.progress.has_verdict() => CallError::Unimplemented { target },
            code if self.progress.has_verdict() => CallError::Failed { target, code, message },
            // tonic's code for its own limit, which no function can have sent: `has_verdict` is false here.
            Code::OutOfRange => CallError::ResponseTooLarge { target, limit: self.options.max_response },
            _ => CallError::Garbage { target, reason: message },
        }
    }

    /// Something is wrong with the connection.
    fn broken(&self, reason: &str, has_spoken_http: bool) -> CallError {
        let target = self.target.to_string();
        let (is_tls, is_sent) = (self.options.tls.is_some(), self.progress.is_sent());
        // The words of the `h2` crate for a frame that the peer sent. It has no type for this that tonic
        // hands on.
        if reason.contains(" error received: ") {
            return CallError::Lost { target, reason: reason.to_owned() };
        }
        // HTTP begins when our side of the handshake is done. The peer may refuse our certificate before it gets the request.
        let is_after_handshake = is_tls && has_spoken_http && is_hangup(reason);
        if (is_sent || is_after_handshake) && !self.has_answered {
            // It is a matter of luck what we notice first: that the peer refuses our certificate, that it
            // talks nonsense, or that the connection is gone.
            return if is_tls { refused(target) } else { speechless(target) };
        }
        if is_tls && let Some((_, advice)) = COMPLAINTS.iter().find(|(sign, _)| reason.contains(sign)) {
            return CallError::Tls { target, reason: with(without_times(reason), advice) };
        }
        let reason = match (is_hangup(reason), is_sent, is_tls) {
            (true, true, _) => "it closed the connection",
            (true, false, true) => "it does not take part in the TLS handshake (does it serve without TLS?)",
            _ => reason,
        };
        CallError::Lost { target, reason: reason.to_owned() }
    }
}

/// Whether the peer has said that it did nothing with the request, as one does that is about to end.
pub(super) fn is_untouched(reason: &str) -> bool {
    ["connection error received: not a result of an error", "stream error received: refused stream"]
        .iter()
        .any(|sign| reason.starts_with(sign))
}

fn refused(target: String) -> CallError {
    let reason = "it hung up after the handshake (does it accept our certificate?)".to_owned();
    CallError::Tls { target, reason }
}

fn speechless(target: String) -> CallError {
    let reason = "it closed the connection or does not speak HTTP/2 (does it expect TLS?)".to_owned();
    CallError::Lost { target, reason }
}

/// How TLS puts what it has to complain about, and where to look then. None of it goes away by waiting.
const COMPLAINTS: [(&str, &str); 10] = [
    ("UnknownIssuer", "is it signed by the certificate authority that we were given?"),
    // What an authority of the same name has signed.
    ("BadSignature", "is it signed by the certificate authority that we were given?"),
    ("invalid peer certificate", ""),
    ("received corrupt message", "does it serve without TLS?"),
    ("received fatal alert", "does it accept our certificate?"),
    ("received unexpected message", ""),
    ("peer is incompatible", ""),
    ("peer misbehaved", ""),
    ("peer doesn't support any known protocol", "is it a gRPC server?"),
    ("HTTP/2 was not negotiated", "is it a gRPC server?"),
];

/// Whether the peer has left us alone with the connection. There are many ways to learn that.
fn is_hangup(reason: &str) -> bool {
    let signs = ["eof", "end of file", "reset", "roken pipe", "closed", "canceled", "handshake timeout"];
    signs.iter().any(|sign| reason.contains(sign))
}

fn with(reason: &str, advice: &str) -> String {
    if advice.is_empty() { reason.to_owned() } else { format!("{reason} ({advice})") }
}

/// A certificate that has expired is said to have done so so many seconds ago.
fn without_times(reason: &str) -> &str {
    reason.split(": verification time").next().unwrap_or(reason)
}

/// Whether the connection broke while HTTP was spoken over it, and not while it was made.
fn has_spoken_http(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<hyper::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The cause of all causes: the layers above it only say that something went wrong.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
