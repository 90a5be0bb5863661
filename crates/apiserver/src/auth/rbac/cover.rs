//! Whether someone who grants rules holds them.
//!
//! A rule is a product of lists, and rights held may cover it piece by piece. So a rule is taken apart into rules of
//! one verb, one resource, one name, unless one rule held covers it whole. The number of pieces is limited: a role of a
//! megabyte could have more of them than there is time.

use std::collections::{BTreeMap, BTreeSet};

use super::PolicyRule;
use super::rule::{covers_path, has};

/// How many comparisons of rules one check may take, some tens of milliseconds.
const MOST_COMPARISONS: usize = 2_000_000;

/// How many missing rights a refusal lists.
const MOST_LISTED: usize = 500;

/// What is not held.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Rules(Vec<PolicyRule>),
    /// There are more combinations than can be checked.
    TooMany,
}

/// Everything in `wanted` that is not `held`.
pub(super) fn missing(held: &[&PolicyRule], wanted: &[PolicyRule]) -> Missing {
    let mut budget = MOST_COMPARISONS;
    let mut missing = Vec::new();
    for rule in wanted {
        // Most rules are covered whole, by `*` or by the same rule: taking them apart would be the expensive way to
        // find out.
        if held.iter().any(|holder| covers(holder, rule)) {
            continue;
        }
        // Counted before anything is taken apart: the pieces of a hostile role alone could take all memory.
        let cost = pieces(rule).saturating_mul(held.len().max(1));
        let Some(rest) = budget.checked_sub(cost) else { return Missing::TooMany };
        budget = rest;
        let is_missing = |piece: &PolicyRule| !held.iter().any(|holder| covers(holder, piece));
        missing.extend(break_down(rule).filter(is_missing));
    }
    Missing::Rules(missing)
}

/// How a refusal lists what is missing.
pub(super) fn list(missing: Vec<PolicyRule>) -> String {
    let lines: BTreeSet<_> = compact(missing).iter().map(PolicyRule::compact).collect();
    let rest = lines.len().saturating_sub(MOST_LISTED);
    let mut lines: Vec<_> = lines.into_iter().take(MOST_LISTED).collect();
    if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    lines.join("\n")
}

fn pieces(rule: &PolicyRule) -> usize {
    // Without names there is one piece for all of them.
    let names = rule.resource_names.len().max(1);
    let lists = [rule.api_groups.len(), rule.resources.len(), names];
    let resources = lists.into_iter().fold(1_usize, usize::saturating_mul);
    resources.saturating_add(rule.non_resource_urls.len()).saturating_mul(rule.verbs.len())
}

/// Rules of one verb and one resource or path, which together mean the same.
fn break_down(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> {
    let one = |text: &String| vec![text.clone()];
    let names: Vec<Vec<String>> = if rule.resource_names.is_empty() {
        vec![Vec::new()]
    } else {
        rule.resource_names.iter().map(one).collect()
    };
    let mut pieces = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                pieces.extend(names.iter().map(|names| PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: names.clone(),
                    ..PolicyRule::default()
                }));
            }
        }
    }
    for url in &rule.non_resource_urls {
        let piece =
            |verb| PolicyRule { verbs: one(verb), non_resource_urls: one(url), ..PolicyRule::default() };
        pieces.extend(rule.verbs.iter().map(piece));
    }
    pieces.into_iter()
}

/// Whether one rule grants all that another does.
fn covers(holder: &PolicyRule, rule: &PolicyRule) -> bool {
    let has_all = |held: &[String], wanted: &[String]| wanted.iter().all(|value| has(held, value));
    let names_are_covered = holder.resource_names.is_empty()
        // A rule without names is about all of them, which no list of names covers.
        || !rule.resource_names.is_empty()
            && rule.resource_names.iter().all(|name| holder.resource_names.contains(name));
    names_are_covered
        && has_all(&holder.verbs, &rule.verbs)
        && has_all(&holder.api_groups, &rule.api_groups)
        && rule.resources.iter().all(|resource| covers_resource(&holder.resources, resource))
        && rule
            .non_resource_urls
            .iter()
            .all(|url| holder.non_resource_urls.iter().any(|pattern| covers_path(pattern, url)))
}

fn covers_resource(held: &[String], resource: &str) -> bool {
    has(held, resource)
        // A holder of `*/scale` may scale everything, and so may grant the scale of one kind.
        || resource.split_once('/').is_some_and(|(_, subresource)| {
            held.iter().any(|candidate| candidate.strip_prefix("*/") == Some(subresource))
        })
}

/// Joins pieces that differ in their verbs only.
fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut compacted: BTreeMap<_, PolicyRule> = BTreeMap::new();
    let mut others = Vec::new();
    for rule in rules {
        // Only pieces of one resource can be joined by their verbs without granting a combination that was not
        // missing.
        if rule.api_groups.len() != 1 || rule.resources.len() != 1 || !rule.non_resource_urls.is_empty() {
            others.push(rule);
            continue;
        }
        let key = (rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone());
        compacted
            .entry(key)
            .and_modify(|known| known.verbs.extend(rule.verbs.iter().cloned()))
            .or_insert(rule);
    }
    others.extend(compacted.into_values());
    others
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(value: Value) -> Vec<PolicyRule> {
        serde_json::from_value(value).unwrap()
    }

    fn shown(held: Value, wanted: Value) -> String {
        let held = rules(held);
        match missing(&held.iter().collect::<Vec<_>>(), &rules(wanted)) {
            Missing::Rules(rules) => list(rules),
            Missing::TooMany => "too many".to_owned(),
        }
    }

    #[test]
    fn rights_held_cover_piece_by_piece() {
        let held = json!([
            {"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]},
            {"verbs": ["list"], "apiGroups": [""], "resources": ["*"]},
        ]);
        let wanted = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]);
        assert_eq!(shown(held, wanted), "");
    }

    #[test]
    fn missing_rights_are_joined_by_resource() {
        let held = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        let wanted = json!([
            {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods", "secrets"]},
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        ]);
        let expected = [
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
            r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#,
        ];
        assert_eq!(shown(held, wanted), expected.join("\n"));
    }

    #[test]
    fn one_name_does_not_cover_all_names() {
        let named =
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]);
        let all = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        assert_eq!(shown(all.clone(), named.clone()), "");
        assert_ne!(shown(named, all), "");
    }

    #[test]
    fn star_before_a_subresource_covers_it() {
        let held = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]}]);
        let of = |resource: &str| json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": [resource]}]);
        assert_eq!(shown(held.clone(), of("deployments/scale")), "");
        assert_ne!(shown(held.clone(), of("deployments")), "");
        assert_ne!(shown(held, of("*")), "");
    }

    #[test]
    fn role_with_more_combinations_than_there_is_time_for_is_refused() {
        let many: Vec<_> = (0..2_000).map(|number| format!("r{number}")).collect();
        let wanted = json!([{"verbs": many, "apiGroups": many, "resources": many, "resourceNames": many}]);
        let held = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        assert_eq!(shown(held, wanted.clone()), "too many");
        assert_eq!(shown(json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]), wanted), "");
    }
}
