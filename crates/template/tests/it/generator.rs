//! Templates made of a grammar, most of them well formed, and documents to execute them over.

use serde_json::{Value, json};

use crate::dice::Dice;

/// A template and what it is executed with.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) template: String,
    pub(crate) data: Value,
    pub(crate) delimiters: (&'static str, &'static str),
    pub(crate) missing_key: &'static str,
}

pub(crate) fn case(seed: u64) -> Case {
    let mut writer = Writer {
        dice: Dice::new(seed),
        delimiters: ("{{", "}}"),
        loops: 0,
        variables: vec![],
        level: 0,
        blocks: 0,
    };
    if writer.dice.chance(5) {
        writer.delimiters = *writer.dice.choose(&[("<%", "%>"), ("[[", "]]"), ("{", "}"), ("é(", ")é")]);
    }
    let mut template = writer.whole();
    if writer.dice.chance(15) {
        template = writer.damaged(&template);
    }
    let data = writer.data();
    let missing_key = writer.dice.pick(&["", "", "", "", "zero", "error", "default"]);
    Case { template, data, delimiters: writer.delimiters, missing_key }
}

struct Writer {
    dice: Dice,
    delimiters: (&'static str, &'static str),
    loops: usize,
    variables: Vec<&'static str>,
    /// How many definitions can still be called: a template never calls itself.
    level: usize,
    blocks: usize,
}

const NAMES: [&str; 3] = ["alpha", "beta", "delta\\t"];
const FIELDS: &[&str] = &[
    "name", "count", "ratio", "flag", "items", "map", "deep", "empty", "null", "missing", "a", "b", "Name",
    "X", "é", "big",
];

/// Functions, and how many arguments they take at least and at most.
const FUNCTIONS: &[(&str, usize, usize)] = &[
    ("and", 1, 3),
    ("or", 1, 3),
    ("not", 1, 1),
    ("len", 1, 1),
    ("index", 1, 3),
    ("slice", 1, 3),
    ("eq", 2, 4),
    ("ne", 2, 2),
    ("lt", 2, 2),
    ("le", 2, 2),
    ("gt", 2, 2),
    ("ge", 2, 2),
    ("print", 0, 4),
    ("println", 0, 3),
    ("html", 1, 2),
    ("js", 1, 2),
    ("urlquery", 1, 2),
    ("call", 1, 2),
    ("wantBool", 1, 1),
    ("wantInt", 1, 1),
    ("wantInt64", 1, 1),
    ("wantFloat", 1, 1),
    ("wantString", 1, 1),
    ("wantAny", 1, 1),
    ("wantList", 1, 1),
    ("wantStrings", 1, 1),
    ("wantMap", 1, 1),
    ("wantRest", 1, 3),
    ("wantAnys", 0, 3),
    ("same", 1, 1),
    ("fails", 1, 1),
    ("strings", 1, 1),
    ("ints", 0, 0),
    ("bytes", 1, 1),
    ("texts", 0, 0),
    ("lists", 0, 3),
    ("nested", 0, 0),
    ("nilList", 0, 0),
    ("nilMap", 0, 0),
    ("dictOf", 2, 2),
    ("put", 3, 3),
    ("point", 0, 0),
    ("eq", 2, 2),
    ("eq", 2, 3),
    ("index", 2, 2),
    ("printf", 2, 4),
    ("printf", 2, 4),
    ("printf", 1, 3),
    ("print", 1, 2),
    ("and", 2, 2),
    ("or", 2, 2),
];

impl Writer {
    fn data(&mut self) -> Value {
        match self.dice.below(24) {
            0 => json!(null),
            1 => json!("text"),
            2 => json!([1, "a", null, {"a": 1}, [2.5]]),
            3 => json!(7),
            4 => json!({}),
            5 => {
                json!({"name": 5, "count": "5", "items": {"a": [1], "b": null}, "map": [{"a": 1}, {"a": 2}], "a": "x"})
            }
            _ => json!({
                "name": "x<y>&\"é\" z", "count": 3, "ratio": 2.5, "flag": true, "null": null, "big": -9_007_199_254_740_993_i64,
                "items": [1, "two", 3.5, null, false, [1, [2]], {"a": "b"}],
                "map": {"a": 1, "b": "c", "z": {"a": null}, "é": 1e21},
                "deep": {"a": {"b": {"name": "leaf", "items": ["p", "q"]}}, "name": ""},
                "empty": [], "a": {}, "b": "", "X": -1
            }),
        }
    }

