//! Reads `Content-Type` headers.

use ferroplane_schema::status::Status;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// In which form an object is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyForm {
    Json,
    Yaml,
    Protobuf,
}

/// In which form a patch is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchForm {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl BodyForm {
    /// Nothing said means JSON. Protobuf is for kinds that have it.
    pub(crate) fn of(headers: &HeaderMap, has_protobuf: bool) -> Result<Self, Status> {
        match media_type(headers) {
            "" if !headers.contains_key(CONTENT_TYPE) => Ok(Self::Json),
            "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" if has_protobuf => Ok(Self::Protobuf),
            _ => {
                let mut accepted = vec!["application/json", "application/yaml"];
                accepted.extend(has_protobuf.then_some("application/vnd.kubernetes.protobuf"));
                Err(unsupported(&accepted))
            }
        }
    }
}

impl PatchForm {
    /// Strategic merge patches are for kinds that have strategies.
    pub(crate) fn of(headers: &HeaderMap, has_strategy: bool) -> Result<Self, Status> {
        match media_type(headers) {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if has_strategy => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => {
                let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
                accepted.extend(has_strategy.then_some("application/strategic-merge-patch+json"));
                accepted.push("application/apply-patch+yaml");
                Err(unsupported(&accepted))
            }
        }
    }
}

fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|header| header.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

fn unsupported(accepted: &[&str]) -> Status {
    Status::unsupported_media_type(&format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(content_type: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
        headers
    }

    #[test]
    fn bodies_are_recognised() {
        assert_eq!(BodyForm::of(&HeaderMap::new(), false).unwrap(), BodyForm::Json);
        assert_eq!(BodyForm::of(&headers("application/json; charset=utf-8"), false).unwrap(), BodyForm::Json);
        let protobuf = headers("application/vnd.kubernetes.protobuf");
        assert_eq!(BodyForm::of(&protobuf, true).unwrap(), BodyForm::Protobuf);
        assert_eq!(BodyForm::of(&protobuf, false).unwrap_err().code, 415);
    }

    #[test]
    fn strategic_patches_are_for_some_kinds_only() {
        let strategic = headers("application/strategic-merge-patch+json");
        assert_eq!(PatchForm::of(&strategic, true).unwrap(), PatchForm::Strategic);
        let status = PatchForm::of(&strategic, false).unwrap_err();
        assert_eq!(
            status.message,
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        );
    }
}
