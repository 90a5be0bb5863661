//! Decides whether a built-in function runs in place of the package of a Function.

use super::{Catalogue, Version};
use ferroplane_api::image::ImageReference;
use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

/// Whether a package can be replaced by a built-in function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Native {
    /// This version of this function does the same as the package.
    Covered { function: String, version: Version },
    /// The function is built in, but not in this version of the package.
    NotCovered { function: String, covered: Vec<String> },
    /// The package is not one that we reproduce.
    Unknown,
}

/// The parts of a Function that the decision needs.
#[derive(Debug, Clone, Copy)]
pub struct Replaceable<'a> {
    pub name: &'a str,
    pub package: &'a str,
    /// The annotation `ferroplane.io/native`. An empty one has no effect.
    pub annotation: Option<&'a str>,
}

impl<'a> Replaceable<'a> {
    /// Of a Function as an object, with the package in its spec.
    pub fn of(function: &'a Object) -> Self {
        let package = function.get("spec").and_then(|spec| spec.get("package")).and_then(Value::as_str);
        Self {
            name: meta::name(function),
            package: package.unwrap_or_default(),
            annotation: Some(meta::annotation(function, keys::NATIVE)),
        }
    }
}

/// The built-in function that runs in place of a package: this version, or any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub function: String,
    pub version: Option<Version>,
}

/// Why no built-in function runs in place of a package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReplaced {
    #[error("is not to be replaced")]
    Refused,
    #[error("no built-in function has its name or that of its package")]
    NoBuiltIn,
    #[error("expected `true` or `false`, got `{0}`")]
    BadAnnotation(String),
    #[error("is not a version that the built-in `{function}` covers ({})", .covered.join("; "))]
    NotCovered { function: String, covered: Vec<String> },
    #[error("is not built in")]
    Unknown,
}

impl NotReplaced {
    /// Why no built-in function is called in place of a Function's package, and the remedy if the package is not run.
    pub fn remedy(&self) -> String {
        const DEVELOPMENT: &str = "serve it yourself and annotate the Function with \
            `render.crossplane.io/runtime: Development` and `render.crossplane.io/runtime-development-target: HOST:PORT`";
        const NATIVE: &str =
            "annotate it with `ferroplane.io/native: \"true\"` to call the built-in function of that name";
        match self {
            Self::NotCovered { function, covered } => format!(
                "the built-in `{function}` does not cover this version (it covers {}); name a version that is covered, {NATIVE}, or \
                 {DEVELOPMENT}",
                covered.join("; ")
            ),
            Self::Refused => format!(
                "its annotation `ferroplane.io/native: \"false\"` forbids the built-in function; {DEVELOPMENT}"
            ),
            Self::BadAnnotation(_) => format!("its annotation `ferroplane.io/native` is wrong: {self}"),
            Self::NoBuiltIn => format!("`ferroplane.io/native: \"true\"` has no effect: {self}"),
            Self::Unknown => format!("no built-in function does what it does; {DEVELOPMENT}"),
        }
    }
}

/// Decide whether a built-in function runs in place of a package.
pub fn replacement(
    function: Replaceable<'_>,
    catalogue: &Catalogue,
    native: impl FnOnce(&str) -> Native,
) -> Result<Replacement, NotReplaced> {
    let any_version = |name: &str| {
        catalogue.family(name).map(|family| Replacement { function: family.function.clone(), version: None })
    };
    let Replaceable { name, package, annotation } = function;
    match annotation {
        None | Some("") => {}
        Some("false") => return Err(NotReplaced::Refused),
        // A user who requires the built-in function gets the one of this name, whatever the source of the package.
        Some("true") => {
            let forced = any_version(ImageReference::parse(package).name()).or_else(|| any_version(name));
            return forced.ok_or(NotReplaced::NoBuiltIn);
        }
        Some(other) => return Err(NotReplaced::BadAnnotation(other.to_owned())),
    }
    match native(package) {
        Native::Covered { function, version } => Ok(Replacement { function, version: Some(version) }),
        Native::NotCovered { function, covered } => Err(NotReplaced::NotCovered { function, covered }),
        // By name alone only if there is no package: an unrelated function may have the same name.
        Native::Unknown => any_version(name).filter(|_| package.is_empty()).ok_or(NotReplaced::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::Family;

    fn decide(package: &str, annotation: Option<&str>) -> Result<Replacement, NotReplaced> {
        let mut catalogue = Catalogue::new("v0.1.0".parse().unwrap());
        catalogue.add(Family::unversioned("function-mine")).unwrap();
        let native = |package: &str| match ImageReference::parse(package).tag {
            Some("v1.0.0") => {
                Native::Covered { function: "function-mine".to_owned(), version: "v0.1.0".parse().unwrap() }
            }
            Some(_) => {
                Native::NotCovered { function: "function-mine".to_owned(), covered: vec!["1".to_owned()] }
            }
            None => Native::Unknown,
        };
        replacement(Replaceable { name: "function-mine", package, annotation }, &catalogue, native)
    }

    #[test]
    fn package_is_replaced_if_it_is_covered_or_somebody_insists() {
        let any = Replacement { function: "function-mine".to_owned(), version: None };
        let covered = Replacement { version: Some("v0.1.0".parse().unwrap()), ..any.clone() };
        assert_eq!(decide("org/function-mine:v1.0.0", None), Ok(covered.clone()));
        assert_eq!(decide("org/function-mine:v1.0.0", Some("")), Ok(covered));
        assert_eq!(decide("fork/function-mine:v9.0.0", Some("true")), Ok(any.clone()));
        assert_eq!(decide("", None), Ok(any));
        assert_eq!(decide("org/function-mine:v1.0.0", Some("false")), Err(NotReplaced::Refused));
        assert_eq!(decide("org/other", None), Err(NotReplaced::Unknown));
        assert!(matches!(decide("org/function-mine:v9.0.0", None), Err(NotReplaced::NotCovered { .. })));
        assert_eq!(
            decide("org/function-mine:v1.0.0", Some("yes")),
            Err(NotReplaced::BadAnnotation("yes".to_owned()))
        );
    }
}
