//! Lets scripts write `oxr.spec.region` for fields of objects, as the community's function does: `None` if there is no such field. Its `dict` is a
//! function and has functions, too: `dict.merge` becomes `dict_merge`.
//!
//! Dictionaries have no attributes in Starlark, and what a script reads should stay a dictionary of the language, with all that the language can
//! do with one. So the text changes: `a.b` becomes `_attr(a,"b")`, and as a target of an assignment `a["b"]`. Calls such as `a.b()` stay.

use std::collections::HashMap;

use starlark::codemap::Span;
use starlark::syntax::AstModule;
use starlark::syntax::ast::{AssignTarget, AstExpr, AstLiteral, AstStmt, AstString, Expr, Stmt};

use crate::edits::Edits;

/// The functions of `dict`, each of which the prelude has as `dict_NAME`.
const FUNCTIONS_OF_DICT: [&str; 7] = ["merge", "deep_merge", "pick", "omit", "compact", "dig", "has_path"];

/// The expressions and targets of a script that read or write an attribute, as edits.
pub(crate) fn rewrite(ast: &AstModule, source: &str, edits: &mut Edits) {
    let mut rewriting = Rewriting { source, openers: openers(ast, source), edits };
    rewriting.targets(ast.statement());
    ast.statement().visit_expr(|expression| rewriting.expression(expression));
}

/// The begin and end of a span, in bytes.
pub(crate) fn range(span: Span) -> (usize, usize) {
    (span.begin().get() as usize, span.end().get() as usize)
}

/// The places of all texts in a script.
pub(crate) fn literals(ast: &AstModule) -> Vec<(usize, usize)> {
    fn find(expression: &AstExpr, found: &mut Vec<(usize, usize)>) {
        match &expression.node {
            Expr::Literal(AstLiteral::String(_) | AstLiteral::Bytes(_)) | Expr::FString(_) => {
                found.push(range(expression.span));
            }
            _ => expression.visit_expr(|part| find(part, found)),
        }
    }
    let mut found = Vec::new();
    ast.statement().visit_expr(|expression| find(expression, &mut found));
    found
}

/// For each `)`, where its `(` is. Those in texts and comments do not count.
fn openers(ast: &AstModule, source: &str) -> HashMap<usize, usize> {
    let mut skipped = literals(ast);
    skipped.extend(ast.comments().iter().map(|span| range(*span)));
    skipped.sort_unstable();
    let mut skipped = skipped.into_iter().peekable();
    let (mut open, mut openers) = (Vec::new(), HashMap::new());
    for (at, byte) in source.bytes().enumerate() {
        while skipped.next_if(|(_, end)| *end <= at).is_some() {}
        if skipped.peek().is_some_and(|(begin, _)| *begin <= at) {
            continue;
        }
        match byte {
            b'(' => open.push(at),
            b')' => {
                openers.extend(open.pop().map(|opener| (at, opener)));
            }
            _ => {}
        }
    }
    openers
}

struct Rewriting<'a> {
    source: &'a str,
    openers: HashMap<usize, usize>,
    edits: &'a mut Edits,
}

impl Rewriting<'_> {
    fn expression(&mut self, expression: &AstExpr) {
        match &expression.node {
            Expr::Dot(object, name) => {
                if !self.replace_function_of_dict(object, name) {
                    self.read(object, name);
                }
                self.expression(object);
            }
            // A method, or a function in a struct.
            Expr::Call(callee, arguments) if matches!(callee.node, Expr::Dot(..)) => {
                if let Expr::Dot(object, name) = &callee.node {
                    self.replace_function_of_dict(object, name);
                }
                callee.visit_expr(|object| self.expression(object));
                arguments.args.iter().for_each(|argument| self.expression(argument.expr()));
            }
            _ => expression.visit_expr(|part| self.expression(part)),
        }
    }

    /// Replaces the name of a function of `dict`, such as `dict.merge`. Says whether it is one.
    fn replace_function_of_dict(&mut self, object: &AstExpr, name: &AstString) -> bool {
        let is_dict = matches!(&object.node, Expr::Identifier(it) if it.node.ident == "dict");
        if !is_dict || !FUNCTIONS_OF_DICT.contains(&name.node.as_str()) {
            return false;
        }
        let ((_, dot), (begin, _)) = (range(object.span), range(name.span));
        // With spaces or parentheses between them, it is no name.
        let is_name = self.source[dot..begin] == *".";
        if is_name {
            self.edits.replace(dot, begin, "_");
        }
        is_name
    }

    fn read(&mut self, object: &AstExpr, name: &AstString) {
        let Some(dot) = self.dot(object) else { return };
        let (begin, end) = range(name.span);
        let begin_of_object = self.begin(object);
        self.edits.insert(begin_of_object, "_attr(");
        self.edits.replace(dot, dot + 1, ",");
        self.edits.replace(begin, end, format!("\"{}\")", name.node));
    }

    /// The targets of the assignments in a statement.
    fn targets(&mut self, statement: &AstStmt) {
        match &statement.node {
            Stmt::Assign(assignment) => self.target(&assignment.lhs.node),
            Stmt::AssignModify(target, ..) => self.target(&target.node),
            Stmt::For(each) => self.target(&each.var.node),
            _ => {}
        }
        statement.visit_stmt(|part| self.targets(part));
    }

    fn target(&mut self, target: &AssignTarget) {
        match target {
            AssignTarget::Tuple(parts) => parts.iter().for_each(|part| self.target(&part.node)),
            AssignTarget::Dot(object, name) => {
                let Some(dot) = self.dot(object) else { return };
                let (begin, end) = range(name.span);
                self.edits.replace(dot, dot + 1, "[");
                self.edits.replace(begin, end, format!("\"{}\"]", name.node));
            }
            AssignTarget::Index(_) | AssignTarget::Identifier(_) => {}
        }
    }

    /// The dot behind an expression.
    fn dot(&self, object: &AstExpr) -> Option<usize> {
        let (_, at) = self.behind(object);
        self.source[at..].starts_with('.').then_some(at)
    }

    /// The last parenthesis that closes around an expression, if one does, and what comes then: spans leave out parentheses.
    fn behind(&self, expression: &AstExpr) -> (Option<usize>, usize) {
        let (_, mut at) = range(expression.span);
        let mut closer = None;
        while let Some(letter) = self.source[at..].chars().next() {
            match letter {
                ')' => closer = Some(at),
                '#' => at += self.source[at..].find('\n').unwrap_or_default(),
                _ if letter.is_whitespace() => {}
                _ => break,
            }
            at += letter.len_utf8();
        }
        (closer, at)
    }

    /// Where an expression begins that is in front of a dot, a call or an index.
    fn begin(&self, head: &AstExpr) -> usize {
        let (begin, _) = range(head.span);
        if let (Some(closer), _) = self.behind(head) {
            return self.openers.get(&closer).copied().unwrap_or(begin);
        }
        match &head.node {
            Expr::Dot(inner, _) | Expr::Call(inner, _) | Expr::Slice(inner, ..) => self.begin(inner),
            Expr::Index(parts) => self.begin(&parts.0),
            Expr::Index2(parts) => self.begin(&parts.0),
            _ => begin,
        }
    }
}
