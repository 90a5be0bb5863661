//! Go templates: what a call and a parse cost, how much parsed templates take, and what templates that never end do to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferroplane_functions::{Implementation, builtin};
use ferroplane_runner::{Command, Directory, Program, Runner, grpc};
use ferroplane_template::{Options, Templates, sprig};
use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::composition;
use crate::functions::request;
use crate::measure::{Times, pretty, resident};
use crate::objects::to_struct;

const FUNCTION: &str = "function-go-templating";
const TEMPLATE: &str = include_str!("templates/template.yaml");
const BUDGET: Duration = Duration::from_secs(2);
/// The version of the original that is compared.
const ORIGINAL: &str = "v0.4.1";
const HOSTILE: usize = 100;
const OTHERS: usize = 50;
const ENDLESS: &str = "{{ range 9223372036854775807 }}{{ end }}";
const HOSTILE_COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/hostile";

pub(crate) fn run() {
    calls();
    parsing();
    cache();
    hostile();
    hostile_resources();
    composition::run_templates();
}

fn input(template: &str) -> Value {
    json!({
        "apiVersion": "gotemplating.fn.crossplane.io/v1beta1", "kind": "GoTemplate", "source": "Inline",
        "inline": {"template": template},
    })
}

fn calls() {
    let lines = TEMPLATE.lines().count();
    println!("A template of {lines} lines that composes 20 resources:\n");
    println!("| call | best | p50 | p99 |\n|---|---|---|---|");
    let request = request(FUNCTION, to_struct(input(TEMPLATE)));
    for version in [None, Some(ORIGINAL)] {
        let function = builtin(FUNCTION, version).expect("it is built in");
        let response = function.run(&request);
        assert!(response.results.is_empty(), "it complains: {:?}", response.results);
        assert_eq!(response.desired.as_ref().map(|desired| desired.resources().len()), Some(20));
        let name = version.unwrap_or("newest");
        row(&format!("built in, {name}"), &Times::of(BUDGET, || function.run(&request)));
        row(
            &format!("built in, {name}, tried briefly"),
            &Times::of(BUDGET, || function.run_briefly(&request)),
        );
        let anew = Times::of(BUDGET, || {
            let input = Some(to_struct(input(TEMPLATE)));
            function.run(&RunFunctionRequest { input, ..request.clone() })
        });
        row(&format!("built in, {name}, input read anew"), &anew);
    }
    match original(&request) {
        Some(times) => row(&format!("the original over gRPC, {ORIGINAL}"), &times),
        None => println!("(skipped: the original; `cargo xtask peers` installs it)"),
    }
}

fn row(what: &str, times: &Times) {
    println!("| {what} | {} | {} | {} |", pretty(times.best()), pretty(times.p50()), pretty(times.p99()));
}

/// The same request to the original, if it is there.
fn original(request: &RunFunctionRequest) -> Option<Times> {
    let path = std::path::PathBuf::from(std::env::var_os("FERROPLANE_PEERS")?).join(FUNCTION);
    let command = Command::parse(&format!("'{}'", path.display()), ".").ok().filter(|_| path.exists())?;
    let runtime = Runtime::new().expect("there is a runtime");
    let program = runtime.block_on(Program::start(&command, grpc::Options::default())).ok()?;
    let answer = runtime.block_on(program.call(request)).expect("it answers");
    assert!(answer.results.is_empty(), "the original complains: {:?}", answer.results);
    let times = Times::of(BUDGET, || runtime.block_on(program.call(request)).expect("it answers"));
    runtime.block_on(program.stop());
    Some(times)
}

fn parsing() {
    let (head, body) = TEMPLATE.split_once("# A network").expect("it has networks");
    let text = format!("{head}{}", format!("# A network{body}").repeat(11));
    // The helpers of the function are none of the engine's.
    let helpers = ["setResourceNameAnnotation", "getResourceCondition", "include", "toYaml"];
    let text = helpers.iter().fold(text, |text, name| text.replace(name, "list"));
    let functions = sprig::functions();
    let parse = || Templates::parse("t", &text, &Options::default(), &functions).expect("it is a template");
    let (times, lines) = (Times::of(BUDGET, parse), text.lines().count());
    println!("\n| parse | best | p50 | p99 |\n|---|---|---|---|");
    row(&format!("{lines} lines, {} kB", text.len() / 1000), &times);
}

