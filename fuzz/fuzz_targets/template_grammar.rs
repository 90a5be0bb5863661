//! Templates that are put together from words of the language, all functions among them, end within their budget.
#![no_main]

use std::sync::LazyLock;

use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::time::rfc3339::Moment;
use ferroplane_template::{Budget, Functions, Heap, Host, Options, Templates, Value, sprig};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

const WORDS: &[&str] = &[
    "{{ ",
    " }}",
    "{{- ",
    " -}}",
    "{{ end }}",
    "{{ else }}",
    "if ",
    "with ",
    "range ",
    "$i, $x := ",
    "$x := ",
    "$x = ",
    "$x ",
    "$ ",
    ". ",
    ".a ",
    ".s ",
    ".n ",
    ".m ",
    ".e ",
    ".m.x.y ",
    "( ",
    ") ",
    "| ",
    "1 ",
    "0 ",
    "-1 ",
    "9223372036854775807 ",
    "1.5 ",
    "nil ",
    "true ",
    "\"\" ",
    "\"a\" ",
    "\"%v %*d\" ",
    "\"(a|b)*\" ",
    "\"2006\" ",
    "\"1.2.3\" ",
    "`{\"a\": [1]}` ",
    "{{ define \"t\" }}",
    "{{ template \"t\" . }}",
    "{{ break }}",
    "{{ continue }}",
    "text\n",
    "1000 ",
    "\"é\u{1F600}\" ",
    ".Add ",
    ".Cert ",
    ".a ",
    "$x.y ",
];

static FUNCTIONS: LazyLock<(Functions, Vec<&str>)> = LazyLock::new(|| {
    // The slow ones would leave no time for others.
    let slow = ["bcrypt", "htpasswd", "derivePassword"];
    let functions = slow.iter().fold(sprig::functions(), |functions, name| functions.without(name));
    let mut names: Vec<_> = functions.names().collect();
    names.sort_unstable();
    (functions, names)
});

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

fuzz_target!(|input: &[u8]| {
    let (functions, names) = &*FUNCTIONS;
    let word = |number: &u16| {
        let number = usize::from(*number) % (WORDS.len() + names.len());
        WORDS
            .get(number)
            .map_or_else(|| format!("{} ", names[number - WORDS.len()]), |word| (*word).to_owned())
    };
    let text: String =
        input.chunks_exact(2).map(|pair| word(&u16::from_le_bytes([pair[0], pair[1]]))).collect();
    let Ok(templates) = Templates::parse("fuzz", &text, &Options::default(), functions) else { return };
    let heap = Heap::new();
    let data =
        json!({"a": [1, "b", 2.5, null, {"c": true}], "s": "text", "n": 7, "m": {"x": {"y": "z"}}, "e": {}});
    let data = Value::from_json(&heap, &data, Numbers::AsWritten);
    let budget = Budget { steps: 20_000, memory: 4 << 20, output: 1 << 16, depth: 200 };
    if let Ok(output) = templates.execute(data, &heap, &mut Fixed(1), budget) {
        assert!(output.len() <= 1 << 16);
    }
});
