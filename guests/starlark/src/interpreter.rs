//! Reads scripts and runs them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use serde_json::{Value as Json, json};
use starlark::PrintHandler;
use starlark::codemap::FileSpan;
use starlark::environment::{FrozenModule, Globals, GlobalsBuilder, LibraryExtension, Module};
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect, DialectTypes};
use starlark::values::dict::{AllocDict, DictRef};

use crate::natives::{natives, take_fatal};
use crate::outcome::{fatal, to};
use crate::program::{Fault, Program};
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
    /// Scripts that were read. The host gives each script an instance of its own, so there are few.
    static READ: RefCell<HashMap<Script, Rc<Program>>> = RefCell::default();
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
    let extensions = [
        LibraryExtension::StructType,
        LibraryExtension::SetType,
        LibraryExtension::Json,
        LibraryExtension::Print,
    ];
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

fn parse(name: &str, source: &str) -> starlark::Result<AstModule> {
    AstModule::parse(name, source.to_owned(), &dialect())
}

/// Reads a script, unless that is done already.
fn read<'a>(script: &'a Script, prelude: &FrozenModule) -> Result<Rc<Program>, Fault<'a>> {
    if let Some(program) = READ.with_borrow(|read| read.get(script).cloned()) {
        return Ok(program);
    }
    let mut names = prelude.names().map(|name| name.as_str().to_owned()).collect::<BTreeSet<_>>();
    if script.style == Style::Calls {
        names.extend(variables(&Json::Null).map(|(name, _)| name.to_owned()));
    }
    let program = Rc::new(Program::of(script, &names, parse)?);
    READ.with_borrow_mut(|read| {
        if read.len() > 64 {
            read.clear();
        }
        read.insert(script.clone(), Rc::clone(&program));
    });
    Ok(program)
}

/// Runs a script for a request.
pub(crate) fn run(script: &Script, request: Json) -> Json {
    GLOBALS.with(|(globals, prelude)| match read(script, prelude) {
        Ok(program) => answer(script, &program, globals, prelude, &request),
        // `validate` recognises what is wrong with an input by these words.
        Err(Fault::Unreadable(source, error)) => {
            fatal(&request, &format!("invalid Function input: {}: {}", source.field, line(&error, None)))
        }
        Err(Fault::Unlinkable(problem)) => fatal(&request, &format!("cannot run the script: {problem}")),
    })
}

fn answer(
    script: &Script,
    program: &Program,
    globals: &Globals,
    prelude: &FrozenModule,
    request: &Json,
) -> Json {
    Module::with_temp_heap(|module| {
        let result = evaluate(script, program, globals, prelude, &module, request);
        match (take_fatal(), result) {
            // What the script said before it stopped may explain why.
            (Some(message), _) => said_before(&module, fatal(request, &message)),
            (None, Ok(response)) => with_tag(response, request),
            (None, Err(error)) => {
                fatal(request, &format!("cannot run the script: {}", line(&error, Some(program))))
            }
        }
    })
}

fn evaluate(
    script: &Script,
    program: &Program,
    globals: &Globals,
    prelude: &FrozenModule,
    module: &Module<'_>,
    request: &Json,
) -> starlark::Result<Json> {
    module.import_public_symbols(prelude);
    let request_value = match script.style {
        Style::Main => module.heap().alloc(with_resources(request.clone())),
        Style::Calls => {
            set_variables(module, request);
            module.heap().alloc(request.clone())
        }
    };
    let mut evaluator = Evaluator::new(module);
    evaluator.set_print_handler(&Printer);
    evaluator.set_max_tick_count(STEPS).map_err(|error| other(&error.to_string()))?;
    for part in program.parts() {
        evaluator.eval_module(part, globals)?;
    }
    let last = match script.style {
        Style::Main => module.get("main").ok_or_else(|| other("the script defines no function `main`"))?,
        Style::Calls => {
            let finish = prelude.get("finish").map_err(|error| other(&error.to_string()))?;
            module.heap().access_owned_frozen_value(&finish)
        }
    };
    let response = evaluator.eval_function(last, &[request_value], &[])?;
    json_of(response)
}

/// Adds the conditions, events and requirements of a script that stopped the pipeline.
fn said_before(module: &Module<'_>, mut response: Json) -> Json {
    let said = |kind: &str| DictRef::from_value(module.extra_value()?)?.get_str(kind)?.to_json_value().ok();
    if let Some(conditions) = said("conditions") {
        response["conditions"] = conditions;
    }
    if let (Some(Json::Array(events)), Some(results)) = (said("events"), response["results"].as_array_mut()) {
        results.extend(events);
    }
    if let Some(required) = said("required") {
        response["requirements"] = json!({"resources": required});
    }
    response
}

/// JSON of a request leaves out what is empty, but a script asks whether a name is `in req["observed"]["resources"]`.
fn with_resources(mut request: Json) -> Json {
    for state in ["observed", "desired"] {
        let resources = &mut request[state]["resources"];
        if resources.is_null() {
            *resources = json!({});
        }
    }
    request
}

/// Lets a script of calls see the request as variables, and keeps them where its calls find them.
fn set_variables(module: &Module<'_>, request: &Json) {
    let heap = module.heap();
    for (name, value) in variables(request) {
        module.set(name, heap.alloc(value));
    }
    let seen = ["oxr", "dxr", "observed", "context", "extra_resources"];
    let state = heap.alloc(AllocDict(seen.map(|name| (name, module.get(name).expect("it was set above")))));
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
        let items = items.map(|item| item["resource"].clone()).collect::<Vec<_>>();
        // `None` says that there was a look, and that nothing matched.
        (name.clone(), if items.is_empty() { Json::Null } else { Json::Array(items) })
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
    let wrong =
        script.sources().filter_map(|(name, source)| Some((name, source, parse(name, &source.text).err()?)));
    wrong.map(|(name, source, error)| problem(name, &source.field, &error)).collect()
}

fn problem(name: &str, field: &str, error: &starlark::Error) -> Json {
    let at = error.span().map(|span| span.resolve_span().begin);
    let message = error.without_diagnostic().to_string();
    json!({"file": name, "field": field, "line": at.map(|at| at.line + 1), "column": at.map(|at| at.column + 1), "message": message})
}

/// An error in one line, with its place before it.
fn line(error: &starlark::Error, program: Option<&Program>) -> String {
    let message = error.without_diagnostic().to_string();
    // An error in what we run for a script is one of the line that calls it. The innermost call comes last.
    let calls = error.call_stack().frames.iter().rev().filter_map(|frame| frame.location.as_ref());
    let mut places = error.span().into_iter().chain(calls);
    let written = places.find_map(|span: &FileSpan| Some((span, program?.origin(span)?)));
    let at = written.or_else(|| error.span().map(|span| (span, span.resolve_span().begin)));
    match at {
        Some((span, at)) => format!("{}:{}:{}: {message}", span.filename(), at.line + 1, at.column + 1),
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
