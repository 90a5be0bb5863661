//! Quantities of memory and processors, as Kubernetes writes them.

use serde_json::Value;

const SUFFIXES: [(&str, u128, u128); 16] = [
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("Ei", 1 << 60, 1),
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1000),
    ("k", 1_000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
    ("", 1, 1),
];

/// A quantity in units of one part in `scale`, rounded up. None if it is invalid or too large.
pub fn scaled(value: &Value, scale: u64) -> Option<u64> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let (digits, multiplier, divisor) = exponent(&text).or_else(|| suffix(&text))?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // Nine places are more than Kubernetes keeps of a fraction.
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || digits == "." || fraction.len() > 9 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let places = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let number: u128 = format!("{whole}{fraction}").parse().ok()?;
    let total = number.checked_mul(multiplier)?.checked_mul(u128::from(scale))?;
    u64::try_from(total.div_ceil(divisor.checked_mul(places)?)).ok()
}

/// A number with a suffix, and what the suffix multiplies and divides it by.
fn suffix(text: &str) -> Option<(&str, u128, u128)> {
    let read = |&(suffix, multiplier, divisor)| Some((text.strip_suffix(suffix)?, multiplier, divisor));
    SUFFIXES.iter().find_map(read)
}

/// The same of a number with an exponent. An `E` that no number follows is a suffix.
fn exponent(text: &str) -> Option<(&str, u128, u128)> {
    let (digits, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let power = 10u128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (digits, 1, power) } else { (digits, power, 1) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (value, scale, amount) in [
            (json!("128Mi"), 1, Some(128 << 20)),
            (json!("0.5Gi"), 1, Some(512 << 20)),
            (json!("1G"), 1, Some(1_000_000_000)),
            (json!(1024), 1, Some(1024)),
            (json!("100m"), 1000, Some(100)),
            (json!("1.5"), 1000, Some(1500)),
            (json!(2), 1000, Some(2000)),
            (json!("1m"), 1, Some(1)),
            (json!("-1"), 1, None),
            (json!("1e3"), 1, Some(1000)),
            (json!("1.5E9"), 1, Some(1_500_000_000)),
            (json!("5e-1"), 1000, Some(500)),
            (json!("1E"), 1, Some(1_000_000_000_000_000_000)),
            (json!("500000u"), 1000, Some(500)),
            (json!("250000000n"), 1000, Some(250)),
            (json!("1e"), 1, None),
            (json!("1e99"), 1, None),
            (json!("1e3Mi"), 1, None),
            (json!(""), 1, None),
            (json!("Mi"), 1, None),
            (json!("99999999999E"), 1, None),
            (json!(true), 1, None),
        ] {
            assert_eq!(scaled(&value, scale), amount, "{value}");
        }
    }
}
