//! Bundles of certificates: whether there is one in them that can be trusted, by its form.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/util/webhook/validation.go`.

use super::certificate;
use super::pem::{Block, Blocks};

/// What is wrong with a bundle, if there is no certificate in it.
pub(super) fn problem(bundle: &[u8]) -> Option<String> {
    let certificates = || Blocks(bundle).filter(Block::is_certificate);
    // One good certificate is enough for Go's `AppendCertsFromPEM`, whatever else is in the bundle.
    if certificates().any(|block| certificate::check(&block.bytes).is_ok()) {
        return None;
    }
    let why = certificates().find_map(|block| certificate::check(&block.bytes).err());
    let why = why.map(|problem| format!("failed to parse certificate: x509: {problem}"));
    let why = why.unwrap_or_else(|| {
        let mut blocks = Blocks(bundle);
        while blocks.next().is_some() {}
        let has_rest = !blocks.0.is_empty();
        let words = if has_rest {
            "unable to parse bytes as PEM block"
        } else {
            "no valid certificate authority data seen"
        };
        words.to_owned()
    });
    Some(format!("unable to load root certificates: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn anything_is_a_bundle_or_not(
            text in "(-----BEGIN |\n-----END |CERTIFICATE|-----|\n|: |MDA=|[ -~]){0,24}",
            der in prop::collection::vec(prop_oneof![Just(0x30), Just(0x80), Just(0x81), any::<u8>()], 0..64),
        ) {
            problem(text.as_bytes());
            let _ = certificate::check(&der);
        }
    }
}
