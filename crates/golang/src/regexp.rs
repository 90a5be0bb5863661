//! Regular expressions as Go reads them, run by an engine that takes linear time.
//!
//! Compositions are written against functions in Go, so an expression has to mean here what it means there,
//! and a mistake has to be named in the same words. [`translate`] reads Go's syntax, refuses what Go refuses,
//! and writes the expression down for the `regex` crate, which is richer and reads some of it differently.
//!
//! Follows Go 1.26, `regexp/regexp.go`.

mod class;
mod translate;
mod weight;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};

/// What [`MAX_DEPTH`] means to the `regex` crate, where each group may add an alternation, a repetition and a class.
const NEST_LIMIT: u32 = 500;

/// Groups can be nested this deep. It bounds how deep any recursion over the expression goes.
// Go allows 1000 (`maxHeight` in regexp/syntax/parse.go), but has a stack that grows; threads here
// do not.
const MAX_DEPTH: usize = 100;

/// How heavy an expression may be: about 10 MiB and a tenth of a second when it is compiled.
const MAX_WEIGHT: u64 = 1_000_000;

/// A regular expression with the meaning it has in Go.
#[derive(Clone, Debug)]
pub struct Expression {
    matcher: Matcher,
    /// The name of each group, in order; empty for a group without one.
    names: Vec<String>,
}

/// Most expressions that name a resource are just its name: those need no engine.
#[derive(Clone, Debug)]
enum Matcher {
    Literal(String),
    Engine(Arc<Engine>),
}

/// An expression that is compiled when it is first used. Schemas contain thousands that are never used, and a user who writes one must
/// not be able to make the reader of it work: what compiling costs is known from [`weight`] without doing it.
#[derive(Debug)]
struct Engine {
    pattern: String,
    weight: u64,
    compiled: OnceLock<Option<Regex>>,
}

impl Engine {
    /// The compiled expression. There always is one: the syntax is valid, and the weight was checked.
    fn regex(&self) -> Option<&Regex> {
        let compile =
            // The crate's own limit is off: this function cannot report that an expression is refused which was
            // accepted before.
            || RegexBuilder::new(&self.pattern).size_limit(usize::MAX).nest_limit(NEST_LIMIT).build().ok();
        self.compiled.get_or_init(compile).as_ref()
    }
}

/// Why an expression is none, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    problem: &'static str,
    culprit: String,
}

