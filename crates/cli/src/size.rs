//! Amounts of bytes as people write them: `64MiB`, `1GiB`.

/// Read an amount. For `clap`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let bad = || format!("expected a size such as 64MiB, 1GiB or 0, got `{text}`");
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let scale = match unit {
        "" => 1,
        "KiB" | "Ki" | "K" => 1 << 10,
        "MiB" | "Mi" | "M" => 1 << 20,
        "GiB" | "Gi" | "G" => 1 << 30,
        _ => return Err(bad()),
    };
    number.checked_mul(scale).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_units() {
        for (text, bytes) in [("0", 0), ("100", 100), ("2KiB", 2048), ("64MiB", 64 << 20), ("1G", 1 << 30)] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "1.5GiB", "-1", "1TB", "99999999999GiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
