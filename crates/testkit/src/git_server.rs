//! A server of git on this machine: `git http-backend` behind just enough of HTTP.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::tcp::TcpServer;

/// A server of the repository `templates.git`, and a directory to make commits in.
#[derive(Debug)]
pub struct GitServer {
    directory: PathBuf,
    server: TcpServer,
}

/// What a server of git does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitManner {
    Serves,
    /// Sends everybody elsewhere.
    Redirects,
    /// Accepts, and says nothing.
    Hangs,
}

impl GitServer {
    /// Start a server that keeps its repository in this directory.
    pub fn start(directory: &Path, manner: GitManner) -> Self {
        git(directory, &["init", "--quiet", "--initial-branch=main", "work"]);
        let root = directory.to_owned();
        let server = TcpServer::start(move |stream, _| serve(stream, root.clone(), manner));
        Self { directory: directory.to_owned(), server }
    }

    /// Its address.
    pub fn host(&self) -> String {
        self.server.address()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// The directory to make commits in.
    pub fn work(&self) -> PathBuf {
        self.directory.join("work")
    }

    /// Commits all that is in the directory, publishes it, and tells the commit.
    pub fn commit(&self) -> String {
        let work = self.work();
        git(&work, &["add", "--all"]);
        git(&work, &["commit", "--quiet", "--allow-empty", "--message", "change"]);
        let bare = self.directory.join("templates.git");
        if bare.exists() {
            git(&work, &["push", "--quiet", bare.to_str().expect("it is text"), "main"]);
        } else {
            git(&self.directory, &["clone", "--quiet", "--bare", "work", "templates.git"]);
        }
        git(&work, &["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// A commit of the repository, as a step names it.
    pub fn remote(&self, commit: &str) -> String {
        format!("git://{}/templates.git@{commit}", self.host())
    }

    /// Write files into the directory to make commits in.
    pub fn write(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = self.work().join(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
            std::fs::write(path, text).expect("there is room");
        }
    }
}

/// Runs git as an author would, without the configuration of the process that runs the tests.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let author = [("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@example.org")];
    let committer = [("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@example.org")];
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .envs(author.into_iter().chain(committer))
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
        .output()
        .expect("git is installed");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

async fn serve(stream: TcpStream, root: PathBuf, manner: GitManner) {
    let mut stream = BufReader::new(stream);
    let Some((line, headers)) = head(&mut stream).await else { return };
    if manner == GitManner::Hangs {
        std::future::pending::<()>().await;
    }
    let mut words = line.split_ascii_whitespace();
    let (method, target) = (words.next().unwrap_or("GET").to_owned(), words.next().unwrap_or("/").to_owned());
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let body = if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        chunks(&mut stream).await
    } else {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok();
        body
    };
    let answer = if manner == GitManner::Redirects {
        format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1{target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .into_bytes()
    } else {
        tokio::task::spawn_blocking(move || backend(&root, &method, &target, &headers, &body))
            .await
            .expect("it does not panic")
    };
    stream.write_all(&answer).await.ok();
    stream.shutdown().await.ok();
}

async fn head(stream: &mut BufReader<TcpStream>) -> Option<(String, BTreeMap<String, String>)> {
    let (mut first, mut headers) = (String::new(), BTreeMap::new());
    stream.read_line(&mut first).await.ok()?;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim().split_once(':') {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.trim().to_owned()),
            None => return Some((first, headers)),
        };
    }
}

async fn chunks(stream: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("there is a chunk");
        let size = usize::from_str_radix(line.trim(), 16).expect("it is a size");
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).await.expect("there is a chunk");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

/// What git's own server answers, as an answer of HTTP.
fn backend(
    root: &Path,
    method: &str,
    target: &str,
    headers: &BTreeMap<String, String>,
    body: &[u8],
) -> Vec<u8> {
    use std::io::Write as _;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")])
        .envs([("REQUEST_METHOD", method), ("PATH_INFO", path), ("QUERY_STRING", query)])
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git is installed");
    child.stdin.take().expect("it has one").write_all(body).ok();
    let output = child.wait_with_output().expect("it ends").stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").expect("it has a head");
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let rest = &output[end + 4..];
    let mut answer =
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", rest.len())
            .into_bytes();
    answer.extend_from_slice(rest);
    answer
}
