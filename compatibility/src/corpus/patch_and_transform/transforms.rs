//! Transforms that mostly fit what they are given.

use serde_json::{Value, json};

use super::{Kind, number, text};
use crate::dice::Dice;

pub(super) const VERBS: &[&str] = &[
    "%s", "%s", "%s", "%v", "%v", "%d", "%q", "%x", "%X", "%t", "%f", "%.2f", "%5.1f", "%e", "%g", "%G",
    "%05d", "%-8s|", "%8v", "%+v", "%#v", "%+d", "% d", "%T", "%c", "%U", "%#x", "%08.3f", "%+.1e", "%b",
    "%o", "%.3s", "%.3q", "%x|%[1]X", "%#q", "%+q", "%6.2v", "%-6d|", "%w", "%O", "%#g", "%F", "%E", "%#U",
    "%[1]s", "% x", "%06s",
];

pub(super) fn transform(dice: &mut Dice, kind: &mut Kind) -> Value {
    if dice.chance(4) {
        *kind = Kind::Text;
    }
    if dice.chance(50) {
        return format(dice, kind);
    }
    match *kind {
        Kind::Text => of_text(dice, kind),
        Kind::Digits | Kind::Bool => convert(dice, kind),
        Kind::Encoded => {
            *kind = Kind::Text;
            string(
                &json!({"type": "Convert", "convert": dice.pick(&["FromBase64", "ToBase64", "FromBase64"])}),
            )
        }
        Kind::Json => {
            let to = *dice.pick(&["object", "array"]);
            *kind = if to == "object" { Kind::Object } else { Kind::List };
            json!({"type": "convert", "convert": {"toType": to, "format": "json"}})
        }
        Kind::Number => of_number(dice, kind),
        Kind::List => {
            *kind = Kind::Text;
            if dice.chance(60) {
                string(
                    &json!({"type": "Join", "join": {"separator": dice.pick(&[",", "", ", ", "→", "--"])}}),
                )
            } else {
                hash(dice)
            }
        }
        Kind::Object | Kind::Other => {
            *kind = Kind::Text;
            hash(dice)
        }
    }
}

fn string(string: &Value) -> Value {
    json!({"type": "string", "string": string})
}

fn format(dice: &mut Dice, kind: &mut Kind) -> Value {
    *kind = Kind::Text;
    let format = format!("{}{}", dice.pick(&["", "a-", "é"]), dice.pick(VERBS));
    string(&json!({"type": "Format", "fmt": format}))
}

fn hash(dice: &mut Dice) -> Value {
    let conversions = [
        "ToSha1",
        "ToSha256",
        "ToSha512",
        "ToAdler32",
        "ToJson",
        "ToJson",
        "ToUpper",
        "ToLower",
        "ToBase64",
        "FromBase64",
    ];
    string(&json!({"type": "Convert", "convert": dice.pick(&conversions)}))
}

fn of_text(dice: &mut Dice, kind: &mut Kind) -> Value {
    match dice.below(14) {
        0 => {
            *kind = Kind::Other;
            let pairs: serde_json::Map<_, _> = (0..8)
                .map(|_| (text(dice), number(dice)))
                .chain([("hello".into(), json!({"a": [1, null]})), ("name".into(), json!(null))])
                .collect();
            json!({"type": "map", "map": pairs})
        }
        1 | 2 => matching(dice, kind),
        3 => string(&json!({"type": "TrimPrefix", "trim": dice.pick(&["hello", "prefix-", "H", ""])})),
        4 => string(&json!({"type": "TrimSuffix", "trim": dice.pick(&["-suffix", "o", "ld", ""])})),
        5 => {
            let expressions = [
                "[a-z]+",
                "(\\w+)-(\\w+)",
                ".*",
                "^h(e)(l+)?(z)?",
                "\\d+",
                "[[:alpha:]]",
                "(?i)HELLO",
                "é",
                "(a|b)*",
                "[^/]+$",
                "\\bname\\b",
            ];
            string(
                &json!({"type": "Regexp", "regexp": {"match": dice.pick(&expressions), "group": dice.pick(&[0, 0, 0, 1, 2])}}),
            )
        }
        6 => {
            let (search, replace) =
                *dice.pick(&[("l", "LL"), ("-", ""), ("é", "e"), ("hello", "bye"), ("x", "y")]);
            string(&json!({"type": "Replace", "replace": {"search": search, "replace": replace}}))
        }
        7 => {
            *kind = Kind::Other;
            let to = *dice.pick(&["string", "int", "int64", "bool", "float64", "object"]);
            json!({"type": "convert", "convert": {"toType": to}})
        }
        _ => hash(dice),
    }
}

fn matching(dice: &mut Dice, kind: &mut Kind) -> Value {
    *kind = Kind::Other;
    let result = |dice: &mut Dice| match dice.below(4) {
        0 => number(dice),
        1 => json!({"n": number(dice)}),
        2 => json!(null),
        _ => json!(text(dice)),
    };
    let patterns: Vec<_> = (0..=dice.below(3))
        .map(|_| {
            if dice.chance(50) {
                let mut pattern = json!({"type": "literal", "literal": text(dice), "result": result(dice)});
                if dice.chance(5) {
                    pattern["type"] = json!("");
                }
                pattern
            } else {
                json!({"type": "regexp", "regexp": dice.pick(&["^h", "\\d", ".", "name$", "x{2,}", "[A-Z]"]), "result": result(dice)})
            }
        })
        .collect();
    let mut matching = json!({"patterns": patterns});
    if dice.chance(50) {
        matching["fallbackTo"] = json!(dice.pick(&["Input", "Value", "Input", ""]));
    }
    if dice.chance(30) {
        matching["fallbackValue"] = result(dice);
    }
    json!({"type": "match", "match": matching})
}

fn convert(dice: &mut Dice, kind: &mut Kind) -> Value {
    let to = *dice.pick(&["string", "int", "int64", "bool", "float64", "float64"]);
    let mut convert = json!({"toType": to});
    if *kind == Kind::Digits && to == "float64" && dice.chance(60) {
        convert["format"] = json!("quantity");
    } else if dice.chance(20) {
        convert["format"] = json!("none");
    }
    *kind = match to {
        "string" => Kind::Text,
        "bool" => Kind::Bool,
        _ => Kind::Number,
    };
    json!({"type": "convert", "convert": convert})
}

fn of_number(dice: &mut Dice, kind: &mut Kind) -> Value {
    match dice.below(6) {
        0 | 1 => {
            json!({"type": "math", "math": {"type": "Multiply", "multiply": dice.pick(&[2, -3, 0, 1024])}})
        }
        2 => json!({"type": "math", "math": {"type": "ClampMin", "clampMin": dice.pick(&[2, -3, 0, 1024])}}),
        3 => json!({"type": "math", "math": {"type": "ClampMax", "clampMax": dice.pick(&[2, -3, 0, 1024])}}),
        4 => convert(dice, kind),
        _ => {
            *kind = Kind::Text;
            hash(dice)
        }
    }
}
