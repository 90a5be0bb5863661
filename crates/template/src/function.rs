//! Functions: their signatures as data, where they are looked up, and what they can ask of the execution.
//!
//! Follows Go 1.26, `text/template/funcs.go`.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use ferroplane_golang::time::rfc3339::Moment;

use crate::execute::{self, Slot};
use crate::node::Part;
use crate::{Budget, Exhausted, Failure, Heap, List, Map, Templates, Text, Trace, Type, Value};

/// A function with its Go signature: the engine checks number and types of arguments before it calls.
#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    pub parameters: &'static [Type],
    /// The type of any number of further arguments.
    pub rest: Option<Type>,
    /// The type of the result. For [`Type::Any`] the result may be nil.
    pub result: Type,
    pub callee: Callee,
}

/// Rust code that is called with values.
pub(crate) type ValuesCallee = fn(&mut Context<'_>, &[Value]) -> Result<Value, Failure>;

/// What is called with checked arguments.
#[derive(Clone, Copy)]
pub enum Callee {
    /// Every argument has the type of its parameter. Where a parameter can be nil in Go and the argument is: for
    /// [`Type::Any`] it is [`Value::Nil`], for lists and maps it is one that is nil.
    Values(ValuesCallee),
    #[doc(hidden)]
    Slots(fn(&mut Context<'_>, &[Slot]) -> Result<Slot, Failure>),
    #[doc(hidden)]
    And,
    #[doc(hidden)]
    Or,
    #[doc(hidden)]
    Call,
}

impl fmt::Debug for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callee")
    }
}

/// The functions that templates may call, by name. Those that Go's templates always have are among them, and can be
/// replaced.
#[derive(Debug, Clone)]
pub struct Functions {
    by_name: HashMap<&'static str, &'static Function>,
}

impl Functions {
    /// The functions that Go's templates always have.
    pub fn builtin() -> Self {
        Self { by_name: HashMap::new() }.with(crate::builtins::FUNCTIONS)
    }

    /// These functions, too. They replace those with the same name.
    #[must_use]
    pub fn with(mut self, functions: &'static [Function]) -> Self {
        self.by_name.extend(functions.iter().map(|function| (function.name, function)));
        self
    }

    /// Without the function with this name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.by_name.remove(name);
        self
    }

    pub fn get(&self, name: &str) -> Option<&'static Function> {
        self.by_name.get(name).copied()
    }

    /// All names, in no order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.by_name.keys().copied()
    }
}

/// A call of a function or of another template, in the text. It is known by a number and not by its position, which moves with every change of
/// the text before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSite<'t> {
    pub name: &'t str,
    /// How many calls with this name come before it in the text.
    pub number: u32,
}

/// What an execution may ask of the world.
pub trait Host {
    /// The time that the execution was given, if it is over: then it stops. It is asked every thousand steps or so.
    fn expired(&mut self) -> Option<Duration> {
        None
    }

    /// The time, if there is a clock.
    fn now(&mut self) -> Option<Moment> {
        None
    }

