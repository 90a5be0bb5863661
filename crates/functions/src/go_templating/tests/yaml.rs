//! What `toYaml` and `fromYaml` give, as function-go-templating v0.4.1 printed it. `tests/it/yaml.rs` asks the original's library about
//! more.

use super::*;

#[test]
fn yaml_is_what_the_original_prints() {
    let cases = [
        ("{{ (fromYaml `d: 2001-12-14`).d }}", "2001-12-14 00:00:00 +0000 UTC"),
        (
            "{{ fromYaml `[2001-12-14, '2001-12-14']` | toYaml }}",
            "- 2001-12-14T00:00:00Z\n- \"2001-12-14\"\n",
        ),
        (
            "{{ fromYaml `2001-12-14t21:59:43.10-05:00` }} {{ (fromYaml `d: 2001-12-14`).d.Year }}",
            "2001-12-14 21:59:43.1 -0500 -0500 2001",
        ),
        ("{{ fromYaml `{8080: http, 443: https, name: x}` | toYaml }}", "443: https\n8080: http\nname: x\n"),
        (
            "{{ $m := fromYaml `8080: http` }}{{ $m }} {{ index $m 8080 }} {{ index $m `8080` }}",
            "map[8080:http] http <no value>",
        ),
        (
            "<{{ fromYaml `8080: http` | toJson }}> {{ typeOf (fromYaml `8080: http`) }}",
            "<> map[interface {}]interface {}",
        ),
        (
            "{{ range $port, $name := fromYaml `{8080: http, 443: https}` }}{{ add $port 1 }}={{ $name }} {{ end }}",
            "444=https 8081=http ",
        ),
        (
            "{{ fromYaml `{true: a, 10: b, 9: c, 1.5: d, x: e, ~: f, -1: i, false: j, w: k}` }}",
            "map[<nil>:f w:k x:e -1:i 9:c 10:b 1.5:d false:j true:a]",
        ),
        (
            "{{ fromYaml `{true: a, 10: b, 9: c, 1.5: d, x: e, ~: f, -1: i, false: j, b10: g, b9: h}` | toYaml }}",
            "-1: i\nfalse: j\ntrue: a\n1.5: d\n9: c\n10: b\nnull: f\nb9: h\nb10: g\nx: e\n",
        ),
        (
            "{{ fromYaml `{a: &a {1: x}, c: {<<: *a, d: e}, f: {<<: *a, 2: z}}` | toYaml }}",
            "a:\n    1: x\nc:\n    \"1\": x\n    d: e\nf:\n    1: x\n    2: z\n",
        ),
        ("{{ fromYaml `[.inf, -.inf, .nan]` | toYaml }}", "- .inf\n- -.inf\n- .nan\n"),
        ("{{ toYaml (toDate `2006-01-02 -0700` `2020-02-03 +0200`) }}", "2020-02-03T00:00:00+02:00\n"),
        (
            "{{ $d := toDate `2006-01-02` `2020-02-03` }}{{ toYaml (list $d.Month $d.Weekday ($d.Sub ($d.AddDate 0 0 -1))) }}",
            "- 2\n- 1\n- 24h0m0s\n",
        ),
        ("{{ toYaml (now).Location }}", "{}\n"),
        (
            "{{ toYaml (list (b64dec `/w==`) (fromYaml `!!binary /w==`)) }}",
            "- !!binary /w==\n- !!binary /w==\n",
        ),
        (
            "{{ (getResourceCondition `Ready` (dict `resource` (dict `status` (dict `conditions` (list (dict `type` `Ready` `lastTransitionTime` `2026-01-01T00:00:00Z`)))))).LastTransitionTime | toYaml }}",
            "\"2026-01-01T00:00:00Z\"\n",
        ),
    ];
    for (template, text) in cases {
        assert_eq!(printed(template, &request("")).as_deref(), Ok(text), "{template}");
    }
}

#[test]
fn certificate_is_written_with_its_fields() {
    let template = "{{ $ca := genCAWithKey `x` 1 (genPrivateKey `ecdsa`) }}{{ toYaml $ca }}";
    let text = printed(template, &request("")).unwrap();
    assert!(text.starts_with("cert: |\n    -----BEGIN CERTIFICATE-----\n    "), "{text}");
    assert!(text.contains("\nkey: |\n    -----BEGIN "), "{text}");
}

#[test]
fn map_with_keys_of_any_type_is_no_dictionary() {
    for (template, words) in [
        (
            "{{ get (fromYaml `1: a`) `1` }}",
            "wrong type for value; expected map[string]interface {}; got map[interface {}]interface {}",
        ),
        ("{{ fromYaml `1: a` | mustToJson }}", "json: unsupported type: map[interface {}]interface {}"),
        (
            "{{ index (fromYaml `1: a`) (list 1) }}",
            "error calling index: runtime error: hash of unhashable type []interface {}",
        ),
        (
            "{{ eq (fromYaml `1: a`) (fromYaml `1: a`) }}",
            "non-comparable type map[%!s(int=1):a]: map[interface {}]interface {}",
        ),
        ("{{ fromYaml (b64dec `/w==`) }}", "error calling fromYaml: yaml: invalid leading UTF-8 octet"),
    ] {
        let message = fatal(template);
        assert!(message.contains(words), "{template}: {message}");
    }
}
