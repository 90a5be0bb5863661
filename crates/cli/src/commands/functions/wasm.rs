//! Calls a function that is WebAssembly in a file, within limits.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::bail;

/// Why WebAssembly cannot have a limit or a grant.
pub(super) const NO_PROCESSORS: &str =
    "cannot limit the processors of WebAssembly: it runs on one; limit its time";
pub(super) const NO_NETWORK: &str =
    "cannot grant WebAssembly the network: grant addresses, as in --grant connect=10.0.0.1:443";

/// What WebAssembly may see of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CodeGrant {
    /// The clocks of this machine
    Clock,
    /// The random numbers of this machine
    Random,
    /// A directory on this machine, and what the code calls it
    Directory { path: PathBuf, name: String, is_writable: bool },
    /// An address that it may connect to
    Connect(SocketAddr),
    /// A variable of its environment
    Variable { name: String, value: String },
}

/// What `--grant` expects.
const EXPECTED: &str = "expected network, chroot or local-addresses; or for WebAssembly clock, random, read=DIRECTORY, \
     write=DIRECTORY, connect=ADDRESS:PORT or env=NAME=VALUE";

/// Whether a function is named by a file with WebAssembly.
pub(super) fn is_code(function: &str) -> bool {
    Path::new(function).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("wasm"))
}

/// Read what is granted.
pub(super) fn grant(text: &str) -> Result<CodeGrant, String> {
    let (what, value) = text.split_once('=').unwrap_or((text, ""));
    match (what, value) {
        ("clock", "") => Ok(CodeGrant::Clock),
        ("random", "") => Ok(CodeGrant::Random),
        ("read" | "write", path) if !path.is_empty() => {
            let (path, name) = path.rsplit_once(':').unwrap_or((path, path));
            let (path, name) = (PathBuf::from(path), name.to_owned());
            Ok(CodeGrant::Directory { path, name, is_writable: what == "write" })
        }
        ("connect", address) => address
            .parse()
            .map(CodeGrant::Connect)
            .map_err(|_| "expected an address with a port, for example connect=127.0.0.1:8080".to_owned()),
        ("env", variable) => match variable.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(CodeGrant::Variable { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err("expected a variable with its value, for example env=REGION=eu".to_owned()),
        },
        _ => Err(EXPECTED.to_owned()),
    }
}

/// The grants as the annotation of a Function has them.
pub(super) fn to_annotation(grants: &[CodeGrant]) -> anyhow::Result<String> {
    let texts = grants.iter().map(|grant| match grant {
        CodeGrant::Clock => Ok("clock".to_owned()),
        CodeGrant::Random => Ok("random".to_owned()),
        CodeGrant::Connect(address) => Ok(format!("connect={address}")),
        CodeGrant::Variable { name, value } => Ok(format!("env={name}={value}")),
        CodeGrant::Directory { .. } => {
            bail!("cannot grant a package directories of this machine: run the file of its code instead")
        }
    });
    Ok(texts.collect::<anyhow::Result<Vec<_>>>()?.join(","))
}

#[cfg(not(feature = "wasm"))]
pub(super) use absent::call;
#[cfg(feature = "wasm")]
pub(super) use present::call;

/// Why a build without WebAssembly cannot do something.
#[cfg(not(feature = "wasm"))]
pub(super) fn absent(what: &str) -> String {
    format!(
        "cannot {what}: this build of ferroplane has no WebAssembly: build one with \
         `cargo build --release --features wasm`"
    )
}

/// The limits of the code that the arguments give.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CodeLimits {
    pub(super) time: Option<std::time::Duration>,
    pub(super) memory: Option<u64>,
}

#[cfg(feature = "wasm")]
mod present {
    use std::path::Path;
    use std::sync::{Arc, Mutex, PoisonError};

    use anyhow::Context as _;
    use ferroplane_runner::{Directory, Runner, WasmFunction, shared_wasm_runtime, wasm};
    use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

    use super::super::run::CALLING;
    use super::{CodeGrant, CodeLimits};
    use crate::terminal::Terminal;

