//! The order of keys: letters after everything else, numbers by their size.
//!
//! Follows go.yaml.in/yaml 2.4.3 and gopkg.in/yaml.v3 3.0.1, `sorter.go`.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::Library;
use crate::unicode::{is_digit, is_letter};

/// Sort entries by their keys.
///
/// By hand, because the order is not one: numbers so large that they overflow may compare in circles, and what sorts for
/// the standard library may panic then.
pub(super) fn naturally<V>(mut entries: Vec<(&String, V)>, library: Library) -> Vec<(&String, V)> {
    if entries.len() < 2 {
        return entries;
    }
    let right = naturally(entries.split_off(entries.len() / 2), library);
    let left = naturally(entries, library);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let Some(entry) = smaller(&mut left, &mut right, library) {
        merged.push(entry);
    }
    merged
}

type Entries<'k, V> = Peekable<IntoIter<(&'k String, V)>>;

fn smaller<'k, V>(
    left: &mut Entries<'k, V>,
    right: &mut Entries<'k, V>,
    library: Library,
) -> Option<(&'k String, V)> {
    match (left.peek(), right.peek()) {
        (Some((one, _)), Some((other, _))) if is_less(other, one, library) => right.next(),
        (None, _) => right.next(),
        _ => left.next(),
    }
}

fn is_less(one: &str, other: &str, library: Library) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let Some(at) = one.iter().zip(&other).position(|(one, other)| one != other) else {
        return one.len() < other.len();
    };
    match (is_letter(one[at]), is_letter(other[at])) {
        (true, true) => one[at] < other[at],
        // Inside a number version 3 has it the other way round: `1e3` before `1.5`.
        (is_first, true) | (is_first @ true, false) => {
            is_first == (library == Library::V3 && at > 0 && is_digit(one[at - 1]))
        }
        (false, false) => {
            let is_inside_number = (one[at] == '0' || other[at] == '0') && is_inside_number(&one[..at]);
            let of = |text: &[char]| number(&text[at..], i64::from(is_inside_number));
            (of(&one), one[at]) < (of(&other), other[at])
        }
    }
}

/// Whether these characters end in a number that is not zero: a zero that follows counts then.
fn is_inside_number(before: &[char]) -> bool {
    before.iter().rev().take_while(|character| is_digit(**character)).any(|digit| *digit != '0')
}

/// The number at the start, and how many digits it has.
fn number(text: &[char], start: i64) -> (i64, usize) {
    let digits = text.iter().take_while(|character| is_digit(**character));
    digits.fold((start, 0), |(number, length), digit| {
        let value = i64::from(u32::from(*digit)) - i64::from(u32::from('0'));
        // Go's integers wrap, and so does the order: revisions are named after it, so it must wrap
        // here, too.
        (number.wrapping_mul(10).wrapping_add(value), length + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_digits_are_those_of_go() {
        // As go.yaml.in/yaml sorts them: `½`, `²` and `Ⅷ` are no letters and no digits.
        let sorted = ["½", "½b", "a²", "a½", "aⅧ", "a1", "a٣", "aé"].map(str::to_owned);
        let mut keys = sorted.clone();
        keys.reverse();
        let entries = naturally(keys.iter().map(|key| (key, ())).collect(), Library::V2);
        assert_eq!(entries.into_iter().map(|(key, ())| key.clone()).collect::<Vec<_>>(), sorted);
    }
}