    fn whole(&mut self) -> String {
        let mut text = String::new();
        let definitions = self.dice.below(3);
        // A template calls only those that are defined with a smaller level.
        for (level, name) in NAMES.iter().enumerate().take(definitions) {
            self.level = level;
            self.variables.clear();
            let body = self.list(2);
            let open = self.tagged(&format!("define \"{name}\""));
            let end = self.tagged("end");
            text += &format!("{open}{body}{end}");
        }
        self.level = definitions;
        self.variables.clear();
        text + &self.list(3)
    }

    /// An action, with or without trim markers and space.
    fn tagged(&mut self, inner: &str) -> String {
        let (left, right) = self.delimiters;
        let before = self.dice.pick(&["", " ", "", " ", "- ", "\n ", "-\t"]);
        let after = self.dice.pick(&["", " ", "", " ", " -", "\n", "  -"]);
        format!("{left}{before}{inner}{after}{right}")
    }

    fn list(&mut self, depth: usize) -> String {
        let count = self.dice.below(3) + usize::from(depth > 1);
        (0..count).map(|_| self.node(depth)).collect()
    }

    fn node(&mut self, depth: usize) -> String {
        match self.dice.below(if depth == 0 { 10 } else { 20 }) {
            0..=2 => self.text().to_owned(),
            3..=7 => {
                let pipeline = self.pipeline(2);
                self.tagged(&pipeline)
            }
            8 => self.declaration(),
            9 if self.dice.chance(50) => self.jump(),
            9 => {
                let (left, right) = self.delimiters;
                let (before, after) = (self.dice.pick(&["", "- "]), self.dice.pick(&["", " -"]));
                format!("{left}{before}/* a\ncomment */{after}{right}")
            }
            10..=12 => self.branch("if", depth),
            13..=14 => self.branch("with", depth),
            15..=17 => self.range(depth),
            18 => self.call(),
            _ => self.block(depth),
        }
    }

