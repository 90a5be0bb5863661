//! `TokenReview`: whose token is this?

use ferroplane_schema::status::Status;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Authenticator;
use super::token_error::TokenError;

impl Authenticator {
    /// Answers a review with the review itself, and what was found in its status.
    pub fn review(&self, review: &Map<String, Value>, now: Timestamp) -> Result<Map<String, Value>, Status> {
        let spec = review.get("spec");
        let token = spec.and_then(|spec| spec.get("token")).and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences = spec.and_then(|spec| spec.get("audiences")).and_then(Value::as_array);
        let audiences: Vec<String> =
            audiences.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let audiences = if audiences.is_empty() { self.service_accounts.audiences() } else { &audiences };
        let status = match self.identify(token, audiences, now) {
            Ok((identity, audiences)) => {
                json!({"authenticated": true, "user": identity.to_json(), "audiences": audiences})
            }
            Err(error) => json!({"user": {}, "error": explain(&error)}),
        };
        let mut review = review.clone();
        review.insert("status".to_owned(), status);
        Ok(review)
    }
}

/// Two authenticators were asked, that of static tokens and that of service accounts. Kubernetes lists what both say, unless
/// it is the same.
fn explain(error: &TokenError) -> String {
    match error {
        TokenError::Invalid => error.to_string(),
        more => format!("[{}, {more}]", TokenError::Invalid),
    }
}
