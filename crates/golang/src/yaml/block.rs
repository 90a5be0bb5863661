//! Reads the YAML that people and programs write most: maps and lists in block style, with scalars that stand in one line.
//!
//! Our own design: it is here for speed alone. Whatever is not certainly of this kind is left to the parser that knows all of YAML, so that
//! nothing here is an error. What is read here is what that parser would have read.

use std::collections::HashSet;

use ferroplane_cancellation::checkpoint;
use memchr::{memchr, memchr_iter};
use serde_json::{Map, Value};

use super::{Library, Node, scalar, to_json};

/// Deeper nesting is left to the parser, which has a limit and says so.
const DEPTH: usize = 64;
/// Maps with more keys than this remember them in a set.
const FEW: usize = 16;
/// The parser has a limit for keys, too.
const LONGEST_KEY: usize = 256;

/// What is made of a text: nodes, or JSON at once.
pub(super) trait Built: Sized {
    type Entries: Default;

    fn scalar(node: Node) -> Option<Self>;
    fn text(text: String) -> Self;
    fn list(items: Vec<Self>) -> Self;
    fn map(entries: Self::Entries) -> Self;

    /// Adds an entry. False if there is one with this key.
    fn insert(entries: &mut Self::Entries, key: String, value: Self) -> bool;
}

/// The entries of a map in their order, and their keys if there are many.
#[derive(Default)]
pub(super) struct Entries {
    entries: Vec<(Node, Node)>,
    keys: HashSet<String>,
}

impl Built for Node {
    type Entries = Entries;

    fn scalar(node: Node) -> Option<Self> {
        Some(node)
    }

    fn text(text: String) -> Self {
        Self::String(text)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn map(entries: Entries) -> Self {
        Self::Map(entries.entries)
    }

    fn insert(Entries { entries, keys }: &mut Entries, key: String, value: Self) -> bool {
        let name =
            |(key, _): &(Node, Node)| if let Self::String(key) = key { Some(key.clone()) } else { None };
        if entries.len() == FEW {
            *keys = entries.iter().filter_map(name).collect();
        }
        // Maps of a few keys are most of all, and comparing is quicker than hashing there.
        let is_known = if entries.len() < FEW {
            entries.iter().any(|(known, _)| matches!(known, Self::String(known) if *known == key))
        } else {
            !keys.insert(key.clone())
        };
        entries.push((Self::String(key), value));
        !is_known
    }
}

impl Built for Value {
    type Entries = Map<String, Self>;

    fn scalar(node: Node) -> Option<Self> {
        to_json(node).ok()
    }

    fn text(text: String) -> Self {
        Self::String(text)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn map(entries: Self::Entries) -> Self {
        Self::Object(entries)
    }

    fn insert(entries: &mut Self::Entries, key: String, value: Self) -> bool {
        entries.insert(key, value).is_none()
    }
}

/// What a text says, if it is plain enough.
pub(super) fn read<B: Built>(text: &str, library: Library) -> Option<B> {
    // Tabs, control characters and letters that could be breaks or marks are where readers differ.
    let is_plain = |byte: &u8| *byte == b'\n' || (b' '..=b'~').contains(byte);
    // By blocks, each of them to its end: that is what processors are fast at.
    if !text.as_bytes().chunks(64).all(|block| block.iter().fold(true, |all, byte| all & is_plain(byte))) {
        return None;
    }
    let lines = lines(text);
    let at = usize::from(lines.first().is_some_and(|first| first.indent == 0 && first.content == "---"));
    let mut reader = Reader { lines, at, library, ends_with_break: text.ends_with('\n') };
    // What has nothing but comments is no document, which is null.
    // Only maps are read at the root: that is what manifests are, and everything else is left to the parser.
    let Some((indent, _)) = reader.peek() else { return B::scalar(Node::Null) };
    let root = reader.map(indent, None, 0)?;
    reader.peek().is_none().then_some(root)
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let count = memchr_iter(b'\n', text.as_bytes()).count() + 1;
    let (mut lines, mut begin) = (Vec::with_capacity(count), 0);
    for end in memchr_iter(b'\n', text.as_bytes()) {
        lines.push(Line::new(&text[begin..end]));
        begin = end + 1;
    }
    if begin < text.len() {
        lines.push(Line::new(&text[begin..]));
    }
    lines
}

/// A line of the text. It is checked more than once.
struct Line<'t> {
    whole: &'t str,
    indent: usize,
    /// Its text, without the spaces around it.
    content: &'t str,
}

impl<'t> Line<'t> {
    fn new(whole: &'t str) -> Self {
        let content = trim_start(whole);
        let end = content.bytes().rposition(|byte| byte != b' ').map_or(0, |last| last + 1);
        Self { whole, indent: whole.len() - content.len(), content: &content[..end] }
    }
}

/// Without the spaces at the beginning. The standard library looks for any character, which takes far longer.
fn trim_start(text: &str) -> &str {
    &text[text.bytes().take_while(|byte| *byte == b' ').count()..]
}

struct Reader<'t> {
    lines: Vec<Line<'t>>,
    at: usize,
    library: Library,
    ends_with_break: bool,
}

