//! What Crossplane's command line keeps of packages: their schemas can be used without downloading anything.

use std::path::{Path, PathBuf};

use crate::file_name::file_below;

/// A directory with a directory per package.
#[derive(Debug)]
pub(crate) struct Cache(PathBuf);

impl Cache {
    /// The cache that is there: the given one, or that of the user's home.
    pub(crate) fn find(given: Option<&Path>) -> Option<Self> {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".crossplane/cache"));
        let given = match given {
            // The shell leaves a tilde alone that comes after an equals sign.
            Some(path) => match path.strip_prefix("~") {
                Ok(rest) => PathBuf::from(std::env::var_os("HOME")?).join(rest),
                Err(_) => path.to_owned(),
            },
            None => home()?,
        };
        given.is_dir().then_some(Self(given))
    }

    /// Where the schemas of a package are, if they are there.
    pub(crate) fn package(&self, image: &str) -> Option<PathBuf> {
        // An image is not the name of just any directory.
        // Crossplane's command line names its directories like that.
        file_below(&self.0, &image.replace(':', "@")).filter(|path| path.is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_by_image_and_nowhere_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.example/acme/provider@v1.0.0");
        std::fs::create_dir_all(&path).unwrap();
        let cache = Cache::find(Some(directory.path())).unwrap();
        assert_eq!(cache.package("registry.example/acme/provider:v1.0.0"), Some(path));
        for image in ["registry.example/acme/provider:v2.0.0", "../..", "/tmp", ""] {
            assert_eq!(cache.package(image), None, "{image}");
        }
    }
}
