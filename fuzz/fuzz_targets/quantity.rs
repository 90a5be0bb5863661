//! Any text is a quantity or an error, and a quantity is read as it is written.
#![no_main]

use ferroplane_cel::quantity::{Quantity, canonical};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (Ok(one), Ok(other)) = (Quantity::parse(input.0), Quantity::parse(input.1)) else { return };
    let written = one.to_string();
    assert_eq!(Quantity::parse(&written).as_ref(), Ok(&one));
    assert!(canonical(input.0).is_ok());
    let _ = (one.as_float(), one.as_integer(), one.plus(other).to_string(), one.minus(other).to_string());
    assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
});
