//! Selects the composition of a composite resource, and its revision.
//!
//! A selection is kept: a composition is selected only while none is named. Of several candidates the first by name is selected, so that
//! the result is always the same.

use std::collections::BTreeMap;
use std::fmt;

use ferroplane_api::{Cause, Object, TypeRef};
use serde_json::Value;

use crate::composite::{Machinery, match_labels};
use crate::inputs::Layout;

type Labels = BTreeMap<String, String>;

/// What a composite resource says about its composition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preferences {
    pub composition: Option<String>,
    pub selector: Option<Labels>,
    pub revision: Option<String>,
    pub revision_selector: Option<RevisionSelector>,
    /// Keep the revision until a user changes it.
    pub is_manual: bool,
}

/// What a definition says about the compositions of its composite resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The only composition that is allowed.
    pub enforced: Option<String>,
    /// The composition for composite resources that name none.
    pub composition: Option<String>,
    pub revision_selector: Option<RevisionSelector>,
}

/// Selects revisions by their labels. Composite resources can use labels only, definitions expressions, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevisionSelector {
    labels: Labels,
    expressions: Vec<LabelExpression>,
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LabelExpression {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// The parts of a composition that selection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    pub uid: String,
    pub labels: Labels,
    pub composes: TypeRef,
}

/// The parts of a revision that selection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionCandidate {
    pub name: String,
    pub number: i64,
    /// The uid of the composition that controls it.
    pub controller: String,
    pub labels: Labels,
}

/// Why a composition was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It was named already.
    Named,
    Enforced,
    Default,
    /// It is the first compatible one.
    Found,
}

/// Why nothing can be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unselectable {
    #[error("no Composition{} composes {kind} ({api_version})", with_labels(.labels.as_ref()))]
    NoComposition { labels: Option<Labels>, api_version: String, kind: String },
    #[error("there is no Composition `{0}`")]
    UnknownComposition(String),
    #[error("there is no CompositionRevision `{0}`")]
    UnknownRevision(String),
    #[error("Composition `{composition}` has no revision{} yet", selected_by(.selector.as_ref()))]
    NoRevision { composition: String, selector: Option<RevisionSelector> },
    #[error(
        "CompositionRevision `{revision}` composes {} ({}), not {} ({})", .composes.kind, .composes.api_version,
        .wanted.kind, .wanted.api_version
    )]
    Incompatible { revision: String, composes: TypeRef, wanted: TypeRef },
}

impl Unselectable {
    /// The cause, for programs.
    pub fn cause(&self) -> Cause {
        match self {
            Self::NoComposition { .. } => Cause::NoMatchingComposition,
            Self::UnknownComposition(_) => Cause::CompositionNotFound,
            Self::UnknownRevision(_) => Cause::CompositionRevisionNotFound,
            Self::NoRevision { .. } => Cause::NoMatchingCompositionRevision,
            Self::Incompatible { .. } => Cause::CompositionIncompatible,
        }
    }
}

fn with_labels(labels: Option<&Labels>) -> String {
    let selector = labels.map(|labels| RevisionSelector::from(labels.clone()));
    selected_by(selector.as_ref())
}

fn selected_by(selector: Option<&RevisionSelector>) -> String {
    let text = selector.map(ToString::to_string).unwrap_or_default();
    if text.is_empty() { text } else { format!(" with the labels {text}") }
}

impl From<Labels> for RevisionSelector {
    fn from(labels: Labels) -> Self {
        Self { labels, expressions: Vec::new() }
    }
}

/// The syntax of `kubectl get --selector`.
impl fmt::Display for RevisionSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let all: Vec<_> = labels.chain(self.expressions.iter().map(ToString::to_string)).collect();
        f.write_str(&all.join(","))
    }
}

impl fmt::Display for LabelExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        match operator.as_str() {
            "Exists" => write!(f, "{key}"),
            "DoesNotExist" => write!(f, "!{key}"),
            operator => write!(f, "{key} {} ({})", operator.to_lowercase(), values.join(",")),
        }
    }
}

