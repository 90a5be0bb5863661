//! The tables of facts, as data. `tables/README.md` says how they are written.
//!
//! A table has the types of one package of Kubernetes. It is read when one of its types is first asked for.
//!
//! Our own design: Kubernetes has generated types where we have tables (`tables/README.md`).

mod parse;

use std::sync::OnceLock;

use serde_json::Value;

macro_rules! tables {
    ($($name:literal),* $(,)?) => {
        /// The tables, sorted by name.
        static TABLES: &[(&str, &str)] = &[$(($name, include_str!(concat!("tables/", $name, ".txt")))),*];
    };
}

tables![
    "admissionregistration.v1",
    "apiextensions.v1",
    "apiregistration.v1",
    "apps.v1",
    "authentication.v1",
    "authorization.v1",
    "autoscaling.v1",
    "autoscaling.v2",
    "batch.v1",
    "certificates.v1",
    "coordination.v1",
    "core.v1",
    "discovery.v1",
    "events.v1",
    "meta.v1",
    "networking.v1",
    "node.v1",
    "policy.v1",
    "rbac.v1",
    "scheduling.v1",
    "storage.v1",
];

// Static, so that types can refer to each other by plain references.
static PACKAGES: [OnceLock<Package>; 21] = [const { OnceLock::new() }; 21];

/// The types of a package.
#[derive(Debug)]
pub(super) struct Package {
    /// What the names of its schemas start with.
    pub(super) model: &'static str,
    /// What Go calls it.
    pub(super) go_name: &'static str,
    /// Sorted by name.
    types: Vec<Type>,
    kinds: Vec<KindRow>,
    enums: Vec<(&'static str, Vec<&'static str>)>,
}

#[derive(Debug)]
pub(super) struct KindRow {
    pub(super) name: &'static str,
    pub(super) group: &'static str,
    pub(super) version: &'static str,
}

/// An object with fields of known names.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "`x-kubernetes-map-type` is what it is called")]
pub(super) struct Type {
    pub(super) name: &'static str,
    /// The number of its package.
    pub(super) package: usize,
    /// Whether it has `apiVersion` and `kind`.
    pub(super) is_kind: bool,
    /// Whether `OpenAPI` knows it by name.
    pub(super) has_schema: bool,
    pub(super) map_type: Option<&'static str>,
    pub(super) unions: Option<&'static str>,
    /// The fields in the order of Go.
    pub(super) rows: Vec<Row>,
    flat: OnceLock<Vec<&'static TypeField>>,
}

/// A field, or all fields of another type.
#[derive(Debug)]
pub(super) enum Row {
    Field(Box<TypeField>),
    Inline { number: u32, of: TypeReference },
}

/// A field of a type.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts, and independent of each other")]
pub(super) struct TypeField {
    pub(super) name: &'static str,
    /// Its number in protobuf; zero if it has none.
    pub(super) number: u32,
    pub(super) shape: FieldType,
    pub(super) is_required: bool,
    /// Whether Go can tell absent from empty.
    pub(super) is_pointer: bool,
    /// Whether it is written even if it is empty.
    pub(super) is_always_written: bool,
    /// Whether it is left out if all that it has is empty.
    pub(super) omits_zero: bool,
    pub(super) is_hidden: bool,
    pub(super) list: Option<ListType>,
    pub(super) map_type: Option<&'static str>,
    pub(super) patch: Option<&'static str>,
    pub(super) merge_key: Option<&'static str>,
    pub(super) values: Option<EnumReference>,
    /// What its schema gives it; what follows from its type is not said here.
    pub(super) schema_default: SchemaDefault,
    pub(super) default: Option<Default>,
}

/// What the schema of a field says about its default.
#[derive(Debug, PartialEq)]
pub(super) enum SchemaDefault {
    /// What follows from its type.
    Implied,
    None,
    Value(Value),
}

/// What a field becomes that is not said.
#[derive(Debug)]
pub(super) struct Default {
    /// The kinds in which that is so; all if there are none.
    pub(super) kinds: Vec<&'static str>,
    pub(super) value: Value,
}