impl<'t> Reader<'t> {
    /// The next line that is not empty: its indentation, and its text.
    fn peek(&mut self) -> Option<(usize, &'t str)> {
        loop {
            let Line { indent, content, .. } = *self.lines.get(self.at)?;
            if !content.is_empty() && !content.starts_with('#') {
                return Some((indent, content));
            }
            self.at += 1;
        }
    }

    /// What begins at the next line, which is indented this far.
    fn block<B: Built>(&mut self, indent: usize, depth: usize) -> Option<B> {
        let (_, content) = self.peek()?;
        if is_item(content) { self.list(indent, depth) } else { self.map(indent, None, depth) }
    }

    /// A map whose keys are indented this far. Its first entry may stand behind something else.
    fn map<B: Built>(&mut self, indent: usize, first: Option<&'t str>, depth: usize) -> Option<B> {
        let depth = Some(depth + 1).filter(|depth| *depth < DEPTH)?;
        let mut entries = B::Entries::default();
        let mut next = first;
        loop {
            let content = match next.take() {
                Some(content) => content,
                None => match self.peek() {
                    Some((at, content)) if at == indent => content,
                    Some((at, _)) if at > indent => return None,
                    _ => break,
                },
            };
            let (key, rest) = split_key(content)?;
            let key = self.key(key)?;
            let value = self.value(rest, indent, true, depth)?;
            if !B::insert(&mut entries, key, value) {
                return None;
            }
        }
        Some(B::map(entries))
    }

    fn list<B: Built>(&mut self, indent: usize, depth: usize) -> Option<B> {
        let depth = Some(depth + 1).filter(|depth| *depth < DEPTH)?;
        let mut items = Vec::new();
        while let Some((at, content)) = self.peek() {
            if at > indent {
                return None;
            }
            // A key at the same place continues with the map that the list is in.
            if at < indent || !is_item(content) {
                break;
            }
            let item = trim_start(&content[1..]);
            let inner = indent + content.len() - item.len();
            // A list in a list on one line is rare enough to leave it.
            items.push(if is_item(item) {
                return None;
            } else if split_key(item).is_some() {
                self.map(inner, Some(item), depth)?
            } else {
                self.value(item, indent, false, depth)?
            });
        }
        Some(B::list(items))
    }

    /// A key that is a text. Others are compared in ways of their own.
    fn key(&self, text: &str) -> Option<String> {
        if scalar::is_certainly_string(text) {
            return Some(text.to_owned());
        }
        text_of(scalar::value(text, "", false, self.library).ok()?)
    }

