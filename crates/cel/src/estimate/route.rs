//! The way from a variable to a part of it.
//!
//! Follows cel-go 0.29.2, `checker/cost.go`.

use std::cell::RefCell;
use std::rc::Rc;

/// Steps through declared types: a variable, then names of fields, `@items`, `@keys` and `@values`.
///
/// A route that is continued may share its storage with the original, and continuing the original once more then
/// changes the last step of the first continuation. So it happens in Kubernetes, whose estimates depend on it: of
/// `x.a.all(y, x.b == y)`, the size of `x.a` is looked up only after `x.b` was checked.
#[derive(Debug, Clone, Default)]
pub(super) struct Route {
    storage: Rc<RefCell<Vec<Rc<str>>>>,
    capacity: usize,
    length: usize,
}

impl Route {
    pub(super) fn of(variable: &str) -> Self {
        Self::default().to(variable)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// One step further.
    pub(super) fn to(&self, step: &str) -> Self {
        if self.length == self.capacity {
            let mut steps = self.storage.borrow()[..self.length].to_vec();
            steps.push(step.into());
            // Go's `append` doubles small slices. The exact capacity matters, because it decides which routes
            // share storage.
            let capacity = (2 * self.capacity).max(1);
            return Self { storage: Rc::new(RefCell::new(steps)), capacity, length: self.length + 1 };
        }
        let mut steps = self.storage.borrow_mut();
        match steps.get_mut(self.length) {
            Some(shared) => *shared = step.into(),
            None => steps.push(step.into()),
        }
        drop(steps);
        Self { storage: Rc::clone(&self.storage), capacity: self.capacity, length: self.length + 1 }
    }

    /// One step further, with storage of its own.
    pub(super) fn copied_to(&self, step: &str) -> Self {
        let mut steps = self.storage.borrow()[..self.length].to_vec();
        steps.push(step.into());
        let length = steps.len();
        Self { storage: Rc::new(RefCell::new(steps)), capacity: length, length }
    }

    /// The steps after the variable.
    pub(super) fn steps(&self) -> Vec<Rc<str>> {
        self.storage.borrow()[..self.length].iter().skip(1).cloned().collect()
    }
}
