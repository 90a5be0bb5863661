//! What the releases of the original do differently.

/// A release of the original, by its minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Release {
    V0_4,
    V0_5,
    V0_6,
    V0_7,
    V0_8,
    /// From v0.9.0 to v0.10.1.
    V0_9,
    V0_11,
    V0_12,
}

impl Release {
    /// How many there are.
    pub(super) const COUNT: usize = Self::V0_12 as usize + 1;

    pub(super) const NEWEST: Self = Self::V0_12;

    /// The release that a version of the function reproduces.
    pub(super) fn of(version: &str) -> Option<Self> {
        let minor = version.strip_prefix("v0.")?.split('.').next()?;
        Some(match minor.parse::<u32>().ok()? {
            4 => Self::V0_4,
            5 => Self::V0_5,
            6 => Self::V0_6,
            7 => Self::V0_7,
            8 => Self::V0_8,
            9 | 10 => Self::V0_9,
            11 => Self::V0_11,
            12 => Self::V0_12,
            _ => return None,
        })
    }

    /// Annotations that are no text are refused. Before, they were taken for none at all.
    pub(super) fn checks_annotations(self) -> bool {
        self >= Self::V0_5
    }

    /// A document with the name of a composed resource is one, even if its kind is the composite resource's.
    pub(super) fn composes_its_own_kind(self) -> bool {
        self >= Self::V0_8
    }

    /// The helpers that look up resources take names with dots.
    pub(super) fn looks_up_names_with_dots(self) -> bool {
        self >= Self::V0_9
    }

    /// A resource's condition is found with and without the wrapping that the request has around resources.
    pub(super) fn looks_into_bare_resources(self) -> bool {
        self >= Self::V0_11
    }

    pub(super) fn reads_templates_from_the_environment(self) -> bool {
        self >= Self::V0_11
    }

    /// Extra resources are required as the protocol has it today, and kept in the context.
    pub(super) fn knows_required_resources(self) -> bool {
        self >= Self::V0_12
    }

    /// The annotation that says whether a resource is ready counts for the composite resource, too.
    pub(super) fn tells_readiness_of_the_composite(self) -> bool {
        self >= Self::V0_12
    }

    /// The status of the composite resource stays absent if neither side has one.
    pub(super) fn leaves_out_an_empty_status(self) -> bool {
        self >= Self::V0_12
    }

    /// The input has options, and lists of templates.
    pub(super) fn has_options(self) -> bool {
        self >= Self::V0_12
    }

    /// A field of the input that the release does not know is a mistake. Before, it was passed over.
    pub(super) fn refuses_unknown_fields(self) -> bool {
        self >= Self::V0_5
    }

    /// The protocol has extra resources.
    pub(super) fn knows_extra_resources(self) -> bool {
        self >= Self::V0_5
    }

    /// The protocol has credentials.
    pub(super) fn knows_credentials(self) -> bool {
        self >= Self::V0_9
    }

    /// Conditions say of which generation of a resource they tell.
    pub(super) fn knows_observed_generations(self) -> bool {
        self >= Self::V0_9
    }

    /// What Go calls the type of conditions, in errors.
    pub(super) const fn condition(self) -> &'static str {
        if self as usize >= Self::V0_12 as usize { "common.Condition" } else { "v1.Condition" }
    }

    /// Results say whom they are for.
    pub(super) fn targets_results(self) -> bool {
        self >= Self::V0_9
    }

    /// The process of the original can have a source for inputs that name none.
    pub(super) fn has_default_source(self) -> bool {
        self >= Self::V0_12
    }

    /// Errors in documents tell line and text.
    pub(super) fn shows_bad_lines(self) -> bool {
        self >= Self::V0_12
    }

    /// The kinds of documents that say something about the composite resource.
    pub(super) fn has_kind(self, kind: &str) -> bool {
        match kind {
            "CompositeConnectionDetails" => true,
            "ExtraResources" => self >= Self::V0_6,
            "Context" => self >= Self::V0_7,
            "ClaimConditions" => self >= Self::V0_9,
            _ => false,
        }
    }

    /// The same in words, as the original lists them.
    pub(super) fn kinds(self) -> &'static str {
        match self {
            Self::V0_4 | Self::V0_5 => "must be CompositeConnectionDetails",
            Self::V0_6 => "must be CompositeConnectionDetails or ExtraResources",
            // `ClaimConditions` is missing from the words of the original, too.
            _ => "must be one of CompositeConnectionDetails, Context or ExtraResources",
        }
    }
}
