//! A real API server with its controllers, and the control plane on it as the chart installs it.
//!
//! There is no kubelet: what the pod would run is run here, with the arguments and the token that the pod would have.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, iter};

use ferroplane_testkit::free_port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{OPEN, chart, objects};
use crate::peers::{self, heavy_peer};
use crate::plane::ferroplane;
use crate::sandbox::Ran;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
pub(super) const NAMESPACE: &str = "ferroplane-system";

/// A cluster, swept of nothing: one test has it for itself.
pub(super) struct Cluster {
    directory: TempDir,
    url: String,
    authority: String,
}

/// One replica. Ends when it is dropped.
pub(super) struct Replica {
    child: Child,
    log: PathBuf,
}

impl Cluster {
    /// The cluster that the environment names, if it names one that writes an audit log.
    pub(super) fn find() -> Option<Self> {
        heavy_peer("helm")?;
        if env::var_os("FERROPLANE_ORACLE_AUDIT").is_none() {
            eprintln!("skipped: there is no cluster; `cargo xtask test --kubernetes` starts one");
            return None;
        }
        if TcpListener::bind("127.0.0.1:443").is_err() {
            eprintln!("skipped: webhooks of a Service are at port 443, which is not to be had");
            return None;
        }
        let directory = TempDir::new().unwrap();
        let [url, authority] =
            ["URL", "CA"].map(|name| env::var(format!("FERROPLANE_ORACLE_{name}")).unwrap());
        Some(Self { directory, url, authority })
    }

    /// What a command says that succeeds.
    pub(super) fn says(&self, line: &str) -> String {
        self.told(line, "")
    }

    pub(super) fn told(&self, line: &str, input: &str) -> String {
        let ran = self.run(line, input);
        assert_eq!(ran.code, Some(0), "{line}\n{}", ran.stdout);
        ran.stdout
    }

    /// What a command says that fails.
    pub(super) fn fails(&self, line: &str) -> String {
        let ran = self.run(line, "");
        assert_ne!(ran.code, Some(0), "{line}\n{}", ran.stdout);
        ran.stdout
    }

    fn run(&self, line: &str, input: &str) -> Ran {
        let paths = env::var_os("PATH").unwrap_or_default();
        let paths = iter::once(peers::directory()).chain(env::split_paths(&paths));
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("exec 2>&1; {line}")).current_dir(self.directory.path());
        command.env("PATH", env::join_paths(paths).unwrap()).env("HOME", self.directory.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap().into()
    }

    /// Says it again until it succeeds: what it is about may not be there yet.
    pub(super) fn until(&self, line: &str) -> String {
        patiently(|| match self.run(line, "") {
            Ran { code: Some(0), stdout, .. } => Ok(stdout),
            ran => Err(format!("{line}\n{}", ran.stdout)),
        })
    }

    pub(super) fn helm(&self, verb: &str, rest: &str) -> String {
        let chart = if ["install", "upgrade"].contains(&verb) {
            format!("{} {OPEN}", chart())
        } else {
            String::new()
        };
        self.says(&format!("helm {verb} ferroplane {chart} --namespace {NAMESPACE} {rest}"))
    }

    /// An object, as the server has it.
    pub(super) fn object(&self, what: &str) -> Value {
        serde_json::from_str(&self.says(&format!("kubectl get {what} -o json"))).unwrap()
    }

    /// Runs what a pod of the release would run, with webhooks at an address of this machine.
    pub(super) fn replica(&self, name: &str, webhooks: &str) -> Replica {
        let arguments = self.arguments(webhooks);
        let log = self.directory.path().join(format!("{name}.log"));
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut command = ferroplane(self.directory.path(), &arguments);
        for (variable, value) in
            [("POD_NAMESPACE", NAMESPACE), ("POD_NAME", name), ("POD_SERVICE_ACCOUNT", "ferroplane")]
        {
            command.env(variable, value);
        }
        command.env("LEADER_ELECTION", "true").env("KUBECONFIG", self.token()).env("RUST_LOG", "debug");
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Replica { child: command.spawn().unwrap(), log }
    }

