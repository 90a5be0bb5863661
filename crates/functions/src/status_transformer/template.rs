//! The templates of messages: the part of Go's `text/template` that texts captured from messages call for.
//!
//! Known: text, comments, trimmed space, `.`, `$`, fields, text, whole numbers and booleans, pipelines and
//! parentheses, `if` and `with` with their `else`, and the functions in [`functions`]. Not known, and said to
//! be so: variables, `range`, `define`, `template`, `block`, and other numbers.
//!
//! # Invariants
//! * A message never grows past [`MAX_MESSAGE`], and nesting never past [`MAX_DEPTH`].

mod evaluate;
mod functions;
mod lex;
mod parse;

use std::collections::BTreeMap;
use std::fmt;

/// How long a message may become, in bytes. Kubernetes keeps less of it.
const MAX_MESSAGE: usize = 1 << 20;

/// How deep parentheses and blocks may be nested.
const MAX_DEPTH: usize = 64;

/// What expressions captured, by the names of their groups.
pub(super) type Groups = BTreeMap<String, String>;

/// Fill captured texts into a template.
pub(super) fn render(template: &str, groups: &Groups) -> Result<String, String> {
    let nodes = parse::parse(template).map_err(|problem| format!("cannot parse template: {problem}"))?;
    let mut output = String::new();
    evaluate::write(&nodes, groups, template, &mut output)
        .map_err(|problem| format!("cannot execute template: {problem}"))?;
    Ok(output)
}

/// A piece of a template.
#[derive(Debug)]
enum Node {
    Text(String),
    Action(Pipeline),
    Choice(Box<Choice>),
}

/// `if` or `with`.
#[derive(Debug)]
struct Choice {
    moves_dot: bool,
    condition: Pipeline,
    then: Vec<Node>,
    otherwise: Vec<Node>,
}

/// Commands, each of which gets what the one before it gave.
#[derive(Debug)]
struct Pipeline {
    commands: Vec<Command>,
}

/// A function or a value, and arguments.
#[derive(Debug)]
struct Command {
    at: usize,
    operands: Vec<Operand>,
}

/// A value in a command, and where it is in the template.
#[derive(Debug)]
struct Operand {
    at: usize,
    term: Term,
    /// The fields that follow a pipeline, the root or the dot.
    fields: Vec<String>,
}

#[derive(Debug)]
enum Term {
    Dot,
    Root,
    Nil,
    Text { quoted: String, text: String },
    Integer(i64),
    Boolean(bool),
    Function(String),
    Pipeline(Pipeline),
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_joined(f, &self.commands, " | ")
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_joined(f, &self.operands, " ")
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.term {
            Term::Dot if self.fields.is_empty() => f.write_str(".")?,
            Term::Dot => {}
            Term::Root => f.write_str("$")?,
            Term::Nil => f.write_str("nil")?,
            Term::Text { quoted, .. } => f.write_str(quoted)?,
            Term::Integer(number) => number.fmt(f)?,
            Term::Boolean(truth) => truth.fmt(f)?,
            Term::Function(name) => f.write_str(name)?,
            Term::Pipeline(pipeline) => write!(f, "({pipeline})")?,
        }
        self.fields.iter().try_for_each(|field| write!(f, ".{field}"))
    }
}

fn write_joined<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T], separator: &str) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if at == 0 { "" } else { separator })?;
    }
    Ok(())
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
    fn what_is_not_known_is_said() {
        assert!(problem("{{ range . }}{{ end }}").contains("<range> is not supported"));
        assert!(problem("{{ $x := 1 }}").contains("variables are not supported"));
    }

    #[test]
    fn templates_do_not_run_away() {
        let long: Groups = [("A".to_owned(), "a".repeat(1 << 16))].into();
        assert!(render(&"{{.A}}".repeat(100), &long).unwrap_err().contains("longer than"));
        assert!(problem(&("{{".to_owned() + &"(".repeat(10_000))).contains("max expression depth exceeded"));
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
