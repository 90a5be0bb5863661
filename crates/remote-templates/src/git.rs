//! Commits of repositories of git, fetched by the program `git`.
//!
//! Nothing of the repository is executed or checked out: objects are fetched into an empty bare repository, where there are neither
//! hooks nor filters, and read from there. Git sees no configuration, no credentials and no prompt, and speaks HTTPS alone; plain HTTP
//! with this machine. Redirects are not followed, since they would lead away from what was allowed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::files::Files;
use crate::{Error, Limits};

/// The arguments of every git command.
const SETTINGS: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "credential.helper=",
    "fetch.fsckObjects=true",
    "gc.auto=0",
    "http.followRedirects=false",
    "http.sslVerify=true",
    "maintenance.auto=false",
    "protocol.version=2",
    "submodule.recurse=false",
    "transfer.bundleURI=false",
    "transfer.credentialsInUrl=die",
];
/// What it may know of our environment: how to reach the network, and whom to trust there.
const ENVIRONMENT: [&str; 7] =
    ["PATH", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"];
/// How much of git's output is quoted.
const LAST_WORDS: usize = 500;
/// How often the bytes that came are counted.
const LOOK: Duration = Duration::from_millis(50);

/// A repository that is fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit<'c> {
    pub(crate) location: &'c str,
    pub(crate) commit: &'c str,
}

/// The files in a directory of a commit.
pub(crate) async fn fetch(
    program: &Path,
    of: Commit<'_>,
    directory: &str,
    limits: Limits,
) -> Result<BTreeMap<String, String>, Error> {
    let place = tempfile::tempdir()?;
    let git = Git { program, place: place.path(), transfer: limits.transfer };
    let format = if of.commit.len() == 64 { "--object-format=sha256" } else { "--object-format=sha1" };
    git.run("make a repository", &["init", "--quiet", "--bare", "--template=", format, "."]).await?;
    let scheme = if is_this_machine(of.location) { "http" } else { "https" };
    let url = format!("{scheme}://{}", of.location);
    let fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", &url, of.commit];
    git.run("fetch the commit", &fetch).await?;
    let listing =
        git.run("list the files", &["ls-tree", "-r", "-z", "--long", "--full-tree", of.commit]).await?;
    let mut files = Files::new(directory, limits);
    let wanted = wanted(&listing, &files, limits)?;
    let hashes: Vec<_> = wanted.iter().map(|blob| blob.hash.as_str()).collect();
    let hashes = hashes.join("\n") + "\n";
    let contents = git.run_with("read the files", &["cat-file", "--batch"], hashes.as_bytes()).await?;
    let mut rest = &contents[..];
    for blob in wanted {
        let content = blob.take_from(&mut rest).ok_or(Error::Ended)?;
        files.add(blob.path, content)?;
    }
    files.finish()
}

/// Whether a host is this machine, by its address: names can lead anywhere.
fn is_this_machine(location: &str) -> bool {
    let host = location.split('/').next().unwrap_or_default();
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.split(']').next())
        .unwrap_or_else(|| host.rsplit_once(':').map_or(host, |(host, _)| host));
    host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A file of a commit.
struct Blob {
    hash: String,
    size: u64,
    path: String,
}

impl Blob {
    /// The content, from the beginning of what `git cat-file --batch` wrote.
    fn take_from(&self, rest: &mut &[u8]) -> Option<Vec<u8>> {
        let head = format!("{} blob {}\n", self.hash, self.size);
        let after = rest.strip_prefix(head.as_bytes())?;
        let (content, after) = after.split_at_checked(usize::try_from(self.size).ok()?)?;
        *rest = after.strip_prefix(b"\n")?;
        Some(content.to_vec())
    }
}

/// The files that are wanted, of all that `git ls-tree` lists, if they are not too many or too large.
fn wanted(listing: &[u8], files: &Files<'_>, limits: Limits) -> Result<Vec<Blob>, Error> {
    let mut wanted = Vec::new();
    let mut bytes = 0u64;
    for line in listing.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let Some(blob) = read_line(line, files) else { continue };
        bytes = bytes.saturating_add(blob.size);
        if bytes > limits.bytes {
            return Err(Error::TooLarge { limit: limits.bytes });
        }
        wanted.push(blob);
        if wanted.len() > limits.files {
            return Err(Error::TooMany { limit: limits.files });
        }
    }
    Ok(wanted)
}

/// A line of the listing, if it is about a file that is wanted. Links and submodules lead elsewhere.
fn read_line(line: &[u8], files: &Files<'_>) -> Option<Blob> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let path = files.wanted(&line[tab + 1..])?;
    let head = std::str::from_utf8(&line[..tab]).ok()?;
    let mut fields = head.split_ascii_whitespace();
    let (mode, kind, hash, size) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let is_file = ["100644", "100755"].contains(&mode) && kind == "blob";
    is_file.then_some(Blob { hash: hash.to_owned(), size: size.parse().ok()?, path })
}

/// Runs git in a directory of its own.
struct Git<'g> {
    program: &'g Path,
    place: &'g Path,
    transfer: u64,
}

