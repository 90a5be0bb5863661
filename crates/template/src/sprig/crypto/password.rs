//! Passwords that are derived from a master password, a user and a site.
//!
//! Follows sprig 3.3.0, `crypto.go` (`derivePassword`), which follows the algorithm of Master Password.

use sha2::{Digest, Sha256};

use super::super::arguments::{characters, text};
use crate::{Context, Exhausted, Failure, Value};

const SCOPE: &[u8] = b"com.lyndir.masterpassword";

/// What deriving a key counts for, as it takes about as long as so many steps, and as much memory.
const STEPS: u64 = 500_000;
const MEMORY: usize = 32 << 20;

pub(super) fn derive(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let counter =
        if let Value::Uint64(counter) = args[0] { u32::try_from(counter).unwrap_or_default() } else { 0 };
    let [password, user, site] = [2, 3, 4].map(|at| text(args, at));
    let kind = characters(args, 1);
    let Some(templates) = templates(&kind) else {
        return Ok(Value::text(format!("cannot find password template {kind}")));
    };
    charge(ctx)?;
    let key = key(password, user).map_err(|problem| Failure::new(problem.to_string()))?;
    let seed = hmac_sha256(&key, &[SCOPE, &length(site), site, &counter.to_be_bytes()].concat());
    // The remainder makes some letters a little more likely than others; another way would give other
    // passwords.
    let template = templates[usize::from(seed[0]) % templates.len()].as_bytes();
    let letters = template.iter().zip(&seed[1..]).map(|(class, byte)| {
        let letters = letters(*class);
        letters[usize::from(*byte) % letters.len()]
    });
    Ok(Value::text(letters.collect::<Vec<u8>>()))
}

fn charge(ctx: &mut Context<'_>) -> Result<(), Exhausted> {
    ctx.charge(MEMORY)?;
    ctx.step(STEPS)
}

fn length(text: &[u8]) -> [u8; 4] {
    u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes()
}

fn key(password: &[u8], user: &[u8]) -> Result<[u8; 64], scrypt::errors::InvalidParams> {
    let salt = [SCOPE, &length(user), user].concat();
    // 2¹⁵ blocks of 8 × 128 bytes, twice.
    let parameters = scrypt::Params::new(15, 8, 2)?;
    let mut key = [0; 64];
    scrypt::scrypt(password, &salt, &parameters, &mut key).expect("64 bytes are not too many");
    Ok(key)
}

/// The key is exactly one block of the hash.
fn hmac_sha256(key: &[u8; 64], text: &[u8]) -> [u8; 32] {
    let padded = |with: u8| key.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

/// What passwords of a kind look like; each letter is a class.
fn templates(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

fn letters(class: u8) -> &'static [u8] {
    match class {
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}
