//! Whether images that we ship are built from others that cannot be exchanged: a tag can be moved, a digest cannot.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::shell::git;

/// Complain about every image that is named without its digest.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    // Examples are for others to change: what they are built from is not what we ship.
    let patterns = ["deploy/*Containerfile*", "deploy/*Dockerfile*"];
    let listing = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let files = git(root, &[&listing[..], &patterns[..]].concat()).output()?;
    for file in files.lines().filter(|file| root.join(file).exists()) {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
        for image in movable_images(&text) {
            complaints.push(format!("{file} names the image `{image}` without a digest (`@sha256:`)"));
        }
    }
    Ok(())
}

/// The images that could be others tomorrow: those of `FROM`, and of build arguments for it, which are called `…IMAGE`.
fn movable_images(text: &str) -> Vec<&str> {
    let mut movable = Vec::new();
    let mut stages = vec!["scratch"];
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let instruction = words.next().unwrap_or_default();
        let mut words = words.filter(|word| !word.starts_with("--"));
        let named = words.next().unwrap_or_default();
        let image = if instruction.eq_ignore_ascii_case("FROM") {
            let image = named;
            let is_stage = stages.contains(&image);
            // The name of the stage comes after `AS`.
            stages.extend(words.nth(1));
            (!is_stage && !is_argument(image)).then_some(image)
        } else if instruction.eq_ignore_ascii_case("ARG") {
            named.split_once('=').filter(|(name, _)| name.ends_with("IMAGE")).map(|(_, image)| image)
        } else {
            None
        };
        movable.extend(image.filter(|image| !image.contains("@sha256:")));
    }
    movable
}

/// Whether it is a build argument whose own line is checked.
fn is_argument(image: &str) -> bool {
    image.starts_with('$') && image.trim_end_matches('}').ends_with("IMAGE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_need_digests_wherever_they_are_named() {
        let text = "# FROM a comment\nARG RUST_IMAGE\nARG BASE_IMAGE=debian:13\nARG VERSION=1\nFROM ${RUST_IMAGE} AS build\nFROM rust:1 AS other\n\
                    FROM --platform=linux/amd64 alpine\nFROM build\nFROM other\nFROM scratch\nFROM a@sha256:12\nfrom $WHATEVER";
        assert_eq!(movable_images(text), ["debian:13", "rust:1", "alpine", "$WHATEVER"]);
    }
}
