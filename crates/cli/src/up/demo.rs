//! The demo: a kind of composite resource, and its composed resources on a simulated cloud.

mod platform;
mod tree;
mod watching;

use std::path::Path;
use std::time::{Duration, Instant};

use ferroplane_client::{ApiClient, LabelSelector};

use crate::terminal::Terminal;
use platform::Found;
use watching::Picture;

/// How long to wait for the demo before its state is shown as it is.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same for one that exists already: a user may have changed it.
const LITTLE_PATIENCE: Duration = Duration::from_secs(3);
/// Everything of the demo has this label.
const LABEL: &str = "ferroplane.io/demo";

/// Selects everything of the demo.
fn selector() -> LabelSelector {
    [(LABEL, "platform")].into_iter().collect()
}

/// The API group of the demo's cloud, which has to be simulated.
pub(super) const CLOUD: &str = "cloud.demo.ferroplane.io";

/// Where the demo is.
#[derive(Debug, Clone, Copy)]
pub(super) struct DemoHome<'a> {
    pub(super) kubeconfig: &'a Path,
    /// Whether everything is gone when the process ends.
    pub(super) is_in_memory: bool,
}

/// Install what is missing, and show it when it is ready.
pub(super) async fn show(
    client: &ApiClient,
    home: DemoHome<'_>,
    began: Instant,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let found = platform::install_definitions(client).await?;
    let found = found.and(platform::install_composites(client).await?);
    let found = found.and(platform::install_operations(client).await?);
    let mut picture = Picture::follow(client);
    let patience = if found == Found::Everything { LITTLE_PATIENCE } else { PATIENCE };
    let is_ready = picture.until_ready(began, patience, terminal).await;
    // What was cut short continues.
    let found = if picture.has_news() { found.and(Found::Nothing) } else { found };
    let tree = tree::print(&picture, terminal);
    terminal.line(&tree);
    conclude(found, is_ready, began, terminal);
    terminal.line(&what_to_try(home));
    Ok(())
}

fn conclude(found: Found, is_ready: bool, began: Instant, terminal: &mut Terminal) {
    let time = began.elapsed().as_millis();
    match (is_ready, found) {
        (true, Found::Nothing) => terminal.note(&format!("the demo is ready, {time} ms after the start")),
        (true, Found::Everything) => terminal.note(&format!(
            "the demo exists already, unchanged, and was ready {time} ms after the start; nothing was written"
        )),
        (true, Found::Some) => terminal.note(&format!(
            "the demo exists already; missing objects were restored, {time} ms after the start"
        )),
        (false, _) => terminal
            .warn("not all of the demo is ready yet: `kubectl describe backends` says what it waits for"),
    }
}

/// Lines to copy. Each of them works, in this order.
fn what_to_try(home: DemoHome<'_>) -> String {
    let kubeconfig = quoted(&home.kubeconfig.display().to_string());
    let ending = if home.is_in_memory {
        "all data is in memory, and is lost then"
    } else {
        "the data is kept for the next start"
    };
    format!(
        r#"
Try, in another terminal:

    export KUBECONFIG={kubeconfig}
    kubectl get composite                                 # what two teams asked for
    kubectl get managed                                   # what became of it
    kubectl describe backend orders                       # what happened, and why

A larger backend makes its database grow:

    kubectl patch backend orders --type=merge -p '{{"spec":{{"size":"large"}}}}'
    kubectl wait backend/orders --for=jsonpath='{{.status.storageGB}}'=500
    kubectl get databases

What is deleted comes back:

    kubectl delete database payments
    kubectl wait database/payments --for=condition=Ready
    kubectl get databases

An operation resizes all backends, one batch after the other:

    kubectl get cronoperations                            # it is suspended
    kubectl patch cronoperation resize-backends --type=merge -p '{{"spec":{{"suspend":false}}}}'
    kubectl wait backend --all --for=jsonpath='{{.spec.size}}'=medium --timeout=90s
    kubectl patch cronoperation resize-backends --type=merge -p '{{"spec":{{"suspend":true}}}}'
    kubectl get operations                                # what was done; kubectl describe says more

The manifests are in examples/demo of the source. Ctrl-C ends it; {ending}.
"#
    )
}

/// What to say of a demo whose cloud is not simulated. None if there is no demo.
pub(super) async fn leftover(client: &ApiClient) -> Option<String> {
    let is_there = platform::is_installed(client).await;
    is_there.then(|| {
        format!(
            "the demo is still here, but its cloud is not simulated: what changes of it will not become ready.\n\n    \
             ferroplane up --demo                                                        # runs it again\n    \
             kubectl delete cronoperation,xrd,composition,crd -l {LABEL}      # removes it\n"
        )
    })
}

/// As a shell reads it.
fn quoted(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@%:,".contains(character);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
