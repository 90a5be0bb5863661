//! Packages: images that have a `package.yaml`, and what that says about the program to run.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::OFlags;
use serde_json::Value;

/// Where a package has its manifests.
const FILE: &str = "package.yaml";
/// On the manifest of a Function package: its program is run for every call, and reads and writes this.
pub const PROTOCOL_ANNOTATION: &str = "ferroplane.io/protocol";
/// The documents of a package besides its own are its CRDs, of which there may be hundreds.
const MAX_BYTES: u64 = 64 << 20;
/// The group of the document that is about the package itself.
const GROUP: &str = "meta.pkg.crossplane.io/";

/// What a package says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageMeta {
    pub(super) kind: String,
    /// The image with its program, if that is another one.
    pub(super) image: Option<String>,
    /// What its program reads and writes, if it is not a server but is run for every call.
    pub(super) protocol: Option<String>,
}

/// What the package in this directory says about itself. Nothing if it is not a package.
pub(super) fn read(root: &Path) -> Option<PackageMeta> {
    // The file itself and no link: a link could lead out of the image.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(root.join(FILE), flags, rustix::fs::Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(file).take(MAX_BYTES).read_to_string(&mut text).ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<PackageMeta> {
    text.split("\n---").filter(|document| document.contains(GROUP)).find_map(meta)
}

fn meta(document: &str) -> Option<PackageMeta> {
    let document = document.trim_start_matches("---");
    let value: Value = serde_saphyr::from_str(document).ok()?;
    let is_meta = value.get("apiVersion")?.as_str()?.starts_with(GROUP);
    let kind = value.get("kind")?.as_str()?.to_owned();
    let image = value.pointer("/spec/image").or_else(|| value.pointer("/spec/controller/image"));
    let image = image.and_then(Value::as_str).filter(|image| !image.is_empty()).map(str::to_owned);
    let annotations = value.pointer("/metadata/annotations");
    let protocol = annotations.and_then(|annotations| annotations.get(PROTOCOL_ANNOTATION)?.as_str());
    let protocol = protocol.map(str::to_owned);
    is_meta.then_some(PackageMeta { kind, image, protocol })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: &str = "---
apiVersion: meta.pkg.crossplane.io/v1
kind: Function
metadata: {name: function-greet}
spec: {image: registry.example.org/greet:v1}
";

    #[test]
    fn the_document_about_the_package_is_found_among_others() {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {}\n";
        let found = parse(&format!("{crd}{FUNCTION}")).expect("a package");
        assert_eq!(found.kind, "Function");
        assert_eq!(found.image.as_deref(), Some("registry.example.org/greet:v1"));
        assert_eq!(found.protocol, None);
        let annotated = FUNCTION.replace("}\nspec", ", annotations: {ferroplane.io/protocol: KRM}}\nspec");
        assert_eq!(parse(&annotated).expect("a package").protocol.as_deref(), Some("KRM"));
        assert_eq!(parse(crd), None);
        assert_eq!(parse("meta.pkg.crossplane.io/ is not YAML: ["), None);
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().expect("directory");
        std::fs::write(directory.path().join("elsewhere"), FUNCTION).expect("file");
        std::os::unix::fs::symlink("elsewhere", directory.path().join(FILE)).expect("link");
        assert_eq!(read(directory.path()), None);
        std::fs::remove_file(directory.path().join(FILE)).expect("removed");
        std::fs::write(directory.path().join(FILE), FUNCTION).expect("file");
        assert!(read(directory.path()).is_some());
    }
}
