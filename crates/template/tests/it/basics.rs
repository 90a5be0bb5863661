//! What templates do, in a few words.
use ferroplane_golang::fmt::Numbers;
use ferroplane_template::{
    Budget, Callee, Function, Functions, Heap, NoHost, Options, Templates, Type, Value, sprig,
};
use serde_json::json;

fn rendered(text: &str) -> Result<String, String> {
    let data =
        json!({"name": "x", "n": 3, "items": [1, 2.5, null], "nested": {"a": {"b": "c"}}, "null": null});
    let templates = Templates::parse("t", text, &Options::default(), &Functions::builtin())
        .map_err(|error| error.to_string())?;
    let heap = Heap::new();
    let data = Value::from_json(&heap, &data, Numbers::AsWritten);
    let output = templates.execute(data, &heap, &mut NoHost, Budget::default());
    let output = output.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(output).expect("templates of this test write text"))
}

#[test]
fn templates_are_filled_in() {
    for (text, expected) in [
        ("a {{ .name }} b", "a x b"),
        ("{{ .nested.a.b }}{{ .missing }}{{ .null }}", "c<no value><no value>"),
        ("{{ range $i, $e := .items }}{{ $i }}={{ $e }};{{ end }}", "0=1;1=2.5;2=<no value>;"),
        ("{{ range $k, $v := .nested }}{{ $k }}{{ $v }}{{ else }}none{{ end }}", "amap[b:c]"),
        ("{{ range 3 }}{{ . }}{{ if eq . 1 }}{{ break }}{{ end }}{{ end }}", "01"),
        (r#"{{ define "d" }}<{{ . }}>{{ end }}{{ template "d" .name }}"#, "<x>"),
        (r#"{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x | printf "%03d" }}"#, "002"),
        ("{{ with .missing }}a{{ else with .name }}{{ . }}{{ end }}", "x"),
        ("{{ .n }} {{ printf \"%T\" .n }} {{ print .items }}", "3 int64 [1 2.5 <nil>]"),
    ] {
        assert_eq!(rendered(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn mistakes_are_worded_as_in_go() {
    for (text, expected) in [
        (
            "{{ .name.x }}",
            r#"template: t:1:8: executing "t" at <.name.x>: can't evaluate field x in type interface {}"#,
        ),
        (
            "{{ .null.x }}",
            r#"template: t:1:8: executing "t" at <.null.x>: nil pointer evaluating interface {}.x"#,
        ),
        ("\n{{ nope }}", r#"template: t:2: function "nope" not defined"#),
        (
            "{{ printf }}",
            r#"template: t:1:3: executing "t" at <printf>: wrong number of args for printf: want at least 1 got 0"#,
        ),
    ] {
        assert_eq!(rendered(text).as_ref().map_err(String::as_str), Err(expected), "{text}");
    }
}

#[test]
fn output_is_traced_to_the_lines_that_printed_it() {
    let text = "{{- define \"inner\" }}\ninner: 1\n{{- end }}\n{{ range (list \"a\" \"b\") -}}\n  ---\nname: {{ . }}\n{{ end -}}\n{{ template \"inner\" }}\n{{ include \"inner\" . }}\n";
    let functions = sprig::functions().with(INCLUDE);
    let templates = Templates::parse("t", text, &Options::default(), &functions).unwrap();
    let heap = Heap::new();
    let (output, trace) =
        templates.execute_traced(Value::Nil, &heap, &mut NoHost, Budget::default()).unwrap();
    let output = String::from_utf8(output).unwrap();
    let mut offset = 0;
    let mut lines = Vec::new();
    for line in output.split_inclusive('\n') {
        lines.push((line.trim_end(), templates.line(trace.position(offset).unwrap())));
        offset += line.len();
    }
    let expected = [
        ("", 3),
        ("---", 5),
        ("name: a", 6),
        ("---", 5),
        ("name: b", 6),
        ("", 1),
        ("inner: 1", 2),
        ("", 9),
        ("inner: 1", 9),
    ];
    assert_eq!(lines, expected);
}

const INCLUDE: &[Function] = &[Function {
    name: "include",
    parameters: &[Type::String, Type::Any],
    rest: None,
    result: Type::String,
    callee: Callee::Values(|context, arguments| {
        let Value::String(name) = &arguments[0] else { return Ok(Value::Nil) };
        Ok(Value::String(context.execute(name, arguments[1].clone())?))
    }),
}];
