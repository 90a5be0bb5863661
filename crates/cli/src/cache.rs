//! Where compiled WebAssembly is kept for the next process.

use std::path::PathBuf;

/// Names the directory of compiled code alone. `XDG_CACHE_HOME` decides where images are kept, too, and these need more room than a volume
/// for code has.
const DIRECTORY: &str = "FERROPLANE_CODE_CACHE";

/// The directory that is named for it, or one of this user. None without a home directory: code is compiled at every start then.
pub(crate) fn code_cache() -> Option<PathBuf> {
    let is_usable = |path: &PathBuf| path.is_absolute();
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(is_usable);
    let usual = || std::env::home_dir().filter(is_usable).map(|home| home.join(".cache"));
    let of_user = || Some(named("XDG_CACHE_HOME").or_else(usual)?.join("ferroplane/wasm"));
    named(DIRECTORY).or_else(of_user)
}
