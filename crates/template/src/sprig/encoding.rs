//! Base64 and base32. What cannot be decoded becomes the text of the error.
//!
//! Follows sprig 3.3.0, `strings.go`, and Go 1.26, `encoding/base64/base64.go`, `encoding/base32/base32.go`.

use ferroplane_golang::base64;

use super::arguments::text;
use super::function;
use crate::{Context, Failure, Function, Type, Value};

use Type::String;

pub(super) const FUNCTIONS: &[Function] = &[
    function("b64enc", &[String], String, |_, args| Ok(Value::text(base64::encode(text(args, 0))))),
    function("b64dec", &[String], String, b64dec),
    function("b32enc", &[String], String, |_, args| Ok(Value::text(base32_encode(text(args, 0))))),
    function("b32dec", &[String], String, b32dec),
];

fn b64dec(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(match base64::decode(text(args, 0)) {
        Ok(bytes) => Value::text(bytes),
        Err(at) => Value::text(format!("illegal base64 data at input byte {at}")),
    })
}

fn b32dec(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(match base32_decode(text(args, 0)) {
        Ok(bytes) => Value::text(bytes),
        Err(at) => Value::text(format!("illegal base32 data at input byte {at}")),
    })
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32_encode(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut group = [0; 8];
        group[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(group);
        let used = (chunk.len() * 8).div_ceil(5);
        for at in 0..8 {
            let digit = (bits >> (35 - 5 * at) & 31) as usize;
            encoded.push(if at < used { BASE32[digit] } else { b'=' });
        }
    }
    encoded
}

/// The bytes, or the place of what is wrong. Line breaks do not count.
fn base32_decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let mut bytes = Vec::with_capacity(text.len() / 8 * 5 + 5);
    let mut at = 0;
    while at < text.len() {
        let (digits, count, is_end) = base32_group(&text, at)?;
        let bits = digits.iter().fold(0_u64, |bits, digit| bits << 5 | u64::from(*digit));
        let whole = bits.to_be_bytes();
        bytes.extend_from_slice(&whole[3..3 + count * 5 / 8]);
        at += 8;
        if is_end {
            break;
        }
    }
    Ok(bytes)
}

/// Eight digits, how many of them count, and whether padding ends the text.
fn base32_group(text: &[u8], start: usize) -> Result<([u8; 8], usize, bool), usize> {
    let mut digits = [0; 8];
    for place in 0..8 {
        let at = start + place;
        // Padding is wanted, and the text ends before it.
        let Some(byte) = text.get(at) else { return Err(at - place) };
        if *byte == b'=' && place >= 2 && text.len() - at <= 8 {
            // As much padding is wanted as makes the group whole.
            if text.len() < start + 8 {
                return Err(text.len());
            }
            if let Some(wrong) = (at + 1..start + 8).find(|other| text[*other] != b'=') {
                return Err(wrong - 1);
            }
            // These numbers of digits make no whole bytes.
            if matches!(place, 1 | 3 | 6) {
                return Err(at);
            }
            return Ok((digits, place, true));
        }
        let digit = BASE32.iter().position(|digit| digit == byte).ok_or(at)?;
        digits[place] = u8::try_from(digit).unwrap_or_default();
    }
    Ok((digits, 8, false))
}
