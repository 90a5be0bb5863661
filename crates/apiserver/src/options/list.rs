//! Options of lists and watches, and the tokens that continue a list.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::selector::{FieldSelector, LabelSelector};
use ferroplane_schema::status::Status;
use serde_json::{Value, json};

use super::{invalid, number};
use crate::request::Query;

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
/// No token of ours is longer: names and namespaces are short.
const MAX_TOKEN: usize = 4096;

#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: usize,
    pub(crate) continues: Option<Continue>,
    pub(crate) resource_version: ResourceVersion,
    /// For watches: first everything that is there, then a bookmark.
    pub(crate) sends_initial_events: bool,
    pub(crate) allows_bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
}

/// As of when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceVersion {
    /// Nothing said: as of now.
    Newest,
    /// Zero: whatever is at hand.
    Any,
    NotOlderThan(u64),
    Exactly(u64),
}

/// Where a list continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Continue {
    /// As of when; nothing if the list may continue with newer objects.
    pub(crate) revision: Option<u64>,
    /// Behind which object of the list: its name, with its namespace if the list has several.
    pub(crate) behind: String,
}

impl ListOptions {
    pub(crate) fn read(query: &Query, is_watch: bool) -> Result<Self, Status> {
        let errors = if is_watch { check_watch(query) } else { check_list(query) };
        if !errors.is_empty() {
            return Err(invalid("ListOptions", &errors));
        }
        let labels =
            LabelSelector::parse(query.get("labelSelector")).map_err(|why| Status::bad_request(&why))?;
        let fields =
            FieldSelector::parse(query.get("fieldSelector")).map_err(|why| Status::bad_request(&why))?;
        let continues = match query.get("continue") {
            "" => None,
            _ if !matches!(query.get("resourceVersion"), "" | "0") => {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            token => Some(Continue::read(token)?),
        };
        let seconds = number(query, "timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(Self {
            labels,
            fields,
            limit: number(query, "limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or_default(),
            continues,
            resource_version: ResourceVersion::read(query)?,
            sends_initial_events: query.flag("sendInitialEvents"),
            allows_bookmarks: query.flag("allowWatchBookmarks"),
            timeout: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
        })
    }
}

impl ResourceVersion {
    fn read(query: &Query) -> Result<Self, Status> {
        let text = query.get("resourceVersion");
        match text {
            "" => return Ok(Self::Newest),
            "0" => return Ok(Self::Any),
            _ => {}
        }
        let revision = text.parse().map_err(|_| {
            let problem = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            let error = Error::invalid(&Path::new("resourceVersion"), text, problem);
            Status::bad_request(&format!("invalid resource version: {error}"))
        })?;
        let is_exact = query.get("resourceVersionMatch") == "Exact";
        Ok(if is_exact { Self::Exactly(revision) } else { Self::NotOlderThan(revision) })
    }
}

fn check_list(query: &Query) -> Vec<Error> {
    let mut errors = Vec::new();
    let path = Path::new("resourceVersionMatch");
    let given = query.get("resourceVersionMatch");
    if !given.is_empty() {
        let mut forbid = |words: &str| errors.push(Error::forbidden(&path, words));
        if query.get("resourceVersion").is_empty() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !query.get("continue").is_empty() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(given, "Exact" | "NotOlderThan") {
            errors.push(Error::not_supported(&path, given, ["Exact", "NotOlderThan", ""]));
        }
        if given == "Exact" && query.get("resourceVersion") == "0" {
            let words = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(Error::forbidden(&path, words));
        }
    }
    if query.has("sendInitialEvents") {
        let words = "sendInitialEvents is forbidden for list";
        errors.push(Error::forbidden(&Path::new("sendInitialEvents"), words));
    }
    errors
}

fn check_watch(query: &Query) -> Vec<Error> {
    let mut errors = Vec::new();
    let path = Path::new("resourceVersionMatch");
    let given = query.get("resourceVersionMatch");
    let has_initial = query.has("sendInitialEvents");
    if has_initial && given != "NotOlderThan" {
        let words = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(Error::forbidden(&path, words));
    }
    if given.is_empty() {
        return errors;
    }
    if !has_initial {
        let words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.push(Error::forbidden(&path, words));
    }
    if given != "NotOlderThan" {
        errors.push(Error::not_supported(&path, given, ["NotOlderThan"]));
    }
    if !query.get("continue").is_empty() {
        let words = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(Error::forbidden(&path, words));
    }
    errors
}

impl Continue {
    fn read(token: &str) -> Result<Self, Status> {
        let refuse = |why: &str| {
            Status::bad_request(&format!("invalid continue token: continue key is not valid: {why}"))
        };
        if token.len() > MAX_TOKEN {
            return Err(refuse("it is too long"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| refuse(&error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| refuse(&error.to_string()))?;
        if value["v"] != TOKEN_VERSION {
            let version = value["v"].as_str().unwrap_or_default();
            return Err(refuse(&format!("server does not recognize this encoded version {version}")));
        }
        let behind = value["start"].as_str().and_then(|start| start.strip_suffix('\0'));
        // A token is only encoded, not signed: a client may have forged it, so that it must not lead out of its
        // collection.
        if behind.is_some_and(|behind| !is_clean(behind)) {
            return Err(refuse(value["start"].as_str().unwrap_or_default()));
        }
        let empty = "encoded start key empty (version meta.k8s.io/v1)";
        let behind = behind.ok_or_else(|| refuse(empty))?.to_owned();
        match value["rv"].as_i64() {
            // Kubernetes' mark for a list that continues with whatever is there now, after its own moment had expired.
            Some(-1) => Ok(Self { revision: None, behind }),
            Some(revision) if revision > 0 => Ok(Self { revision: u64::try_from(revision).ok(), behind }),
            _ => Err(refuse("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
        }
    }

    pub(crate) fn token(&self) -> String {
        let revision = self.revision.map_or(-1, |revision| i64::try_from(revision).unwrap_or(i64::MAX));
        let value = json!({"v": TOKEN_VERSION, "rv": revision, "start": format!("{}\0", self.behind)});
        URL_SAFE_NO_PAD.encode(value.to_string())
    }
}

/// Whether a path stays below where it begins.
fn is_clean(path: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_were_written() {
        for revision in [None, Some(7)] {
            let token = Continue { revision, behind: "default/a".into() };
            assert_eq!(Continue::read(&token.token()).unwrap(), token);
        }
    }

    #[test]
    fn garbage_is_no_token() {
        let forged =
            [r#"{"v":"x","rv":1,"start":"a\u0000"}"#, r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a\u0000"}"#];
        let forged = forged.map(|json| URL_SAFE_NO_PAD.encode(json));
        for token in forged.iter().map(String::as_str).chain(["", "!", "e30", &"a".repeat(5000)]) {
            assert_eq!(Continue::read(token).unwrap_err().code, 400, "{token}");
        }
    }

    #[test]
    fn versions_that_contradict_each_other_are_refused() {
        let code = |query: &str, is_watch| ListOptions::read(&Query::of(query), is_watch).map_err(|s| s.code);
        assert_eq!(code("resourceVersionMatch=Exact", false).unwrap_err(), 422);
        assert_eq!(code("resourceVersionMatch=Exact&resourceVersion=0", false).unwrap_err(), 422);
        assert_eq!(code("sendInitialEvents=true", true).unwrap_err(), 422);
        assert_eq!(code("labelSelector=a%20in", false).unwrap_err(), 400);
        assert!(code("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", true).is_ok());
        assert!(code("resourceVersionMatch=NotOlderThan&resourceVersion=5", false).is_ok());
    }
}
