//! Names that are derived from packages. They are Crossplane's, so that installed packages keep their names.
//!
//! Follows Crossplane 2.4.0, `internal/xpkg/name.go` and `internal/controller/pkg/manager/reconciler.go`.

use ferroplane_wire::to_hex;
use sha2::{Digest as _, Sha256};

/// The longest label of DNS.
const MAX_LABEL: usize = 63;
/// How much of a package's name the name of a revision contains.
const MAX_FRIENDLY_NAME: usize = 50;
/// How much of a hash the name of a revision contains.
const FRIENDLY_HASH: usize = 12;

/// Convert a text to a label of DNS: separators become dashes, and other invalid characters are removed.
pub fn dns_label(text: &str) -> String {
    let bytes = &text.as_bytes()[..text.len().min(MAX_LABEL)];
    let last = bytes.len().saturating_sub(1);
    let mut label = String::with_capacity(bytes.len());
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => label.push(char::from(*byte)),
            b'.' | b'/' | b':' | b'-' if index != 0 && index != MAX_LABEL - 1 && index != last => {
                label.push('-');
            }
            _ => {}
        }
    }
    label.trim_matches('-').to_owned()
}

/// A name in which people recognise the package, and which is different for every hash.
pub fn friendly_id(name: &str, hash: &str) -> String {
    let short = |text: &str, length: usize| text[..text.floor_char_boundary(length)].to_owned();
    dns_label(&format!("{}-{}", short(name, MAX_FRIENDLY_NAME), short(hash, FRIENDLY_HASH)))
}

/// Identifies a revision of a package: the digest of the image, in hexadecimal digits, and the generation of the package, so that every
/// change of its spec makes a revision.
pub fn revision_id(digest: &str, generation: i64) -> String {
    to_hex(&Sha256::digest(format!("{digest}|{generation}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_dns_keep_letters_digits_and_inner_separators() {
        for (text, label) in [
            ("-hi/my.name/is-", "hi-my-name-is"),
            (&format!("{}----", "a".repeat(60)), &*"a".repeat(60)),
            ("Upper_Case", "pperase"),
            ("", ""),
            ("crossplane-contrib/provider-nop", "crossplane-contrib-provider-nop"),
        ] {
            assert_eq!(dns_label(text), label, "{text}");
        }
    }

    #[test]
    fn revisions_have_the_names_that_crossplane_gives() {
        for (name, hash, id) in [
            ("provider-aws", "1234567891234567", "provider-aws-123456789123"),
            (
                "provider.aws-plusabunchofothernonsensethatisgoingtogetslicedoff",
                "1234.567891234567",
                "provider-aws-plusabunchofothernonsensethatisgoingt-1234-5678912",
            ),
        ] {
            assert_eq!(friendly_id(name, hash), id);
        }
        let digest = "552a394a8accd2b4d37fc5858abe93d311e727eafb3c00636e11c72572873e48";
        for (generation, hash) in [(1, "fc53eaee07bb"), (2, "5a30d12c44db")] {
            assert!(revision_id(digest, generation).starts_with(hash));
        }
    }
}
