//! Encryption with AES-256 in CBC mode. The key is the password itself, cut or filled up with zeros.
//!
//! Follows sprig 3.3.0, `crypto.go` (`encryptAES`, `decryptAES`).

use aes::Aes256;
use aes::cipher::{Block, BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use ferroplane_golang::base64;

use super::super::arguments::text;
use crate::{Context, Failure, Value};

const BLOCK: usize = 16;

/// The initial vector and the encrypted text in base64. Nothing stays nothing.
pub(super) fn encrypt(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let plain = text(args, 1);
    if plain.is_empty() {
        return Ok(Value::text(""));
    }
    ctx.charge(plain.len().saturating_mul(4))?;
    // A text of whole blocks gets one more block, or the last byte could not say how much padding there is.
    let padding = BLOCK - plain.len() % BLOCK;
    let filler = vec![u8::try_from(padding).unwrap_or_default(); padding];
    let cipher = cipher(text(args, 0));
    let mut before = [0; BLOCK];
    ctx.random(&mut before)?;
    let mut encrypted = before.to_vec();
    for block in [plain, &filler].concat().as_chunks::<BLOCK>().0 {
        let mut block: Block<Aes256> = std::array::from_fn(|at| block[at] ^ before[at]).into();
        cipher.encrypt_block(&mut block);
        before = block.into();
        encrypted.extend_from_slice(&before);
    }
    Ok(Value::text(base64::encode(&encrypted)))
}

pub(super) fn decrypt(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let encoded = text(args, 1);
    if encoded.is_empty() {
        return Ok(Value::text(""));
    }
    ctx.charge(encoded.len().saturating_mul(2))?;
    let encrypted = base64::decode(encoded)
        .map_err(|at| Failure::new(format!("illegal base64 data at input byte {at}")))?;
    // The capacity is what Go's decoder allocates, padding included; messages about bounds show it.
    let (vector, blocks) = split(&encrypted, encoded.len() / 4 * 3)?;
    let cipher = cipher(text(args, 0));
    let mut before = *vector;
    let mut plain = Vec::with_capacity(encrypted.len());
    for block in blocks {
        let mut decrypted: Block<Aes256> = (*block).into();
        cipher.decrypt_block(&mut decrypted);
        plain.extend(decrypted.iter().zip(before).map(|(byte, before)| byte ^ before));
        before = *block;
    }
    let Some(padding) = plain.last() else {
        return Err(Failure::new("runtime error: index out of range [-1]"));
    };
    // The padding is not checked any further, as in the original.
    let Some(end) = plain.len().checked_sub(usize::from(*padding)) else {
        let missing = usize::from(*padding) - plain.len();
        return Err(Failure::new(format!("runtime error: slice bounds out of range [:-{missing}]")));
    };
    Ok(Value::text(&plain[..end]))
}

/// The initial vector and the blocks behind it. The original fails as Go does when it cuts what is not there.
fn split(encrypted: &[u8], capacity: usize) -> Result<(&[u8; BLOCK], &[[u8; BLOCK]]), Failure> {
    let Some((vector, rest)) = encrypted.split_first_chunk() else {
        let length = encrypted.len();
        let problem = if capacity < BLOCK {
            format!("[:{BLOCK}] with capacity {capacity}")
        } else {
            format!("[{BLOCK}:{length}]")
        };
        return Err(Failure::new(format!("runtime error: slice bounds out of range {problem}")));
    };
    match rest.as_chunks() {
        (blocks, []) => Ok((vector, blocks)),
        _ => Err(Failure::new("crypto/cipher: input not full blocks")),
    }
}

fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0; 32];
    let length = password.len().min(key.len());
    key[..length].copy_from_slice(&password[..length]);
    Aes256::new(&key.into())
}
