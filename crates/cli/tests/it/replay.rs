//! What `ferroplane up` records, and what `ferroplane replay` makes of it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::plane::{Plane, ferroplane};
use crate::sandbox::Ran;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What must never be seen outside of Secrets.
const PLANTED: [&str; 4] =
    ["planted-in-a-base", "planted-in-a-secret", "planted-as-a-token", "planted-in-a-pair"];

const PLATFORM: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: shops.test.io}
spec:
  group: test.io
  names: {kind: Shop, plural: shops}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string}
              githubToken: {type: string}
              env: {type: array, items: {type: object, properties: {name: {type: string}, value: {type: string}}}}
          status: {type: object, properties: {color: {type: string}}}
---
apiVersion: v1
kind: Secret
metadata: {name: cloud, namespace: default}
stringData: {key: planted-in-a-secret}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: shops}
spec:
  compositeTypeRef: {apiVersion: test.io/v1, kind: Shop}
  mode: Pipeline
  pipeline:
  - step: resources
    functionRef: {name: function-patch-and-transform}
    credentials: [{name: cloud, source: Secret, secretRef: {namespace: default, name: cloud}}]
    requirements:
      requiredResources:
      - {requirementName: cloud, apiVersion: v1, kind: Secret, namespace: default, name: cloud}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: settings
        base: {apiVersion: v1, kind: ConfigMap, data: {who: settings}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.color, toFieldPath: data.color}
        - {type: ToCompositeFieldPath, fromFieldPath: data.color, toFieldPath: status.color}
      - name: login
        base: {apiVersion: v1, kind: Secret, stringData: {password: planted-in-a-base}}
  - step: ready
    functionRef: {name: function-auto-ready}
";

/// A shop that says what is secret where nothing says that it is, but names.
const CARELESS: &str = "
---
apiVersion: test.io/v1
kind: Shop
metadata: {name: one, namespace: default}
spec:
  color: red
  githubToken: planted-as-a-token
  env: [{name: DB_PASSWORD, value: planted-in-a-pair}]
";

fn shop(name: &str, color: &str) -> String {
    format!(
        "---\napiVersion: test.io/v1\nkind: Shop\nmetadata: {{name: {name}, namespace: default}}\nspec: {{color: {color}}}\n"
    )
}

/// A plane with this platform, in which nothing is said that is not asked for, with these variables.
fn start(directory: TempDir, manifests: &str, log: &str) -> Plane {
    std::fs::write(directory.path().join("platform.yaml"), manifests).unwrap();
    let mut command = ferroplane(directory.path(), &["up", "platform.yaml", "--listen", "127.0.0.1:0"]);
    command.args(["--kubeconfig", "kubeconfig", "--data-dir", "data"]).env("FERROPLANE_LOG", log);
    Plane::run_by(directory, command)
}

fn replay(directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = ferroplane(directory, &[&["replay"], arguments].concat());
    command.env("FERROPLANE_DATA_DIR", "data").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().unwrap().into()
}

