//! The cases of `function-go-templating`: templates in the style of real compositions, over requests of all shapes.

mod later;

use std::path::{Path, PathBuf};

use ferroplane_golang::yaml::Documents;
use serde_json::{Value, json};

use super::selection::differs_only_in;
use super::{Corpus, Difference, FATAL_RESULT, INVALID_INPUT, TEMPLATE, as_it_is, minor, never};
use crate::dice::Dice;

pub(super) const CORPUS: Corpus = Corpus {
    function: "function-go-templating",
    generate,
    adapt: as_it_is,
    asks_formerly: never,
    files: later::files,
    by_hand,
    without_additions: without_line,
    deliberate,
};

/// What templates begin with that show a call of one function.
const CALL: &str = "{{ define \"call\" }}";
/// The field of an answer with the message about a problem.
const MESSAGE: &str = "/results/0/message";
const META: &str = "meta.gotemplating.fn.crossplane.io/v1alpha1";
const NAME: &str = "gotemplating.fn.crossplane.io/composition-resource-name";

fn generate(dice: &mut Dice) -> Value {
    let mut template = String::new();
    if dice.chance(60) {
        template += "{{- $xr := .observed.composite.resource }}\n{{- $spec := $xr.spec }}\n";
    } else {
        template += "{{ $xr := .observed.composite.resource -}}{{ $spec := $xr.spec -}}\n";
    }
    for index in 0..=dice.below(3) {
        template += *dice.pick(SEPARATORS);
        template += &document(dice, index);
        template += "\n";
    }
    if dice.chance(3) {
        template += *dice.pick(&[
            "{{ end }}",
            "{{ .x",
            "{{ nope }}",
            "{{ if }}{{ end }}",
            "{{ len 3 }}",
            "{{ index $spec.zones 99 }}",
            "{{ template \"x\" }}",
        ]);
    }
    request(dice, &template)
}

const SEPARATORS: &[&str] = &[
    "---\n",
    "---\n",
    "---\n",
    "\n---\n",
    "--- # next\n",
    "{{ if true }}\n---\n{{ end }}",
    "# a comment\n---\n",
];

fn document(dice: &mut Dice, index: usize) -> String {
    let name =
        dice.pick(&["bucket", "a.b", "{{ $xr.metadata.name }}", "'quoted'", "{{ printf \"n-%d\" 3 }}"]);
    let annotation = match dice.below(20) {
        0 => String::new(),
        1 => format!("{{{{ setResourceNameAnnotation \"{index}\" }}}}"),
        2 => format!("{NAME}: {index}"),
        _ => format!("{NAME}: \"{name}-{index}\""),
    };
    let ready = match dice.below(12) {
        0 => "\n    gotemplating.fn.crossplane.io/ready: \"True\"",
        1 => "\n    gotemplating.fn.crossplane.io/ready: \"False\"",
        2 => "\n    gotemplating.fn.crossplane.io/ready: \"Maybe\"",
        _ => "",
    };
    if dice.chance(15) {
        return later::document(dice);
    }
    match dice.below(12) {
        0 => "apiVersion: example.org/v1\nkind: XNetwork\nstatus:\n  seen: {{ $spec.size }}\n  so: near"
            .to_owned(),
        1 => format!(
            "apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1\nkind: {}\ndata:\n  user: YWRtaW4=\n  bad: {}",
            dice.pick(&["CompositeConnectionDetails", "CompositeConnectionDetails", "Other"]),
            dice.pick(&["'???'", "YQ==", "YWJj", "3"])
        ),
        2 => dice
            .pick(&[
                "a: b",
                "# nothing",
                "",
                "null",
                "[a]",
                "text",
                "{\"kind\": \"K\"}",
                "kind: 3",
                "kind: K",
            ])
            .to_string(),
        _ => format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    {annotation}{ready}\n{}",
            content(dice)
        ),
    }
}

