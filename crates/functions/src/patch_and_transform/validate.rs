//! Whether an input makes sense, in the words of the original, whose API server never sees the input either.

use std::fmt;

use ferroplane_golang::fmt::{Any, Numbers};
use ferroplane_golang::json::marshal_any;
use ferroplane_golang::regexp::Expression;
use ferroplane_golang::strconv::quote;
use serde_json::Value;

use super::input::{
    Combine, ConnectionDetail, Convert, Match, Math, Patch, PatchSet, Pattern, Policy, ReadinessCheck,
    Resources, StringTransform, Template, Transform,
};
use super::release::Release;

/// A field, and what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    field: String,
    problem: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl Invalid {
    fn under(self, parent: impl fmt::Display) -> Self {
        Self { field: format!("{parent}.{}", self.field), ..self }
    }
}

type Result = std::result::Result<(), Invalid>;

fn required(field: impl Into<String>, detail: impl fmt::Display) -> Result {
    Err(Invalid { field: field.into(), problem: format!("Required value: {detail}") })
}

/// The value is of a type of its own, which the original shows as JSON.
fn invalid(field: impl Into<String>, value: &str, detail: impl fmt::Display) -> Result {
    let value = Value::String(value.to_owned());
    let shown = marshal_any(&Any::of(&value, Numbers::Floats)).unwrap_or_default();
    Err(Invalid { field: field.into(), problem: format!("Invalid value: {shown}: {detail}") })
}

fn invalid_text(field: &str, value: &str, detail: &str) -> Result {
    Err(Invalid { field: field.into(), problem: format!("Invalid value: {}: {detail}", quote(value)) })
}

fn each<T>(items: &[T], name: &str, check: impl Fn(&T) -> Result) -> Result {
    for (at, item) in items.iter().enumerate() {
        check(item).map_err(|error| error.under(format_args!("{name}[{at}]")))?;
    }
    Ok(())
}

/// Patches of a secret's reference are not checked here: the original does not, either.
pub(super) fn resources(resources: &Resources, release: Release) -> Result {
    // Without the position of the set in the message, as in the original, and before anything else.
    resources.patch_sets.iter().try_for_each(|set| patch_set(set, release))?;
    let has_environment = resources.environment.as_ref().is_some_and(|patches| !patches.is_empty());
    match (resources.resources.is_empty(), release.patches_the_environment_alone()) {
        (true, true) if !has_environment => {
            return required("resources", "resources or environment patches are required");
        }
        (true, false) => return required("resources", "resources is required"),
        _ => {}
    }
    each(&resources.resources, "resources", |candidate| template(candidate, release))?;
    let patches = resources.environment.as_deref().unwrap_or_default();
    environment(patches, release).map_err(|error| error.under("environment"))
}

fn patch_set(set: &PatchSet, release: Release) -> Result {
    if set.name.is_empty() {
        return required("name", "name is required");
    }
    each(&set.patches, "patches", |candidate| {
        if candidate.kind == "PatchSet" && !release.has_one_kind_of_patch() {
            let detail = "patch type *v1beta1.PatchSetPatch does not support patch of type PatchSet";
            return invalid("type", &candidate.kind, detail);
        }
        patch(candidate, release)
    })
}

fn template(template: &Template, release: Release) -> Result {
    if template.name.is_empty() {
        return required("name", "name is required");
    }
    each(&template.patches, "patches", |candidate| patch(candidate, release))?;
    each(&template.connection_details, "connectionDetails", connection_detail)?;
    each(&template.readiness_checks, "readinessChecks", readiness_check)
}

fn environment(patches: &[Patch], release: Release) -> Result {
    for (at, candidate) in patches.iter().enumerate() {
        let kind = candidate.kind.as_str();
        if !may_patch_environment(kind, release) {
            return invalid(format!("patches[{at}][type]"), kind, "invalid environment patch type");
        }
        patch(candidate, release).map_err(|error| error.under(format_args!("patches[{at}]")))?;
    }
    Ok(())
}

fn may_patch_environment(kind: &str, release: Release) -> bool {
    match kind {
        "FromCompositeFieldPath" | "ToCompositeFieldPath" | "CombineFromComposite" | "CombineToComposite" => {
            !release.names_the_environment_in_its_patches()
        }
        "FromEnvironmentFieldPath" | "ToEnvironmentFieldPath" => {
            release.names_the_environment_in_its_patches() || release.patches_the_environment_alone()
        }
        "CombineFromEnvironment" | "CombineToEnvironment" => release.names_the_environment_in_its_patches(),
        _ => false,
    }
}

/// Whether a field that has to be there is missing. The oldest release takes text without a letter for a value.
fn is_missing(field: Option<&str>, release: Release) -> bool {
    field.is_none_or(|text| text.is_empty() && !release.has_one_kind_of_patch())
}