    fn text(&mut self) -> &'static str {
        self.dice.pick(&["a", " ", "\n", "text ", "\n  - x: ", "é", "}", "{ ", "%", "\t\n ", "<b>", "#"])
    }

    fn declaration(&mut self) -> String {
        let name = self.dice.pick(&["$x", "$y", "$longer", "$é"]);
        let pipeline = self.pipeline(2);
        let is_known = self.variables.contains(&name) || self.dice.chance(3);
        let sign = self.dice.pick(if is_known { &["=", "=", ":="] } else { &[":=", " := "] });
        self.variables.push(name);
        self.tagged(&format!("{name} {sign} {pipeline}"))
    }

    fn jump(&mut self) -> String {
        let word = self.dice.pick(&["break", "continue"]);
        // Outside of a loop it is a mistake that ends everything, so it is rare there.
        if self.loops > 0 || self.dice.chance(1) { self.tagged(word) } else { String::new() }
    }

    fn branch(&mut self, word: &str, depth: usize) -> String {
        let scope = self.variables.len();
        let mut pipeline = self.pipeline(2);
        if self.dice.chance(15) {
            pipeline = format!("$x := {pipeline}");
            self.variables.push("$x");
        }
        let mut text = self.tagged(&format!("{word} {pipeline}"));
        text += &self.list(depth - 1);
        while self.dice.chance(20) {
            let pipeline = self.pipeline(1);
            // `{{if}}` and `{{else with}}` do not go together.
            let word = if self.dice.chance(98) { word } else { "with" };
            text += &self.tagged(&format!("else {word} {pipeline}"));
            text += &self.list(depth - 1);
        }
        if self.dice.chance(40) {
            text += &self.tagged("else");
            text += &self.list(depth - 1);
        }
        self.variables.truncate(scope);
        text + &self.tagged("end")
    }

    fn range(&mut self, depth: usize) -> String {
        let scope = self.variables.len();
        let over = match self.dice.below(10) {
            0..=3 => format!(".{}", self.dice.pick(&["items", "map", "deep", "empty", "a", "null"])),
            4 => self.dice.pick(&["3", "0", "'\\x03'", "2.5", "\"ab\"", "1", "-1"]).to_owned(),
            5 => self
                .dice
                .pick(&[
                    "ints",
                    "texts",
                    "nested",
                    "nilList",
                    "bytes \"ab\"",
                    "lists 1 nil",
                    "strings \"a,b\"",
                ])
                .to_owned(),
            6 => ".".to_owned(),
            7 => "$".to_owned(),
            _ => self.pipeline(1),
        };
        let variables: &[&str] = match self.dice.below(6) {
            0 | 1 => &["$v"],
            2 | 3 => &["$k", "$v"],
            _ => &[],
        };
        let is_known = variables.iter().all(|name| self.variables.contains(name)) || self.dice.chance(3);
        let sign = if is_known && self.dice.chance(50) { "=" } else { ":=" };
        self.variables.extend(variables.iter().map(|name| if *name == "$k" { "$k" } else { "$v" }));
        let declared =
            if variables.is_empty() { String::new() } else { format!("{} {sign} ", variables.join(", ")) };
        let mut text = self.tagged(&format!("range {declared}{over}"));
        self.loops += 1;
        text += &self.list(depth.min(2) - 1);
        self.loops -= 1;
        if self.dice.chance(30) {
            text += &self.tagged("else");
            text += &self.list(depth - 1);
        }
        self.variables.truncate(scope);
        text + &self.tagged("end")
    }

    fn call(&mut self) -> String {
        let name = if self.level > 0 && self.dice.chance(90) {
            NAMES[self.dice.below(self.level)]
        } else {
            "nobody"
        };
        let data = if self.dice.chance(70) { self.pipeline(1) } else { String::new() };
        self.tagged(&format!("template \"{name}\" {data}"))
    }

    fn block(&mut self, depth: usize) -> String {
        let (loops, variables) = (std::mem::take(&mut self.loops), std::mem::take(&mut self.variables));
        let body = self.list(depth - 1);
        (self.loops, self.variables) = (loops, variables);
        // A block has a name of its own: one in another one with the same name would call itself.
        self.blocks += 1;
        let name = format!("block {}", self.blocks);
        let data = self.pipeline(1);
        self.tagged(&format!("block \"{name}\" {data}")) + &body + &self.tagged("end")
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut text = self.command(depth);
        while self.dice.chance(25) {
            let sign = self.dice.pick(&[" | ", "|", " |\n"]);
            let next = if self.dice.chance(98) { self.function(depth, 1) } else { self.command(depth) };
            text += &format!("{sign}{next}");
        }
        text
    }

    fn command(&mut self, depth: usize) -> String {
        if self.dice.chance(55) { self.operand(depth) } else { self.function(depth, 0) }
    }

    /// A call with about the right number of arguments, of which a pipeline gives some.
    fn function(&mut self, depth: usize, given: usize) -> String {
        let &(name, least, most) = self.dice.choose(FUNCTIONS);
        // A map that contains itself ends a program in Go that prints it.
        let name = if name == "put" && given > 0 { "same" } else { name };
        if self.dice.chance(1) && self.dice.chance(30) {
            let known = if self.level > 0 { "include \"alpha\" 1" } else { "nope 1" };
            return self
                .dice
                .pick(&["nope", "include \"nobody\" .", known, known, "break", "define"])
                .to_owned();
        }
        let mut count = least + self.dice.below(most - least + 1);
        match self.dice.below(20) {
            0 if self.dice.chance(30) => count += 1,
            1 if self.dice.chance(30) => count = count.saturating_sub(1),
            _ => {}
        }
        let mut text = name.to_owned();
        let count = count.saturating_sub(given);
        for at in 0..count {
            text += &format!(" {}", self.argument(depth, name, at, count));
        }
        text
    }

    /// An argument at this place that goes with the function, most of the time.
    fn argument(&mut self, depth: usize, name: &str, at: usize, count: usize) -> String {
        match (name, at) {
            ("printf", 0) => self.format(),
            ("index", 0) => {
                self.dice.pick(&[".items", ".map", ".name", ".", "$", ".deep", "ints", "texts"]).to_owned()
            }
            ("index" | "slice", _) if self.dice.chance(60) => {
                self.dice.pick(&["0", "1", "2", "\"a\"", "\"b\"", "5", "-1", ".count"]).to_owned()
            }
            ("put" | "wantMap", 0) if self.dice.chance(60) => {
                self.dice.pick(&[".map", ".deep", "$", ".a", "nilMap", "(dictOf \"k\" 1)"]).to_owned()
            }
            ("put", 2..) => self.number().to_owned(),
            ("dictOf", 0) | ("put", 1) if self.dice.chance(80) => {
                self.dice.pick(&["\"k\"", "\"a\""]).to_owned()
            }
            _ if self.dice.chance(20) => self.operand(depth),
            ("wantInt", _) | ("wantRest", 1..) => self.integer().to_owned(),
            ("wantInt64", _) => self.dice.pick(&["5", ".count", "(index .items 0)", "$.big"]).to_owned(),
            ("wantFloat", _) => self.float().to_owned(),
            ("wantBool", _) => self.dice.pick(&["true", "(not .)", ".flag", "(eq 1 1)"]).to_owned(),
            ("wantString" | "wantRest" | "strings" | "bytes", _) => self.text_operand(),
            ("wantList", _) => {
                self.dice.pick(&[".items", "nilList", "(lists 1)", "nil", ".empty", ".missing"]).to_owned()
            }
            ("wantStrings", _) => {
                self.dice.pick(&["(strings `a,b`)", "nil", ".missing", "(strings .name)"]).to_owned()
            }
            ("wantMap", _) => self.dice.pick(&["$", ".map", "nilMap", "(dictOf `a` .)"]).to_owned(),
            ("len", _) => {
                self.dice.pick(&["$", ".name", ".items", ".map", "texts", "(bytes `a`)", "nilMap"]).to_owned()
            }
            ("slice", _) => self.dice.pick(&["\"abc\"", ".name", ".items", "ints"]).to_owned(),
            ("lt" | "le" | "gt" | "ge" | "eq" | "ne", _) => self.comparable(name.len() + count),
            _ => self.operand(depth),
        }
    }

    fn text_operand(&mut self) -> String {
        if self.dice.chance(50) {
            self.string()
        } else {
            self.dice.pick(&[".name", "$.b", "(print .)", "`x`"]).to_owned()
        }
    }

    /// A value of a kind that goes with others of this number.
    fn comparable(&mut self, kind: usize) -> String {
        match (self.dice.below(8), kind % 4) {
            (0, _) => self.operand(1),
            (_, 0) => self.integer().to_owned(),
            (_, 1) => self.text_operand(),
            (_, 2) => {
                self.dice.pick(&[".count", "3", "(len .items)", "(index `abc` 1)", "98", "nil"]).to_owned()
            }
            _ => self.float().to_owned(),
        }
    }

    fn format(&mut self) -> String {
        let mut text = "\"".to_owned();
        for _ in 0..=self.dice.below(3) {
            let flags = self.dice.pick(&["", "", "", "", "+", "-", "#", "0", " ", "#+", "+0"]);
            let width = self.dice.pick(&["", "", "", "", "3", "8", "*", "[1]", "12"]);
            let precision = self.dice.pick(&["", "", "", "", ".2", ".0", ".", ".*"]);
            let verb = self.dice.pick(&[
                "v", "v", "d", "s", "q", "t", "f", "x", "X", "T", "e", "g", "c", "U", "b", "o", "O", "%",
                "z", "G", "w", "é",
            ]);
            text += &format!("%{flags}{width}{precision}{verb}{}", self.dice.pick(&["", " ", "-", "|"]));
        }
        text + "\""
    }

    fn operand(&mut self, depth: usize) -> String {
        match self.dice.below(if depth == 0 { 16 } else { 20 }) {
            0 | 1 => ".".to_owned(),
            2..=3 => format!(".{}", self.dice.pick(&["name", "count", "items", "map", "deep.a.b", "flag"])),
            4..=6 => self.fields(),
            7..=8 => self.variable(),
            9 | 12 => self.string(),
            10..=11 => self.number().to_owned(),
            13 => self.dice.pick(&["true", "false", "true", "false", "nil"]).to_owned(),
            14 => self
                .dice
                .pick(&[
                    "ints", "texts", "point", "nested", "nilMap", "nilList", "point.X", "texts.a", "point.Y",
                ])
                .to_owned(),
            15 => self.dice.pick(&["$", "$.name", "$.items", "$.deep.a.b"]).to_owned(),
            16..=18 => format!("({})", self.pipeline(depth - 1)),
            _ => format!("({}){}", self.pipeline(depth - 1), self.fields()),
        }
    }

    fn fields(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=usize::from(self.dice.chance(30)) + usize::from(self.dice.chance(15)) {
            text += &format!(".{}", self.dice.pick(FIELDS));
        }
        text
    }

    fn variable(&mut self) -> String {
        let name = if self.variables.is_empty() || self.dice.chance(2) {
            if self.dice.chance(2) { "$undefined" } else { "$" }
        } else {
            let at = self.dice.below(self.variables.len());
            self.variables[at]
        };
        if self.dice.chance(20) { format!("{name}.{}", self.dice.pick(FIELDS)) } else { name.to_owned() }
    }

    fn string(&mut self) -> String {
        if self.dice.chance(1) {
            return self.dice.pick(&["\"\\q\"", "\"\\0\"", "\"\\ud800\"", "\"a\nb\"", "\"open"]).to_owned();
        }
        self.dice
            .pick(&[
                "\"\"",
                "\"a\"",
                "\"é<&'\\\"\"",
                "\"a\\nb\\t\"",
                "`raw\\n`",
                "\"\\x41\\u00e9\"",
                "`a\r\nb`",
                "\"a,b\"",
                "\"%d\"",
                "\"\\xff\\xc3\"",
                "\"\u{2028}\\u200b\"",
                "\"k\"",
                "\"text\"",
                "\"\\U0001f680=\"",
                "\"a.b~c_d/?\"",
            ])
            .to_owned()
    }

    fn integer(&mut self) -> &'static str {
        self.dice.pick(&[
            "0", "1", "2", "3", "-1", "+7", "1_0", "0x1F", "0b101", "0o17", "017", "'a'", "'\\n'", "'é'",
            "'\\x41'", "-0", "1.0",
        ])
    }

    fn float(&mut self) -> &'static str {
        self.dice.pick(&[
            "1.5", ".5", "1e3", "-0.0", "0x1p4", "2.5e-3", "3.", "1e-7", "100.0e3", "0x1.8p1", "1e21",
            "1_0.5",
        ])
    }

    fn number(&mut self) -> &'static str {
        match self.dice.below(100) {
            0 => self.dice.pick(&[
                "08",
                "1__0",
                "''",
                "'ab'",
                "1e400",
                "0x",
                "1a",
                "1.e",
                "+",
                "'\\q'",
                "99999999999999999999",
                "1+",
                "1+2",
            ]),
            1..=3 => self.dice.pick(&["1i", "1+2i", "0i", "1+0i", "-1.5e1-2i"]),
            4..=14 => self.float(),
            _ => self.integer(),
        }
    }

    /// The template with one to three letters changed.
    fn damaged(&mut self, template: &str) -> String {
        let mut letters: Vec<char> = template.chars().collect();
        for _ in 0..=self.dice.below(3) {
            let at = self.dice.below(letters.len() + 1);
            let letter = self.dice.pick(&[
                "{", "}", "(", ")", "\"", "`", "'", "|", ".", "$", ":", "=", ",", " ", "\n", "-", "a", "é",
                "½", "\u{2028}", "!", "\\", "1", "\0", "/", "*", "_", "@", "{{", "}}", "{{end}}", "{{else}}",
                "{{.", "nil", ":=", "+", "\t",
            ]);
            match self.dice.below(3) {
                0 if at < letters.len() => drop(letters.remove(at)),
                1 if at < letters.len() => drop(letters.splice(at..=at, letter.chars())),
                _ => drop(letters.splice(at..at, letter.chars())),
            }
        }
        letters.into_iter().collect()
    }
}
