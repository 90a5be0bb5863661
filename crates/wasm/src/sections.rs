//! The sections of modules and components, and how much a compiler has to do for them, read without trusting them.
//!
//! Reading stops at what cannot be read: the compiler says what is wrong with such code, and compiles nothing of it.

use crate::error::Error;

const COMPONENT_HEADER: &[u8] = b"\0asm\x0d\0\x01\0";

/// What a section holds: in a module, and in a component.
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const CODE: u8 = 10;
const MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// Each function costs the compiler as much as this many bytes, however short it is.
const SMALLEST: usize = 256;

/// The most parameters that a function may have. It is counted where a type cannot be read.
const MOST_PARAMETERS: usize = 1000;

/// Whether code is a component, and not a module.
pub(crate) fn is_component(code: &[u8]) -> bool {
    code.starts_with(COMPONENT_HEADER)
}

/// The sections of a module or a component: their kinds and contents.
pub(crate) fn sections(code: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = code.strip_prefix(b"\0asm").and_then(|code| code.get(4..)).unwrap_or_default();
    std::iter::from_fn(move || {
        let (&kind, after) = rest.split_first()?;
        let (content, next) = sized(after)?;
        rest = next;
        Some((kind, content))
    })
}

/// Bytes that come after their number, and what comes after them.
pub(crate) fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, bytes) = number(bytes)?;
    bytes.split_at_checked(length)
}

/// A number, and what comes after it.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (mut number, mut shift) = (0_usize, 0);
    for (index, byte) in bytes.iter().take(5).enumerate() {
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(index + 1..)?));
        }
    }
    None
}

/// How much of code has to be compiled, over all modules in it, or how much of it may be.
///
/// The memory and the time that a compiler takes grow faster than the length of a function, and with the number of its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CodeSize {
    /// Bytes of all functions. A function counts as 256 at least.
    pub functions: usize,
    /// Bytes of the longest function.
    pub longest: usize,
    /// The bytes of a function times its parameters and variables, for that function for which this is most.
    pub variables: usize,
}

impl CodeSize {
    /// No limit.
    pub const UNLIMITED: Self = Self { functions: usize::MAX, longest: usize::MAX, variables: usize::MAX };

    /// What has to be compiled of code. Nothing if it is no WebAssembly.
    #[must_use]
    pub fn of(code: &[u8]) -> Self {
        let mut size = Self::default();
        // A list instead of recursion: components can be nested deeper than the stack is.
        let mut unread = vec![code];
        while let Some(code) = unread.pop() {
            if is_component(code) {
                let is_code = |(kind, content): &(u8, &[u8])| {
                    [MODULE, COMPONENT].contains(kind) && content.starts_with(b"\0asm") && content.len() > 8
                };
                unread.extend(sections(code).filter(is_code).map(|(_, content)| content));
            } else {
                size.add_module(code);
            }
        }
        size
    }

    /// Refuses code that has more to be compiled than `limit`.
    pub fn check(&self, limit: &Self) -> Result<(), Error> {
        for (what, size, limit) in [
            ("bytes of functions", self.functions, limit.functions),
            ("bytes in one function", self.longest, limit.longest),
            ("bytes times variables in one function", self.variables, limit.variables),
        ] {
            if size > limit {
                return Err(Error::TooComplex { what, size, limit });
            }
        }
        Ok(())
    }

    fn add_module(&mut self, code: &[u8]) {
        let (mut parameters, mut functions) = (Vec::new(), Vec::new());
        for (kind, content) in sections(code) {
            match kind {
                TYPES => parameters = parameters_of_types(content),
                FUNCTIONS => functions = types_of_functions(content),
                CODE => self.add_functions(content, |function| {
                    let parameters = functions.get(function).and_then(|kind| parameters.get(*kind));
                    parameters.copied().unwrap_or(MOST_PARAMETERS)
                }),
                _ => {}
            }
        }
    }

