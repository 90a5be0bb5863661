//! Templates that are put together from words of the language, all functions among them, and executed within a small budget.
//!
//! The fuzz target `template_grammar` includes this file, too. There, the input chooses the words.

use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::time::rfc3339::Moment;
use ferroplane_template::{
    Budget, Callee, ExecuteError, Function, Functions, Heap, Host, Options, Templates, Type, Value, sprig,
};
use serde_json::json;

/// What a template may cost. The output is as large as the memory, so that templates that include each other can print much more than
/// either, were it not counted.
pub(crate) const BUDGET: Budget = Budget { steps: 20_000, memory: 1 << 20, output: 1 << 20, depth: 200 };

/// The slow ones would leave no time for others.
const SLOW: [&str; 3] = ["bcrypt", "htpasswd", "derivePassword"];

/// So often does a function with any number of arguments sometimes have the same one.
const MANY: usize = 200;

static INCLUDE: &[Function] = &[Function {
    name: "include",
    parameters: &[Type::String, Type::Any],
    rest: None,
    result: Type::String,
    callee: Callee::Values(|ctx, args| {
        let Value::String(name) = &args[0] else { unreachable!("the signature says so") };
        ctx.execute(name, args[1].clone()).map(Value::String)
    }),
}];

/// The functions that templates call, in order, so that the same choices give the same template.
pub(crate) struct Words {
    functions: Functions,
    called: Vec<&'static Function>,
}

impl Words {
    pub(crate) fn new() -> Self {
        let all = sprig::functions().with(INCLUDE);
        let functions = SLOW.iter().fold(all, |functions, name| functions.without(name));
        let mut called: Vec<_> = functions.names().filter_map(|name| functions.get(name)).collect();
        called.sort_unstable_by_key(|function| function.name);
        // What makes texts longer is what the budget is about.
        called.extend(INCLUDE.iter().cycle().take(10));
        Self { functions, called }
    }

    /// A template that is chosen by these numbers.
    pub(crate) fn template(&self, draw: &mut dyn FnMut() -> usize) -> String {
        let mut writer = Writer { words: self, draw, text: String::new() };
        writer.text.push_str("{{ define \"t\" }}{{ $x := . }}");
        writer.list(2);
        writer.text.push_str("{{ end }}{{ $x := .a }}");
        writer.list(3);
        writer.text
    }

    /// What a template gives; nothing if it cannot be parsed. Its output is within the budget.
    pub(crate) fn run(&self, text: &str) -> Option<Result<Vec<u8>, ExecuteError>> {
        let templates = Templates::parse("soup", text, &Options::default(), &self.functions).ok()?;
        let heap = Heap::new();
        let data = json!({
            "a": [1, "b", 2.5, null, {"c": true}], "s": "text", "n": 7, "m": {"x": {"y": "z"}}, "e": {},
        });
        let data = Value::from_json(&heap, &data, Numbers::AsWritten);
        let result = templates.execute(data, &heap, &mut Fixed(1), BUDGET);
        if let Ok(output) = &result {
            assert!(output.len() as u64 <= BUDGET.output, "{} bytes were printed", output.len());
        }
        Some(result)
    }
}

/// A clock that stands still, and bytes that look random and are always the same.
struct Fixed(u8);

impl Host for Fixed {
    fn now(&mut self) -> Option<Moment> {
        Some(Moment { seconds: 1_700_000_000, nanoseconds: 0 })
    }

    fn random(&mut self, buffer: &mut [u8]) -> bool {
        for byte in buffer {
            self.0 = self.0.wrapping_mul(37).wrapping_add(11);
            *byte = self.0;
        }
        true
    }
}

