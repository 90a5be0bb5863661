//! Makes one program of a script and the modules that it loads.
//!
//! The language freezes a module before another can load it, so that a module could neither see the request nor compose. Here, a module is the body of
//! a function instead: its names are its own, and everything else is that of the script. Its exports are the dictionary that the function returns,
//! and `load` takes them from there. So `load("m.star", "*")` and `load("m.star", ns = "*")` need no names, either.

use std::collections::{BTreeMap, BTreeSet};

use starlark::codemap::{FileSpan, Pos, ResolvedPos, Span};
use starlark::syntax::AstModule;
use starlark::syntax::ast::{AssignTarget, AstStmt, Load, Stmt};

use crate::attributes::{DICT, literals, range, rewrite};
use crate::edits::Edits;
use crate::script::{Script, Source, Style};

/// A script and its modules, in the order in which they run.
pub(crate) struct Program(Vec<Part>);

struct Part {
    /// As its author wrote it.
    read: AstModule,
    edits: Edits,
    changed: AstModule,
}

/// Why there is no program.
pub(crate) enum Fault<'a> {
    /// This text cannot be read.
    Unreadable(&'a Source, starlark::Error),
    /// What is wrong, and where.
    Unlinkable(String),
}

/// How a module gets its names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Binding {
    Defined,
    /// In a condition or a loop, which may not run.
    Perhaps,
    Loaded,
}

type Names = BTreeMap<String, Binding>;

impl Program {
    /// Reads a script. `names` are those that it finds without defining them.
    pub(crate) fn of<'a>(
        script: &'a Script,
        names: &BTreeSet<String>,
        parse: fn(&str, &str) -> starlark::Result<AstModule>,
    ) -> Result<Self, Fault<'a>> {
        let read = |(name, source): (&String, &'a Source)| match parse(name, &source.text) {
            Ok(ast) => Ok((name.clone(), ast)),
            Err(error) => Err(Fault::Unreadable(source, error)),
        };
        let main =
            parse(&script.name, &script.main.text).map_err(|error| Fault::Unreadable(&script.main, error))?;
        let modules = script.modules.iter().map(read).collect::<Result<BTreeMap<_, _>, _>>()?;
        let mut linker = Linker {
            script,
            modules,
            parse,
            hidden: Vec::new(),
            loaded: Vec::new(),
            loading: Vec::new(),
            parts: Vec::new(),
        };
        linker.link(&main, names).map_err(Fault::Unlinkable)?;
        Ok(Self(linker.parts))
    }

    /// What to run, one after the other.
    pub(crate) fn parts(&self) -> impl Iterator<Item = AstModule> {
        self.0.iter().map(|part| part.changed.clone())
    }

    /// Where a place is in what the author wrote. Nothing if it is in none of their texts.
    pub(crate) fn origin(&self, span: &FileSpan) -> Option<ResolvedPos> {
        let (begin, _) = range(span.span);
        let is_in = |part: &&Part| part.changed.file_span(span.span).file.id() == span.file.id();
        let part = self.0.iter().find(is_in)?;
        Some(position(&part.read, part.edits.origin(begin)))
    }
}

fn position(ast: &AstModule, offset: usize) -> ResolvedPos {
    let at = Pos::new(u32::try_from(offset).unwrap_or(u32::MAX));
    ast.file_span(Span::new(at, at)).resolve_span().begin
}

struct Linker<'a> {
    script: &'a Script,
    modules: BTreeMap<String, AstModule>,
    parse: fn(&str, &str) -> starlark::Result<AstModule>,
    /// Names that modules find without defining them, and that the script defines again, for itself.
    hidden: Vec<String>,
    /// The modules that have a part, in their order, with what they define.
    loaded: Vec<(String, Names)>,
    loading: Vec<String>,
    parts: Vec<Part>,
}

