//! Base64.
//!
//! Follows cel-go 0.29.2, `ext/encoders.go`.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, PAD};

use super::{Answer, Context};
use crate::fault::Fault;
use crate::value::Value;

/// Bits that belong to no byte do not matter.
pub(super) const PADDED: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, PAD.with_decode_allow_trailing_bits(true));
const UNPADDED: GeneralPurpose = GeneralPurpose::new(&STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

pub(super) fn base64<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [Value::Bytes(bytes)] => {
            context.meter.allocate(bytes.len().saturating_mul(2))?;
            Ok(Value::text(PADDED.encode(bytes)))
        }
        [Value::String(text)] => {
            context.meter.allocate(text.as_str().len())?;
            decode(text.as_str()).map(Value::bytes)
        }
        _ => Err(Fault::no_such_overload()),
    }
}

/// With or without padding. Line breaks do not matter.
fn decode(text: &str) -> Result<Vec<u8>, Fault> {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    // cel-go tries the same two encodings in this order.
    let decoded = PADDED.decode(&text).or_else(|_| UNPADDED.decode(&text));
    decoded.map_err(|_| {
        let is_digit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
        // If every digit is fine, the last group is incomplete, and Go names the place where it begins.
        let at = text.find(|c| !is_digit(c)).unwrap_or(text.len() / 4 * 4);
        Fault::new(format!("illegal base64 data at input byte {at}"))
    })
}