    /// What the pod of `helm test` says.
    pub(super) fn helm_test(&self) -> String {
        let pod =
            objects(&self.says(&format!("helm get hooks ferroplane --namespace {NAMESPACE}"))).remove(0);
        let arguments = pod["spec"]["containers"][0]["args"].as_array().unwrap();
        let arguments: Vec<_> = arguments.iter().map(|word| word.as_str().unwrap()).collect();
        let mut command = ferroplane(self.directory.path(), &arguments);
        Ran::from(command.env("KUBECONFIG", self.token()).output().unwrap()).ok()
    }

    /// A kubeconfig with a token of the service account, and nothing else.
    fn token(&self) -> PathBuf {
        let token =
            self.says(&format!("kubectl create token ferroplane --namespace {NAMESPACE} --duration 1h"));
        let path = self.directory.path().join("token.kubeconfig");
        fs::write(&path, self.kubeconfig(token.trim()).to_string()).unwrap();
        path
    }

    fn kubeconfig(&self, token: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.url, "certificate-authority": self.authority}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        })
    }

    /// The arguments that the pod would have, at addresses of this machine.
    fn arguments(&self, webhooks: &str) -> Vec<String> {
        let deployment = self.object(&format!("deployment/ferroplane --namespace {NAMESPACE}"));
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let local = |argument: &Value| {
            let argument = argument.as_str().unwrap();
            match argument.split_once("=0.0.0.0:") {
                // Where the API server looks behind a Service that does not say otherwise.
                Some((flag @ "--webhook-address", _)) => format!("{flag}={webhooks}:443"),
                Some((flag, _)) => format!("{flag}=127.0.0.1:{}", free_port()),
                None => argument.replace("=/cache/", &format!("={}/", self.directory.path().display())),
            }
        };
        container["args"].as_array().unwrap().iter().map(local).collect()
    }

    /// The Service leads to an address of this machine from now on, as it leads to pods elsewhere.
    pub(super) fn lead_webhooks_to(&self, address: &str) {
        let spec = json!({"spec": {
            "type": "ExternalName", "externalName": address, "clusterIP": null, "clusterIPs": null,
        }});
        self.says(&format!(
            "kubectl patch service ferroplane-webhooks --namespace {NAMESPACE} --type=merge -p '{spec}'"
        ));
    }
}

impl Right {
    pub(super) fn new(verb: &str, group: &str, resource: &str) -> Self {
        Self { verb: verb.to_owned(), group: group.to_owned(), resource: resource.to_owned() }
    }
}

impl Replica {
    /// Waits until it has said something.
    pub(super) fn until(&self, words: &str) {
        patiently(|| if self.log().contains(words) { Ok(()) } else { Err(self.log()) });
    }

    /// Everything that it said so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Tells it to end, and waits until it has.
    pub(super) fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}\n{}", self.log());
        self.log()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tries again until it works, for as long as anything may take.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(why) if started.elapsed() > PATIENCE => panic!("{why}"),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// A right, or a request that takes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) verb: String,
    pub(super) group: String,
    pub(super) resource: String,
}

/// What the service account asked for, how often, and whether it was allowed.
pub(super) fn audited(log: &Path) -> BTreeMap<(bool, Right), usize> {
    let who = format!("system:serviceaccount:{NAMESPACE}:ferroplane");
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let (about, text) =
            (&event["objectRef"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        if event["user"]["username"] != *who || about.is_null() {
            continue;
        }
        let part = about["subresource"].as_str().map(|part| format!("/{part}")).unwrap_or_default();
        let resource = format!("{}{part}", text(&about["resource"]));
        let right = Right { verb: text(&event["verb"]), group: text(&about["apiGroup"]), resource };
        let is_allowed = event["annotations"]["authorization.k8s.io/decision"] == "allow";
        *counts.entry((is_allowed, right)).or_default() += 1;
    }
    counts
}
