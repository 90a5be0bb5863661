//! Constraints on versions.
//!
//! Follows Masterminds/semver 3.4.0, `constraints.go`.

use std::cmp::Ordering;
use std::sync::LazyLock;

use super::version::{Version, compare_prereleases};
use crate::regexp::Expression;

/// Alternatives, each of which wants all of its comparisons to hold.
#[derive(Debug, Clone)]
pub struct Constraints {
    alternatives: Vec<Vec<Comparison>>,
}

#[derive(Debug, Clone)]
struct Comparison {
    operator: Operator,
    version: Version,
    wildcard: Wildcard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// Which part of a version stands for anything: it and those behind it are `x`, `*`, or missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wildcard {
    None,
    Patch,
    Minor,
    Major,
}

/// An operator, which may be missing. The order matters: of several that fit, the first is taken.
const OPERATOR: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

// The bars inside the brackets are the original's, which meant alternatives: `1|2` gets past this, and fails
// when the version is read.
const VERSION: &str = concat!(
    r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?",
    r"(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?",
    r"(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?",
);

static SINGLE: LazyLock<Expression> =
    LazyLock::new(|| compile(&format!(r"^\s*({OPERATOR})\s*({VERSION})\s*$")));
// Without anchors, because a range may stand among other constraints.
static RANGE: LazyLock<Expression> =
    LazyLock::new(|| compile(&format!(r"\s*({VERSION})\s+-\s+({VERSION})\s*")));
static EACH: LazyLock<Expression> = LazyLock::new(|| compile(&format!(r"({OPERATOR})\s*({VERSION})")));
static ALL: LazyLock<Expression> = LazyLock::new(|| {
    compile(&format!(r"^(\s*({OPERATOR})\s*({VERSION})\s*)((?:\s+|,\s*)({OPERATOR})\s*({VERSION})\s*)*$"))
});

fn compile(pattern: &str) -> Expression {
    Expression::new(pattern).expect("the expression is a constant")
}

impl Constraints {
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = rewrite_ranges(text);
        let alternatives = text.split("||").map(parse_alternative).collect::<Result<_, _>>()?;
        Ok(Self { alternatives })
    }

    /// Whether the version is one of those that are wanted. A prerelease is one only if the alternative names one.
    pub fn check(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|comparisons| {
            let names_prerelease =
                comparisons.iter().any(|comparison| !comparison.version.prerelease.is_empty());
            let is_candidate = version.prerelease.is_empty() || names_prerelease;
            // One comparison that names a prerelease opens the whole alternative, as `containsPre` does in
            // constraints.go.
            is_candidate && comparisons.iter().all(|comparison| comparison.check(version))
        })
    }
}

fn parse_alternative(text: &str) -> Result<Vec<Comparison>, String> {
    if !ALL.is_match(text) {
        return Err(format!("improper constraint: {text}"));
    }
    EACH.find_all(text, usize::MAX).into_iter().map(Comparison::parse).collect()
}

/// `1.2 - 1.4` is `>= 1.2, <= 1.4`.
fn rewrite_ranges(text: &str) -> String {
    let mut rewritten = text.to_owned();
    for groups in RANGE.captures_all(text, usize::MAX) {
        let group = |number: usize| groups[number].clone().map_or("", |range| &text[range]);
        // Each version has nine groups inside its own.
        rewritten = rewritten.replacen(group(0), &format!(">= {}, <= {} ", group(1), group(11)), 1);
    }
    rewritten
}

impl Comparison {
    fn parse(text: &str) -> Result<Self, String> {
        let found = SINGLE.captures_all(text, 1);
        let groups = found.first().ok_or_else(|| format!("improper constraint: {text}"))?;
        let group = |number: usize| groups[number].clone().map_or("", |range| &text[range]);
        let part = |number| group(number).strip_prefix('.').unwrap_or(group(number));
        let is_any = |part: &str| matches!(part, "" | "x" | "X" | "*");
        let [major, minor, patch, prerelease] = [part(3), part(4), part(5), group(6)];
        let (wildcard, version) = if is_any(major) {
            (Wildcard::Major, format!("0.0.0{prerelease}"))
        } else if is_any(minor) {
            (Wildcard::Minor, format!("{major}.0.0{prerelease}"))
        } else if is_any(patch) {
            (Wildcard::Patch, format!("{major}.{minor}.0{prerelease}"))
        } else {
            (Wildcard::None, group(2).to_owned())
        };
        let version = Version::parse(&version).map_err(|_| "constraint parser error".to_owned())?;
        let operator = match group(1) {
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            ">=" | "=>" => Operator::GreaterOrEqual,
            "<=" | "=<" => Operator::LessOrEqual,
            "~" | "~>" => Operator::Tilde,
            "^" => Operator::Caret,
            _ => Operator::Equal,
        };
        Ok(Self { operator, version, wildcard })
    }

    fn check(&self, version: &Version) -> bool {
        let order = version.compare(&self.version);
        match self.operator {
            Operator::Equal if self.wildcard == Wildcard::None => order == Ordering::Equal,
            Operator::Equal | Operator::Tilde => self.is_within_minor(version),
            Operator::NotEqual => self.differs(version),
            Operator::Greater => self.is_below(version),
            Operator::Less => order == Ordering::Less,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::LessOrEqual => self.is_at_least(version),
            Operator::Caret => self.is_compatible(version),
        }
    }

    fn differs(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if self.wildcard == Wildcard::None {
            return version.compare(wanted) != Ordering::Equal;
        }
        if wanted.major != version.major {
            return true;
        }
        match self.wildcard {
            Wildcard::Minor => false,
            _ if wanted.minor != version.minor => true,
            Wildcard::Patch => {
                compare_prereleases(&version.prerelease, &wanted.prerelease) != Ordering::Equal
            }
            // What is left of `!= *`.
            _ => wanted.patch != version.patch || version.compare(wanted) != Ordering::Equal,
        }
    }

    /// `>`: what is not written counts as the largest that it could be.
    fn is_below(&self, version: &Version) -> bool {
        let wanted = &self.version;
        match self.wildcard {
            Wildcard::Patch if version.major == wanted.major => version.minor > wanted.minor,
            Wildcard::Minor if version.major == wanted.major => false,
            Wildcard::Patch | Wildcard::Minor => version.major > wanted.major,
            Wildcard::Major if version.major > wanted.major => true,
            Wildcard::Major | Wildcard::None => version.compare(wanted) == Ordering::Greater,
        }
    }

    /// `<=`.
    fn is_at_least(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if self.wildcard == Wildcard::None {
            return version.compare(wanted) != Ordering::Greater;
        }
        let is_newer_minor = version.major == wanted.major && version.minor > wanted.minor;
        version.major <= wanted.major && !(is_newer_minor && self.wildcard != Wildcard::Minor)
    }

    /// `~`: the same minor version, and no older.
    fn is_within_minor(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less {
            return false;
        }
        let has_wildcard = matches!(self.wildcard, Wildcard::Minor | Wildcard::Patch);
        // `~0.0.0` lets everything pass, and so does `*`.
        if (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0) && !has_wildcard {
            return true;
        }
        version.major == wanted.major && (version.minor == wanted.minor || self.wildcard == Wildcard::Minor)
    }

    /// `^`: the same first part that is not zero, and no older.
    fn is_compatible(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less || version.major != wanted.major {
            return false;
        }
        if wanted.major > 0 || self.wildcard == Wildcard::Minor {
            return true;
        }
        if version.minor != wanted.minor {
            return false;
        }
        wanted.minor > 0 || self.wildcard == Wildcard::Patch || version.patch == wanted.patch
    }
}
