//! Reads the versions file and the input schemas, checks them, and embeds them: whoever breaks a rule of the life of
//! versions cannot build.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ferroplane_engine::versions::{Catalogue, Family, Fault, Lifecycle, State, Version};
use serde::Deserialize;
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const VERSIONS: &str = "versions.yaml";
const LEDGER: &str = "versions.ledger";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    functions: BTreeMap<String, Function>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    about: String,
    stable: String,
    package: Option<String>,
    versions: BTreeMap<String, Listed>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Listed {
    introduced_in: String,
    deprecated_in: Option<String>,
    removed_in: Option<String>,
    replaced_by: Option<String>,
    covers: Option<String>,
    #[serde(default = "composition")]
    capabilities: Vec<String>,
}

fn composition() -> Vec<String> {
    vec!["composition".to_owned()]
}

fn main() -> ExitCode {
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for line in error.to_string().lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let release: Version = env::var("CARGO_PKG_VERSION")?.parse()?;
    let file: File =
        serde_saphyr::from_str(&read(&root, VERSIONS)?).map_err(|error| format!("{VERSIONS}: {error}"))?;
    let faults = [check(&file, &release)?, check_ledger(&file, &read(&root, LEDGER)?)?].concat();
    if !faults.is_empty() {
        return Err(faults.join("\n").into());
    }
    let mut code = String::from("&[\n");
    for (name, function) in &file.functions {
        write_function(&mut code, &root, name, function)?;
    }
    code.push_str("]\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("listed.rs"), code)?;
    Ok(())
}

/// The same rules as at start, where the code is known too: here, all that is not removed counts as implemented.
fn check(file: &File, release: &Version) -> Result<Vec<String>> {
    let mut catalogue = Catalogue::new(release.clone());
    let mut faults = Vec::new();
    for (name, function) in &file.functions {
        let mut versions = Vec::new();
        for (number, listed) in &function.versions {
            let lifecycle = lifecycle(listed)?;
            let is_implemented = lifecycle.state(false, release) != State::Removed;
            versions.push((number.parse()?, lifecycle, is_implemented));
            if let Some(covers) = &listed.covers {
                semver::VersionReq::parse(covers)
                    .map_err(|error| format!("{name} {number}: covers: {error}"))?;
            }
        }
        let family = Family::built_in(name, function.stable.parse()?, versions);
        faults.extend(catalogue.add(family).err().unwrap_or_default());
    }
    Ok(faults.iter().map(|fault| format!("{VERSIONS}: {fault}")).collect())
}

fn lifecycle(listed: &Listed) -> Result<Lifecycle> {
    let parse = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
    Ok(Lifecycle {
        introduced_in: Some(listed.introduced_in.parse()?),
        deprecated_in: parse(&listed.deprecated_in)?,
        removed_in: parse(&listed.removed_in)?,
        replaced_by: parse(&listed.replaced_by)?,
    })
}

/// What was once listed may not vanish, and what is listed has to be remembered.
fn check_ledger(file: &File, ledger: &str) -> Result<Vec<String>> {
    let mut listed = BTreeSet::new();
    for (name, function) in &file.functions {
        for number in function.versions.keys() {
            listed.insert((name.clone(), number.parse::<Version>()?));
        }
    }
    let mut remembered = BTreeSet::new();
    for line in ledger.lines() {
        let (name, number) =
            line.split_once(' ').ok_or_else(|| format!("{LEDGER}: expected NAME VERSION, got `{line}`"))?;
        remembered.insert((name.to_owned(), number.parse::<Version>()?));
    }
    let vanished = remembered.difference(&listed).map(|(function, version)| {
        let fault = Fault::Vanished { function: function.clone(), version: version.clone() };
        format!("{VERSIONS}: {fault}")
    });
    let forgotten = listed.difference(&remembered);
    let forgotten = forgotten.map(|(name, number)| format!("{LEDGER}: add the line `{name} {number}`"));
    Ok(vanished.chain(forgotten).collect())
}

fn write_function(code: &mut String, root: &Path, name: &str, function: &Function) -> Result<()> {
    let Function { about, stable, package, versions } = function;
    let module = PathBuf::from("src").join(name.trim_start_matches("function-").replace('-', "_"));
    let input = read_if_there(root, &module.join("input.yaml"))?;
    let input =
        input.map(|text| to_json(&text).map_err(|error| format!("{}/input.yaml: {error}", module.display())));
    let input = input.transpose()?;
    let example = read_if_there(root, &module.join("example.yaml"))?;
    writeln!(
        code,
        "Listed {{ function: {name:?}, about: {about:?}, stable: {stable:?}, package: {package:?}, input: {input:?}, \
         example: {example:?}, versions: &["
    )?;
    for (number, listed) in versions {
        let Listed { introduced_in, deprecated_in, removed_in, replaced_by, covers, capabilities } = listed;
        writeln!(
            code,
            "ListedVersion {{ version: {number:?}, introduced_in: {introduced_in:?}, deprecated_in: {deprecated_in:?}, \
             removed_in: {removed_in:?}, replaced_by: {replaced_by:?}, covers: {covers:?}, capabilities: &{capabilities:?} }},"
        )?;
    }
    code.push_str("] },\n");
    Ok(())
}

fn to_json(text: &str) -> Result<String> {
    Ok(serde_json::to_string(&serde_saphyr::from_str::<Value>(text)?)?)
}

fn read(root: &Path, path: &str) -> Result<String> {
    read_if_there(root, Path::new(path))?.ok_or_else(|| format!("{path} is missing").into())
}

fn read_if_there(root: &Path, path: &Path) -> Result<Option<String>> {
    println!("cargo::rerun-if-changed={}", path.display());
    let path = root.join(path);
    Ok(path.exists().then(|| fs::read_to_string(&path)).transpose()?)
}
