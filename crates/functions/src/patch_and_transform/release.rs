//! The releases of the original that behave differently, and what the differences are.
//!
//! Follows function-patch-and-transform v0.2.0 to v0.10.8. Everything that a release does in its own way is a question
//! here, so that the rest of the code asks for the behaviour and not for a number. Releases that are not listed behave as the
//! one before them.

use crate::fieldpath::{Error, Path};

/// A release, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Release {
    V0_2,
    V0_3,
    V0_4,
    V0_5,
    V0_6,
    V0_7,
    V0_8,
    V0_10,
}

impl Release {
    /// Read a path that is followed as this release follows it.
    pub(super) fn parse(self, text: &str) -> Result<Path, Error> {
        let path = Path::parse(text)?;
        Ok(if self.fails_on_null() { path.failing_on_null() } else { path })
    }

    /// Patches are applied in four rounds, by what they copy between, and a round ends at the first patch that fails, with
    /// a warning. Later releases apply them in the order they are written, and fail.
    pub(super) fn patches_in_rounds(self) -> bool {
        self == Self::V0_2
    }

    /// Which fields a combination needs is asked when it is applied, not before.
    pub(super) fn checks_combinations_late(self) -> bool {
        self == Self::V0_2
    }

    /// A patch of the environment has the type that a patch of a composed resource would have.
    pub(super) fn names_the_environment_in_its_patches(self) -> bool {
        self == Self::V0_2
    }

    /// Every patch may name a patch set. Whether it may be one is asked when patch sets are resolved.
    pub(super) fn has_one_kind_of_patch(self) -> bool {
        self == Self::V0_2
    }

    /// The SDK of the time did not refuse fields that it did not know.
    pub(super) fn ignores_unknown_fields(self) -> bool {
        self <= Self::V0_3
    }

    /// Name and namespace of a base are dropped, so that the resource gets a generated name.
    pub(super) fn drops_names_of_bases(self) -> bool {
        self <= Self::V0_3
    }

    /// A path that leads through null fails; later, nothing is found there.
    fn fails_on_null(self) -> bool {
        self <= Self::V0_3
    }

    /// A field that a patch of the environment misses is fatal, whatever its policy.
    pub(super) fn needs_fields_for_the_environment(self) -> bool {
        self == Self::V0_3
    }

    pub(super) fn has_to_field_path_policy(self) -> bool {
        self >= Self::V0_4
    }

    /// Objects and arrays can be merged in all four ways, and into many fields at once.
    pub(super) fn merges_in_all_ways(self) -> bool {
        self >= Self::V0_5
    }

    /// Whole numbers that a patch copies become integers before they are merged with what is there.
    pub(super) fn makes_numbers_whole(self) -> bool {
        self >= Self::V0_5
    }

    /// An environment without a kind gets one. Without it, nothing can be patched to the environment.
    pub(super) fn gives_the_environment_a_kind(self) -> bool {
        self >= Self::V0_6
    }

    /// Patches of the environment are enough, and may have its own types.
    pub(super) fn patches_the_environment_alone(self) -> bool {
        self >= Self::V0_6
    }

    pub(super) fn joins_and_replaces(self) -> bool {
        self >= Self::V0_7
    }

    /// While a composed resource is held back, the composite resource is not ready.
    pub(super) fn is_unready_while_waiting(self) -> bool {
        self >= Self::V0_8
    }

    pub(super) fn merges_combinations(self) -> bool {
        self >= Self::V0_8
    }

    /// Results say that they are about the composite resource. Before, the protocol had no field for that.
    pub(super) fn targets_results(self) -> bool {
        self >= Self::V0_8
    }

    /// The package of the protocol's messages, as results name it.
    pub(super) fn protocol(self) -> &'static str {
        if self >= Self::V0_8 { "v1" } else { "v1beta1" }
    }

    /// Where composite resources have no connection details of their own, a secret is composed for them.
    pub(super) fn composes_connection_secrets(self) -> bool {
        self >= Self::V0_10
    }
}

#[cfg(test)]
mod tests;
