//! Where both sides differ, and whether we know why.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::exceptions::EXCEPTIONS;
use super::portrait::Portraits;

/// Where events are kept among objects.
pub(super) const EVENTS: &str = "events";

/// One value that is not the same on both sides.
#[derive(Debug)]
pub(super) struct Difference<'a> {
    pub(super) title: &'a str,
    /// Kind, namespace and name.
    pub(super) object: &'a str,
    pub(super) path: String,
    pub(super) theirs: Option<&'a Value>,
    pub(super) ours: Option<&'a Value>,
}

impl Difference<'_> {
    /// Whether only Crossplane has said this.
    pub(super) fn is_event(&self, words: &str) -> bool {
        self.object == EVENTS && self.path.ends_with(words) && self.ours.is_none()
    }

    /// Whether Crossplane has more in a list, all of which is about this.
    pub(super) fn is_more_about(&self, words: &str) -> bool {
        let Some(Value::Array(theirs)) = self.theirs else { return false };
        let ours = self.ours.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let more: Vec<_> = theirs.iter().filter(|item| !ours.contains(item)).collect();
        more.len() + ours.len() == theirs.len() && more.iter().all(|item| item.to_string().contains(words))
    }

    /// Whether we have more texts in a list, all of which are such.
    pub(super) fn is_more_of_ours(&self, is_such: impl Fn(&str) -> bool) -> bool {
        let Some(Value::Array(ours)) = self.ours else { return false };
        let theirs = self.theirs.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let more: Vec<_> = ours.iter().filter(|item| !theirs.contains(item)).collect();
        more.len() + theirs.len() == ours.len() && more.iter().all(|item| item.as_str().is_some_and(&is_such))
    }

    /// Whether it is about a composite resource: the kinds that chapters define.
    pub(super) fn is_about_composites(&self) -> bool {
        ["Site ", "Page ", "Strict ", "XSite "].iter().any(|kind| self.object.starts_with(kind))
    }

    fn describe(&self) -> String {
        let show = |value: Option<&Value>| match value {
            None => "-".to_owned(),
            Some(value) => {
                let text = value.to_string();
                if text.len() < 300 {
                    text
                } else {
                    format!("{}…", text.chars().take(300).collect::<String>())
                }
            }
        };
        let Self { title, object, path, .. } = self;
        format!("[{title}] {object} {path}\n    theirs {}\n    ours   {}", show(self.theirs), show(self.ours))
    }
}

/// Fails if they differ in a way that no exception explains, or if there is an exception that explains nothing.
pub(super) fn reach(theirs: &BTreeMap<String, Portraits>, ours: &BTreeMap<String, Portraits>) {
    let mut differences = Vec::new();
    let titles: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    for title in &titles {
        let [theirs, ours] =
            [theirs, ours].map(|album| album.get(*title).expect("both sides are photographed"));
        let objects: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for object in objects {
            compare(title, object, String::new(), theirs.get(object), ours.get(object), &mut differences);
        }
    }
    let mut explained: BTreeMap<&str, usize> =
        EXCEPTIONS.iter().map(|exception| (exception.name, 0)).collect();
    let mut unexplained = Vec::new();
    for difference in &differences {
        match EXCEPTIONS.iter().find(|exception| (exception.explains)(difference)) {
            Some(exception) => *explained.entry(exception.name).or_default() += 1,
            None => unexplained.push(difference.describe()),
        }
    }
    println!("{} photographs, {} values differ", titles.len(), differences.len());
    for (name, times) in &explained {
        println!("  {times:5} {name}");
    }
    println!("  {:5} unexplained\n{}", unexplained.len(), unexplained.join("\n"));
    let idle: Vec<_> = explained.iter().filter(|(_, times)| **times == 0).map(|(name, _)| name).collect();
    let is_whole = std::env::var_os("FERROPLANE_COMPARE_CHAPTERS").is_none();
    assert!(unexplained.is_empty(), "{} values differ, and nobody knows why", unexplained.len());
    assert!(idle.is_empty() || !is_whole, "these exceptions explain nothing: {idle:?}");
}

fn compare<'a>(
    title: &'a str,
    object: &'a str,
    path: String,
    theirs: Option<&'a Value>,
    ours: Option<&'a Value>,
    differences: &mut Vec<Difference<'a>>,
) {
    if let (Some(Value::Object(left)), Some(Value::Object(right))) = (theirs, ours) {
        let keys: BTreeSet<_> = left.keys().chain(right.keys()).collect();
        for key in keys {
            let path = format!("{path}/{key}");
            compare(title, object, path, left.get(key), right.get(key), differences);
        }
    } else if object == EVENTS && theirs.is_some() && ours.is_some() {
        // Both have said it, in their own words.
    } else if let (Some(Value::Array(left)), Some(Value::Array(right))) = (theirs, ours)
        && left.len() == right.len()
    {
        for (place, (left, right)) in left.iter().zip(right).enumerate() {
            compare(title, object, format!("{path}/{place}"), Some(left), Some(right), differences);
        }
    } else if theirs != ours {
        differences.push(Difference { title, object, path, theirs, ours });
    }
}
