//! Code as the engine has it: compiled, linked, and ready to be given an instance.

use std::fmt;

use wasmtime::component::types::{self, ComponentItem};
use wasmtime::component::{self, Component, ComponentExportIndex, Type};
use wasmtime::{Engine, ExternType, FuncType, InstancePre, Linker, Module, Store};
use wasmtime_wasi::p1;
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;

use super::verdict::{exit, verdict};
use super::{Call, Contract};
use crate::cache::Native;
use crate::compiler::{Compilation, Compiler, compile};
use crate::error::Error;
use crate::guest::{ComponentContext, ComponentGuest, Guest, ModuleGuest, Refused, ready_for_call, store};
use crate::limits::Limits;
use crate::log::Log;
use crate::output::Output;
use crate::runtime::{Shared, WarmInstance};

const HANDLER: &str = "ferroplane:function/handler@1.0.0";
const LOG: &str = "ferroplane:function/log@1.0.0";
const COMMAND: &str = "wasi:cli/run@0.2.0";

/// What is offered to code, by what it is.
pub(crate) struct Linkers {
    module: Linker<ModuleGuest>,
    component: component::Linker<ComponentGuest>,
}

impl Linkers {
    pub(crate) fn new(engine: &Engine) -> wasmtime::Result<Self> {
        let mut module = Linker::new(engine);
        p1::add_to_linker_async(&mut module, |guest: &mut ModuleGuest| &mut guest.wasi)?;
        let mut component = component::Linker::<ComponentGuest>::new(engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut component)?;
        component.instance(LOG)?.func_wrap(
            "write",
            |guest: wasmtime::StoreContextMut<'_, ComponentGuest>, (line,): (String,)| {
                guest.data().log.line(&line);
                Ok(())
            },
        )?;
        Ok(Self { module, component })
    }
}

/// Code that was compiled and linked.
pub(crate) struct Compiled {
    pub(crate) digest: [u8; 32],
    entry: Entry,
}

/// What is called in it.
enum Entry {
    Module(InstancePre<ModuleGuest>),
    Command(CommandPre<ComponentGuest>),
    Function(component::InstancePre<ComponentGuest>, ComponentExportIndex),
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("contract", &self.contract()).finish_non_exhaustive()
    }
}

impl Compiled {
    pub(crate) fn new(
        shared: &Shared,
        digest: [u8; 32],
        code: &[u8],
        compilation: &Compilation,
    ) -> Result<Self, Error> {
        let source = Source { digest, code };
        let entry = match code.get(..8) {
            Some(b"\0asm\x01\0\0\0") => module_entry(shared, &native(shared, &source, compilation)?)?,
            Some(b"\0asm\x0d\0\x01\0") => component_entry(shared, &native(shared, &source, compilation)?)?,
            _ => return Err(Error::NotWebAssembly),
        };
        Ok(Self { digest, entry })
    }

    /// The same, if it need not be compiled: its native code was kept.
    pub(crate) fn kept(shared: &Shared, digest: [u8; 32], code: &[u8]) -> Result<Option<Self>, Error> {
        let entry = match code.get(..8) {
            Some(b"\0asm\x01\0\0\0") => {
                shared.cache.get(&shared.engine, digest).map(|module| module_entry(shared, &module))
            }
            Some(b"\0asm\x0d\0\x01\0") => {
                shared.cache.get(&shared.engine, digest).map(|component| component_entry(shared, &component))
            }
            _ => return Err(Error::NotWebAssembly),
        };
        Ok(entry.transpose()?.map(|entry| Self { digest, entry }))
    }

    pub(crate) fn contract(&self) -> Contract {
        match self.entry {
            Entry::Module(_) | Entry::Command(_) => Contract::Command,
            Entry::Function(..) => Contract::Component,
        }
    }

    pub(crate) async fn run(&self, shared: &Shared, call: &Call) -> Result<Vec<u8>, Error> {
        match &self.entry {
            Entry::Module(code) => run_module(&shared.engine, code, call).await,
            Entry::Command(code) => run_command(&shared.engine, code, call).await,
            Entry::Function(code, run) => match (call.warm, call.grants.is_none()) {
                // Only without grants: an instance could keep an open file or connection for the next call.
                (Some(key), true) => self.run_warm(shared, code, run, (self.digest, key), call).await,
                _ => run_function(start(&shared.engine, code, run, call).await?, call)
                    .await
                    .map(|(answer, _)| answer),
            },
        }
    }

