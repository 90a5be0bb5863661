//! Reads a document.
//!
//! Follows go.yaml.in/yaml 2.4.3 and gopkg.in/yaml.v3 3.0.1, `decode.go`. What is YAML and what is not is `granit_parser`'s
//! decision, which reads a little more than the originals do and says what is wrong in words of its own.

use std::borrow::Cow;
use std::collections::HashMap;

use ferroplane_cancellation::checkpoint;
use granit_parser::{Event, Parser, ScalarStyle, Tag};

use super::write::float_text;
use super::{Library, block, scalar};

/// How deeply nodes may be nested. The originals allow 10,000; no real file needs that, and a caller that reads the result recurses.
// The parser stops at 255 levels of each style by itself, so that only a mix of both styles gets here.
const DEPTH: usize = 500;
/// So many nodes may come from aliases before it is called an attack, as in the originals.
const ALIASED: usize = 400_000;
/// So many bytes may be copied for anchors and aliases. Go's texts are shared and ours are not: with a limit of nodes alone, one long
/// text could be copied 400,000 times.
const COPIED: usize = 64 << 20;

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above what fits into 63 bits.
    Uint(u64),
    Float(f64),
    String(String),
    /// A text that is no UTF-8, which Go's strings can hold.
    Bytes(Vec<u8>),
    /// A moment, as it was written; [`super::timestamp`] reads it. Only version 3 has them.
    Time(String),
    List(Vec<Node>),
    /// In the order of the text. Each key occurs once.
    Map(Vec<(Node, Node)>),
}

/// Why a text cannot be read, as the originals say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// Counted from one; none if the error is not about one line.
    pub line: Option<usize>,
    pub message: String,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "yaml: line {line}: {}", self.message),
            None => write!(f, "yaml: {}", self.message),
        }
    }
}

impl std::error::Error for ReadError {}

fn failed(message: impl Into<String>) -> ReadError {
    ReadError { line: None, message: message.into() }
}

/// The first document of a text as this library reads it. A text without a document is null.
pub fn read(text: &str, library: Library) -> Result<Node, ReadError> {
    match block::read(text, library) {
        Some(node) => Ok(node),
        None => read_any(text, library),
    }
}

/// The same, whatever the text is like.
pub(super) fn read_any(text: &str, library: Library) -> Result<Node, ReadError> {
    let mut reader = Reader {
        library,
        open: Vec::new(),
        anchors: HashMap::new(),
        aliased: 0,
        copied: 0,
        repeated: Vec::new(),
    };
    let mut document = Node::Null;
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| ReadError { line: Some(error.marker().line()), message: error.info() })?;
        // What follows the node may still be wrong, so the document is read to its end.
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        // Only the last scalar of the text can have been given a break that the text does not have.
        let is_at_end = span.byte_range().is_some_and(|range| range.end >= text.len());
        let event = match event {
            Event::Scalar(scalar, style, anchor, tag) if is_at_end && is_block(style) => {
                Event::Scalar(without_added_break(scalar, text), style, anchor, tag)
            }
            event => event,
        };
        if let Some(node) = reader.take(event, span.start.line())? {
            document = node;
        }
    }
    reader.finish(document)
}

fn is_block(style: ScalarStyle) -> bool {
    matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
}

/// Our parser ends the last line of a block when the text does not. The originals leave it as it is.
fn without_added_break<'t>(scalar: Cow<'t, str>, text: &str) -> Cow<'t, str> {
    let last_line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    match scalar.strip_suffix('\n') {
        Some(before) if !last_line.trim_matches([' ', '\t']).is_empty() => Cow::Owned(before.to_owned()),
        _ => scalar,
    }
}

struct Reader {
    library: Library,
    open: Vec<Open>,
    /// What anchors stand for, and how much that is.
    anchors: HashMap<usize, (Node, Extent)>,
    aliased: usize,
    copied: usize,
    /// Keys that are there twice, in the order in which the originals find them.
    repeated: Vec<String>,
}

/// How much a node is, with all that is in it.
#[derive(Clone, Copy)]
struct Extent {
    nodes: usize,
    bytes: usize,
}

impl Extent {
    fn of(text: &str) -> Self {
        Self { nodes: 1, bytes: size_of::<Node>() + text.len() }
    }
}

/// A collection whose end has not come.
struct Open {
    anchor: usize,
    content: Content,
    /// How much it is so far, itself included.
    size: Extent,
    /// How many repeated keys were known when it began.
    repeated: usize,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<Key> },
}

struct Entry {
    key: Key,
    value: Node,
}

