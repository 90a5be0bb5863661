//! Reads a table. One line is one package, enum, kind, type or field.
//!
//! Our own design: the form of the tables is ours (`tables/README.md`).

use std::sync::OnceLock;

use serde_json::Value;

use super::{
    Default, EnumReference, FieldType, Form, KindRow, ListType, Package, Row, SchemaDefault, Type, TypeField,
    TypeReference,
};

/// Reads the table of a package.
pub(super) fn package(number: usize, text: &'static str) -> Result<Package, String> {
    let mut package =
        Package { model: "", go_name: "", types: Vec::new(), kinds: Vec::new(), enums: Vec::new() };
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_ascii_whitespace();
        let wrong = || format!("cannot read `{line}`");
        if line.starts_with(' ') {
            let go_name = package.go_name;
            let row = row(number, go_name, &mut words).ok_or_else(wrong)?;
            package.types.last_mut().ok_or_else(wrong)?.rows.push(row);
            continue;
        }
        match (words.next(), words.next()) {
            (Some("package"), Some(model)) => {
                package.model = model;
                package.go_name = words.next().ok_or_else(wrong)?;
            }
            (Some("enum"), Some(name)) => {
                // Not by words: values may contain spaces.
                let values = line.splitn(3, ' ').nth(2).ok_or_else(wrong)?;
                package.enums.push((name, values.split('|').collect()));
            }
            (Some("kind"), Some(name)) => {
                let group = words.next().ok_or_else(wrong)?;
                let version = words.next().ok_or_else(wrong)?;
                package.kinds.push(KindRow { name, group: if group == "-" { "" } else { group }, version });
            }
            (Some("type"), Some(name)) => package.types.push(type_of(number, name, words)),
            _ => return Err(wrong()),
        }
    }
    Ok(package)
}

fn type_of(package: usize, name: &'static str, words: impl Iterator<Item = &'static str>) -> Type {
    let mut of = Type {
        name,
        package,
        is_kind: false,
        has_schema: true,
        map_type: None,
        unions: None,
        rows: Vec::new(),
        flat: OnceLock::new(),
    };
    for word in words {
        match word.split_once('=') {
            Some(("M", value)) => of.map_type = Some(value),
            Some(("U", value)) => of.unions = Some(value),
            _ if word == "+" => of.is_kind = true,
            _ => of.has_schema = false,
        }
    }
    of
}

fn row(package: usize, go_name: &str, words: &mut impl Iterator<Item = &'static str>) -> Option<Row> {
    let name = words.next()?;
    let number = words.next()?.parse().ok()?;
    let shape = shape(package, go_name, words.next()?)?;
    if name == "~" {
        let Form::Struct(of) = shape.form else { return None };
        return Some(Row::Inline { number, of });
    }
    let mut field = TypeField {
        name,
        number,
        shape,
        is_required: false,
        is_pointer: false,
        is_always_written: false,
        omits_zero: false,
        is_hidden: false,
        list: None,
        map_type: None,
        patch: None,
        merge_key: None,
        values: None,
        schema_default: SchemaDefault::Implied,
        default: None,
    };
    words.try_for_each(|word| fact(package, &mut field, word))?;
    Some(Row::Field(Box::new(field)))
}

fn fact(package: usize, field: &mut TypeField, word: &'static str) -> Option<()> {
    match word {
        "r" => field.is_required = true,
        "*" => field.is_pointer = true,
        "!" => field.is_always_written = true,
        "z" => field.omits_zero = true,
        "-" => field.is_hidden = true,
        "L-" => field.list = Some(ListType::Atomic),
        "L+" => field.list = Some(ListType::Set),
        "d-" => field.schema_default = SchemaDefault::None,
        _ => {
            let (name, value) = word.split_once('=')?;
            match name {
                "L" => field.list = Some(ListType::Map(value.split(',').collect())),
                "M" => field.map_type = Some(value),
                "P" => field.patch = Some(value),
                "K" => field.merge_key = Some(value),
                "e" => {
                    let (package, name) = qualified(package, value)?;
                    field.values = Some(EnumReference { package, name });
                }
                "d" => field.schema_default = SchemaDefault::Value(json(value)?),
                _ => {
                    let kinds = name.strip_prefix('D')?;
                    let kinds = match kinds.strip_prefix('@') {
                        Some(kinds) => kinds.split(',').collect(),
                        None => Vec::new(),
                    };
                    field.default = Some(Default { kinds, value: json(value)? });
                }
            }
        }
    }
    Some(())
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// The package and the name of a type; without a package it is one of the same.
fn qualified(package: usize, text: &'static str) -> Option<(usize, &'static str)> {
    match text.split_once('/') {
        None => Some((package, text)),
        Some((package, name)) => Some((Package::number(package)?, name)),
    }
}

fn shape(package: usize, package_name: &str, text: &'static str) -> Option<FieldType> {
    let (text, is_message) = match text.strip_prefix('%') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    // A name is everything up to the first colon, unless a list or a map starts before that.
    if let Some((name, rest)) = text.split_once(':')
        && !name.starts_with(['[', '{', '@'])
    {
        let qualified = name.contains('.');
        let go_name = if qualified { name.to_owned() } else { format!("{package_name}.{name}") };
        let mut shape = shape(package, package_name, rest)?;
        shape.go_name = Some(go_name);
        if let Form::List { is_message: flag, .. } = &mut shape.form {
            *flag = is_message;
        }
        return Some(shape);
    }
    let inner = |rest: &'static str| shape(package, package_name, rest).map(Box::new);
    let form = match text {
        "s" => Form::Text,
        "b" => Form::Flag,
        "i" => Form::Int32,
        "l" => Form::Int64,
        "d" => Form::Double,
        "q" => Form::Quantity,
        "t" => Form::Time,
        "u" => Form::MicroTime,
        "o" => Form::IntOrText,
        "y" => Form::Bytes,
        "r" => Form::Raw,
        "F" => Form::FieldsV1,
        "j" => Form::Json,
        "A" => Form::SchemaOrList,
        "B" => Form::SchemaOrFlag,
        "S" => Form::SchemaOrTexts,
        _ => {
            if let Some(rest) = text.strip_prefix('[') {
                Form::List { item: inner(rest)?, is_message }
            } else if let Some(rest) = text.strip_prefix('{') {
                Form::Map(inner(rest)?)
            } else {
                let (package, name) = qualified(package, text.strip_prefix('@')?)?;
                Form::Struct(TypeReference { package, name, found: OnceLock::new() })
            }
        }
    };
    Some(FieldType { form, go_name: None })
}
