//! Who asks: certificates, tokens, and impersonation.
//!
//! A valid certificate comes first, then a bearer token. A client that shows neither is anonymous; a client that shows only
//! something that is not valid is refused, so that a mistake is not taken for a missing right.

mod certificate;
mod impersonation;
mod jwt;
mod service_account;
mod static_tokens;
mod token_error;
mod token_request;
mod token_review;

use std::sync::Arc;

use ferroplane_schema::status::Status;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;

pub use certificate::{ClientCertificate, Peer, Revocation};
pub use impersonation::Impersonation;
pub use jwt::KeyError;
pub use service_account::{
    BoundKind, BoundObject, DEFAULT_MAX_EXPIRATION, Error, Found, Lookup, ServiceAccountTokens,
};
pub use static_tokens::{StaticTokens, TokenFileError};
pub use token_request::{ServiceAccount, TokenAnswer};

use crate::auth::identity::Identity;
use token_error::TokenError;

/// The key of an identity's extra under which the credential is named, for the audit log.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Everything that can tell who asks.
#[derive(Debug)]
pub struct Authenticator {
    tokens: StaticTokens,
    service_accounts: Arc<ServiceAccountTokens>,
}

impl Authenticator {
    pub fn new(tokens: StaticTokens, service_accounts: Arc<ServiceAccountTokens>) -> Self {
        Self { tokens, service_accounts }
    }

    /// Who sent the request.
    pub fn authenticate(&self, headers: &HeaderMap, peer: &Peer, now: Timestamp) -> Result<Identity, Status> {
        // The first that identifies a user decides, in the order of kube-apiserver: a client with both is the user
        // of its certificate.
        if let Some(identity) = peer.identity(now) {
            return Ok(identity);
        }
        let refused = || Status::unauthorized("Unauthorized");
        match bearer_token(headers) {
            Bearer::Token(token) => {
                let found = self.identify(token, self.service_accounts.audiences(), now);
                // Why a token was refused is not told: it would help only those who guess.
                found.map(|(identity, _)| identity).map_err(|_| refused())
            }
            Bearer::Unreadable => Err(refused()),
            Bearer::None if peer.is_refused_at(now) => Err(refused()),
            Bearer::None => Ok(Identity::anonymous()),
        }
    }

    /// Whose token it is, and for which of the audiences it is meant; or what is wrong with it.
    fn identify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<(Identity, Vec<String>), TokenError> {
        if let Some(identity) = self.tokens.find(token) {
            // A static token is meant for this server.
            let common = intersection(self.service_accounts.audiences(), audiences);
            return if common.is_empty() { Err(TokenError::Invalid) } else { Ok((identity, common)) };
        }
        self.service_accounts.verify(token, audiences, now)
    }
}

fn intersection(one: &[String], other: &[String]) -> Vec<String> {
    one.iter().filter(|audience| other.contains(audience)).cloned().collect()
}

enum Bearer<'h> {
    None,
    Token(&'h str),
    Unreadable,
}

/// The token of the `Authorization` header. Other schemes are not ours to judge.
fn bearer_token(headers: &HeaderMap) -> Bearer<'_> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Bearer::None };
    let Ok(value) = value.to_str() else { return Bearer::Unreadable };
    let mut parts = value.trim().splitn(3, ' ');
    match (parts.next(), parts.next()) {
        (Some(scheme), Some(token)) if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() => {
            Bearer::Token(token)
        }
        _ => Bearer::None,
    }
}

#[cfg(test)]
mod tests;
