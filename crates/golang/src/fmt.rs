//! Text as Go writes it: users see it in results, and patches put it into resources.
//!
//! [`sprintf`] knows the verbs and flags of Go's `fmt` for the kinds of values JSON has, and says the same when
//! a verb and a value do not go together (`%!d(string=x)`).
//!
//! Follows Go 1.26, `fmt/print.go`.

mod operand;
mod types;
mod value;
mod verbs;

pub use operand::{Name, Operand, Shape, Visitor};
pub use types::{is_same_type, plain_list, type_name};
pub use value::{Any, Numbers, to_text};
pub use verbs::{
    Limits, Refusal, go_syntax, plain, print_all, print_formatted, print_lines, sprint, sprintf, sprintf_any,
};

/// The longest text that is made. It is more than a message of the protocol can carry by default.
pub const MAX_LENGTH: usize = 16 * 1024 * 1024;

/// The text would be longer than [`MAX_LENGTH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the text is longer than {} MiB", MAX_LENGTH / 1024 / 1024)
    }
}