    fn add_functions(&mut self, section: &[u8], parameters: impl Fn(usize) -> usize) {
        let Some((count, mut rest)) = number(section) else { return };
        for function in 0..count {
            let Some((body, next)) = sized(rest) else { return };
            self.functions = self.functions.saturating_add(body.len().max(SMALLEST));
            self.longest = self.longest.max(body.len());
            let variables = variables(body).saturating_add(parameters(function));
            self.variables = self.variables.max(body.len().saturating_mul(variables));
            rest = next;
        }
    }
}

/// How many parameters functions of each type have.
fn parameters_of_types(section: &[u8]) -> Vec<usize> {
    let Some((_, mut rest)) = number(section) else { return Vec::new() };
    let mut found = Vec::new();
    while let Some((parameters, next)) = function_type(rest) {
        found.push(parameters);
        rest = next;
    }
    found
}

/// How many parameters functions of a type have, and what comes after the type.
fn function_type(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (parameters, rest) = value_types(bytes.strip_prefix(&[0x60])?)?;
    let (_, rest) = value_types(rest)?;
    Some((parameters, rest))
}

/// How many values are listed, and what comes after the list.
fn value_types(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (count, mut rest) = number(bytes)?;
    for _ in 0..count {
        rest = after_value_type(rest)?;
    }
    Some((count, rest))
}

fn after_value_type(bytes: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = bytes.split_first()?;
    // References name what they lead to.
    if matches!(kind, 0x63 | 0x64) { number(rest).map(|(_, rest)| rest) } else { Some(rest) }
}

/// Which type each function has.
fn types_of_functions(section: &[u8]) -> Vec<usize> {
    let Some((_, mut rest)) = number(section) else { return Vec::new() };
    let mut found = Vec::new();
    while let Some((kind, next)) = number(rest) {
        found.push(kind);
        rest = next;
    }
    found
}

/// How many variables a function declares.
fn variables(body: &[u8]) -> usize {
    let Some((groups, mut rest)) = number(body) else { return 0 };
    let mut total = 0_usize;
    for _ in 0..groups {
        let Some((count, kind)) = number(rest) else { break };
        total = total.saturating_add(count);
        let Some(next) = after_value_type(kind) else { break };
        rest = next;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r"(module
        (func (param i32 i32) (local i64 i64 i64) (local f32) (drop (local.get 0)))
        (func) (func))";

    #[test]
    fn functions_and_their_variables_are_counted() {
        let size = CodeSize::of(&wat::parse_str(TEXT).unwrap());
        // Two groups of variables, one instruction of two bytes, `drop` and `end`.
        let longest = 1 + 2 * 2 + 2 + 1 + 1;
        assert_eq!(size, CodeSize { functions: 3 * SMALLEST, longest, variables: longest * 6 });
    }

    #[test]
    fn modules_in_components_are_counted_too() {
        let module = TEXT.replacen("(module", "(core module", 1);
        let nested = format!("(component (component (component {module})) {module})");
        let (one, two) = (wat::parse_str(TEXT).unwrap(), wat::parse_str(nested).unwrap());
        let (one, two) = (CodeSize::of(&one), CodeSize::of(&two));
        assert_eq!(two, CodeSize { functions: 2 * one.functions, ..one });
    }

    #[test]
    fn what_is_damaged_is_counted_as_far_as_it_can_be_read() {
        let code = wat::parse_str(format!("(component {})", TEXT.replacen("(module", "(core module", 1)));
        let code = code.unwrap();
        for index in 0..code.len() {
            let mut damaged = code.clone();
            damaged[index] ^= 0xff;
            let _ = CodeSize::of(&damaged);
            let _ = CodeSize::of(&code[..index]);
        }
        assert_eq!(CodeSize::of(b"no code"), CodeSize::default());
    }

    #[test]
    fn more_than_the_limit_is_refused_and_named() {
        let size = CodeSize { functions: 10, longest: 5, variables: 20 };
        assert!(size.check(&size).is_ok());
        assert!(size.check(&CodeSize::UNLIMITED).is_ok());
        let error = size.check(&CodeSize { longest: 4, ..size }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot compile the code: it has 5 bytes in one function, and at most 4 are accepted"
        );
    }
}
