//! Numbers and quoted strings, as Go's `strconv` reads and writes them.
//!
//! Follows Go 1.26, `strconv`.

mod float;
mod parse;
mod print;
mod print_ranges;
mod quote;
mod unquote;

pub use float::format_float;
pub use parse::{parse_float, parse_int, parse_uint};
pub use print::is_print;
pub(crate) use quote::{can_backquote, quote_with};
pub use quote::{push_quoted, quote, quote_bytes};
pub use unquote::{unquote, unquote_bytes, unquote_char};
