//! Go's YAML libraries beside ours: what `tests/go-yaml/main.go` recorded is what we read and write.

use ferroplane_golang::strconv::format_float;
use ferroplane_golang::yaml::{Documents, Library, Node, read, write};
use serde_json::{Value, json};

/// Texts that our parser judges in another way than the originals do: it reads YAML 1.2, which knows fewer line breaks, allows
/// tabs and empty keys in more places, and takes question marks, dashes and colons in braces for what they look like.
fn differs_on_purpose(text: &str) -> bool {
    let has_rare_break = text.contains(['\u{85}', '\u{2028}', '\u{feff}']);
    let has_tab = text.contains("-\t")
        || text.contains("- \t")
        || text.trim_start_matches(['\n', ' ']).starts_with('\t')
        || text.contains("|\n  \t");
    let has_empty_key = text.trim_start().starts_with(':')
        || text.starts_with("- :")
        || text.starts_with("&a:")
        || text.starts_with("&:");
    let in_braces =
        ["{a: -}", "{a: ?}", "{a: }}", "{a: a:}", "{a: !a}", "{a: http:", "!!str }", "!!str ]", "...", "{a}"];
    has_rare_break || has_tab || has_empty_key || in_braces.iter().any(|start| text.starts_with(start))
}

fn recorded(ask: &'static str) -> impl Iterator<Item = Value> {
    let lines = include_str!("yaml.jsonl").lines().map(|line| serde_json::from_str(line).unwrap());
    lines.filter(move |line: &Value| line["ask"] == ask)
}

#[test]
fn version_3_is_written_to_the_byte() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for line in recorded("write") {
        let (ours, theirs) = (write(&line["input"], Library::V3), line["text"].as_str().unwrap());
        if ours != theirs {
            wrong.push(format!("{}\n  ours   {ours:?}\n  theirs {theirs:?}", line["input"]));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A node as the recording writes it.
fn typed(node: &Node) -> Value {
    match node {
        Node::Null => json!(["null"]),
        Node::Bool(is_true) => json!(["bool", is_true]),
        Node::Int(integer) => json!(["int", integer.to_string()]),
        Node::Uint(integer) => json!(["uint", integer.to_string()]),
        Node::Float(float) => json!(["float", format_float(*float, 'g', None)]),
        Node::String(text) => json!(["string", text]),
        Node::Bytes(bytes) => json!(["string", String::from_utf8_lossy(bytes)]),
        Node::Time(_) => json!(["time"]),
        Node::List(items) => std::iter::once(json!("list")).chain(items.iter().map(typed)).collect(),
        Node::Map(entries) => {
            let mut entries: Vec<_> =
                entries.iter().map(|(key, value)| json!([typed(key), typed(value)])).collect();
            entries.sort_by_key(Value::to_string);
            std::iter::once(json!("map")).chain(entries).collect()
        }
    }
}

/// What was recorded, with the entries of maps in our order.
fn in_order(value: &Value) -> Value {
    let Some(items) = value.as_array() else { return value.clone() };
    let mut items: Vec<_> = items.iter().map(in_order).collect();
    if items.first().is_some_and(|first| first == "map") {
        items[1..].sort_by_key(Value::to_string);
    }
    Value::Array(items)
}

#[test]
fn version_3_is_read_alike() {
    let mut wrong = Vec::new();
    for line in recorded("read") {
        let text = line["input"].as_str().unwrap();
        let ours = read(text, Library::V3).map(|node| typed(&node));
        let is_same = match (&ours, line["error"].as_str()) {
            (Ok(ours), None) => *ours == in_order(&line["value"]),
            // A user who wrote the same key twice is told the same; what is no YAML is told in other words.
            (Err(ours), Some(theirs)) => !theirs.contains("already defined") || ours.to_string() == theirs,
            _ => false,
        };
        if !is_same && !differs_on_purpose(text) {
            wrong.push(format!("{text:?}\n  ours   {ours:?}\n  theirs {} {}", line["value"], line["error"]));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Numbers as Kubernetes reads them from the JSON that was recorded.
fn numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().unwrap();
            #[expect(clippy::cast_possible_truncation, reason = "it is an integer, and in bounds")]
            match number.as_i64() {
                Some(integer) => json!(integer),
                None if float.fract() == 0.0 && float.abs() < 9e18 => json!(float as i64),
                None => json!(float),
            }
        }
        Value::Array(items) => items.into_iter().map(numbers).collect(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, numbers(value))).collect(),
        other => other,
    }
}

#[test]
fn streams_are_cut_and_read_as_kubernetes_does() {
    let mut wrong = Vec::new();
    for line in recorded("documents") {
        let text = line["input"].as_str().unwrap();
        let mut error = None;
        let mut ours = Vec::new();
        for document in Documents::new(text) {
            match document {
                Ok(document) => ours.push(numbers(document.value)),
                Err(failed) => error = Some(failed.message),
            }
        }
        let theirs = line["value"].as_array().unwrap().iter();
        let theirs: Vec<_> = theirs
            .map(|text| numbers(serde_json::from_str(text.as_str().unwrap()).unwrap_or_default()))
            .collect();
        if (ours != theirs || error.is_some() != line["error"].is_string()) && !differs_on_purpose(text) {
            wrong.push(format!(
                "{text:?}\n  ours   {ours:?} {error:?}\n  theirs {theirs:?} {}",
                line["error"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

proptest::proptest! {
    /// Whatever is read is read or refused.
    #[test]
    fn any_text_can_be_tried(text in "[-a:{}\\[\\]&*!|>'\"%@# \n\t0-9.~<,?x]{0,60}") {
        for library in [Library::V2, Library::V3] {
            let _ = read(&text, library);
        }
        let _ = Documents::new(&text).count();
    }
}

#[test]
fn attacks_are_refused() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for name in b'b'..b'k' {
        let (name, before) = (char::from(name), char::from(name - 1));
        bomb += &format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 8].join(", "));
    }
    for (text, words) in [
        (bomb.as_str(), "excessive aliasing"),
        (&"[".repeat(100_000), "exceeded"),
        (&"- ".repeat(100_000), "exceeded"),
        ("a: &a [*a]\n", "contains itself"),
        // A node each, and a megabyte each.
        (&format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), ["*a"; 100].join(", ")), "excessive aliasing"),
        (
            &format!("{}\"{}\"{}", "&a [".repeat(200), "x".repeat(1 << 20), "]".repeat(200)),
            "excessive aliasing",
        ),
    ] {
        let error = read(text, Library::V3).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
