//! What releases after v0.4.1 have: more helpers, kinds of documents, sources of templates, and parts of requests.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{META, NAME, entries};
use crate::dice::Dice;

/// The directory that stands for the one in an image of the original.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/corpus/go_templating/files");

/// Contents of a composed resource that look something up.
pub(super) const CONTENT: &[&str] = &[
    "spec:\n  db: {{ getComposedResource . \"db\" | toJson }}",
    "spec:\n  phase: {{ (getComposedResource . \"db\").status.phase | default \"none\" }}",
    "spec:\n  none: {{ getComposedResource . \"nope\" | toJson }}\n  is: {{ empty (getComposedResource . \"nope\") }}",
    "spec:\n  dotted: {{ getComposedResource . \"a.b\" | toJson }}\n  number: {{ getComposedResource . \"0\" | toJson }}",
    "spec:\n  odd: {{ getComposedResource . \"a[b\" | toJson }}",
    "spec:\n  odd: {{ getComposedResource . \"\" | toJson }}\n  all: {{ getComposedResource . \"*\" | toJson }}",
    "spec:\n  size: {{ (getCompositeResource .).spec.size }}\n  name: {{ (getCompositeResource .).metadata.name }}",
    "{{- $copy := getCompositeResource . }}{{ $_ := set $copy.spec \"size\" 99 }}\nspec:\n  size: {{ $copy.spec.size }}\n  before: {{ .observed.composite.resource.spec.size }}",
    "spec:\n  extra:\n  {{- range getExtraResources . \"networks\" }}\n  - {{ .resource.metadata.name }}\n  {{- else }}\n    []\n  {{- end }}",
    "spec:\n  extra: {{ getExtraResources . \"networks\" | toJson }}\n  none: {{ getExtraResources . \"nope\" | toJson }}",
    "spec:\n  extra: {{ getExtraResources . \"none-found\" | toJson }}\n  is: {{ not (getExtraResources . \"none-found\") }}",
    "spec:\n  extra: {{ getExtraResources . \"only-extra\" | toJson }}\n  required: {{ getExtraResources . \"only-required\" | toJson }}",
    "spec:\n  numbered: {{ getExtraResources . \"7\" | toJson }}\n  dotted: {{ getExtraResources . \"a.b\" | toJson }}",
    "spec:\n  kept: {{ getExtraResourcesFromContext . \"networks\" | toJson }}",
    "spec:\n  kept: {{ getExtraResourcesFromContext . \"nope\" | toJson }}",
    "spec:\n  token: {{ (getCredentialData . \"cloud\").token | toString }}\n  bytes: {{ (getCredentialData . \"cloud\").token }}",
    "spec:\n  all: {{ getCredentialData . \"cloud\" | toJson }}\n  none: {{ getCredentialData . \"nope\" | toJson }}",
    "spec:\n  empty: {{ getCredentialData . \"empty\" | toJson }}\n  length: {{ len (getCredentialData . \"cloud\") }}",
    "spec:\n  encoded: {{ (getCredentialData . \"cloud\").token | toString | b64enc }}",
    "spec:\n  condition: {{ (getResourceCondition \"Ready\" (getComposedResource . \"db\")).Status }}",
    "spec:\n  reason: {{ (getResourceCondition \"Ready\" (index .observed.resources \"db\")).Reason }}\n  other: {{ (getResourceCondition \"Other\" (index .observed.resources \"db\")).Status }}",
    "spec:\n  condition: {{ getResourceCondition \"Ready\" .observed.composite | toJson }}",
    "spec:\n  odd: {{ (getResourceCondition \"Ready\" (index .observed.resources \"odd\")).Status }}",
    "spec:\n  odd: {{ getResourceCondition \"Ready\" (index .observed.resources \"odd\") | toJson | quote }}",
    "spec:\n  whole: {{ getResourceCondition \"Ready\" (index .observed.resources \"db\") | quote }}",
    "spec:\n  when: {{ (getResourceCondition \"Ready\" (index .observed.resources \"db\")).LastTransitionTime }}",
    "spec:\n  type: {{ printf \"%T\" (getResourceCondition \"Ready\" (index .observed.resources \"db\")) }}",
    "spec:\n  yaml: |\n{{ getResourceCondition \"Ready\" (index .observed.resources \"db\") | toYaml | indent 4 }}",
    "spec:\n  nothing: {{ (getResourceCondition \"Ready\" (index .observed.resources \"db\")).Nope }}",
    "spec:\n  generation: {{ (getResourceCondition \"Ready\" (index .observed.resources \"odd\")).ObservedGeneration }}",
    "spec:\n  sum: {{ sha512sum \"a\" }}",
    "spec:\n  all: {{ . | toJson | quote }}",
    "spec:\n  keys: {{ keys . | sortAlpha | join \",\" }}",
    "spec:\n  meta: {{ .meta | toJson }}\n  credentials: {{ .credentials | toJson }}",
    "spec:\n  extra: {{ .extraResources | toJson }}\n  required: {{ .requiredResources | toJson }}",
    "spec:\n  missing: {{ .nope }}\n  deep: {{ $spec.nested.nope }}",
    "metadata:\n  annotations: text",
    "metadata: text",
    "metadata:\n  annotations:\n    only: {{ $spec.size }}",
];

