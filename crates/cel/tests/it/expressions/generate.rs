//! Makes expressions: mostly sensible, sometimes wrong.

use crate::dice::Dice;

pub(crate) fn expression(seed: u64) -> String {
    // Every fourth is about what functions make of strings.
    if seed.is_multiple_of(4) {
        return parsing(&mut Dice::new(seed));
    }
    let mut maker = Maker { dice: Dice::new(seed), names: Vec::new(), next: 0 };
    let depth = 1 + maker.dice.below(4);
    match maker.dice.below(4) {
        0 => maker.any(depth),
        1 => maker.list(depth),
        2 => maker.string(depth),
        _ => maker.boolean(depth),
    }
}

struct Maker {
    dice: Dice,
    /// Names that macros introduced.
    names: Vec<String>,
    next: usize,
}

impl Maker {
    fn name(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn any(&mut self, depth: usize) -> String {
        match self.dice.below(10) {
            0 | 1 => self.boolean(depth),
            2 | 3 => self.number(depth),
            4 | 5 => self.string(depth),
            6 => self.list(depth),
            7 => self.map(depth),
            8 => self.special(depth),
            _ => self.path(),
        }
    }

    fn path(&mut self) -> String {
        if !self.names.is_empty() && self.dice.chance(60) {
            let at = self.dice.below(self.names.len());
            let name = self.names[at].clone();
            return if self.dice.chance(20) { format!("{name}.name") } else { name };
        }
        self.dice
            .pick(&[
                "self.i",
                "self.j",
                "self.big",
                "self.huge",
                "self.d",
                "self.whole",
                "self.s",
                "self.t",
                "self.e",
                "self.n",
                "self.b",
                "self.f",
                "self.l",
                "self.sl",
                "self.dl",
                "self.ml",
                "self.el",
                "self.ll",
                "self.m.a.b",
                "self.m.c[0]",
                "self.em",
                "self.missing",
                "self.m.missing.x",
                "self.l[7]",
                "self.l[self.idx]",
                "self.m[self.key]",
                "self.items",
                "self.items[0].name",
                "self.items[2].n",
                "self.labels['tier.io/x']",
                "self.?missing",
                "self.?m.a",
                "self.l[?0]",
                "self.l[?9]",
                "oldSelf.i",
                "self.?items[0].?name",
                "self.i.x",
                "self.items[1+1]",
            ])
            .to_owned()
    }

    fn boolean(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .dice
                .pick(&["true", "false", "self.b", "self.f", "has(self.m)", "has(self.m.x)"])
                .to_owned();
        }
        let d = depth - 1;
        match self.dice.below(16) {
            0 => format!("{} && {}", self.boolean(d), self.boolean(d)),
            1 => format!("({} || {})", self.boolean(d), self.boolean(d)),
            2 => format!("!{}", self.wrapped_boolean(d)),
            3 => format!("{} == {}", self.number(d), self.number(d)),
            4 => {
                let operator = self.dice.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("{} {operator} {}", self.any(d), self.any(d))
            }
            5 => {
                let operator = self.dice.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("{} {operator} {}", self.string(d), self.string(d))
            }
            6 => {
                let function = self.dice.pick(&["startsWith", "endsWith", "contains"]);
                format!("{}.{function}({})", self.string(d), self.string(d))
            }
            7 => format!("{} in {}", self.any(d), self.list(d)),
            8 => format!("{} in {}", self.string(d), self.map(d)),
            9 | 10 => {
                let function = self.dice.pick(&["all", "exists", "exists_one"]);
                self.quantified(function, d)
            }
            11 => format!("({} ? {} : {})", self.boolean(d), self.boolean(d), self.boolean(d)),
            12 => {
                let pattern = self.dice.pick(&["'^a'", "'[a-z]+$'", "'l+'", "'(a|b)c'", "'\\\\d'", "self.t"]);
                format!("{}.matches({pattern})", self.string(d))
            }
            13 => {
                let function = self.dice.pick(&["contains", "intersects", "equivalent"]);
                format!("sets.{function}({}, {})", self.list(d), self.list(d))
            }
            14 => format!("{}.isSorted()", self.list(d)),
            _ => format!("{} != {}", self.any(d), self.any(d)),
        }
    }