impl RevisionSelector {
    /// Read the selector of a definition. None if it is empty.
    fn read(selector: &Value) -> Option<Self> {
        let labels = match_labels(Some(selector));
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        let expressions: Vec<_> = expressions.into_iter().flatten().map(LabelExpression::read).collect();
        if labels.is_none() && expressions.is_empty() {
            return None;
        }
        Some(Self { labels: labels.unwrap_or_default(), expressions })
    }

    fn matches(&self, labels: &Labels) -> bool {
        has(labels, &self.labels) && self.expressions.iter().all(|expression| expression.holds(labels))
    }
}

impl LabelExpression {
    fn read(expression: &Value) -> Self {
        let text = |field: &str| expression[field].as_str().unwrap_or_default().to_owned();
        let values = expression["values"].as_array().into_iter().flatten();
        let values = values.filter_map(|value| value.as_str().map(str::to_owned));
        Self { key: text("key"), operator: text("operator"), values: values.collect() }
    }

    fn holds(&self, labels: &Labels) -> bool {
        let own = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => own.is_some_and(|own| self.values.contains(own)),
            "NotIn" => !self.values.is_empty() && own.is_none_or(|own| !self.values.contains(own)),
            "Exists" => own.is_some(),
            "DoesNotExist" => own.is_none(),
            // Kubernetes refuses it: an invalid expression selects nothing.
            _ => false,
        }
    }
}

impl Preferences {
    /// Read a composite resource.
    pub fn read(composite: &Object, layout: Layout) -> Self {
        let machinery = Machinery::of(composite, layout);
        Self {
            composition: machinery.composition().map(str::to_owned),
            selector: machinery.composition_selector(),
            revision: machinery.revision().map(str::to_owned),
            revision_selector: machinery.revision_selector().map(RevisionSelector::from),
            is_manual: machinery.is_manual(),
        }
    }

    /// Take the definition's selector if the composite resource has none. It is not written to the composite resource, so that it applies
    /// every time, also once a revision is named. A pinned revision is used whatever selectors say.
    pub fn take_default_revision_selector(&mut self, defaults: &Defaults) {
        if self.revision_selector.is_none() {
            self.revision_selector.clone_from(&defaults.revision_selector);
        }
    }
}

impl Defaults {
    /// Read a definition.
    pub fn read(definition: &Object) -> Self {
        let spec = definition.get("spec");
        let name = |field: &str| {
            let name = spec?.get(field)?.get("name")?.as_str()?;
            (!name.is_empty()).then(|| name.to_owned())
        };
        let selector = spec.and_then(|spec| spec.get("defaultCompositionRevisionSelector"));
        Self {
            enforced: name("enforcedCompositionRef"),
            composition: name("defaultCompositionRef"),
            revision_selector: selector.and_then(RevisionSelector::read),
        }
    }
}

/// Select the composition.
pub fn choose_composition<'c>(
    preferences: &Preferences,
    defaults: &Defaults,
    kind: &TypeRef,
    candidates: impl IntoIterator<Item = &'c Candidate>,
) -> Result<(String, Why), Unselectable> {
    if let Some(enforced) = &defaults.enforced {
        let is_named = preferences.composition.as_ref() == Some(enforced);
        return Ok((enforced.clone(), if is_named { Why::Named } else { Why::Enforced }));
    }
    if let Some(named) = &preferences.composition {
        return Ok((named.clone(), Why::Named));
    }
    // A default is only for composite resources without a selector.
    if let (None, Some(default)) = (&preferences.selector, &defaults.composition) {
        return Ok((default.clone(), Why::Default));
    }
    let fits = |candidate: &&Candidate| {
        let wanted = preferences.selector.iter().flatten();
        candidate.composes == *kind && has(&candidate.labels, wanted)
    };
    let found = candidates.into_iter().filter(fits).min_by(|one, other| one.name.cmp(&other.name));
    let found = found.ok_or_else(|| Unselectable::NoComposition {
        labels: preferences.selector.clone(),
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
    })?;
    Ok((found.name.clone(), Why::Found))
}

