//! Copies of the fixtures to open, and the test that makes a new one.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::{PATIENCE, run, until_recorded};
use crate::plane::{Plane, ferroplane};

/// What every fixture has: an API, a Composition and a composite resource with two `ConfigMap`s.
pub(super) const PLATFORM: &str = "
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
          spec: {type: object, properties: {color: {type: string}}}
          status: {type: object, properties: {color: {type: string}}}
---
apiVersion: v1
kind: Secret
metadata: {name: cloud, namespace: default}
stringData: {key: value-of-a-secret}
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
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: settings
        base: {apiVersion: v1, kind: ConfigMap}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: metadata.name, toFieldPath: metadata.name}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.color, toFieldPath: data.color}
        - {type: ToCompositeFieldPath, fromFieldPath: data.color, toFieldPath: status.color}
      - name: opening-hours
        base: {apiVersion: v1, kind: ConfigMap, data: {monday: closed}}
  - step: ready
    functionRef: {name: function-auto-ready}
";

/// What fixtures have besides, from the second one on: recordings of version 2 tell operations from composite resources.
const OPERATION: &str = "---
apiVersion: ops.crossplane.io/v1alpha1
kind: Operation
metadata: {name: checked}
spec:
  mode: Pipeline
  pipeline:
  - step: check
    functionRef: {name: function-cel-validation}
    input:
      apiVersion: validation.fn.ferroplane.io/v1beta1
      kind: Validation
      rules: [{rule: 'true', message: it holds}]
";

/// From the second one on, too: recordings of version 2 have the calls of phases.
const ACTIONS: &str = "---
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: notes, namespace: default}
actions:
  write:
    phases:
    - func: KubeOps
      name: note
      args:
        operation: create
        spec: |
          apiVersion: v1
          kind: ConfigMap
          metadata: {name: note}
          data: {author: 'action {{ .Options.author }}'}
---
apiVersion: cr.kanister.io/v1alpha1
kind: ActionSet
metadata: {name: noted, namespace: default}
spec:
  actions: [{name: write, blueprint: notes, options: {author: noted}}]
";

/// A composite resource of the platform.
pub(super) fn shop(name: &str, color: &str) -> String {
    format!(
        "---\napiVersion: test.io/v1\nkind: Shop\nmetadata: {{name: {name}, namespace: default}}\nspec: {{color: {color}}}\n"
    )
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/formats")
}

/// Every fixture, oldest first.
pub(super) fn all() -> Vec<PathBuf> {
    let numbered = (1..).map(|number| directory().join(format!("v{number}")));
    let found: Vec<_> = numbered.take_while(|path| path.is_dir()).collect();
    assert!(!found.is_empty(), "there are no fixtures in {}", directory().display());
    found
}

/// A copy of a fixture: `data`, `backup.db` and `one.recording`.
pub(super) fn copy(fixture: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    each_file(fixture, &mut |file| {
        let compressed = File::open(file).unwrap();
        let target = copy.path().join(file.strip_prefix(fixture).unwrap()).with_extension("");
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(compressed).read_to_end(&mut bytes).unwrap();
        fs::write(target, bytes).unwrap();
    });
    copy
}

/// The newest fixture, copied.
pub(super) fn newest() -> TempDir {
    copy(all().last().unwrap())
}

fn each_file(directory: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { each_file(&path, visit) } else { visit(&path) }
    }
}

/// Where each file that is kept lies in the directory in which the plane ran. The rest is made anew by every start.
fn is_kept(file: &Path) -> bool {
    let is_part = |part: &str| file.starts_with(part);
    let is_stored =
        ["data/store.db", "data/store.head", "data/certificates", "data/recordings", "data/answers"];
    is_stored.into_iter().any(is_part) || is_part("backup.db") || is_part("one.recording")
}

#[test]
#[ignore = "makes a new fixture in the source tree, for a new version of a format"]
fn make_fixture() {
    let target = directory().join(format!("v{}", directory().read_dir().unwrap().count()));
    assert!(!target.exists(), "{} is there already", target.display());
    let temporary = TempDir::new().unwrap();
    let objects = |color| [PLATFORM, &shop("one", color), OPERATION, ACTIONS].concat();
    fs::write(temporary.path().join("platform.yaml"), objects("red")).unwrap();
    let mut command = ferroplane(temporary.path(), &["up", "platform.yaml", "--listen", "127.0.0.1:0"]);
    command.args(["--kubeconfig", "kubeconfig", "--data-dir", "data", "--watch"]);
    let plane = Plane::run_by(temporary, command);
    until_recorded(&plane.path(""), "shop/one", "  ready");
    until_recorded(&plane.path(""), "operation/checked", "  succeeded");
    until_recorded(&plane.path(""), "actionset/noted", "  complete");
    // A second state of the same object, so that there is history and more than one recording.
    fs::write(plane.path("platform.yaml"), objects("blue")).unwrap();
    until_blue(&plane.path(""));
    let directory = plane.stop();
    assert!(!directory.path().join("data/store.db-wal").exists(), "the database is not the whole store");
    for arguments in [&["backup", "backup.db"][..], &["replay", "export", "shop/one", "-o", "one.recording"]]
    {
        let ran = run(directory.path(), arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    each_file(directory.path(), &mut |file| {
        let name = file.strip_prefix(directory.path()).unwrap();
        if !is_kept(name) {
            return;
        }
        let mut target = target.join(name).into_os_string();
        target.push(".gz");
        fs::create_dir_all(Path::new(&target).parent().unwrap()).unwrap();
        let mut encoder = GzEncoder::new(File::create(target).unwrap(), Compression::best());
        encoder.write_all(&fs::read(file).unwrap()).unwrap();
        encoder.finish().unwrap();
    });
}

/// Waits until the second state of the composite resource has been composed, and nothing more is left to do.
fn until_blue(directory: &Path) {
    let began = Instant::now();
    while !run(directory, &["replay", "show", "shop/one"]).stdout.contains("color: blue") {
        assert!(began.elapsed() < PATIENCE, "the change was not composed");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(3));
}