impl Git<'_> {
    async fn run(&self, what: &'static str, arguments: &[&str]) -> Result<Vec<u8>, Error> {
        self.run_with(what, arguments, b"").await
    }

    async fn run_with(&self, what: &'static str, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, Error> {
        let mut running = Running(self.start(arguments)?);
        let child = &mut running.0;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(Error::Ended);
        };
        let write = async {
            // A process that ends before it has read all of it reports why itself.
            stdin.write_all(input).await.ok();
            drop(stdin);
        };
        let (mut output, mut said) = (Vec::new(), Vec::new());
        // Whatever comes here is bounded by what was transferred.
        let (mut stdout, mut stderr) = (stdout.take(self.transfer), stderr.take(1 << 20));
        let work = async {
            let ((), read, _) =
                tokio::join!(write, stdout.read_to_end(&mut output), stderr.read_to_end(&mut said));
            read?;
            child.wait().await
        };
        let status = tokio::select! {
            status = work => status?,
            () = self.outgrown() => return Err(Error::TransferTooLarge { limit: self.transfer }),
        };
        if !status.success() {
            return Err(Error::Git { what, said: last_words(&said) });
        }
        Ok(output)
    }

    fn start(&self, arguments: &[&str]) -> Result<Child, Error> {
        let mut command = Command::new(self.program);
        command.env_clear().current_dir(self.place);
        command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        let nothing = OsStr::new("/dev/null");
        command.envs([
            ("HOME", self.place.as_os_str()),
            ("GIT_CONFIG_GLOBAL", nothing),
            ("GIT_CONFIG_SYSTEM", nothing),
            ("GIT_CONFIG_NOSYSTEM", OsStr::new("1")),
            ("GIT_TERMINAL_PROMPT", OsStr::new("0")),
            ("GIT_ASKPASS", OsStr::new("/bin/false")),
            ("GIT_ALLOW_PROTOCOL", OsStr::new(protocol(arguments))),
            ("GIT_NO_LAZY_FETCH", OsStr::new("1")),
            ("GIT_NO_REPLACE_OBJECTS", OsStr::new("1")),
            ("LC_ALL", OsStr::new("C")),
        ]);
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).args(arguments);
        // A group of its own, so that what git starts ends with it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let program = || self.program.display().to_string();
        command.spawn().map_err(|error| Error::NoGit { program: program(), reason: error.to_string() })
    }

    /// Ends when there is too much in the directory.
    async fn outgrown(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if size(self.place) > self.transfer {
                return;
            }
        }
    }
}

/// What git may speak: what we told it to speak, and nothing that a server sends it to.
fn protocol(arguments: &[&str]) -> &'static str {
    if arguments.iter().any(|argument| argument.starts_with("http://")) { "http" } else { "https" }
}

/// The bytes in a directory, as far as it can be read. Git moves its files meanwhile.
fn size(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// A program that ends with this, and all that it started.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The id is that of a process that was not waited for, so that no other process can have it.
        let id = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(id) = id {
            kill_process_group(id, Signal::KILL).ok();
        }
    }
}

/// What git said, in one line that does not change with time or place.
fn last_words(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let text: String = lines.collect::<Vec<_>>().join("; ");
    let text: String = text.chars().filter(|letter| !letter.is_control()).take(LAST_WORDS).collect();
    if text.is_empty() { "it gave no reason".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_addresses_of_this_machine() {
        for location in ["127.0.0.1:8080/t", "127.0.0.1/t", "[::1]:80/t", "[::1]/t"] {
            assert!(is_this_machine(location), "{location}");
        }
        for location in ["localhost/t", "127.0.0.1.example.org/t", "10.0.0.1/t", "git.example.org/127.0.0.1"]
        {
            assert!(!is_this_machine(location), "{location}");
        }
    }

    #[test]
    fn listing_is_read_within_limits() {
        let hash = "0".repeat(40);
        let listing = format!(
            "100644 blob {hash}     3\ta.yaml\0120000 blob {hash}    9\tlink\0160000 commit {hash}    -\tmodule\0\
             100755 blob {hash}    4\tb/c\0broken\0"
        );
        let limits = Limits { bytes: 7, files: 2, ..Limits::default() };
        let files = Files::new("", limits);
        let found = wanted(listing.as_bytes(), &files, limits).unwrap();
        assert_eq!(found.iter().map(|blob| blob.path.as_str()).collect::<Vec<_>>(), ["a.yaml", "b/c"]);
        let small = Limits { bytes: 6, ..limits };
        assert!(matches!(wanted(listing.as_bytes(), &files, small), Err(Error::TooLarge { .. })));
        let few = Limits { files: 1, ..limits };
        assert!(matches!(wanted(listing.as_bytes(), &files, few), Err(Error::TooMany { .. })));
        let mut batch = format!("{hash} blob 3\nabc\n").into_bytes();
        assert_eq!(found[0].take_from(&mut &batch[..]).unwrap(), b"abc");
        batch.truncate(48);
        assert!(found[0].take_from(&mut &batch[..]).is_none());
    }
}
