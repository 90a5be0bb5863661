//! Repositories of git.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use ferroplane_remote_templates::{Error, Fetcher, Limits, Options};
use ferroplane_testkit::{GitManner, GitServer, git};
use tempfile::TempDir;

use crate::{chain, fetcher, files, is_there, options};

#[tokio::test]
async fn commit_of_a_repository_is_fetched_whatever_came_after_it() {
    if !is_there("git") {
        return;
    }
    let place = TempDir::new().unwrap();
    let server = GitServer::start(place.path(), GitManner::Serves);
    server.write(&[("README.md", "all"), ("web/a.tmpl", "one {{ 1 }}"), ("web/sub/b.tmpl", "two")]);
    server.write(&[("web/.hidden", "no"), ("website/c.tmpl", "no")]);
    symlink("/etc/passwd", server.work().join("web/link")).unwrap();
    let first = server.commit();
    server.write(&[("web/a.tmpl", "changed")]);
    let second = server.commit();

    let fetcher = fetcher(&[&server.host()]);
    let old = fetcher.fetch(&format!("{}#web", server.remote(&first))).await.unwrap();
    let expected = [("a.tmpl", "one {{ 1 }}"), ("sub/b.tmpl", "two")];
    assert!(files(&old).iter().map(|(name, text)| (name.as_str(), text.as_str())).eq(expected));
    let new = fetcher.fetch(&format!("{}#web", server.remote(&second))).await.unwrap();
    assert_eq!(files(&new)["a.tmpl"], "changed");
    let all = fetcher.fetch(&server.remote(&second)).await.unwrap();
    assert_eq!(files(&all).len(), 4);
}

#[tokio::test]
async fn reconcile_never_waits_and_a_hundred_of_them_fetch_once() {
    if !is_there("git") {
        return;
    }
    let place = TempDir::new().unwrap();
    let server = GitServer::start(place.path(), GitManner::Serves);
    server.write(&[("a.tmpl", "x")]);
    let remote = server.remote(&server.commit());
    let fetcher = fetcher(&[&server.host()]);
    for _ in 0..100 {
        assert!(matches!(fetcher.get(&remote), Err(Error::Fetching)));
    }
    let templates = fetcher.fetch(&remote).await.unwrap();
    let connections = server.connections();
    // The same object, so that what was parsed of it is found again.
    assert_eq!(fetcher.get(&remote).unwrap(), templates);
    assert_eq!(server.connections(), connections);
}

#[tokio::test]
async fn what_was_fetched_is_there_after_a_restart_without_a_network() {
    if !is_there("git") {
        return;
    }
    let place = TempDir::new().unwrap();
    let server = GitServer::start(place.path(), GitManner::Serves);
    server.write(&[("a.tmpl", "x")]);
    let remote = server.remote(&server.commit());
    let directory = TempDir::new().unwrap();
    let cached = || {
        let directory = Some(directory.path().join("templates"));
        Fetcher::new(Options { directory, ..options(&[&server.host()]) }).unwrap()
    };
    let first = cached().fetch(&remote).await.unwrap();
    let connections = server.connections();
    assert_eq!(cached().fetch(&remote).await.unwrap(), first);
    assert_eq!(server.connections(), connections);
    // Who is not allowed any more gets nothing, though it is there.
    let other = Options { directory: Some(directory.path().join("templates")), ..options(&[]) };
    assert!(matches!(Fetcher::new(other).unwrap().fetch(&remote).await, Err(Error::NotAllowed)));
}

#[tokio::test]
async fn commit_that_is_not_there_is_told_in_stable_words() {
    if !is_there("git") {
        return;
    }
    let place = TempDir::new().unwrap();
    let server = GitServer::start(place.path(), GitManner::Serves);
    server.write(&[("a.tmpl", "x")]);
    server.commit();
    let remote = server.remote(&"1".repeat(40));
    let error = fetcher(&[&server.host()]).fetch(&remote).await.unwrap_err();
    let again = fetcher(&[&server.host()]).fetch(&remote).await.unwrap_err();
    assert!(error.to_string().starts_with("git could not fetch the commit: "), "{error}");
    assert_eq!(error.to_string(), again.to_string());
    let empty =
        fetcher(&[&server.host()]).fetch(&format!("{}#nowhere", server.remote(&server.commit()))).await;
    assert_eq!(empty.unwrap_err().to_string(), "there are no files in directory `nowhere`");
}