    /// What stands behind a key or a dash of this indentation.
    fn value<B: Built>(&mut self, rest: &'t str, indent: usize, is_of_key: bool, depth: usize) -> Option<B> {
        checkpoint();
        let rest = trim_start(rest);
        if rest.starts_with('|') {
            return self.literal(rest, indent).map(B::text);
        }
        self.at += 1;
        if rest.is_empty() || rest.starts_with('#') {
            return match self.peek() {
                Some((at, _)) if at > indent => self.block(at, depth),
                Some((at, content)) if at == indent && is_of_key && is_item(content) => {
                    self.list(indent, depth)
                }
                _ => B::scalar(Node::Null),
            };
        }
        let value = match rest.as_bytes()[0] {
            b'"' | b'\'' => {
                let (text, _) = quoted(rest).filter(|(_, after)| is_nothing(after))?;
                Some(B::text(text))
            }
            b'[' | b'{' => {
                let mut flow = Flow { rest, library: self.library };
                flow.node(depth).filter(|_| is_nothing(flow.rest))
            }
            _ => self.plain(rest),
        }?;
        // A line that is indented further would continue with the scalar, or be wrong.
        match self.peek() {
            Some((at, _)) if at > indent => None,
            _ => Some(value),
        }
    }

    fn plain<B: Built>(&self, text: &str) -> Option<B> {
        let first = text.as_bytes()[0];
        // Comments and keys in the middle of a line have a space, and most scalars have none.
        let has_space = memchr(b' ', text.as_bytes()).is_some();
        let find = |text: &str, sign: &[u8; 2]| {
            if has_space { text.as_bytes().windows(2).position(|pair| pair == sign) } else { None }
        };
        let text = match find(text, b" #") {
            Some(end) => text[..end].trim_end_matches(' '),
            None => text,
        };
        let is_odd = b"&*!%@`>?:,]}#|".contains(&first)
            || text.starts_with("---")
            || is_item(text)
            || text.ends_with(':')
            || find(text, b": ").is_some();
        if is_odd { None } else { word(text, self.library) }
    }

    /// A text in several lines, as it is.
    fn literal(&mut self, header: &str, indent: usize) -> Option<String> {
        let keeps_break = match header {
            "|" => true,
            "|-" => false,
            _ => return None,
        };
        self.at += 1;
        let Line { whole, indent: inner, .. } = *self.lines.get(self.at)?;
        // An empty first line leaves open how far the text is indented.
        if inner <= indent || inner == whole.len() {
            return None;
        }
        let mut text = String::new();
        let mut breaks = 0;
        while let Some(Line { whole: line, indent: at, content }) = self.lines.get(self.at) {
            if content.is_empty() {
                // Spaces past the indentation belong to the text, even in a line without anything else.
                if line.len() > inner {
                    return None;
                }
                breaks += 1;
            } else if *at < inner {
                break;
            } else {
                text.extend(std::iter::repeat_n('\n', breaks));
                text.push_str(&line[inner..]);
                breaks = 1;
            }
            self.at += 1;
        }
        // Whether the last line then ends with a break is where the two parsers differ.
        if self.at == self.lines.len() && !self.ends_with_break {
            return None;
        }
        if keeps_break {
            text.push('\n');
        }
        match self.peek() {
            Some((at, _)) if at > indent => None,
            _ => Some(text),
        }
    }
}

/// Whether a line is an item of a list.
fn is_item(content: &str) -> bool {
    content == "-" || content.starts_with("- ")
}

/// Whether nothing follows, or a comment.
fn is_nothing(after: &str) -> bool {
    let rest = trim_start(after);
    rest.is_empty() || rest.starts_with('#') && rest.len() < after.len()
}

/// The key of an entry, and what stands behind its colon.
fn split_key(content: &str) -> Option<(&str, &str)> {
    let is_inner =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-' | b'$');
    let length = content.bytes().take_while(|byte| is_inner(byte)).count();
    let (key, rest) = content.split_at(length);
    let is_key =
        // Not all that may stand inside: a point may begin a number, and a hyphen an item or the end of a
        // document.
        key.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || b"_/".contains(&first));
    let rest = rest.strip_prefix(':').filter(|rest| rest.is_empty() || rest.starts_with(' '))?;
    (is_key && length <= LONGEST_KEY).then_some((key, rest))
}

