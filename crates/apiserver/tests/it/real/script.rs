//! Reads the script.
//!
//! ```text
//! ### What is asked
//! @as alice               who asks: alice, bob, nobody, or a token; otherwise somebody who may do everything
//! @save rv /metadata/resourceVersion      remembered as {{rv}}, from the answer
//! @until /status/phase "Active"           asked again until this is the answer
//! @pick /kind /items/*/metadata/name      compared is only this of the body
//! @except /body/message                   not compared is this; `*` is everything
//! @sometimes /body/message                nor is this, which is left to chance
//! @forget {{rv}}                          before that, the server forgets what was before
//! @managed                                managed fields are compared too
//! @hex                                    the body is written in hexadecimal
//! PATCH /api/v1/namespaces/default
//! Content-Type: merge
//!
//! {"metadata": {"labels": {"a": "{{x*70}}"}}}
//! ```
//!
//! `{{x*70}}` is seventy times `x`. `Content-Type` is JSON if nothing is said; `merge`, `json`, `strategic` and `apply` are
//! the types of patches.

/// A request, and what of its answer matters.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) title: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) user: Option<String>,
    pub(super) saves: Vec<(String, String)>,
    pub(super) until: Option<(String, String)>,
    pub(super) picks: Vec<String>,
    pub(super) exceptions: Vec<String>,
    pub(super) chances: Vec<String>,
    pub(super) shows_managed: bool,
    pub(super) is_hex: bool,
    pub(super) forgets: Option<String>,
}

pub(super) fn parse(text: &str) -> Vec<Step> {
    text.split("### ").skip(1).map(step).collect()
}

fn step(text: &str) -> Step {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines().map(str::trim);
    let title = lines.next().unwrap_or_default().to_owned();
    let mut step = Step { title, body: body.trim().to_owned(), ..Step::default() };
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        if let Some(directive) = line.strip_prefix('@') {
            step.direct(directive);
        } else if step.method.is_empty() {
            let (method, path) = line.split_once(' ').expect("a request has a method and a path");
            (step.method, step.path) = (method.to_owned(), path.trim().to_owned());
        } else {
            let (name, value) = line.split_once(':').expect("a header has a value");
            step.headers.push((name.trim().to_lowercase(), content_type(value.trim()).to_owned()));
        }
    }
    let has_type = step.headers.iter().any(|(name, _)| name == "content-type");
    if !has_type && !step.body.is_empty() {
        step.headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    // No header at all is something else than an empty one.
    step.headers.retain(|(_, value)| value != "-");
    step
}

fn content_type(value: &str) -> &str {
    match value {
        "merge" => "application/merge-patch+json",
        "json" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        "yaml" => "application/yaml",
        "protobuf" => "application/vnd.kubernetes.protobuf",
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "partial" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "partials" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "aggregated" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        other => other,
    }
}

impl Step {
    fn direct(&mut self, directive: &str) {
        let (name, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let words = || rest.split_whitespace().map(str::to_owned);
        let pair = || {
            let (one, other) = rest.split_once(' ').expect("there are two words");
            (one.to_owned(), other.to_owned())
        };
        match name {
            "as" => self.user = Some(rest.to_owned()),
            "save" => self.saves.push(pair()),
            "until" => self.until = Some(pair()),
            "pick" => self.picks.extend(words()),
            "except" => self.exceptions.extend(words()),
            "sometimes" => self.chances.extend(words()),
            "managed" => self.shows_managed = true,
            "hex" => self.is_hex = true,
            "forget" => self.forgets = Some(rest.to_owned()),
            _ => panic!("nobody knows @{name}"),
        }
    }
}
