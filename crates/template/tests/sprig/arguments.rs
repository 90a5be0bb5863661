//! Arguments of all kinds, good, odd and bad.

use ferroplane_template::Type;
use serde_json::json;

use crate::dice::Dice;

/// What the arguments refer to.
pub(crate) fn data() -> serde_json::Value {
    json!({
        "text": "from data", "int": 42, "negative": -7, "float": 2.75, "true": true, "null": null, "zero": 0,
        "huge": 9_007_199_254_740_993_i64, "list": ["b", "a", "c", "a"], "numbers": [3, 1, 2], "empty": [],
        "mixed": [1, "1", null, 2.5, true, {"a": 1}, ["x"]], "none": {},
        "dict": {"a": 1, "b": "two", "c": {"d": {"e": "deep"}}, "l": [1], "n": null, "z": ""},
        "other": {"a": 9, "b": "", "c": {"d": {"f": "new"}, "g": [1]}, "l": [2, 3], "n": "set", "x": {}},
        "single": {"key": "value"},
        "url": {"scheme": "https", "host": "a.b:80", "path": "/c d", "query": "e=f", "fragment": "g h", "userinfo": "u:p"},
    })
}

const TEXTS: &[&str] = &[
    r#""""#,
    r#""a""#,
    r#""abc""#,
    r#""Hello World""#,
    r#""héllo wörld ǆ ß İ""#,
    r#""a,b,,c""#,
    r#"",""#,
    r#""0x1F""#,
    r#""010""#,
    r#""12.500""#,
    r#""-3.00""#,
    r#""  pad\t\n""#,
    r#""a\xff\xfeb""#,
    r#""fooBar_baz-Qux 12x HTTPServer""#,
    r#""2006-01-02""#,
    r#""1h30m""#,
    r#""/a/../b//c.tar.gz""#,
    r#""$1-${1}x$$""#,
    r#""([a-z]+)(\\d*)""#,
    r#""日本語テキスト""#,
    r#""1.2.3""#,
    r#""true""#,
    r#""null""#,
    r#""{\"a\":[1,2.5,\"x\"]}""#,
    r#""aGVsbG8=""#,
    r#""MZXW6===""#,
    r#""https://u:p@h:1/p?q=1#f""#,
    r#""one two three four five six seven""#,
    ".text",
    r#""1e3""#,
    r#""string""#,
    r#""map""#,
    r#""line1\nline2\n""#,
    r#""a  b""#,
    r#""UTC""#,
    r#""Europe/Berlin""#,
    r#""99999999999999999999""#,
    r#""b""#,
    r#""key""#,
];

const INTS: &[&str] = &["0", "1", "2", "3", "5", "7", "10", "13", "-1", "-2", "-5", "'a'", "0x10", "40"];

const FLOATS: &[&str] = &["0.5", "0.1", "1.0", "-0.25", "3", "1e3"];

const LISTS: &[&str] = &[
    ".list",
    ".numbers",
    ".empty",
    ".mixed",
    "(list)",
    "(list 1 2 3)",
    r#"(list "a" nil "" 0 false)"#,
    r#"(splitList "," "b,a,c")"#,
    "(until 4)",
    "(list 1.5 2)",
    "(list (list 1) (list 1) (dict))",
    r#"(tuple "x")"#,
    "(rest (list))",
];

const MAPS: &[&str] = &[
    ".dict",
    ".other",
    ".none",
    ".single",
    ".url",
    "(dict)",
    r#"(dict "a" 1)"#,
    r#"(dict "b" nil "a" "")"#,
    r#"(dict "c" (dict "d" (dict "h" 1)))"#,
    r#"(dict "l" (list) "z" 0)"#,
    r#"(dict "a" (dict))"#,
];

const OTHERS: &[&str] = &[
    "nil",
    "true",
    "false",
    "0",
    "1",
    "-7",
    "3.5",
    "1e100",
    "1i",
    "'x'",
    ".int",
    ".negative",
    ".float",
    ".true",
    ".null",
    ".zero",
    ".huge",
    ".missing",
    r#"(split "," "a,b")"#,
    "(int64 5)",
    "(float64 2)",
    "9223372036854775807",
    r#"(semver "v1.2.3-rc.1+b")"#,
    r#"(toDate "2006-01-02 15:04:05" "2024-02-29 23:59:58")"#,
];

const TIMES: &[&str] = &[
    r#"(toDate "2006-01-02 15:04:05" "2024-02-29 23:59:58")"#,
    r#"(toDate "2006-01-02T15:04:05Z07:00" "2024-07-01T00:00:00+05:30")"#,
    r#"(toDate "x" "y")"#,
];

/// An argument for a parameter of this type; sometimes one of another type.
pub(crate) fn argument(dice: &mut Dice, parameter: Type) -> &'static str {
    let any = [TEXTS, INTS, FLOATS, LISTS, MAPS, OTHERS];
    let pool = match parameter {
        _ if dice.chance(4) => *dice.choose(&any),
        Type::Bool => &["true", "false", ".true"],
        Type::Int => INTS,
        Type::Float64 => FLOATS,
        Type::String => TEXTS,
        Type::Map(_) => MAPS,
        Type::Struct("time.Time") => TIMES,
        _ => *dice.choose(&any),
    };
    dice.pick(pool)
}

/// An argument where the original looks for a list.
pub(crate) fn list(dice: &mut Dice) -> &'static str {
    dice.pick(LISTS)
}