    fn wrapped_boolean(&mut self, depth: usize) -> String {
        format!("({})", self.boolean(depth))
    }

    fn quantified(&mut self, function: &str, depth: usize) -> String {
        let range = if self.dice.chance(80) { self.list(depth) } else { self.small_map(depth) };
        let first = self.name();
        self.names.push(first.clone());
        let text = if self.dice.chance(25) {
            let second = self.name();
            self.names.push(second.clone());
            let body = self.boolean(depth);
            self.names.pop();
            format!("{range}.{function}({first}, {second}, {body})")
        } else {
            format!("{range}.{function}({first}, {})", self.boolean(depth))
        };
        self.names.pop();
        text
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .dice
                .pick(&[
                    "0",
                    "1",
                    "-1",
                    "2",
                    "3u",
                    "0u",
                    "1.5",
                    "-0.5",
                    "9223372036854775807",
                    "1e300",
                    "self.i",
                    "self.j",
                    "self.d",
                    "self.big",
                    "self.whole",
                ])
                .to_owned();
        }
        let d = depth - 1;
        match self.dice.below(13) {
            0..=3 => {
                let operator = self.dice.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", self.number(d), self.number(d))
            }
            4 => format!("size({})", self.list(d)),
            5 => format!("{}.size()", self.string(d)),
            6 => {
                let function = self.dice.pick(&["int", "uint", "double"]);
                format!("{function}({})", self.any(d))
            }
            7 => {
                let function = self.dice.pick(&["indexOf", "lastIndexOf"]);
                format!("{}.{function}({})", self.string(d), self.string(d))
            }
            8 => {
                let function = self.dice.pick(&["sum", "min", "max"]);
                format!("{}.{function}()", self.list(d))
            }
            9 => {
                let function = self.dice.pick(&["abs", "sign", "ceil", "floor", "round", "trunc", "sqrt"]);
                format!("math.{function}({})", self.number(d))
            }
            10 => {
                let function = self.dice.pick(&["greatest", "least"]);
                format!("math.{function}({}, {})", self.number(d), self.number(d))
            }
            11 => format!("-({})", self.number(d)),
            _ => self.path(),
        }
    }

    fn string(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .dice
                .pick(&["'a'", "''", "'héllo'", "'a,b,c'", "'b'", "self.s", "self.t", "self.e", "self.key"])
                .to_owned();
        }
        let d = depth - 1;
        match self.dice.below(12) {
            0 | 1 => format!("({} + {})", self.string(d), self.string(d)),
            2 => format!("string({})", self.any(d)),
            3 => {
                let function = self.dice.pick(&["lowerAscii", "upperAscii", "trim"]);
                format!("{}.{function}()", self.string(d))
            }
            4 => format!("{}.replace({}, {})", self.string(d), self.string(0), self.string(0)),
            5 => format!("{}.substring({})", self.string(d), self.number(0)),
            6 => format!("{}.charAt({})", self.string(d), self.number(0)),
            7 => format!("{}.join({})", self.list(d), self.string(0)),
            8 => format!("'%s-%s'.format([{}, {}])", self.any(d), self.any(d)),
            9 => format!("{}.find('[a-c]+')", self.string(d)),
            10 => format!("strings.quote({})", self.string(d)),
            _ => self.path(),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .dice
                .pick(&[
                    "[]",
                    "[1, 2, 3]",
                    "['a', 'b']",
                    "[3, 1, 2]",
                    "[1.5, -2.5]",
                    "[true]",
                    "self.l",
                    "self.sl",
                    "self.dl",
                    "self.el",
                    "self.items",
                    "oldSelf.l",
                    "[[1], [2, 3]]",
                ])
                .to_owned();
        }
        let d = depth - 1;
        match self.dice.below(15) {
            0 => format!("[{}, {}]", self.number(d), self.number(d)),
            1 => format!("[{}]", self.any(d)),
            2 => format!("({} + {})", self.list(d), self.list(d)),
            3..=5 => self.transformed(d),
            6 => format!("{}.split({})", self.string(d), self.string(0)),
            7 => {
                let function = self.dice.pick(&["sort", "reverse", "distinct"]);
                format!("{}.{function}()", self.list(d))
            }
            8 => format!("{}.slice(0, {})", self.list(d), self.dice.below(4)),
            9 => format!("lists.range({})", self.dice.below(5)),
            10 => format!("{}.flatten()", self.list(d)),
            11 => format!("{}.findAll('[a-l]')", self.string(d)),
            12 => format!("[?{}, {}]", self.optional(d), self.any(d)),
            13 => format!("[{}, {}]", self.string(d), self.string(d)),
            _ => self.path(),
        }
    }

    fn transformed(&mut self, depth: usize) -> String {
        let range = if self.dice.chance(80) { self.list(depth) } else { self.small_map(depth) };
        let first = self.name();
        self.names.push(first.clone());
        let text = match self.dice.below(5) {
            0 => format!("{range}.filter({first}, {})", self.boolean(depth)),
            1 => format!("{range}.map({first}, {}, {})", self.boolean(depth), self.any(depth)),
            2 => format!("{range}.sortBy({first}, {})", self.any(depth)),
            3 => {
                let second = self.name();
                self.names.push(second.clone());
                let body = self.any(depth);
                self.names.pop();
                format!("{range}.transformList({first}, {second}, {body})")
            }
            _ => format!("{range}.map({first}, {})", self.any(depth)),
        };
        self.names.pop();
        text
    }

    fn map(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .dice
                .pick(&["{}", "{'a': 1, 'b': 2}", "{1: 'x'}", "self.m", "self.labels", "self"])
                .to_owned();
        }
        let d = depth - 1;
        match self.dice.below(5) {
            0 => format!("{{'x': {}, 'y': {}}}", self.number(d), self.number(d)),
            1 => format!("{{{}: {}}}", self.string(d), self.any(d)),
            2 => format!("{{'x': {}, ?'y': {}}}", self.any(d), self.optional(d)),
            3 => {
                let range = self.list(d);
                let (first, second) = (self.name(), self.name());
                self.names.extend([first.clone(), second.clone()]);
                let body = self.any(d);
                self.names.truncate(self.names.len() - 2);
                format!("{range}.transformMap({first}, {second}, {body})")
            }
            _ => self.path(),
        }
    }

    /// Maps are looked through in no particular order, so there must be only one.
    fn small_map(&mut self, depth: usize) -> String {
        format!("{{'k': {}}}", self.any(depth))
    }

    fn optional(&mut self, depth: usize) -> String {
        match self.dice.below(6) {
            0 => "optional.none()".to_owned(),
            1 => format!("optional.of({})", self.any(depth)),
            2 => format!("optional.ofNonZeroValue({})", self.any(depth)),
            3 => "self.?m.a".to_owned(),
            4 => "self.?missing.x".to_owned(),
            _ => "self.l[?1]".to_owned(),
        }
    }

    fn special(&mut self, depth: usize) -> String {
        let d = depth.saturating_sub(1);
        match self.dice.below(10) {
            0 => format!("{}.orValue({})", self.optional(d), self.any(d)),
            1 => format!("{}.hasValue()", self.optional(d)),
            2 => {
                let (target, name) = (self.optional(d), self.name());
                self.names.push(name.clone());
                let body = self.any(d);
                self.names.pop();
                format!("{target}.optMap({name}, {body})")
            }
            3 => {
                let (value, name) = (self.any(d), self.name());
                self.names.push(name.clone());
                let body = self.any(d);
                self.names.pop();
                format!("cel.bind({name}, {value}, {body})")
            }
            4 => format!("type({})", self.any(d)),
            5 => format!("dyn({})", self.any(d)),
            6 => {
                let accessor = self.dice.pick(&["getHours", "getFullYear", "getMonth", "getDayOfYear"]);
                format!("timestamp(self.time).{accessor}()")
            }
            7 => format!("(duration(self.dur) + duration('{}m'))", self.dice.below(90)),
            8 => format!("quantity(self.q).compareTo(quantity('{}Mi'))", self.dice.below(3000)),
            _ => format!("({} ? {} : {})", self.boolean(d), self.any(d), self.any(d)),
        }
    }
}

