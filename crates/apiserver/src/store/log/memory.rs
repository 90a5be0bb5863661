//! Nothing is durable: for stores that are thrown away.

use super::{Batch, Log, LogError, Marks, Row, RowError};

/// A log that forgets at once.
#[derive(Debug, Default)]
pub(in super::super) struct Memory;

impl Log for Memory {
    fn marks(&mut self) -> Result<Marks, LogError> {
        Ok(Marks::default())
    }

    fn load(&mut self, _visit: &mut dyn FnMut(Row<'_>) -> Result<(), RowError>) -> Result<(), LogError> {
        Ok(())
    }

    fn append(&mut self, _batch: &Batch<'_>) -> Result<(), LogError> {
        Ok(())
    }

    fn tidy(&mut self, _is_urgent: bool) -> Result<bool, LogError> {
        Ok(false)
    }
}
