//! A token server that Debian's registry trusts: it signs what a user may do.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ferroplane_testkit::{Leaf, Pki};
use serde_json::json;

use super::hostile::{Asked, Hostile, Reply};

pub(crate) struct TokenServer {
    pub(crate) server: Hostile,
    pub(crate) pki: Pki,
    /// How long the next token is valid, in seconds.
    pub(crate) validity: Arc<Mutex<u64>>,
}

impl TokenServer {
    /// Gives a token to a user who may have one.
    pub(crate) fn start(is_allowed: impl Fn(&Asked) -> bool + Send + Sync + 'static) -> Self {
        let pki = Pki::new();
        let leaf = pki.issue(&["tokens"]);
        let validity = Arc::new(Mutex::new(300));
        let seconds = validity.clone();
        let server = Hostile::start(move |asked| {
            if !is_allowed(asked) {
                return Reply::Answer(401, Vec::new(), b"{}".to_vec());
            }
            let seconds = *seconds.lock().unwrap();
            let answer = json!({"token": token(&leaf, &scopes(asked), seconds), "expires_in": seconds});
            Reply::Answer(200, Vec::new(), answer.to_string().into_bytes())
        });
        Self { server, pki, validity }
    }

    pub(crate) fn realm(&self) -> String {
        format!("http://{}/token", self.server.address)
    }
}

/// What was asked for, in the query or in the form.
fn scopes(asked: &Asked) -> Vec<String> {
    let query = asked.path.split_once('?').map_or(asked.body.as_str(), |(_, query)| query);
    let scopes = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "scope");
    scopes.flat_map(|(_, scope)| scope.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn token(leaf: &Leaf, scopes: &[String], validity: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let access = |scope: &String| {
        let (name, actions) = scope.strip_prefix("repository:")?.rsplit_once(':')?;
        let actions: Vec<&str> = actions.split(',').collect();
        Some(json!({"type": "repository", "name": name, "actions": actions}))
    };
    let access: Vec<_> = scopes.iter().filter_map(access).collect();
    let claims = json!({
        "iss": "tests", "aud": "tests", "sub": "alice", "jti": now.to_string(), "iat": now, "nbf": now - 60,
        "exp": now + validity, "access": access,
    });
    let certificate: String = leaf.certificate.lines().filter(|line| !line.starts_with("---")).collect();
    let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [certificate]});
    let encode = |content: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(content);
    let signed =
        format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
    let key: String = leaf.key.lines().filter(|line| !line.starts_with("---")).collect();
    let key = BASE64_STANDARD.decode(key).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key).unwrap();
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", encode(signature.as_ref()))
}
