//! Reads templates: items in, trees out.
//!
//! Follows Go 1.26, `text/template/parse/parse.go`. Nesting is limited more than there, because Go's stack grows and
//! ours does not.

mod number;
mod pipeline;

use std::collections::HashMap;
use std::mem;

use ferroplane_golang::strconv::{quote, unquote_bytes};

use crate::lex::{Item, Kind, Lexer};
use crate::node::{Branch, Invocation, Node, Pipe, Position, Tree};
use crate::{Functions, ParseError, Text};

/// How deep parentheses may be nested, and how deep blocks may be.
pub(crate) const MAX_DEPTH: usize = 100;
/// How many variables may be declared in one place.
const MAX_VARIABLES: usize = 1000;
/// How many `else if` may follow each other. They end up inside each other, and freeing them recurses.
const MAX_ALTERNATIVES: usize = 1000;

/// Reads a text: its own tree under its name, and those that it defines.
pub(crate) fn parse(
    name: &str,
    text: &str,
    delimiters: (&str, &str),
    functions: &Functions,
) -> Result<HashMap<String, Tree>, ParseError> {
    let mut lexer = Lexer::new(text, delimiters.0, delimiters.1);
    lexer.breaks = functions.get("break").is_none();
    lexer.continues = functions.get("continue").is_none();
    let (trees, calls, tree) = (HashMap::new(), HashMap::new(), TreeState::new());
    let mut parser = Parser { name, lexer, functions, trees, calls, tree, block_depth: 0 };
    parser.text()?;
    Ok(parser.trees)
}

struct Parser<'t> {
    name: &'t str,
    lexer: Lexer<'t>,
    functions: &'t Functions,
    trees: HashMap<String, Tree>,
    /// How many calls of each function and template were read.
    calls: HashMap<String, u32>,
    tree: TreeState<'t>,
    // Not part of the state of a tree: blocks take stack wherever they are defined.
    block_depth: usize,
}

/// What is known about the tree that is being read. A definition inside another one starts afresh.
struct TreeState<'t> {
    /// Items that were checked already, the next one last. The first one is what messages take their line from.
    items: [Item<'t>; 3],
    peeked: usize,
    variables: Vec<&'t str>,
    action_line: usize,
    range_depth: usize,
    paren_depth: usize,
}

impl TreeState<'_> {
    fn new() -> Self {
        let none = || Item { kind: Kind::Eof, position: 0, text: "", line: 0, problem: None };
        Self {
            items: [none(), none(), none()],
            peeked: 0,
            variables: vec!["$"],
            action_line: 0,
            range_depth: 0,
            paren_depth: 0,
        }
    }
}

/// What an action turned out to be.
enum Action {
    Node(Node),
    Else,
    End,
}

impl Action {
    fn shown(&self) -> &'static str {
        if matches!(self, Self::Else) { "{{else}}" } else { "{{end}}" }
    }
}

type Parsed<T> = Result<T, ParseError>;

