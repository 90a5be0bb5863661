//! A store that was damaged while nothing ran says so, and what is left of it can be kept.

use rustix::process::Signal;

use super::plane;
use crate::plane::{Plane, ferroplane};

#[test]
fn damaged_store_does_not_start_and_what_is_left_can_be_kept() {
    let Some(mut plane) = plane() else { return };
    plane.says("for i in $(seq 20); do kubectl create cm thing-$i; done");
    plane.signal(Signal::KILL);
    plane.end();
    let ahead = plane.path("data/store.db-wal");
    let mut content = std::fs::read(&ahead).unwrap();
    // In its header, because which frames have moved into the database already is a matter of time.
    content[20] ^= 1;
    std::fs::write(&ahead, &content).unwrap();

    let directory = plane.into_directory();
    let run = |arguments: &[&str]| {
        let output = ferroplane(directory.path(), arguments).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_up, said) = run(&["up", "--listen", "127.0.0.1:0", "--data-dir", "data"]);
    assert!(!is_up && said.contains("may have lost acknowledged writes"), "{said}");
    let (is_copied, said) = run(&["backup", "copy.db", "--data-dir", "data"]);
    assert!(!is_copied && said.contains("may have lost acknowledged writes"), "{said}");
    assert_eq!(std::fs::read(&ahead).unwrap(), content, "it is left as it is");
    assert_eq!(
        run(&["backup", "--salvage", "copy.db", "--data-dir", "data"]),
        (true, "note: wrote `copy.db`\n".to_owned())
    );
    // Standard output is the file.
    assert_eq!(run(&["backup", "--salvage", "-", "--data-dir", "data"]), (true, String::new()));
    let (is_restored, said) = run(&["restore", "--force", "copy.db", "--data-dir", "data"]);
    assert!(is_restored, "{said}");
    let plane = Plane::start(directory, &["--data-dir", "data"]);
    plane.says("kubectl get ns default && kubectl create cm another");
}