/// How the items of a list are identified.
#[derive(Debug)]
pub(super) enum ListType {
    Atomic,
    Set,
    Map(Vec<&'static str>),
}

/// What a field holds.
#[derive(Debug)]
pub(super) struct FieldType {
    pub(super) form: Form,
    /// The name that Go gives the type, if it does not follow from the form.
    go_name: Option<String>,
}

/// The forms of values.
#[derive(Debug)]
pub(super) enum Form {
    Text,
    Flag,
    Int32,
    Int64,
    Double,
    Quantity,
    Time,
    MicroTime,
    IntOrText,
    /// Base64.
    Bytes,
    /// Any object, kept as it is.
    Raw,
    FieldsV1,
    /// Any JSON.
    Json,
    SchemaOrList,
    SchemaOrFlag,
    SchemaOrTexts,
    List {
        item: Box<FieldType>,
        /// Whether protobuf wraps it into a message of its own.
        is_message: bool,
    },
    Map(Box<FieldType>),
    Struct(TypeReference),
}

/// A type by name.
#[derive(Debug)]
pub(super) struct TypeReference {
    pub(super) package: usize,
    pub(super) name: &'static str,
    found: OnceLock<&'static Type>,
}

/// A list of values by the name of its type.
#[derive(Debug)]
pub(super) struct EnumReference {
    package: usize,
    name: &'static str,
}

impl Package {
    pub(super) fn get(number: usize) -> &'static Self {
        PACKAGES[number].get_or_init(|| {
            let parsed = parse::package(number, TABLES[number].1);
            parsed.expect("tables are generated, and a test reads all of them")
        })
    }

    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        (0..TABLES.len()).map(Self::get)
    }

    /// The number of a package by the name of its table.
    pub(super) fn number(name: &str) -> Option<usize> {
        // The list above must stay sorted for this.
        TABLES.binary_search_by(|(own, _)| (*own).cmp(name)).ok()
    }

    pub(super) fn find(&'static self, name: &str) -> Option<&'static Type> {
        let index = self.types.binary_search_by(|own| own.name.cmp(name)).ok()?;
        Some(&self.types[index])
    }

    pub(super) fn kinds(&'static self) -> &'static [KindRow] {
        &self.kinds
    }
}

impl Type {
    /// All fields, also those of types that are inlined, sorted by name.
    pub(super) fn fields(&'static self) -> &'static [&'static TypeField] {
        self.flat.get_or_init(|| {
            let mut fields = Vec::with_capacity(self.rows.len());
            for row in &self.rows {
                match row {
                    Row::Field(field) => fields.push(&**field),
                    // This ends because no struct of Go can embed itself.
                    Row::Inline { of, .. } => fields.extend(of.get().fields()),
                }
            }
            fields.sort_by_key(|field| field.name);
            fields
        })
    }

    pub(super) fn field(&'static self, name: &str) -> Option<&'static TypeField> {
        let fields = self.fields();
        fields.binary_search_by(|field| field.name.cmp(name)).ok().map(|index| fields[index])
    }

    /// The types that are inlined on the way to a field, the outermost first.
    pub(super) fn inlined(&'static self, name: &str) -> Vec<&'static str> {
        for row in &self.rows {
            match row {
                Row::Field(field) if field.name == name => return Vec::new(),
                Row::Inline { of, .. } if of.get().field(name).is_some() => {
                    let mut path = vec![of.name];
                    path.extend(of.get().inlined(name));
                    return path;
                }
                _ => {}
            }
        }
        Vec::new()
    }

    /// What Go calls it, with its package.
    pub(super) fn go_name(&self) -> String {
        format!("{}.{}", Package::get(self.package).go_name, self.name)
    }

    /// What `OpenAPI` calls it.
    pub(super) fn model(&self) -> String {
        format!("{}.{}", Package::get(self.package).model, self.name)
    }
}

impl TypeField {
    /// The values it may have, sorted, if they are known.
    pub(super) fn allowed(&self) -> Option<&'static [&'static str]> {
        let reference = self.values.as_ref()?;
        let enums = &Package::get(reference.package).enums;
        let index = enums.binary_search_by(|(name, _)| (*name).cmp(reference.name)).ok()?;
        Some(&enums[index].1)
    }
}

impl TypeReference {
    pub(super) fn get(&self) -> &'static Type {
        self.found.get_or_init(|| {
            let found = Package::get(self.package).find(self.name);
            found.expect("tables have what they refer to, and a test follows all of it")
        })
    }
}

impl FieldType {
    /// Whether Go calls the type so.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.go_name.as_deref() == Some(name)
    }

    /// What Go calls the type.
    pub(super) fn go_name(&self) -> String {
        if let Some(name) = &self.go_name {
            return name.clone();
        }
        match &self.form {
            Form::Text => "string".to_owned(),
            Form::Flag => "bool".to_owned(),
            Form::Int32 => "int32".to_owned(),
            Form::Int64 => "int64".to_owned(),
            Form::Double => "float64".to_owned(),
            Form::Quantity => "resource.Quantity".to_owned(),
            Form::Time => "v1.Time".to_owned(),
            Form::MicroTime => "v1.MicroTime".to_owned(),
            Form::IntOrText => "intstr.IntOrString".to_owned(),
            Form::Bytes => "[]uint8".to_owned(),
            Form::Raw => "runtime.RawExtension".to_owned(),
            Form::FieldsV1 => "v1.FieldsV1".to_owned(),
            Form::Json => "v1.JSON".to_owned(),
            Form::SchemaOrList => "v1.JSONSchemaPropsOrArray".to_owned(),
            Form::SchemaOrFlag => "v1.JSONSchemaPropsOrBool".to_owned(),
            Form::SchemaOrTexts => "v1.JSONSchemaPropsOrStringArray".to_owned(),
            Form::List { item, .. } => format!("[]{}", item.go_name()),
            Form::Map(item) => format!("map[string]{}", item.go_name()),
            Form::Struct(reference) => reference.get().go_name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(shape: &'static FieldType) {
        match &shape.form {
            Form::List { item, .. } | Form::Map(item) => follow(item),
            Form::Struct(reference) => assert_eq!(reference.get().name, reference.name),
            _ => {}
        }
    }

    #[test]
    fn every_table_can_be_read_and_has_what_it_refers_to() {
        assert_eq!(TABLES.len(), PACKAGES.len());
        assert!(TABLES.is_sorted());
        for number in 0..TABLES.len() {
            let package = Package::get(number);
            for kind in package.kinds() {
                assert!(package.find(kind.name).unwrap().is_kind, "{}", kind.name);
            }
            for field in package.types.iter().flat_map(Type::fields) {
                follow(&field.shape);
                assert_eq!(field.values.is_some(), field.allowed().is_some(), "{}", field.name);
            }
        }
    }

    #[test]
    fn no_type_has_two_fields_of_one_name() {
        for number in 0..TABLES.len() {
            for of in &Package::get(number).types {
                assert!(of.fields().is_sorted_by(|one, next| one.name < next.name), "{}", of.name);
            }
        }
    }
}
