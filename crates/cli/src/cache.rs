//! Where compiled WebAssembly is kept for the next process.

use std::path::PathBuf;

/// The directory of this user. None without a home directory: code is compiled at every start then.
pub(crate) fn code_cache() -> Option<PathBuf> {
    let is_usable = |path: &PathBuf| path.is_absolute();
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(is_usable);
    let usual = || std::env::home_dir().filter(is_usable).map(|home| home.join(".cache"));
    Some(named.or_else(usual)?.join("ferroplane/wasm"))
}
