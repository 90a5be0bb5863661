//! How the commands talk to registries, and where they keep images.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use ferroplane_image::auth::Credentials;
use ferroplane_image::registry::{Options, Registry};
use ferroplane_image::store::{Limits, Store};

use crate::package_source::RegistryAccess;

/// Registries, and the cache of what comes from them
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Registries")]
pub(crate) struct RegistryFlags {
    #[command(flatten)]
    client: ClientFlags,

    #[command(flatten)]
    pub(crate) cache: CacheFlags,
}

/// Registries
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Registries")]
pub(crate) struct ClientFlags {
    /// PEM file with further certificate authorities for registries
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,

    /// Registry (HOST or HOST:PORT) to contact over plain HTTP; may be repeated. Registries on this machine need no such flag
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    plain_http: Vec<String>,

    /// Crossplane's flag. It is refused: name the authority with --certificate-authority instead
    #[arg(long, hide = true)]
    insecure_skip_tls_verify: bool,
}

/// The cache of images
#[derive(Debug, Default, clap::Args)]
pub(crate) struct CacheFlags {
    #[arg(
        long,
        value_name = "DIR",
        help = "Directory in which images are kept [default: $XDG_CACHE_HOME/ferroplane/images or ~/.cache/ferroplane/images]"
    )]
    cache_dir: Option<PathBuf>,
}

impl RegistryFlags {
    /// A client for registries, with the credentials of the user.
    pub(crate) fn client(&self) -> anyhow::Result<Registry> {
        self.client.open()
    }
}

impl ClientFlags {
    /// A client for registries, with the credentials of the user.
    pub(crate) fn open(&self) -> anyhow::Result<Registry> {
        let RegistryAccess { authorities, plain_http, .. } = self.access()?;
        let credentials = Credentials::of_the_user();
        let options = Options { credentials, authorities, plain_http, ..Options::default() };
        Registry::new(options).context("cannot set up the client for registries")
    }

    /// How these flags say that registries are asked.
    pub(crate) fn access(&self) -> anyhow::Result<RegistryAccess> {
        if self.insecure_skip_tls_verify {
            bail!(
                "cannot skip the verification of TLS certificates: name the registry's authority with \
                 --certificate-authority, or pass --plain-http HOST for a registry without TLS"
            );
        }
        let authorities = self.certificate_authority.as_deref().map(read_authorities).transpose()?;
        let (authorities, plain_http) = (authorities.unwrap_or_default(), self.plain_http.clone());
        Ok(RegistryAccess { authorities, plain_http, ..RegistryAccess::default() })
    }
}

/// The authorities in a file.
pub(crate) fn read_authorities(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read the authorities in `{}`", file.display()))
}

impl CacheFlags {
    /// The store in which images are kept between commands.
    pub(crate) fn open(&self) -> anyhow::Result<Store> {
        let directory = self.cache_dir.clone().map_or_else(default_directory, Ok)?;
        Store::open(&directory, Limits::default())
            .with_context(|| format!("cannot use `{}` for images", directory.display()))
    }
}

fn default_directory() -> anyhow::Result<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || std::env::home_dir().and_then(absolute).map(|home| home.join(".cache"));
    let cache = cache.or_else(home).context("cannot find a home directory; name one with --cache-dir")?;
    Ok(cache.join("ferroplane/images"))
}
