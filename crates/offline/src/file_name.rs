//! Safe file names, made from names in manifests and recordings.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use uuid::Uuid;

/// Longer names are cut: file systems take 255 bytes.
const LONGEST: usize = 200;

/// A file name for something of this name. It has no separators and does not begin with a dot, so a file of this name is always
/// inside the directory that it is written to. What cannot stand in it is written as `%` and two digits. The end of a long one is a
/// hash of the whole name, so that names with the same beginning are different files.
pub(crate) fn file_name(name: &str) -> String {
    let mut written = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let is_plain =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && at > 0);
        if is_plain {
            written.push(char::from(byte));
        } else {
            let _ = write!(written, "%{byte:02X}");
        }
    }
    if written.len() > LONGEST {
        let hash = format!("-{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).simple());
        // Only ASCII was written.
        written.truncate(LONGEST - hash.len());
        written.push_str(&hash);
    }
    written
}

/// A file or directory below a directory, at a path that a manifest or recording gives. None if the path would lead out of it.
///
/// Symbolic links in the directory are followed: a user who created them may write to it anyway.
pub(crate) fn file_below(directory: &Path, path: &str) -> Option<PathBuf> {
    let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let is_named = Path::new(path).components().any(|part| matches!(part, Component::Normal(_)));
    (is_named && Path::new(path).components().all(is_below)).then(|| directory.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_their_directory() {
        let below = |path: &str| file_below(Path::new("/here"), path);
        assert_eq!(below("answers/a.json"), Some("/here/answers/a.json".into()));
        assert_eq!(below("./a.json"), Some("/here/./a.json".into()));
        for path in ["", ".", "..", "../a", "a/../../b", "/etc/passwd", "./../a"] {
            assert_eq!(below(path), None, "{path}");
        }
    }

    #[test]
    fn names_stay_in_their_directory() {
        for (name, expected) in [
            ("function-a.b_c", "function-a.b_c"),
            ("x/../../../pwned", "x%2F..%2F..%2F..%2Fpwned"),
            ("..", "%2E."),
            ("/etc/passwd", "%2Fetc%2Fpasswd"),
            ("a\0b\\c", "a%00b%5Cc"),
            ("é", "%C3%A9"),
        ] {
            assert_eq!(file_name(name), expected);
        }
        let long = "a".repeat(1_000);
        assert_eq!(file_name(&long).len(), LONGEST);
        assert_eq!(file_name(&"a".repeat(LONGEST)), "a".repeat(LONGEST));
    }

    #[test]
    fn long_names_with_the_same_beginning_are_different_files() {
        let long = "a".repeat(300);
        assert_ne!(file_name(&format!("{long}b")), file_name(&format!("{long}c")));
        assert_eq!(file_name(&long), file_name(&long));
    }
}
