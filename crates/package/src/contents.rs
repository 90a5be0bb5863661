//! Reads the stream of documents in a `package.yaml`.
//!
//! Follows crossplane-runtime 2.4.0, `pkg/xpkg/parser/parser.go` and `pkg/xpkg/scheme.go`: each document is the manifest of the
//! package or an object of a kind that packages may bring. Any other kind makes the whole package unreadable.

use ferroplane_api::{Object, PackageKind, keys, meta};
use ferroplane_golang::yaml::Documents;
use serde_json::Value;

/// As long as a `package.yaml` may be.
pub const MAX_BYTES: usize = 200 << 20;
/// As many documents as may stand in it. The largest packages that exist have about a thousand.
pub const MAX_OBJECTS: usize = 10_000;
/// As many values, of objects and of all that is in them, as may stand in it. One may take some hundred bytes of memory: an object with a
/// single field does.
pub const MAX_VALUES: usize = 2_000_000;
/// As many lines, items and fields as one document may have. They are counted before it is read: a byte or two of text become a
/// value.
pub const MAX_PARTS: usize = 1_000_000;

/// The kinds that a package may bring, by group and version. A star stands for every kind of the version.
const KINDS: &[(&str, &[&str])] = &[
    ("apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"]),
    ("admissionregistration.k8s.io/v1", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
    (
        "apiextensions.crossplane.io/v1",
        &["CompositeResourceDefinition", "Composition", "CompositionRevision"],
    ),
    ("apiextensions.crossplane.io/v2", &["CompositeResourceDefinition"]),
    (
        "apiextensions.crossplane.io/v1alpha1",
        &["ManagedResourceDefinition", "ManagedResourceActivationPolicy", "Usage", "EnvironmentConfig"],
    ),
    ("ops.crossplane.io/v1alpha1", &["Operation", "CronOperation", "WatchOperation"]),
];

/// What stands in a package.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PackageContents {
    /// The manifests. A valid package has one.
    pub manifests: Vec<Object>,
    /// The objects that it brings, in their order.
    pub objects: Vec<Object>,
}

/// Why what is in a package cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadablePackage {
    #[error("it is longer than {} MiB", MAX_BYTES >> 20)]
    TooLong,
    #[error("it holds more than {MAX_OBJECTS} objects")]
    TooMany,
    #[error("it holds more than {MAX_VALUES} values")]
    TooManyValues,
    #[error("the document in line {line} has more than {MAX_PARTS} lines, items and fields")]
    TooManyParts { line: usize },
    #[error("cannot read the document in line {line}: {reason}")]
    Document { line: usize, reason: String },
    #[error("no package may bring {kind} of {api_version} (line {line})")]
    Kind { line: usize, api_version: String, kind: String },
}

/// What stands in a `package.yaml`.
pub fn read_package(text: &str) -> Result<PackageContents, UnreadablePackage> {
    if text.len() > MAX_BYTES {
        return Err(UnreadablePackage::TooLong);
    }
    check_parts(text)?;
    let (mut contents, mut size) = (PackageContents::default(), Size::default());
    for document in Documents::new(text) {
        let document = document.map_err(|error| UnreadablePackage::Document {
            line: error.line + error.line_in_document.unwrap_or(1) - 1,
            reason: error.reason,
        })?;
        let line = document.line;
        // Aliases make more of a document than stands in it.
        size.add(&document.value);
        size.check()?;
        match document.value {
            // Nothing, or comments only.
            Value::Null => {}
            Value::Object(object) => contents.add(object, line)?,
            _ => {
                let reason = "it is not an object".to_owned();
                return Err(UnreadablePackage::Document { line, reason });
            }
        }
    }
    Ok(contents)
}

impl PackageContents {
    fn add(&mut self, object: Object, line: usize) -> Result<(), UnreadablePackage> {
        let (api_version, kind) = (meta::api_version(&object), meta::kind(&object));
        if is_manifest(api_version, kind) {
            self.manifests.push(object);
        } else if is_known(api_version, kind) {
            self.objects.push(object);
        } else {
            let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
            return Err(UnreadablePackage::Kind { line, api_version, kind });
        }
        if self.manifests.len() + self.objects.len() > MAX_OBJECTS {
            return Err(UnreadablePackage::TooMany);
        }
        Ok(())
    }
}

/// The size of what was read.
#[derive(Default)]
struct Size {
    values: usize,
    text: usize,
}