/// Waits until a line of the list says so.
fn until_listed(directory: &Path, what: &str, words: &str) -> String {
    let began = Instant::now();
    loop {
        let listed = replay(directory, &["list", what]).stdout;
        if let Some(line) = listed.lines().find(|line| line.contains(words)) {
            return line.to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "{words:?} is not in {listed}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Who may read a file.
fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn id_of(line: &str) -> &str {
    line.split_whitespace().next().unwrap()
}

#[test]
fn recorded_reconcile_is_replayed_while_the_plane_runs_and_after() {
    let plane = start(TempDir::new().unwrap(), &[PLATFORM, &shop("one", "red")].concat(), "info");
    let line = until_listed(&plane.path(""), "shop/one", "  ready");
    assert!(line.contains("Shop/one in default") && line.contains("shops-"), "{line}");
    let directory = plane.path("");
    let ran = replay(&directory, &[id_of(&line)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("run 1: the result is the same, byte for byte"), "{ran:?}");
    assert!(ran.stderr.contains("without its secrets"), "{ran:?}");

    let directory = plane.stop();
    let ran = replay(directory.path(), &["shops.test.io/one", "-n", "default"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = replay(directory.path(), &["show", id_of(&line)]).stdout;
    for words in ["step: resources", "color: red", "function-patch-and-transform", "lastTransitionTime"] {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }
    // A file of its own can be taken anywhere.
    let ran = replay(directory.path(), &["export", id_of(&line), "-o", "one.recording"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    std::fs::rename(directory.path().join("data"), directory.path().join("gone")).unwrap();
    let ran = replay(directory.path(), &["--recordings", "one.recording"]);
    assert_eq!((ran.code, ran.stdout.contains("same, byte for byte")), (Some(0), true), "{ran:?}");
}

#[test]
fn built_in_functions_can_be_asked_again() {
    // Nothing in it is secret: functions are asked what they were asked.
    let platform =
        PLATFORM.split("---").filter(|part| !part.contains("kind: Secret\nmetadata")).collect::<Vec<_>>();
    let platform = platform.join("---");
    let (start_of, end_of) =
        (platform.find("    credentials:").unwrap(), platform.find("    input:").unwrap());
    let platform = format!("{}{}", &platform[..start_of], &platform[end_of..]);
    let (start_of, end_of) =
        (platform.find("      - name: login").unwrap(), platform.find("  - step: ready").unwrap());
    let platform = format!("{}{}", &platform[..start_of], &platform[end_of..]);
    let plane = start(TempDir::new().unwrap(), &[&platform, shop("one", "red").as_str()].concat(), "info");
    let line = until_listed(&plane.path(""), "shop/one", "  ready");
    let directory = plane.stop();
    let ran = replay(directory.path(), &[id_of(&line), "--functions", "built-in"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let is_plain = |line: &str| line.ends_with(": the result is the same, byte for byte");
    assert!(ran.stdout.lines().all(is_plain), "{ran:?}");
    let listed = replay(directory.path(), &["list", "shop/one", "-o", "json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let mut listed = listed["recordings"].as_array().unwrap().iter();
    let listed = listed.find(|recording| recording["id"].as_u64() == id_of(&line).parse().ok()).unwrap();
    assert!(listed["name"] == "one" && line.contains(listed["startedAt"].as_str().unwrap()), "{listed}");
    let ran = replay(directory.path(), &[id_of(&line)]);
    assert!(ran.stdout.contains("and so are 2 requests"), "{ran:?}");
}

/// A template that prints random values and the time.
const RANDOM: &str = r#"---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: shops}
spec:
  compositeTypeRef: {apiVersion: test.io/v1, kind: Shop}
  mode: Pipeline
  pipeline:
  - step: resources
    functionRef: {name: function-go-templating}
    input:
      apiVersion: gotemplating.fn.crossplane.io/v1beta1
      kind: GoTemplate
      source: Inline
      inline:
        template: |
          apiVersion: v1
          kind: ConfigMap
          metadata:
            annotations:
              {{ setResourceNameAnnotation "random" }}
              gotemplating.fn.crossplane.io/ready: "True"
          data:
            printed: "{{ randAlphaNum 20 }} {{ now }}"
"#;

#[test]
fn templates_that_are_executed_again_print_the_random_values_of_their_control_plane() {
    let definition = PLATFORM.split("---").next().unwrap();
    let manifests = [definition, RANDOM, &shop("one", "red")].concat();
    let plane = start(TempDir::new().unwrap(), &manifests, "info");
    let line = until_listed(&plane.path(""), "shop/one", "  ready");
    let directory = plane.stop();
    let again = || replay(directory.path(), &[id_of(&line), "--functions", "built-in"]);
    let ran = again();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("the result is the same, byte for byte"), "{ran:?}");
    // Without the key of the authority, no other process can compute them.
    std::fs::rename(directory.path().join("data/certificates"), directory.path().join("elsewhere")).unwrap();
    let ran = again();
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

/// A script that composes what the shop says.
const SCRIPT: &str = "---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: shops}
spec:
  compositeTypeRef: {apiVersion: test.io/v1, kind: Shop}
  mode: Pipeline
  pipeline:
  - step: resources
    functionRef: {name: function-starlark}
    input:
      apiVersion: starlark.fn.crossplane.io/v1alpha1
      kind: StarlarkInput
      spec:
        source: |
          Resource('config', {'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': {'color': get(oxr, 'spec.color')}})
  - step: ready
    functionRef: {name: function-auto-ready}
";

#[test]
fn script_that_is_run_again_composes_what_was_recorded() {
    if !crate::starlark::is_there() {
        return;
    }
    let definition = PLATFORM.split("---").next().unwrap();
    let plane = start(TempDir::new().unwrap(), &[definition, SCRIPT, &shop("one", "red")].concat(), "info");
    let line = until_listed(&plane.path(""), "shop/one", "  ready");
    let directory = plane.stop();
    let replay = |functions: &str| {
        let mut command = ferroplane(directory.path(), &["replay", id_of(&line), "--functions", functions]);
        let cache = directory.path().join(functions);
        let ran = command.env("FERROPLANE_DATA_DIR", "data").env("XDG_CACHE_HOME", &cache).output();
        let ran: Ran = ran.unwrap().into();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("the result is the same, byte for byte"), "{ran:?}");
        cache
    };
    // Whoever runs the interpreter keeps it there, compiled. The recorded response does not need it.
    assert!(!replay("none").exists());
    assert!(replay("built-in").exists());
}

#[test]
fn recording_becomes_files_that_render_to_the_same() {
    let plane = start(TempDir::new().unwrap(), &[PLATFORM, &shop("one", "red")].concat(), "info");
    until_listed(&plane.path(""), "shop/one", "  ready");
    let directory = plane.stop();
    let mut command =
        ferroplane(directory.path(), &["render", "--from-recording", "shop/one", "--into", "test"]);
    let ran: Ran = command.env("FERROPLANE_DATA_DIR", "data").output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let line = ran.stderr.lines().find(|line| line.contains("ferroplane render")).unwrap();
    let arguments: Vec<_> = line.split_whitespace().skip(1).collect();
    let rendered: Ran = ferroplane(directory.path(), &arguments).output().unwrap().into();
    let expected = std::fs::read_to_string(directory.path().join("test/expected.yaml")).unwrap();
    assert_eq!(rendered.stdout, expected, "{arguments:?}");
    assert!(expected.contains("color: red") && expected.contains("kind: Secret"), "{expected}");
    assert_eq!(mode(&directory.path().join("test")), 0o700);
    for entry in std::fs::read_dir(directory.path().join("test")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        let text = std::fs::read_to_string(path).unwrap();
        assert!(PLANTED.iter().all(|planted| !text.contains(planted)), "{text}");
    }
    // What somebody has there already is not touched.
    let ran: Ran = command.output().unwrap().into();
    assert!(ran.code == Some(1) && ran.stderr.contains("`test` is not empty"), "{ran:?}");
}

#[test]
fn what_was_wrong_yesterday_is_known_today() {
    let without_secret = PLATFORM.replace(
        "metadata: {name: cloud, namespace: default}",
        "metadata: {name: cloud, namespace: kube-system}",
    );
    let plane =
        start(TempDir::new().unwrap(), &[&without_secret, shop("one", "red").as_str()].concat(), "info");
    let why = |arguments: &[&str]| -> Ran {
        let mut command =
            ferroplane(&plane.path(""), &[&["why", "shop/one", "--data-dir", "data"], arguments].concat());
        command.output().unwrap().into()
    };
    let failed = until_listed(&plane.path(""), "shop/one", "  failed  ");
    let then = failed.split_whitespace().nth(1).unwrap();
    plane.told(
        "kubectl apply -f -",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: cloud}\nstringData: {key: planted-in-a-secret}\n",
    );
    until_listed(&plane.path(""), "shop/one", "  ready");
    let before = why(&["--at", then]);
    let now = why(&["--at", "1ms"]);
    assert_eq!((before.code, now.code), (Some(3), Some(0)), "{before:?} {now:?}");
    let first = before.stdout.lines().next().unwrap();
    for words in [
        "Secret default/cloud: step `resources`: ",
        "cannot get credential `cloud`",
        "default/cloud",
        "(since ",
    ] {
        assert!(first.contains(words), "{words} is not in {first}");
    }
    assert!(now.stdout.starts_with("Shop default/one was ready at "), "{now:?}");
    let json = why(&["--at", "1ms", "-o", "json"]);
    assert!(json.stdout.contains("\"isReady\": true"), "{json:?}");
    let never = why(&["--at", "2001-01-01T00:00:00Z"]);
    assert!(never.code == Some(1) && never.stderr.contains("the oldest is of"), "{never:?}");
}

#[test]
fn function_can_answer_from_a_file() {
    let directory = TempDir::new().unwrap();
    let put = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let composition = PLATFORM.split("---").last().unwrap().split("    credentials:").next().unwrap();
    put("composition.yaml", &composition.replace("function-patch-and-transform", "function-gone"));
    put("xr.yaml", &shop("one", "red"));
    let function = "apiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-gone, annotations: {render.ferroplane.io/answers: said.json}}\nspec: {package: gone}\n";
    put("functions.yaml", function);
    let render = || -> Ran {
        let files = ["render", "xr.yaml", "composition.yaml", "functions.yaml"];
        ferroplane(directory.path(), &files).output().unwrap().into()
    };
    let object =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"color": "said"}}"#;
    put(
        "said.json",
        &format!(r#"[{{"answered": {{"desired": {{"resources": {{"a": {{"resource": {object}}}}}}}}}}}]"#),
    );
    let ran = render();
    assert!(ran.code == Some(0) && ran.stdout.contains("color: said"), "{ran:?}");
    for (said, words) in [
        (r#"[{"failed": "it was tired"}]"#, "it was tired"),
        ("[]", "there are no responses in"),
        ("[{}]", "each is an object with `answered` or `failed`"),
        ("nonsense", "is not a list of responses"),
    ] {
        put("said.json", said);
        let ran = render();
        assert!(ran.code == Some(1) && ran.stderr.contains(words), "{said}: {ran:?}");
    }
}

/// Two phases that copy a secret in base64: into a field of any name, and into one that is named like a secret.
const COPIES: &str = "
apiVersion: v1
kind: Secret
metadata: {name: login, namespace: default}
stringData: {password: planted-in-a-secret}
---
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: copies, namespace: default}
actions:
  copy:
    phases:
    - func: KubeOps
      name: plain
      objects: {login: {kind: Secret, name: login, namespace: default}}
      args:
        operation: create
        spec: |
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: plain}
          data: {copied: '{{ .Phases.plain.Secrets.login.Data.password | toString | b64enc }}'}
    - func: KubeOps
      name: named
      objects: {login: {kind: Secret, name: login, namespace: default}}
      args:
        operation: create
        spec: |
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: named}
          data: {password: '{{ .Phases.named.Secrets.login.Data.password | toString | b64enc }}'}
";

#[test]
fn action_set_is_listed_shown_and_replayed_without_its_secrets() {
    let plane = start(TempDir::new().unwrap(), COPIES, "info");
    let create = "actionset create -n default -a copy -b copies --wait";
    let name =
        crate::actionset::created(&plane.says(&format!("{} {create}", env!("CARGO_BIN_EXE_ferroplane"))));
    let (directory, what) = (plane.path(""), format!("actionset/{name}"));
    let line = until_listed(&directory, &what, "  complete");
    assert!(line.contains(&format!("ActionSet/{name} in default  copy  ")), "{line}");
    let shown = replay(&directory, &["show", id_of(&line)]).stdout;
    for words in ["blueprint: copies", "function: KubeOps", "version: v0.1.0", "redacted-", "state: complete"]
    {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }
    let ran = replay(&directory, &[&what]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let first = "phase `plain`, KubeOps v0.1.0: the decision is the same\n";
    let exactly =
        "phase `named`, KubeOps v0.1.0: cannot be compared exactly, because secrets in it are redacted\n";
    assert!(ran.stdout.contains(first) && ran.stdout.contains(exactly), "{ran:?}");
    let exported = replay(&directory, &["export", id_of(&line), "-o", "it"]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert_eq!(replay(&directory, &["--recordings", "it"]).stdout, ran.stdout);
    let why: Ran =
        ferroplane(&directory, &["why", &what, "-n", "default", "--at", "1ms", "--data-dir", "data"])
            .output()
            .unwrap()
            .into();
    assert_eq!(why.code, Some(0), "{why:?}");
    let mut texts = vec![shown.into_bytes(), std::fs::read(directory.join("it")).unwrap()];
    for file in std::fs::read_dir(directory.join("data/recordings")).unwrap() {
        texts.push(std::fs::read(file.unwrap().path()).unwrap());
    }
    for planted in ["planted-in-a-secret", "cGxhbnRlZC1pbi1hLXNlY3JldA"] {
        let is_there = |text: &Vec<u8>| text.windows(planted.len()).any(|part| part == planted.as_bytes());
        assert!(!texts.iter().any(is_there), "{planted}");
    }
}

#[test]
fn planted_secrets_are_found_nowhere() {
    let plane = start(TempDir::new().unwrap(), &[PLATFORM, CARELESS].concat(), "trace");
    let line = until_listed(&plane.path(""), "shop/one", "  ready");
    let directory = plane.path("");
    let shown = replay(&directory, &["show", id_of(&line)]).stdout;
    assert!(shown.contains("redacted-"), "{shown}");
    let exported = replay(&directory, &["export", id_of(&line), "-o", "it"]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert_eq!(mode(&directory.join("it")), 0o600);
    let metrics = plane.says("kubectl get --raw /metrics");
    assert!(metrics.contains("ferroplane_recorder_recordings_total"), "{metrics}");
    let events = plane.says("kubectl get events -A -o yaml");
    plane.signal(Signal::TERM);
    let said = plane.heard_to_the_end().join("\n");
    let mut texts = vec![
        ("show", shown.into_bytes()),
        ("metrics", metrics.into()),
        ("events", events.into()),
        ("log", said.into()),
    ];
    for entry in std::fs::read_dir(directory.join("data/recordings")).unwrap() {
        texts.push(("recordings", std::fs::read(entry.unwrap().path()).unwrap()));
    }
    texts.push(("export", std::fs::read(directory.join("it")).unwrap()));
    for planted in PLANTED {
        for (what, text) in &texts {
            let is_there = text.windows(planted.len()).any(|window| window == planted.as_bytes());
            assert!(!is_there, "{planted} is in {what}");
        }
    }
}

#[test]
fn control_characters_of_a_function_do_not_reach_the_terminal() {
    let platform = PLATFORM.split("  pipeline:").next().unwrap();
    // It sets the title of the window, and clears the screen.
    let pipeline = r#"  pipeline:
  - step: say
    functionRef: {name: function-dummy}
    input:
      apiVersion: dummy.fn.crossplane.io/v1beta1
      kind: Response
      response: {results: [{severity: SEVERITY_FATAL, message: "\e]0;pwned\a\e[2Jgone"}]}
"#;
    let plane =
        start(TempDir::new().unwrap(), &[platform, pipeline, shop("one", "red").as_str()].concat(), "info");
    until_listed(&plane.path(""), "shop/one", "  failed  ");
    plane.says("kubectl wait shop/one --for=condition=Synced=false --timeout=60s");
    let binary = env!("CARGO_BIN_EXE_ferroplane");
    let why = |flags: &str| {
        let said = plane.shell(&format!("{binary} why shop/one {flags}")).output().unwrap();
        String::from_utf8(said.stdout).unwrap()
    };
    let texts = [
        why(""),
        why("-o json"),
        replay(&plane.path(""), &["list", "shop/one"]).stdout,
        replay(&plane.path(""), &["list", "shop/one", "-o", "json"]).stdout,
    ];
    for text in &texts {
        let is_plain = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
        assert!(text.chars().all(is_plain), "{text:?}");
    }
    // The table cuts long messages.
    for text in [&texts[0], &texts[1], &texts[3]] {
        assert!(text.contains("]0;pwned"), "{text}");
    }
}

#[test]
fn recordings_survive_a_kill_and_whatever_lies_among_them() {
    let mut directory = TempDir::new().unwrap();
    let mut last = 0;
    for round in 0..3 {
        let shops: String = (0..20).map(|number| shop(&format!("shop-{round}-{number}"), "red")).collect();
        let mut plane = start(directory, &[PLATFORM, &shops].concat(), "info");
        until_listed(&plane.path(""), &format!("shop/shop-{round}-0"), "  ready");
        plane.signal(Signal::KILL);
        plane.end();
        directory = plane.into_directory();
        let listed = replay(directory.path(), &["list"]);
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let ids: Vec<u64> = listed.stdout.lines().skip(1).map(|line| id_of(line).parse().unwrap()).collect();
        assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] < two[1]), "{ids:?}");
        assert!(*ids.last().unwrap() > last, "{ids:?}");
        last = *ids.last().unwrap();
        let ran = replay(directory.path(), &[&last.to_string()]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        // What a process that was killed left half written, and what nobody wrote.
        let recordings = directory.path().join("data/recordings");
        let newest =
            std::fs::read_dir(&recordings).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
        let mut bytes = std::fs::read(&newest).unwrap();
        bytes.extend_from_slice(&[7; 33]);
        std::fs::write(&newest, bytes).unwrap();
        // The plane continues after the highest number: the next garbage must not take the place of what it wrote.
        std::fs::write(recordings.join(format!("segment-{:012}", 900 + 100 * round)), b"garbage").unwrap();
    }
}

#[test]
fn what_is_not_there_is_said() {
    let directory = TempDir::new().unwrap();
    for (arguments, words) in [
        (&["list"][..], "there are no recordings in `data`"),
        (&["12"], "there are no recordings in `data`"),
        (&["shop/one", "--at", "yesterday"], "expected a timestamp"),
    ] {
        let ran = replay(directory.path(), arguments);
        assert_ne!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
    std::fs::create_dir_all(directory.path().join("data/recordings")).unwrap();
    for (arguments, words) in [
        (&["12"][..], "there is no recording 12 (any more)"),
        (&["shop/one"], "there are no recordings of `shop/one`"),
        (&["list", "shop/one"], "there are no recordings of `shop/one`"),
        (&["nonsense"], "cannot find an object by `nonsense`: write KIND/NAME"),
    ] {
        let ran = replay(directory.path(), arguments);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
    std::fs::write(directory.path().join("other"), "no recording").unwrap();
    let ran: Ran =
        ferroplane(directory.path(), &["replay", "1", "--recordings", "other"]).output().unwrap().into();
    assert!(ran.stderr.contains("it is not a recording of this version"), "{ran:?}");
}