const CONTENT: &[&str] = &[
    "data:\n  region: {{ $spec.region }}\n  size: {{ $spec.size }}\n  float: {{ $spec.ratio }}\n  big: {{ $spec.big }}",
    "spec:\n  zones:\n{{- range $i, $zone := $spec.zones }}\n  - name: {{ $zone }}\n    index: {{ $i }}\n{{- else }}\n  []\n{{- end }}",
    "spec:\n{{ toYaml $spec | indent 2 }}",
    "spec: {{ toYaml $spec.nested | nindent 2 }}",
    "spec:\n{{- with $spec.nested }}\n  id: {{ .id }}\n{{- else }}\n  id: none\n{{- end }}",
    "spec: {{ $spec.tags | toJson }}",
    "data:\n  {{- range $key, $value := $spec.tags }}\n  {{ $key }}: {{ $value | quote }}\n  {{- end }}",
    "spec:\n  {{- if and (gt $spec.size 2) (eq $spec.region \"east\") }}\n  tier: big\n  {{- else if not $spec.none }}\n  tier: small\n  {{- end }}",
    "data:\n  text: |\n    first\n      {{ $spec.region | upper }}\n    last",
    "data:\n  text: >-\n    {{ $spec.region }}\n    folded",
    "spec:\n  missing: {{ $spec.missing }}\n  dug: {{ dig \"a\" \"b\" \"none\" $spec }}\n  default: {{ $spec.missing | default \"x\" }}",
    "spec:\n  merged: {{ merge (dict \"a\" 1) (dict \"b\" 2) | toJson }}\n  first: {{ first $spec.zones }}",
    "spec:\n  yes: {{ \"yes\" }}\n  on: on\n  octal: 0777\n  nothing: ~\n  date: 2001-12-14\n  float: 1.0\n  exp: 1e3",
    "spec:\n  status: {{ (getResourceCondition \"Ready\" (index .observed.resources \"db\")).Status }}",
    "spec:\n  printed: {{ printf \"%v %d %q %5.2f %T\" $spec.zones $spec.size $spec.region $spec.ratio $spec.size | quote }}",
    "spec:\n  {{- $total := 0 }}\n  {{- range $spec.zones }}{{ $total = add $total 1 }}{{ end }}\n  total: {{ $total }}",
    "{{- define \"labels\" }}\nlabels:\n  app: {{ . }}\n{{- end }}\nspec:\n  {{- include \"labels\" $xr.metadata.name | nindent 2 }}",
    "spec:\n  from: {{ (fromYaml \"a: [1, 2, {b: yes}]\") | toJson }}",
    "spec:\n  list: {{ list 1 \"a\" 2.5 true nil | toJson }}\n  joined: {{ join \",\" $spec.zones }}",
    "spec:\n  ctx: {{ .context | toJson }}",
    "spec:\n  map: {{ $spec.nested }}\n  zones: {{ $spec.zones }}",
    "spec:\n  a: {b: [c, {{ $spec.size }}]}\n  a: twice",
    "spec:\n  trimmed: {{- \" x\" -}}\n  \n  next: {{ \"a\\nb\" | quote }}",
    "spec: {{ $spec.region }}: bad",
    "spec:\n\tbad: tab",
    "spec: [unclosed",
    "spec:\n  cmp: {{ lt $spec.ratio 1.5 }} {{ ne $spec.region \"west\" }} {{ le 1 $spec.size }}\n  len: {{ len $spec.zones }}",
    "spec:\n  range: {{ range 3 }}x{{ end }}\n  until: {{ until 3 }}",
    "metadata:\n  name: again",
];

fn content(dice: &mut Dice) -> String {
    let contents = if dice.chance(30) { later::CONTENT } else { CONTENT };
    (*dice.pick(contents)).to_owned()
}

fn composite(dice: &mut Dice) -> Value {
    let mut composite = json!({
        "apiVersion": "example.org/v1", "kind": "XNetwork", "metadata": {"name": "cool"},
        "spec": {"region": "east", "size": 3, "ratio": 0.5, "big": 12_345_678_901_i64, "zones": ["a", "b"], "none": null,
            "nested": {"id": "x", "deep": {"list": [1, "two", {"three": 3.5}], "text": "a\nb\n"}}, "tags": {"b": "2", "a": "1: x"}}
    });
    if dice.chance(20) {
        composite["spec"][*dice.pick(&["zones", "nested", "tags", "size", "region"])] = dice
            .pick(&[json!(null), json!([]), json!({}), json!("text"), json!(2.5), json!(1e21), json!(true)])
            .clone();
    }
    composite
}

