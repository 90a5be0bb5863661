//! The built-in functions, as their callers see them.

mod templates;
