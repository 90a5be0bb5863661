//! Hashes, passwords, encryption, keys and certificates. All that is random comes from the [`Host`](crate::Host).
//!
//! Follows sprig 3.3.0, `crypto.go`.

mod aes;
mod bcrypt;
mod certificates;
mod der;
mod keys;
mod password;
mod pem;
mod rsa;

use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::arguments::text;
use super::function;
use crate::{Context, Failure, Function, Type, Value};

use Type::{Int, String, Uint32};
use certificates::CERTIFICATE;

const LIST: Type = Type::LIST;

pub(super) const FUNCTIONS: &[Function] = &[
    function("sha1sum", &[String], String, hash::<Sha1>),
    function("sha256sum", &[String], String, hash::<Sha256>),
    function("sha512sum", &[String], String, hash::<Sha512>),
    function("adler32sum", &[String], String, |ctx, args| {
        charge(ctx, args)?;
        Ok(Value::text(adler32(text(args, 0)).to_string()))
    }),
    function("bcrypt", &[String], String, |ctx, args| Ok(Value::text(bcrypt::hashed(ctx, text(args, 0))?))),
    function("htpasswd", &[String, String], String, htpasswd),
    function("derivePassword", &[Uint32, String, String, String, String], String, password::derive),
    function("encryptAES", &[String, String], String, aes::encrypt),
    function("decryptAES", &[String, String], String, aes::decrypt),
    function("genPrivateKey", &[String], String, certificates::private_key),
    function("genCA", &[String, Int], CERTIFICATE, certificates::authority),
    function("genCAWithKey", &[String, Int, String], CERTIFICATE, certificates::authority),
    function("genSelfSignedCert", &[String, LIST, LIST, Int], CERTIFICATE, certificates::self_signed),
    function(
        "genSelfSignedCertWithKey",
        &[String, LIST, LIST, Int, String],
        CERTIFICATE,
        certificates::self_signed,
    ),
    function("genSignedCert", &[String, LIST, LIST, Int, CERTIFICATE], CERTIFICATE, certificates::signed),
    function(
        "genSignedCertWithKey",
        &[String, LIST, LIST, Int, CERTIFICATE, String],
        CERTIFICATE,
        certificates::signed,
    ),
    function("buildCustomCert", &[String, String], CERTIFICATE, certificates::custom),
];

/// Hashing takes time in proportion to the text.
fn charge(ctx: &mut Context<'_>, args: &[Value]) -> Result<(), Failure> {
    Ok(ctx.step(text(args, 0).len() as u64 / 256)?)
}

fn hash<D: Digest>(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    charge(ctx, args)?;
    Ok(Value::text(hexadecimal(&D::digest(text(args, 0)))))
}

fn hexadecimal(bytes: &[u8]) -> std::string::String {
    bytes
        .iter()
        .fold(std::string::String::with_capacity(bytes.len() * 2), |text, byte| text + &format!("{byte:02x}"))
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    high << 16 | low
}

fn htpasswd(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let user = text(args, 0);
    if user.contains(&b':') {
        // sprig returns the mistake as the result, and templates that exist print it.
        return Ok(Value::text([b"invalid username: ", user].concat()));
    }
    let hashed = bcrypt::hashed(ctx, text(args, 1))?;
    Ok(Value::text([user, b":", hashed.as_bytes()].concat()))
}
