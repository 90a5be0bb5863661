//! Quantities of memory and processors, as Kubernetes writes them.

use serde_json::Value;

const SUFFIXES: [(&str, u128, u128); 14] = [
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("Ei", 1 << 60, 1),
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
    let (digits, multiplier, divisor) = SUFFIXES.iter().find_map(|(suffix, multiplier, divisor)| {
        Some((text.strip_suffix(suffix)?, *multiplier, *divisor))
    })?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // Nine places are more than Kubernetes keeps of a fraction.
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || digits == "." || fraction.len() > 9 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let places = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let number: u128 = format!("{whole}{fraction}").parse().ok()?;
    let total = number.checked_mul(multiplier)?.checked_mul(u128::from(scale))?;
    u64::try_from(total.div_ceil(divisor * places)).ok()
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
            (json!("1e3"), 1, None),
            (json!(""), 1, None),
            (json!("Mi"), 1, None),
            (json!("99999999999E"), 1, None),
            (json!(true), 1, None),
        ] {
            assert_eq!(scaled(&value, scale), amount, "{value}");
        }
    }
}
