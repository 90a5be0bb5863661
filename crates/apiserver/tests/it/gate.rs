//! A log that writes only while its gate is open, so that a test can check what is underway.

use std::sync::{Arc, Condvar, Mutex};

use ferroplane_apiserver::store::{Batch, Log, LogError, Marks, Options, Row, RowError, Store};

/// Whether writing continues. Clones are the same gate.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    is_closed: bool,
    /// How many batches are waiting in front of it.
    waiting: usize,
}

impl Gate {
    /// A store behind this gate.
    pub(crate) fn store(&self) -> Store {
        Store::with_log(Box::new(Gated(self.clone())), Options::default()).unwrap()
    }

    pub(crate) fn close(&self) {
        self.set(true);
    }

    pub(crate) fn open(&self) {
        self.set(false);
    }

    /// Waits until something waits in front of it.
    pub(crate) fn arrival(&self) {
        let state = self.0.0.lock().unwrap();
        let _state = self.0.1.wait_while(state, |state| state.waiting == 0).unwrap();
    }

    fn set(&self, is_closed: bool) {
        self.0.0.lock().unwrap().is_closed = is_closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.waiting += 1;
        self.0.1.notify_all();
        let mut state = self.0.1.wait_while(state, |state| state.is_closed).unwrap();
        state.waiting -= 1;
    }
}

struct Gated(Gate);

impl Log for Gated {
    fn marks(&mut self) -> Result<Marks, LogError> {
        Ok(Marks::default())
    }

    fn load(&mut self, _visit: &mut dyn FnMut(Row<'_>) -> Result<(), RowError>) -> Result<(), LogError> {
        Ok(())
    }

    fn append(&mut self, _batch: &Batch<'_>) -> Result<(), LogError> {
        self.0.pass();
        Ok(())
    }

    fn tidy(&mut self, _is_urgent: bool) -> Result<bool, LogError> {
        Ok(false)
    }
}