impl Linker<'_> {
    fn link(&mut self, main: &AstModule, names: &BTreeSet<String>) -> Result<(), String> {
        let mut own = Names::new();
        bindings(main.statement(), Binding::Defined, &mut own);
        let loaded = loads(main).into_iter().flat_map(|(load, _)| &load.args);
        own.extend(loaded.map(|argument| (argument.local.node.ident.clone(), Binding::Loaded)));
        // What a star brings is not known yet.
        let is_hidden = |name: &&String| own.contains_key(*name) || own.contains_key("*");
        self.hidden = names.iter().filter(is_hidden).cloned().collect();
        let mut edits = Edits::default();
        own.extend(self.replace_loads(&self.script.name.clone(), main, &mut edits)?);
        let script = self.script;
        self.finish(&script.name, &script.main.text, main.clone(), &own, edits)
    }

    /// Loads what a text loads, and has it take names from there.
    fn replace_loads(&mut self, name: &str, ast: &AstModule, edits: &mut Edits) -> Result<Names, String> {
        let mut brought = Names::new();
        for (load, span) in loads(ast) {
            let wanted = load.module.node.trim_start_matches("./");
            let (begin, end) = range(span);
            let at = |offset: usize| {
                let at = position(ast, offset);
                format!("{name}:{}:{}", at.line + 1, at.column + 1)
            };
            let index = self.module(wanted).map_err(|problem| match problem {
                Problem::Here(words) => format!("{}: {words}", at(range(load.module.span).0)),
                Problem::There(words) => words,
            })?;
            let exports = &self.loaded[index].1;
            let mut taken = Vec::new();
            for argument in &load.args {
                let (local, their) = (&argument.local.node.ident, &argument.their.node);
                let offset = range(argument.their.span).0;
                if their != "*" {
                    if !exports.contains_key(their) {
                        return Err(format!("{}: module `{wanted}` has no `{their}`", at(offset)));
                    }
                    taken.push((local.clone(), element(index, their)));
                    continue;
                }
                let named =
                    load.args.iter().map(|argument| &argument.local.node.ident).collect::<BTreeSet<_>>();
                let all = exports
                    .iter()
                    .filter(|(name, binding)| **binding != Binding::Loaded && !named.contains(name));
                let all = all.map(|(name, _)| (name.clone(), element(index, name)));
                if local == "*" {
                    taken.extend(all);
                } else {
                    let fields = all.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
                    taken.push((local.clone(), format!("struct({})", fields.join(","))));
                }
            }
            brought.extend(taken.iter().map(|(local, _)| (local.clone(), Binding::Loaded)));
            let taken = taken.iter().map(|(local, value)| format!("{local}={value}")).collect::<Vec<_>>();
            edits.replace(begin, end, if taken.is_empty() { "pass".to_owned() } else { taken.join(";") });
        }
        Ok(brought)
    }

    /// The number of a module, which is loaded unless it is already.
    fn module(&mut self, name: &str) -> Result<usize, Problem> {
        if let Some(index) = self.loaded.iter().position(|(loaded, _)| loaded == name) {
            return Ok(index);
        }
        let ast = self.modules.get(name).cloned();
        let ast = ast.ok_or_else(|| Problem::Here(format!("there is no module `{name}`")))?;
        if self.loading.iter().any(|loading| loading == name) {
            return Err(Problem::Here(format!("module `{name}` loads itself")));
        }
        self.loading.push(name.to_owned());
        let mut loads = Edits::default();
        let mut names = self.replace_loads(name, &ast, &mut loads).map_err(Problem::There)?;
        bindings(ast.statement(), Binding::Defined, &mut names);
        let index = self.loaded.len();
        let source = &self.script.modules[name].text;
        let edits = self.wrap(index, &ast, source, &names, loads);
        self.finish(name, source, ast, &names, edits).map_err(Problem::There)?;
        self.loading.pop();
        names.retain(|name, _| !name.starts_with('_'));
        self.loaded.push((name.to_owned(), names));
        Ok(index)
    }

    /// Makes a module the body of a function that returns what it exports.
    fn wrap(&self, index: usize, ast: &AstModule, source: &str, names: &Names, loads: Edits) -> Edits {
        let mut edits = Edits::default();
        let hidden = self.hidden.iter().map(|name| format!("{name}={name}")).collect::<Vec<_>>();
        edits.insert(0, format!("def __module_{index}({}):\n", hidden.join(",")));
        for (name, _) in names.iter().filter(|(_, binding)| **binding == Binding::Perhaps) {
            edits.insert(0, format!(" {name}=None\n"));
        }
        let mut whole = literals(ast);
        whole.extend(self::loads(ast).iter().map(|(_, span)| range(*span)));
        whole.sort_unstable();
        let starts = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1));
        for start in starts {
            let before = whole.partition_point(|(begin, _)| *begin < start);
            // What is in a text of several lines belongs to the text.
            if before == 0 || whole[before - 1].1 <= start {
                edits.insert(start, " ");
            }
        }
        let exports = names.keys().filter(|name| !name.starts_with('_'));
        let exports = exports.map(|name| format!("\"{name}\":{name}")).collect::<Vec<_>>();
        let footer = format!("\n return {{{}}}\n__exports_{index} = __module_{index}()\n", exports.join(","));
        edits.append(loads);
        edits.insert(source.len(), footer);
        edits
    }

    /// `names` are those that the text defines or loads.
    fn finish(
        &mut self,
        name: &str,
        source: &str,
        read: AstModule,
        names: &Names,
        mut edits: Edits,
    ) -> Result<(), String> {
        if self.script.style == Style::Calls {
            rewrite(&read, source, names.contains_key(DICT), &mut edits);
        }
        let changed = if edits.is_empty() {
            read.clone()
        } else {
            (self.parse)(name, &edits.apply(source))
                .map_err(|error| format!("{name}: {}", error.without_diagnostic()))?
        };
        self.parts.push(Part { read, edits, changed });
        Ok(())
    }
}

