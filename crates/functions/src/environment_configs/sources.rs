//! Which `EnvironmentConfig`s to ask for, and which of those that came to use.

use std::collections::BTreeMap;

use ferroplane_golang::strconv::quote;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{Requirements, ResourceSelector, Resources};

use super::Release;
use super::input::{Selector, Source};
use crate::selection::{self, Choice, JsonObject, Naming};

/// An `EnvironmentConfig` whose data becomes part of the environment.
#[derive(Debug)]
pub(super) struct Config<'r> {
    pub(super) object: &'r JsonObject,
    /// Where in the environment its data goes. Nothing means all over it.
    pub(super) target: Option<&'r str>,
}

/// What to ask for.
pub(super) fn requirements(sources: &[Source<'_>], xr: &JsonObject) -> Result<Requirements, String> {
    let mut resources = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        let choice = source.choice().map_err(|error| format!("environmentConfigs[{index}]: {error}"))?;
        if let Some(r#match) = choice.to_match(Selector::matchers, xr)? {
            resources.insert(name(index), requirement(r#match));
        }
    }
    Ok(Requirements { resources, ..Requirements::default() })
}

fn name(index: usize) -> String {
    // By position, as in the original: two sources may name the same object.
    format!("environment-config-{index}")
}

fn requirement(r#match: Match) -> ResourceSelector {
    ResourceSelector {
        api_version: "apiextensions.crossplane.io/v1beta1".to_owned(),
        kind: "EnvironmentConfig".to_owned(),
        namespace: None,
        r#match: Some(r#match),
    }
}

/// Choose from what came, in the order of the sources.
pub(super) fn select<'r>(
    sources: &[Source<'r>],
    is_optional: bool,
    required: &'r BTreeMap<String, Resources>,
    release: Release,
) -> Result<Vec<Config<'r>>, String> {
    let mut configs = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let name = name(index);
        let resources = match required.get(&name) {
            Some(resources) => resources,
            None if release == Release::V0_1 => {
                return Err(format!("cannot find expected extra resource {}", quote(&name)));
            }
            // A source may not have asked for anything, because no label was left to ask for.
            None => continue,
        };
        let objects = selection::objects(resources)?;
        let chosen = match source.choice()? {
            Choice::Named(config) => named(config, objects, is_optional, release).map_err(|error| {
                if release == Release::V0_1 {
                    return error;
                }
                let (config, name) = (quote(config), quote(&name));
                format!("cannot process environment config {config} by reference, {name}: {error}")
            })?,
            Choice::Labelled(selector) => labelled(selector, objects, &name, release).map_err(|error| {
                if release == Release::V0_1 {
                    return error;
                }
                format!("cannot process environment config {} by selector: {error}", quote(&name))
            })?,
            Choice::Unknown => Vec::new(),
        };
        configs.extend(chosen.into_iter().map(|object| Config { object, target: source.target() }));
    }
    Ok(configs)
}

fn named<'r>(
    name: &str,
    objects: Vec<&'r JsonObject>,
    is_optional: bool,
    release: Release,
) -> Result<Vec<&'r JsonObject>, String> {
    match objects.len() {
        0 if !is_optional => Err(format!("Required environment config {} not found", quote(name))),
        0 | 1 => Ok(objects),
        count => Err(format!("expected exactly one {} {}, got {count}", release.noun(), quote(name))),
    }
}

fn labelled<'r>(
    selector: &Selector<'_>,
    mut objects: Vec<&'r JsonObject>,
    name: &str,
    release: Release,
) -> Result<Vec<&'r JsonObject>, String> {
    let noun = release.noun();
    // The first releases say in the same breath for which source.
    let source = if release == Release::V0_1 { format!(" {}", quote(name)) } else { String::new() };
    match (selector.mode(), objects.len()) {
        ("Single", 1) => Ok(objects),
        // The policy does not help here: only a reference can be optional.
        ("Single", count) => Err(format!("expected exactly one {noun}{source}, got {count}")),
        ("Multiple", count) => {
            if let Some(least) = selection::too_few(&objects, selector.min_match) {
                return Err(format!("expected at least {least} {noun}s{source}, got {count}"));
            }
            let naming = if release >= Release::V0_7 { Naming::Kind } else { Naming::Type };
            selection::sort(&mut objects, selector.sort_by_field_path, naming)?;
            Ok(selection::first(&objects, selector.max_match).to_vec())
        }
        (mode, _) => Err(format!("unknown selector mode {}", quote(mode))),
    }
}
