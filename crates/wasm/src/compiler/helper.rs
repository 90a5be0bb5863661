//! The helper's side: the same program, started by a process that wants code compiled.
//!
//! It reads an order and code on standard input, and writes native code, or what is wrong with the code, to standard output.

use std::any::Any;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, nice, set_parent_process_death_signal, setrlimit,
};
use wasmtime::OutOfMemory;

use crate::runtime::compiling_engine;
use crate::sections::is_component;

/// The exit code after code that the compiler refuses. What is wrong with it is on standard output.
pub(super) const REFUSED: i32 = 3;

/// The exit code of a compiler that was refused memory.
pub(super) const OUT_OF_MEMORY: i32 = 4;

/// The exit code of a helper that could not do its work.
const FAILED: i32 = 1;

/// Address space beyond the memory that can be written to: for the program itself, and for what allocators reserve.
const RESERVED: u64 = 1 << 30;

/// The lowest priority.
const LOWEST: i32 = 19;

/// What a helper reads before the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) memory: u64,
    pub(super) processor_seconds: u64,
    pub(super) meters_fuel: bool,
}

impl Order {
    const LENGTH: usize = 17;

    pub(super) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.memory.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.processor_seconds.to_le_bytes());
        bytes[16] = u8::from(self.meters_fuel);
        bytes
    }

    fn read(input: &mut impl io::Read) -> io::Result<Self> {
        let (mut memory, mut seconds, mut meters_fuel) = ([0; 8], [0; 8], [0]);
        input.read_exact(&mut memory)?;
        input.read_exact(&mut seconds)?;
        input.read_exact(&mut meters_fuel)?;
        Ok(Self {
            memory: u64::from_le_bytes(memory),
            processor_seconds: u64::from_le_bytes(seconds),
            meters_fuel: meters_fuel != [0],
        })
    }
}

/// Compile code for the process that started this one ([`Compiler::Helper`](crate::Compiler::Helper)), and end.
pub fn compile_for_parent() -> ! {
    std::process::exit(serve().unwrap_or(FAILED))
}

fn serve() -> io::Result<i32> {
    // The thread that started us waits for us: it ends before us only with its process.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut input = io::stdin().lock();
    let order = Order::read(&mut input)?;
    restrict(&order)?;
    let mut code = Vec::new();
    input.read_to_end(&mut code)?;
    let compiled = catch_unwind(AssertUnwindSafe(|| native(&code, order.meters_fuel)));
    let (exit_code, output) = match compiled {
        Ok(Ok(native)) => (0, native),
        Ok(Err(error)) if error.downcast_ref::<OutOfMemory>().is_some() => (OUT_OF_MEMORY, Vec::new()),
        Ok(Err(error)) => (REFUSED, format!("{error:#}").into_bytes()),
        Err(panic) if is_out_of_memory(&*panic) => (OUT_OF_MEMORY, Vec::new()),
        Err(_) => (FAILED, Vec::new()),
    };
    let mut standard_output = io::stdout().lock();
    standard_output.write_all(&output)?;
    standard_output.flush()?;
    Ok(exit_code)
}

fn native(code: &[u8], meters_fuel: bool) -> wasmtime::Result<Vec<u8>> {
    let engine = compiling_engine(meters_fuel)?;
    if is_component(code) { engine.precompile_component(code) } else { engine.precompile_module(code) }
}

/// Whether a panic is that of an allocator of the compiler that was refused memory. Other allocators abort.
fn is_out_of_memory(panic: &(dyn Any + Send)) -> bool {
    let said = panic.downcast_ref::<&str>().copied();
    said.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .is_some_and(|said| said.contains("out of memory"))
}

/// Limits this process. None of it needs rights.
fn restrict(order: &Order) -> rustix::io::Result<()> {
    // If the machine has no memory left, this process has to end, and not the one that started it. Neither this nor the priority is worth
    // a failure.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let _ = nice(LOWEST);
    let seconds = order.processor_seconds;
    let limits = [
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
        (Resource::Data, order.memory, order.memory),
        // Where the kernel counts other things as data, this holds.
        (Resource::As, order.memory.saturating_add(RESERVED), order.memory.saturating_add(RESERVED)),
        // The kernel sends SIGXCPU at the first limit, which says what happened, and SIGKILL at the second one.
        (Resource::Cpu, seconds, seconds.saturating_add(1)),
    ];
    for (resource, current, maximum) in limits {
        // We may have less ourselves.
        let own = getrlimit(resource).maximum;
        let most = |limit: u64| Some(own.map_or(limit, |own| own.min(limit)));
        setrlimit(resource, Rlimit { current: most(current), maximum: most(maximum) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_read_as_it_was_written() {
        let order = Order { memory: 640 << 20, processor_seconds: 60, meters_fuel: true };

        assert_eq!(Order::read(&mut &order.to_bytes()[..]).unwrap(), order);
        assert!(Order::read(&mut &order.to_bytes()[1..]).is_err());
    }
}
