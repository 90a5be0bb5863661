//! Whose turn it is: the place that a request takes while it runs, and the memory that its body and its response take.
//!
//! Authorization comes before both, because it costs next to nothing: a user who may not do what they ask for takes nothing from
//! those who may.

use std::sync::Arc;

use ferroplane_schema::status::Status;
use http::Response;

use super::routes::AuthenticatedRequest;
use super::{Server, ServerState};
use crate::auth::identity::{Identity, MASTERS};
use crate::flow_control::{BodyReservation, Permit, RequestClass};
use crate::request::{RequestInfo, Target, Verb};
use crate::response::{self, Body};

/// A client that asks whether the server lives must learn it most of all when other requests get no answer. As kube-apiserver, which
/// exempts its probes, too; what is asked here costs microseconds.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// What a request from outside holds. It travels with the response, among its extensions.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    /// The place: until the response is ready to be sent.
    _permit: Arc<Permit>,
    /// The memory of the response: until its last byte has been sent. A watch has none, because it has a place for as long.
    memory: Option<Arc<BodyReservation>>,
}

impl Turn {
    /// Makes room for a response before so many bytes are read for it, so that what is refused is never made.
    pub(super) fn make_room(&self, bytes: usize) -> Result<(), Status> {
        self.memory.as_ref().map_or(Ok(()), |memory| memory.grow(bytes))
    }

    /// Gives up the place, and counts the response until it has been sent.
    pub(super) fn finish(self, response: Response<Body>) -> Response<Body> {
        match self.memory {
            Some(memory) => response::count(response, memory),
            None => response,
        }
    }
}

impl Server {
    /// A place for a request, when it is its turn, and memory for its response. Nothing for those that need none.
    pub(super) async fn take_turn(&self, request: AuthenticatedRequest<'_>) -> Result<Option<Turn>, Status> {
        if !request.is_limited || is_about_health(request.info) {
            return Ok(None);
        }
        let (class, caller) = (class_of(request.info), request.caller);
        let ServerState { flow_control, responses, reserved_responses, .. } = &*self.state;
        let memory = if is_administrator(caller) { reserved_responses } else { responses };
        // Before the wait for a place, and before anything is done: a write whose response is refused must not happen.
        let memory = if class == RequestClass::Watch { None } else { Some(memory.reserve(caller.flow())?) };
        // By who sends it, not by whom the sender acts as: it is the sender who takes places.
        let permit = if is_administrator(caller) {
            flow_control.enter_reserved(class, caller.flow()).await?
        } else {
            flow_control.enter(class, caller.flow()).await?
        };
        Ok(Some(Turn { _permit: Arc::new(permit), memory: memory.map(Arc::new) }))
    }

    /// Memory for the body of a request that has one.
    pub(super) fn reserve_body(
        &self,
        verb: Verb,
        request: AuthenticatedRequest<'_>,
    ) -> Result<Option<BodyReservation>, Status> {
        if !request.is_limited || !verb.changes_something() {
            return Ok(None);
        }
        let caller = request.caller;
        let memory = if is_administrator(caller) { &self.state.reserved_bodies } else { &self.state.bodies };
        memory.reserve(caller.flow()).map(Some)
    }
}

/// Lets a response carry what its request holds.
pub(super) fn attach(turn: Option<Turn>, response: &mut Response<Body>) {
    if let Some(turn) = turn {
        response.extensions_mut().insert(turn);
    }
}

/// Whether a user has the reserved capacity of administrators.
fn is_administrator(caller: &Identity) -> bool {
    caller.is_in(MASTERS)
}

fn class_of(info: &RequestInfo) -> RequestClass {
    if info.is_watch() {
        RequestClass::Watch
    } else if info.changes_something() {
        RequestClass::Mutating
    } else {
        RequestClass::ReadOnly
    }
}

fn is_about_health(info: &RequestInfo) -> bool {
    let Target::Other(path) = &info.target else { return false };
    HEALTH
        .iter()
        .any(|health| path.strip_prefix(health).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}
