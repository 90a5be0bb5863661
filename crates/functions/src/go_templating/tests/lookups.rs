//! Helpers that look things up in the request or choose something, and the releases that have them.

use std::collections::BTreeSet;

use super::*;

/// Resources with these names, as a request brings them.
fn networks(names: &[&str]) -> Value {
    let network = |name: &&str| json!({"resource": {"kind": "Network", "metadata": {"name": name}}});
    json!({"items": names.iter().map(network).collect::<Vec<_>>()})
}

/// A request that has something for every helper to find.
fn full_request() -> Value {
    let mut request = request("");
    request["observed"]["resources"]["db.main"]["connectionDetails"] = json!({"user": "YWRtaW4="});
    request["credentials"] =
        json!({"cloud": {"credentialData": {"data": {"token": "czNjcjN0"}}}, "without-data": {}});
    request["requiredResources"] = json!({"both": networks(&["required"]), "none-required": {}});
    request["extraResources"] = json!({
        "both": networks(&["extra"]), "none-required": networks(&["extra"]), "extra": networks(&["a", "b"]),
    });
    request["context"][documents::EXTRA_RESOURCES] = json!({"both": networks(&["from-context"])});
    request
}

#[test]
fn helpers_find_what_the_request_has() {
    let name_of_first = |list: &str| format!("{{{{ (index ({list}) 0).resource.metadata.name }}}}");
    let names = |list: &str| format!("{{{{ range {list} }}}}{{{{ .resource.metadata.name }}}} {{{{ end }}}}");
    let cases = [
        (r#"{{ (getCredentialData . "cloud").token | toString }}"#.to_owned(), "s3cr3t"),
        (r#"{{ (getCredentialData . "cloud").token }}"#.to_owned(), "[115 51 99 114 51 116]"),
        (r#"{{ getCredentialData . "without-data" }}"#.to_owned(), "map[]"),
        (r#"{{ len (getCredentialData . "nope") }}"#.to_owned(), "0"),
        (r#"{{ (getComposedConnectionDetails . "db.main").user | b64dec }}"#.to_owned(), "admin"),
        (r#"{{ getComposedConnectionDetails . "nope" }}"#.to_owned(), "map[]"),
        // What was required counts; extra resources are checked where nothing was.
        (name_of_first(r#"getExtraResources . "both""#), "required"),
        (names(r#"getExtraResources . "none-required""#), "extra "),
        (names(r#"getExtraResources . "extra""#), "a b "),
        (name_of_first(r#"getExtraResourcesFromContext . "both""#), "from-context"),
        (r#"{{ len (getExtraResourcesFromContext . "extra") }}"#.to_owned(), "0"),
    ];
    for (template, text) in cases {
        assert_eq!(printed(&template, &full_request()).as_deref(), Ok(text), "{template}");
    }
}

#[test]
fn random_choice_differs_between_composite_resources_and_stays_the_same_for_each() {
    let choices = || -> Vec<String> {
        let of_uid = |number: u32| {
            let mut request = request("");
            request["observed"]["composite"]["resource"]["metadata"]["uid"] = json!(format!("uid-{number}"));
            printed(r#"{{ randomChoice "a" "b" "c" }}"#, &request).unwrap()
        };
        (0..50).map(of_uid).collect()
    };
    let first = choices();
    assert!(first.iter().all(|choice| ["a", "b", "c"].contains(&choice.as_str())), "{first:?}");
    assert!(first.iter().any(|choice| *choice != first[0]), "{first:?}");
    assert_eq!(choices(), first);
}

/// What a template prints for a composite resource, with this context.
fn printed_with(template: &str, context: &Value) -> String {
    let mut request = request("");
    request["context"] = context.clone();
    printed(template, &request).unwrap()
}

#[test]
fn random_value_stays_the_same_when_other_calls_draw_no_longer() {
    let template = r#"
        {{- define "password" }}{{ randAlphaNum 8 }}{{ end }}
        {{- if .context.draws }}{{ $_ := randAlphaNum 20 }}{{ $_ := include "password" . }}{{ end }}
        {{- range until (int .context.others) }}{{ $_ := uuidv4 }}{{ end }}
        {{- randAlphaNum 8 }} {{ uuidv4 }} {{ include "password" . }} {{ template "password" . }}"#;
    let first = printed_with(template, &json!({"draws": true, "others": 3}));
    assert_eq!(first.split(' ').collect::<BTreeSet<_>>().len(), 4, "{first}");
    assert_eq!(printed_with(template, &json!({"draws": false, "others": 0})), first);
    // As in a file, on whose text random values do not depend.
    let longer = format!("Before it.{template}");
    assert_eq!(printed_with(&longer, &json!({"draws": true, "others": 0})), format!("Before it.{first}"));
}

#[test]
fn random_value_in_a_loop_follows_from_how_often_the_call_was_made_before() {
    let template = "{{ range until (int .context.count) }}{{ randAlphaNum 8 }} {{ end }}";
    let three = printed_with(template, &json!({"count": 3}));
    assert_eq!(three.split_whitespace().collect::<BTreeSet<_>>().len(), 3, "{three}");
    assert!(three.starts_with(&printed_with(template, &json!({"count": 2}))), "{three}");
}

#[test]
fn random_choice_between_nothing_fails_as_in_the_original() {
    let message = fatal("{{ randomChoice }}");
    assert!(
        message.ends_with("at <randomChoice>: error calling randomChoice: invalid argument to Intn"),
        "{message}"
    );
}

#[test]
fn helper_is_not_defined_before_the_release_that_brought_it() {
    let cases = [
        ("getCompositeResource", ".", Release::V0_4, Release::V0_5),
        ("getComposedResource", ". `a`", Release::V0_4, Release::V0_5),
        ("sha512sum", "`a`", Release::V0_5, Release::V0_6),
        ("getExtraResources", ". `a`", Release::V0_9, Release::V0_11),
        ("getCredentialData", ". `a`", Release::V0_9, Release::V0_11),
        ("getComposedConnectionDetails", ". `a`", Release::V0_11, Release::V0_12),
        ("getExtraResourcesFromContext", ". `a`", Release::V0_11, Release::V0_12),
    ];
    for (name, argument, before, since) in cases {
        let request = request(&format!("{{{{ $found := {name} {argument} }}}}"));
        assert_eq!(
            answer_as(before, &request)["results"][0]["message"],
            format!(
                "invalid function input: cannot parse the provided templates: template: manifests:1: function \"{name}\" not defined"
            )
        );
        let answer = answer_as(since, &request);
        assert_eq!(answer["results"], Value::Null, "{answer:#}");
    }
}
