//! `cargo xtask kinds`: the tables of facts about Kubernetes' own kinds, from its own packages.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

const PEER: &str = "kubernetes-kinds";

/// Writes the tables of the `schema` crate. The peer that knows the kinds takes minutes to build.
pub(crate) fn run(root: &Path) -> Result<()> {
    crate::peers::ensure_kinds()?;
    let tables = root.join("crates/schema/src/builtin/tables");
    for entry in fs::read_dir(&tables)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    let source = module_directory(&root.join("tests/peers/oracles").join(PEER))?;
    let program = crate::peers::directory().join(PEER);
    let status = Command::new(&program).args(["tables", &source]).arg(&tables).status();
    ensure!(status.with_context(|| format!("cannot start {}", program.display()))?.success(), "no tables");
    Ok(())
}

/// Where Go keeps the sources of Kubernetes, which say what its API server serves.
fn module_directory(wrapper: &Path) -> Result<String> {
    let list = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"];
    let output = Command::new("go").args(list).current_dir(wrapper).stderr(Stdio::inherit()).output();
    let output = output.context("cannot start go")?;
    ensure!(output.status.success(), "cannot find the sources of Kubernetes");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