fn request(dice: &mut Dice, template: &str) -> Value {
    let mut input = json!({"apiVersion": "gotemplating.fn.crossplane.io/v1beta1", "kind": "GoTemplate", "source": "Inline",
        "inline": {"template": template}});
    match dice.below(60) {
        0 => input["source"] = json!(dice.pick(&["", "Other", "FileSystem"])),
        1 => input["inline"] = dice.pick(&[json!({}), json!({"template": ""}), json!(null)]).clone(),
        2 => {
            input["delims"] = json!({"left": "[[", "right": "]]"});
            input["inline"]["template"] = json!(template.replace("{{", "[[").replace("}}", "]]"));
        }
        3 => input["delims"] = json!({"left": "[["}),
        _ => {}
    }
    let mut request = json!({"meta": {"tag": "tag"}, "input": input});
    request["observed"] = json!({"composite": {"resource": composite(dice)}, "resources": {
        "db": {"resource": {"kind": "Db", "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ok", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}},
            "connectionDetails": {"user": "YWRtaW4="}}}});
    if dice.chance(40) {
        request["desired"] = json!({
            "composite": {"resource": {"status": {"so": "far", "deep": {"a": 1}}}, "connectionDetails": {"old": "eA=="}, "ready": "READY_TRUE"},
            "resources": {"bucket": {"resource": {"kind": "Bucket"}, "ready": "READY_TRUE"}}
        });
    }
    if dice.chance(40) {
        request["context"] =
            json!({"apiextensions.crossplane.io/environment": {"a": {"b": 1}}, "other": [true, null]});
    }
    later::enrich(dice, &mut request);
    later::change_input(dice, template, &mut request);
    request
}

fn by_hand() -> Vec<(&'static str, Value)> {
    let mut dice = Dice::new(1);
    let shown = [
        (
            "a composed resource",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {annotations: {gotemplating.fn.crossplane.io/composition-resource-name: a}}\n",
        ),
        (
            "the status of the composite resource",
            "apiVersion: example.org/v1\nkind: XNetwork\nstatus: {a: 1}\n",
        ),
        (
            "connection details",
            "apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1\nkind: CompositeConnectionDetails\ndata: {a: YQ==}\n",
        ),
        ("nothing", "{{/* nothing */}}"),
        // Of one, because chance is not the same in both.
        (
            "a choice of one",
            "apiVersion: example.org/v1\nkind: XNetwork\nstatus: {chosen: {{ randomChoice \"only\" }}}\n",
        ),
    ];
    let mut cases: Vec<_> =
        shown.into_iter().map(|(what, template)| (what, request(&mut dice, template))).collect();
    cases.extend(sprig(&mut dice));
    cases.extend(yaml(&mut dice));
    cases.extend(templates());
    cases
}

/// Calls of sprig's functions, which is another version of sprig in early releases.
fn sprig(dice: &mut Dice) -> Vec<(&'static str, Value)> {
    calls(dice, include_str!("../../../crates/template/tests/sprig/handmade.txt"))
}

/// Calls of `toYaml` and `fromYaml`. All releases have the same library of YAML.
fn yaml(dice: &mut Dice) -> Vec<(&'static str, Value)> {
    calls(dice, include_str!("../../../crates/functions/tests/yaml/calls.txt"))
}

/// A request for each line, which is a name and a template.
fn calls(dice: &mut Dice, lines: &'static str) -> Vec<(&'static str, Value)> {
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    let calls = lines.filter_map(|line| Some((line, line.split_once(' ')?.1)));
    let document = |call: &str| {
        format!(
            "{CALL}{call}{{{{ end }}}}apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    {NAME}: a\n\
             data:\n  printed: {{{{ include \"call\" . | toRawJson }}}}\n"
        )
    };
    calls
        .map(|(line, call)| {
            let mut request = json!({"meta": {"tag": "tag"}, "input": {"source": "Inline", "inline": {"template": document(call)}}});
            request["observed"] = json!({"composite": {"resource": composite(dice)}});
            (line, request)
        })
        .collect()
}

/// The templates in the style of real compositions, each with every request of its domain.
fn templates() -> Vec<(&'static str, Value)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/functions/tests/templates");
    let mut found = Vec::new();
    for domain in entries(&directory) {
        let Ok(text) = std::fs::read_to_string(domain.join("requests.yaml")) else { continue };
        let requests: Vec<Value> = Documents::new(&text).flatten().map(|document| document.value).collect();
        for file in
            entries(&domain).into_iter().filter(|file| file.extension().is_some_and(|it| it == "tmpl"))
        {
            let template = std::fs::read_to_string(&file).unwrap_or_default();
            for request in requests.iter().filter_map(Value::as_object) {
                let mut request = request.clone();
                let which = request.remove("name").unwrap_or_default();
                let (domain, file) = (domain.file_name(), file.file_stem());
                let (domain, file) =
                    (domain.unwrap_or_default().display(), file.unwrap_or_default().display());
                let name = format!("{TEMPLATE}{domain}/{file} {}", which.as_str().unwrap_or_default());
                request.insert(
                    "input".to_owned(),
                    json!({"source": "Inline", "inline": {"template": template}}),
                );
                // There are some hundred names, which are needed until the end.
                found.push((&*name.leak(), Value::Object(request)));
            }
        }
    }
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    entries
}

