//! `ferroplane intercept` on a cluster: a process is called over mTLS, and only where an administrator has granted it.

use std::path::Path;
use std::process::Command;

use ferroplane_testkit::{FunctionServer, Process, free_port};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::ground::{Ground, SITES, composed};
use super::replica::Replica;
use crate::intercept::{answering, until_written};
use crate::plane::ferroplane;
use crate::sandbox::Ran;

const INTERCEPTS: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionintercepts";
const GRANT: &str = "/apis/ferroplane.io/v1alpha1/accessgrants/intercept";

/// Have a process on a port of this machine answer for the first step of a site, for real.
fn intercept(ground: &Ground, port: u16, more: &[&str]) -> Command {
    let mut command = ferroplane(&ground.path(""), &["intercept", "function/function-patch-and-transform"]);
    command.args(["--xr", "site/blog", "-n", "default", "--for-real", "--to", &format!("localhost:{port}")]);
    command.args(more).arg("--kubeconfig").arg(ground.kubeconfig());
    command
}

fn refusal(ground: &Ground, more: &[&str]) -> String {
    let ran = Ran::from(intercept(ground, free_port(), more).output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    ran.stderr
}

fn serve(runtime: &Runtime, port: u16, certificates: &Path) -> FunctionServer {
    let blue = answering(&json!({
        "map": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"colour": "blue"}}},
    }));
    runtime.block_on(FunctionServer::serve_from(&format!("127.0.0.1:{port}"), certificates, blue))
}

#[test]
fn process_on_another_machine_is_called_over_mtls_and_with_a_grant_only() {
    let (ground, runtime) = (Ground::new(), Runtime::new().unwrap());
    ground.send("DELETE", GRANT, &Value::Null);
    let replica = Replica::start(&ground, &[]);
    replica.until("became the leader");
    ground.define();
    for site in ["blog", "shop"] {
        ground.create_site(site, "red");
    }
    let [blog, shop] =
        ["blog", "shop"].map(|site| composed(&ground.until(&format!("{SITES}/{site}"), Ground::is_ready)));
    let has_colour = |colour: &'static str| move |map: &Value| map["data"]["colour"] == colour;

    let refused = refusal(&ground, &[]);
    assert!(refused.contains("over mTLS only"), "{refused}");
    let refused = refusal(&ground, &["--tls-dir", "certs"]);
    let words = r#""intercept":[{"hosts":["localhost"],"modes":["ForReal"]}]"#;
    assert!(refused.contains("the control plane refuses") && refused.contains(words), "{refused}");
    assert!(has_colour("red")(&ground.get(&blog)));

    ground.apply(
        GRANT,
        &json!({
            "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "intercept"},
            "spec": {
                "to": {"namespaces": ["default"], "functions": ["function-patch-and-transform"]},
                "intercept": [{"hosts": ["localhost"], "modes": ["ForReal"]}],
            },
        }),
    );
    let (port, certificates) = (free_port(), ground.path("granted"));
    let mut command = Process::spawn(intercept(&ground, port, &["--tls-dir", "granted"]));
    // The process trusts only the authority that the control plane names.
    until_written(&certificates.join("ca.crt"));
    let server = serve(&runtime, port, &certificates);
    ground.until(&blog, has_colour("blue"));
    assert!(server.calls() > 0);
    assert!(has_colour("red")(&ground.get(&shop)), "nobody else's calls are sent");
    // The status is written after what the site composes.
    let names_the_intercept = |site: &Value| {
        let ran = site["status"]["ferroplane"]["functions"][0]["revision"].as_str().unwrap_or_default();
        ran.starts_with("function-patch-and-transform@intercept/")
    };
    ground.until(&format!("{SITES}/blog"), names_the_intercept);

    command.signal(Signal::INT);
    assert!(command.wait().success());
    ground.until(&blog, has_colour("red"));
    assert_eq!(ground.get(INTERCEPTS)["items"], json!([]), "nothing of it is left");
    ground.send("DELETE", GRANT, &Value::Null);
    replica.stop();
}