/// What is wrong with a module.
enum Problem {
    /// Where it is loaded.
    Here(String),
    /// Somewhere else, which the words name.
    There(String),
}

fn element(index: usize, name: &str) -> String {
    format!("__exports_{index}[\"{name}\"]")
}

/// The `load` statements of a text, which are at its top level.
fn loads(ast: &AstModule) -> Vec<(&Load, Span)> {
    fn find<'a>(statement: &'a AstStmt, found: &mut Vec<(&'a Load, Span)>) {
        match &statement.node {
            Stmt::Load(load) => found.push((load, statement.span)),
            Stmt::Statements(parts) => parts.iter().for_each(|part| find(part, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    find(ast.statement(), &mut found);
    found
}

/// The names that a text defines at its top level.
fn bindings(statement: &AstStmt, binding: Binding, names: &mut Names) {
    let mut add = |name: &str, binding| {
        let known = names.entry(name.to_owned()).or_insert(binding);
        if binding == Binding::Defined {
            *known = binding;
        }
    };
    match &statement.node {
        Stmt::Assign(assignment) => targets(&assignment.lhs.node, &mut |name| add(name, binding)),
        Stmt::For(each) => targets(&each.var.node, &mut |name| add(name, Binding::Perhaps)),
        Stmt::Def(function) => add(&function.name.node.ident, binding),
        _ => {}
    }
    let inner = if matches!(statement.node, Stmt::Statements(_)) { binding } else { Binding::Perhaps };
    if !matches!(statement.node, Stmt::Def(_)) {
        statement.visit_stmt(|part| bindings(part, inner, names));
    }
}

fn targets(target: &AssignTarget, add: &mut impl FnMut(&str)) {
    match target {
        AssignTarget::Tuple(parts) => parts.iter().for_each(|part| targets(&part.node, add)),
        AssignTarget::Identifier(name) => add(&name.node.ident),
        AssignTarget::Index(_) | AssignTarget::Dot(..) => {}
    }
}
