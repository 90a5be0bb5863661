//! Where the maps of one execution live.
//!
//! Our own design: templates can make maps that contain themselves, or chains of maps of any length. Reference counts
//! alone would leak the former and overflow the stack when they free the latter. A heap refers to every map, and
//! empties them one by one at its end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::value::Map;
use crate::{Text, Type, Value};

/// Makes maps and frees them all at its end: a [`Value`] is of no use after its heap.
#[derive(Default)]
pub struct Heap {
    maps: Maps,
}

/// The maps of a heap. Those whose entries are not made yet refer to it.
#[derive(Debug, Clone, Default)]
struct Maps(Rc<RefCell<Vec<Rc<Map>>>>);

impl Maps {
    fn keep(&self, map: Map) -> Rc<Map> {
        let map = Rc::new(map);
        self.0.borrow_mut().push(Rc::clone(&map));
        map
    }
}

/// Makes maps while the entries of another one are made.
#[derive(Debug, Clone)]
pub struct HeapHandle(Maps);

impl HeapHandle {
    /// As [`Heap::map`].
    pub fn map(&self, element: &'static Type, entries: BTreeMap<Text, Value>) -> Rc<Map> {
        self.0.keep(Map::new(element, entries, false))
    }
}

impl Heap {
    pub fn new() -> Self {
        Self::default()
    }

    /// A map with values of this type, which is [`Type::Any`] for what Go calls `map[string]interface {}`.
    pub fn map(&self, element: &'static Type, entries: BTreeMap<Text, Value>) -> Rc<Map> {
        self.maps.keep(Map::new(element, entries, false))
    }

    /// A map whose entries are made when they are read: most templates read little of their data.
    pub fn map_on_demand(
        &self,
        element: &'static Type,
        make: impl FnOnce(&HeapHandle) -> BTreeMap<Text, Value> + 'static,
    ) -> Rc<Map> {
        let handle = HeapHandle(self.maps.clone());
        self.maps.keep(Map::pending(element, Box::new(move || make(&handle))))
    }

    /// A map that is nil: it has no entries and takes none.
    pub fn nil_map(element: &'static Type) -> Rc<Map> {
        // It can refer to nothing, so that nothing needs to remember it.
        Rc::new(Map::new(element, BTreeMap::new(), true))
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // Taken out of the cell: a map that is not made yet refers to the cell, and lets go of it while it is
        // emptied.
        let maps = self.maps.0.take();
        // All are emptied before the first is dropped: then no map is freed inside another one.
        for map in &maps {
            map.clear();
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("maps", &self.maps.0.borrow().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn entries_are_made_once_and_only_for_those_who_look() {
        let count = Rc::new(Cell::new(0));
        let heap = Heap::new();
        let make = |count: &Rc<Cell<u32>>| {
            let count = Rc::clone(count);
            move |heap: &HeapHandle| {
                count.set(count.get() + 1);
                let inner = Value::Map(heap.map(&Type::Any, BTreeMap::new()));
                BTreeMap::from([("a".into(), inner)])
            }
        };
        let (seen, unseen) =
            (heap.map_on_demand(&Type::Any, make(&count)), heap.map_on_demand(&Type::Any, make(&count)));
        assert_eq!(count.get(), 0);
        assert!(seen.contains_key(b"a") && seen.len() == 1);
        assert_eq!(count.get(), 1);
        drop(heap);
        // What was not checked by then is not made, and what was is gone.
        assert!(unseen.is_empty() && seen.is_empty());
        assert_eq!((count.get(), Rc::strong_count(&count)), (1, 1));
    }
}