fn patch(patch: &Patch, release: Release) -> Result {
    let kind = patch.kind.as_str();
    match kind {
        "FromCompositeFieldPath"
        | "ToCompositeFieldPath"
        | "FromEnvironmentFieldPath"
        | "ToEnvironmentFieldPath" => {
            if is_missing(patch.from_field_path.as_deref(), release) {
                let detail = format!("fromFieldPath must be set for patch type {kind}");
                return required("fromFieldPath", detail);
            }
        }
        "PatchSet" => {
            if is_missing(patch.patch_set_name.as_deref(), release) {
                return required("patchSetName", format!("patchSetName must be set for patch type {kind}"));
            }
        }
        "CombineFromComposite" | "CombineToComposite" | "CombineFromEnvironment" | "CombineToEnvironment" => {
            combining(patch, release)?;
            if !release.checks_combinations_late() {
                // The transforms and the policy of such a patch are only checked when it is applied.
                return Ok(());
            }
        }
        _ => return invalid("type", kind, "unknown patch type"),
    }
    each(&patch.transforms, "transforms", |candidate| transform(candidate, release))?;
    patch.policy.as_ref().map_or(Ok(()), |candidate| policy(candidate, release))
}

fn combining(patch: &Patch, release: Release) -> Result {
    let Some(combine) = &patch.combine else {
        return required("combine", format!("combine must be set for patch type {}", patch.kind));
    };
    let by_default = patch.from_field_path.as_deref().filter(|_| !release.checks_combinations_late());
    let to = patch.to_field_path.as_deref().or(by_default);
    if is_missing(to, release) {
        return required("toFieldPath", format!("toFieldPath must be set for patch type {}", patch.kind));
    }
    if release.checks_combinations_late() {
        return Ok(());
    }
    check_combine(combine).map_err(|error| error.under("combine"))
}

fn check_combine(combine: &Combine) -> Result {
    match combine.strategy.as_str() {
        "string" if combine.format.is_none() => {
            return required("string", "string must be set for combine strategy string");
        }
        "string" => {}
        "" => return required("strategy", "a combine strategy must be provided"),
        unknown => return invalid("strategy", unknown, "unknown strategy type"),
    }
    if combine.variables.is_empty() {
        return required("variables", "at least one variable must be provided");
    }
    match combine.variables.iter().position(String::is_empty) {
        Some(at) => required(
            format!("variables[{at}].fromFieldPath"),
            "fromFieldPath must be set for each combine variable",
        ),
        None => Ok(()),
    }
}

fn policy(policy: &Policy, release: Release) -> Result {
    if !release.has_to_field_path_policy() {
        return Ok(());
    }
    match policy.to_field_path.as_deref().unwrap_or("Replace") {
        "Replace" | "MergeObject" | "AppendArray" => {}
        "MergeObjects"
        | "MergeObjectsAppendArrays"
        | "ForceMergeObjects"
        | "ForceMergeObjectsAppendArrays"
            if release.merges_in_all_ways() => {}
        unknown => return invalid("policy.toFieldPathPolicy", unknown, "unknown toFieldPathPolicy"),
    }
    match policy.from_field_path.as_deref().unwrap_or("Optional") {
        "Required" | "Optional" => Ok(()),
        unknown => invalid("policy.fromFieldPathPolicy", unknown, "unknown fromFieldPathPolicy"),
    }
}

fn transform(transform: &Transform, release: Release) -> Result {
    let kind = transform.kind.as_str();
    let checked = match kind {
        "math" => transform.math.as_ref().map(math),
        "map" => transform.map.as_ref().map(|pairs| {
            if pairs.is_empty() {
                return required(
                    "pairs",
                    "at least one pair must be specified if a map transform is specified",
                );
            }
            Ok(())
        }),
        "match" => transform.matching.as_ref().map(matching),
        "string" => transform.string.as_ref().map(|transform| string(transform, release)),
        "convert" => transform.convert.as_ref().map(convert),
        unknown => return invalid("type", unknown, "unknown transform type"),
    };
    match checked {
        None => required(kind, format!("given transform type {kind} requires configuration")),
        Some(checked) => checked.map_err(|error| error.under(kind)),
    }
}

pub(super) fn math(math: &Math) -> Result {
    let (field, value, name) = match math.kind.as_str() {
        "" => return required("type", "math transform type is required"),
        "Multiply" => ("multiply", math.multiply, "multiply"),
        "ClampMin" => ("clampMin", math.clamp_min, "clamp min"),
        "ClampMax" => ("clampMax", math.clamp_max, "clamp max"),
        unknown => return invalid("type", unknown, "unknown math transform type"),
    };
    if value.is_some() {
        return Ok(());
    }
    required(field, format!("must specify a value if a {name} math transform is specified"))
}