/// Documents of the function's own kinds, and those about the composite resource.
pub(super) fn document(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => format!("apiVersion: {META}\nkind: Context\n{}", dice.pick(CONTEXTS)),
        1 | 2 => format!("apiVersion: {META}\nkind: ExtraResources\n{}", dice.pick(REQUIREMENTS)),
        3 => format!("apiVersion: {META}\nkind: ClaimConditions\n{}", dice.pick(CONDITIONS)),
        4 => format!(
            "apiVersion: example.org/v1\nkind: XNetwork\nmetadata:\n  annotations:\n    gotemplating.fn.crossplane.io/ready: \"{}\"\n{}",
            dice.pick(&["True", "False", "Unspecified", "true", ""]),
            dice.pick(&[
                "status:\n  seen: 1",
                "",
                "status:\n  deep:\n    a: null\n    b: []",
                "status: null",
                "status: 3",
                "status: {}"
            ]),
        ),
        _ => format!(
            "apiVersion: example.org/v1\nkind: XNetwork\nmetadata:\n  annotations:\n    {NAME}: own-kind\nspec:\n  size: {{{{ $spec.size }}}}"
        ),
    }
}

const CONTEXTS: &[&str] = &[
    "data:\n  apiextensions.crossplane.io/environment:\n    a:\n      c: 2\n    zone: {{ first $spec.zones }}",
    "data:\n  other: replaced\n  new: {deep: [1, 2.5, null, {a: b}]}",
    "data:\n  apiextensions.crossplane.io/environment: null\n  other: null",
    "data:\n  apiextensions.crossplane.io/environment: {}\n  other: []",
    "data:\n  apiextensions.crossplane.io/environment: text\n  other: {now: map}",
    "data:\n  number: {{ $spec.big }}\n  float: 0.5\n  truth: false",
    "data: {}",
    "data: null",
    "data: text",
    "data: [1]",
    "other: 1",
];

const REQUIREMENTS: &[&str] = &[
    "requirements:\n  networks:\n    apiVersion: example.org/v1\n    kind: Network\n    matchName: {{ $xr.metadata.name }}",
    "requirements:\n  networks:\n    apiVersion: example.org/v1\n    kind: Network\n    matchLabels:\n      region: {{ $spec.region }}",
    "requirements:\n  networks:\n    apiVersion: v1\n    kind: ConfigMap\n    matchName: a\n    namespace: default",
    "requirements:\n  networks:\n    apiVersion: v1\n    kind: ConfigMap\n    namespace: default\n    matchLabels: {a: b}",
    "requirements:\n  both:\n    apiVersion: v1\n    kind: ConfigMap\n    matchName: a\n    matchLabels: {a: b}\n  all:\n    apiVersion: v1\n    kind: ConfigMap",
    "requirements:\n  one: {apiVersion: v1, kind: A, matchName: x, unknown: 1}",
    "requirements:\n  one: {}",
    "requirements: {}",
    "requirements: null",
    "requirements:\n  one: null",
    "requirements:\n  one: text",
    "requirements:\n  one: {kind: 3}",
    "requirements: [1]",
    "data: 1",
];