/// Functions that read strings, and strings that they can read.
const KINDS: [(&[&str], &[&str]); 9] = [
    (
        &[
            "quantity($).isInteger()",
            "quantity($).asApproximateFloat()",
            "quantity($).compareTo(quantity('1.5'))",
            "isQuantity($)",
            "quantity($).asInteger()",
            "sign(quantity($))",
            "quantity($).add(quantity('1Ki')).asApproximateFloat()",
        ],
        &[
            "1",
            "1.5",
            "0.001",
            "1Ki",
            "5Mi",
            "100m",
            "1e3",
            "1E2",
            "2e-3",
            "-7",
            "12345678901234567890",
            "1.0",
            "0",
            "00.10",
            "3n",
            "1.2345678901Gi",
            "18Ei",
            "7k",
            ".5",
            "5.",
        ],
    ),
    (
        &["duration(dyn($))", "duration(dyn($)).getMinutes()", "string(duration(dyn($)))"],
        &[
            "1h",
            "1.5h",
            "-1m30s",
            "100ms",
            "1us",
            "7ns",
            "0",
            "+5s",
            "1h2m3.5s",
            ".5s",
            "1.s",
            "2540400h",
            "9223372036s",
        ],
    ),
    (
        &[
            "timestamp(dyn($))",
            "string(timestamp(dyn($)))",
            "timestamp(dyn($)).getDayOfYear()",
            "timestamp(dyn($)).getDayOfWeek()",
        ],
        &[
            "2024-02-29T12:34:56Z",
            "2023-12-31T23:59:59.999999999Z",
            "1969-01-01T00:00:00+14:00",
            "2000-01-01T00:00:00.1-07:30",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "2024-1-1T00:00:00Z",
        ],
    ),
    (
        &[
            "semver($)",
            "isSemver($)",
            "semver($, true)",
            "isSemver($, true)",
            "semver($).compareTo(semver('1.2.3-rc.1'))",
        ],
        &[
            "1.2.3",
            "v1.2.3",
            "1.2.3-rc.1",
            "1.2.3-1.a.02",
            "1.2.3+b.1",
            "1.2",
            "01.2.3",
            "1.2.3-rc+x",
            "0.0.0",
            "1.2.3.4",
        ],
    ),
    (
        &["isIP($)", "ip($).isGlobalUnicast()", "string(ip($))", "ip.isCanonical($)"],
        &[
            "1.2.3.4",
            "::1",
            "2001:db8::1",
            "fe80::1",
            "::",
            "255.255.255.255",
            "1:2:3:4:5:6:7:8",
            "::ffff:1.2.3.4",
            "64:ff9b::1.2.3.4",
            "1::2:3",
            "ff02::1",
        ],
    ),
    (
        &[
            "isCIDR($)",
            "cidr($).prefixLength()",
            "string(cidr($).masked())",
            "cidr($).containsIP('10.1.2.3')",
            "cidr($).containsCIDR('10.1.0.0/16')",
        ],
        &["10.0.0.0/8", "10.1.2.3/32", "::/0", "2001:db8::/32", "0.0.0.0/0", "10.0.0.0/33", "fe80::1/64"],
    ),
    (
        &[
            "isURL($)",
            "url($).getHost()",
            "url($).getPort()",
            "url($).getEscapedPath()",
            "url($).getQuery()",
            "url($).getHostname()",
            "url($).getScheme()",
            "format.uri().validate($).hasValue()",
        ],
        &[
            "https://a.b/c?d=e#f",
            "http://[::1]:80/x",
            "/a/b%20c",
            "mailto:x@y",
            "https://u:p@h:1/",
            "ftp://h",
            "//h/p",
            "https://h/ü?q=a+b&q=%41",
            "https://h?x",
            "HTTP://H/",
        ],
    ),
    (
        &[
            "'abc-ABC 123.x_é'.matches(dyn($))",
            "'abc-ABC 123.x_é'.find(dyn($))",
            "'abcabc 12 12'.findAll(dyn($))",
            "'a\\nb c'.findAll(dyn($), 2)",
        ],
        &[
            "[a-c]+",
            "(a|b)c",
            "^abc",
            "x$",
            "[^a-z]",
            "a{2,3}",
            "(?i)ABC",
            "\\\\d+",
            "\\\\bx",
            "\\\\pL",
            "a*?b",
            "[[:alpha:]]",
            "(?P<n>a)",
            "\\\\Qa.\\\\E",
            ".",
            "a|",
            "[]a]",
            "(?:a(b)?)+",
        ],
    ),
    (
        &[
            "format.dns1123Label().validate($)",
            "format.dns1123Subdomain().validate($)",
            "format.qualifiedName().validate($)",
            "format.labelValue().validate($)",
            "format.uuid().validate($)",
            "format.byte().validate($)",
            "format.date().validate($)",
            "format.datetime().validate($)",
            "format.dns1035LabelPrefix().validate($)",
            "base64.decode($)",
            "double(dyn($))",
            "int(dyn($))",
            "bool(dyn($))",
            "strings.quote($)",
        ],
        &[
            "abc",
            "a-b.c",
            "A_b/c",
            "x.io/name",
            "2024-02-29",
            "2024-02-29T01:02:03Z",
            "aGk=",
            "123e4567-e89b-12d3-a456-426614174000",
            "12",
            "-1.5e3",
            "true",
            "T",
            "inf",
            "NaN",
            "0x10",
            "1_000",
            "",
        ],
    ),
];

