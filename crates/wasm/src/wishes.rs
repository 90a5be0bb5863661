//! What code says that it needs, in a section of its own. A user who installs it sees that, and grants it or not.
//!
//! The section is a custom one of the name `ferroplane.wishes`, in a module, a component, or a module of a component. Its content is words
//! with spaces between them: `clock random read write connect env`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::grants::Grants;
use crate::sections::{is_component, sections, sized};

const SECTION: &str = "ferroplane.wishes";

/// How deep modules are looked for in components.
const DEPTH: usize = 8;

/// Something of the machine that code can need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    Clock,
    Random,
    Read,
    Write,
    Connect,
    Env,
}

const WISHES: [(&str, Wish); 6] = [
    ("clock", Wish::Clock),
    ("random", Wish::Random),
    ("read", Wish::Read),
    ("write", Wish::Write),
    ("connect", Wish::Connect),
    ("env", Wish::Env),
];

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WISHES.iter().find(|(_, wish)| wish == self).map_or("", |(word, _)| word);
        f.write_str(word)
    }
}

impl FromStr for Wish {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        let found = WISHES.iter().find(|(known, _)| *known == word).map(|(_, wish)| *wish);
        found.ok_or_else(|| Error::Wish { word: word.chars().take(64).collect() })
    }
}

/// What code needs, as it says itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes(BTreeSet<Wish>);

impl Wishes {
    /// What code says that it needs. Nothing if it says nothing, or is no WebAssembly.
    pub fn of(code: &[u8]) -> Result<Self, Error> {
        let mut words = Vec::new();
        collect(code, DEPTH, &mut words);
        words.iter().flat_map(|text| text.split_ascii_whitespace()).map(Wish::from_str).collect()
    }

    /// The same code, which says that it needs this, too.
    pub fn add_to(&self, code: &[u8]) -> Vec<u8> {
        let content = self.to_string();
        let mut section = leb(SECTION.len());
        section.extend(SECTION.as_bytes());
        section.extend(content.as_bytes());
        let mut code = code.to_vec();
        // Custom sections may stand anywhere between the others, the end included.
        code.push(0);
        code.extend(leb(section.len()));
        code.extend(section);
        code
    }

    pub fn iter(&self) -> impl Iterator<Item = Wish> {
        self.0.iter().copied()
    }

    pub fn contains(&self, wish: Wish) -> bool {
        self.0.contains(&wish)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses grants that the code does not say it needs.
    pub fn allow(&self, grants: &Grants) -> Result<(), Error> {
        match grants.wishes().find(|granted| !self.0.contains(granted)) {
            Some(wish) => Err(Error::NotDeclared { wish }),
            None => Ok(()),
        }
    }
}

impl FromIterator<Wish> for Wishes {
    fn from_iter<I: IntoIterator<Item = Wish>>(wishes: I) -> Self {
        Self(wishes.into_iter().collect())
    }
}

impl fmt::Display for Wishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.iter().map(|wish| wish.to_string()).collect();
        f.write_str(&words.join(" "))
    }
}

impl Grants {
    /// What code has to need for this to be granted to it.
    pub fn wishes(&self) -> impl Iterator<Item = Wish> {
        let kinds = [
            (self.clock, Wish::Clock),
            (self.randomness, Wish::Random),
            (self.directories.iter().any(|directory| !directory.is_writable), Wish::Read),
            (self.directories.iter().any(|directory| directory.is_writable), Wish::Write),
            (!self.addresses.is_empty(), Wish::Connect),
            (!self.env.is_empty(), Wish::Env),
        ];
        kinds.into_iter().filter_map(|(is_granted, wish)| is_granted.then_some(wish))
    }
}

/// Finds the contents of all sections of our name. Stops at what cannot be read: the compiler tells what is wrong with the code.
fn collect<'c>(code: &'c [u8], depth: usize, found: &mut Vec<&'c str>) {
    let is_component = is_component(code);
    for (kind, content) in sections(code) {
        match kind {
            0 => {
                if let Some((name, text)) = sized(content)
                    && name == SECTION.as_bytes()
                {
                    // What is no text asks for nothing, so that nothing can be granted.
                    found.extend(std::str::from_utf8(text));
                }
            }
            // A module or a component in a component.
            1 | 4 if is_component && depth > 0 => collect(content, depth - 1, found),
            _ => {}
        }
    }
}

/// A number as WebAssembly writes it.
fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    fn wishes(words: &[&str]) -> Wishes {
        words.iter().map(|word| word.parse::<Wish>().unwrap()).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(Wishes::of(MODULE).unwrap(), Wishes::default());
        let clock = wishes(&["clock", "read"]).add_to(MODULE);
        assert_eq!(Wishes::of(&clock).unwrap(), wishes(&["clock", "read"]));
        let both = wishes(&["env"]).add_to(&clock);
        assert_eq!(Wishes::of(&both).unwrap(), wishes(&["clock", "env", "read"]));
    }

    #[test]
    fn modules_of_components_are_looked_into() {
        let module = wishes(&["random"]).add_to(MODULE);
        let mut component = b"\0asm\x0d\0\x01\0\x01".to_vec();
        component.extend(leb(module.len()));
        component.extend(module);
        assert_eq!(Wishes::of(&component).unwrap(), wishes(&["random"]));
    }

    #[test]
    fn what_is_damaged_says_nothing_and_harms_nobody() {
        let code = wishes(&["clock"]).add_to(MODULE);
        for end in 0..code.len() {
            let _ = Wishes::of(&code[..end]);
        }
        for index in 8..code.len() {
            let mut code = code.clone();
            code[index] ^= 0xff;
            let _ = Wishes::of(&code);
        }
        assert_eq!(Wishes::of(b"no code").unwrap(), Wishes::default());
        assert!(matches!(Wishes::of(b"\0asm\x01\0\0\0\0\xff\xff\xff\xff\xff"), Ok(none) if none.is_empty()));
    }

    #[test]
    fn unknown_wish_is_refused() {
        let code = wishes(&["random"]).add_to(MODULE);
        let code: Vec<_> = String::from_utf8(code).unwrap().replace("random", "nuclei").into_bytes();
        assert!(Wishes::of(&code).unwrap_err().to_string().contains("`nuclei`"));
    }

    #[test]
    fn what_is_not_declared_is_not_granted() {
        let grants = Grants { clock: true, ..Grants::default() };
        assert!(wishes(&["clock"]).allow(&grants).is_ok());
        assert!(wishes(&["random"]).allow(&grants).unwrap_err().to_string().contains("clock"));
        assert!(wishes(&[]).allow(&Grants::default()).is_ok());
    }
}
