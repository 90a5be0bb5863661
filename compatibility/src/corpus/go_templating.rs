//! The cases of `function-go-templating`: templates in the style of real compositions, over requests of all shapes.

use std::path::{Path, PathBuf};

use ferroplane_golang::yaml::Documents;
use serde_json::{Value, json};

use super::{Corpus, Difference, TEMPLATE, as_it_is, never};
use crate::dice::Dice;

pub(super) const CORPUS: Corpus = Corpus {
    function: "function-go-templating",
    generate,
    adapt: as_it_is,
    asks_formerly: never,
    by_hand,
    deliberate,
};

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
    (*dice.pick(CONTENT)).to_owned()
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
            "composite": {"resource": {"status": {"so": "far", "deep": {"a": 1}}}, "connectionDetails": {"old": "eA=="}},
            "resources": {"bucket": {"resource": {"kind": "Bucket"}, "ready": "READY_TRUE"}}
        });
    }
    if dice.chance(40) {
        request["context"] =
            json!({"apiextensions.crossplane.io/environment": {"a": {"b": 1}}, "other": [true, null]});
    }
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
    ];
    let shown = shown.into_iter().map(|(what, template)| (what, request(&mut dice, template)));
    shown.chain(templates()).collect()
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

fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    let theirs = message(difference.theirs);
    let (mut answer, ours) = (difference.ours.clone(), message(difference.ours));
    // The line of the template comes behind what the original says, and is no other difference.
    let ours = ours.rsplit_once(" (printed by line ").map_or(ours, |(before, _)| before);
    if let Some(told) = answer.pointer_mut("/results/0/message") {
        *told = ours.into();
    }
    if answer == *difference.theirs {
        return Some("a document that cannot be used is told with the line of the template that printed it");
    }
    let both = |words: &str| theirs.contains(words) && ours.contains(words);
    if both("cannot decode manifest: error converting YAML to JSON: yaml: ")
        || both("cannot decode manifest: yaml: ")
    {
        return Some("what is no YAML is told in the words of our parser");
    }
    if both("unsupported map key of type: %!s(<nil>), key: <nil>") {
        return Some("a key that is null is told without its value");
    }
    let differs_in_details = {
        let mut theirs = difference.theirs.clone();
        theirs["desired"]["composite"]["connectionDetails"] =
            answer["desired"]["composite"]["connectionDetails"].clone();
        theirs == answer
    };
    if !theirs.is_empty() && differs_in_details {
        return Some("connection details of a run that fails are not kept");
    }
    if both("cannot get Function input from ") {
        return Some("an input that cannot be read is told in our words");
    }
    if difference.request["input"]["source"] == "FileSystem" {
        return Some("the files of a directory come with the request");
    }
    None
}
