//! Serves requests for plans.

use bytes::Bytes;
use ferroplane_client::ApiClient;
use ferroplane_controllers::{PlanError, PlanRequest, Planner};
use http::StatusCode;
use serde_json::json;

/// The plan that a request asks for, as JSON, or why there is none, as Kubernetes says such things. `caller` is the API server as
/// a client that asks sees it.
pub(crate) async fn answer(planner: &Planner, caller: &ApiClient, body: &[u8]) -> (StatusCode, Bytes) {
    let request: PlanRequest = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => {
            let words = format!("cannot read the request for a plan: {error}");
            return (StatusCode::BAD_REQUEST, failure(StatusCode::BAD_REQUEST, "BadRequest", &words));
        }
    };
    match planner.plan(&request, caller).await {
        Ok(plan) => (StatusCode::OK, serde_json::to_vec(&plan).unwrap_or_default().into()),
        Err(error) => {
            let (code, reason) = match &error {
                PlanError::Moving(_) | PlanError::Unread(_) => (StatusCode::CONFLICT, "Conflict"),
                _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
            };
            (code, failure(code, reason, &error.to_string()))
        }
    }
}

/// A failure as an API server tells it.
pub(crate) fn failure(code: StatusCode, reason: &str, message: &str) -> Bytes {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
        "code": code.as_u16(),
    });
    status.to_string().into_bytes().into()
}
