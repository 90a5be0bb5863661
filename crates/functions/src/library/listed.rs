//! The versions file, as `cargo xtask codegen` embeds it.

use ferroplane_engine::versions::{Lifecycle, Version};

use super::{Contract, Declaration, Implementation, VersionMetadata};

/// What the file says about a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed {
    pub(super) function: &'static str,
    pub(super) about: &'static str,
    pub(super) stable: &'static str,
    pub(super) package: Option<&'static str>,
    pub(super) mirrors: &'static [&'static str],
    pub(super) never_composes: bool,
    pub(super) declares_readiness: bool,
    pub(super) input: Option<&'static str>,
    pub(super) example: Option<&'static str>,
    pub(super) versions: &'static [ListedVersion],
}

/// What the file says about a version of a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListedVersion {
    pub(super) version: &'static str,
    pub(super) introduced_in: &'static str,
    pub(super) deprecated_in: Option<&'static str>,
    pub(super) removed_in: Option<&'static str>,
    pub(super) replaced_by: Option<&'static str>,
    pub(super) covers: Option<&'static str>,
    pub(super) compared: &'static [&'static str],
    pub(super) read: &'static [&'static str],
    pub(super) capabilities: &'static [&'static str],
}

impl Listed {
    /// The function, with the code that there is for each version.
    pub(super) fn declaration(&self, code: impl Fn(&Version) -> Option<Implementation>) -> Declaration {
        let versions = self.versions.iter().map(|listed| {
            let code = listed.version.parse().ok().and_then(|version| code(&version));
            (listed.version.to_owned(), listed.version_metadata(), code)
        });
        Declaration {
            function: self.function.to_owned(),
            contract: Contract {
                about: self.about.to_owned(),
                package: self.package.map(str::to_owned),
                mirrors: self.mirrors.iter().map(|mirror| (*mirror).to_owned()).collect(),
                never_composes: self.never_composes,
                declares_readiness: self.declares_readiness,
                input: self.input,
                example: self.example,
            },
            stable: self.stable.to_owned(),
            versions: versions.collect(),
        }
    }
}

impl ListedVersion {
    pub(super) fn version_metadata(&self) -> VersionMetadata {
        let parse = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        VersionMetadata {
            lifecycle: Lifecycle {
                introduced_in: parse(Some(self.introduced_in)),
                deprecated_in: parse(self.deprecated_in),
                removed_in: parse(self.removed_in),
                replaced_by: parse(self.replaced_by),
            },
            capabilities: self.capabilities.iter().map(|capability| (*capability).to_owned()).collect(),
            covers: self.covers.and_then(|range| semver::VersionReq::parse(range).ok()),
            compared: self.compared.iter().filter_map(|number| number.parse().ok()).collect(),
            read: self.read.iter().filter_map(|number| number.parse().ok()).collect(),
        }
    }
}