impl Size {
    fn add(&mut self, value: &Value) {
        self.values += 1;
        match value {
            Value::Array(items) => {
                for item in items {
                    self.add(item);
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.text += key.len();
                    self.add(value);
                }
            }
            Value::String(text) => self.text += text.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn check(&self) -> Result<(), UnreadablePackage> {
        if self.text > MAX_BYTES {
            return Err(UnreadablePackage::TooLong);
        }
        if self.values > MAX_VALUES { Err(UnreadablePackage::TooManyValues) } else { Ok(()) }
    }
}

/// Refuse a document that could become too many values, before any memory is taken for them.
fn check_parts(text: &str) -> Result<(), UnreadablePackage> {
    let (mut line, mut parts) = (1, 0);
    for (number, content) in text.split('\n').enumerate() {
        if content.starts_with("---") {
            (line, parts) = (number + 1, 0);
        }
        parts += 1 + parts_of(content.as_bytes());
        if parts > MAX_PARTS {
            return Err(UnreadablePackage::TooManyParts { line });
        }
    }
    Ok(())
}

/// How many values can begin within a line. Rather too many: what stands in texts is counted, too.
fn parts_of(line: &[u8]) -> usize {
    // Commas and brackets in JSON and in YAML like it, and parts of what YAML takes for ends of lines.
    let marks = line.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b'\r' | 0x85 | 0xa8 | 0xa9));
    let is_item = |pair: &&[u8]| matches!(pair, [b'-' | b'?', b' ' | b'\t']);
    marks.count() + line.windows(2).filter(is_item).count()
}

fn is_manifest(api_version: &str, kind: &str) -> bool {
    meta::group(api_version) == keys::META_PKG
        && match (PackageKind::of(kind), meta::version(api_version)) {
            (Some(_), "v1") => true,
            (Some(kind), "v1beta1") => kind == PackageKind::Function,
            (Some(kind), "v1alpha1") => kind != PackageKind::Function,
            _ => false,
        }
}

fn is_known(api_version: &str, kind: &str) -> bool {
    KINDS.iter().any(|(known, kinds)| *known == api_version && kinds.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: f}\n";

    #[test]
    fn documents_are_manifests_or_objects() {
        let text = format!(
            "# a comment\n---\n---\n{MANIFEST}---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        );
        let contents = read_package(&text).unwrap();
        assert_eq!((contents.manifests.len(), contents.objects.len()), (1, 1));
        assert_eq!(read_package("").unwrap(), PackageContents::default());
    }

    #[test]
    fn unknown_kind_makes_the_package_unreadable() {
        for (text, problem) in [
            ("apiVersion: v1\nkind: Secret\n", "no package may bring Secret of v1 (line 1)"),
            (
                "apiVersion: meta.pkg.crossplane.io/v1alpha1\nkind: Function\n",
                "no package may bring Function of meta.pkg.crossplane.io/v1alpha1 (line 1)",
            ),
            ("- a\n- b\n", "cannot read the document in line 1: it is not an object"),
        ] {
            assert_eq!(read_package(text).unwrap_err().to_string(), problem);
        }
        let broken = read_package("a: 1\n---\nb: [").unwrap_err().to_string();
        assert!(broken.starts_with("no package may bring") || broken.starts_with("cannot read"), "{broken}");
    }

    #[test]
    fn endless_packages_are_refused() {
        let many = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
            .repeat(MAX_OBJECTS + 1);
        assert_eq!(read_package(&many), Err(UnreadablePackage::TooMany));
    }

    #[test]
    fn packages_of_too_many_values_are_refused_before_they_are_read() {
        let too_many = Err(UnreadablePackage::TooManyParts { line: 4 });
        for item in ["0,", "[],", "{},", "a: 0,", "\n- 0", "- ", "? ", "\r"] {
            let many = format!("{MANIFEST}---\na: [{}", item.repeat(MAX_PARTS));
            assert_eq!(read_package(&many), too_many, "{item:?}");
        }
    }

    #[test]
    fn aliases_count_as_what_they_stand_for() {
        let document = |content: &str, times: usize| {
            let aliases = "*it, ".repeat(times);
            let kind = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition";
            format!("---\n{kind}\na: &it {content}\nb: [{aliases}]\n")
        };
        let long = document(&"x".repeat(1 << 20), 40);
        assert!(read_package(&long).is_ok());
        assert_eq!(read_package(&long.repeat(6)), Err(UnreadablePackage::TooLong));
        let many = document(&format!("[{}]", "0, ".repeat(1000)), 300);
        assert!(read_package(&many).is_ok());
        assert_eq!(read_package(&many.repeat(7)), Err(UnreadablePackage::TooManyValues));
    }
}