fn message(answer: &Value) -> &str {
    answer["results"][0]["message"].as_str().unwrap_or_default()
}

/// Only our messages name the line and the template, after the message of the original.
fn without_line(answer: &mut Value) {
    let Some(Value::String(message)) = answer.pointer_mut(MESSAGE) else { return };
    let is_line = |rest: &str| {
        let parts = rest.strip_suffix(')').and_then(|rest| rest.split_once(" of "));
        parts.is_some_and(|(number, part)| number.parse::<u32>().is_ok() && is_part(part))
    };
    for words in [" (printed by line ", " (line "] {
        let behind = message.rsplit_once(words).filter(|(_, rest)| is_line(rest));
        if let Some(length) = behind.map(|(before, _)| before.len()) {
            message.truncate(length);
            return;
        }
    }
}

/// Whether our messages name a template like this.
fn is_part(part: &str) -> bool {
    let is_in = |begin: &str, end: &str| part.strip_prefix(begin).is_some_and(|rest| rest.ends_with(end));
    part == "the template"
        || is_in("inline.templates[", "]")
        || is_in("file `", "`")
        || is_in("the template in key `", "` of the environment")
}

fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    if let Some(reason) = of_earlier_sprig(difference) {
        return Some(reason);
    }
    if differs_only_in(difference, &[MESSAGE]) {
        return told_otherwise(difference.request, message(difference.theirs), message(difference.ours));
    }
    let is_fatal = difference.ours["results"][0]["severity"] == "SEVERITY_FATAL";
    if is_fatal && differs_only_in(difference, &["/desired/composite/connectionDetails"]) {
        return Some(FATAL_RESULT);
    }
    None
}

