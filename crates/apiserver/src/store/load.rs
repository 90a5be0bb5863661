//! Rebuilds the state and its history from the log.

use std::sync::Arc;
use std::time::Instant;

use super::Options;
use super::entry::Entry;
use super::history::History;
use super::log::{Log, LogError, Row};
use super::state::State;
use super::watch_cache::Event;

/// Read the whole log.
pub(super) fn load(log: &mut dyn Log, options: Options) -> Result<(State, History), LogError> {
    let marks = log.marks()?;
    let mut state = State::new(marks.revision, marks.floor);
    let mut history = History::new(options.window, marks.floor);
    let started = Instant::now();
    log.load(&mut |row: Row<'_>| {
        let key = state.collection(row.collection).key(row.namespace, row.name);
        let fields = options.fields.as_ref().map(|fields| fields(row.collection, row.object));
        let fields = fields.filter(|fields| !fields.is_empty()).map(Box::new);
        let entry = Entry::loaded(key, row.revision, row.is_deleted, row.object, fields)?;
        let previous = state.get(entry.key()).cloned();
        let event = Arc::new(Event::new(Arc::new(entry), previous));
        state.apply(&event);
        if event.revision() > marks.floor {
            event.collection().watch_cache().write().push(event.clone());
            history.push(event);
            // While reading, or the window would first hold the whole log. Ages begin anew: the length of the downtime is unknown.
            history.evict(started);
        } else {
            history.release(&event);
        }
        Ok(())
    })?;
    Ok((state, history))
}
