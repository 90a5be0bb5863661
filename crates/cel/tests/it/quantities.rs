//! What must hold for whatever quantity comes.

use ferroplane_cel::quantity::{Quantity, canonical};
use proptest::prelude::*;

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
