//! Reads scripts and runs them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use serde_json::{Value as Json, json};
use starlark::PrintHandler;
use starlark::environment::{FrozenModule, Globals, GlobalsBuilder, LibraryExtension, Module};
use starlark::eval::{Evaluator, FileLoader};
use starlark::syntax::{AstModule, Dialect, DialectTypes};

use crate::natives::{natives, take_fatal};
use crate::outcome::{fatal, to};
use crate::script::{Script, Style};

/// What scripts can call that is written in Starlark.
const PRELUDE: &str = include_str!("prelude.star");

thread_local! {
    static GLOBALS: (Globals, FrozenModule) = {
        let globals = base();
        let prelude = prelude(&globals);
        (globals, prelude)
    };
    /// Scripts that were read, by name and text. The host gives each script an instance of its own, so there are few.
    static READ: RefCell<HashMap<(String, String), AstModule>> = RefCell::default();
}

fn dialect() -> Dialect {
    Dialect {
        enable_f_strings: true,
        enable_top_level_stmt: true,
        enable_keyword_only_arguments: true,
        enable_types: DialectTypes::ParseOnly,
        ..Dialect::Standard
    }
}

/// What is there without a prelude.
fn base() -> Globals {
    let extensions = [LibraryExtension::StructType, LibraryExtension::Json, LibraryExtension::Print];
    GlobalsBuilder::extended_by(&extensions).with(natives).build()
}

fn prelude(globals: &Globals) -> FrozenModule {
    let ast =
        AstModule::parse("prelude.star", PRELUDE.to_owned(), &dialect()).expect("the prelude can be read");
    Module::with_temp_heap(|module| {
        Evaluator::new(&module).eval_module(ast, globals).expect("the prelude runs");
        module.freeze().expect("the prelude can be frozen")
    })
}

fn parse(name: &str, source: &str) -> Result<AstModule, starlark::Error> {
    let key = (name.to_owned(), source.to_owned());
    if let Some(ast) = READ.with_borrow(|read| read.get(&key).cloned()) {
        return Ok(ast);
    }
    let ast = AstModule::parse(name, source.to_owned(), &dialect())?;
    READ.with_borrow_mut(|read| {
        if read.len() > 64 {
            read.clear();
        }
        read.insert(key, ast.clone());
    });
    Ok(ast)
}

/// Runs a script for a request.
pub(crate) fn run(script: &Script, request: Json) -> Json {
    if let Some((name, error)) =
        scripts(script).find_map(|(name, source)| Some((name, parse(name, source).err()?)))
    {
        // `validate` recognises what is wrong with an input by these words.
        return fatal(&request, &format!("invalid Function input: {}: {}", script.field(name), line(&error)));
    }
    let result = GLOBALS.with(|(globals, prelude)| {
        let ast = parse(&script.name, &script.source)?;
        let loader = Loader { script, globals, prelude, loading: RefCell::default() };
        Module::with_temp_heap(|module| {
            module.import_public_symbols(prelude);
            let heap = module.heap();
            let request_value = heap.alloc(request.clone());
            if script.style == Style::Calls {
                for (name, value) in variables(&request) {
                    module.set(name, heap.alloc(value));
                }
                let seen = ["oxr", "dxr", "observed", "context", "extra_resources"];
                let state = heap.alloc(starlark::values::dict::AllocDict(
                    seen.map(|name| (name, module.get(name).expect("it was set above"))),
                ));
                module.set_extra_value(state);
            }
            let mut evaluator = Evaluator::new(&module);
            evaluator.set_print_handler(&Printer);
            evaluator.set_loader(&loader);
            evaluator.eval_module(ast, globals)?;
            match script.style {
                Style::Main => {
                    let main =
                        module.get("main").ok_or_else(|| other("the script defines no function `main`"))?;
                    let response = evaluator.eval_function(main, &[request_value], &[])?;
                    Ok(json_of(response)?)
                }
                Style::Calls => {
                    let finish = prelude.get("finish").map_err(|error| other(&error.to_string()))?;
                    let finish = module.heap().access_owned_frozen_value(&finish);
                    let response = evaluator.eval_function(finish, &[request_value], &[])?;
                    Ok(json_of(response)?)
                }
            }
        })
    });
    match (take_fatal(), result) {
        (Some(message), _) => fatal(&request, &message),
        (None, Ok(response)) => with_tag(response, &request),
        (None, Err::<Json, starlark::Error>(error)) => {
            fatal(&request, &format!("cannot run the script: {}", line(&error)))
        }
    }
}

