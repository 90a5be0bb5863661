//! Which kinds have tags: facts about the schemas of the AWS and Azure providers.

use serde_json::{Map, Value};

/// A line for each group: its name without the domain all of them have, then its kinds with a map of tags at
/// `spec.forProvider.tags`. A group and its namespaced twin (`.m.`) have the same ones.
const KINDS: &str = include_str!("kinds.txt");

/// Whether resources of this kind have tags.
pub(super) fn has_tags(resource: &Map<String, Value>) -> bool {
    let text = |field| resource.get(field).and_then(Value::as_str).unwrap_or_default();
    let Some((group, version)) = text("apiVersion").split_once('/') else { return false };
    !version.contains('/') && is_listed(group, text("kind"))
}

fn is_listed(group: &str, kind: &str) -> bool {
    let Some(group) = group.strip_suffix(".upbound.io") else { return false };
    let group = group.strip_suffix(".m").unwrap_or(group);
    KINDS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .any(|(candidate, kinds)| candidate == group && kinds.split(' ').any(|candidate| candidate == kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_looked_up_by_group() {
        assert!(is_listed("ec2.aws.upbound.io", "VPC"));
        assert!(is_listed("ec2.aws.m.upbound.io", "VPC"));
        assert!(is_listed("network.azure.m.upbound.io", "VirtualNetwork"));
        assert!(!is_listed("ec2.aws.upbound.io", "Route"));
        assert!(!is_listed("ec2.aws", "VPC"));
        assert!(!is_listed("ec2.aws.example.org", "VPC"));
        assert!(!is_listed("aws.upbound.io", ""));
    }

    #[test]
    fn groups_and_kinds_are_sorted_and_unique() {
        let groups: Vec<_> = KINDS.lines().map(|line| line.split(' ').collect::<Vec<_>>()).collect();
        assert!(groups.windows(2).all(|pair| pair[0][0] < pair[1][0]));
        assert!(
            groups.iter().all(|kinds| kinds.len() > 1 && kinds[1..].is_sorted_by(|one, other| one < other))
        );
        assert_eq!(groups.iter().map(|kinds| kinds.len() - 1).sum::<usize>() * 2, 1666);
    }
}
