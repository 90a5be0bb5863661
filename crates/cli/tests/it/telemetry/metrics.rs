//! What `/metrics` serves is what docs/metrics.md says, and what Prometheus and the dashboard want.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferroplane_testkit::free_port;
use serde_json::Value;

use super::{apply_site, platform};
use crate::peers::peer;
use crate::plane::Plane;

const PAGE: &str = include_str!("../../../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../../../deploy/grafana/ferroplane.json");
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A name, its type and its labels.
type Names = BTreeMap<String, (String, BTreeSet<String>)>;

/// What the page says there is.
fn documented() -> Names {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let row = |row: &str| {
        let cells: Vec<_> = row.split(" | ").map(|cell| cell.trim().trim_matches(['`', '|', ' '])).collect();
        let labels = cells[2].split(',').map(|label| label.trim().trim_end_matches(" +").to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        (cells[0].to_owned(), (cells[1].to_owned(), labels))
    };
    rows.map(row).collect()
}

/// What is served. What has no series has no labels.
fn served(text: &str) -> Names {
    let mut names = Names::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            let known = names.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
            assert!(known.is_none(), "{name} is there twice");
        } else if !line.starts_with('#') {
            let (series, labels) = line.split_once('{').unwrap_or((line.split(' ').next().unwrap(), ""));
            let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| series.strip_suffix(end));
            let name = name.filter(|name| names.get(*name).is_some_and(|(kind, _)| kind == "histogram"));
            let labels =
                labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, _)| name);
            let known = names.get_mut(name.unwrap_or(series)).unwrap();
            known.1.extend(labels.filter(|label| *label != "le").map(str::to_owned));
        }
    }
    names
}

/// A plane on which something was composed.
fn busy() -> Option<Plane> {
    peer("kubectl")?;
    let plane = platform(&[], &[]);
    apply_site(&plane);
    Some(plane)
}

#[test]
fn page_and_what_is_served_agree() {
    let Some(plane) = busy() else { return };
    let text = plane.says("kubectl get --raw /metrics");
    let (served, documented) = (served(&text), documented());
    let names = |names: &Names| names.iter().map(|(name, it)| format!("{name} {}", it.0)).collect::<Vec<_>>();
    assert_eq!(names(&served), names(&documented));
    for (name, (_, labels)) in &served {
        assert!(labels.is_empty() || *labels == documented[name].1, "{name} has {labels:?}");
    }
    for wanted in [
        r#"ferroplane_composite_resources{group="example.org",kind="Site",condition="Ready",status="True"} 1"#,
        r#"ferroplane_composite_resources{group="example.org",kind="Site",condition="Ready",status="False"} 0"#,
        r#"engine_controllers_started_total{controller="composite/sites.example.org"} 1"#,
        r#"ferroplane_watches{group="example.org",resource="sites"} 1"#,
        r#"circuit_breaker_opens_total{controller="composite/sites.example.org"} 0"#,
    ] {
        assert!(text.lines().any(|line| line == wanted), "{wanted} is not in\n{text}");
    }
    let writes = r#"rest_client_requests_total{method="PATCH",code="200",verb="apply",group="example.org",resource="sites""#;
    assert!(text.contains(writes), "{text}");
}