const CONDITIONS: &[&str] = &[
    "conditions:\n- type: DatabaseReady\n  status: \"True\"\n  reason: Fine\n  message: it is {{ $spec.region }}\n  target: CompositeAndClaim",
    "conditions:\n- type: DatabaseReady\n  status: \"False\"\n  reason: Bad\n- type: Other\n  status: Unknown\n  reason: R\n  target: Composite",
    "conditions:\n- type: A\n  status: Maybe\n  target: Claim\n- type: A\n  status: \"True\"",
    "conditions:\n- type: First\n  status: \"True\"\n  reason: R\n- type: Ready\n  status: \"True\"\n  reason: R",
    "conditions:\n- {type: Synced, status: \"True\", reason: R}",
    "conditions:\n- {type: Healthy, status: \"True\", reason: R}",
    "conditions:\n- {type: Responsive, status: \"True\", reason: R}",
    "conditions:\n- {type: T, status: \"True\", lastTransitionTime: \"2026-01-01T00:00:00Z\", observedGeneration: 3}",
    "conditions:\n- {type: T, status: true}",
    "conditions:\n- {type: T, lastTransitionTime: today}",
    "conditions:\n- {}",
    "conditions: []",
    "conditions: null",
    "conditions: text",
    "conditions: {type: A}",
    "data: 1",
];

/// Puts the template where later releases read it, or adds options.
pub(super) fn change_input(dice: &mut Dice, template: &str, request: &mut Value) {
    let input = &mut request["input"];
    match dice.below(24) {
        0 | 1 => {
            input["source"] = json!("Environment");
            input["environment"] = dice
                .pick(&[
                    json!({"key": "template"}),
                    json!({"key": "nope"}),
                    json!({}),
                    json!({"key": "number"}),
                    json!(null),
                ])
                .clone();
            let environment = json!({"template": template, "number": 3});
            request["context"]["apiextensions.crossplane.io/environment"] = environment;
        }
        2 | 3 => {
            let (first, second) = split(template);
            input["inline"] = dice
                .pick(&[
                    json!({"templates": [first, second]}),
                    json!({"templates": [template]}),
                    json!({"templates": []}),
                    json!({"templates": ["{{ nope }}"], "template": template}),
                    json!({"templates": [""]}),
                ])
                .clone();
        }
        4 | 5 => {
            input["options"] = dice
                .pick(&[
                    json!(["missingkey=error"]),
                    json!(["missingkey=zero"]),
                    json!(["missingkey=default"]),
                    json!(["missingkey=invalid", "missingkey=error"]),
                    json!(["missingkey=maybe"]),
                    json!(["missingkey"]),
                    json!([""]),
                    json!([]),
                    json!(null),
                ])
                .clone();
        }
        6 => {
            input["source"] = json!("FileSystem");
            input["fileSystem"] = json!({"dirPath": FILES});
        }
        7 => input["ttl"] = json!("5m"),
        8 => input["environment"] = json!({"key": "template"}),
        9 => input["fileSystem"] = json!({"dirPath": FILES, "other": 1}),
        _ => {}
    }
}

/// Two templates, cut where a document ends, and without what the first one has defined for the second.
fn split(template: &str) -> (&str, &str) {
    template.split_once("\n---\n").unwrap_or((template, ""))
}