    /// Runs an instance that answered before, or a new one, and keeps it if it answered.
    async fn run_warm(
        &self,
        shared: &Shared,
        code: &component::InstancePre<ComponentGuest>,
        run: &ComponentExportIndex,
        key: ([u8; 32], u64),
        call: &Call,
    ) -> Result<Vec<u8>, Error> {
        let (running, calls) = match shared.warm.take(key) {
            Some(instance) => (resume(instance.store, instance.run, call)?, instance.calls),
            None => (start(&shared.engine, code, run, call).await?, 0),
        };
        // One that failed is dropped: its memory may be in any state.
        let (answer, Running { store, run }) = run_function(running, call).await?;
        shared.warm.keep(WarmInstance { store, run, key, calls });
        Ok(answer)
    }
}

/// Code, and its SHA-256.
struct Source<'a> {
    digest: [u8; 32],
    code: &'a [u8],
}

/// The native code that was kept, or that is compiled now.
fn native<N: Native>(shared: &Shared, source: &Source<'_>, compilation: &Compilation) -> Result<N, Error> {
    let Source { digest, code } = *source;
    if let Some(native) = shared.cache.get(&shared.engine, digest) {
        return Ok(native);
    }
    let compiled = match &shared.options.compiler {
        Compiler::InProcess => N::compile(&shared.engine, code)
            .and_then(|native| shared.cache.keep(digest, &native).map(|()| native)),
        Compiler::Helper(command) => {
            let bytes = compile(command, shared.options.meter_fuel, code, compilation)?;
            // Only now is it checked against what this engine has room for.
            shared.cache.adopt(&shared.engine, digest, bytes)
        }
    };
    compiled.map_err(|error| Error::Invalid(error.into()))
}

fn module_entry(shared: &Shared, module: &Module) -> Result<Entry, Error> {
    let is_entry = |function: &FuncType| function.params().len() == 0 && function.results().len() == 0;
    if !module.get_export("_start").as_ref().and_then(ExternType::func).is_some_and(is_entry) {
        return Err(Error::NoEntry);
    }
    let linked = shared.linkers.module.instantiate_pre(module);
    Ok(Entry::Module(linked.map_err(|error| Error::Import(error.into()))?))
}

fn component_entry(shared: &Shared, component: &Component) -> Result<Entry, Error> {
    let linked = shared.linkers.component.instantiate_pre(component);
    let linked = linked.map_err(|error| Error::Import(error.into()))?;
    if let Some(handler) = component.get_export_index(None, HANDLER) {
        return match component.get_export(Some(&handler), "run") {
            Some((ComponentItem::ComponentFunc(function), run)) if is_run(&function) => {
                Ok(Entry::Function(linked, run))
            }
            _ => Err(Error::NoEntry),
        };
    }
    if component.get_export_index(None, COMMAND).is_none() {
        return Err(Error::NoEntry);
    }
    Ok(Entry::Command(CommandPre::new(linked).map_err(|_| Error::NoEntry)?))
}

/// Whether a function takes and gives what `wit/function.wit` says.
fn is_run(function: &types::ComponentFunc) -> bool {
    let is_bytes = |list: &Type| matches!(list, Type::List(list) if list.ty() == Type::U8);
    let is_answer = |result: &Type| match result {
        Type::Result(result) => {
            result.ok().is_some_and(|ok| is_bytes(&ok)) && result.err() == Some(Type::String)
        }
        _ => false,
    };
    let (params, results) = (function.params().collect::<Vec<_>>(), function.results().collect::<Vec<_>>());
    matches!(&params[..], [(_, request)] if is_bytes(request))
        && matches!(&results[..], [answer] if is_answer(answer))
}

/// Runs a command that is a module.
async fn run_module(engine: &Engine, code: &InstancePre<ModuleGuest>, call: &Call) -> Result<Vec<u8>, Error> {
    let (output, log) = streams(call);
    let mut wasi = call.grants.context(call.stillness)?;
    wasi.stdin(MemoryInputPipe::new(call.request.clone())).stdout(output.clone()).stderr(log.clone());
    let guest = Guest::new(wasi.build_p1(), log, &call.limits);
    let mut store = store(engine, guest, &call.limits).map_err(|error| Error::Instance(error.into()))?;
    let instance = code.instantiate_async(&mut store).await;
    let instance = instance.map_err(|error| not_started(error, store.data(), &call.limits))?;
    let start = instance.get_typed_func::<(), ()>(&mut store, "_start").map_err(|_| Error::NoEntry)?;
    if let Err(error) = start.call_async(&mut store, ()).await {
        verdict(&error, store.data(), &call.limits)?;
    }
    store.data().log.finish();
    Ok(output.take())
}