#[tokio::test]
async fn redirect_is_not_followed() {
    if !is_there("git") {
        return;
    }
    let place = TempDir::new().unwrap();
    let server = GitServer::start(place.path(), GitManner::Redirects);
    let error = fetcher(&[&server.host()]).fetch(&server.remote(&"1".repeat(40))).await.unwrap_err();
    assert!(error.to_string().contains("302"), "{error}");
}

#[tokio::test]
async fn server_that_says_nothing_is_left_after_a_while() {
    if !is_there("git") {
        return;
    }
    let place = TempDir::new().unwrap();
    let server = GitServer::start(place.path(), GitManner::Hangs);
    let limits = Limits { time: Duration::from_millis(700), ..Limits::default() };
    let fetcher = Fetcher::new(Options { limits, ..options(&[&server.host()]) }).unwrap();
    let error = fetcher.fetch(&server.remote(&"1".repeat(40))).await.unwrap_err();
    assert!(matches!(error, Error::TooSlow { .. }), "{error}");
    // It is not tried again at once, and says the same.
    let connections = server.connections();
    assert!(matches!(fetcher.get(&server.remote(&"1".repeat(40))), Err(Error::TooSlow { .. })));
    assert_eq!(server.connections(), connections);
}

#[tokio::test]
async fn repository_that_is_too_large_is_not_fetched_to_its_end() {
    if !is_there("git") {
        return;
    }
    let place = TempDir::new().unwrap();
    let server = GitServer::start(place.path(), GitManner::Serves);
    // Text that cannot be compressed, of a generator that is none.
    let mut state = 1u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from(state >> 58).unwrap())
    };
    let text: String = (0..8 << 20).map(|_| noise()).collect();
    server.write(&[("large", &text), ("web/a.tmpl", "x")]);
    let remote = server.remote(&server.commit());
    let with = |limits: Limits| Fetcher::new(Options { limits, ..options(&[&server.host()]) }).unwrap();
    let error = with(Limits { transfer: 1 << 20, ..Limits::default() }).fetch(&remote).await.unwrap_err();
    assert!(matches!(error, Error::TransferTooLarge { .. }), "{}", chain(&error));
    let error = with(Limits::default()).fetch(&remote).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{}", chain(&error));
    with(Limits::default()).fetch(&format!("{remote}#web")).await.unwrap();
}

#[tokio::test]
async fn git_sees_neither_configuration_nor_secrets_of_ours() {
    let directory = TempDir::new().unwrap();
    let program = directory.path().join("git");
    std::fs::write(&program, "#!/bin/sh\nenv >&2\necho \"$@\" >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let fetcher = Fetcher::new(Options { git: program, ..options(&["git.example.org"]) }).unwrap();
    let error = fetcher.fetch(&format!("git://git.example.org/t@{}", "1".repeat(40))).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("GIT_CONFIG_GLOBAL=/dev/null") && !said.contains("CARGO"), "{said}");
    let missing = Options { git: directory.path().join("none"), ..options(&["git.example.org"]) };
    let error =
        Fetcher::new(missing).unwrap().fetch(&format!("git://git.example.org/t@{}", "1".repeat(40))).await;
    assert!(error.unwrap_err().to_string().contains("install git"));
}

#[tokio::test]
async fn hooks_and_filters_of_a_repository_do_not_run() {
    if !is_there("git") {
        return;
    }
    let place = TempDir::new().unwrap();
    let server = GitServer::start(place.path(), GitManner::Serves);
    let mark = server.work().join("../mark");
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    server.write(&[
        ("a.tmpl", "x"),
        (".gitattributes", "* filter=evil\n"),
        (".gitconfig", &format!("[filter \"evil\"]\nsmudge = touch {}\n", mark.display())),
        ("hooks/post-checkout", &script),
    ]);
    git(&server.work(), &["update-index", "--add", "--chmod=+x", "hooks/post-checkout"]);
    let remote = server.remote(&server.commit());
    let fetched = fetcher(&[&server.host()]).fetch(&remote).await.unwrap();
    assert_eq!(files(&fetched)["a.tmpl"], "x");
    assert!(!mark.exists());
}
