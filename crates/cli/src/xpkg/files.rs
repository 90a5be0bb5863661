//! Files that hold packages.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ferroplane_image::archive::{Imported, Selection, export_docker, import};
use ferroplane_image::store::Store;
use ferroplane_image::{Descriptor, Digest, Document, MAX_DOCUMENT_BYTES, media_type};
use ferroplane_package::image::annotate;

/// The extension of files that hold a package.
pub(crate) const EXTENSION: &str = "xpkg";

/// The only package in the current directory.
pub(crate) fn find_package() -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(".").context("cannot list the current directory")?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| PathBuf::from(entry.file_name())))
        .filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION))
        .collect();
    found.sort();
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => bail!("cannot find a package in the current directory: there is no file `*.xpkg`; name one"),
        [first, second, ..] => bail!(
            "cannot choose a package: the current directory has `{}` and `{}`; name one",
            first.display(),
            second.display()
        ),
    }
}

/// The images of a file or OCI layout, each with the annotations of a package, and what keeps them in the store.
pub(crate) fn import_packages(store: &Store, path: &Path) -> anyhow::Result<(Vec<Descriptor>, Imported)> {
    let imported = import(path, store, &Selection::default())
        .with_context(|| format!("cannot read the package in `{}`", path.display()))?;
    let images = images_of(store, &imported.descriptor)?;
    let annotated: Result<Vec<_>, _> = images.iter().map(|image| annotate(store, &image.digest)).collect();
    let annotated = annotated.with_context(|| format!("cannot read the package in `{}`", path.display()))?;
    Ok((annotated, imported))
}

/// The images that something in the store is: one, or those of an index. Attestations beside them are none.
pub(crate) fn images_of(store: &Store, descriptor: &Descriptor) -> anyhow::Result<Vec<Descriptor>> {
    if !media_type::is_index(&descriptor.media_type) {
        return Ok(vec![descriptor.clone()]);
    }
    let content = store.read_to_vec(&descriptor.digest, MAX_DOCUMENT_BYTES)?;
    let Document::Index(index) = Document::parse(&descriptor.media_type, &content)? else {
        return Ok(vec![descriptor.clone()]);
    };
    let is_image = |entry: &Descriptor| {
        media_type::is_manifest(&entry.media_type)
            && entry.platform.as_ref().is_none_or(|platform| platform.os != "unknown")
    };
    Ok(index.manifests.into_iter().filter(is_image).collect())
}

/// Write an image as a file that this program and Crossplane's command line read. It is there completely or not at all.
pub(crate) fn write_package(store: &Store, image: &Digest, path: &Path) -> anyhow::Result<()> {
    write_file(path, |file| {
        export_docker(store, image, &[], file)
            .with_context(|| format!("cannot write the package to `{}`", path.display()))
    })
}

/// Write a file that is there completely or not at all.
pub(crate) fn write_file(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let failed = || format!("cannot write `{}`", path.display());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)
        .with_context(failed)?;
    let mut writer = BufWriter::new(file.as_file());
    content(&mut writer)?;
    writer.flush().with_context(failed)?;
    drop(writer);
    file.persist(path).with_context(failed)?;
    Ok(())
}
