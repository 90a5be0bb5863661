//! What the input says about how templates are written: their options and delimiters.

use super::*;

/// The answer to a request whose input has one more field.
fn answer_with(field: &str, value: Value, template: &str) -> Value {
    let mut request = request(template);
    request["input"][field] = value;
    answer_as(Release::V0_12, &request)
}

fn message_with(options: Value, template: &str) -> String {
    let answer = answer_with("options", options, template);
    answer["results"][0]["message"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned()
}

/// What a template prints into a composed resource.
fn text_with(options: Value, template: &str) -> Value {
    let answer = answer_with("options", options, &named("a", &format!("data: {{text: '{template}'}}")));
    answer["desired"]["resources"]["a"]["resource"]["data"]["text"].clone()
}

#[test]
fn missing_key_has_no_value_unless_an_option_says_otherwise() {
    let all = [json!([]), json!(["missingkey=default"]), json!(["missingkey=invalid"]), json!(null)];
    for options in all {
        assert_eq!(text_with(options.clone(), "{{ .nope.deeper }}"), "<no value>", "{options}");
    }
    // The last one counts.
    let both = json!(["missingkey=error", "missingkey=default"]);
    assert_eq!(text_with(both, "{{ .nope }}"), "<no value>");
}

#[test]
fn missing_key_is_an_error_if_the_template_wants_it() {
    assert_eq!(
        message_with(json!(["missingkey=error"]), "{{ .nope }}"),
        r#"cannot execute template: template: manifests:1:3: executing "manifests" at <.nope>: map has no entry for key "nope""#
    );
    assert_eq!(text_with(json!(["missingkey=error"]), "{{ .observed.composite.resource.spec.count }}"), "3");
}

#[test]
fn missing_key_is_the_zero_value_if_the_template_wants_it() {
    let zero = || json!(["missingkey=zero"]);
    assert_eq!(text_with(zero(), "{{ .nope }}"), "<no value>");
    assert_eq!(text_with(zero(), r#"{{ (getCredentialData . "nope").token }}"#), "[]");
    assert_eq!(
        message_with(zero(), "{{ .nope.deeper }}"),
        r#"cannot execute template: template: manifests:1:8: executing "manifests" at <.nope.deeper>: nil pointer evaluating interface {}.deeper"#
    );
}

#[test]
fn option_that_does_not_exist_is_refused_as_in_the_original() {
    let words = "cannot apply template options: panic occurred while applying template options: ";
    assert_eq!(
        message_with(json!(["missingkey=maybe"]), "{{ .nope }}"),
        format!("{words}unrecognized option: missingkey=maybe")
    );
    assert_eq!(message_with(json!([""]), "{{ .nope }}"), format!("{words}empty option string"));
    // The template is parsed first.
    let message = message_with(json!(["missingkey=maybe"]), "{{ nope }}");
    assert!(message.ends_with(r#"function "nope" not defined"#), "{message}");
}

#[test]
fn delimiters_are_changed_both_or_not_at_all() {
    let printed = |delims: Value, template: &str| {
        let answer = answer_with("delims", delims, &named("a", template));
        answer["desired"]["resources"]["a"]["resource"]["data"]["text"].clone()
    };
    let template = "data: {text: '{{ .observed.composite.resource.spec.count }} [[ .observed.composite.resource.spec.count ]]'}";
    let changed = "{{ .observed.composite.resource.spec.count }} 3";
    let unchanged = "3 [[ .observed.composite.resource.spec.count ]]";
    assert_eq!(printed(json!({"left": "[[", "right": "]]"}), template), changed);
    for delims in [json!({"left": "[["}), json!({"right": "]]"}), json!({"left": "", "right": ""}), json!({})]
    {
        assert_eq!(printed(delims.clone(), template), unchanged, "{delims}");
    }
}
