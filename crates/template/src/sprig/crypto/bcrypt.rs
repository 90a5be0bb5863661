//! Hashes of passwords that take long on purpose.
//!
//! Follows golang.org/x/crypto 0.52.0, `bcrypt/bcrypt.go`.

use blowfish::Blowfish;

use crate::{Context, Failure};

/// Go's default: 2¹⁰ rounds.
const COST: u32 = 10;

/// What a hash counts for, as it takes about as long as so many steps.
const STEPS: u64 = 250_000;

const DIGITS: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The hash with a random salt. A password that is too long gives the text of the error.
pub(super) fn hashed(ctx: &mut Context<'_>, password: &[u8]) -> Result<String, Failure> {
    if password.len() > 72 {
        let problem = "bcrypt: password length exceeds 72 bytes";
        return Ok(format!("failed to encrypt string with bcrypt: {problem}"));
    }
    ctx.step(STEPS)?;
    let mut salt = [0; 16];
    ctx.random(&mut salt)?;
    Ok(hash(password, salt, COST))
}

fn hash(password: &[u8], salt: [u8; 16], cost: u32) -> String {
    // The zero that ends a string in C is part of it.
    let key = [password, &[0]].concat();
    let mut state = Blowfish::bc_init_state();
    state.salted_expand_key(&salt, &key);
    for _ in 0..1_u32 << cost {
        state.bc_expand_key(&key);
        state.bc_expand_key(&salt);
    }
    let mut encrypted = *b"OrpheanBeholderScryDoubt";
    for block in encrypted.as_chunks_mut::<8>().0 {
        let (left, right) = block.split_at(4);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_be_bytes);
        let words = (0..64).fold([word(left), word(right)], |words, _| state.bc_encrypt(words));
        block[..4].copy_from_slice(&words[0].to_be_bytes());
        block[4..].copy_from_slice(&words[1].to_be_bytes());
    }
    // The last byte was lost in the first implementation, and all others follow it.
    format!("$2a${cost:02}${}{}", encode(&salt), encode(&encrypted[..23]))
}

/// Base64 with its own alphabet, without padding.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        text.extend((0..=chunk.len()).map(|at| char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize])));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_that_of_other_implementations() {
        // The salt is `CCCCCCCCCCCCCCCCCCCCC.` in the alphabet of bcrypt.
        let salt =
            [0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10, 0x41, 0x04, 0x10];
        let known = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        assert_eq!(hash(b"U*U", salt, 5), known);
    }
}
