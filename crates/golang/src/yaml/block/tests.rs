//! The fast reader reads what the parser reads, or leaves it to the parser.

use proptest::prelude::*;

use super::super::read::read_any;
use super::*;

const DOCUMENT: &str = "---
apiVersion: v1
kind: ConfigMap # a comment
metadata:
  name: \"a b\"
  labels: {a: b, \"c\":1, d: [x, 2.5, \"y\"]}
  annotations:
    example.org/one: 'it''s'

  # Another one.
  list:
  - name: x
    value: 1
  - plain
  -
    deep: [ ]
  - |
    text
      more

    end
data:
  text: |-
    {{ not a comment }}
    # neither

  empty:
  yes: no
";

#[test]
fn usual_document_is_read_here_as_the_parser_reads_it() {
    for library in [Library::V2, Library::V3] {
        // `yes` is no text to one of them.
        let text =
            if library == Library::V2 { DOCUMENT.replace("yes:", "key:") } else { DOCUMENT.to_owned() };
        let read = read::<Node>(&text, library);
        assert!(read.is_some());
        assert_eq!(read, read_any(&text, library).ok());
    }
}

#[test]
fn what_is_unusual_is_left_to_the_parser() {
    for text in [
        "a\n",
        "- a\n",
        "a: b: c\n",
        "a: b\n  c\n",
        "a: &x b\n",
        "a: *x\n",
        "a: !!str 1\n",
        "a: >\n  b\n",
        "a: |2\n   b\n",
        "a: |+\n  b\n\n",
        "a: |\n\n  b\n",
        "a: 1\na: 2\n",
        "a: \"x\\n\"\n",
        "a: \"x\n  y\"\n",
        "a:\tb\n",
        "a: b\r\n",
        "a: \u{e9}\n",
        "? a\n: b\n",
        "<<: {a: b}\n",
        "a: [b\n",
        "a: {b}\n",
        "a: {b: c,}\n",
        "\"a\": b\n",
        "a: b\n---\nc: d\n",
        "a: b\n...\n",
        "  a: b\nc: d\n",
        "a:\n    b: c\n  d: e\n",
        "- - a\n",
        "a: - b\n",
        "a: 'x' y\n",
        "%YAML 1.2\n---\na: b\n",
    ] {
        assert_eq!(read::<Node>(text, Library::V2), None, "{text:?}");
    }
}

#[test]
fn text_without_a_document_is_null() {
    for text in ["", "\n", "# x\n", "  # x\n\n", "---\n", "---\n# x\n"] {
        assert_eq!(read(text, Library::V2), Some(Node::Null), "{text:?}");
        assert_eq!(read_any(text, Library::V2), Ok(Node::Null), "{text:?}");
    }
}

const KEYS: [&str; 9] = ["", "", "a: ", "b:", "1: ", "yes: ", "a.b/c-d: ", "\"q\": ", "$x:  "];
const VALUES: [&str; 27] = [
    "|",
    "|-",
    "\"x y\"",
    "'it''s'",
    "'a' # c",
    "[]",
    "{}",
    "[a, \"b\", 1.5, -2]",
    "{\"a\":1,\"b\":[true,null]}",
    "{a: b, c: d}",
    "# comment",
    "a #b",
    "a#b",
    "0x1f",
    "2001-01-01",
    "1_000",
    "~",
    "http://x:1/y",
    "a:b",
    "---",
    "-1",
    "a, b]",
    "- x",
    "a",
    "b",
    "{a: b, a: c}",
    "",
];

fn any_line() -> impl Strategy<Value = String> {
    let indent = prop::sample::select(vec![0, 2, 2, 4, 3, 6]);
    let dash = prop::sample::select(vec!["", "", "", "- ", "- ", "-   ", "-"]);
    let key = prop_oneof![
        1 => prop::sample::select(&KEYS[..]).prop_map(str::to_owned),
        1 => "[a-c]: ?"
    ];
    let value = prop_oneof![
        4 => prop::sample::select(&VALUES[..]).prop_map(str::to_owned),
        2 => "[a-c]{0,2}",
        1 => "[ a:#'\"|{},-]{0,6}"
    ];
    (indent, dash, key, value, 0usize..2).prop_map(|(indent, dash, key, value, spaces)| {
        format!("{}{dash}{key}{value}{}", " ".repeat(indent), " ".repeat(spaces))
    })
}

/// Draws numbers below a bound.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 40).unwrap() % bound
    }
}

