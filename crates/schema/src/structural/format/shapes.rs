//! Formats that are about single characters and their number.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/validation/strfmt/default.go`.

use std::sync::LazyLock;

use regex::Regex;

static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    fixed(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}\
         |3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});
// Spelled out, because `\s` and `\d` mean more characters here than they do in Go.
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"[\t\n\f\r ]*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    fixed(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static SOCIAL_SECURITY: LazyLock<Regex> = LazyLock::new(|| fixed("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the expressions are fixed")
}

pub(super) fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Five groups of hexadecimal digits, with or without dashes between them.
pub(super) fn is_uuid(text: &str, version: Option<char>, has_variant: bool) -> bool {
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length).filter(|(group, _)| is_hex(group)) else {
            return false;
        };
        let first = group.chars().next();
        let is_wrong = match index {
            2 => version.is_some() && first != version,
            // Only versions 4 and 5 say which variants there are; the pattern for version 3 does not.
            3 => has_variant && !first.is_some_and(|first| "89abAB".contains(first)),
            _ => false,
        };
        if is_wrong {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn without_spaces_and_dashes(text: &str) -> String {
    text.chars().filter(|character| !"\t\n\u{c}\r -".contains(*character)).collect()
}

fn digits(text: &str) -> Option<Vec<u32>> {
    text.chars().map(|character| character.to_digit(10)).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let text = without_spaces_and_dashes(text);
    let (body, check) = match text.strip_suffix('X') {
        Some(body) => (body, Some(10)),
        None => (text.as_str(), None),
    };
    let Some(mut digits) = digits(body) else { return false };
    digits.extend(check);
    digits.len() == 10 && (1..).zip(&digits).map(|(factor, digit)| factor * digit).sum::<u32>() % 11 == 0
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let Some(digits) = digits(&without_spaces_and_dashes(text)) else { return false };
    let weighted = digits.iter().zip([1, 3].into_iter().cycle()).map(|(digit, factor)| digit * factor);
    digits.len() == 13 && weighted.sum::<u32>() % 10 == 0
}

pub(super) fn is_credit_card(text: &str) -> bool {
    // Whatever else is in it is dropped first, letters as well: so it is in kube-openapi's copy of govalidator.
    let text: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&text) {
        return false;
    }
    let digits = text.chars().rev().filter_map(|character| character.to_digit(10));
    let sum: u32 = digits
        .zip([1, 2].into_iter().cycle())
        .map(|(digit, factor)| digit * factor)
        .map(|product| product / 10 + product % 10)
        .sum();
    sum.is_multiple_of(10)
}

pub(super) fn is_social_security_number(text: &str) -> bool {
    // The length makes both separators mandatory, which the expression does not.
    text.len() == 11 && SOCIAL_SECURITY.is_match(text)
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let text = text.strip_prefix('#').unwrap_or(text);
    matches!(text.len(), 3 | 6) && is_hex(text)
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    RGB_COLOR.is_match(text)
}

/// Complete groups of four, the last one padded if need be. Nothing at all is not base64.
pub(super) fn is_base64(text: &str) -> bool {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}
