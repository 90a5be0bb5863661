//! Functions of text that do not check words.
//!
//! Follows sprig 3.3.0, `functions.go`, `strings.go`, and Go 1.26, `strings`.

mod cut;
mod pad;
mod split;

use ferroplane_golang::strconv::push_quoted;
use ferroplane_golang::unicode;

use super::arguments::{characters, int, strings, text};
use super::{cast, function, variadic};
use crate::{Context, Failure, Function, Text, Type, Value, print};

use Type::{Any, Bool, Int, String};

pub(super) const FUNCTIONS: &[Function] = &[
    function("hello", &[], String, |_, _| Ok(Value::text("Hello!"))),
    function("trim", &[String], String, cut::trim),
    function("trimAll", &[String, String], String, cut::trim_all),
    function("trimall", &[String, String], String, cut::trim_all),
    function("trimPrefix", &[String, String], String, cut::trim_prefix),
    function("trimSuffix", &[String, String], String, cut::trim_suffix),
    function("trunc", &[Int, String], String, cut::trunc),
    function("substr", &[Int, Int, String], String, cut::substr),
    function("abbrev", &[Int, String], String, cut::abbrev),
    function("abbrevboth", &[Int, Int, String], String, cut::abbrevboth),
    function("upper", &[String], String, upper),
    function("lower", &[String], String, lower),
    function("repeat", &[Int, String], String, pad::repeat),
    function("indent", &[Int, String], String, pad::indent),
    function("nindent", &[Int, String], String, pad::nindent),
    function("wrap", &[Int, String], String, pad::wrap),
    function("wrapWith", &[Int, String, String], String, pad::wrap_with),
    function("replace", &[String, String, String], String, pad::replace),
    function("contains", &[String, String], Bool, contains),
    function("hasPrefix", &[String, String], Bool, has_prefix),
    function("hasSuffix", &[String, String], Bool, has_suffix),
    variadic("quote", &[], Any, String, quote),
    variadic("squote", &[], Any, String, squote),
    variadic("cat", &[], Any, String, cat),
    function("plural", &[String, String, Int], String, plural),
    function("toString", &[Any], String, |ctx, args| Ok(Value::String(cast::to_text(ctx, &args[0])?))),
    function("toStrings", &[Any], Type::List(&String), to_strings),
    function("join", &[String, Any], String, join),
    function("sortAlpha", &[Any], Type::List(&String), sort_alpha),
    function("split", &[String, String], Type::Map(&String), split::split),
    function("splitn", &[String, Int, String], Type::Map(&String), split::splitn),
    function("splitList", &[String, String], Type::List(&String), split::split_list),
];

fn upper(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let upper: std::string::String = characters(args, 0).chars().map(unicode::to_upper).collect();
    Ok(Value::text(upper))
}

fn lower(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let lower: std::string::String = characters(args, 0).chars().map(unicode::to_lower).collect();
    Ok(Value::text(lower))
}

fn contains(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Bool(split::find(text(args, 1), text(args, 0)).is_some()))
}

fn has_prefix(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Bool(text(args, 1).starts_with(text(args, 0))))
}

fn has_suffix(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(Value::Bool(text(args, 1).ends_with(text(args, 0))))
}

/// No text is longer in quotes than so many times its length: `\x00` stands for one byte.
const QUOTED: usize = 4;

fn quote(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    // Nearly all calls have one argument, which need not be joined to anything.
    if let [Value::String(text)] = args {
        ctx.charge(text.len().saturating_mul(QUOTED))?;
        return Ok(Value::String(ctx.write_text(|out| push_quoted(out, text))));
    }
    spaced(ctx, args, cast::to_text, QUOTED, push_quoted)
}

fn squote(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    spaced(ctx, args, shown, 1, |out, text| {
        out.push(b'\'');
        out.extend_from_slice(text);
        out.push(b'\'');
    })
}

fn cat(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    spaced(ctx, args, shown, 1, Vec::extend_from_slice)
}

fn shown(ctx: &mut Context<'_>, value: &Value) -> Result<Text, Failure> {
    print::sprint(ctx, std::slice::from_ref(value))
}

/// All arguments with spaces between them, each written in some way that makes it so many times as long at most. What is nil is
/// left out.
fn spaced(
    ctx: &mut Context<'_>,
    args: &[Value],
    to_text: fn(&mut Context<'_>, &Value) -> Result<Text, Failure>,
    growth: usize,
    write: fn(&mut Vec<u8>, &[u8]),
) -> Result<Value, Failure> {
    let mut joined = Vec::new();
    for (at, value) in args.iter().filter(|value| !matches!(value, Value::Nil)).enumerate() {
        let text = to_text(ctx, value)?;
        // Before it is written: one long text can be each of many arguments. A space and two quotes may come with it.
        ctx.charge(text.len().saturating_mul(growth).saturating_add(3))?;
        if at > 0 {
            joined.push(b' ');
        }
        write(&mut joined, &text);
    }
    Ok(Value::text(joined))
}

fn plural(_: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    Ok(args[usize::from(int(args, 2) != 1)].clone())
}

fn to_strings(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let texts = cast::to_texts(ctx, &args[0])?;
    strings(ctx, texts.into_iter().map(Value::String).collect())
}

fn join(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let texts = cast::to_texts(ctx, &args[1])?;
    let separator = text(args, 0);
    let length = texts.iter().map(|text| text.len() + separator.len()).sum();
    ctx.charge(length)?;
    let mut joined = Vec::with_capacity(length);
    for (at, text) in texts.iter().enumerate() {
        joined.extend_from_slice(if at > 0 { separator } else { b"" });
        joined.extend_from_slice(text);
    }
    Ok(Value::text(joined))
}

fn sort_alpha(ctx: &mut Context<'_>, args: &[Value]) -> Result<Value, Failure> {
    let mut texts = match &args[0] {
        Value::List(_) | Value::Bytes(_) => cast::to_texts(ctx, &args[0])?,
        other => vec![cast::to_text(ctx, other)?],
    };
    // To compare long texts is work, and one long text can be each of many.
    ctx.step(texts.iter().map(|text| 1 + text.len() as u64 / 64).sum())?;
    texts.sort();
    strings(ctx, texts.into_iter().map(Value::String).collect())
}

/// The characters of text, each with its length; what is no UTF-8 is a replacement character with the length one.
pub(super) fn decode(text: &[u8]) -> impl Iterator<Item = (char, usize)> {
    text.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|character| (character, character.len_utf8()));
        valid.chain(chunk.invalid().iter().map(|_| (char::REPLACEMENT_CHARACTER, 1)))
    })
}
