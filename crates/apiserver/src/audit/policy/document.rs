//! A policy as it is written, and what can be wrong with it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::rule::{GroupResources, Rule};
use super::{Decision, Policy, PolicyError, REFUSALS, Stages};
use crate::audit::event::{Level, Stage};

const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "Policy";

/// Unknown fields are refused: a rule that does not do what its author believes is worse than none.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PolicyDocument {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    rules: Vec<RuleDocument>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: bool,
}

/// Only annotations count.
#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RuleDocument {
    level: String,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<String>,
    /// Unlike the stages, that of the policy counts only if a rule says nothing.
    omit_managed_fields: Option<bool>,
}

impl PolicyDocument {
    /// The policy, or everything that is wrong with it.
    pub(super) fn compile(self) -> Result<Policy, PolicyError> {
        let mut mistakes = Vec::new();
        if (self.api_version.as_str(), self.kind.as_str()) != (API_VERSION, KIND) {
            mistakes.push(format!(
                "apiVersion, kind: expected `{API_VERSION}` and `{KIND}`, found `{}` and `{}`",
                self.api_version, self.kind
            ));
        }
        if self.rules.is_empty() {
            mistakes.push("rules: at least one rule is needed; `level: None` logs nothing".to_owned());
        }
        let refusals = self.metadata.annotations.get(REFUSALS);
        let path = format!("metadata.annotations[{REFUSALS}]");
        let refusals = refusals.map_or(Level::None, |text| read_level(text, &path, &mut mistakes));
        let omitted = read_stages(&self.omit_stages, "omitStages", &mut mistakes);
        let mut rules = Vec::with_capacity(self.rules.len());
        for (index, rule) in self.rules.into_iter().enumerate() {
            rule.check(index, &mut mistakes);
            rules.push(rule.compile(index, omitted, self.omit_managed_fields, &mut mistakes));
        }
        if mistakes.is_empty() { Ok(Policy { rules, refusals }) } else { Err(PolicyError::Invalid(mistakes)) }
    }
}

impl RuleDocument {
    fn compile(
        self,
        index: usize,
        omitted: Stages,
        omits_managed_fields: bool,
        mistakes: &mut Vec<String>,
    ) -> Rule {
        let own = read_stages(&self.omit_stages, &format!("rules[{index}].omitStages"), mistakes);
        let decision = Decision {
            level: read_level(&self.level, &format!("rules[{index}].level"), mistakes),
            omitted: omitted.and(own),
            omits_managed_fields: self.omit_managed_fields.unwrap_or(omits_managed_fields),
        };
        Rule {
            decision,
            users: self.users,
            groups: self.user_groups,
            verbs: self.verbs,
            resources: self.resources,
            namespaces: self.namespaces,
            urls: self.non_resource_urls,
        }
    }

    fn check(&self, index: usize, mistakes: &mut Vec<String>) {
        let is_about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if is_about_resources && !self.non_resource_urls.is_empty() {
            mistakes.push(format!(
                "rules[{index}].nonResourceURLs: a rule is about resources or about other paths, not about both"
            ));
        }
        for (number, url) in self.non_resource_urls.iter().enumerate() {
            if let Some(why) = mistake_in_url(url) {
                mistakes.push(format!("rules[{index}].nonResourceURLs[{number}]: `{url}` {why}"));
            }
        }
        for (number, group) in self.resources.iter().enumerate() {
            let path = format!("rules[{index}].resources[{number}]");
            if group.group.contains('/') {
                let why = "must be a group without a version";
                mistakes.push(format!("{path}.group: `{}` {why}", group.group));
            }
            if !group.resource_names.is_empty() && group.resources.is_empty() {
                mistakes.push(format!("{path}.resourceNames: names need at least one resource"));
            }
        }
    }
}

fn mistake_in_url(url: &str) -> Option<&'static str> {
    if url == "*" {
        return None;
    }
    if !url.starts_with('/') {
        return Some("must begin with `/`, or be `*`");
    }
    let before_last = url.strip_suffix('*').unwrap_or(url);
    before_last.contains('*').then_some("may have `*` at its end only")
}

fn read_level(text: &str, path: &str, mistakes: &mut Vec<String>) -> Level {
    Level::parse(text).unwrap_or_else(|| {
        mistakes.push(format!(
            "{path}: `{text}` is not a level; use one of `None`, `Metadata`, `Request` and `RequestResponse`"
        ));
        Level::None
    })
}

fn read_stages(texts: &[String], path: &str, mistakes: &mut Vec<String>) -> Stages {
    let mut stages = Stages::default();
    for (number, text) in texts.iter().enumerate() {
        match Stage::parse(text) {
            Some(stage) => stages = stages.with(stage),
            None => mistakes.push(format!(
                "{path}[{number}]: `{text}` is not a stage; use one of `RequestReceived`, `ResponseStarted`, \
                 `ResponseComplete` and `Panic`"
            )),
        }
    }
    stages
}