/// A quoted text without escapes, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    if let Some(rest) = text.strip_prefix('"') {
        let (inner, after) = split_at_sign(rest, b'"')?;
        return (!has_escape(inner)).then(|| (inner.to_owned(), after));
    }
    let mut rest = text.strip_prefix('\'')?;
    let mut inner = String::new();
    loop {
        let (before, after) = split_at_sign(rest, b'\'')?;
        inner.push_str(before);
        match after.strip_prefix('\'') {
            Some(more) => {
                inner.push('\'');
                rest = more;
            }
            None => return Some((inner, after)),
        }
    }
}

/// What stands before and behind an ASCII character.
fn split_at_sign(text: &str, sign: u8) -> Option<(&str, &str)> {
    memchr(sign, text.as_bytes()).map(|at| (&text[..at], &text[at + 1..]))
}

fn has_escape(text: &str) -> bool {
    memchr(b'\\', text.as_bytes()).is_some()
}

/// What a text means that stands there by itself.
fn word<B: Built>(text: &str, library: Library) -> Option<B> {
    if scalar::is_certainly_string(text) {
        return Some(B::text(text.to_owned()));
    }
    B::scalar(scalar::value(text, "", false, library).ok()?)
}

/// A scalar that is a text.
fn text_of(node: Node) -> Option<String> {
    if let Node::String(text) = node { Some(text) } else { None }
}

/// A collection in one line, as JSON writes it.
struct Flow<'t> {
    rest: &'t str,
    library: Library,
}

impl<'t> Flow<'t> {
    fn node<B: Built>(&mut self, depth: usize) -> Option<B> {
        checkpoint();
        let depth = Some(depth + 1).filter(|depth| *depth < DEPTH)?;
        match self.rest.as_bytes().first()? {
            b'[' => self.list(depth),
            b'{' => self.map(depth),
            b'"' => Some(B::text(self.text()?.to_owned())),
            _ => word(self.token()?, self.library),
        }
    }

    fn skip_spaces(&mut self) {
        self.rest = trim_start(self.rest);
    }

    fn take(&mut self, sign: char) -> bool {
        let after = self.rest.strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn text(&mut self) -> Option<&'t str> {
        let (inner, after) = split_at_sign(self.rest.strip_prefix('"')?, b'"')?;
        self.rest = after;
        (!has_escape(inner)).then_some(inner)
    }

    /// A plain word or number.
    fn token(&mut self) -> Option<&'t str> {
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./-".contains(byte);
        let length = self.rest.bytes().take_while(|byte| is_inner(byte)).count();
        let (token, after) = self.rest.split_at(length);
        self.rest = after;
        let is_plain = match token.as_bytes() {
            [] => false,
            [b'-', next, ..] => next.is_ascii_digit(),
            [first, ..] => first.is_ascii_alphanumeric() || b"_/".contains(first),
        };
        is_plain.then_some(token)
    }

    fn list<B: Built>(&mut self, depth: usize) -> Option<B> {
        self.take('[');
        self.skip_spaces();
        let mut items = Vec::new();
        if self.take(']') {
            return Some(B::list(items));
        }
        loop {
            self.skip_spaces();
            items.push(self.node(depth)?);
            self.skip_spaces();
            if self.take(']') {
                return Some(B::list(items));
            }
            if !self.take(',') {
                return None;
            }
        }
    }

    fn map<B: Built>(&mut self, depth: usize) -> Option<B> {
        self.take('{');
        self.skip_spaces();
        let mut entries = B::Entries::default();
        if self.take('}') {
            return Some(B::map(entries));
        }
        loop {
            self.skip_spaces();
            let is_quoted = self.rest.starts_with('"');
            let key = if is_quoted { self.text()? } else { self.token()? };
            let name = text_of(scalar::value(key, "", is_quoted, self.library).ok()?)?;
            // Behind a quoted key the value may follow at once, as in JSON; `{a:b}` is a single word.
            if key.len() > LONGEST_KEY || !self.take(':') || !(is_quoted || self.rest.starts_with(' ')) {
                return None;
            }
            self.skip_spaces();
            let value = self.node(depth)?;
            if !B::insert(&mut entries, name, value) {
                return None;
            }
            self.skip_spaces();
            if self.take('}') {
                return Some(B::map(entries));
            }
            if !self.take(',') {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