/// Adds what later releases of the protocol bring.
pub(super) fn enrich(dice: &mut Dice, request: &mut Value) {
    if dice.chance(50) {
        request["credentials"] = json!({
            "cloud": {"credentialData": {"data": {"token": "czNjcjN0", "user": "YWRtaW4="}}}, "empty": {"credentialData": {}}, "none": {},
        });
    }
    let networks = |prefix: &str| {
        let network = |name: &str| json!({"resource": {"apiVersion": "example.org/v1", "kind": "Network", "metadata": {"name": format!("{prefix}-{name}")}}});
        json!({"items": [network("a"), network("b")]})
    };
    if dice.chance(40) {
        request["extraResources"] = json!({
            "networks": networks("extra"), "only-extra": networks("extra"), "none-found": {}, "7": networks("seven"), "a.b": networks("dotted"),
        });
    }
    if dice.chance(40) {
        request["requiredResources"] = json!({
            "networks": networks("required"), "only-required": networks("required"), "none-found": {},
            "detailed": {"items": [{"resource": {"kind": "A"}, "connectionDetails": {"a": "eA=="}, "ready": "READY_TRUE"}, {}]},
        });
    }
    if dice.chance(20) {
        request["requiredSchemas"] = json!({"network": {"openapiV3": {"type": "object"}}, "none": {}});
        request["meta"]["capabilities"] = json!(["CAPABILITY_REQUIRED_RESOURCES", "CAPABILITY_CREDENTIALS"]);
    }
    if dice.chance(30) {
        let kept = dice
            .pick(&[
                json!({"networks": networks("kept"), "older": {}}),
                json!({}),
                json!("text"),
                json!(null),
            ])
            .clone();
        request["context"]["apiextensions.crossplane.io/extra-resources"] = kept;
    }
    let resources = &mut request["observed"]["resources"];
    resources["a.b"] = json!({"resource": {"kind": "Dotted", "spec": {"a": 1}}});
    resources["0"] = json!({"resource": {"kind": "Numbered"}});
    resources["a[b"] = json!({"resource": {"kind": "Odd"}});
    resources["db"]["resource"]["status"]["phase"] = json!("Running");
    resources["odd"] = json!({"resource": {"kind": "Odd", "status": dice.pick(ODD)()}});
    if dice.chance(10) {
        let annotations = json!({"gotemplating.fn.crossplane.io/ttl": "5m"});
        request["observed"]["composite"]["resource"]["metadata"]["annotations"] = annotations;
    }
}

/// Statuses with conditions that are no such.
const ODD: &[fn() -> Value] = &[
    || json!({"conditions": [{"type": "Ready", "status": true}]}),
    || json!({"conditions": [{"type": "Other"}, {"type": "Ready"}]}),
    || json!({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}]}),
    || json!({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": null, "message": "m", "observedGeneration": 4}]}),
    || json!({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 4.5}]}),
    || json!({"conditions": "text"}),
    || json!({"conditions": null}),
    || json!({"conditions": [null, {"type": "Ready", "status": "False"}]}),
    || json!({}),
    || json!("text"),
    || Value::Null,
];

/// The files that the original reads, as a `ConfigMap`.
pub(super) fn files(request: &Value) -> Option<(String, Value)> {
    let input = &request["input"];
    let is_read = input["source"] == "FileSystem" && input["fileSystem"]["dirPath"] == FILES;
    is_read.then(|| {
        let mut data = Map::new();
        read(Path::new(FILES), "", &mut data);
        let files = json!({"items": [{"resource": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}}]});
        (FILES.to_owned(), files)
    })
}

fn read(directory: &Path, prefix: &str, data: &mut Map<String, Value>) {
    for path in entries(directory) {
        let name = format!("{prefix}{}", PathBuf::from(path.file_name().unwrap_or_default()).display());
        if path.is_dir() {
            read(&path, &format!("{name}/"), data);
        } else {
            data.insert(name, json!(std::fs::read_to_string(&path).unwrap_or_default()));
        }
    }
}
