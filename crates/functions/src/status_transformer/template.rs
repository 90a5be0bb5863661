//! The templates of messages: Go's, over what expressions captured.
//!
//! # Invariants
//! * A message costs no more than [`BUDGET`].

use std::collections::BTreeMap;

use ferroplane_template::{Budget, Functions, Heap, NoHost, Options, Templates, Type, Value};

/// What a message may cost. Kubernetes keeps less of it than a mebibyte.
const BUDGET: Budget = Budget { steps: 100_000, memory: 8 << 20, output: 1 << 20, depth: 100 };

/// What expressions captured, by the names of their groups.
pub(super) type Groups = BTreeMap<String, String>;

/// Fill captured texts into a template.
pub(super) fn render(template: &str, groups: &Groups) -> Result<String, String> {
    let templates = Templates::parse("", template, &Options::default(), &Functions::builtin())
        .map_err(|problem| format!("cannot parse template: {problem}"))?;
    let heap = Heap::new();
    let entries = groups.iter().map(|(name, text)| (name.as_str().into(), Value::text(text.as_str())));
    let data = Value::Map(heap.map(&Type::String, entries.collect()));
    let output = templates
        .execute(data, &heap, &mut NoHost, BUDGET)
        .map_err(|problem| format!("cannot execute template: {problem}"))?;
    // Escapes can name bytes that are no text, and messages of the protocol are text.
    String::from_utf8(output).map_err(|_| "cannot execute template: the message is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups() -> Groups {
        [("Error", "no <quota>"), ("Zone", "eu-1"), ("Empty", "")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into()
    }

    fn rendered(template: &str) -> String {
        render(template, &groups()).unwrap_or_else(|problem| panic!("{template}: {problem}"))
    }

    fn problem(template: &str) -> String {
        render(template, &groups()).expect_err(template)
    }

    #[test]
    fn groups_are_filled_in() {
        assert_eq!(rendered("plain"), "plain");
        assert_eq!(rendered("{{ .Error }} in {{.Zone}}"), "no <quota> in eu-1");
        assert_eq!(rendered("{{ $.Zone }}{{ .Missing }}"), "eu-1<no value>");
        assert_eq!(rendered("{{ . }}"), "map[Empty: Error:no <quota> Zone:eu-1]");
    }

    #[test]
    fn space_is_trimmed_and_comments_vanish() {
        assert_eq!(rendered("a  {{- /* why */ -}}  b {{- .Zone -}} c"), "abeu-1c");
    }

    #[test]
    fn branches_follow_what_was_captured() {
        assert_eq!(rendered("{{ if .Empty }}a{{ else if .Zone }}b{{ else }}c{{ end }}"), "b");
        assert_eq!(rendered("{{ with .Zone }}<{{ . }}{{ $.Error }}>{{ end }}"), "<eu-1no <quota>>");
        assert_eq!(rendered("{{ with .Missing }}a{{ else with .Zone }}{{ . }}{{ else }}c{{ end }}"), "eu-1");
    }

    #[test]
    fn functions_take_arguments_and_pipelines() {
        for (template, expected) in [
            (r#"{{ or .Missing .Empty "none" }}"#, "none"),
            ("{{ and .Zone .Empty }}", ""),
            ("{{ not .Empty }}", "true"),
            (r#"{{ eq .Zone "x" "eu-1" }} {{ ne .Zone "x" }} {{ eq .Missing "x" }}"#, "true true false"),
            (r#"{{ lt .Zone "f" }} {{ ge 2 1 }} {{ gt 1 2 }} {{ le 1 1 }}"#, "true true false true"),
            (r#"{{ printf "%s at %q: %d%%" .Error .Zone 3 }}"#, r#"no <quota> at "eu-1": 3%"#),
            (r#"{{ .Zone | printf "%v-%s" 1 }}"#, "1-eu-1"),
            (r#"{{ printf "%6s|%-6s|%.2s|%03d" .Zone .Zone .Zone 7 }}"#, "  eu-1|eu-1  |eu|007"),
            ("{{ print .Zone 1 2 true }}{{ println 1 }}", "eu-11 2 true1\n"),
            (r#"{{ len .Zone }} {{ len . }} {{ index . "Zone" }} {{ index .Zone 0 }}"#, "4 3 eu-1 101"),
            ("{{ slice .Zone 1 }} {{ slice .Zone 0 2 }}", "u-1 eu"),
            ("{{ html .Error }} {{ urlquery .Error }}", "no &lt;quota&gt; no+%3Cquota%3E"),
            (r#"{{ (index . "Zone") }}{{ (printf "%s" .Zone) | len }}"#, "eu-14"),
        ] {
            assert_eq!(rendered(template), expected, "{template}");
        }
    }

    #[test]
    fn mistakes_are_named_as_in_go() {
        for (template, expected) in [
            ("{{ .Error", "cannot parse template: template: :1: unclosed action"),
            ("\n{{ nope .Error }}", r#"cannot parse template: template: :2: function "nope" not defined"#),
            ("{{ if .Error }}", "cannot parse template: template: :1: unexpected EOF"),
            ("{{ end }}", "cannot parse template: template: :1: unexpected {{end}}"),
            ("{{ }}", "cannot parse template: template: :1: missing value for command"),
            ("{{ .Error } }}", r#"cannot parse template: template: :1: unexpected "}" in operand"#),
            ("{{ $x }}", r#"cannot parse template: template: :1: undefined variable "$x""#),
            ("{{ .a-b }}", "cannot parse template: template: :1: bad character U+002D '-'"),
            ("{{ .a½ }}", "cannot parse template: template: :1: bad character U+00BD '½'"),
            ("{{ .a\u{ad} }}", "cannot parse template: template: :1: bad character U+00AD"),
            (
                "{{ \u{2028} }}",
                "cannot parse template: template: :1: unrecognized character in action: U+2028",
            ),
            (
                "a {{ .Error.Code }}",
                r#"cannot execute template: template: :1:11: executing "" at <.Error.Code>: can't evaluate field Code in type string"#,
            ),
            (
                "{{ eq .Error 1 }}",
                r#"cannot execute template: template: :1:3: executing "" at <eq .Error 1>: error calling eq: incompatible types for comparison: string and int"#,
            ),
        ] {
            assert_eq!(problem(template), expected, "{template}");
        }
    }

    #[test]
    fn everything_that_templates_know_is_followed() {
        for (template, expected) in [
            ("{{ range $name, $text := . }}{{ $name }};{{ end }}", "Empty;Error;Zone;"),
            ("{{ $zone := .Zone }}{{ if true }}{{ $zone = 1.5 }}{{ end }}{{ $zone }}", "1.5"),
            (
                r#"{{ define "a" }}<{{ . }}>{{ end }}{{ template "a" .Zone }}{{ block "b" 'x' }}{{ . }}{{ end }}"#,
                "<eu-1>120",
            ),
            ("{{ js .Error }}", r"no \u003Cquota\u003E"),
        ] {
            assert_eq!(rendered(template), expected, "{template}");
        }
    }

    #[test]
    fn message_that_is_no_text_is_refused() {
        assert_eq!(problem(r#"{{ "\xff" }}"#), "cannot execute template: the message is not UTF-8");
    }

    #[test]
    fn templates_do_not_run_away() {
        let long: Groups = [("A".to_owned(), "a".repeat(1 << 16))].into();
        assert!(render(&"{{.A}}".repeat(100), &long).unwrap_err().contains("longer than"));
        assert!(problem(&("{{".to_owned() + &"(".repeat(10_000))).contains("max expression depth exceeded"));
        assert!(problem("{{ range 1000000 }}{{ end }}").contains("more than 100000 steps"));
        assert!(problem(&"{{if .A}}".repeat(10_000)).contains("nested too deeply"));
        assert!(
            problem(&("{{if .A}}".to_owned() + &"{{else if .A}}".repeat(10_000)))
                .contains("nested too deeply")
        );
    }

    proptest! {
        #[test]
        fn any_template_is_rendered_or_refused(template in r#"([{}]{2}|[-. "`'$|()%a-c0-9:=,]|if|else|end|with|printf|eq|len|index|slice|\.Zone){0,24}"#) {
            let _ = render(&template, &groups());
        }

        #[test]
        fn any_action_is_rendered_or_refused(action in r#"([-. "`'$|()%a-c0-9:=,]| (and|or|not|print|printf|eq|lt|len|index|slice|html|nil|true|\.Zone|"%s"|1) ){0,12}"#) {
            let _ = render(&format!("{{{{{action}}}}}"), &groups());
        }
    }
}
