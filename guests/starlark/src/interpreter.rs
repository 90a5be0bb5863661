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
use crate::script::{Script, Style, directories};

/// The steps that a script may take: calls and rounds of loops. Unlike time, they are the same on all machines.
const STEPS: u64 = 20_000_000;

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
    let unreadable =
        script.sources().find_map(|(name, source)| Some((source, parse(name, &source.text).err()?)));
    if let Some((source, error)) = unreadable {
        // `validate` recognises what is wrong with an input by these words.
        return fatal(&request, &format!("invalid Function input: {}: {}", source.field, line(&error)));
    }
    let result = evaluate(script, &request);
    match (take_fatal(), result) {
        (Some(message), _) => fatal(&request, &message),
        (None, Ok(response)) => with_tag(response, &request),
        (None, Err(error)) => fatal(&request, &format!("cannot run the script: {}", line(&error))),
    }
}

fn evaluate(script: &Script, request: &Json) -> Result<Json, starlark::Error> {
    GLOBALS.with(|(globals, prelude)| {
        let ast = parse(&script.name, &script.main.text)?;
        let loader = Loader { script, globals, prelude, loading: RefCell::default() };
        Module::with_temp_heap(|module| {
            module.import_public_symbols(prelude);
            let request_value = module.heap().alloc(request.clone());
            if script.style == Style::Calls {
                set_variables(&module, request);
            }
            let mut evaluator = Evaluator::new(&module);
            evaluator.set_print_handler(&Printer);
            evaluator.set_loader(&loader);
            evaluator.set_max_tick_count(STEPS).map_err(|error| other(&error.to_string()))?;
            evaluator.eval_module(ast, globals)?;
            let last = match script.style {
                Style::Main => {
                    module.get("main").ok_or_else(|| other("the script defines no function `main`"))?
                }
                Style::Calls => {
                    let finish = prelude.get("finish").map_err(|error| other(&error.to_string()))?;
                    module.heap().access_owned_frozen_value(&finish)
                }
            };
            let response = evaluator.eval_function(last, &[request_value], &[])?;
            json_of(response)
        })
    })
}

/// Lets a script of calls see the request as variables, and keeps them where its calls find them.
fn set_variables(module: &Module<'_>, request: &Json) {
    let heap = module.heap();
    for (name, value) in variables(request) {
        module.set(name, heap.alloc(value));
    }
    let seen = ["oxr", "dxr", "observed", "context", "extra_resources"];
    let state = heap.alloc(starlark::values::dict::AllocDict(
        seen.map(|name| (name, module.get(name).expect("it was set above"))),
    ));
    module.set_extra_value(state);
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
    let is_resource = |name: &str| !directories(request).any(|directory| directory == name);
    let extra = extra.filter_map(Json::as_object).flatten().filter(|(name, _)| is_resource(name));
    let extra = extra.map(|(name, found)| {
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
    let wrong = script.sources().filter_map(|(name, source)| Some((name, source, parse(name, &source.text).err()?)));
    wrong.map(|(name, source, error)| problem(name, &source.field, &error)).collect()
}

fn problem(name: &str, field: &str, error: &starlark::Error) -> Json {
    let at = error.span().map(|span| span.resolve_span().begin);
    let message = error.without_diagnostic().to_string();
    json!({"file": name, "field": field, "line": at.map(|at| at.line + 1), "column": at.map(|at| at.column + 1), "message": message})
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
        let ast = parse(name, &source.text)?;
        let module = Module::with_temp_heap(|module| {
            module.import_public_symbols(self.prelude);
            {
                let mut evaluator = Evaluator::new(&module);
                evaluator.set_print_handler(&Printer);
                evaluator.set_loader(self);
                evaluator.set_max_tick_count(STEPS).map_err(|error| other(&error.to_string()))?;
                evaluator.eval_module(ast, self.globals)?;
            }
            module.freeze().map_err(|error| other(&format!("{error:?}")))
        });
        self.loading.borrow_mut().remove(name);
        module
    }
}