/// A function that reads a string, and a string that is nearly right.
fn parsing(dice: &mut Dice) -> String {
    let kind = dice.below(KINDS.len());
    let (functions, texts) = KINDS[kind];
    let mut text = dice.pick(texts).to_owned();
    // Longer exponents make quantities that we do not keep exactly.
    if dice.chance(55) && !(kind == 0 && text.contains(['e', 'E'])) {
        text = damage(dice, &text);
    }
    // The original never finishes with a very large exponent.
    if kind == 0 && text.contains(['e', 'E']) {
        "1e3".clone_into(&mut text);
    }
    dice.pick(functions).replace('$', &format!("'{text}'"))
}

/// Takes a character away, puts one in, or doubles one.
fn damage(dice: &mut Dice, text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = dice.below(characters.len() + 1);
    // An escape must stay whole.
    if text.contains('\\') {
        let extra = dice.pick(&["(", ")", "*", "+", "?", "{", "}", "[", "]", "|", "a", "^"]);
        return if dice.chance(50) { format!("{text}{extra}") } else { format!("{extra}{text}") };
    }
    let (before, after) = characters.split_at(at);
    let (before, after): (String, String) = (before.iter().collect(), after.iter().collect());
    match dice.below(3) {
        0 => before + after.get(after.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default(),
        1 => format!(
            "{before}{}{after}",
            dice.pick(&[
                "0", "1", "9", "a", "z", "A", ".", "-", "+", ":", "/", "%", " ", "e", "é", "[", "]", "(",
                ")", "*", "?", "#", "@", "_", "{", "|", "^"
            ])
        ),
        _ => format!("{before}{}{after}", before.chars().last().unwrap_or('x')),
    }
}