struct Key {
    node: Node,
    /// What was written; empty for what is no scalar. The originals compare keys by it.
    text: String,
    line: usize,
    is_merge: bool,
}

/// A node that is complete.
struct Complete {
    node: Node,
    text: String,
    size: Extent,
    is_merge: bool,
    line: usize,
}

impl Reader {
    /// Continues with an event. Returns the document when it is complete.
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<Option<Node>, ReadError> {
        checkpoint();
        let complete = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let complete = self.scalar(&text, style, tag.as_deref(), line)?;
                self.remember(anchor, &complete.node, complete.size)?;
                complete
            }
            Event::Alias(anchor) => self.alias(anchor, line)?,
            Event::SequenceStart(_, anchor, _) => return self.begin(anchor, Content::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                return self.begin(anchor, Content::Map { entries: Vec::new(), key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(line)?,
            _ => return Ok(None),
        };
        Ok(self.put(complete))
    }

    fn finish(self, node: Node) -> Result<Node, ReadError> {
        if self.repeated.is_empty() {
            return Ok(node);
        }
        Err(failed(format!("unmarshal errors:\n  {}", self.repeated.join("\n  "))))
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<Complete, ReadError> {
        let is_quoted = style != ScalarStyle::Plain;
        let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix())).unwrap_or_default();
        let node = scalar::value(text, &tag, is_quoted, self.library).map_err(failed)?;
        let is_merge = text == "<<" && !is_quoted && (tag.is_empty() || tag.ends_with("merge"));
        Ok(Complete { node, text: text.to_owned(), size: Extent::of(text), is_merge, line })
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<Complete, ReadError> {
        let Some(size) = self.anchors.get(&anchor).map(|(_, size)| *size) else {
            // The collection that the anchor names is not complete: it would contain itself.
            return Err(failed("anchor value contains itself"));
        };
        self.aliased += size.nodes;
        if self.aliased > ALIASED {
            return Err(failed("document contains excessive aliasing"));
        }
        self.count_copy(size)?;
        let node = self.anchors[&anchor].0.clone();
        Ok(Complete { node, text: String::new(), size, is_merge: false, line })
    }

    fn begin(&mut self, anchor: usize, content: Content) -> Result<Option<Node>, ReadError> {
        if self.open.len() >= DEPTH {
            return Err(failed(format!("exceeded max depth of {DEPTH}")));
        }
        self.open.push(Open { anchor, content, size: Extent::of(""), repeated: self.repeated.len() });
        Ok(None)
    }

    fn end(&mut self, line: usize) -> Result<Complete, ReadError> {
        let open = self.open.pop().ok_or_else(|| failed("unexpected end"))?;
        let node = match open.content {
            Content::List(items) => Node::List(items),
            Content::Map { entries, .. } => self.map(entries, open.repeated)?,
        };
        self.remember(open.anchor, &node, open.size)?;
        Ok(Complete { node, text: String::new(), size: open.size, is_merge: false, line })
    }

    fn remember(&mut self, anchor: usize, node: &Node, size: Extent) -> Result<(), ReadError> {
        if anchor != 0 {
            self.count_copy(size)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok(())
    }

    /// Counts what will be copied. Anchors within anchors are copied once for each, which counts, too.
    fn count_copy(&mut self, size: Extent) -> Result<(), ReadError> {
        self.copied = self.copied.saturating_add(size.bytes);
        if self.copied > COPIED { Err(failed("document contains excessive aliasing")) } else { Ok(()) }
    }

    /// Puts a node where it belongs. Returns it if it is the document.
    fn put(&mut self, complete: Complete) -> Option<Node> {
        let Some(open) = self.open.last_mut() else { return Some(complete.node) };
        open.size.nodes += complete.size.nodes;
        open.size.bytes += complete.size.bytes;
        match &mut open.content {
            Content::List(items) => items.push(complete.node),
            Content::Map { entries, key } => {
                if let Some(key) = key.take() {
                    entries.push(Entry { key, value: complete.node });
                } else {
                    let Complete { node, text, is_merge, line, .. } = complete;
                    *key = Some(Key { node, text, line, is_merge });
                }
            }
        }
        None
    }

    fn map(&mut self, entries: Vec<Entry>, repeated_before: usize) -> Result<Node, ReadError> {
        if self.library == Library::V3 {
            let repeated = repeated(&entries);
            if !repeated.is_empty() {
                // The original does not look into a map that has such keys.
                self.repeated.truncate(repeated_before);
                self.repeated.extend(repeated);
            }
        }
        let mut map = Merging { entries: Vec::with_capacity(entries.len()), places: HashMap::new() };
        match self.library {
            Library::V2 => map.read_in_order(entries)?,
            Library::V3 => map.read_merges_last(entries)?,
        }
        Ok(Node::Map(map.entries))
    }
}

/// The pairs of keys that were written alike, in the order in which the original finds them.
fn repeated(entries: &[Entry]) -> Vec<String> {
    let mut places: HashMap<(bool, &str), Vec<usize>> = HashMap::new();
    for (at, Entry { key, .. }) in entries.iter().enumerate() {
        let is_collection = matches!(key.node, Node::List(_) | Node::Map(_));
        places.entry((is_collection, &key.text)).or_default().push(at);
    }
    let alike = places.into_values().filter(|places| places.len() > 1);
    let mut pairs: Vec<_> = alike
        .flat_map(|places| {
            let first = places.iter().enumerate().take(REPEATED);
            let pairs =
                first.flat_map(|(at, first)| places[at + 1..].iter().map(move |later| (*first, *later)));
            pairs.take(REPEATED).collect::<Vec<_>>()
        })
        .collect();
    pairs.sort_unstable();
    pairs.truncate(REPEATED);
    let said = pairs.into_iter().map(|(first, later)| {
        let (first, later) = (&entries[first].key, &entries[later].key);
        let name = crate::strconv::quote(&later.text);
        format!("line {}: mapping key {name} already defined at line {}", later.line, first.line)
    });
    said.collect()
}

/// How many repeated keys are reported. The original reports all, and thousands of them would be a message of megabytes.
const REPEATED: usize = 20;

/// A map while it is put together.
struct Merging {
    entries: Vec<(Node, Node)>,
    /// Where each key is, by its kind and value.
    places: HashMap<String, usize>,
}

impl Merging {
    /// Version 2 merges where the merge stands, so that it overrides what stands before it.
    fn read_in_order(&mut self, entries: Vec<Entry>) -> Result<(), ReadError> {
        for Entry { key, value } in entries {
            if key.is_merge {
                // Earlier maps take precedence, so they are written last.
                for map in merged_maps(value)?.into_iter().rev() {
                    for (key, value) in map {
                        self.set(key, value, true);
                    }
                }
            } else {
                self.insert(key.node, value)?;
            }
        }
        Ok(())
    }

    /// Version 3 merges what is not there when everything else is. Of several merges in one map the last counts.
    fn read_merges_last(&mut self, entries: Vec<Entry>) -> Result<(), ReadError> {
        let mut merge = None;
        for Entry { key, value } in entries {
            if key.is_merge {
                merge = Some(value);
            } else {
                self.insert(key.node, value)?;
            }
        }
        // A map whose own keys are all text can have no others, so that those that are merged become text.
        let has_texts = self.entries.iter().all(|(key, _)| matches!(key, Node::String(_)));
        for map in merge.map(merged_maps).transpose()?.into_iter().flatten() {
            for (key, value) in map {
                let key = if has_texts { as_text(key) } else { Some(key) };
                if let Some(key) = key {
                    self.set(key, value, false);
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, key: Node, value: Node) -> Result<(), ReadError> {
        if matches!(key, Node::List(_) | Node::Map(_)) {
            return Err(failed("invalid map key: a map or a list"));
        }
        self.set(key, value, true);
        Ok(())
    }

    fn set(&mut self, key: Node, value: Node, overrides: bool) {
        // By its kind, too: `1` and `"1"` are different keys.
        let place = *self.places.entry(format!("{key:?}")).or_insert(self.entries.len());
        match self.entries.get_mut(place) {
            None => self.entries.push((key, value)),
            Some(entry) if overrides => entry.1 = value,
            Some(_) => {}
        }
    }
}

/// A key as text. Null is none.
fn as_text(key: Node) -> Option<Node> {
    let text = match key {
        Node::Null => return None,
        Node::Bool(is_true) => is_true.to_string(),
        Node::Int(integer) => integer.to_string(),
        Node::Uint(integer) => integer.to_string(),
        Node::Float(float) => float_text(float),
        Node::Time(text) => text,
        other => return Some(other),
    };
    Some(Node::String(text))
}

fn merged_maps(value: Node) -> Result<Vec<Vec<(Node, Node)>>, ReadError> {
    let wrong = || failed("map merge requires map or sequence of maps as the value");
    match value {
        Node::Map(map) => Ok(vec![map]),
        Node::List(items) => items
            .into_iter()
            .map(|item| match item {
                Node::Map(map) => Ok(map),
                _ => Err(wrong()),
            })
            .collect(),
        _ => Err(wrong()),
    }
}