/// Writes a map in block style, as people do, and sometimes a little wrong.
fn write_map(dice: &mut Dice, indent: usize, depth: usize, out: &mut String) {
    let spaces = " ".repeat(indent);
    for key in &["a", "b", "c.d/e", "f-g"][..=dice.roll(4)] {
        if dice.roll(12) == 0 {
            out.push_str(["\n", "# comment\n", "   \n", "      # far\n"][dice.roll(4)]);
        }
        out.push_str(&format!("{spaces}{key}:"));
        match dice.roll(8) {
            0..3 => out.push_str(&format!(" {}\n", VALUES[dice.roll(VALUES.len())])),
            3 | 4 => write_literal(dice, indent, out),
            5 if depth < 3 => {
                out.push('\n');
                let inner = indent + [2, 4, 0][dice.roll(3)];
                write_map(dice, inner, depth + 1, out);
            }
            6 => {
                out.push('\n');
                let inner = indent + [0, 2][dice.roll(2)];
                write_list(dice, inner, out);
            }
            _ => out.push('\n'),
        }
    }
}

fn write_literal(dice: &mut Dice, indent: usize, out: &mut String) {
    out.push_str([" |\n", " |-\n"][dice.roll(2)]);
    for _ in 0..=dice.roll(4) {
        let deeper = indent + [2, 2, 2, 4, 1][dice.roll(5)];
        let text = ["x", "y: z", "# no comment", "", "- z", "\"q"][dice.roll(6)];
        out.push_str(&format!("{}{text}\n", " ".repeat(deeper)));
    }
    out.push_str(["", "", "\n", "\n\n"][dice.roll(4)]);
}

fn write_list(dice: &mut Dice, indent: usize, out: &mut String) {
    let spaces = " ".repeat(indent);
    for _ in 0..=dice.roll(3) {
        match dice.roll(4) {
            0 => out.push_str(&format!("{spaces}- a: 1\n{spaces}  b: {}\n", VALUES[dice.roll(VALUES.len())])),
            1 => {
                out.push_str(&format!("{spaces}- a:"));
                write_literal(dice, indent + 2, out);
            }
            2 => {
                out.push_str(&format!("{spaces}-"));
                write_literal(dice, indent, out);
            }
            _ => out.push_str(&format!("{spaces}- {}\n", VALUES[dice.roll(VALUES.len())])),
        }
    }
}

fn check(text: &str, library: Library) -> Result<(), TestCaseError> {
    if let Some(node) = read::<Node>(text, library) {
        prop_assert_eq!(Ok(node.clone()), read_any(text, library), "{:?}", text);
        // JSON is made without nodes, and the same as of them.
        prop_assert_eq!(read(text, library), to_json(node).ok(), "{:?}", text);
    }
    Ok(())
}

#[test]
fn usual_documents_are_read_here_as_the_parser_reads_them() {
    let mut read_here = 0;
    for seed in 0..20_000 {
        let (mut dice, mut text) = (Dice(seed), String::new());
        write_map(&mut dice, 0, 0, &mut text);
        if dice.roll(4) == 0 {
            text.pop();
        }
        for library in [Library::V2, Library::V3] {
            check(&text, library).unwrap();
            read_here += usize::from(read::<Node>(&text, library).is_some());
        }
    }
    assert!(read_here > 5_000, "only {read_here} were read here");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_read_here_is_what_the_parser_reads(
        lines in prop::collection::vec(any_line(), 1..7), has_break in any::<bool>(), is_new in any::<bool>()
    ) {
        let text = format!("{}{}", lines.join("\n"), if has_break { "\n" } else { "" });
        let library = if is_new { Library::V3 } else { Library::V2 };
        check(&text, library)?;
    }
}