fn with_tag(mut response: Json, request: &Json) -> Json {
    if !response.is_object() {
        return fatal(request, "cannot run the script: `main` did not return a dictionary");
    }
    if !response["meta"].is_object() {
        response["meta"] = json!({});
    }
    response["meta"]["tag"] = to(request)["meta"]["tag"].clone();
    response
}

/// What a script of calls sees.
fn variables(request: &Json) -> [(&'static str, Json); 6] {
    let object = |value: &Json| if value.is_object() { value.clone() } else { json!({}) };
    let bodies = |resources: &Json| {
        let resources = resources.as_object().into_iter().flatten();
        resources
            .map(|(name, resource)| (name.clone(), object(&resource["resource"])))
            .collect::<serde_json::Map<_, _>>()
    };
    let extra = ["requiredResources", "required_resources", "extraResources", "extra_resources"]
        .iter()
        .map(|field| &request[*field]);
    let extra = extra.filter_map(Json::as_object).flatten().map(|(name, found)| {
        let items = found["items"].as_array().into_iter().flatten();
        (name.clone(), items.map(|item| item["resource"].clone()).collect())
    });
    let environment = &request["context"]["apiextensions.crossplane.io/environment"];
    [
        ("oxr", object(&request["observed"]["composite"]["resource"])),
        ("dxr", object(&request["desired"]["composite"]["resource"])),
        ("observed", Json::Object(bodies(&request["observed"]["resources"]))),
        ("context", object(&request["context"])),
        ("environment", object(environment)),
        ("extra_resources", Json::Object(extra.collect())),
    ]
}

/// Reads a script and all that it may load, and says what is wrong with them.
pub(crate) fn check(script: &Script) -> Json {
    let scripts = std::iter::once((&script.name, &script.source)).chain(&script.modules);
    let problems =
        scripts.filter_map(|(name, source)| parse(name, source).err().map(|error| problem(name, &error)));
    problems.collect()
}

/// A script and its modules.
fn scripts(script: &Script) -> impl Iterator<Item = (&String, &String)> {
    std::iter::once((&script.name, &script.source)).chain(&script.modules)
}

fn problem(name: &str, error: &starlark::Error) -> Json {
    let at = error.span().map(|span| span.resolve_span().begin);
    let message = error.without_diagnostic().to_string();
    json!({"file": name, "line": at.map(|at| at.line + 1), "column": at.map(|at| at.column + 1), "message": message})
}

/// An error in one line, with its place before it.
fn line(error: &starlark::Error) -> String {
    let message = error.without_diagnostic().to_string();
    match error.span() {
        Some(span) => {
            let at = span.resolve_span().begin;
            format!("{}:{}:{}: {message}", span.filename(), at.line + 1, at.column + 1)
        }
        None => message,
    }
}

fn json_of(value: starlark::values::Value<'_>) -> Result<Json, starlark::Error> {
    value.to_json_value().map_err(|error| other(&format!("the response is not JSON: {error}")))
}

fn other(message: &str) -> starlark::Error {
    starlark::Error::new_other(anyhow::anyhow!("{message}"))
}

/// Prints to the log of the step.
struct Printer;

impl PrintHandler for Printer {
    fn println(&self, text: &str) -> starlark::Result<()> {
        crate::log(text);
        Ok(())
    }
}

/// Loads the modules of an input.
struct Loader<'a> {
    script: &'a Script,
    globals: &'a Globals,
    prelude: &'a FrozenModule,
    /// What is being loaded, to find circles.
    loading: RefCell<BTreeSet<String>>,
}

impl FileLoader for Loader<'_> {
    fn load(&self, path: &str) -> starlark::Result<FrozenModule> {
        let name = path.trim_start_matches("./");
        let source =
            self.script.modules.get(name).ok_or_else(|| other(&format!("there is no module `{name}`")))?;
        if !self.loading.borrow_mut().insert(name.to_owned()) {
            return Err(other(&format!("module `{name}` loads itself")));
        }
        let ast = parse(name, source)?;
        let module = Module::with_temp_heap(|module| {
            module.import_public_symbols(self.prelude);
            {
                let mut evaluator = Evaluator::new(&module);
                evaluator.set_print_handler(&Printer);
                evaluator.set_loader(self);
                evaluator.eval_module(ast, self.globals)?;
            }
            module.freeze().map_err(|error| other(&format!("{error:?}")))
        });
        self.loading.borrow_mut().remove(name);
        module
    }
}
