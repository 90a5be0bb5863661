//! Makes up Compositions, the same for the same seed, out of everything that is odd to write down as YAML.

use serde_json::{Map, Value, json};

/// Pieces of texts, each odd in its own way.
const PIECES: &[&str] = &[
    "a",
    "b ",
    " c",
    "the quick brown fox",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    ": ",
    ":",
    "#",
    " #",
    "- ",
    "-",
    "?",
    "? ",
    "'",
    "''",
    "\"",
    "\\",
    "{{ .x }}",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&a",
    "*b",
    "!tag",
    "|",
    ">",
    "%",
    "@",
    "`",
    "~",
    "null",
    "true",
    "yes",
    "Off",
    "y",
    "N",
    "1",
    "0",
    "07",
    "08",
    "0x1F",
    "0b11",
    "0b-1",
    "1_000",
    "1e3",
    "1.5",
    ".5",
    ".",
    "+",
    "+1",
    "1:30",
    "1:30:59.5",
    "1:60",
    ".inf",
    "-.INF",
    ".NaN",
    "2001-12-14",
    "2001-1-1T1:1:1Z",
    "2001-02-30",
    "2001-12-14 21:59:43.10",
    "2001-12-14t21:59:43.10-05:00",
    "---",
    "...",
    "<<",
    "=",
    "é",
    "漢字",
    "😀",
    "\u{85}x",
    "\u{a0}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{1}",
    "\u{1b}",
    "\u{0}",
    "e",
    "E",
    "_",
    "https://example.org/path?query=1&other=2",
    "1e400",
    "123456789012345678901234567890",
    "-0",
    "0o17",
    "0o",
    "0x",
    "x",
    "9223372036854775808",
    "18446744073709551616",
];

const KEYS: &[&str] = &[
    "a", "b", "A", "a1", "a2", "a10", "a-b", "a.b", "a/b", "ab", "aa", "0", "1", "10", "9", "a b", "_", "é",
    "z1z", "z10z", "z2z", "", "~", "null", "true", "y", "1.5", "<<", "x: y", "x #", "1000", "100", "a100b",
    "a1b",
];

/// A source of chance (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices[self.below(choices.len())]
    }
}

/// The composition of a seed.
pub(crate) fn composition(seed: u64) -> Value {
    let mut dice = Dice(seed.wrapping_mul(0xd134_2543_de82_ef95));
    let mut metadata = json!({"name": "made-up", "uid": "u1"});
    for field in ["labels", "annotations"] {
        if dice.chance(60) {
            let count = dice.below(5);
            metadata[field] = entries(&mut dice, count, |dice| text(dice).into()).into();
        }
    }
    let mut spec = json!({
        "compositeTypeRef": {"apiVersion": text(&mut dice), "kind": text(&mut dice)},
        "mode": "Pipeline",
        "pipeline": (0..=dice.below(3)).map(|_| step(&mut dice)).collect::<Vec<_>>(),
    });
    if dice.chance(20) {
        spec["writeConnectionSecretsToNamespace"] = text(&mut dice).into();
    }
    json!({"apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": metadata, "spec": spec})
}

fn step(dice: &mut Dice) -> Value {
    let mut step = json!({"step": text(dice), "functionRef": {"name": text(dice)}});
    if dice.chance(80) {
        step["input"] = Value::Object(entries(dice, 4, |dice| value(dice, 3)));
    }
    if dice.chance(30) {
        let credential = |dice: &mut Dice| {
            let mut credential = json!({"name": text(dice), "source": "Secret"});
            if dice.chance(80) {
                credential["secretRef"] = json!({"name": text(dice), "namespace": text(dice)});
            }
            credential
        };
        step["credentials"] = (0..dice.below(3)).map(|_| credential(dice)).collect();
    }
    if dice.chance(30) {
        step["requirements"] = requirements(dice);
    }
    step
}

fn requirements(dice: &mut Dice) -> Value {
    let mut requirements = json!({});
    if dice.chance(60) {
        let required = |dice: &mut Dice| {
            let mut required =
                json!({"requirementName": text(dice), "apiVersion": text(dice), "kind": text(dice)});
            for field in ["name", "namespace"] {
                if dice.chance(30) {
                    required[field] = text(dice).into();
                }
            }
            if dice.chance(30) {
                let count = dice.below(3);
                required["matchLabels"] = entries(dice, count, |dice| text(dice).into()).into();
            }
            required
        };
        requirements["requiredResources"] = (0..dice.below(3)).map(|_| required(dice)).collect();
    }
    if dice.chance(40) {
        let required = |dice: &mut Dice| json!({"requirementName": text(dice), "apiVersion": text(dice), "kind": text(dice)});
        requirements["requiredSchemas"] = (0..dice.below(3)).map(|_| required(dice)).collect();
    }
    requirements
}

fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => dice.chance(50).into(),
        2 => number(dice),
        3..=5 => text(dice).into(),
        6 => {
            let count = dice.below(4);
            (0..count).map(|_| value(dice, depth - 1)).collect()
        }
        _ => {
            let count = dice.below(4);
            Value::Object(entries(dice, count, |dice| value(dice, depth - 1)))
        }
    }
}

/// Numbers as an API server written in Go sends them.
fn number(dice: &mut Dice) -> Value {
    let numbers = [
        json!(0),
        json!(-1),
        json!(42),
        json!(1_000_000),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(0.5),
        json!(-1.25),
        json!(1e21),
        json!(1.5e300),
        json!(1e-7),
        json!(0.0001),
        json!(0.000_012_5),
        json!(123_456.75),
        json!(1_234_567.5),
        json!(2.345_678_901_234_567),
        json!(1e100),
        json!(5e-324),
        json!(99_999.5),
        json!(999_999.5),
    ];
    numbers[dice.below(numbers.len())].clone()
}

fn entries(dice: &mut Dice, count: usize, mut value: impl FnMut(&mut Dice) -> Value) -> Map<String, Value> {
    (0..count).map(|_| (key(dice), value(dice))).collect()
}

fn key(dice: &mut Dice) -> String {
    match dice.below(10) {
        0 => text(dice).replace('0', "1"),
        1 => "long-key-".repeat(1 + dice.below(16)),
        2 => format!("{}{}", dice.pick(&["x", "x-", "zz."]), dice.pick(KEYS)),
        _ => dice.pick(KEYS).to_owned(),
    }
}

fn text(dice: &mut Dice) -> String {
    let count = match dice.below(10) {
        0..=3 => 1,
        4..=7 => 1 + dice.below(5),
        _ => 10 + dice.below(40),
    };
    (0..count).map(|_| dice.pick(PIECES)).collect()
}
