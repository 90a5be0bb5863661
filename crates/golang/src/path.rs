//! Paths with slashes, as Go's `path` cleans them and takes them apart.
//!
//! Follows Go 1.26, `path/path.go`.

/// The shortest path that leads to the same place: without double slashes, without `.`, and without what `..` takes back. An
/// absolute path does not lead above its root. A path that says nothing is `.`.
pub fn clean(path: &str) -> String {
    // Slashes and dots are ASCII, so that only whole characters are taken out.
    String::from_utf8_lossy(&clean_bytes(path.as_bytes())).into_owned()
}

/// The same of a path that need not be UTF-8.
pub fn clean_bytes(path: &[u8]) -> Vec<u8> {
    let is_absolute = path.starts_with(b"/");
    let mut steps: Vec<&[u8]> = Vec::new();
    for step in path.split(|byte| *byte == b'/') {
        match step {
            b"" | b"." => {}
            // What leads above the start of a relative path stays, and nothing can be taken back from it.
            b".." if steps.last().is_some_and(|last| *last != b"..") => drop(steps.pop()),
            b".." if is_absolute => {}
            step => steps.push(step),
        }
    }
    let joined = steps.join(&b'/');
    match (is_absolute, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

/// The last element, without slashes behind it: `.` of nothing, and `/` if there is nothing but slashes.
pub fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    if end == 0 { b"/" } else { &path[start..end] }
}

/// All but the last element, cleaned.
pub fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    clean_bytes(&path[..end])
}

/// What begins with the last dot of the last element.
pub fn ext(path: &[u8]) -> &[u8] {
    let last = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let dot = path[last..].iter().rposition(|byte| *byte == b'.');
    dot.map_or(&[], |at| &path[last + at..])
}

/// Whether a path begins at the root.
pub fn is_abs(path: &[u8]) -> bool {
    path.starts_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_does() {
        let cases = [
            ("", "."),
            ("/", "/"),
            ("//", "/"),
            ("a/b", "a/b"),
            ("/a//b/", "/a/b"),
            ("/a/./b/.", "/a/b"),
            ("/a/../b", "/b"),
            ("/../a", "/a"),
            ("../a", "../a"),
            ("a/../..", ".."),
            ("../..", "../.."),
            ("a/..", "."),
            ("/...", "/..."),
        ];
        for (path, cleaned) in cases {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }
}
