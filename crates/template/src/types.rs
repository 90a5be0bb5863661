//! The Go types that values and parameters of functions have.
//!
//! Follows Go 1.26, `reflect/type.go` (names), `text/template/exec.go` (`canBeNil`).

use std::fmt;

/// A Go type. Prints as Go prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `interface {}`: a parameter of this type takes anything.
    Any,
    /// `reflect.Value`: for functions of the engine that tell "no value" from nil.
    Reflect,
    Bool,
    Int,
    Int64,
    Uint8,
    /// A parameter of this type takes constants; no value has it.
    Uint32,
    Uint64,
    Float64,
    Complex128,
    String,
    /// A slice of elements of this type.
    List(&'static Type),
    /// A map from strings to this type.
    Map(&'static Type),
    /// `map[interface {}]interface {}`: a map with keys of any type.
    AnyMap,
    /// A struct with this name, like `time.Time`.
    Struct(&'static str),
    /// A pointer to a struct with this name, like `semver.Version`.
    Pointer(&'static str),
    /// A named integer, like `time.Duration`.
    Integer(&'static str),
}

impl Type {
    /// `[]interface {}`.
    pub const LIST: Self = Self::List(&Self::Any);
    /// `map[string]interface {}`.
    pub const MAP: Self = Self::Map(&Self::Any);
    /// `[]uint8`.
    pub const BYTES: Self = Self::List(&Self::Uint8);

    /// Whether `nil` is a value of this type.
    pub fn can_be_nil(self) -> bool {
        matches!(
            self,
            Self::Any | Self::Reflect | Self::List(_) | Self::Map(_) | Self::AnyMap | Self::Pointer(_)
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("interface {}"),
            Self::Reflect => f.write_str("reflect.Value"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Int64 => f.write_str("int64"),
            Self::Uint8 => f.write_str("uint8"),
            Self::Uint32 => f.write_str("uint32"),
            Self::Uint64 => f.write_str("uint64"),
            Self::Float64 => f.write_str("float64"),
            Self::Complex128 => f.write_str("complex128"),
            Self::String => f.write_str("string"),
            Self::List(element) => write!(f, "[]{element}"),
            Self::Map(element) => write!(f, "map[string]{element}"),
            Self::AnyMap => f.write_str("map[interface {}]interface {}"),
            Self::Struct(name) | Self::Integer(name) => f.write_str(name),
            Self::Pointer(name) => write!(f, "*{name}"),
        }
    }
}