fn matching(matching: &Match) -> Result {
    if matching.patterns.is_empty() {
        return required(
            "patterns",
            "at least one pattern must be specified if a match transform is specified",
        );
    }
    each(&matching.patterns, "patterns", pattern)
}

fn pattern(pattern: &Pattern) -> Result {
    match pattern.kind.as_str() {
        "literal" | "" if pattern.literal.is_none() => {
            required("literal", "literal pattern type requires a literal")
        }
        "literal" | "" => Ok(()),
        "regexp" => match &pattern.regexp {
            None => required("regexp", "regexp pattern type requires a regexp"),
            Some(expression) if Expression::new(expression).is_err() => {
                invalid_text("regexp", expression, "invalid regexp")
            }
            Some(_) => Ok(()),
        },
        unknown => invalid("type", unknown, "unknown pattern type"),
    }
}

fn string(string: &StringTransform, release: Release) -> Result {
    match string.kind.as_str() {
        unknown @ ("Join" | "Replace") if !release.joins_and_replaces() => {
            invalid("type", unknown, "unknown string transform type")
        }
        "" => required("type", "string transform type is required"),
        "Format" if string.format.is_none() => required("fmt", "format transform requires a format"),
        "Convert" if string.convert.is_none() => {
            required("convert", "convert transform requires a conversion type")
        }
        "TrimPrefix" | "TrimSuffix" if string.trim.is_none() => {
            required("trim", "trim transform requires a trim value")
        }
        "Regexp" => match &string.regexp {
            None => required("regexp", "regexp transform requires a regexp"),
            Some((expression, _)) if expression.is_empty() => {
                required("regexp.match", "regexp transform requires a match")
            }
            Some((expression, _)) if Expression::new(expression).is_err() => {
                invalid_text("regexp.match", expression, "invalid regexp")
            }
            Some(_) => Ok(()),
        },
        "Join" if string.join.is_none() => required("join", "join transform requires a join"),
        "Replace" => match &string.replace {
            None => required("replace", "replace transform requires a replace"),
            Some((search, _)) if search.is_empty() => {
                required("replace.search", "replace transform requires a search")
            }
            Some(_) => Ok(()),
        },
        "Format" | "Convert" | "TrimPrefix" | "TrimSuffix" | "Join" => Ok(()),
        unknown => invalid("type", unknown, "unknown string transform type"),
    }
}

pub(super) fn convert(convert: &Convert) -> Result {
    let format = convert.format.as_deref().unwrap_or("none");
    if !matches!(format, "none" | "quantity" | "json") {
        return invalid("format", format, "invalid format");
    }
    match convert.to_type.as_str() {
        "string" | "bool" | "int" | "int64" | "float64" | "object" | "array" => Ok(()),
        unknown => invalid("toType", unknown, "invalid type"),
    }
}

fn connection_detail(detail: &ConnectionDetail) -> Result {
    let kind = detail.kind.as_str();
    match kind {
        "" => return required("type", "connection detail type is required"),
        "FromValue" | "FromConnectionSecretKey" | "FromFieldPath" => {}
        unknown => return invalid_text("type", unknown, "unknown connection detail type"),
    }
    if detail.name.is_empty() {
        return required("name", "name is required");
    }
    match kind {
        "FromValue" if detail.value.is_none() => {
            required("value", "value connection detail requires a value")
        }
        "FromConnectionSecretKey" if detail.from_connection_secret_key.is_none() => {
            required("fromConnectionSecretKey", "from connection secret key connection detail requires a key")
        }
        "FromFieldPath" if detail.from_field_path.is_none() => {
            required("fromFieldPath", "from field path connection detail requires a field path")
        }
        _ => Ok(()),
    }
}

fn readiness_check(check: &ReadinessCheck) -> Result {
    match check.kind.as_str() {
        "None" => return Ok(()),
        "MatchString" if check.match_string.is_none() => {
            return required("matchString", "cannot be nil for type MatchString");
        }
        "MatchInteger" if check.match_integer.is_none() => {
            return required("matchInteger", "cannot be nil for type MatchInteger");
        }
        "MatchCondition" => {
            let condition = check.match_condition.as_ref();
            return condition
                .map_or(Ok(()), |(kind, status)| match_condition(kind, status))
                .map_err(|error| error.under("matchCondition"));
        }
        "MatchString" | "MatchInteger" | "NonEmpty" | "MatchTrue" | "MatchFalse" => {}
        unknown => return invalid_text("type", unknown, "unknown readiness check type"),
    }
    if check.field_path.is_none() { required("fieldPath", "cannot be empty") } else { Ok(()) }
}

fn match_condition(kind: &str, status: &str) -> Result {
    if kind.is_empty() {
        return required("type", "cannot be empty for type MatchCondition");
    }
    if status.is_empty() {
        return required("status", "cannot be empty for type MatchCondition");
    }
    Ok(())
}