impl Expression {
    /// Read an expression.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Self::bounded(pattern, MAX_WEIGHT)
    }

    /// Read an expression that may be so heavy, in the unit of [`Expression::weight`].
    pub fn bounded(pattern: &str, heaviest: u64) -> Result<Self, Error> {
        // Without any of these there is nothing that could be a mistake, either, so that the check
        // of the syntax can be skipped, too.
        if !pattern.contains(['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$']) {
            return Ok(Self { matcher: Matcher::Literal(pattern.to_owned()), names: Vec::new() });
        }
        let translated = translate::translate(pattern)?;
        // The translation is valid syntax by construction; only its size is left as a reason to fail.
        let weight = weight::of(&translated.pattern, NEST_LIMIT).filter(|weight| *weight <= heaviest);
        let Some(weight) = weight else { return Err(Error::new("expression too large", pattern)) };
        let engine = Engine { pattern: translated.pattern, weight, compiled: OnceLock::new() };
        Ok(Self { matcher: Matcher::Engine(Arc::new(engine)), names: translated.names })
    }

    /// What compiling the expression costs, which it does when it is first used: the number of its states, about.
    pub fn weight(&self) -> u64 {
        match &self.matcher {
            Matcher::Literal(_) => 0,
            Matcher::Engine(engine) => engine.weight,
        }
    }

    /// Whether the expression matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.matcher {
            Matcher::Literal(literal) => text.contains(literal.as_str()),
            Matcher::Engine(engine) => engine.regex().is_some_and(|regex| regex.is_match(text)),
        }
    }

    /// The first match, if there is one.
    pub fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.group(text, 0)
    }

    /// So many matches that do not overlap, from the beginning.
    pub fn find_all<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        self.find_each(text).take(limit).map(|place| &text[place]).collect()
    }

    /// Where the matches that do not overlap are, from the beginning. Each is searched for when it is asked for, and each
    /// search may read all that is left of the text.
    pub fn find_each<'a>(&'a self, text: &'a str) -> Box<dyn Iterator<Item = Range<usize>> + 'a> {
        match &self.matcher {
            Matcher::Literal(literal) if !literal.is_empty() => {
                Box::new(text.match_indices(literal.as_str()).map(|(at, found)| at..at + found.len()))
            }
            Matcher::Literal(_) => {
                // Nothing is found before every character, and at the end.
                let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                Box::new(ends.map(|at| at..at))
            }
            Matcher::Engine(engine) => {
                let found = engine.regex().into_iter().flat_map(|regex| regex.find_iter(text));
                Box::new(found.map(|found| found.range()))
            }
        }
    }

    /// What the group of this number took of the first match, if there is one; zero is all of the match.
    pub fn group<'t>(&self, text: &'t str, number: usize) -> Option<&'t str> {
        match &self.matcher {
            Matcher::Literal(literal) => {
                let start = text.find(literal.as_str()).filter(|_| number == 0)?;
                Some(&text[start..start + literal.len()])
            }
            Matcher::Engine(engine) => {
                let captures = engine.regex()?.captures(text).filter(|captures| number < captures.len())?;
                // Go does not tell a group that took no part from one that took nothing: both are
                // empty text.
                Some(captures.get(number).map_or("", |group| group.as_str()))
            }
        }
    }

    /// Where so many matches that do not overlap are, from the beginning, and where each of their groups is; the first
    /// is all of the match. A group that took no part has no place.
    pub fn captures_all(&self, text: &str, limit: usize) -> Vec<Vec<Option<Range<usize>>>> {
        self.captures_each(text).take(limit).collect()
    }

    /// Like [`Self::captures_all`], but each match is searched for when it is asked for.
    pub fn captures_each<'a>(
        &'a self,
        text: &'a str,
    ) -> Box<dyn Iterator<Item = Vec<Option<Range<usize>>>> + 'a> {
        match &self.matcher {
            Matcher::Literal(_) => Box::new(self.find_each(text).map(|place| vec![Some(place)])),
            Matcher::Engine(engine) => {
                let found = engine.regex().into_iter().flat_map(|regex| regex.captures_iter(text));
                let places = |captures: regex::Captures<'_>| {
                    captures.iter().map(|group| group.map(|group| group.range())).collect()
                };
                Box::new(found.map(places))
            }
        }
    }

    /// The name of each group, in order; empty for a group without one.
    pub fn group_names(&self) -> &[String] {
        &self.names
    }

    /// The groups of the first match with their names, if there is one. A group that took no part is empty.
    pub fn groups<'a>(&'a self, text: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
        match &self.matcher {
            Matcher::Literal(literal) => text.contains(literal.as_str()).then(Vec::new),
            Matcher::Engine(engine) => engine.regex()?.captures(text).map(|captures| {
                let values = captures.iter().skip(1).map(|group| group.map_or("", |group| group.as_str()));
                self.names.iter().map(String::as_str).zip(values).collect()
            }),
        }
    }
}

