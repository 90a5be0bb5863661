//! Semantic versions.
//!
//! Follows sprig 3.3.0, `semver.go`, and Masterminds/semver 3.4.0, `version.go`.

use std::any::Any;
use std::cmp::Ordering;
use std::rc::Rc;

use ferroplane_golang::semver::{Constraints, Version};

use super::arguments::characters;
use super::function;
use crate::{Context, Failure, Function, Object, Text, Type, Value};

use Type::{Bool, Int, String, Uint64};

const POINTER: Type = Type::Pointer("semver.Version");
const STRUCT: Type = Type::Struct("semver.Version");

pub(super) const FUNCTIONS: &[Function] = &[
    function("semver", &[String], POINTER, semver),
    function("semverCompare", &[String, String], Bool, semver_compare),
];

/// What `semver` gives, and what its methods compute.
#[derive(Debug)]
pub(super) struct SemanticVersion {
    version: Version,
    is_pointer: bool,
}

impl SemanticVersion {
    /// Whether two are equal when pointers are followed.
    pub(super) fn has_same_parts(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

fn semver(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let version = Version::parse(&characters(args, 0)).map_err(Failure::new)?;
    Ok(Value::Object(Rc::new(SemanticVersion { version, is_pointer: true })))
}

fn semver_compare(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    ctx.step(
        100 + args
            .iter()
            .map(|arg| if let Value::String(text) = arg { text.len() as u64 } else { 0 })
            .sum::<u64>(),
    )?;
    let constraints = Constraints::parse(&characters(args, 0)).map_err(Failure::new)?;
    let version = Version::parse(&characters(args, 1)).map_err(Failure::new)?;
    Ok(Value::Bool(constraints.check(&version)))
}

const METHODS: &[Function] = &[
    function("Major", &[], Uint64, |_, args| of(args, |version| Value::Uint64(version.major))),
    function("Minor", &[], Uint64, |_, args| of(args, |version| Value::Uint64(version.minor))),
    function("Patch", &[], Uint64, |_, args| of(args, |version| Value::Uint64(version.patch))),
    function("Prerelease", &[], String, |_, args| {
        of(args, |version| Value::text(version.prerelease.as_str()))
    }),
    function("Metadata", &[], String, |_, args| of(args, |version| Value::text(version.metadata.as_str()))),
    function("String", &[], String, |_, args| of(args, |version| Value::text(version.to_string()))),
    function("IncPatch", &[], STRUCT, |_, args| next(args, |version| Ok(version.next_patch()))),
    function("IncMinor", &[], STRUCT, |_, args| next(args, |version| Ok(version.next_minor()))),
    function("IncMajor", &[], STRUCT, |_, args| next(args, |version| Ok(version.next_major()))),
    function("SetPrerelease", &[String], STRUCT, |_, args| {
        next(args, |version| version.with_prerelease(&characters(args, 1)))
    }),
    function("SetMetadata", &[String], STRUCT, |_, args| {
        next(args, |version| version.with_metadata(&characters(args, 1)))
    }),
    function("Original", &[], String, |_, args| of(args, |version| Value::text(version.original.as_str()))),
    function("Compare", &[POINTER], Int, |_, args| compare(args, |order| Value::Int(order as i64))),
    function("Equal", &[POINTER], Bool, |_, args| compare(args, |order| Value::Bool(order.is_eq()))),
    function("LessThan", &[POINTER], Bool, |_, args| compare(args, |order| Value::Bool(order.is_lt()))),
    function("LessThanEqual", &[POINTER], Bool, |_, args| compare(args, |order| Value::Bool(order.is_le()))),
    function("GreaterThan", &[POINTER], Bool, |_, args| compare(args, |order| Value::Bool(order.is_gt()))),
    function("GreaterThanEqual", &[POINTER], Bool, |_, args| {
        compare(args, |order| Value::Bool(order.is_ge()))
    }),
];

/// These are methods of the pointer alone.
const OF_POINTER: [&str; 7] =
    ["Original", "Compare", "Equal", "LessThan", "LessThanEqual", "GreaterThan", "GreaterThanEqual"];

fn version(args: &[Value], at: usize) -> Result<&Version, Failure> {
    let object =
        if let Some(Value::Object(object)) = args.get(at) { object.as_any().downcast_ref() } else { None };
    let object: &SemanticVersion = object.ok_or_else(|| Failure::new(super::arguments::NIL_POINTER))?;
    Ok(&object.version)
}

fn of(args: &[Value], read: impl Fn(&Version) -> Value) -> Result<Value, Failure> {
    Ok(read(version(args, 0)?))
}

fn next(
    args: &[Value],
    change: impl Fn(&Version) -> Result<Version, std::string::String>,
) -> Result<Value, Failure> {
    let version = change(version(args, 0)?).map_err(Failure::new)?;
    Ok(Value::Object(Rc::new(SemanticVersion { version, is_pointer: false })))
}

fn compare(args: &[Value], tell: impl Fn(Ordering) -> Value) -> Result<Value, Failure> {
    Ok(tell(version(args, 0)?.compare(version(args, 1)?)))
}

impl Object for SemanticVersion {
    fn type_of(&self) -> Type {
        if self.is_pointer { POINTER } else { STRUCT }
    }

    fn method(&self, name: &str) -> Option<&'static Function> {
        let is_there = self.is_pointer || !OF_POINTER.contains(&name);
        METHODS.iter().find(|method| method.name == name && is_there)
    }

    fn string(&self) -> Option<Text> {
        Some(self.version.to_string().into())
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        // Pointers are equal if they are the same.
        let other: &Self = other.as_any().downcast_ref()?;
        Some(if self.is_pointer { std::ptr::eq(self, other) } else { self.version == other.version })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
