//! Damaged and forged files of packages: each is refused, or is the package that it was.

use std::fs;
use std::path::Path;

use ferroplane_image::archive::{Selection, export_tarball, import};
use ferroplane_package::image::annotate;
use ferroplane_package::{OpenedPackage, open};

use crate::fixture::Fixture;
use crate::write::{file, package};

const PACKAGES: usize = 100;

/// What is read from a file, or why not.
fn read(path: &Path) -> Result<OpenedPackage, String> {
    let fixture = Fixture::new();
    let imported =
        import(path, &fixture.store, &Selection::default()).map_err(|error| format!("import: {error}"))?;
    let image = annotate(&fixture.store, &imported.descriptor.digest).map_err(|error| error.to_string())?;
    open(&fixture.store, &image.digest).map_err(|error| error.to_string())
}

/// Flip one bit in each of a hundred copies. Returns how many were refused.
fn flip(content: &[u8], honest: &OpenedPackage) -> usize {
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut refused = 0;
    for number in 0..PACKAGES {
        let mut copy = content.to_vec();
        let at = number * (content.len() - 1) / (PACKAGES - 1);
        copy[at] ^= 1 << (number % 8);
        fs::write(path.path(), &copy).unwrap();
        match read(path.path()) {
            // Padding, or names that nobody reads: the package is the same to the last byte.
            Ok(opened) => assert_eq!(opened, *honest, "byte {at}"),
            Err(reason) => {
                assert!(!reason.is_empty());
                refused += 1;
            }
        }
    }
    refused
}

#[test]
fn package_with_a_flipped_bit_is_refused_or_the_same() {
    let fixture = Fixture::new();
    let image = package(&fixture);
    let honest = open(&fixture.store, &image.digest).unwrap();
    let mut layout = Vec::new();
    export_tarball(&fixture.store, &[(image.clone(), None)], &mut layout).unwrap();
    for content in [file(&fixture, &image), layout] {
        let refused = flip(&content, &honest);
        // At least what is compressed, or has a checksum, is noticed.
        assert!(refused > PACKAGES / 5, "only {refused} of {PACKAGES} were refused");
    }
}

#[test]
fn package_that_ends_early_is_refused() {
    let fixture = Fixture::new();
    let image = package(&fixture);
    let content = file(&fixture, &image);
    let path = tempfile::NamedTempFile::new().unwrap();
    for length in [0, 1, 511, 512, 600, content.len() / 2, content.len() - 1500] {
        fs::write(path.path(), &content[..length]).unwrap();
        assert!(read(path.path()).is_err(), "{length} bytes");
    }
}
