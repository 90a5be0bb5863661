//! Compiles code and runs calls of it, within one process.

mod engine;
mod queue;
mod ticker;
mod warm;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;

use crate::cache::Cache;
use crate::compiler::{Compilation, Compiler};
use crate::error::Error;
use crate::program::{Compiled, Linkers, Program};
use crate::sections::CodeSize;
pub(crate) use engine::compiling_engine;
use queue::Workers;
use ticker::Ticker;
pub(crate) use warm::{WarmInstance, WarmInstances};

/// How much all calls together may use.
#[derive(Debug, Clone)]
pub struct Options {
    /// Calls that run at once.
    pub workers: usize,
    /// Calls that wait at once. Further ones are refused.
    pub queue: usize,
    /// Instances that are kept for the next call with the same key ([`Call::warm`](crate::Call::warm)).
    pub warm: usize,
    /// Bytes of memory beyond which an instance is not kept.
    pub warm_memory: usize,
    /// Bytes that one linear memory may have, whatever a call's own limits say.
    pub memory: usize,
    /// Elements that one table may have, whatever a call's own limits say.
    pub table_elements: usize,
    /// Bytes of code that are accepted.
    pub code: usize,
    /// Bytes of one function of the code that are accepted.
    pub function: usize,
    /// Whether instructions are counted. It makes code slower by up to a tenth.
    pub meter_fuel: bool,
    /// A directory in which compiled code is kept. It is made with mode 0700 and refused with any other.
    pub cache: Option<PathBuf>,
    /// Where code is compiled that is not kept.
    pub compiler: Compiler,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().map_or(2, usize::from).max(2),
            queue: 10_000,
            warm: 32,
            warm_memory: 64 << 20,
            memory: 1 << 30,
            table_elements: 100_000,
            code: 64 << 20,
            function: 1 << 20,
            meter_fuel: false,
            cache: None,
            compiler: Compiler::default(),
        }
    }
}

/// Holds code while anybody has it. Locked while it is compiled.
type Slot = Arc<Mutex<Weak<Compiled>>>;

/// Compiles code and runs calls of it. Clones are the same runtime, which ends with the last of them.
#[derive(Debug, Clone)]
pub struct Runtime(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) linkers: Linkers,
    pub(crate) warm: WarmInstances,
    pub(crate) workers: Workers,
    pub(crate) ticker: Ticker,
    pub(crate) options: Options,
    pub(crate) cache: Cache,
    /// What was compiled, by digest. Code is forgotten with the last program that has it.
    compiled: Mutex<HashMap<[u8; 32], Slot>>,
}

/// What of the runtime is in use. All of it is zero when nothing runs and nothing is kept warm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InUse {
    pub instances: u64,
    pub memories: usize,
    pub stacks: usize,
}

impl Runtime {
    /// Start the threads and reserve the address space for all calls.
    pub fn new(options: Options) -> Result<Self, Error> {
        let engine = engine::engine(&options).map_err(|error| Error::Engine(error.into()))?;
        let linkers = Linkers::new(&engine).map_err(|error| Error::Engine(error.into()))?;
        let cache = match &options.cache {
            Some(path) => Cache::open(path, &engine)?,
            None => Cache::unkept(&engine).map_err(|error| Error::Engine(error.into()))?,
        };
        let threads = |error: std::io::Error| Error::Engine(error.into());
        Ok(Self(Arc::new(Shared {
            linkers,
            warm: WarmInstances::new(options.warm, options.warm_memory),
            workers: Workers::start(options.workers, options.queue).map_err(threads)?,
            ticker: Ticker::start(&engine).map_err(threads)?,
            compiled: Mutex::default(),
            cache,
            engine,
            options,
        })))
    }

    /// Compile code, unless it is compiled already. Takes from milliseconds to seconds.
    pub fn compile(&self, code: &[u8]) -> Result<Program, Error> {
        self.compile_with(code, &Compilation::default())
    }

    /// The same, within limits and until it is cancelled.
    pub fn compile_with(&self, code: &[u8], compilation: &Compilation) -> Result<Program, Error> {
        let digest = self.accept(code)?;
        let slot = self.slot(digest);
        // A second request for the same code waits here until the first one has compiled it.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let compiled = match slot.upgrade() {
            Some(compiled) => compiled,
            None => Arc::new(Compiled::new(&self.0, digest, code, compilation)?),
        };
        *slot = Arc::downgrade(&compiled);
        Ok(Program::new(self.clone(), compiled))
    }

    /// Code that is compiled already, in this process or in the cache. Nothing if it would have to be compiled, or is being compiled.
    pub fn find(&self, code: &[u8]) -> Result<Option<Program>, Error> {
        let digest = self.accept(code)?;
        let slot = self.slot(digest);
        let Ok(mut slot) = slot.try_lock() else { return Ok(None) };
        let compiled = match slot.upgrade() {
            Some(compiled) => Some(compiled),
            None => Compiled::kept(&self.0, digest, code)?.map(Arc::new),
        };
        Ok(compiled.map(|compiled| {
            *slot = Arc::downgrade(&compiled);
            Program::new(self.clone(), compiled)
        }))
    }

    /// What is in use.
    pub fn in_use(&self) -> InUse {
        self.0.engine.pooling_allocator_metrics().map_or_else(InUse::default, |pool| InUse {
            instances: pool.core_instances(),
            memories: pool.memories(),
            stacks: pool.stacks(),
        })
    }

    /// Drop all instances that are kept warm.
    pub fn cool(&self) {
        self.0.warm.clear();
    }

    /// The SHA-256 of code that is not too large.
    fn accept(&self, code: &[u8]) -> Result<[u8; 32], Error> {
        let limit = self.0.options.code;
        if code.len() > limit {
            return Err(Error::TooLarge { size: code.len(), limit });
        }
        let limit = CodeSize { longest: self.0.options.function, ..CodeSize::UNLIMITED };
        CodeSize::of(code).check(&limit)?;
        Ok(Sha256::digest(code).into())
    }

    fn slot(&self, digest: [u8; 32]) -> Slot {
        let mut compiled = self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot that nothing holds can be looked into without waiting.
        compiled.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.lock().is_ok_and(|it| it.strong_count() > 0)
        });
        compiled.entry(digest).or_default().clone()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("options", &self.options).finish_non_exhaustive()
    }
}
