//! Private keys of all types that templates can make or bring along.
//!
//! Follows sprig 3.3.0, `crypto.go` (`generatePrivateKey`, `parsePrivateKeyPEM`, `pemBlockForKey`), and Go 1.26, `crypto/x509`.

use ed25519_dalek::Signer as _;
use p256::ecdsa::Signature;

use super::der::{self, Reader};
use super::pem;
use super::rsa::Rsa;
use crate::{Context, Failure};

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const RSA_SHA_256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ELLIPTIC_SHA_256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// What a key of elliptic curves counts for, as it takes about as long as so many steps.
const STEPS: u64 = 5_000;

/// A private key.
#[derive(Debug)]
pub(super) enum PrivateKey {
    Rsa(Rsa),
    Elliptic(p256::ecdsa::SigningKey),
    Ed25519(ed25519_dalek::SigningKey),
}

impl PrivateKey {
    pub(super) fn rsa(ctx: &mut Context<'_>, bits: u64) -> Result<Self, Failure> {
        Rsa::generate(ctx, bits).map(Self::Rsa)
    }

    pub(super) fn elliptic(ctx: &mut Context<'_>) -> Result<Self, Failure> {
        loop {
            // Hardly any number is none that makes a key.
            if let Ok(key) = p256::ecdsa::SigningKey::from_bytes(&random(ctx)?.into()) {
                return Ok(Self::Elliptic(key));
            }
        }
    }

    pub(super) fn ed25519(ctx: &mut Context<'_>) -> Result<Self, Failure> {
        Ok(Self::Ed25519(ed25519_dalek::SigningKey::from_bytes(&random(ctx)?)))
    }

    /// A key that a template brings along.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (kind, bytes) = pem::decode(text).ok_or("no PEM data in input")?;
        let Some(prefix) = kind.strip_suffix("PRIVATE KEY") else {
            return Err(format!("no private key data in PEM block of type {kind}"));
        };
        let structure = "asn1: structure error";
        match prefix {
            "" => Self::read(&bytes).ok_or_else(|| format!("decoding PEM as PKCS#8: {structure}")),
            "EC " => Self::read_elliptic(&bytes)
                .ok_or_else(|| format!("parsing EC private key from PEM: {structure}")),
            "RSA " => Rsa::read(&bytes)
                .map(Self::Rsa)
                .ok_or_else(|| format!("parsing RSA private key from PEM: {structure}")),
            _ => Err(format!("invalid private key type {kind}")),
        }
    }

    /// Reads a `PrivateKeyInfo`, PKCS #8.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut info = Reader(bytes).sequence()?;
        info.integer()?;
        let mut algorithm = info.sequence()?;
        let kind = algorithm.read(der::OBJECT)?;
        let key = info.read(der::OCTETS)?;
        match kind {
            RSA => Rsa::read(key).map(Self::Rsa),
            ELLIPTIC if algorithm.read(der::OBJECT) == Some(P256) => Self::read_elliptic(key),
            ED25519 => {
                let seed = Reader(key).read(der::OCTETS)?.try_into().ok()?;
                Some(Self::Ed25519(ed25519_dalek::SigningKey::from_bytes(&seed)))
            }
            _ => None,
        }
    }

    /// Reads an `ECPrivateKey`. Other curves than P-256 are none that we have.
    fn read_elliptic(bytes: &[u8]) -> Option<Self> {
        let mut key = Reader(bytes).sequence()?;
        key.integer()?;
        let scalar = key.read(der::OCTETS)?;
        if key.peek() == Some(der::field(0)) {
            let curve = Reader(key.read(der::field(0))?).read(der::OBJECT)?;
            (curve == P256).then_some(())?;
        }
        p256::ecdsa::SigningKey::from_slice(scalar).ok().map(Self::Elliptic)
    }

    /// The key as text, in the form that is usual for its type.
    pub(super) fn to_pem(&self) -> String {
        match self {
            Self::Rsa(key) => pem::encode("RSA PRIVATE KEY", &key.write()),
            Self::Elliptic(key) => {
                let curve = der::write(der::field(0), &der::write(der::OBJECT, P256));
                let public = der::write(der::field(1), &der::bits(&point(key)));
                let scalar = der::write(der::OCTETS, &key.to_bytes());
                let version = [der::INTEGER, 1, 1];
                pem::encode("EC PRIVATE KEY", &der::sequence(&[&version, &scalar, &curve, &public]))
            }
            Self::Ed25519(key) => {
                let seed = der::write(der::OCTETS, &der::write(der::OCTETS, &key.to_bytes()));
                let version = [der::INTEGER, 1, 0];
                pem::encode("PRIVATE KEY", &der::sequence(&[&version, &algorithm(&[ED25519]), &seed]))
            }
        }
    }

    /// The public key, without its type.
    pub(super) fn public(&self) -> Vec<u8> {
        match self {
            Self::Rsa(key) => key.public(),
            Self::Elliptic(key) => point(key),
            Self::Ed25519(key) => key.verifying_key().to_bytes().to_vec(),
        }
    }

    /// The public key as `SubjectPublicKeyInfo`.
    pub(super) fn public_info(&self) -> Vec<u8> {
        let algorithm = match self {
            Self::Rsa(_) => with_null(RSA),
            Self::Elliptic(_) => algorithm(&[ELLIPTIC, P256]),
            Self::Ed25519(_) => algorithm(&[ED25519]),
        };
        der::sequence(&[&algorithm, &der::bits(&self.public())])
    }

    /// What it signs with, as `AlgorithmIdentifier`.
    pub(super) fn algorithm(&self) -> Vec<u8> {
        match self {
            Self::Rsa(_) => with_null(RSA_SHA_256),
            Self::Elliptic(_) => algorithm(&[ELLIPTIC_SHA_256]),
            Self::Ed25519(_) => algorithm(&[ED25519]),
        }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Rsa(key) => key.sign(message),
            Self::Elliptic(key) => {
                let signature: Signature = key.sign(message);
                signature.to_der().as_bytes().to_vec()
            }
            Self::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
        }
    }

    /// What using it once counts for.
    pub(super) fn steps(&self) -> u64 {
        match self {
            // Its length in bytes is a measure of how long it takes.
            Self::Rsa(key) => 400 * key.public().len() as u64,
            Self::Elliptic(_) | Self::Ed25519(_) => STEPS,
        }
    }
}

fn random(ctx: &mut Context<'_>) -> Result<[u8; 32], Failure> {
    ctx.step(STEPS)?;
    let mut bytes = [0; 32];
    ctx.random(&mut bytes)?;
    Ok(bytes)
}

fn point(key: &p256::ecdsa::SigningKey) -> Vec<u8> {
    key.verifying_key().to_sec1_point(false).as_bytes().to_vec()
}

fn algorithm(objects: &[&[u8]]) -> Vec<u8> {
    let objects: Vec<_> = objects.iter().flat_map(|object| der::write(der::OBJECT, object)).collect();
    der::write(der::SEQUENCE, &objects)
}

fn with_null(object: &[u8]) -> Vec<u8> {
    der::sequence(&[&der::write(der::OBJECT, object), &[der::NULL, 0]])
}