/// What a pipeline can begin with.
const FIRST: &[&str] = &["$x ", ". ", "$ ", ".a ", ".s ", ".n ", ".m.x.y ", "$x.y ", "1 ", "\"a\" ", "true "];
const TEXTS: &[&str] = &[
    "\"\" ",
    "\"a\" ",
    "\"t\" ",
    ".s ",
    ".m.x.y ",
    "\"%v %*d\" ",
    "\"(a|b)*\" ",
    "\"2006\" ",
    "\"1.2.3\" ",
    "`{\"a\": [1]}` ",
    "\"\\n\" ",
    "\"\\x00\" ",
    "\"é\u{1F600}\" ",
    "( repeat 1000 \"x y\" ) ",
    "( repeat 200000 \"x\" ) ",
];
const NUMBERS: &[&str] = &["0 ", "1 ", "-1 ", "7 ", "1000 ", "9223372036854775807 ", "1.5 ", ".n "];
const LISTS: &[&str] = &[".a ", "( list $x $x ) ", "( until 100 ) ", "( list ) ", "nil "];
const MAPS: &[&str] = &["$ ", ".m ", ".e ", "( dict \"a\" $x \"t\" . ) ", "nil "];

struct Writer<'w> {
    words: &'w Words,
    draw: &'w mut dyn FnMut() -> usize,
    text: String,
}

impl Writer<'_> {
    fn below(&mut self, limit: usize) -> usize {
        (self.draw)() % limit
    }

    fn pick(&mut self, choices: &[&str]) {
        let at = self.below(choices.len());
        self.text.push_str(choices[at]);
    }

    fn list(&mut self, depth: usize) {
        let count = 1 + self.below(3);
        for _ in 0..count {
            self.node(depth);
        }
    }

    fn node(&mut self, depth: usize) {
        match self.below(if depth == 0 { 7 } else { 11 }) {
            0 => self.text.push_str("text\n"),
            1 => self.action("$x = "),
            2 => self.action("template \"t\" "),
            3..=6 => self.action(""),
            7 => self.block("if ", depth),
            8 => self.block("with ", depth),
            9 => self.block("range ", depth),
            _ => self.block("range $i, $x := ", depth),
        }
    }

    fn action(&mut self, before: &str) {
        self.text.push_str("{{ ");
        self.text.push_str(before);
        self.pipe(2);
        self.text.push_str("}}");
    }

    fn block(&mut self, before: &str, depth: usize) {
        self.action(before);
        self.list(depth - 1);
        if self.below(3) == 0 {
            self.text.push_str("{{ else }}");
            self.list(depth - 1);
        }
        self.text.push_str("{{ end }}");
    }

    fn pipe(&mut self, levels: usize) {
        if self.below(4) == 0 {
            self.pick(FIRST);
        } else {
            self.call(levels, 0);
        }
        while self.below(4) == 1 {
            self.text.push_str("| ");
            self.call(levels, 1);
        }
    }

    /// A function with its arguments, of which so many come from the command before.
    fn call(&mut self, levels: usize, piped: usize) {
        let at = self.below(self.words.called.len());
        let function = self.words.called[at];
        self.text.push_str(function.name);
        self.text.push(' ');
        let count = function.parameters.len().saturating_sub(piped);
        for (at, parameter) in function.parameters[..count].iter().enumerate() {
            // Otherwise few names would be those of templates.
            if function.name == "include" && at == 0 && self.below(4) > 0 {
                self.text.push_str("\"t\" ");
            } else {
                self.operand(*parameter, levels);
            }
        }
        if let Some(rest) = function.rest {
            self.rest(rest, levels);
        }
        if self.below(32) == 0 {
            self.operand(Type::Any, levels);
        }
    }

    fn rest(&mut self, parameter: Type, levels: usize) {
        let count = self.below(8);
        if count < 7 {
            for _ in 0..count % 3 {
                self.operand(parameter, levels);
            }
            return;
        }
        let start = self.text.len();
        self.operand(parameter, 0);
        let operand = self.text[start..].repeat(MANY - 1);
        self.text.push_str(&operand);
    }

    fn operand(&mut self, parameter: Type, levels: usize) {
        if levels > 0 && self.below(4) == 0 {
            self.text.push_str("( ");
            self.pipe(levels - 1);
            self.text.push_str(") ");
            return;
        }
        let choices = match parameter {
            // Sometimes an argument is of another type.
            _ if self.below(16) == 0 => FIRST,
            Type::String => TEXTS,
            Type::List(_) => LISTS,
            Type::Map(_) => MAPS,
            Type::Any | Type::Reflect => [FIRST, TEXTS, LISTS, MAPS][self.below(4)],
            _ => NUMBERS,
        };
        self.pick(choices);
    }
}
