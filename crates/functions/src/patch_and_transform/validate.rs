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

/// Patches of a secret's reference are not looked at here: the original does not, either.
pub(super) fn resources(resources: &Resources) -> Result {
    // Without the position of the set in the message, as in the original, and before anything else.
    resources.patch_sets.iter().try_for_each(patch_set)?;
    if resources.resources.is_empty() && resources.environment.as_ref().is_none_or(Vec::is_empty) {
        return required("resources", "resources or environment patches are required");
    }
    each(&resources.resources, "resources", template)?;
    resources.environment.as_deref().map_or(Ok(()), environment).map_err(|error| error.under("environment"))
}

fn patch_set(set: &PatchSet) -> Result {
    if set.name.is_empty() {
        return required("name", "name is required");
    }
    each(&set.patches, "patches", |candidate| {
        if candidate.kind == "PatchSet" {
            let detail = "patch type *v1beta1.PatchSetPatch does not support patch of type PatchSet";
            return invalid("type", &candidate.kind, detail);
        }
        patch(candidate)
    })
}

fn template(template: &Template) -> Result {
    if template.name.is_empty() {
        return required("name", "name is required");
    }
    each(&template.patches, "patches", patch)?;
    each(&template.connection_details, "connectionDetails", connection_detail)?;
    each(&template.readiness_checks, "readinessChecks", readiness_check)
}

fn environment(patches: &[Patch]) -> Result {
    for (at, candidate) in patches.iter().enumerate() {
        match candidate.kind.as_str() {
            "FromCompositeFieldPath"
            | "ToCompositeFieldPath"
            | "CombineFromComposite"
            | "CombineToComposite"
            | "FromEnvironmentFieldPath"
            | "ToEnvironmentFieldPath" => {}
            kind => {
                return invalid(format!("patches[{at}][type]"), kind, "invalid environment patch type");
            }
        }
        patch(candidate).map_err(|error| error.under(format_args!("patches[{at}]")))?;
    }
    Ok(())
}

fn patch(patch: &Patch) -> Result {
    let kind = patch.kind.as_str();
    match kind {
        "FromCompositeFieldPath"
        | "ToCompositeFieldPath"
        | "FromEnvironmentFieldPath"
        | "ToEnvironmentFieldPath" => {
            if patch.from_field_path.as_deref().unwrap_or_default().is_empty() {
                let detail = format!("fromFieldPath must be set for patch type {kind}");
                return required("fromFieldPath", detail);
            }
        }
        "PatchSet" => {
            if patch.patch_set_name.as_deref().unwrap_or_default().is_empty() {
                return required("patchSetName", format!("patchSetName must be set for patch type {kind}"));
            }
        }
        "CombineFromComposite" | "CombineToComposite" | "CombineFromEnvironment" | "CombineToEnvironment" => {
            // The transforms and the policy of such a patch are only looked at when it is applied.
            return combining(patch);
        }
        _ => return invalid("type", kind, "unknown patch type"),
    }
    each(&patch.transforms, "transforms", transform)?;
    patch.policy.as_ref().map_or(Ok(()), policy)
}

fn combining(patch: &Patch) -> Result {
    let Some(combine) = &patch.combine else {
        return required("combine", format!("combine must be set for patch type {}", patch.kind));
    };
    if patch.to_field_path.as_deref().or(patch.from_field_path.as_deref()).unwrap_or_default().is_empty() {
        return required("toFieldPath", format!("toFieldPath must be set for patch type {}", patch.kind));
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

fn policy(policy: &Policy) -> Result {
    match policy.to_field_path.as_deref().unwrap_or("Replace") {
        "Replace"
        | "MergeObjects"
        | "MergeObjectsAppendArrays"
        | "ForceMergeObjects"
        | "ForceMergeObjectsAppendArrays"
        | "MergeObject"
        | "AppendArray" => {}
        unknown => return invalid("policy.toFieldPathPolicy", unknown, "unknown toFieldPathPolicy"),
    }
    match policy.from_field_path.as_deref().unwrap_or("Optional") {
        "Required" | "Optional" => Ok(()),
        unknown => invalid("policy.fromFieldPathPolicy", unknown, "unknown fromFieldPathPolicy"),
    }
}

fn transform(transform: &Transform) -> Result {
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
        "string" => transform.string.as_ref().map(string),
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

fn string(string: &StringTransform) -> Result {
    match string.kind.as_str() {
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
