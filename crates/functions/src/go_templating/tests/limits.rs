//! What templates may cost: a brief call gives up before it delays others, and no call takes more memory than its step allows.

use super::*;

fn brief(request: &RunFunctionRequest) -> Answer {
    run_as(Release::V0_12, request, Effort::Brief)
}

/// A template that makes a text of a megabyte, and then does something with it again and again.
fn again_and_again(action: &str) -> String {
    format!(r#"{{{{ $s := repeat 1000000 "x" }}}}{{{{ range 1000 }}}}{{{{ {action} }}}}{{{{ end }}}}"#)
}

#[test]
fn brief_call_gives_up_work_whose_result_is_short() {
    let looks = [
        "if initials $s }}{{ end",
        r#"if contains "y" $s }}{{ end"#,
        r#"if trimAll "x" $s }}{{ end"#,
        r#"if trimAll $s "x" }}{{ end"#,
        "if int64 $s }}{{ end",
        "$_ := sortAlpha (list $s $s)",
    ];
    for look in looks {
        let request = from_json(&request(&again_and_again(look))).unwrap();
        assert_eq!(brief(&request), Err(TakesLong), "{look}");
    }
    let filled = "{{ $d := dict }}{{ $e := dict }}{{ range 500 }}{{ $_ := set $d (print .) 1 }}{{ $_ := set $e (print .) 1 }}{{ end }}";
    let compared = "{{ $_ := set $d `x` 1 }}{{ $_ := set $e `y` 1 }}{{ range 3000 }}{{ if deepEqual $d $e }}{{ end }}{{ end }}";
    let request = from_json(&request(&format!("{filled}{compared}"))).unwrap();
    assert_eq!(brief(&request), Err(TakesLong));
}

#[test]
fn brief_call_gives_up_searches_that_each_read_the_text_to_its_end() {
    let searches = [
        "regexFindAll `.*[^A-Z]|[A-Z]` $s -1",
        "regexSplit `.*[^A-Z]|[A-Z]` $s -1",
        "regexReplaceAllLiteral `.*[^A-Z]|[A-Z]` $s ``",
    ];
    for search in searches {
        let template = format!(r#"{{{{ $s := repeat 30000 "A" }}}}{{{{ $_ := {search} }}}}"#);
        let request = from_json(&request(&template)).unwrap();
        assert_eq!(brief(&request), Err(TakesLong), "{search}");
    }
}

#[test]
fn brief_call_gives_up_draws_below_templates_with_long_names() {
    let name = "n".repeat(20_000);
    let draws = "{{ range 9000 }}{{ $_ := randInt 0 9 }}{{ end }}";
    let template = format!(
        r#"{{{{ define "{name}" }}}}{{{{ if . }}}}{{{{ template "{name}" (sub . 1) }}}}{{{{ else }}}}{draws}{{{{ end }}}}{{{{ end }}}}{{{{ template "{name}" 200 }}}}"#
    );
    assert_eq!(brief(&from_json(&request(&template)).unwrap()), Err(TakesLong));
    let stopped = limited("ferroplane.io/template-steps", "500000", &template);
    let message = stopped["results"][0]["message"].as_str().unwrap();
    assert!(message.contains("the template takes more than 500000 steps"), "{message}");
}

#[test]
fn large_values_of_ordinary_templates_fit() {
    // Half a megabyte, as a ConfigMap has it, is read twenty times and replaced in.
    let text = r#"{{ $s := repeat 25000 "key: some value\n- one\n" }}"#;
    for action in [
        r#"{{ $_ := regexReplaceAll "\\s+" $s " " }}"#,
        r#"{{ $_ := regexReplaceAll "([^a-zA-Z0-9])" $s "-$1" }}"#,
        r#"{{ range 20 }}{{ $_ := fromYaml (repeat 25000 "- one of some values\n") }}{{ end }}"#,
    ] {
        let request = from_json(&request(&format!("{text}{action}"))).unwrap();
        let answer = run_as(Release::V0_12, &request, Effort::Full(&|| Duration::ZERO)).unwrap();
        assert!(answer.results.is_empty(), "{action}: {:?}", answer.results);
    }
}

#[test]
fn clock_is_checked_between_looks_at_a_long_text() {
    let template = again_and_again("if initials $s }}{{ end }}{{ if eq . 10 }}{{ break }}{{ end");
    let request = from_json(&request(&template)).unwrap();
    let looks = looks_at_the_clock(|effort| drop(run(&request, effort)));
    // Once for each look at the text at least.
    assert!(looks >= 10, "{looks}");
}

/// What a template is told that may make values of four megabytes.
fn refusal(template: &str) -> String {
    let answer = limited("ferroplane.io/template-memory", "4Mi", template);
    answer["results"][0]["message"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned()
}

#[test]
fn values_of_a_text_count_before_it_is_read() {
    let message = refusal(r#"{{ $y := fromYaml (repeat 20000 "-\n") }}"#);
    assert!(message.contains("the template makes more than 4194304 bytes of values"), "{message}");
    let message = refusal(r#"{{ repeat 20000 "-\n" }}"#);
    assert_eq!(
        message,
        "cannot decode manifests: the values in the output of the template can take more than 4194304 bytes; the annotation ferroplane.io/template-memory of the step's input sets another limit, up to 1024Mi"
    );
}

#[test]
fn brief_call_gives_up_an_output_of_many_values() {
    let request = from_json(&request(r#"{{ repeat 50000 "-\n" }}"#)).unwrap();
    assert_eq!(brief(&request), Err(TakesLong));
    assert_eq!(run_as(Release::V0_12, &request, Effort::Full(&|| Duration::ZERO)).unwrap().results.len(), 1);
}

#[test]
fn copies_of_a_dictionary_that_contains_itself_count() {
    let filled = "{{ $d := dict }}{{ range 1000 }}{{ $_ := set $d (print .) 1 }}{{ end }}";
    let composite = "getCompositeResource (dict `observed` (dict `composite` (dict `resource` $d)))";
    for copy in ["toYaml $d", "deepCopy $d", composite] {
        let message = refusal(&format!("{filled}{{{{ $_ := set $d `` $d }}}}{{{{ $_ := {copy} }}}}"));
        assert!(message.contains("more than 4194304 bytes of values"), "{copy}: {message}");
    }
}

#[test]
fn long_files_are_parsed_in_a_full_call_and_then_used_by_brief_ones() {
    let long = named("a", "") + &"# A line that says nothing.\n".repeat(4000);
    let request = from_json(&from_files(&[config_map("all", &json!({"a.yaml": long}))])).unwrap();
    assert_eq!(brief(&request), Err(TakesLong));
    // Another test empties the cache, and may do so between the two calls.
    let is_answered = || {
        let full = run_as(Release::V0_12, &request, Effort::Full(&|| Duration::ZERO));
        full.is_ok() && brief(&request) == full
    };
    assert!((0..5).any(|_| is_answered()));
}
