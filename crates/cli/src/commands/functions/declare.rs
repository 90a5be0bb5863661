//! `ferroplane functions declare`: shows the grants that WebAssembly code declares to need.

use std::path::PathBuf;

use crate::Verdict;
use crate::terminal::Terminal;

/// Show or declare what a WebAssembly function needs of the machine
///
/// Code is granted nothing that it does not declare. Without NEED, print what the code declares.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane functions declare ./labelizer.wasm
  ferroplane functions declare ./labelizer.wasm clock read")]
pub(crate) struct Declare {
    /// The code: a module or a component
    file: PathBuf,

    /// What it needs, beside what it declares already: clock, random, read, write, connect, env
    need: Vec<String>,
}

#[cfg(feature = "wasm")]
impl Declare {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        use anyhow::Context as _;
        use ferroplane_runner::wasm::{Wish, Wishes};

        let name = self.file.display();
        let code = std::fs::read(&self.file).with_context(|| format!("cannot read `{name}`"))?;
        if !code.starts_with(b"\0asm") {
            anyhow::bail!("cannot read `{name}`: it is not WebAssembly");
        }
        let declared = Wishes::of(&code)?;
        let needed = self.need.iter().map(|word| word.parse::<Wish>()).collect::<Result<Wishes, _>>()?;
        let new: Wishes = needed.iter().filter(|wish| !declared.contains(*wish)).collect();
        if self.need.is_empty() {
            let lines: Vec<_> = declared.iter().map(|wish| format!("{wish}\n")).collect();
            terminal.data(lines.concat().as_bytes())?;
        } else if !new.is_empty() {
            replace(&self.file, &new.add_to(&code)).with_context(|| format!("cannot write `{name}`"))?;
        }
        Ok(Verdict::Yes)
    }
}

/// Writes a file as a whole: half of the code would be worse than none.
#[cfg(feature = "wasm")]
fn replace(path: &std::path::Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(directory.unwrap_or(std::path::Path::new(".")))?;
    file.write_all(content)?;
    file.as_file().set_permissions(std::fs::metadata(path)?.permissions())?;
    file.persist(path)?;
    Ok(())
}

#[cfg(not(feature = "wasm"))]
impl Declare {
    pub(crate) fn run(self, _: &mut Terminal) -> anyhow::Result<Verdict> {
        anyhow::bail!(super::wasm::absent(&format!("read `{}`", self.file.display())))
    }
}