#[test]
fn composite_resources_are_counted_as_they_are() {
    let Some(plane) = busy() else { return };
    plane.says("kubectl annotate site blog crossplane.io/paused=true");
    plane.says("kubectl wait site/blog --for=condition=Synced=False --timeout=60s");
    let count = |what: &str| {
        let text = plane.says("kubectl get --raw /metrics");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("ferroplane_composite_resources{what} ")));
        line.map(|number| number.parse::<u32>().unwrap())
    };
    let site = r#"group="example.org",kind="Site""#;
    assert_eq!(count(&format!("_paused{{{site}}}")), Some(1));
    assert_eq!(count(&format!(r#"{{{site},condition="Synced",status="False"}}"#)), Some(1));
    assert_eq!(count(&format!(r#"{{{site},condition="Synced",status="True"}}"#)), Some(0));
    plane.says("kubectl annotate site blog crossplane.io/paused-");
    plane.says("kubectl delete site blog --timeout=60s");
    plane.says("kubectl delete xrd sites.example.org --timeout=60s");
    let began = Instant::now();
    while count(&format!("_paused{{{site}}}")).is_some() {
        assert!(began.elapsed() < PATIENCE, "a kind that is gone is still counted");
    }
}

/// The metrics that an expression is about.
fn asked(expression: &str) -> Vec<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let names = expression.match_indices('{').map(|(end, _)| {
        let name = expression[..end].rsplit(|character| !is_part(character)).next().unwrap();
        name.trim_end_matches("_bucket").to_owned()
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// What the dashboard asks.
fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn dashboard_asks_only_for_what_there_is() {
    let (documented, expressions) = (documented(), expressions());
    assert!(expressions.len() > 30);
    for expression in &expressions {
        let asked = asked(expression);
        assert!(!asked.is_empty(), "{expression}");
        for name in asked {
            assert!(documented.contains_key(&name), "there is no {name}, which {expression} asks for");
        }
    }
}

/// A program of Prometheus. Nothing if it is not installed, and nobody insists.
fn has_prometheus() -> bool {
    let found =
        Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    assert!(is_there || std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_none(), "promtool is not there");
    if !is_there {
        eprintln!("skipped: Prometheus is not installed; `cargo xtask test` installs it");
    }
    is_there
}

#[test]
fn promtool_finds_nothing_wrong() {
    if !has_prometheus() {
        return;
    }
    let Some(plane) = busy() else { return };
    let text = plane.says("kubectl get --raw /metrics");
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// Prometheus, which ends when it is dropped.
struct Prometheus {
    child: Child,
    url: String,
}

impl Prometheus {
    /// Scrapes a plane with what its kubeconfig has.
    fn scrape(plane: &Plane) -> Self {
        let config = plane.says("kubectl config view --raw --minify -o json");
        let config: Value = serde_json::from_str(&config).unwrap();
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        for (file, data) in [
            ("ca.crt", &cluster["certificate-authority-data"]),
            ("tls.crt", &user["client-certificate-data"]),
            ("tls.key", &user["client-key-data"]),
        ] {
            plane.told(&format!("base64 -d > {file}"), data.as_str().unwrap());
        }
        let target = cluster["server"].as_str().unwrap().trim_start_matches("https://");
        let settings = format!(
            "scrape_configs: [{{job_name: ferroplane, scheme: https, scrape_interval: 1s, \
             tls_config: {{ca_file: ca.crt, cert_file: tls.crt, key_file: tls.key}}, \
             static_configs: [{{targets: ['{target}']}}]}}]"
        );
        std::fs::write(plane.path("prometheus.yml"), settings).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let child = Command::new("prometheus")
            .args(["--config.file", "prometheus.yml", "--storage.tsdb.path", "tsdb"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(plane.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, url: format!("http://{address}") }
    }

    /// What it answers, if it can.
    fn ask(&self, expression: &str) -> Result<String, String> {
        let mut command = Command::new("promtool");
        let output = command.args(["query", "instant", &self.url, expression]).output().unwrap();
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).unwrap());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn until(&self, expression: &str, wanted: &str) {
        let began = Instant::now();
        loop {
            let answer = self.ask(expression);
            if answer.as_ref().is_ok_and(|answer| answer.contains(wanted)) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{expression} is {answer:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn prometheus_scrapes_and_answers_every_question_of_the_dashboard() {
    if !has_prometheus() {
        return;
    }
    let Some(plane) = busy() else { return };
    let prometheus = Prometheus::scrape(&plane);
    prometheus.until("up{job=\"ferroplane\"}", "=> 1");
    prometheus.until(
        "sum(ferroplane_composite_resources{kind=\"Site\",condition=\"Ready\",status=\"True\"})",
        "=> 1",
    );
    for expression in expressions() {
        // What Grafana puts in their place.
        let variables = [("$__rate_interval", "5m"), ("$__range", "1h"), ("$job", ".*"), ("$instance", ".*")];
        let expression =
            variables.iter().fold(expression, |text, (variable, value)| text.replace(variable, value));
        prometheus.ask(&expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    }
}
