//! What calls cost at most, and how large their results are.
//!
//! Follows cel-go 0.29.2, `checker/cost.go`; k8s.io/apiserver 0.37.2, `pkg/cel/library/cost.go`.

use super::range::{Range, fits};
use super::{Extent, Operand, found};
use crate::ast::ExpressionKind;
use crate::types::Type;
use crate::value::Value;

/// The sizes of what is called with.
pub(super) struct Sized<'s, 'e> {
    pub(super) extent: &'s Extent,
    pub(super) target: Option<&'s Operand<'e>>,
    pub(super) arguments: &'s [Operand<'e>],
}

/// What is asked of a value that was parsed already: an address, a quantity, a version, a URL. Its size does not matter any more.
const OF_PARSED: [&str; 27] = [
    "format.named",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
];

/// A cost, and the size of the result if something can be said of it.
type Estimate = (Range, Option<Range>);

impl Sized<'_, '_> {
    /// Functions of libraries.
    pub(super) fn of_library(&self, function: &str, overload: &str) -> Option<Estimate> {
        if let Some(estimate) = self.of_lists(overload) {
            return Some(estimate);
        }
        let one = Some((Range::fixed(1), None));
        match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
                self.search(function)
            }
            "url" => self.argument(0).map(|size| (size.traversed(), Some(size))),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                self.target().map(|size| (size.traversed(), Some(size)))
            }
            "replace" => self.replace(),
            "split" => self.split(),
            "join" => self.join(),
            "find" | "findAll" => {
                let (text, pattern) = (self.target()?, self.argument(0)?);
                Some((matching(text, pattern), Some(Range::up_to(text.most))))
            }
            "ip" if overload == "cidr_ip" => one,
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                self.argument(0).map(|size| (size.traversed(), None))
            }
            // Parsed once and written once.
            "ip.isCanonical" => self.argument(0).map(|size| (size.scaled(0.2), None)),
            "containsIP" | "containsCIDR" => self.contains_address(function, overload),
            // Which format it is cannot be known before evaluation, so Kubernetes takes a pattern of 128
            // characters, divided by four.
            "validate" => self.argument(0).map(|size| (size.traversed().scaled(32.0), None)),
            "_==_" => self.equal_objects(),
            _ if OF_PARSED.contains(&function) => one,
            _ => None,
        }
    }

    /// What the language itself has.
    pub(super) fn of_standard(&self, overload: &str) -> Estimate {
        let known = |index: usize| self.arguments.get(index).map_or(Range::UNKNOWN, Operand::known);
        let target = || self.target.map(Operand::known);
        let cost = match overload {
            "string_format" => target().map(|size| (size.traversed(), None)),
            "string_to_bytes" => {
                let size = known(0);
                // Wrapping is on purpose: cel-go multiplies without a check, and an unknown size times four
                // must come out as it does there.
                Some((size.traversed(), Some(Range { least: size.least, most: size.most.wrapping_mul(4) })))
            }
            "bytes_to_string" => {
                let size = known(0);
                Some((size.traversed(), Some(Range { least: size.least / 4, most: size.most })))
            }
            "strings_quote" => {
                let size = known(0);
                let most = size.most.wrapping_mul(2).wrapping_add(2);
                Some((size.traversed(), Some(Range { least: size.least.wrapping_add(2), most })))
            }
            "starts_with_string" | "ends_with_string" => Some((known(0).traversed(), None)),
            // Going through a float rounds sizes past 2^53, as it does in cel-go.
            "in_list" => Some((known(1).scaled(1.0), None)),
            "matches_string" => target().map(|text| (matching(text, known(0)), None)),
            "contains_string" => target().map(|text| (text.traversed().times(known(0).traversed()), None)),
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals" => {
                let most = known(0).most.min(known(1).most);
                Some((Range { least: most.min(1), most }.traversed(), None))
            }
            _ => None,
        };
        cost.unwrap_or((Range::fixed(1), None))
    }

    /// Lists and sets.
    fn of_lists(&self, overload: &str) -> Option<Estimate> {
        match overload {
            "list_slice" => {
                let most = self.target()?.most;
                let (start, end) = (self.number(0, 0), self.number(1, most));
                // A start after the end wraps to an enormous size in cel-go, too.
                Some(allocating(1.0, Range::fixed(end.wrapping_sub(start))))
            }
            "lists_range" => Some(allocating(1.0, Range::fixed(self.number(0, u64::MAX)))),
            "list_reverse" | "list_flatten" => Some(allocating(1.0, self.target()?)),
            "list_flatten_int" => Some(allocating(as_factor(self.number(0, u64::MAX)), self.target()?)),
            "list_distinct" => {
                let size = self.target()?;
                Some(allocating(2.0, size.times(size)))
            }
            "list_sets_contains_list" | "list_sets_intersects_list" => self.of_sets(1.0),
            "list_sets_equivalent_list" => self.of_sets(2.0),
            // Comparing every element with every other: the estimate is quadratic though sorting is not.
            _ if overload.ends_with("_sort") => Some(sorting(overload, self.target()?)),
            _ if overload.ends_with("_sortByAssociatedKeys") => Some(sorting(overload, self.argument(0)?)),
            _ => None,
        }
    }

    fn of_sets(&self, factor: f64) -> Option<Estimate> {
        let pairs = self.argument(0)?.times(self.argument(1)?);
        Some((pairs.scaled(factor).plus(Range::fixed(1)), None))
    }

    /// Going through a list, or through a text.
    fn search(&self, function: &str) -> Option<Estimate> {
        let target = self.target?;
        let Some((kind, size)) = self.element(target) else {
            // What `includes` goes through may be a list of which nothing is known. Kubernetes takes one for each
            // element then, and does not ask how long they are.
            if function == "includes" {
                return Some((self.size(target).times(Range::fixed(1)), None));
            }
            return Some((self.size(target).traversed(), None));
        };
        let each = match kind {
            Type::String | Type::Bytes => Range::fixed(1).plus(size.traversed()),
            _ => Range::fixed(1),
        };
        Some((self.size(target).times(each), None))
    }

    fn replace(&self) -> Option<Estimate> {
        let (text, old, new) = (self.target()?, self.argument(0)?, self.argument(1)?);
        let (mut count, mut kept) = (Range::default(), Range::default());
        if old.least == 0 {
            // What replaces nothing is put around every character.
            (count.most, kept.most) = (text.most.saturating_add(1), text.most);
        } else if new.most <= old.least {
            kept.most = text.most;
        } else {
            count.most = fits(text.most, old.least);
        }
        if old.most == 0 {
            (count.least, kept.least) = (text.least.saturating_add(1), text.least);
        } else if old.most <= new.least {
            kept.least = text.least;
        } else {
            count.least = fits(text.least, old.most);
        }
        Some((text.scaled(0.2), Some(count.times(new).plus(kept))))
    }

    fn split(&self) -> Option<Estimate> {
        let text = self.target()?;
        let limit = match self.arguments.get(1).map(|limit| &limit.expression.kind) {
            // A negative number is no limit.
            Some(ExpressionKind::Literal(Value::Int(limit))) => limit.cast_unsigned(),
            _ => text.most,
        };
        Some((text.scaled(0.2), Some(Range::up_to(limit))))
    }

    fn join(&self) -> Option<Estimate> {
        let list = self.target()?;
        let mut size = Range::default();
        if let Some((_, element)) = self.element(self.target?) {
            size = list.times(element);
        }
        if let Some(separator) = self.argument(0) {
            let between = Range { least: list.least.saturating_sub(1), most: list.most.saturating_sub(1) };
            size = size.plus(separator.times(between));
        }
        Some((size.traversed(), Some(size)))
    }

    fn contains_address(&self, function: &str, overload: &str) -> Option<Estimate> {
        // Addresses have 4 or 16 bytes.
        let address = Range { least: 4, most: 16 };
        let mut cost = address.plus(address).traversed();
        if function == "containsCIDR" {
            cost = cost.plus(address.traversed()).plus(Range::fixed(1));
        }
        if overload.ends_with("_string") {
            cost = cost.plus(self.argument(0)?.traversed());
        }
        Some((cost, None))
    }

    /// Objects of libraries, which are compared at once or as text. Others are compared like all values.
    fn equal_objects(&self) -> Option<Estimate> {
        let [one, other] = self.arguments else { return None };
        let Type::Opaque(name) = one.kind else { return None };
        if one.kind != other.kind {
            return None;
        }
        let most = match *name {
            // Kubernetes' bound for the length of a format's name.
            "kubernetes.NamedFormat" => 64,
            "kubernetes.URL" => other.size.map_or(1, |size| size.most),
            _ => return Some((Range::fixed(1), None)),
        };
        Some((Range { least: 1, most }.traversed(), None))
    }

    fn target(&self) -> Option<Range> {
        self.target.map(|target| self.size(target))
    }

    fn argument(&self, index: usize) -> Option<Range> {
        self.arguments.get(index).map(|argument| self.size(argument))
    }

    fn size(&self, operand: &Operand<'_>) -> Range {
        operand.size.or_else(|| found(self.extent, &operand.route)).unwrap_or(Range::UNKNOWN)
    }

    /// The type of the elements of a list, and how large they are.
    fn element<'k>(&self, list: &'k Operand<'_>) -> Option<(&'k Type, Range)> {
        // The first parameter of any generic type: that is all that Kubernetes' `listElementNode` reads.
        let (Type::List(kind) | Type::Map(kind, _) | Type::Optional(kind)) = list.kind else { return None };
        let size =
            if list.route.is_empty() { None } else { found(self.extent, &list.route.copied_to("@items")) };
        Some((kind, size.unwrap_or(Range::UNKNOWN)))
    }

    /// A number that is written out, or what to take if there is something else.
    fn number(&self, index: usize, otherwise: u64) -> u64 {
        match self.arguments.get(index).map(|argument| &argument.expression.kind) {
            Some(ExpressionKind::Literal(Value::Int(number))) => u64::try_from(*number).unwrap_or(0),
            _ => otherwise,
        }
    }
}

fn matching(text: Range, pattern: Range) -> Range {
    text.plus(Range::fixed(1)).traversed().times(pattern.as_pattern())
}

fn allocating(factor: f64, size: Range) -> Estimate {
    // Ten for making a list and one for the call.
    (size.scaled(factor).plus(Range::fixed(11)), Some(size))
}

fn sorting(overload: &str, size: Range) -> Estimate {
    let is_text = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
    allocating(if is_text { 2.1 } else { 2.0 }, size.times(size))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn as_factor(number: u64) -> f64 {
    number as f64
}
