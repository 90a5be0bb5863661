//! What the functions of the environment do.
//!
//! Follows cel-go 0.29.2, `common/stdlib/standard.go`; k8s.io/apiserver 0.37.2, `pkg/cel/library`.

pub(super) mod conversions;
pub(super) mod encoders;
pub(super) mod format;
pub(super) mod lists;
pub(super) mod math;
pub(super) mod named_format;
pub(super) mod network;
pub(super) mod operators;
pub(super) mod optional;
pub(super) mod quantity;
pub(super) mod regex;
pub(super) mod semver;
pub(super) mod strings;
pub(super) mod times;
pub(super) mod url;

pub(super) use regex::Regexes;

use ferroplane_golang::regexp::Expression;

use super::fault::Fault;
use super::meter::Meter;
use super::value::Value;

/// What a function may use besides its arguments.
#[derive(Debug)]
pub(super) struct Context<'c> {
    pub(super) function: &'static str,
    /// Empty for operators whose types are not known before.
    pub(super) overload: &'static str,
    pub(super) meter: &'c Meter,
    /// The regular expression, if it is a constant.
    pub(super) regex: Option<&'c Expression>,
    pub(super) regexes: &'c Regexes,
}

impl Context<'_> {
    /// A string that was made, counted.
    fn text<'v>(&self, text: String) -> Answer<'v> {
        self.meter.allocate(text.len())?;
        Ok(Value::text(text))
    }

    /// A list that was made, counted.
    fn list<'v>(&self, values: Vec<Value<'v>>) -> Answer<'v> {
        self.meter.allocate(values.len() * size_of::<Value<'_>>())?;
        Ok(Value::list(values))
    }
}

pub(super) type Answer<'v> = Result<Value<'v>, Fault>;
/// Arguments may be taken; they are not read afterwards.
pub(super) type Implementation = for<'c, 'v> fn(&Context<'c>, &mut [Value<'v>]) -> Answer<'v>;

/// For operators that are evaluated without a call.
fn operator<'v>(_: &Context<'_>, _: &mut [Value<'v>]) -> Answer<'v> {
    Err(Fault::no_such_overload())
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    let of_language =
        || operators(name).or_else(|| text(name)).or_else(|| list(name)).or_else(|| option(name));
    of_language().or_else(|| of_kubernetes(name))
}

/// Operators, conversions and what else the language itself has.
fn operators(name: &str) -> Option<Implementation> {
    Some(match name {
        "_&&_"
        | "_||_"
        | "_==_"
        | "_!=_"
        | "_?_:_"
        | "_?._"
        | "_[_]"
        | "_[?_]"
        | "or"
        | "orValue"
        | "@not_strictly_false" => operator,
        "!_" => operators::not,
        "-_" => operators::negate,
        "@in" => operators::is_in,
        "_+_" => operators::add,
        "_-_" | "_*_" | "_/_" | "_%_" => operators::arithmetic,
        "_<_" | "_<=_" | "_>_" | "_>=_" => operators::compare,
        "size" => operators::size,
        "cel.@mapInsert" => operators::insert,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type"
        | "uint" => conversions::convert,
        _ if name.starts_with("math.") => math::implementation(name)?,
        // Some names of other libraries begin with `get` too.
        _ if name.starts_with("get") && times::is_accessor(name) => times::accessor,
        _ => return None,
    })
}

fn text(name: &str) -> Option<Implementation> {
    Some(match name {
        "contains" | "startsWith" | "endsWith" => strings::search,
        "charAt" | "substring" | "lowerAscii" | "upperAscii" | "trim" | "strings.quote" => strings::part,
        // Lists have these two as well: the implementation reads what it is called on.
        "indexOf" | "lastIndexOf" => strings::index_of,
        "replace" => strings::replace,
        "split" => strings::split,
        "join" => strings::join,
        "format" => format::format,
        "matches" | "find" | "findAll" => regex::search,
        "base64.encode" | "base64.decode" => encoders::base64,
        _ => return None,
    })
}

fn list(name: &str) -> Option<Implementation> {
    Some(match name {
        "isSorted" => lists::is_sorted,
        "sum" => lists::sum,
        "max" | "min" => lists::extreme,
        "includes" => lists::includes,
        "distinct" => lists::distinct,
        "flatten" => lists::flatten,
        "slice" => lists::slice,
        "reverse" => lists::reverse,
        "sort" | "@sortByAssociatedKeys" => lists::sort,
        "lists.range" => lists::range,
        "first" | "last" => lists::end,
        _ if name.starts_with("sets.") => lists::sets,
        _ => return None,
    })
}

fn option(name: &str) -> Option<Implementation> {
    let names = [
        "optional.of",
        "optional.ofNonZeroValue",
        "optional.none",
        "value",
        "hasValue",
        "optional.unwrap",
        "unwrapOpt",
    ];
    names.contains(&name).then_some(optional::optional as Implementation)
}

/// What Kubernetes adds to the language.
fn of_kubernetes(name: &str) -> Option<Implementation> {
    Some(match name {
        "url" | "isURL" | "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath"
        | "getQuery" => url::url,
        "ip"
        | "isIP"
        | "ip.isCanonical"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast" => network::ip,
        "cidr" | "isCIDR" | "containsIP" | "containsCIDR" | "masked" | "prefixLength" => network::cidr,
        "quantity" | "isQuantity" | "sign" | "isInteger" | "asInteger" | "asApproximateFloat" | "add"
        | "sub" => quantity::quantity,
        "isGreaterThan" | "isLessThan" | "compareTo" => semver::compare,
        "semver" | "isSemver" | "major" | "minor" | "patch" => semver::semver,
        "validate" => named_format::validate,
        _ if name.starts_with("format.") => named_format::named,
        _ => return None,
    })
}
