//! Any text with any delimiters is a template or an error that names a line of it.
#![no_main]

use ferroplane_template::{Functions, Options, Templates};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, &str)| {
    let (left, right, text) = input;
    let options = Options { delimiters: (left, right), ..Options::default() };
    if let Err(error) = Templates::parse("fuzz", text, &options, &Functions::builtin()) {
        assert!(error.line <= text.matches('\n').count() + 1, "{error}");
    }
});