/// Runs a command that is a component.
async fn run_command(
    engine: &Engine,
    code: &CommandPre<ComponentGuest>,
    call: &Call,
) -> Result<Vec<u8>, Error> {
    let (output, log) = streams(call);
    let mut wasi = call.grants.context(call.stillness)?;
    wasi.stdin(MemoryInputPipe::new(call.request.clone())).stdout(output.clone()).stderr(log.clone());
    let guest = Guest::new(ComponentContext::new(wasi.build()), log, &call.limits);
    let mut store = store(engine, guest, &call.limits).map_err(|error| Error::Instance(error.into()))?;
    let command = code.instantiate_async(&mut store).await;
    let command = command.map_err(|error| not_started(error, store.data(), &call.limits))?;
    match command.wasi_cli_run().call_run(&mut store).await {
        Ok(Ok(())) => {}
        Ok(Err(())) => return Err(exit(1, store.data().log.finish(), store.data(), &call.limits)),
        Err(error) => verdict(&error, store.data(), &call.limits)?,
    }
    store.data().log.finish();
    Ok(output.take())
}

/// An instance that can be asked.
struct Running {
    store: Store<ComponentGuest>,
    run: component::Func,
}

/// A new instance.
async fn start(
    engine: &Engine,
    code: &component::InstancePre<ComponentGuest>,
    run: &ComponentExportIndex,
    call: &Call,
) -> Result<Running, Error> {
    let log = Log::new(call.log.clone(), call.limits.log);
    let mut wasi = call.grants.context(call.stillness)?;
    // A component answers by its return value: its output is a log.
    wasi.stdout(log.clone()).stderr(log.clone());
    let guest = Guest::new(ComponentContext::new(wasi.build()), log, &call.limits);
    let mut store = store(engine, guest, &call.limits).map_err(|error| Error::Instance(error.into()))?;
    let instance = code.instantiate_async(&mut store).await;
    let instance = instance.map_err(|error| not_started(error, store.data(), &call.limits))?;
    let run = instance.get_func(&mut store, run).ok_or(Error::NoEntry)?;
    Ok(Running { store, run })
}

/// An instance that answered before, as this call wants it.
fn resume(mut store: Store<ComponentGuest>, run: component::Func, call: &Call) -> Result<Running, Error> {
    let mut wasi = call.grants.context(call.stillness)?;
    let guest = store.data_mut();
    guest.log.restart(call.log.clone(), call.limits.log);
    wasi.stdout(guest.log.clone()).stderr(guest.log.clone());
    guest.wasi.context = wasi.build();
    guest.meter.restart(&call.limits);
    ready_for_call(&mut store, &call.limits).map_err(|error| Error::Instance(error.into()))?;
    Ok(Running { store, run })
}

/// Asks an instance, and gives it back if it answered.
async fn run_function(running: Running, call: &Call) -> Result<(Vec<u8>, Running), Error> {
    let Running { mut store, run } = running;
    // A result of more bytes is refused before it is copied.
    store.set_hostcall_fuel(call.limits.output.saturating_add(64 << 10));
    let typed = run.typed::<(&[u8],), (Result<Vec<u8>, String>,)>(&store).map_err(|_| Error::NoEntry)?;
    let answer = typed.call_async(&mut store, (&call.request[..],)).await;
    let limit = call.limits.output;
    let answer = match answer {
        Ok((Ok(answer),)) if answer.len() > limit => return Err(Error::Output { limit }),
        Ok((Ok(answer),)) => answer,
        Ok((Err(message),)) => return Err(Error::Refused { message: message.chars().take(4096).collect() }),
        Err(error) => {
            verdict(&error, store.data(), &call.limits)?;
            // Code that ends itself with exit code 0 instead of answering did not answer.
            return Err(Error::Exit { code: 0, said: String::new() });
        }
    };
    store.data().log.finish();
    Ok((answer, Running { store, run }))
}

fn streams(call: &Call) -> (Output, Log) {
    (Output::new(call.limits.output), Log::new(call.log.clone(), call.limits.log))
}

/// Why there is no instance: for lack of room, because of a limit, or because its start function failed.
fn not_started<W>(error: wasmtime::Error, guest: &Guest<W>, limits: &Limits) -> Error {
    match guest.meter.refused {
        Some(Refused::Memory) => return Error::Memory { limit: limits.memory },
        Some(Refused::Table) => return Error::Table { limit: limits.table_elements },
        None => {}
    }
    if error.downcast_ref::<wasmtime::Trap>().is_some()
        || error.downcast_ref::<wasmtime_wasi::I32Exit>().is_some()
    {
        return verdict(&error, guest, limits).err().unwrap_or(Error::Exit { code: 0, said: String::new() });
    }
    Error::Instance(error.into())
}
