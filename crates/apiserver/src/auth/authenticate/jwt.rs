//! Signed tokens: JSON Web Tokens with ECDSA on P-256 (`ES256`), and nothing else.

use aws_lc_rs::digest::{self, SHA256};
use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::token_error::TokenError;

/// What a token with thousands of audiences would not reach.
const LONGEST: usize = 16 << 10;

/// A key that signs tokens and verifies them.
pub(super) struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
    pem: String,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, output: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(output, "Key({})", self.id)
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("the key is not a private key on the curve P-256 in PEM")]
pub struct KeyError;

impl SigningKey {
    pub(super) fn generate() -> Result<Self, KeyError> {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|_| KeyError)?;
        Self::from_pem(&pair.serialize_pem())
    }

    pub(super) fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let pair = rcgen::KeyPair::from_pem(pem).map_err(|_| KeyError)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pair.serialized_der());
        let pair = pair.map_err(|_| KeyError)?;
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(|_| KeyError)?;
        // A digest names the key without giving it away.
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&SHA256, public.as_ref()));
        Ok(Self { pair, id, pem: pem.to_owned() })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// The public key as others fetch it.
    pub(super) fn to_jwk(&self) -> Value {
        // An uncompressed point: a leading byte, then both coordinates.
        let point = self.pair.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len().saturating_sub(1) / 2);
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": text(x), "y": text(y)})
    }

    /// None if there is no randomness to be had.
    pub(super) fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"alg": "ES256", "kid": self.id});
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let mut token = format!("{}.{}", text(&header), text(claims));
        let signature = self.pair.sign(&SystemRandom::new(), token.as_bytes()).ok()?;
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(signature));
        Some(token)
    }

    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(message, signature).is_ok()
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions that must be understood: we understand none.
    crit: Option<Value>,
}

/// The claims of a token that one of the keys signed.
pub(super) fn verify(token: &str, keys: &[SigningKey]) -> Result<Value, TokenError> {
    const INVALID: TokenError = TokenError::Invalid;
    if token.len() > LONGEST {
        return Err(INVALID);
    }
    // The signature covers everything before the last dot, as it was sent: decoding and encoding again may change
    // it.
    let (message, signature) = token.rsplit_once('.').ok_or(INVALID)?;
    let (header, claims) = message.split_once('.').ok_or(INVALID)?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| INVALID);
    let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| INVALID)?;
    if header.alg != "ES256" || header.crit.is_some() {
        return Err(INVALID);
    }
    let signature = decode(signature)?;
    let mut candidates = keys.iter().filter(|key| header.kid.is_empty() || key.id == header.kid).peekable();
    if candidates.peek().is_none() {
        return Err(TokenError::UnknownKey);
    }
    if !candidates.any(|key| key.has_signed(message.as_bytes(), &signature)) {
        return Err(TokenError::Signature);
    }
    serde_json::from_slice(&decode(claims)?).map_err(|_| INVALID)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    /// A token with the header given, signed properly.
    fn with_header(key: &SigningKey, header: &Value) -> String {
        let message = format!("{}.{}", encode(header), encode(&json!({"sub": "bob"})));
        let signature = key.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    #[test]
    fn token_says_what_was_signed() {
        let key = SigningKey::generate().unwrap();
        let again = SigningKey::from_pem(key.pem()).unwrap();
        let token = key.sign(&json!({"sub": "bob"})).unwrap();
        assert_eq!(verify(&token, &[again]), Ok(json!({"sub": "bob"})));
    }

    #[test]
    fn token_of_another_key_is_refused() {
        let (ours, theirs) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let token = theirs.sign(&json!({})).unwrap();
        assert_eq!(verify(&token, &[ours]), Err(TokenError::UnknownKey));
        // One that claims to be ours, too.
        let ours = SigningKey::generate().unwrap();
        let token = with_header(&theirs, &json!({"alg": "ES256", "kid": ours.id}));
        assert_eq!(verify(&token, &[ours]), Err(TokenError::Signature));
    }

    #[test]
    fn token_without_a_key_id_is_tried_with_all_keys() {
        let (old, new) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let token = with_header(&old, &json!({"alg": "ES256"}));
        verify(&token, &[new, old]).unwrap();
    }

    #[test]
    fn other_algorithms_are_refused_whatever_the_signature() {
        let key = SigningKey::generate().unwrap();
        for header in [
            json!({"alg": "none"}),
            json!({"alg": "HS256", "kid": key.id}),
            json!({"alg": "es256"}),
            json!({"alg": "ES256", "crit": ["exp"]}),
            json!({}),
            json!([]),
        ] {
            verify(&with_header(&key, &header), std::slice::from_ref(&key)).unwrap_err();
        }
        let bare = format!("{}.{}.", encode(&json!({"alg": "none"})), encode(&json!({"sub": "root"})));
        verify(&bare, &[key]).unwrap_err();
    }

    #[test]
    fn huge_and_deep_tokens_are_refused() {
        let key = SigningKey::generate().unwrap();
        verify(&"a.".repeat(1 << 20), std::slice::from_ref(&key)).unwrap_err();
        let deep = format!("{}.e30.e30", URL_SAFE_NO_PAD.encode("[".repeat(9_000)));
        verify(&deep, &[key]).unwrap_err();
    }

    #[test]
    fn key_is_not_shown() {
        let key = SigningKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), format!("Key({})", key.id));
        assert!(SigningKey::from_pem("nonsense").is_err());
    }

    proptest! {
        #[test]
        fn changed_token_is_refused(position in 0_usize..1_000, replacement in "[A-Za-z0-9_.-]") {
            let key = SigningKey::generate().unwrap();
            let token = key.sign(&json!({"sub": "bob"})).unwrap();
            let position = position % token.len();
            let mut changed = token.clone();
            changed.replace_range(position..=position, &replacement);
            prop_assert_eq!(verify(&changed, &[key]).is_ok(), changed == token);
        }

        #[test]
        fn garbage_is_refused(token in "[\\PC.]{0,60}") {
            prop_assert!(verify(&token, &[SigningKey::generate().unwrap()]).is_err());
        }
    }
}
