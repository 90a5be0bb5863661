//! Text in letters of base64, base32 and hexadecimal numbers.
//!
//! Follows `encoding` of the community's function-starlark (commit 8812579, builtins/encoding.go), which uses Go's packages. As there, bits that make no
//! whole byte are ignored. Unlike there, a text of a length that no bytes have is refused, and so is what is not UTF-8 when it is decoded.

use anyhow::{anyhow, ensure};

struct Alphabet {
    name: &'static str,
    letters: &'static [u8],
    /// How many bits a letter stands for.
    bits: u32,
    /// Whether a text is filled up to a multiple of four letters.
    is_padded: bool,
    /// Whether a text may be broken into lines.
    has_lines: bool,
}

const ALPHABETS: [Alphabet; 4] = [
    Alphabet {
        name: "base64",
        letters: b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        bits: 6,
        is_padded: true,
        has_lines: true,
    },
    Alphabet {
        name: "base64url",
        letters: b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
        bits: 6,
        is_padded: false,
        has_lines: true,
    },
    Alphabet {
        name: "base32",
        letters: b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        bits: 5,
        is_padded: false,
        has_lines: true,
    },
    Alphabet { name: "hex", letters: b"0123456789abcdef", bits: 4, is_padded: false, has_lines: false },
];

/// The letters of a padded text come in groups of so many, of which at most this many are padding.
const GROUP: usize = 4;
const MOST_PADDING: usize = 2;

/// A text in the letters of an alphabet.
pub(crate) fn encode(name: &str, text: &str) -> anyhow::Result<String> {
    Ok(find(name)?.encode(text.as_bytes()))
}

/// The text that letters of an alphabet stand for.
pub(crate) fn decode(name: &str, letters: &str) -> anyhow::Result<String> {
    let bytes = find(name)?.decode(letters)?;
    String::from_utf8(bytes).map_err(|_| anyhow!("what the {name} stands for is not text in UTF-8"))
}

fn find(name: &str) -> anyhow::Result<&'static Alphabet> {
    let found = ALPHABETS.iter().find(|alphabet| alphabet.name == name);
    found.ok_or_else(|| anyhow!("there is no alphabet `{name}`"))
}

impl Alphabet {
    fn encode(&self, bytes: &[u8]) -> String {
        let (mut text, mut held, mut count) = (String::new(), 0_u32, 0);
        for byte in bytes {
            held = (held << 8) | u32::from(*byte);
            count += 8;
            while count >= self.bits {
                count -= self.bits;
                text.push(self.letter(held >> count));
                held &= (1 << count) - 1;
            }
        }
        if count > 0 {
            text.push(self.letter(held << (self.bits - count)));
        }
        while self.is_padded && text.len() % GROUP != 0 {
            text.push('=');
        }
        text
    }

    /// There are as many letters as numbers of so many bits.
    fn letter(&self, number: u32) -> char {
        char::from(self.letters[number as usize])
    }

    fn decode(&self, text: &str) -> anyhow::Result<Vec<u8>> {
        // Without the text, which may be secret.
        let wrong = || anyhow!("the text is not {}", self.name);
        let letters = self.without_padding(text).ok_or_else(wrong)?;
        let (mut bytes, mut held, mut count) = (Vec::new(), 0_u32, 0);
        for letter in letters.bytes() {
            held = (held << self.bits) | self.number(letter).ok_or_else(wrong)?;
            count += self.bits;
            if count >= 8 {
                count -= 8;
                bytes.extend(u8::try_from(held >> count));
                held &= (1 << count) - 1;
            }
        }
        // A letter more than bytes need.
        ensure!(count < self.bits, wrong());
        Ok(bytes)
    }

    fn without_padding(&self, text: &str) -> Option<String> {
        let is_kept = |letter: &char| !(self.has_lines && matches!(letter, '\r' | '\n'));
        let text: String = text.chars().filter(is_kept).collect();
        if !self.is_padded {
            return Some(text);
        }
        let letters = text.trim_end_matches('=');
        let is_right = text.len() % GROUP == 0 && text.len() - letters.len() <= MOST_PADDING;
        is_right.then(|| letters.to_owned())
    }

    /// Hexadecimal numbers may have capital letters.
    fn number(&self, letter: u8) -> Option<u32> {
        let letter = if self.bits == 4 { letter.to_ascii_lowercase() } else { letter };
        let place = self.letters.iter().position(|its| *its == letter)?;
        u32::try_from(place).ok()
    }
}