/// Why a call of a function differs whose library has another version in earlier releases. Only in what the call prints, or why it
/// fails.
fn of_earlier_sprig(difference: &Difference<'_>) -> Option<&'static str> {
    let template = difference.request["input"]["inline"]["template"].as_str()?;
    let call = template.strip_prefix(CALL)?;
    let calls = |names: &[&str]| names.iter().any(|name| call.contains(name));
    match minor(difference.version) {
        ..6 if calls(&["camelcase", "add ", ".Month", "htpasswd", "sha512sum"]) => Some(
            "the built-in version has the functions of sprig 3.3.0 without sha512sum, not those of 3.2.3",
        ),
        ..12 if calls(&["semver"]) => Some("all built-in versions compare semantic versions as v0.12 does"),
        _ => None,
    }
}

/// Why both report a problem with different messages, if that is on purpose.
fn told_otherwise(request: &Value, theirs: &str, ours: &str) -> Option<&'static str> {
    let both_begin = |words: &str| theirs.starts_with(words) && ours.starts_with(words);
    if both_begin("cannot decode manifest: error converting YAML to JSON: yaml: ")
        || both_begin("cannot decode manifest: yaml: ")
    {
        return Some("invalid YAML is reported with the message of our YAML parser");
    }
    if theirs.starts_with("cannot decode manifest: json: ")
        && ours.starts_with("cannot decode manifest: error converting YAML to JSON: yaml: ")
    {
        return Some("invalid JSON is reported with the message of our YAML parser");
    }
    if ours.ends_with("unsupported map key of type: %!s(<nil>), key: <nil>")
        && theirs.strip_prefix(ours).is_some_and(|rest| rest.starts_with(", value: "))
    {
        return Some("the error about a key that is null does not contain the value of the key");
    }
    if both_begin("cannot get Function input from ") {
        return Some(INVALID_INPUT);
    }
    let is_of_wrong_type =
        |part: &&str| both_begin(&format!("cannot get {part}: cannot unmarshal value from JSON: "));
    if ["Conditions from input", "Contexts from input", "extra resources requirements"]
        .iter()
        .any(is_of_wrong_type)
    {
        return Some(
            "a value of the wrong type in a document of the function's kinds is reported without types of Go",
        );
    }
    if theirs == "invalid function input: source is required"
        && ours.strip_prefix(theirs).is_some_and(|rest| rest.starts_with("; "))
    {
        return Some("the error about a missing source also says how to set one");
    }
    let input = &request["input"];
    let directory = input["fileSystem"]["dirPath"].as_str().filter(|_| input["source"] == "FileSystem")?;
    let words = format!("invalid function input: cannot read tmpl from the folder {{{directory}}}: ");
    both_begin(&words).then_some("the files of a directory are read from the request, not from a disk")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: &str) -> Value {
        json!({
            "desired": {"composite": {"connectionDetails": {"old": "eA=="}}},
            "results": [{"severity": "SEVERITY_FATAL", "message": message}],
        })
    }

    fn reason(theirs: &Value, ours: &Value) -> Option<&'static str> {
        let request = json!({"input": {"source": "FileSystem", "fileSystem": {"dirPath": "/t"}}});
        deliberate(&Difference { version: "v0.4.1", request: &request, theirs, ours })
    }

    /// The messages of both about the same mistake, with a part of the reason why they differ.
    const TOLD_OTHERWISE: &[(&str, &str, &str)] = &[
        (
            "cannot decode manifest: error converting YAML to JSON: yaml: line 3: did not find expected ',' or ']'",
            "cannot decode manifest: error converting YAML to JSON: yaml: line 2: unclosed list",
            "invalid YAML",
        ),
        (
            "cannot decode manifest: error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key: <nil>, value: 1",
            "cannot decode manifest: error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key: <nil>",
            "a key that is null",
        ),
        (
            "cannot get Function input from *v1beta1.RunFunctionRequest: Go value of type string",
            "cannot get Function input from *v1.RunFunctionRequest: source: expected a string",
            "an invalid input",
        ),
        (
            "cannot get Conditions from input: cannot unmarshal value from JSON: json: cannot unmarshal bool into Go struct field TargetedCondition.status of type v1.ConditionStatus",
            "cannot get Conditions from input: cannot unmarshal value from JSON: invalid type: boolean `true`, expected a string",
            "a value of the wrong type",
        ),
        (
            "invalid function input: source is required",
            "invalid function input: source is required; set the annotation",
            "a missing source",
        ),
        (
            "invalid function input: cannot read tmpl from the folder {/t}: lstat /t: no such file or directory",
            "invalid function input: cannot read tmpl from the folder {/t}: there is no such ConfigMap",
            "the files of a directory",
        ),
    ];

    #[test]
    fn other_words_are_excused_and_nothing_else_of_the_answer() {
        for (theirs, ours, part) in TOLD_OTHERWISE {
            let (theirs, mut ours) = (failed(theirs), failed(ours));
            let reason_found = reason(&theirs, &ours);
            assert!(reason_found.is_some_and(|reason| reason.contains(part)), "{part}: {reason_found:?}");
            ours["context"] = json!({"more": true});
            assert_eq!(reason(&theirs, &ours), None, "{part}");
        }
    }

    #[test]
    fn words_about_different_mistakes_are_not_excused() {
        for (theirs, ours, part) in TOLD_OTHERWISE {
            assert_eq!(reason(&failed(theirs), &failed("another mistake")), None, "{part}");
            assert_eq!(reason(&failed("another mistake"), &failed(ours)), None, "{part}");
        }
        let missing = "invalid function input: fileSystem.dirPath should be provided";
        assert_eq!(reason(&failed(missing), &failed(TOLD_OTHERWISE[5].1)), None);
    }

    #[test]
    fn connection_details_are_excused_where_the_run_failed_alike() {
        let mut theirs = failed("no");
        theirs["desired"]["composite"]["connectionDetails"]["new"] = json!("YQ==");
        assert!(reason(&theirs, &failed("no")).is_some());
        assert_eq!(reason(&theirs, &failed("yes")), None);
        let without_results = |answer: &Value| json!({"desired": answer["desired"]});
        assert_eq!(reason(&without_results(&theirs), &without_results(&failed("no"))), None);
    }

    #[test]
    fn line_that_only_we_tell_is_no_difference() {
        let kept = |message: &str| {
            let mut answer = failed(message);
            without_line(&mut answer);
            super::message(&answer).to_owned()
        };
        for line in [
            "printed by line 12 of the template",
            "line 1 of file `a.yaml`",
            "printed by line 3 of inline.templates[0]",
        ] {
            assert_eq!(kept(&format!("no kind ({line})")), "no kind");
        }
        for other in
            ["no kind (printed by line x of the template)", "no kind (printed by line 1 of ours)", "no kind"]
        {
            assert_eq!(kept(other), other);
        }
    }
}
