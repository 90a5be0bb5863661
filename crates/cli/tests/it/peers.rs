//! Functions that we did not write, or that stand on SDKs we did not write.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ferroplane_testkit::{Pki, free_port};
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, composition, function, started};

/// Where peers are installed.
pub(crate) fn directory() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/ferroplane/peers");
    std::env::var_os("FERROPLANE_PEERS").map_or_else(home, PathBuf::from)
}

/// Where a peer is installed. Nothing if it is not, and nobody insists.
pub(crate) fn peer(name: &str) -> Option<PathBuf> {
    installed(name, "FERROPLANE_REQUIRE_PEERS", "cargo xtask test")
}

/// Where a peer is installed that takes minutes to build. Nothing if it is not, and nobody insists.
pub(crate) fn heavy_peer(name: &str) -> Option<PathBuf> {
    installed(name, "FERROPLANE_REQUIRE_HEAVY_PEERS", "cargo xtask test --heavy")
}

fn installed(name: &str, insists: &str, installer: &str) -> Option<PathBuf> {
    let path = directory().join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os(insists).is_none(), "{} is not there", path.display());
    eprintln!("skipped: {name} is not installed; `{installer}` installs it");
    None
}

/// A peer that serves with mutual TLS. Ends when it is dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
}

impl Served {
    /// Start a peer on a port, with the certificates of a directory.
    pub(crate) fn start(peer: &Path, port: u16, certificates: &Path) -> Self {
        let child = Command::new(peer)
            .args(["--address", &format!("127.0.0.1:{port}"), "--tls-certs-dir"])
            .arg(certificates)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, address: format!("localhost:{port}") }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Write certificates to a directory as Crossplane lays them out: `ca.crt`, `tls.crt` and `tls.key`.
pub(crate) fn write_certificates(pki: &Pki, directory: &Path) {
    let leaf = pki.issue(&["localhost"]);
    std::fs::create_dir_all(directory).unwrap();
    for (name, content) in [("ca.crt", pki.ca()), ("tls.crt", leaf.certificate), ("tls.key", leaf.key)] {
        std::fs::write(directory.join(name), content).unwrap();
    }
}

/// Write certificates for a server and a client to the sandbox, and start the peer with them.
fn serve_with_tls(sandbox: &Sandbox, peer: &Path) -> Served {
    let pki = Pki::new();
    for side in ["server", "client"] {
        write_certificates(&pki, &sandbox.path(side));
    }
    Served::start(peer, free_port(), &sandbox.path("server"))
}

/// Render with this peer as function `f`: once started by us in plain text, once served with mutual TLS.
fn render_both_ways(
    name: &str,
    input: &str,
    prepare: impl Fn(Sandbox) -> Sandbox,
    flags: &[&str],
) -> Vec<Vec<Value>> {
    render_composition_both_ways(name, &composition(&[("one", "f", input)]), prepare, flags)
}

fn render_composition_both_ways(
    name: &str,
    composition: &str,
    prepare: impl Fn(Sandbox) -> Sandbox,
    flags: &[&str],
) -> Vec<Vec<Value>> {
    let Some(peer) = peer(name) else { return Vec::new() };
    let sandbox = prepare(Sandbox::new()).with("composition.yaml", composition);
    let sandbox = sandbox.with("functions.yaml", &started("f", peer.to_str().unwrap()));
    let plain = sandbox.render_with_commands(flags).documents();

    let served = serve_with_tls(&sandbox, &peer);
    let secure = function(
        "f",
        &[
            ("render.crossplane.io/runtime", "Development"),
            ("render.crossplane.io/runtime-development-target", &served.address),
            ("render.ferroplane.io/tls-certs-dir", "client"),
        ],
    );
    let sandbox = sandbox.with("functions.yaml", &secure);
    vec![plain, sandbox.render(flags).documents()]
}

fn greets(language: &str, condition: &str) {
    let settings = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, data: {theme: dark}}";
    let input = "{apiVersion: greeter.fn.ferroplane.io/v1, kind: Greeting, replicas: 3}";
    let results = render_both_ways(
        &format!("greeter-{language}"),
        input,
        |sandbox| sandbox.with("settings.yaml", settings),
        &["-e", "settings.yaml", "-r", "-c"],
    );
    for documents in results {
        let [xr, config, _, said, context] = &documents[..] else { panic!("{documents:#?}") };
        assert_eq!(xr["status"]["greetedBy"][language], true);
        let conditions = xr["status"]["conditions"].as_array().unwrap();
        let status =
            |kind: &str| &conditions.iter().find(|condition| condition["type"] == kind).unwrap()["status"];
        assert_eq!([status("Ready"), status("Synced"), status(condition)], ["True", "True", "True"]);
        assert_eq!(
            config["data"],
            json!({"greeting": format!("hello from {language}"), "replicas": "3", "theme": "dark"})
        );
        assert_eq!(said["message"], format!("Pipeline step \"one\": greeted from {language}"));
        assert_eq!(context["fields"][format!("greeter.ferroplane.io/{language}")], json!({"replicas": 3}));
    }
}

