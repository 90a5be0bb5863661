//! The functions of sprig, the library that most Go templates are written with.
//!
//! Each class of functions has a file of its own with a table `FUNCTIONS`.
//!
//! Follows sprig 3.3.0, `functions.go`.

use crate::Functions;

/// The functions that Go's templates always have, and those of sprig.
pub fn functions() -> Functions {
    CLASSES.iter().fold(Functions::builtin(), |functions, class| functions.with(class))
}

static CLASSES: &[&[crate::Function]] = &[];
