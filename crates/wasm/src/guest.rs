//! What the host keeps about code while it runs: what it may see, and how much it used.

use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Store};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::limits::Limits;
use crate::log::Log;

/// Handles that a component may hold at once: streams, files, timers. Each costs the host memory.
const HANDLES: usize = 4096;

/// Instances, memories and tables of one piece of code. A component that a compiler made has about five.
pub(crate) const PARTS: usize = 32;

/// What the host keeps about code while it runs.
pub(crate) struct Guest<W> {
    pub(crate) wasi: W,
    pub(crate) log: Log,
    pub(crate) meter: Meter,
}

/// A module of WASI 0.1.
pub(crate) type ModuleGuest = Guest<WasiP1Ctx>;
/// A component of WASI 0.2.
pub(crate) type ComponentGuest = Guest<ComponentContext>;

/// What a component sees of the machine, and its handles.
pub(crate) struct ComponentContext {
    pub(crate) context: WasiCtx,
    table: ResourceTable,
}

impl ComponentContext {
    pub(crate) fn new(context: WasiCtx) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        Self { context, table }
    }
}

impl WasiView for ComponentGuest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi.context, table: &mut self.wasi.table }
    }
}

impl<W> Guest<W> {
    pub(crate) fn new(wasi: W, log: Log, limits: &Limits) -> Self {
        Self { wasi, log, meter: Meter::new(limits) }
    }
}

/// How much memory the code uses, and which limit it met.
#[derive(Debug)]
pub(crate) struct Meter {
    memory: usize,
    memory_limit: usize,
    elements: usize,
    elements_limit: usize,
    /// The first limit that it met. Code may continue without what it did not get, so this alone is no failure.
    pub(crate) refused: Option<Refused>,
}

/// Which limit was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Memory,
    Table,
}

impl Meter {
    fn new(limits: &Limits) -> Self {
        Self {
            memory: 0,
            memory_limit: limits.memory,
            elements: 0,
            elements_limit: limits.table_elements,
            refused: None,
        }
    }

    /// Bytes of linear memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Hold the next call to its own limits. What is in use stays in use.
    pub(crate) fn restart(&mut self, limits: &Limits) {
        self.memory_limit = limits.memory;
        self.elements_limit = limits.table_elements;
        self.refused = None;
    }

    fn refuse(&mut self, refused: Refused) -> bool {
        self.refused.get_or_insert(refused);
        false
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = (self.memory - current.min(self.memory)).saturating_add(desired);
        if total > self.memory_limit {
            return Ok(self.refuse(Refused::Memory));
        }
        // Growth beyond the code's own maximum fails after this, and must not be counted.
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.memory = total;
        }
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = (self.elements - current.min(self.elements)).saturating_add(desired);
        if total > self.elements_limit {
            return Ok(self.refuse(Refused::Table));
        }
        if maximum.is_none_or(|maximum| desired <= maximum) {
            self.elements = total;
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        PARTS
    }

    fn tables(&self) -> usize {
        PARTS
    }

    fn memories(&self) -> usize {
        PARTS
    }
}

/// A store for one guest, held to its limits.
pub(crate) fn store<W: Send + 'static>(
    engine: &wasmtime::Engine,
    guest: Guest<W>,
    limits: &Limits,
) -> wasmtime::Result<Store<Guest<W>>> {
    let mut store = Store::try_new(engine, guest)?;
    store.limiter(|guest| &mut guest.meter);
    ready_for_call(&mut store, limits)?;
    Ok(store)
}

/// Give a store what one call may use.
pub(crate) fn ready_for_call<W: Send + 'static>(
    store: &mut Store<Guest<W>>,
    limits: &Limits,
) -> wasmtime::Result<()> {
    // Only a store of an engine that meters fuel has any.
    if store.get_fuel().is_ok() {
        store.set_fuel(limits.fuel.unwrap_or(u64::MAX))?;
    }
    // At every tick the code yields to its worker, which stops it when its time is up or when nothing waits for its answer.
    store.epoch_deadline_async_yield_and_update(1);
    store.set_epoch_deadline(1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(memory: usize) -> Meter {
        Meter::new(&Limits { memory, table_elements: 10, ..Limits::default() })
    }

    #[test]
    fn memories_are_limited_together() {
        let mut meter = meter(100);

        assert!(meter.memory_growing(0, 60, None).unwrap());
        assert!(!meter.memory_growing(0, 60, None).unwrap());
        assert!(meter.memory_growing(60, 100, None).unwrap());
        assert_eq!((meter.memory(), meter.refused), (100, Some(Refused::Memory)));
    }

    #[test]
    fn growth_beyond_its_own_maximum_is_not_counted() {
        let mut meter = meter(100);

        meter.memory_growing(0, 50, Some(40)).unwrap();

        assert_eq!(meter.memory(), 0);
    }

    #[test]
    fn tables_are_limited_together() {
        let mut meter = meter(100);

        assert!(meter.table_growing(0, 6, None).unwrap());
        assert!(!meter.table_growing(0, 6, None).unwrap());
        assert_eq!(meter.refused, Some(Refused::Table));
    }
}
