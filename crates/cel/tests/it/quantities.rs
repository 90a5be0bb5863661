//! What must hold for whatever quantity comes.

use ferroplane_cel::quantity::{ParseError, Quantity, canonical};
use proptest::prelude::*;

#[test]
#[expect(clippy::float_cmp, reason = "the digits are the point")]
fn quantities_are_read_as_kubernetes_does() {
    for (text, float) in [
        ("0", 0.0),
        ("000", 0.0),
        ("1", 1.0),
        ("1k", 1000.0),
        ("100m", 0.1),
        ("-1.5", -1.5),
        ("1.5Gi", 1_610_612_736.0),
        ("1Ki", 1024.0),
        ("12e6", 12e6),
        ("1E", 1e18),
        ("+.5", 0.5),
        ("1.", 1.0),
        ("1e-12", 1e-9),
        ("16Ei", 9.223_372_036_854_776e18),
    ] {
        let read = Quantity::parse(text).unwrap().as_float();
        assert!((read - float).abs() <= float.abs() * 1e-15, "{text}: {read}");
    }
    assert_eq!(Quantity::parse("5Gi").unwrap().as_float(), 5.0 * 1024.0 * 1024.0 * 1024.0);
}

#[test]
fn what_is_no_quantity_is_refused() {
    for text in ["", "abc", "1 Gi", "1.2.3", "1KiB", "e"] {
        assert!(Quantity::parse(text).is_err(), "{text}");
    }
    assert_eq!(Quantity::parse("1Zi"), Err(ParseError::Format));
    assert_eq!(Quantity::parse("1kk"), Err(ParseError::Suffix));
}

proptest! {
    #[test]
    fn quantity_in_canonical_form_is_the_same_quantity(text in "[-+]?[0-9]{0,20}(\\.[0-9]{0,10})?(|[numkMGTPE]|[KMGTPE]i|e-?[0-9]{1,2})") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let written = quantity.to_string();
            let read = Quantity::parse(&written).unwrap();
            prop_assert_eq!(read, quantity, "{} became {}", text, written);
            prop_assert_eq!(read.to_string(), written.clone());
            prop_assert_eq!(canonical(&written).unwrap(), written);
        }
    }

    #[test]
    fn quantities_add_up(one in "[1-9][0-9]{0,8}(|m|k|Mi)", other in "[1-9][0-9]{0,8}(|m|k|Mi)") {
        let (one, other) = (Quantity::parse(&one).unwrap(), Quantity::parse(&other).unwrap());
        prop_assert_eq!(one.plus(other), other.plus(one));
        prop_assert_eq!(one.plus(other).minus(other), one);
        prop_assert!(one.plus(other) > one);
        prop_assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
    }

    #[test]
    fn texts_are_refused_or_taken_but_never_fatal(text in "\\PC{0,40}") {
        let _ = Quantity::parse(&text).map(|quantity| quantity.to_string());
    }
}