#[test]
fn function_on_the_go_sdk_greets() {
    greets("go", "GreetedGo");
}

#[test]
fn function_on_the_python_sdk_greets() {
    greets("python", "GreetedPython");
}

#[test]
fn function_on_the_typescript_sdk_greets() {
    greets("typescript", "GreetedTypescript");
}

#[test]
fn three_languages_greet_in_one_pipeline() {
    let languages = ["go", "python", "typescript"];
    let mut functions = String::new();
    for language in languages {
        let Some(peer) = peer(&format!("greeter-{language}")) else { return };
        functions.push_str(&started(language, peer.to_str().unwrap()));
    }
    let steps = languages.map(|language| (language, language, ""));
    let sandbox =
        Sandbox::new().with("composition.yaml", &composition(&steps)).with("functions.yaml", &functions);
    let documents = sandbox.render_with_commands(&[]).documents();
    assert_eq!(documents.len(), 4);
    assert_eq!(documents[0]["status"]["greetedBy"], json!({"go": true, "python": true, "typescript": true}));

    let failing = sandbox.with("xr.yaml", &crate::sandbox::XR.replace("size: small", "fail: python"));
    let said = failing.render_with_commands(&[]).fails_with(3);
    assert!(
        said.contains("pipeline step `python` returned a fatal result: python was told to fail"),
        "{said}"
    );
}

/// Has patch-and-transform compose a ConfigMap with the size of the XR.
pub(crate) const PATCHES: &str = "{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{name: config, \
    base: {apiVersion: v1, kind: ConfigMap, data: {size: none}}, \
    patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: data.size}]}]}";

/// Has go-templating compose the same.
pub(crate) const TEMPLATE: &str = "{apiVersion: gotemplating.fn.crossplane.io/v1beta1, kind: GoTemplate, source: Inline, \
    inline: {template: \"apiVersion: v1\\nkind: ConfigMap\\nmetadata:\\n  annotations:\\n    \
    gotemplating.fn.crossplane.io/composition-resource-name: config\\ndata:\\n  \
    size: {{ .observed.composite.resource.spec.size }}\\n\"}}";

#[test]
fn upstreams_patch_and_transform_patches() {
    for documents in render_both_ways("function-patch-and-transform", PATCHES, |sandbox| sandbox, &[]) {
        assert_eq!(documents[1]["data"]["size"], "small");
    }
}

#[test]
fn upstreams_go_templating_templates() {
    for documents in render_both_ways("function-go-templating", TEMPLATE, |sandbox| sandbox, &[]) {
        assert_eq!(documents[1]["data"]["size"], "small");
    }
}

#[test]
fn upstreams_auto_ready_finds_readiness() {
    let observed = "
apiVersion: v1
kind: ConfigMap
metadata: {name: thing, namespace: default, annotations: {crossplane.io/composition-resource-name: a}}
";
    let make = "{desired: {resources: {a: {resource: {apiVersion: v1, kind: ConfigMap}}}}}";
    let prepare = |sandbox: Sandbox| sandbox.with("observed.yaml", observed);
    let steps = [("make", "function-dummy", crate::sandbox::dummy(make)), ("ready", "f", String::new())];
    let steps = steps.each_ref().map(|(step, function, input)| (*step, *function, input.as_str()));
    let composition = composition(&steps);
    let ready = |documents: &[Value]| {
        let conditions = documents[0]["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap()["status"].clone()
    };
    for documents in render_composition_both_ways("function-auto-ready", &composition, prepare, &[]) {
        assert_eq!(ready(&documents), "False");
    }
    let flags = ["-o", "observed.yaml"];
    for documents in render_composition_both_ways("function-auto-ready", &composition, prepare, &flags) {
        assert_eq!(ready(&documents), "True");
    }
}
