//! Functions whose results are not the same twice: they have the right shape, and all chance is that of the host.

use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::regexp::Expression;
use ferroplane_template::{Budget, Heap, NoHost, Options, Templates, Value, sprig};
use serde_json::json;

use crate::rendered;

fn text(template: &str) -> String {
    String::from_utf8(rendered(template, &json!({})).unwrap()).unwrap()
}

#[test]
fn random_text_has_its_length_and_its_letters() {
    for (call, shape) in [
        ("randAlpha 40", "^[a-zA-Z]{40}$"),
        ("randAlphaNum 40", "^[a-zA-Z0-9]{40}$"),
        ("randNumeric 40", "^[0-9]{40}$"),
        ("randAscii 40", "^[ -~]{40}$"),
        ("randBytes 30", "^[a-zA-Z0-9+/]{40}$"),
        ("uuidv4", "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"),
        ("randInt 10 20", "^1[0-9]$"),
        (r#"shuffle "abc""#, "^[abc]{3}$"),
    ] {
        let output = text(&format!("{{{{ {call} }}}}"));
        assert!(Expression::new(shape).unwrap().is_match(&output), "{call}: {output}");
    }
}

#[test]
fn the_same_chance_gives_the_same_text() {
    let template = r#"{{ randAlphaNum 20 }} {{ uuidv4 }} {{ shuffle "abcdef" }} {{ randInt 0 1000000 }}"#;
    assert_eq!(text(template), text(template));
}

#[test]
fn templates_can_rely_on_what_does_not_depend_on_chance() {
    for (template, output) in [
        ("{{ randAlphaNum 5 | len }}", "5"),
        (
            r#"{{ regexMatch "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$" uuidv4 }}"#,
            "true",
        ),
        (r#"{{ encryptAES "key" "a text" | decryptAES "key" }}"#, "a text"),
        ("{{ randBytes 6 | b64dec | len }}", "6"),
        (r#"{{ shuffle "cab" | splitList "" | sortAlpha | join "" }}"#, "abc"),
        ("{{ randInt 7 8 }}", "7"),
        (r#"{{ htpasswd "user" "x" | hasPrefix "user:$2a$10$" }}"#, "true"),
        ("{{ ago now }}", "0s"),
    ] {
        assert_eq!(text(template), output, "{template}");
    }
}

#[test]
fn one_template_gets_other_random_values_with_every_call() {
    for call in ["uuidv4", "(randAlphaNum 20)", "(randBytes 20)", r#"(encryptAES "key" "a text")"#] {
        assert_eq!(text(&format!("{{{{ eq {call} {call} }}}}")), "false", "{call}");
    }
}

#[test]
fn clock_is_that_of_the_host() {
    assert_eq!(text(r#"{{ now | date "2006-01-02 15:04:05.000" }}"#), "2023-11-14 22:13:20.123");
    assert_eq!(text("{{ now }}"), "2023-11-14 22:13:20.123456789 +0000 UTC");
    assert_eq!(text(r#"{{ ago (toDate "2006-01-02" "2023-11-13") }}"#), "46h13m20s");
    assert_eq!(text(r#"{{ date "2006" "not a date" }}"#), "2023");
}

#[test]
fn without_a_host_there_is_neither_time_nor_chance() {
    for call in ["now", "uuidv4", "randAlpha 5"] {
        let template = format!("{{{{ {call} }}}}");
        let templates = Templates::parse("t", &template, &Options::default(), &sprig::functions()).unwrap();
        let heap = Heap::new();
        let data = Value::from_json(&heap, &json!({}), Numbers::AsWritten);
        templates.execute(data, &heap, &mut NoHost, Budget::default()).unwrap_err();
    }
}

#[test]
fn what_reads_the_environment_or_the_network_is_refused_by_name() {
    for (call, name) in [
        (r#"env "HOME""#, "env"),
        (r#"expandenv "$HOME""#, "expandenv"),
        (r#"getHostByName "a""#, "getHostByName"),
    ] {
        let problem = rendered(&format!("{{{{ {call} }}}}"), &json!({})).unwrap_err();
        assert!(problem.contains(&format!("error calling {name}: {name} is not available: ")), "{problem}");
    }
}
