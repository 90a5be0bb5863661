//! Calls of every function, by hand and by chance.

use ferroplane_template::{Function, Type, sprig};

use crate::arguments::{argument, list};
use crate::dice::Dice;

/// A template that calls a function.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) template: String,
}

/// Functions whose results are not the same twice, or that are refused here. Only what they say about wrong arguments can be compared.
pub(crate) const UNREPEATABLE: &[&str] = &[
    "now",
    "ago",
    "randAlpha",
    "randAlphaNum",
    "randNumeric",
    "randAscii",
    "randInt",
    "randBytes",
    "shuffle",
    "uuidv4",
    "bcrypt",
    "htpasswd",
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "encryptAES",
    "buildCustomCert",
    "env",
    "expandenv",
    "getHostByName",
    // It takes a tenth of a second.
    "derivePassword",
];

/// Functions that take the time of now for everything that is not a date.
const DATES: &[&str] = &["date", "dateInZone", "date_in_zone", "htmlDate", "htmlDateInZone", "durationRound"];

/// Functions whose first parameter can be anything, but should be a list.
const LISTS: &[&str] = &[
    "append",
    "push",
    "prepend",
    "first",
    "last",
    "rest",
    "initial",
    "reverse",
    "compact",
    "uniq",
    "without",
    "slice",
    "sortAlpha",
    "toStrings",
];

/// Functions that give as much as a number asks for.
const SIZED: &[&str] = &["until", "untilStep", "seq", "repeat", "indent", "nindent"];

/// Functions, by a part of their names, that read text which is not UTF-8 with replacement characters. The original keeps
/// its bytes.
const NOT_BYTES: &[&str] = &["egex", "ateModify", "date_modify", "urlParse"];

/// Functions that give what is in a dictionary in any order.
const UNORDERED: &[&str] = &["keys", "values"];

pub(crate) fn all(seed: u64, count: u64) -> Vec<Call> {
    let handmade = HANDMADE.lines().filter_map(|line| line.split_once(' '));
    let mut calls: Vec<_> =
        handmade.map(|(name, template)| Call { name, template: template.to_owned() }).collect();
    for function in sprig::classes().flat_map(|(_, functions)| functions) {
        if UNREPEATABLE.contains(&function.name) {
            calls.extend(mistaken(function).map(|template| Call { name: function.name, template }));
            continue;
        }
        let by_chance = (seed..seed + count).map(|seed| by_chance(function, seed));
        calls.extend(by_chance.map(|template| Call { name: function.name, template }));
    }
    calls
}

/// Calls that fail before the function begins: with too many arguments, too few, and one of another type in every place.
fn mistaken(function: &Function) -> impl Iterator<Item = String> {
    let fitting: Vec<_> = function.parameters.iter().map(|parameter| fitting(*parameter)).collect();
    let mut mistakes = vec![[&fitting[..], &["1"]].concat()];
    mistakes.extend((0..fitting.len()).map(|count| fitting[..count].to_vec()));
    for (at, parameter) in function.parameters.iter().enumerate() {
        for wrong in unfit(*parameter).iter().copied() {
            let mut arguments = fitting.clone();
            arguments[at] = wrong;
            mistakes.push(arguments);
        }
        // No constant is a certificate, so that nobody reads the arguments behind it.
        if matches!(parameter, Type::Struct(_)) {
            break;
        }
    }
    let name = function.name;
    mistakes.into_iter().map(move |arguments| {
        let call = [&[name], &arguments[..]].concat().join(" ");
        format!("{{{{ {call} }}}}")
    })
}

/// An argument that a parameter of this type takes.
fn fitting(parameter: Type) -> &'static str {
    match parameter {
        Type::Any => "0",
        Type::String => r#""a""#,
        Type::Int | Type::Uint32 => "1",
        _ => "nil",
    }
}

/// Arguments that a parameter of this type does not take.
fn unfit(parameter: Type) -> &'static [&'static str] {
    match parameter {
        Type::Any => &[],
        Type::String => &["1", "1.5", "true", "nil", ".int", ".null", ".missing", ".list", "(dict)"],
        Type::Int => &[r#""x""#, "1.5", "1i", "true", "nil", ".int", ".text", ".null", ".missing", ".list"],
        Type::Uint32 => &[r#""x""#, "-1", "1.5", "true", "nil", ".int", ".text", ".null", ".missing"],
        Type::List(_) => &[r#""x""#, "1", "true", ".text", ".int", ".null", ".dict"],
        _ => &[r#""x""#, "1", "true", "nil", ".text", ".null", ".missing", ".list", ".dict"],
    }
}

fn by_chance(function: &Function, seed: u64) -> String {
    let name = function.name;
    let mut dice = Dice::new(seed.wrapping_mul(1000).wrapping_add(name.bytes().map(u64::from).sum()));
    let mut wanted = function.parameters.len();
    if function.rest.is_some() {
        wanted += dice.below(4);
    }
    if dice.chance(3) {
        wanted += 1;
    }
    if dice.chance(3) {
        wanted = wanted.saturating_sub(1);
    }
    let mut arguments: Vec<&str> = Vec::new();
    for at in 0..wanted {
        let parameter = function.parameters.get(at).copied().or(function.rest).unwrap_or(Type::Any);
        let is_date = DATES.contains(&name) && parameter == Type::Any;
        let is_list = parameter == Type::Any
            && (LISTS.contains(&name.trim_start_matches("must")) && at == 0 || name.ends_with("has"));
        arguments.push(match () {
            () if is_date => {
                dice.pick(&[".int", "1700000000", "-1", ".negative", "(int64 951827445)", "99999999999"])
            }
            () if is_list && dice.chance(70) => list(&mut dice),
            // A dictionary that contains itself would be the end of the original.
            () if name == "set" && at == 2 => argument(&mut dice, Type::String),
            () => argument(&mut dice, parameter),
        });
    }
    if NOT_BYTES.iter().any(|part| name.contains(part)) {
        arguments
            .iter_mut()
            .filter(|argument| argument.contains(r"\xff"))
            .for_each(|argument| *argument = r#""abc""#);
    }
    // The original has no limits.
    if SIZED.contains(&name) {
        arguments.iter_mut().filter(|argument| argument.len() > 15).for_each(|argument| *argument = "3");
    }
    // The original loses what is inside of a pointer; we do not.
    if name.ends_with("eepCopy") {
        arguments
            .iter_mut()
            .filter(|argument| argument.contains("semver"))
            .for_each(|argument| *argument = "5");
    }
    let call = [&[name], &arguments[..]].concat().join(" ");
    if UNORDERED.contains(&name) {
        return format!("{{{{ {call} | sortAlpha }}}}");
    }
    // Some functions change what they are given.
    let first = arguments.first().filter(|first| !first.starts_with('(')).copied().unwrap_or("0");
    format!(
        r#"{{{{ $x := {call} }}}}{{{{ printf "%T %v" $x $x }}}} {{{{ toJson $x }}}} {{{{ toJson {first} }}}}"#
    )
}

/// What chance would not find: on each line the name of a function and a template.
const HANDMADE: &str = include_str!("handmade.txt");
