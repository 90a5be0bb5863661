//! Shows a case to both engines and tells in what they differ.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::case::Case;
use crate::deliberate::{self, Deliberate, Views};
use crate::engine::{Engine, Verdict};
use crate::seen::seen;

/// Ferroplane and Crossplane.
#[derive(Debug, Clone)]
pub(crate) struct Engines {
    pub(crate) ours: Engine,
    pub(crate) theirs: Engine,
}

/// In what the engines differ.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// What is meant to be so.
    pub(crate) deliberate: BTreeSet<Deliberate>,
    /// What nobody has explained.
    pub(crate) differences: Vec<Difference>,
    /// How the engines ended, and what they wrote to standard error.
    pub(crate) verdicts: [Verdict; 2],
    pub(crate) words: [String; 2],
}

/// A place at which two documents differ.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) path: String,
    ours: Option<Value>,
    theirs: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        write!(
            f,
            "{}\n    ferroplane: {}\n    crossplane: {}",
            self.path,
            show(&self.ours),
            show(&self.theirs)
        )
    }
}

impl Engines {
    /// Nothing if the case is no request.
    pub(crate) async fn compare(&self, case: &Case) -> Option<Comparison> {
        let (ours, theirs) = (self.ours.run(case).await?, self.theirs.run(case).await?);
        let mut views = Views {
            case,
            our_words: &ours.words,
            their_words: &theirs.words,
            ours: seen(&ours),
            theirs: seen(&theirs),
        };
        let deliberate = deliberate::explain(&mut views);
        let mut differences = Vec::new();
        diff("", Some(&views.ours), Some(&views.theirs), &mut differences);
        let verdicts = [ours.verdict, theirs.verdict];
        Some(Comparison { deliberate, differences, verdicts, words: [ours.words, theirs.words] })
    }
}

pub(crate) fn diff(path: &str, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            let keys: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
            for key in keys {
                diff(&format!("{path}.{key}"), ours.get(key), theirs.get(key), found);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) => {
            for index in 0..ours.len().max(theirs.len()) {
                diff(&format!("{path}[{index}]"), ours.get(index), theirs.get(index), found);
            }
        }
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => {
            found.push(Difference { path: path.to_owned(), ours: ours.cloned(), theirs: theirs.cloned() });
        }
    }
}