/// Ten thousand templates, whose inputs are all kept, as those of Compositions are.
fn cache() {
    println!(
        "\n| distinct templates | memory more than before | a call of the last one, p50 | of the first one again |"
    );
    println!("|---|---|---|---|");
    let function = builtin(FUNCTION, None).expect("it is built in");
    let base = request(FUNCTION, to_struct(input(TEMPLATE)));
    let before = resident();
    let mut kept = Vec::new();
    for count in [1_000, 10_000] {
        while kept.len() < count {
            let template = format!("# {}\n{TEMPLATE}", kept.len());
            let request = RunFunctionRequest { input: Some(to_struct(input(&template))), ..base.clone() };
            assert!(function.run(&request).results.is_empty());
            kept.push(request);
        }
        let more = resident().saturating_sub(before) / 1_000_000;
        let last = Times::of(BUDGET / 4, || function.run(&kept[count - 1]));
        let started = Instant::now();
        function.run(&kept[0]);
        println!("| {count} | {more} MB | {} | {} |", pretty(last.p50()), pretty(started.elapsed()));
    }
}

/// Calls of others while templates that never end are called without a pause.
fn hostile() {
    println!("\n| calls of others | best | p50 | p99 |\n|---|---|---|---|");
    let runtime = Runtime::new().expect("there is a runtime");
    runtime.block_on(async {
        let function = builtin(FUNCTION, None).expect("it is built in");
        let one = |function: Implementation| [(FUNCTION.to_owned(), Runner::Builtin(function))];
        let directory: Directory = one(function).into_iter().collect();
        row("alone", &others(&directory).await);
        let goes_on = Arc::new(AtomicBool::new(true));
        let hostile: Vec<_> = (0..HOSTILE)
            .map(|number| tokio::spawn(endless(directory.clone(), number, Arc::clone(&goes_on))))
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        row(&format!("beside {HOSTILE} templates that never end"), &others(&directory).await);
        goes_on.store(false, Ordering::Relaxed);
        for call in hostile {
            call.abort();
        }
    });
}

/// Composite resources of one kind that are created at once, alone and beside those whose templates never end.
fn hostile_resources() {
    println!("\n| create to Ready, {OTHERS} XRs at once | best | p50 | p99 |\n|---|---|---|---|");
    let runtime = Runtime::new().expect("there is a runtime");
    runtime.block_on(async {
        let plane = Arc::new(Plane::new().await);
        plane.define_sites().await;
        plane.compose_sites(&["one"]).await;
        plane.apply(HOSTILE_COMPOSITION, &hostile_composition()).await;
        plane.until_sites_can_be_composed().await;
        create_sites(&plane, "first").await;
        row("alone", &create_sites(&plane, "alone").await);
        for number in 0..HOSTILE {
            create_site(&plane, &format!("hostile-{number}"), "hostile").await;
        }
        row(
            &format!("just after {HOSTILE} with templates that never end"),
            &create_sites(&plane, "after").await,
        );
        tokio::time::sleep(Duration::from_secs(3)).await;
        row("beside them later", &create_sites(&plane, "beside").await);
    });
}

fn hostile_composition() -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "hostile"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [{
                "step": "loop", "functionRef": {"name": FUNCTION}, "input": input(ENDLESS),
            }],
        },
    })
}

async fn create_site(plane: &Plane, name: &str, composition: &str) -> String {
    let path = format!("{SITES}/{name}");
    let spec = json!({"color": "red", "crossplane": {"compositionRef": {"name": composition}}});
    let site =
        json!({"apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": name}, "spec": spec});
    plane.apply(&path, &site).await;
    path
}

/// How long it takes each of them to become ready.
async fn create_sites(plane: &Arc<Plane>, prefix: &str) -> Times {
    let mut creations = JoinSet::new();
    for number in 0..OTHERS {
        let (plane, name) = (Arc::clone(plane), format!("{prefix}-{number}"));
        creations.spawn(async move {
            let before = Instant::now();
            let path = create_site(&plane, &name, "sites").await;
            plane.until(&path, is_ready).await;
            before.elapsed()
        });
    }
    Times::from(creations.join_all().await)
}

async fn endless(directory: Directory, number: usize, goes_on: Arc<AtomicBool>) {
    let xr = json!({"metadata": {"uid": format!("hostile-{number}")}});
    let request: RunFunctionRequest = ferroplane_wire::from_json(&json!({
        "observed": {"composite": {"resource": xr}}, "input": input(ENDLESS),
    }))
    .expect("it is a request");
    while goes_on.load(Ordering::Relaxed) {
        let answer = directory.call(FUNCTION, &request).await.expect("it answers");
        assert_eq!(answer.results.len(), 1);
    }
}

/// Calls in a task of their own, as a reconcile is one.
async fn others(directory: &Directory) -> Times {
    let request = request(FUNCTION, to_struct(input(TEMPLATE)));
    let started = Instant::now();
    let mut times = Vec::new();
    while started.elapsed() < BUDGET {
        let (directory, request) = (directory.clone(), request.clone());
        let before = Instant::now();
        let call = tokio::spawn(async move { directory.call(FUNCTION, &request).await });
        call.await.expect("it does not panic").expect("it answers");
        times.push(before.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Times::from(times)
}
