//! Many calls at once: all are answered, and nothing is left of them.

use std::fs;

use ferroplane_sandbox::Call;

use crate::support::{Sandbox, call, eventually, processes_with, sandbox, shell};

const CALLS: usize = 1000;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_once_leak_nothing() {
    let Some(sandbox) = sandbox().await else { return };
    sandbox.shell("true").await;
    let before = Machine::look();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..CALLS {
        let runtime = sandbox.runtime.clone();
        calls.spawn(async move {
            let container = shell("cat; : marker-4716");
            let (input, key) = (number.to_string(), format!("key {}", number % 7));
            let output = runtime.call(Call { input: input.as_bytes(), key: &key, ..call(&container) }).await;
            (input.into_bytes(), output)
        });
    }
    let mut answered = 0;
    while let Some(result) = calls.join_next().await {
        let (input, output) = result.expect("task");
        assert_eq!(output.expect("call").stdout, input);
        answered += 1;
    }
    assert_eq!(answered, CALLS);
    assert!(processes_with("marker-4716").is_empty());
    tokio::task::block_in_place(|| {
        eventually("nothing is left", || Machine::look().has_no_more_than(&before));
    });
    let scratch = format!("/proc/{}/root/sys/fs/ferroplane", second_stage(&sandbox));
    for directory in ["bundles", "state"] {
        let left = fs::read_dir(format!("{scratch}/{directory}")).expect("directory of the host").count();
        assert_eq!(left, 0, "{directory}");
    }
}

/// The second stage of the host of this sandbox: the child of the process in the ledger.
fn second_stage(sandbox: &Sandbox) -> String {
    let ledger = fs::read_dir(sandbox.directory.path().join("state/ledger")).expect("ledger");
    let entry = ledger.flatten().next().expect("entry").file_name().into_string().expect("name");
    let first = entry.split('-').next().expect("pid");
    let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).expect("children");
    children.trim().to_owned()
}

/// What could leak in this process and on this machine.
#[derive(Debug)]
struct Machine {
    files: usize,
    mounts: usize,
}

impl Machine {
    fn look() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts").lines().count();
        Self { files: fs::read_dir("/proc/self/fd").expect("files").count(), mounts }
    }

    fn has_no_more_than(&self, before: &Self) -> bool {
        // Other tests run beside this one, in the same process.
        self.files <= before.files + 40 && self.mounts <= before.mounts
    }
}
