//! How WebAssembly is compiled, and where its memory comes from.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use super::Options;
use crate::guest::PARTS;

/// The stack of code. It is the same for all, because it belongs to the engine.
const STACK: usize = 512 << 10;

/// The stack of code and of what the host does for it.
const WHOLE_STACK: usize = 1 << 20;

/// How much of a memory is kept for the next instance, and cleared, instead of being given back. Giving back costs a system call and
/// a page fault for each page that is used again.
const KEPT_MEMORY: usize = 512 << 10;

/// The engine that runs code.
pub(super) fn engine(options: &Options) -> wasmtime::Result<Engine> {
    let mut config = config(options.meter_fuel);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options)));
    Engine::new(&config)
}

/// An engine that only compiles, for one that runs code. It reserves no memory for instances.
pub(crate) fn compiling_engine(meters_fuel: bool) -> wasmtime::Result<Engine> {
    Engine::new(&config(meters_fuel))
}

fn config(meters_fuel: bool) -> Config {
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        .epoch_interruption(true)
        .consume_fuel(meters_fuel)
        .max_wasm_stack(STACK)
        .async_stack_size(WHOLE_STACK)
        // The same request gets the same answer on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        // A memory never moves, and one that does not fit is refused, not paged.
        .memory_may_move(false)
        .wasm_memory64(false)
        // With it, a block of a few bytes takes a thousand values, and a module of 8 kB makes the compiler use up all memory.
        .wasm_multi_value(false);
    config
}

fn pool(options: &Options) -> PoolingAllocationConfig {
    // One for each call that runs, and one for each instance that is kept warm.
    let count = u32::try_from(options.workers + options.warm).unwrap_or(u32::MAX);
    let parts = u32::try_from(PARTS).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count)
        .total_core_instances(count.saturating_mul(parts))
        .total_memories(count.saturating_mul(4))
        .total_tables(count.saturating_mul(parts))
        .total_stacks(count)
        .max_core_instances_per_component(parts)
        .max_memories_per_component(4)
        .max_tables_per_component(parts)
        .max_memories_per_module(2)
        .max_tables_per_module(8)
        .max_memory_size(options.memory)
        .table_elements(options.table_elements)
        .max_core_instance_size(1 << 20)
        .max_component_instance_size(1 << 20)
        .linear_memory_keep_resident(KEPT_MEMORY)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(64 << 10)
        .pagemap_scan(Enabled::Auto);
    pool
}
