//! One mail address, as Go reads it: with or without a name in front, with comments.
//!
//! Follows Go 1.26, `net/mail/message.go`.

/// How deeply comments can be nested.
const MAX_DEPTH: usize = 100;

pub(super) fn is_email(text: &str) -> bool {
    let mut parser = Parser { rest: text };
    parser.address().is_some() && parser.skip_comments().is_some() && parser.rest.is_empty()
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn address(&mut self) -> Option<()> {
        self.skip_space();
        self.mailbox(true)
    }

    /// An address alone, or behind a name and in brackets. Groups cannot be nested, so that only one that is not in a group may be
    /// one itself.
    fn mailbox(&mut self, may_be_group: bool) -> Option<()> {
        if self.rest.is_empty() {
            return None;
        }
        let start = self.rest;
        if self.plain_address().is_some() {
            self.skip_space();
            if self.rest.starts_with('(') {
                self.comment()?;
            }
            return Some(());
        }
        self.rest = start;
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if may_be_group && self.consume(':') {
            return self.group();
        }
        self.consume('<').then_some(())?;
        self.plain_address()?;
        self.consume('>').then_some(())
    }

    /// A group is an address only if there is one in it.
    fn group(&mut self) -> Option<()> {
        self.skip_space();
        if self.consume(';') {
            return None;
        }
        let mut count = 0;
        loop {
            self.skip_space();
            self.mailbox(false)?;
            count += 1;
            self.skip_comments()?;
            if self.consume(';') {
                self.skip_comments()?;
                return (count == 1).then_some(());
            }
            self.consume(',').then_some(())?;
        }
    }

    fn plain_address(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            // Go refuses an empty local part although it is quoted.
            if self.quoted()?.is_empty() {
                return None;
            }
        } else {
            self.atom(false)?;
        }
        self.consume('@').then_some(())?;
        self.skip_space();
        if self.rest.starts_with('[') { self.domain_literal() } else { self.atom(false).map(drop) }
    }

    fn domain_literal(&mut self) -> Option<()> {
        let inside = self.rest.strip_prefix('[')?;
        let end = inside.find(']')?;
        let (address, rest) = (&inside[..end], &inside[end + 1..]);
        let is_address = match address.strip_prefix("IPv6:") {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => address.parse::<std::net::Ipv4Addr>().is_ok(),
        };
        self.rest = rest;
        is_address.then_some(())
    }

    /// At least one word.
    fn phrase(&mut self) -> Option<()> {
        let mut has_word = false;
        loop {
            if has_word {
                self.skip_comments()?;
            }
            self.skip_space();
            let start = self.rest;
            let word =
                if self.rest.starts_with('"') { self.quoted().map(drop) } else { self.atom(true).map(drop) };
            if word.is_none() {
                self.rest = start;
                return has_word.then_some(());
            }
            has_word = true;
        }
    }

    fn atom(&mut self, is_permissive: bool) -> Option<&'t str> {
        let end = self.rest.find(|character| !is_atom_character(character)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        if atom.is_empty() {
            return None;
        }
        if !is_permissive && (atom.starts_with('.') || atom.ends_with('.') || atom.contains("..")) {
            return None;
        }
        self.rest = rest;
        Some(atom)
    }

    fn quoted(&mut self) -> Option<String> {
        let mut characters = self.rest.strip_prefix('"')?.chars();
        let mut text = String::new();
        loop {
            match characters.next()? {
                '"' => {
                    self.rest = characters.as_str();
                    return Some(text);
                }
                '\\' => text.push(characters.next().filter(|c| is_visible(*c) || matches!(c, ' ' | '\t'))?),
                character if is_visible(character) || matches!(character, ' ' | '\t') => text.push(character),
                _ => return None,
            }
        }
    }

    fn comment(&mut self) -> Option<()> {
        let mut depth = 0;
        let mut characters = self.rest.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => {
                    characters.next()?;
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.rest = characters.as_str();
                return Some(());
            }
            if depth > MAX_DEPTH {
                return None;
            }
        }
        None
    }

    fn skip_comments(&mut self) -> Option<()> {
        self.skip_space();
        while self.rest.starts_with('(') {
            self.comment()?;
            self.skip_space();
        }
        Some(())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn consume(&mut self, character: char) -> bool {
        match self.rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

fn is_visible(character: char) -> bool {
    matches!(character, '!'..='~' | '\u{80}'..)
}

fn is_atom_character(character: char) -> bool {
    is_visible(character) && !"()[];@\\,<>\":".contains(character)
}
