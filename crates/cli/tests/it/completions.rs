//! Shells complete names of objects, contexts and namespaces.

use std::path::Path;
use std::process::{Command, Stdio};

use ferroplane_testkit::skip;

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

/// The completion script of a shell beside a kubeconfig.
fn with_script(shell: &str) -> Sandbox {
    let sandbox = Sandbox::new().with("own", KUBECONFIG);
    let script = sandbox.run(&["completions", shell]).ok();
    sandbox.with("script", &script)
}

/// A shell beside its script, which finds the binary.
fn shell(program: &str, sandbox: &Sandbox) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_ferroplane")).parent().unwrap().to_owned();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(binary).chain(std::env::split_paths(&paths));
    let mut shell = Command::new(program);
    shell.current_dir(sandbox.path("")).stdin(Stdio::null());
    shell.env("PATH", std::env::join_paths(paths).unwrap()).env("KUBECONFIG", sandbox.path("own"));
    shell.env("HOME", sandbox.path("")).env("TERM", "xterm");
    shell
}

fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_installed = version.is_ok_and(|status| status.success());
    if !is_installed {
        skip(&format!("{program} is not installed"));
    }
    is_installed
}

#[test]
fn bash_completes_names_and_commands() {
    let sandbox = with_script("bash");
    let completed = |words: &[&str]| {
        let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let text = format!(
            "shopt -s extglob; source ./script; COMP_WORDS=({line}); COMP_CWORD={}; \
             _ferroplane_with_names ferroplane '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let output = shell("bash", &sandbox).args(["-c", &text]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(completed(&["ferroplane", "why", "--context", ""]), "here\nkind-test\n");
    assert_eq!(completed(&["ferroplane", "why", "--context", "=", "ki"]), "kind-test\n");
    assert_eq!(completed(&["ferroplane", "rollo"]), "rollout\n");
}

/// Types a line into zsh, and presses the key that completes it. Only in a terminal does zsh complete.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty terminal zsh -f -i
zpty -w terminal source ./setup
zpty -r terminal shown '*ready*'
zpty -w -n terminal "$TYPED"$'\t'
zpty -r terminal shown '*finished*'
zpty -d terminal
"#;

/// Has zsh write to a file what it offers. Calls that only filter words offer nothing.
const ZSH_SETUP: &str = r#"
PROMPT=
autoload -U compinit
compinit -u -d ./dump
source ./script
bindkey '^I' complete-word
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
        return
    fi
    typeset -a __offered
    builtin compadd -A __offered "$@"
    print -rl -- $__offered >> ./offered
    builtin compadd "$@"
}
__finish() { print finished }
comppostfuncs=(__finish)
print ready
"#;

#[test]
fn zsh_completes_names_and_commands() {
    if !is_installed("zsh") {
        return;
    }
    let (plane, sandbox) = (Plane::new(), with_script("zsh").with("setup", ZSH_SETUP));
    let check = |typed: &str, kubeconfig: &Path, expected: &[&str]| {
        let _ = std::fs::remove_file(sandbox.path("offered"));
        let mut zsh = shell("timeout", &sandbox);
        zsh.args(["60", "zsh", "-f", "-c", ZSH]).env("TYPED", typed).env("KUBECONFIG", kubeconfig);
        let output = zsh.output().unwrap();
        let offered = std::fs::read_to_string(sandbox.path("offered")).unwrap_or_default();
        let has = |word: &&str| offered.lines().any(|line| line == *word);
        assert!(expected.iter().all(has), "{typed}: {offered}\n{output:?}");
    };
    check("ferroplane rollo", &sandbox.path("own"), &["rollout"]);
    check("ferroplane why --context ", &sandbox.path("own"), &["here", "kind-test"]);
    check("ferroplane why namespace/def", &plane.path("kubeconfig"), &["namespace/default"]);
}

#[test]
fn fish_completes_names_and_commands() {
    if !is_installed("fish") {
        return;
    }
    let (plane, sandbox) = (Plane::new(), with_script("fish"));
    let check = |typed: &str, kubeconfig: &Path, expected: &[&str]| {
        let mut fish = shell("fish", &sandbox);
        fish.args(["-c", "source ./script; complete -C \"$TYPED\""]);
        let output = fish.env("TYPED", typed).env("KUBECONFIG", kubeconfig).output().unwrap();
        let offered = String::from_utf8(output.stdout).unwrap();
        // A word is followed by its description.
        let has = |word: &&str| offered.lines().any(|line| line.split('\t').next() == Some(*word));
        assert!(expected.iter().all(has), "{typed}: {offered}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    check("ferroplane rollo", &sandbox.path("own"), &["rollout"]);
    check("ferroplane why --context ", &sandbox.path("own"), &["here", "kind-test"]);
    check("ferroplane why namespace/def", &plane.path("kubeconfig"), &["namespace/default"]);
}
