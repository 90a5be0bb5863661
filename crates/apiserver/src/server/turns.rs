//! Whose turn it is: the place that a request takes while it runs, and the memory that its body takes.
//!
//! Authorization comes before both, because it costs next to nothing: a user who may not do what they ask for takes nothing from
//! those who may.

use ferroplane_schema::status::Status;

use super::Server;
use super::routes::AuthenticatedRequest;
use crate::auth::identity::{Identity, MASTERS};
use crate::flow_control::{BodyReservation, Permit, RequestClass};
use crate::request::{RequestInfo, Target, Verb};

/// A client that asks whether the server lives must learn it most of all when other requests get no answer. As kube-apiserver, which
/// exempts its probes, too; what is asked here costs microseconds.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

impl Server {
    /// A place for a request, when it is its turn. Nothing for those that need none.
    pub(super) async fn take_turn(
        &self,
        request: AuthenticatedRequest<'_>,
    ) -> Result<Option<Permit>, Status> {
        if !request.is_limited || is_about_health(request.info) {
            return Ok(None);
        }
        let (class, caller) = (class_of(request.info), request.caller);
        let flow_control = &self.state.flow_control;
        // By who sends it, not by whom the sender acts as: it is the sender who takes places.
        if is_administrator(caller) {
            flow_control.enter_reserved(class, &caller.name).await.map(Some)
        } else {
            flow_control.enter(class, &caller.name).await.map(Some)
        }
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
        memory.reserve(&caller.name).map(Some)
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
