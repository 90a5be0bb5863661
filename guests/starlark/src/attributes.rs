//! Lets scripts write `oxr.spec.region` for fields of objects, as the community's function does: `None` if there is no such field. Its `dict` is a
//! function and has functions, too: `dict.merge` becomes `dict_merge`.
//!
//! Dictionaries have no attributes in Starlark, and what a script reads should stay a dictionary of the language, with all that the language can
//! do with one. So the text changes: `a.b` becomes `_attr(a,"b")`, and as a target of an assignment `a["b"]`. Calls such as `a.b()` stay.

use std::collections::HashMap;

use starlark::codemap::Span;
use starlark::syntax::AstModule;
use starlark::syntax::ast::{
    AssignIdent, AssignTarget, AstExpr, AstLiteral, AstParameter, AstStmt, AstString, Clause, Expr, Stmt,
};

use crate::edits::Edits;

/// The function of the language that has functions here.
pub(crate) const DICT: &str = "dict";

/// The functions of `dict`, each of which the prelude has as `dict_NAME`.
const FUNCTIONS_OF_DICT: [&str; 7] = ["merge", "deep_merge", "pick", "omit", "compact", "dig", "has_path"];

/// The expressions and targets of a script that read or write an attribute, as edits. `has_own_dict` says that the script gives the name
/// `dict` to something of its own, outside of its functions.
pub(crate) fn rewrite(ast: &AstModule, source: &str, has_own_dict: bool, edits: &mut Edits) {
    let own_dicts = if has_own_dict { vec![(0, source.len())] } else { own_dicts(ast) };
    let mut rewriting = Rewriting { source, openers: openers(ast, source), own_dicts, edits };
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

/// The places in which the name `dict` is something that a function, a lambda or a comprehension has given it.
fn own_dicts(ast: &AstModule) -> Vec<(usize, usize)> {
    fn in_functions(statement: &AstStmt, found: &mut Vec<(usize, usize)>) {
        if let Stmt::Def(function) = &statement.node
            && (function.params.iter().any(is_dict_parameter) || binds_dict(&function.body))
        {
            found.push(range(function.body.span));
        }
        statement.visit_stmt(|part| in_functions(part, found));
    }
    fn in_expressions(expression: &AstExpr, found: &mut Vec<(usize, usize)>) {
        match &expression.node {
            Expr::Lambda(lambda) if lambda.params.iter().any(is_dict_parameter) => {
                found.push(range(lambda.body.span));
            }
            Expr::ListComprehension(_, first, others) | Expr::DictComprehension(_, first, others) => {
                let mut loops = others.iter().filter_map(|clause| match clause {
                    Clause::For(each) => Some(each),
                    Clause::If(_) => None,
                });
                if is_dict_target(&first.var) || loops.any(|each| is_dict_target(&each.var)) {
                    // What is gone through first is found outside of the comprehension.
                    let ((begin, end), (before, behind)) = (range(expression.span), range(first.over.span));
                    found.extend([(begin, before), (behind, end)]);
                }
            }
            _ => {}
        }
        expression.visit_expr(|part| in_expressions(part, found));
    }
    let mut found = Vec::new();
    in_functions(ast.statement(), &mut found);
    ast.statement().visit_expr(|expression| in_expressions(expression, &mut found));
    found
}

/// Whether a statement gives the name `dict` to something, in the function that it is in.
fn binds_dict(statement: &AstStmt) -> bool {
    let mut binds = match &statement.node {
        Stmt::Assign(assignment) => is_dict_target(&assignment.lhs),
        Stmt::AssignModify(target, ..) => is_dict_target(target),
        Stmt::For(each) => is_dict_target(&each.var),
        Stmt::Def(function) => return is_dict(&function.name),
        _ => false,
    };
    statement.visit_stmt(|part| binds |= binds_dict(part));
    binds
}

fn is_dict_target(target: &AssignTarget) -> bool {
    let mut is_target = false;
    target.visit_lvalue(|name| is_target |= is_dict(name));
    is_target
}

fn is_dict_parameter(parameter: &AstParameter) -> bool {
    parameter.ident().is_some_and(|name| is_dict(name))
}

fn is_dict(name: &AssignIdent) -> bool {
    name.ident == DICT
}

struct Rewriting<'a> {
    source: &'a str,
    openers: HashMap<usize, usize>,
    /// Where `dict` is not the function of the language.
    own_dicts: Vec<(usize, usize)>,
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
        let is_dict = matches!(&object.node, Expr::Identifier(it) if it.node.ident == DICT);
        if !is_dict || !FUNCTIONS_OF_DICT.contains(&name.node.as_str()) {
            return false;
        }
        let ((at, dot), (begin, _)) = (range(object.span), range(name.span));
        if self.own_dicts.iter().any(|(begin, end)| (*begin..*end).contains(&at)) {
            return false;
        }
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