    /// Call the code in a file once. What it logs is printed.
    pub(in super::super) async fn call(
        function: &str,
        limits: CodeLimits,
        grants: &[CodeGrant],
        request: &RunFunctionRequest,
        terminal: &mut Terminal,
    ) -> anyhow::Result<RunFunctionResponse> {
        let code = std::fs::read(function).with_context(|| format!("cannot read `{function}`"))?;
        let defaults = wasm::Limits::default();
        let memory = limits.memory.map(|memory| usize::try_from(memory).unwrap_or(usize::MAX));
        let limits = wasm::Limits {
            time: limits.time.unwrap_or(defaults.time),
            memory: memory.unwrap_or(defaults.memory),
            ..defaults
        };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let compile = || {
            shared_wasm_runtime().and_then(|runtime| {
                WasmFunction::new(&runtime, &name(function), &code, to_grants(grants), limits)
            })
        };
        let compiled = terminal.work("compiling the function", compile);
        let compiled = compiled.map_err(|error| refusal(function, error))?;
        report_wishes(function, &code, compiled.grants(), terminal)?;
        let compiled = compiled.logging_to(Arc::new(move |line: &str| {
            sink.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
        }));
        let mut directory = Directory::default();
        directory.insert(function.to_owned(), Runner::Wasm(compiled));
        let answer = terminal.wait(CALLING, directory.call(function, request)).await;
        for line in lines.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            terminal.line(&line);
        }
        answer.with_context(|| format!("cannot call `{function}`"))
    }

    /// Why code does not run, and what helps.
    fn refusal(function: &str, error: wasm::Error) -> anyhow::Error {
        let remedy = match &error {
            wasm::Error::NotDeclared { wish } => {
                format!(": if it does, `ferroplane functions declare {function} {wish}` declares it")
            }
            _ => String::new(),
        };
        anyhow::Error::new(error).context(format!("cannot run `{function}`{remedy}"))
    }

    /// Say what the code needs, if it was not granted all of that.
    fn report_wishes(
        function: &str,
        code: &[u8],
        grants: &wasm::Grants,
        terminal: &mut Terminal,
    ) -> anyhow::Result<()> {
        let wishes = wasm::Wishes::of(code)?;
        let granted: wasm::Wishes = grants.wishes().collect();
        if wishes.iter().any(|wish| !granted.contains(wish)) {
            let granted = if granted.is_empty() { "nothing".to_owned() } else { granted.to_string() };
            terminal.note(&format!("`{function}` declares that it needs {wishes}; it is granted {granted}"));
        }
        Ok(())
    }

    fn name(function: &str) -> String {
        let stem = Path::new(function).file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    fn to_grants(granted: &[CodeGrant]) -> wasm::Grants {
        let mut grants = wasm::Grants::default();
        for grant in granted.iter().cloned() {
            match grant {
                CodeGrant::Clock => grants.clock = true,
                CodeGrant::Random => grants.randomness = true,
                CodeGrant::Directory { path, name, is_writable } => {
                    grants.directories.push(wasm::Directory { path, name, is_writable });
                }
                CodeGrant::Connect(address) => {
                    grants.addresses.insert(address);
                }
                CodeGrant::Variable { name, value } => {
                    grants.env.insert(name, value);
                }
            }
        }
        grants
    }
}

#[cfg(not(feature = "wasm"))]
mod absent {
    use anyhow::bail;
    use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

    use super::{CodeGrant, CodeLimits};
    use crate::terminal::Terminal;

    #[expect(clippy::unused_async, reason = "in other builds it has something to wait for")]
    pub(in super::super) async fn call(
        function: &str,
        _: CodeLimits,
        _: &[CodeGrant],
        _: &RunFunctionRequest,
        _: &mut Terminal,
    ) -> anyhow::Result<RunFunctionResponse> {
        bail!(super::absent(&format!("run `{function}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read() {
        assert_eq!(grant("clock"), Ok(CodeGrant::Clock));
        let directory = |path: &str, name: &str, is_writable| {
            Ok(CodeGrant::Directory { path: path.into(), name: name.to_owned(), is_writable })
        };
        assert_eq!(grant("read=/etc"), directory("/etc", "/etc", false));
        assert_eq!(grant("write=./out:/data"), directory("./out", "/data", true));
        assert_eq!(grant("connect=[::1]:80"), Ok(CodeGrant::Connect("[::1]:80".parse().unwrap())));
        let variable = CodeGrant::Variable { name: "A".to_owned(), value: "b=c".to_owned() };
        assert_eq!(grant("env=A=b=c"), Ok(variable));
        for bad in [
            "",
            "clock=1",
            "read=",
            "read",
            "connect=example.org:80",
            "connect=1.2.3.4",
            "env=A",
            "env==b",
            "all",
        ] {
            assert!(grant(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn grants_of_a_package_are_those_of_its_annotation() {
        let granted = |texts: &[&str]| {
            let grants: Vec<_> = texts.iter().map(|text| grant(text).unwrap()).collect();
            to_annotation(&grants).map_err(|error| error.to_string())
        };
        let all = ["clock", "random", "connect=[::1]:80", "env=A=b=c"];
        assert_eq!(granted(&all), Ok(all.join(",")));
        assert_eq!(granted(&[]), Ok(String::new()));
        assert!(granted(&["clock", "read=/etc"]).unwrap_err().contains("directories of this machine"));
    }

    #[test]
    fn code_is_known_by_its_name() {
        assert!(is_code("./a.wasm") && is_code("dir/B.WASM"));
        assert!(!is_code("registry.example.org/wasm:v1") && !is_code("function-auto-ready"));
    }
}