    /// A call is about to ask for random bytes, and all are for it until another one is. It is the last of these; those before it are the
    /// calls of the templates that it is in. A host can thereby give each call bytes of its own.
    fn begin_draw(&mut self, _sites: &[CallSite<'_>]) {}

    /// Fills the buffer with random bytes, if there is a source of them.
    fn random(&mut self, _buffer: &mut [u8]) -> bool {
        false
    }

    /// What functions of the caller's own need besides their arguments.
    fn state(&mut self) -> Option<&mut dyn Any> {
        None
    }
}

/// A host without clock, randomness or deadline.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// An execution, as functions see it.
pub struct Context<'e> {
    pub(crate) templates: &'e Templates,
    pub(crate) heap: &'e Heap,
    pub(crate) host: &'e mut dyn Host,
    pub(crate) output: Vec<u8>,
    /// Where the output of the template begins that is executed right now. Before it is that of those that include it.
    pub(crate) output_begin: usize,
    /// What printed the output, if anybody wants to know.
    pub(crate) trace: Option<Trace>,
    /// How deep templates and expressions are nested right now.
    pub(crate) depth: u32,
    /// The calls of the templates that are executed right now.
    pub(crate) callers: Vec<CallSite<'e>>,
    /// The call of a function that was made last, unless it has asked for random bytes.
    pub(crate) call: Option<Part<'e>>,
    budget: Budget,
    steps: u64,
    memory: u64,
    /// Lists for the arguments of calls.
    pub(crate) spare_values: Spare<Value>,
    pub(crate) spare_slots: Spare<Slot>,
    /// Lists for the variables of templates.
    pub(crate) spare_variables: Spare<(&'e str, Slot)>,
    /// Where functions write texts, before it is known how long they are.
    buffer: Vec<u8>,
}

/// Lists that are not in use. A template makes hundreds of calls, and most of what a small one costs would be to allocate the list of
/// its arguments. It includes others as often, each with variables of its own.
pub(crate) struct Spare<T>(Vec<Vec<T>>);

impl<T> Spare<T> {
    /// An empty list, to be given back with [`Spare::keep`].
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn keep(&mut self, mut list: Vec<T>) {
        list.clear();
        self.0.push(list);
    }
}

impl<'e> Context<'e> {
    /// How many steps pass between two questions to the host.
    const CHECK_INTERVAL: u64 = 1024;

    /// How many bytes a host may need to remember a call that draws random bytes.
    const DRAW: usize = 128;

    /// How many bytes a host can hash in a step.
    const HASHED: usize = 64;

    /// How many bytes a host hashes for a call besides its name.
    const SITE: usize = 16;

    pub(crate) fn new(
        templates: &'e Templates,
        heap: &'e Heap,
        host: &'e mut dyn Host,
        budget: Budget,
    ) -> Self {
        Self {
            templates,
            heap,
            host,
            // Most templates print what is as long as they are.
            output: Vec::with_capacity(templates.text_length().min(1 << 16)),
            output_begin: 0,
            trace: None,
            depth: 0,
            callers: Vec::new(),
            call: None,
            budget,
            steps: 0,
            memory: 0,
            spare_values: Spare(Vec::new()),
            spare_slots: Spare(Vec::new()),
            spare_variables: Spare(Vec::new()),
            buffer: Vec::new(),
        }
    }

    /// The text that is written here. It needs one allocation, however it is put together.
    pub(crate) fn write_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Text {
        self.buffer.clear();
        write(&mut self.buffer);
        Text::from(self.buffer.as_slice())
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What the execution has left of its budget.
    pub(crate) fn remaining_budget(&self) -> Budget {
        Budget {
            steps: self.budget.steps.saturating_sub(self.steps),
            memory: self.budget.memory.saturating_sub(self.memory),
            output: self.budget.output.saturating_sub(self.output.len() as u64),
            depth: self.budget.depth,
        }
    }

    /// Counts steps. A function whose work grows with its arguments counts one for each item.
    #[inline]
    pub fn step(&mut self, count: u64) -> Result<(), Exhausted> {
        let before = self.steps;
        self.steps = before.saturating_add(count);
        let is_due = before / Self::CHECK_INTERVAL != self.steps / Self::CHECK_INTERVAL;
        if is_due || self.steps > self.budget.steps { self.check_steps() } else { Ok(()) }
    }

    #[cold]
    fn check_steps(&mut self) -> Result<(), Exhausted> {
        if self.steps > self.budget.steps {
            return Err(Exhausted::Steps(self.budget.steps));
        }
        self.host.expired().map_or(Ok(()), |limit| Err(Exhausted::Time(limit)))
    }

    /// Counts bytes of values. Call it before the bytes are allocated. The engine itself counts the result of every
    /// function; what is made besides, or in one piece from a number (`repeat 1000000000 "x"`), is the function's to count.
    pub fn charge(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.memory = self.memory.saturating_add(bytes as u64);
        // Work on text grows with its length, so that long texts take steps, too.
        self.step(bytes as u64 / 4096)?;
        if self.memory > self.budget.memory { Err(Exhausted::Memory(self.budget.memory)) } else { Ok(()) }
    }

    /// The bytes that may still be allocated: a limit for what counts only at its end.
    pub fn remaining_memory(&self) -> usize {
        usize::try_from(self.budget.memory.saturating_sub(self.memory)).unwrap_or(usize::MAX)
    }

    /// A list of anything, `[]interface {}` in Go.
    pub fn list(&mut self, items: Vec<Value>) -> Result<Value, Failure> {
        self.typed_list(&Type::Any, items)
    }

    /// A list of elements of one type.
    pub fn typed_list(&mut self, element: &'static Type, items: Vec<Value>) -> Result<Value, Failure> {
        Ok(Value::List(List::new(element, items)?))
    }

    /// A new map of anything, `map[string]interface {}` in Go.
    pub fn map(&mut self, entries: BTreeMap<Text, Value>) -> Result<Value, Failure> {
        self.typed_map(&Type::Any, entries)
    }

    /// A new map with values of one type.
    pub fn typed_map(
        &mut self,
        element: &'static Type,
        entries: BTreeMap<Text, Value>,
    ) -> Result<Value, Failure> {
        Ok(Value::Map(self.heap.map(element, entries)))
    }

    /// A copy of the entries of a map in the order of their keys, which counts as the values that it is: a map that contains itself can
    /// be copied inside each of its copies.
    pub fn entries_of(&mut self, map: &Map) -> Result<Vec<(Text, Value)>, Exhausted> {
        self.charge(map.len().saturating_mul(size_of::<(Text, Value)>()))?;
        Ok(map.to_vec())
    }

    /// Where maps are made.
    pub fn heap(&self) -> &'e Heap {
        self.heap
    }

    /// The time, for functions that need it.
    pub fn now(&mut self) -> Result<Moment, Failure> {
        self.host.now().ok_or_else(|| Failure::new("there is no clock here"))
    }

    /// Fills the buffer with random bytes, for functions that need them.
    pub fn random(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        if let Some(site) = self.call.take().and_then(Part::site) {
            self.charge(Self::DRAW)?;
            self.callers.push(site);
            let begun = self.begin_draw();
            self.callers.pop();
            begun?;
        }
        if self.host.random(buffer) { Ok(()) } else { Err(Failure::new("there is no randomness here")) }
    }

    /// The call that draws is the last of the callers. The names of all of them are work for the host.
    fn begin_draw(&mut self) -> Result<(), Exhausted> {
        let bytes: usize = self.callers.iter().map(|site| site.name.len() + Self::SITE).sum();
        self.step((bytes / Self::HASHED) as u64)?;
        self.host.begin_draw(&self.callers);
        Ok(())
    }

    /// What the caller gave its own functions.
    pub fn state(&mut self) -> Option<&mut dyn Any> {
        self.host.state()
    }

    /// Executes a template of the same set and gives its output, as `include` does.
    pub fn execute(&mut self, name: &[u8], data: Value) -> Result<Text, Failure> {
        execute::include(self, name, data)
    }

    pub(crate) fn write(&mut self, text: &[u8]) -> Result<(), Exhausted> {
        // Checked only afterwards: what is written at once was charged for as a value, or stands in the
        // template.
        self.output.extend_from_slice(text);
        if self.output.len() as u64 > self.budget.output { self.check_output() } else { Ok(()) }
    }

    /// What a template prints that others include is a value that is being made. It is behind the output of all that include it, each
    /// of which may be as long as the limit, so that all of it together must fit into what is left of the memory.
    #[cold]
    fn check_output(&self) -> Result<(), Exhausted> {
        if (self.output.len() - self.output_begin) as u64 > self.budget.output {
            return Err(Exhausted::Output(self.budget.output));
        }
        let unused = self.budget.memory.saturating_sub(self.memory);
        if self.output.len() as u64 > self.budget.output.saturating_add(unused) {
            return Err(Exhausted::Memory(self.budget.memory));
        }
        Ok(())
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("steps", &self.steps)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}