impl<'t> Parser<'t> {
    fn next(&mut self) -> Item<'t> {
        if self.tree.peeked > 0 {
            self.tree.peeked -= 1;
        } else {
            self.tree.items[0] = self.lexer.next_item();
        }
        self.tree.items[self.tree.peeked].clone()
    }

    fn back(&mut self) {
        self.tree.peeked += 1;
    }

    /// Goes back over the last item and this one before it.
    fn back2(&mut self, first: Item<'t>) {
        self.tree.items[1] = first;
        self.tree.peeked = 2;
    }

    /// Goes back over the last item and these two before it.
    fn back3(&mut self, first: Item<'t>, second: Item<'t>) {
        self.tree.items[1] = second;
        self.tree.items[2] = first;
        self.tree.peeked = 3;
    }

    fn peek(&mut self) -> &Item<'t> {
        if self.tree.peeked == 0 {
            self.tree.items[0] = self.lexer.next_item();
            self.tree.peeked = 1;
        }
        &self.tree.items[self.tree.peeked - 1]
    }

    fn next_non_space(&mut self) -> Item<'t> {
        loop {
            let item = self.next();
            if item.kind != Kind::Space {
                return item;
            }
        }
    }

    fn peek_non_space(&mut self) -> &Item<'t> {
        let _ = self.next_non_space();
        self.back();
        self.peek()
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError { name: self.name.to_owned(), line: self.tree.items[0].line, message: message.into() }
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<Item<'t>> {
        let item = self.next_non_space();
        if item.kind == kind { Ok(item) } else { Err(self.unexpected(&item, context)) }
    }

    fn unexpected(&self, item: &Item<'_>, context: &str) -> ParseError {
        let shown = item.shown();
        if item.kind != Kind::Error {
            return self.error(format!("unexpected {shown} in {context}"));
        }
        if self.tree.action_line == 0 || self.tree.action_line == item.line {
            return self.error(shown);
        }
        let word = if shown.ends_with(" action") { "" } else { " in action" };
        self.error(format!("{shown}{word} started at {}:{}", self.name, self.tree.action_line))
    }

    fn text(&mut self) -> Parsed<()> {
        let mut root = Vec::new();
        while self.peek().kind != Kind::Eof {
            if self.peek().kind == Kind::LeftDelimiter {
                let delimiter = self.next();
                if self.next_non_space().kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.back2(delimiter);
            }
            match self.text_or_action()? {
                Action::Node(node) => root.push(node),
                other => return Err(self.error(format!("unexpected {}", other.shown()))),
            }
        }
        self.add(self.name.to_owned(), root)
    }

    /// Reads with an empty state, and comes back to the one before.
    fn in_new_tree<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        // Items that were peeked at stay with the outer state, so that nothing may be peeked at before a
        // definition begins.
        let outer = mem::replace(&mut self.tree, TreeState::new());
        let result = read(self);
        self.tree = outer;
        result
    }

    fn definition(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "define clause";
        self.in_new_tree(|parser| {
            let item = parser.next_non_space();
            let name = parser.template_name(&item, CONTEXT)?;
            parser.expect(Kind::RightDelimiter, CONTEXT)?;
            let (root, end) = parser.list()?;
            if matches!(end, Action::Else) {
                return Err(parser.error(format!("unexpected {} in {CONTEXT}", end.shown())));
            }
            parser.add(name, root)
        })
    }

    /// A tree that says nothing gives way to another one with its name; of two that say something, the second is a
    /// mistake.
    fn add(&mut self, name: String, root: Vec<Node>) -> Parsed<()> {
        // Definitions in a text leave the white space between them behind, which must not replace a template
        // of that name.
        let is_empty = |nodes: &[Node]| nodes.iter().all(is_blank);
        if let Some(tree) = self.trees.get(&name).filter(|tree| !is_empty(&tree.root)) {
            if !is_empty(&root) {
                let name = quote(&tree.name);
                return Err(self.error(format!("template: multiple definition of template {name}")));
            }
            return Ok(());
        }
        self.trees.insert(name.clone(), Tree { name, root });
        Ok(())
    }

    fn list(&mut self) -> Parsed<(Vec<Node>, Action)> {
        self.block_depth += 1;
        if self.block_depth > MAX_DEPTH {
            return Err(self.error("blocks are nested too deeply"));
        }
        let mut nodes = Vec::new();
        while self.peek_non_space().kind != Kind::Eof {
            match self.text_or_action()? {
                Action::Node(node) => nodes.push(node),
                end => {
                    self.block_depth -= 1;
                    return Ok((nodes, end));
                }
            }
        }
        Err(self.error("unexpected EOF"))
    }

    fn text_or_action(&mut self) -> Parsed<Action> {
        let item = self.next_non_space();
        match item.kind {
            Kind::Text => {
                let (position, text) = (at(&item), Text::from(item.text));
                Ok(Action::Node(Node::Text { position, text }))
            }
            Kind::LeftDelimiter => {
                self.tree.action_line = item.line;
                let action = self.action()?;
                self.tree.action_line = 0;
                Ok(action)
            }
            _ => Err(self.unexpected(&item, "input")),
        }
    }

    fn action(&mut self) -> Parsed<Action> {
        let item = self.next_non_space();
        let node = match item.kind {
            Kind::Block => self.block()?,
            Kind::Break => self.jump(Node::Break, "{{break}}")?,
            Kind::Continue => self.jump(Node::Continue, "{{continue}}")?,
            Kind::Else => return self.otherwise(),
            Kind::End => {
                self.expect(Kind::RightDelimiter, "end")?;
                return Ok(Action::End);
            }
            Kind::If => Node::If(self.control("if")?),
            Kind::Range => Node::Range(self.control("range")?),
            Kind::Template => self.template()?,
            Kind::With => Node::With(self.control("with")?),
            _ => {
                self.back();
                Node::Action(self.pipeline("command", Kind::RightDelimiter)?)
            }
        };
        Ok(Action::Node(node))
    }

    fn jump(&mut self, node: Node, shown: &str) -> Parsed<Node> {
        let item = self.next_non_space();
        if item.kind != Kind::RightDelimiter {
            return Err(self.unexpected(&item, shown));
        }
        if self.tree.range_depth == 0 {
            return Err(self.error(format!("{shown} outside {{{{range}}}}")));
        }
        Ok(node)
    }

    fn otherwise(&mut self) -> Parsed<Action> {
        if !matches!(self.peek_non_space().kind, Kind::If | Kind::With) {
            self.expect(Kind::RightDelimiter, "else")?;
        }
        Ok(Action::Else)
    }

    /// `if`, `with` or `range`, whose word has been read. `{{else if}}` is one branch in another, but is read in a
    /// loop, so that a long chain of them needs no stack.
    fn control(&mut self, word: &str) -> Parsed<Box<Branch>> {
        let variables = self.tree.variables.len();
        let mut branches = Vec::new();
        let last = loop {
            let (pipe, list, end) = self.branch(word)?;
            let is_chained = matches!(end, Action::Else)
                && matches!((word, self.peek().kind), ("if", Kind::If) | ("with", Kind::With));
            if is_chained {
                self.next();
                branches.push((pipe, list));
                if branches.len() > MAX_ALTERNATIVES {
                    return Err(self.error("blocks are nested too deeply"));
                }
                continue;
            }
            let otherwise = if matches!(end, Action::Else) { Some(self.last_list()?) } else { None };
            break Box::new(Branch { pipe, list, otherwise });
        };
        self.tree.variables.truncate(variables);
        let wrap = |branch| if word == "if" { Node::If(branch) } else { Node::With(branch) };
        Ok(branches.into_iter().rev().fold(last, |inner, (pipe, list)| {
            Box::new(Branch { pipe, list, otherwise: Some(vec![wrap(inner)]) })
        }))
    }

    fn branch(&mut self, word: &str) -> Parsed<(Pipe, Vec<Node>, Action)> {
        let pipe = self.pipeline(word, Kind::RightDelimiter)?;
        self.tree.range_depth += usize::from(word == "range");
        let (list, end) = self.list()?;
        self.tree.range_depth -= usize::from(word == "range");
        Ok((pipe, list, end))
    }

    fn last_list(&mut self) -> Parsed<Vec<Node>> {
        let (list, end) = self.list()?;
        if matches!(end, Action::End) {
            return Ok(list);
        }
        Err(self.error(format!("expected end; found {}", end.shown())))
    }

    fn block(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "block clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelimiter)?;
        let end = self.in_new_tree(|parser| {
            let (root, end) = parser.list()?;
            if matches!(end, Action::End) {
                parser.add(name.clone(), root)?;
            }
            Ok(end)
        })?;
        if matches!(end, Action::Else) {
            return Err(self.error(format!("unexpected {} in {CONTEXT}", end.shown())));
        }
        let number = self.count_call(&name);
        Ok(Node::Template(Box::new(Invocation { position: at(&item), name, number, pipe: Some(pipe) })))
    }

    fn template(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "template clause";
        let item = self.next_non_space();
        let name = self.template_name(&item, CONTEXT)?;
        let pipe = if self.next_non_space().kind == Kind::RightDelimiter {
            None
        } else {
            self.back();
            Some(self.pipeline(CONTEXT, Kind::RightDelimiter)?)
        };
        let number = self.count_call(&name);
        Ok(Node::Template(Box::new(Invocation { position: at(&item), name, number, pipe })))
    }

    /// Counts a call. Returns how many with this name came before.
    fn count_call(&mut self, name: &str) -> u32 {
        if let Some(count) = self.calls.get_mut(name) {
            *count += 1;
            return *count - 1;
        }
        self.calls.insert(name.to_owned(), 1);
        0
    }

    fn template_name(&self, item: &Item<'_>, context: &str) -> Parsed<String> {
        if !matches!(item.kind, Kind::String | Kind::RawString) {
            return Err(self.unexpected(item, context));
        }
        let bytes = self.unquoted(item)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn unquoted(&self, item: &Item<'_>) -> Parsed<Vec<u8>> {
        if item.kind == Kind::RawString {
            // Go drops carriage returns, as it does in source code.
            return Ok(item.text[1..item.text.len() - 1].replace('\r', "").into_bytes());
        }
        unquote_bytes(item.text).ok_or_else(|| self.error("invalid syntax"))
    }
}

/// Whether a tree of only such nodes counts as empty.
fn is_blank(node: &Node) -> bool {
    match node {
        Node::Text { text, .. } => text.to_str().trim_matches(is_go_space).is_empty(),
        _ => false,
    }
}

/// White space as Go's `bytes.TrimSpace` has it.
fn is_go_space(letter: char) -> bool {
    matches!(letter, '\t'..='\r' | ' ' | '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}')
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// Texts are far shorter than this number can count: [`crate::Templates::parse`] checks that.
fn at(item: &Item<'_>) -> Position {
    Position::try_from(item.position).unwrap_or(Position::MAX)
}
