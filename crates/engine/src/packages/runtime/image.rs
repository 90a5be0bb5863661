//! The image that pods of a revision run.

use ferroplane_api::image::ImageReference;
use ferroplane_api::{Object, meta};
use serde_json::Value;

use super::deployment::CONTAINER;

/// A Deployment that names its image as the live one of the same revision does, if that is by tag: the name by digest would restart all pods.
/// `by_digest` is the name that the Deployment has otherwise. One from a configuration stays.
pub fn keep_tag(mut wanted: Object, live: Option<&Object>, by_tag: &str, by_digest: &str) -> Object {
    let by_tag = full_name(by_tag);
    let runs_tag = live.is_some_and(|live| {
        meta::controller_uid(live) == meta::controller_uid(&wanted) && image_of(live) == Some(&by_tag)
    });
    if runs_tag && image_of(&wanted) == Some(&full_name(by_digest)) {
        // The container of the program is the first one in what we make.
        wanted["spec"]["template"]["spec"]["containers"][0]["image"] = by_tag.into();
    }
    wanted
}

/// The image of the program in a Deployment.
fn image_of(deployment: &Object) -> Option<&str> {
    let pods = deployment.get("spec")?.get("template")?.get("spec")?;
    let containers = pods.get("containers").and_then(Value::as_array)?;
    containers.iter().find(|container| container["name"] == CONTAINER)?.get("image")?.as_str()
}

/// The name of an image as Go's registry library, which Crossplane uses, writes it: a digest takes precedence over a tag.
pub(super) fn full_name(image: &str) -> String {
    let ImageReference { repository, tag, digest, .. } = ImageReference::parse(image);
    let repository = match repository.strip_prefix("docker.io/") {
        Some(path) => format!("index.docker.io/{path}"),
        None => repository.to_owned(),
    };
    match (digest, tag) {
        (Some(digest), _) => format!("{repository}@{digest}"),
        (None, Some(tag)) => format!("{repository}:{tag}"),
        (None, None) => repository,
    }
}
