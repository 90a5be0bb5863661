//! Interrupts code at short intervals, so that its time can be checked. Costs nothing while nothing runs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

/// Code that has used up its time runs for at most this much longer.
const TICK: Duration = Duration::from_millis(5);

/// A thread that interrupts code while there is any.
#[derive(Debug)]
pub(crate) struct Ticker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    running: Mutex<Running>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Running {
    calls: usize,
    is_closed: bool,
}

/// As long as this lives, code is interrupted.
#[derive(Debug)]
pub(crate) struct Ticking(Arc<Shared>);

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { running: Mutex::default(), changed: Condvar::new() });
        let (ticker, engine) = (shared.clone(), engine.weak());
        thread::Builder::new().name("wasm-ticker".to_owned()).spawn(move || tick(&ticker, &engine))?;
        Ok(Self(shared))
    }

    /// Interrupt code until what is returned is dropped.
    pub(crate) fn during_call(&self) -> Ticking {
        let mut running = self.0.running();
        running.calls += 1;
        if running.calls == 1 {
            self.0.changed.notify_one();
        }
        Ticking(self.0.clone())
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.running().calls -= 1;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.running().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until code runs. False when none will any more.
    fn wait(&self) -> bool {
        let mut running = self.running();
        loop {
            if running.calls > 0 {
                return true;
            }
            if running.is_closed {
                return false;
            }
            running = self.changed.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn tick(shared: &Shared, engine: &EngineWeak) {
    while shared.wait() {
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
    }
}
