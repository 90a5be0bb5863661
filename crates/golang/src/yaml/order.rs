//! The order of keys: letters after everything else, numbers by their size.
//!
//! Follows go.yaml.in/yaml 2.4.3 and gopkg.in/yaml.v3 3.0.1, `sorter.go`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::vec::IntoIter;

use super::{Library, Node};
use crate::unicode::{is_digit, is_letter};

/// What entries are sorted by.
pub(super) trait Key {
    fn is_less(&self, other: &Self, library: Library) -> bool;
}

impl Key for &String {
    fn is_less(&self, other: &Self, library: Library) -> bool {
        is_less(self, other, library)
    }
}

impl Key for Node {
    fn is_less(&self, other: &Self, library: Library) -> bool {
        if let (Some(one), Some(other)) = (text_of(self), text_of(other)) {
            return is_less(&one, &other, library);
        }
        match (number_of(self), number_of(other)) {
            (Some(one), Some(other)) if one.partial_cmp(&other).is_none_or(Ordering::is_ne) => one < other,
            _ => match (self, other) {
                // Integers that are the same as floats need not be the same.
                (Self::Int(one), Self::Int(other)) => one < other,
                (Self::Uint(one), Self::Uint(other)) => one < other,
                _ => kind(self) < kind(other),
            },
        }
    }
}

fn text_of(key: &Node) -> Option<Cow<'_, str>> {
    match key {
        Node::String(text) => Some(Cow::Borrowed(text)),
        Node::Bytes(bytes) => Some(String::from_utf8_lossy(bytes)),
        _ => None,
    }
}

/// The number that a key counts as.
fn number_of(key: &Node) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "Go compares keys as floats, too")]
    match key {
        Node::Bool(is_true) => Some(f64::from(u8::from(*is_true))),
        Node::Int(integer) => Some(*integer as f64),
        Node::Uint(integer) => Some(*integer as f64),
        Node::Float(float) => Some(*float),
        _ => None,
    }
}

/// Keys of different kinds are in the order of Go's `reflect.Kind`.
fn kind(key: &Node) -> u8 {
    match key {
        Node::Bool(_) => 0,
        Node::Int(_) => 1,
        Node::Uint(_) => 2,
        Node::Float(_) => 3,
        Node::Null => 4,
        Node::Map(_) => 5,
        Node::List(_) => 6,
        Node::String(_) | Node::Bytes(_) => 7,
        Node::Time(_) => 8,
    }
}

/// Sort entries by their keys.
///
/// By hand, because the order is not one: numbers so large that they overflow may compare in circles, and what sorts for
/// the standard library may panic then.
pub(super) fn naturally<K: Key, V>(mut entries: Vec<(K, V)>, library: Library) -> Vec<(K, V)> {
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

type Entries<K, V> = Peekable<IntoIter<(K, V)>>;

fn smaller<K: Key, V>(
    left: &mut Entries<K, V>,
    right: &mut Entries<K, V>,
    library: Library,
) -> Option<(K, V)> {
    match (left.peek(), right.peek()) {
        (Some((one, _)), Some((other, _))) if other.is_less(one, library) => right.next(),
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