/// Text that matches itself, whatever it has.
pub fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len());
    for byte in text {
        if br"\.+*?()|[]{}^$".contains(byte) {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted
}

impl Error {
    fn new(problem: &'static str, culprit: impl Into<String>) -> Self {
        Self { problem, culprit: culprit.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.problem, self.culprit)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Expression::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
    }

    fn mistake(pattern: &str) -> String {
        Expression::new(pattern).expect_err(pattern).to_string()
    }

    #[test]
    fn plain_text_is_found_anywhere() {
        assert!(matches("bucket", "my-bucket-1"));
        assert!(!matches("bucket", "queue"));
        assert!(matches("", ""));
    }

    #[test]
    fn classes_are_those_of_ascii() {
        assert!(!matches(r"^\w$", "é"));
        assert!(!matches(r"^\d$", "٣"));
        assert!(!matches(r"\s", "\u{b}"));
        assert!(matches(r"[[:space:]]", "\u{b}"));
        assert!(matches(r"é\bx", "éx"));
        assert!(matches(r"^a\Bb$", "ab"));
        assert!(matches(r"^[^\D5]$", "4"));
        assert!(!matches(r"^[^\D5]$", "5"));
        assert!(matches(r"^\pL\p{Greek}\P{Lu}\p{^Lu}$", "éαaa"));
    }

    #[test]
    fn what_only_the_engine_knows_is_plain_text() {
        assert!(matches(r"^[a&&b]+$", "a&b"));
        assert!(matches(r"^[[a]$", "["));
        assert!(matches(r"^[--a~~bc]+$", "a~b-c"));
        assert!(matches(r"^x{,5}$", "x{,5}"));
        assert!(matches(r"^{}{a}$", "{}{a}"));
        assert!(matches(r"^\Qa.b\E$", "a.b"));
        assert!(!matches(r"^\Qa.b\E$", "axb"));
        assert!(matches(r"^[]a]$", "]"));
        assert!(matches(r"^[a-]$", "-"));
        assert!(matches(r"^\101\x41\x{41}$", "AAA"));
        assert!(matches(r"^[\x{d800}-\x{dfff}]?$", ""));
    }

    #[test]
    fn flags_last_until_their_group_ends() {
        assert!(matches(r"^(?i:A)b$", "ab"));
        assert!(!matches(r"^(?i:a)b$", "aB"));
        assert!(matches(r"(?i)^a|b$", "xB"));
        assert!(matches(r"(?s)a.b", "a\nb"));
        assert!(matches(r"(?m)^b$", "a\nb"));
        assert!(matches(r"(?)a", "a"));
        assert!(matches(r"^a(?i)*B$", "aab"));
    }

    #[test]
    fn groups_are_named() {
        let expression = Expression::new(r"(?P<Error>\w+): (?<1>.)(x)?").unwrap();
        assert_eq!(expression.groups("failed: y"), Some(vec![("Error", "failed"), ("1", "y"), ("", "")]));
        assert_eq!(expression.groups("nothing"), None);
    }

    #[test]
    fn mistakes_are_named_as_in_go() {
        for (pattern, expected) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a|+?", "missing argument to repetition operator: `+?`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*{2}", "invalid nested repetition operator: `*{2}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("[a", "missing closing ]: `[a`"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
            (r"\pX", r"invalid character class range: `\pX`"),
            (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\xg", r"invalid escape sequence: `\xg`"),
            (r"a\C", r"invalid escape sequence: `\C`"),
            (r"\", "trailing backslash at end of expression: ``"),
            ("(?x)", "invalid or unsupported Perl syntax: `(?x`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
            ("(?", "invalid or unsupported Perl syntax: `(?`"),
            ("(?P<a.b>c)", "invalid named capture: `(?P<a.b>`"),
            ("(?P<a", "invalid named capture: `(?P<a`"),
        ] {
            assert_eq!(mistake(pattern), format!("error parsing regexp: {expected}"), "{pattern}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "(".repeat(5_000) + "a" + &")".repeat(5_000);
        assert!(mistake(&deep).starts_with("error parsing regexp: expression nests too deeply"));
        let fine = "(?:|".repeat(MAX_DEPTH - 1) + "[a]" + &")*".repeat(MAX_DEPTH - 1);
        assert!(matches(&fine, "a"));
        assert!(
            mistake(r"(\pL{100}\pN{100}\pL{100}){10}")
                .starts_with("error parsing regexp: expression too large")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_an_expression_or_a_mistake(pattern in r"[a-c0-2\[\](){}|*+?.^$\\:PpQEdwx<>,i\-&é]{0,24}", text in "[abc0é]{0,6}") {
            if let Ok(expression) = Expression::new(&pattern) {
                prop_assert_eq!(expression.is_match(&text), expression.groups(&text).is_some());
            }
        }
    }
}
