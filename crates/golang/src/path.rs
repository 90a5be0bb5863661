//! Paths with slashes, as Go's `path` cleans them.
//!
//! Follows Go 1.26, `path/path.go`.

/// The shortest path that leads to the same place: without double slashes, without `.`, and without what `..` takes back. An
/// absolute path does not lead above its root. A path that says nothing is `.`.
pub fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." if steps.last().is_some_and(|last| *last != "..") => drop(steps.pop()),
            ".." if is_absolute => {}
            step => steps.push(step),
        }
    }
    let joined = steps.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
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
