//! Semantic versions and constraints on them, as `Masterminds/semver` reads and compares them.
//!
//! Versions are read leniently: `v1.2` is `1.2.0`. Constraints have commas, spaces, `||`, wildcards, tildes, carets and
//! ranges with a hyphen.
//!
//! Follows Masterminds/semver 3.4.0, `version.go`, `constraints.go`.

mod constraint;
mod version;

pub use constraint::Constraints;
pub use version::Version;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_leniently() {
        for (text, printed) in
            [("1", "1.0.0"), ("v1.2", "1.2.0"), ("01.2.3", "1.2.3"), ("1.2.3-a.1+b-c", "1.2.3-a.1+b-c")]
        {
            assert_eq!(Version::parse(text).map(|version| version.to_string()).as_deref(), Ok(printed));
        }
        for (text, problem) in [
            ("", "invalid semantic version"),
            ("1.2.3.4", "invalid semantic version"),
            ("1.2.beta", "invalid semantic version"),
            ("1.2.3-01", "version segment starts with 0"),
        ] {
            assert_eq!(Version::parse(text).as_ref().map_err(String::as_str), Err(problem), "{text}");
        }
    }

    #[test]
    fn constraints_hold_as_in_masterminds_semver() {
        for (constraint, holds, fails) in [
            ("^1.2.3", "1.9.0", "2.0.0"),
            ("^0.2", "0.2.9", "0.3.0"),
            ("~1.2", "1.2.9", "1.3.0"),
            (">1.2", "1.3.0", "1.2.9"),
            ("<=1", "1.9.9", "2.0.0"),
            ("1.2 - 1.4", "1.4.9", "1.5.0"),
            ("!=1.x", "2.0.0", "1.5.0"),
            (">=1.0, <2.0 || 3.x", "3.1.0", "2.5.0"),
            ("*", "1.2.3", "1.2.3-rc"),
            (">=1.2.0-0", "1.2.3-rc", "1.1.9"),
        ] {
            let constraints = Constraints::parse(constraint).unwrap();
            assert!(constraints.check(&Version::parse(holds).unwrap()), "{constraint} {holds}");
            assert!(!constraints.check(&Version::parse(fails).unwrap()), "{constraint} {fails}");
        }
        assert_eq!(Constraints::parse(">= foo").unwrap_err(), "improper constraint: >= foo");
    }
}
