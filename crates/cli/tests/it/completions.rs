//! Shells complete names of objects, contexts and namespaces.

use std::path::Path;
use std::process::Command;

use crate::plane::Plane;
use crate::sandbox::Sandbox;

const KUBECONFIG: &str = "
current-context: here
contexts:
- {name: here, context: {cluster: here}}
- {name: kind-test, context: {cluster: test}}
clusters:
- {name: here, cluster: {server: 'https://127.0.0.1:1'}}
- {name: test, cluster: {server: 'https://127.0.0.1:1'}}
";

fn complete(plane: &Plane, words: &[&str]) -> String {
    let mut command = plane.client(Path::new(env!("CARGO_BIN_EXE_ferroplane")));
    let output = command.args(["internal", "complete", "--"]).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn names_of_objects_and_namespaces_are_those_of_the_control_plane() {
    let plane = Plane::new();
    assert_eq!(complete(&plane, &["why", "namespace/def"]), "namespace/default\n");
    assert_eq!(complete(&plane, &["trace", "namespace", "def"]), "default\n");
    assert_eq!(complete(&plane, &["trace", "app/hello", "-n", "kube-s"]), "kube-system\n");
    // There are none, and that is no mistake.
    assert_eq!(complete(&plane, &["operation", "logs", ""]), "");
}

#[test]
fn contexts_are_those_of_the_kubeconfig_that_the_line_names() {
    let sandbox = Sandbox::new().with("own", KUBECONFIG);
    let line = ["internal", "complete", "--", "why", "app/hello", "--kubeconfig", "own", "--context"];
    let complete = |word: &str| sandbox.run(&[&line[..], &[word]].concat()).ok();
    assert_eq!(complete(""), "here\nkind-test\n");
    assert_eq!(complete("kind"), "kind-test\n");
    assert_eq!(sandbox.run(&["internal", "complete", "--next", "--", "up"]).ok(), "");
}

#[test]
fn bash_completes_names_and_commands() {
    let sandbox = Sandbox::new().with("own", KUBECONFIG);
    let script = sandbox.run(&["completions", "bash"]).ok();
    let sandbox = sandbox.with("script", &script);
    let completed = |words: &[&str]| {
        let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let text = format!(
            "shopt -s extglob; source ./script; COMP_WORDS=({line}); COMP_CWORD={}; \
             _ferroplane_with_names ferroplane '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let binary = Path::new(env!("CARGO_BIN_EXE_ferroplane")).parent().unwrap().to_owned();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(binary).chain(std::env::split_paths(&paths));
        let mut bash = Command::new("bash");
        bash.args(["-c", &text]).current_dir(sandbox.path(""));
        bash.env("PATH", std::env::join_paths(paths).unwrap()).env("KUBECONFIG", sandbox.path("own"));
        String::from_utf8(bash.output().unwrap().stdout).unwrap()
    };
    assert_eq!(completed(&["ferroplane", "why", "--context", ""]), "here\nkind-test\n");
    assert_eq!(completed(&["ferroplane", "why", "--context", "=", "ki"]), "kind-test\n");
    assert_eq!(completed(&["ferroplane", "rollo"]), "rollout\n");
}
