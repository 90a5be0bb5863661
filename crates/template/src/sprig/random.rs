//! Random text and numbers. All randomness is that of the [`Host`](crate::Host).
//!
//! Follows sprig 3.3.0, `strings.go`, `crypto.go`, goutils 1.1.1, `cryptorandomstringutils.go`, and uuid 1.6.0.

use ferroplane_golang::base64;

use super::arguments::{characters, int};
use super::function;
use crate::{Context, Failure, Function, Type, Value};

use Type::{Int, String};

pub(super) const FUNCTIONS: &[Function] = &[
    function("randAlpha", &[Int], String, |ctx, args| letters(ctx, int(args, 0), u8::is_ascii_alphabetic)),
    function("randAlphaNum", &[Int], String, |ctx, args| {
        letters(ctx, int(args, 0), u8::is_ascii_alphanumeric)
    }),
    function("randNumeric", &[Int], String, |ctx, args| letters(ctx, int(args, 0), u8::is_ascii_digit)),
    function("randAscii", &[Int], String, |ctx, args| {
        letters(ctx, int(args, 0), |byte| (32..127).contains(byte))
    }),
    function("randInt", &[Int, Int], Int, rand_int),
    function("randBytes", &[Int], String, rand_bytes),
    function("shuffle", &[String], String, shuffle),
    function("uuidv4", &[], String, uuidv4),
];

/// So many characters of ASCII that belong to a class. A negative number gives none.
fn letters(ctx: &mut Context<'_>, count: i64, is_in_class: fn(&u8) -> bool) -> Result<Value, Failure> {
    let count = usize::try_from(count).unwrap_or_default();
    ctx.charge(count)?;
    ctx.step(count as u64)?;
    let class: Vec<u8> = (0..128).filter(is_in_class).collect();
    let mut letters = Vec::new();
    for _ in 0..count {
        letters.push(class[usize::try_from(below(ctx, class.len() as u64)?).unwrap_or_default()]);
    }
    Ok(Value::text(letters))
}

/// A random number below a limit, each as likely as the others.
#[expect(clippy::cast_possible_truncation, reason = "it is below the limit")]
fn below(ctx: &mut Context<'_>, limit: u64) -> Result<u64, Failure> {
    loop {
        let mut bytes = [0; 8];
        ctx.random(&mut bytes)?;
        let wide = u128::from(u64::from_le_bytes(bytes)) * u128::from(limit);
        // Of the 2⁶⁴ numbers, those that would make some results likelier than others are drawn again.
        if wide as u64 >= limit.wrapping_neg() % limit {
            return Ok((wide >> 64) as u64);
        }
        ctx.step(1)?;
    }
}

fn rand_int(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let (least, past) = (int(args, 0), int(args, 1));
    // Go subtracts without a check, so that a range larger than an integer is refused like an empty one.
    let Some(count) = u64::try_from(past.wrapping_sub(least)).ok().filter(|count| *count > 0) else {
        return Err(Failure::new("invalid argument to Intn"));
    };
    Ok(Value::Int(least.wrapping_add_unsigned(below(ctx, count)?)))
}

/// Random bytes in base64.
fn rand_bytes(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let Ok(count) = usize::try_from(int(args, 0)) else {
        return Err(Failure::new("runtime error: makeslice: len out of range"));
    };
    ctx.charge(count.saturating_mul(3))?;
    let mut bytes = vec![0; count];
    ctx.random(&mut bytes)?;
    Ok(Value::text(base64::encode(&bytes)))
}

fn shuffle(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let text = characters(args, 0);
    ctx.charge(text.len().saturating_mul(size_of::<char>()))?;
    ctx.step(text.len() as u64)?;
    let mut letters: Vec<char> = text.chars().collect();
    for at in (1..letters.len()).rev() {
        let other = below(ctx, at as u64 + 1)?;
        letters.swap(at, usize::try_from(other).unwrap_or_default());
    }
    Ok(Value::text(letters.into_iter().collect::<std::string::String>()))
}

fn uuidv4(ctx: &mut Context<'_>, _: &[Value]) -> Result<Value, Failure> {
    let mut bytes = [0; 16];
    ctx.random(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hexadecimal = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [
        &hexadecimal[..8],
        &hexadecimal[8..12],
        &hexadecimal[12..16],
        &hexadecimal[16..20],
        &hexadecimal[20..],
    ];
    Ok(Value::text(parts.join("-")))
}
