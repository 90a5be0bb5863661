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
    maps: RefCell<Vec<Rc<Map>>>,
}

impl Heap {
    pub fn new() -> Self {
        Self::default()
    }

    /// A map with values of this type, which is [`Type::Any`] for what Go calls `map[string]interface {}`.
    pub fn map(&self, element: &'static Type, entries: BTreeMap<Text, Value>) -> Rc<Map> {
        let map = Rc::new(Map::new(element, entries, false));
        self.maps.borrow_mut().push(Rc::clone(&map));
        map
    }

    /// A map that is nil: it has no entries and takes none.
    pub fn nil_map(element: &'static Type) -> Rc<Map> {
        // It can refer to nothing, so that nothing needs to remember it.
        Rc::new(Map::new(element, BTreeMap::new(), true))
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let maps = self.maps.take();
        // All are emptied before the first is dropped: then no map is freed inside another one.
        for map in &maps {
            map.clear();
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("maps", &self.maps.borrow().len()).finish()
    }
}
