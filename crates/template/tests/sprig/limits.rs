//! Whatever a function is asked for, it ends within the budget.

use std::time::{Duration, Instant};

use ferroplane_golang::fmt::Numbers;
use ferroplane_template::{Budget, Exhausted, Heap, Host, Options, Templates, Value, sprig};
use serde_json::json;

use crate::rendered_within;

/// What a template that asks for too much is told.
fn refusal(template: &str) -> String {
    let budget = Budget { steps: 1_000_000, memory: 16 << 20, output: 1 << 20, ..Budget::default() };
    let start = Instant::now();
    let problem = rendered_within(template, &json!({}), budget).expect_err(template);
    assert!(start.elapsed() < Duration::from_secs(30), "{template} took {:?}", start.elapsed());
    problem
}

#[test]
fn too_much_is_refused_before_it_is_made() {
    for template in [
        r#"{{ repeat 9223372036854775807 "x" }}"#,
        r#"{{ $s := repeat 1000000 "x" }}{{ replace "" $s $s }}"#,
        r#"{{ indent 9223372036854775807 "x" }}"#,
        r#"{{ repeat 100000 "\n" | nindent 100000 }}"#,
        "{{ until 9223372036854775807 }}",
        "{{ until -9223372036854775807 }}",
        "{{ untilStep -9223372036854775807 9223372036854775807 1 }}",
        "{{ seq 1 9223372036854775806 }}",
        "{{ randAlpha 9223372036854775807 }}",
        "{{ randBytes 9223372036854775807 }}",
        r#"{{ wrapWith 1 (repeat 10000 "x") (repeat 10000 "y") }}"#,
        r#"{{ $l := until 100000 }}{{ join (repeat 10000 "x") $l }}"#,
        r#"{{ splitList "" (repeat 8000000 "x") }}"#,
        r#"{{ regexReplaceAll "" (repeat 100000 "x") (repeat 1000 "y") }}"#,
        r#"{{ regexFindAll "" (repeat 8000000 "x") -1 }}"#,
        "{{ $l := list 1 }}{{ range until 60 }}{{ $l = concat $l $l }}{{ end }}",
        "{{ uniq (until 100000) }}",
        r#"{{ $d := dict }}{{ range until 60 }}{{ $d = dict "a" $d "b" $d }}{{ end }}{{ toJson $d }}"#,
        r#"{{ $d := dict }}{{ range until 60 }}{{ $d = dict "a" $d "b" $d }}{{ end }}{{ deepCopy $d }}"#,
        r#"{{ $d := dict }}{{ range until 60 }}{{ $d = dict "a" $d "b" $d }}{{ end }}{{ merge (deepCopy (dict)) $d (dict) }}{{ $e := deepCopy $d }}"#,
    ] {
        let problem = refusal(template);
        assert!(problem.contains("the template"), "{template}: {problem}");
    }
}

#[test]
fn one_long_text_is_not_joined_with_itself_before_it_is_counted() {
    let refusals =
        [(60, "makes more than 16777216 bytes of values"), (100_000, "takes more than 1000000 steps")];
    for (count, expected) in refusals {
        let arguments = "$s ".repeat(count);
        for function in ["cat", "quote", "squote"] {
            let problem = refusal(&format!(
                r#"{{{{ $s := repeat 3000000 "x" }}}}{{{{ $_ := {function} {arguments}}}}}"#
            ));
            assert!(problem.contains(expected), "{problem}");
        }
    }
}

#[test]
fn dictionary_counts_whenever_a_loop_copies_it() {
    let filled = "{{ $d := dict }}{{ range until 1000 }}{{ $_ := set $d (print .) . }}{{ end }}";
    let copied = "{{ range 1000 }}{{ range $d }}{{ break }}{{ end }}{{ end }}";
    let problem = refusal(&format!("{filled}{copied}"));
    assert!(problem.contains("the template makes more than 16777216 bytes of values"), "{problem}");
}

#[test]
fn dictionaries_that_contain_themselves_end_every_walk() {
    for template in [
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ mustToJson $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ deepCopy $d }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $e := dict }}{{ $_ := set $e "d" $e }}{{ deepEqual $d $e }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $e := dict }}{{ $_ := set $e "d" $e }}{{ merge $d $e }}"#,
        r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $e := dict }}{{ $_ := set $e "d" $e }}{{ has $d (list $e) }}"#,
        r#"{{ mustFromJson (repeat 100000 "[") }}"#,
    ] {
        let problem = refusal(template);
        assert!(
            problem.contains("nested") || problem.contains("cycle") || problem.contains("depth"),
            "{problem}"
        );
    }
}

#[test]
fn heavy_expressions_are_refused() {
    let problem = refusal(r#"{{ mustRegexMatch "((a{100}){10}[é-ü]{1000}){1}\\pL{900}" "x" }}"#);
    assert!(problem.contains("expression too large"), "{problem}");
}

#[test]
fn search_for_a_heavy_expression_costs_more_than_for_a_light_one() {
    let search = |expression: &str| {
        let matched = format!(r#"{{{{ if regexMatch "{expression}" $s }}}}{{{{ end }}}}"#);
        format!(r#"{{{{ $s := repeat 1000000 "x" }}}}{{{{ range 30 }}}}{matched}{{{{ end }}}}"#)
    };
    let budget = Budget { steps: 1_000_000, ..Budget::default() };
    assert_eq!(rendered_within(&search("[xy]z"), &json!({}), budget), Ok(Vec::new()));
    let problem = refusal(&search("[xy]{500}z"));
    assert!(problem.contains("the template takes more than 1000000 steps"), "{problem}");
}

#[test]
fn expression_that_is_searched_for_too_long_is_no_mismatch() {
    struct Impatient;
    impl Host for Impatient {
        fn expired(&mut self) -> Option<Duration> {
            Some(Duration::from_secs(3))
        }
    }
    let text = r#"{{ regexMatch "b" .text }}"#;
    let templates = Templates::parse("t", text, &Options::default(), &sprig::functions()).unwrap();
    let heap = Heap::new();
    // Searching this takes more steps than pass between two questions to the host.
    let data = Value::from_json(&heap, &json!({"text": "a".repeat(200_000)}), Numbers::AsWritten);
    let error = templates.execute(data, &heap, &mut Impatient, Budget::default()).unwrap_err();
    assert_eq!(error.exhausted, Some(Exhausted::Time(Duration::from_secs(3))));
}