/// Select the revision: the named one if it is to be kept, or the latest that matches.
pub fn choose_revision<'r>(
    preferences: &Preferences,
    composition: &Candidate,
    revisions: impl IntoIterator<Item = &'r RevisionCandidate>,
) -> Result<String, Unselectable> {
    if let (true, Some(pinned)) = (preferences.is_manual, &preferences.revision) {
        return Ok(pinned.clone());
    }
    let selector = preferences.revision_selector.as_ref();
    let fits = |revision: &&RevisionCandidate| {
        // By uid, not by the label with the name: revisions of a deleted Composition of the same name do not count.
        let is_its = revision.controller == composition.uid;
        is_its && selector.is_none_or(|selector| selector.matches(&revision.labels))
    };
    let latest = revisions.into_iter().filter(fits).max_by_key(|revision| revision.number);
    let none =
        || Unselectable::NoRevision { composition: composition.name.clone(), selector: selector.cloned() };
    Ok(latest.ok_or_else(none)?.name.clone())
}

fn has<'l>(labels: &Labels, wanted: impl IntoIterator<Item = (&'l String, &'l String)>) -> bool {
    wanted.into_iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind() -> TypeRef {
        TypeRef { api_version: "example.org/v1".to_owned(), kind: "XR".to_owned() }
    }

    fn labels(of: &[(&str, &str)]) -> Labels {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn candidate(name: &str, of: &[(&str, &str)]) -> Candidate {
        Candidate { name: name.to_owned(), uid: format!("uid-{name}"), labels: labels(of), composes: kind() }
    }

    fn choose(preferences: &Preferences, defaults: &Defaults) -> Result<(String, Why), Unselectable> {
        let other = TypeRef { kind: "Other".to_owned(), ..kind() };
        let candidates = [
            Candidate { composes: other, ..candidate("a", &[]) },
            candidate("c", &[("tier", "gold")]),
            candidate("b", &[("tier", "gold")]),
            candidate("d", &[]),
        ];
        choose_composition(preferences, defaults, &kind(), &candidates)
    }

    #[test]
    fn composition_is_enforced_named_default_or_found_in_this_order() {
        let (mut preferences, mut defaults) = (Preferences::default(), Defaults::default());
        assert_eq!(choose(&preferences, &defaults), Ok(("b".to_owned(), Why::Found)));
        defaults.composition = Some("default".to_owned());
        assert_eq!(choose(&preferences, &defaults), Ok(("default".to_owned(), Why::Default)));
        preferences.selector = Some(labels(&[("tier", "gold")]));
        assert_eq!(choose(&preferences, &defaults), Ok(("b".to_owned(), Why::Found)));
        preferences.composition = Some("named".to_owned());
        assert_eq!(choose(&preferences, &defaults), Ok(("named".to_owned(), Why::Named)));
        defaults.enforced = Some("enforced".to_owned());
        assert_eq!(choose(&preferences, &defaults), Ok(("enforced".to_owned(), Why::Enforced)));
    }

    #[test]
    fn composition_with_other_labels_is_not_chosen() {
        let preferences =
            Preferences { selector: Some(labels(&[("tier", "silver")])), ..Preferences::default() };
        let error = choose(&preferences, &Defaults::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no Composition with the labels tier=silver composes XR (example.org/v1)"
        );
        assert_eq!(error.cause(), Cause::NoMatchingComposition);
    }

    #[test]
    fn revision_is_the_latest_unless_it_is_pinned() {
        let revision = |number: i64, controller: &str, of: &[(&str, &str)]| RevisionCandidate {
            name: format!("r{number}"),
            number,
            controller: controller.to_owned(),
            labels: labels(of),
        };
        let revisions = [
            revision(1, "uid-c", &[("channel", "stable")]),
            revision(3, "uid-c", &[]),
            revision(2, "uid-c", &[]),
            revision(9, "uid-other", &[]),
        ];
        let choose = |preferences: &Preferences| {
            choose_revision(preferences, &candidate("c", &[]), &revisions).unwrap()
        };
        let mut preferences = Preferences { revision: Some("r2".to_owned()), ..Preferences::default() };
        assert_eq!(choose(&preferences), "r3");
        preferences.revision_selector = Some(labels(&[("channel", "stable")]).into());
        assert_eq!(choose(&preferences), "r1");
        preferences.is_manual = true;
        assert_eq!(choose(&preferences), "r2");
        preferences.revision = None;
        // Design 000: with a selector and no reference, the selector counts, whatever the policy.
        assert_eq!(choose(&preferences), "r1");
    }

    #[test]
    fn default_selector_counts_also_once_a_revision_is_named() {
        let revision = |number: i64, channel: &str| RevisionCandidate {
            name: format!("r{number}"),
            number,
            controller: "uid-c".to_owned(),
            labels: labels(&[("channel", channel)]),
        };
        let revisions = [revision(1, "stable"), revision(2, "next")];
        let selector = |channel: &str| Some(RevisionSelector::from(labels(&[("channel", channel)])));
        let defaults = Defaults { revision_selector: selector("stable"), ..Defaults::default() };
        let choose = |mut preferences: Preferences| {
            preferences.take_default_revision_selector(&defaults);
            choose_revision(&preferences, &candidate("c", &[]), &revisions).unwrap()
        };
        let mut preferences = Preferences::default();
        assert_eq!(choose(preferences.clone()), "r1");
        preferences.revision = Some("r1".to_owned());
        assert_eq!(choose(preferences.clone()), "r1");
        let own = Preferences { revision_selector: selector("next"), ..preferences };
        assert_eq!(choose(own), "r2");
        let pinned =
            Preferences { revision: Some("r2".to_owned()), is_manual: true, ..Preferences::default() };
        assert_eq!(choose(pinned), "r2");
    }

    #[test]
    fn expressions_of_a_default_selector_count() {
        let selector = |expression: Value| {
            let selector = json!({"matchLabels": {"team": "a"}, "matchExpressions": [expression]});
            let definition = json!({"spec": {"defaultCompositionRevisionSelector": selector}});
            let mut preferences = Preferences::default();
            preferences.take_default_revision_selector(&Defaults::read(definition.as_object().unwrap()));
            preferences
        };
        let revision = |number: i64, of: &[(&str, &str)]| RevisionCandidate {
            name: format!("r{number}"),
            number,
            controller: "uid-c".to_owned(),
            labels: labels(of),
        };
        let revisions = [
            revision(1, &[("team", "a"), ("channel", "stable")]),
            revision(2, &[("team", "a"), ("channel", "next")]),
            revision(3, &[("team", "a")]),
            revision(4, &[("team", "b"), ("channel", "stable")]),
        ];
        for (expression, chosen) in [
            (json!({"key": "channel", "operator": "In", "values": ["stable"]}), Some("r1")),
            (json!({"key": "channel", "operator": "NotIn", "values": ["stable"]}), Some("r3")),
            (json!({"key": "channel", "operator": "Exists"}), Some("r2")),
            (json!({"key": "channel", "operator": "DoesNotExist"}), Some("r3")),
            (json!({"key": "channel", "operator": "Near", "values": ["stable"]}), None),
        ] {
            let found = choose_revision(&selector(expression.clone()), &candidate("c", &[]), &revisions);
            let cause = found.as_ref().err().map(Unselectable::cause);
            assert_eq!(cause, chosen.is_none().then_some(Cause::NoMatchingCompositionRevision));
            assert_eq!(found.ok().as_deref(), chosen, "{expression}");
        }
        let nobody = selector(json!({"key": "channel", "operator": "In", "values": ["x", "y"]}));
        let error = choose_revision(&nobody, &candidate("c", &[]), &revisions).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Composition `c` has no revision with the labels team=a,channel in (x,y) yet"
        );
    }
}
