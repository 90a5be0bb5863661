//! Flow control.
//!
//! Follows sprig 3.3.0, `functions.go`.

use super::arguments::characters;
use super::function;
use crate::{Failure, Function, Type};

pub(super) const FUNCTIONS: &[Function] =
    &[function("fail", &[Type::String], Type::String, |_, args| Err(Failure::new(characters(args, 0))))];
