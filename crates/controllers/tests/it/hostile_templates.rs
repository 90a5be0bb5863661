//! Templates that never end: they delay no composite resource but their own.

use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_testkit::plane::{Plane, condition};
use futures_util::{StreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

/// As many as a controller reconciles at a time.
const HOSTILE: usize = 100;
const OTHERS: usize = 50;
const COMPOSITION: &str = "/apis/apiextensions.crossplane.io/v1/compositions/hostile";
const REVISIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositionrevisions";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sites_become_ready_while_the_calls_of_a_hundred_others_never_end() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    plane.compose_sites(&["one"]).await;
    plane.apply(COMPOSITION, &hostile()).await;
    plane.until_sites_can_be_composed().await;
    let are_judged = |revisions: &Value| {
        let judged = items(revisions).filter(|it| condition(it, "ValidPipeline").is_some());
        judged.count() == 2
    };
    plane.until(REVISIONS, are_judged).await;

    create(&plane, "hostile", HOSTILE).await;
    create(&plane, "sites", OTHERS).await;
    let list =
        plane.until(SITES, |sites| of(sites, "sites").filter(|site| is_ready(site)).count() == OTHERS).await;

    let over = of(&list, "hostile").filter(|site| condition(site, "Synced").is_some());
    assert_eq!(over.count(), 0, "calls that never end came to an end");
}

/// What templates do without end, each kind for another part of the sites: count, read a long text, read YAML, call themselves.
/// What reading YAML allocates counts: with nothing but that, the memory would be used up before the time is.
const TEMPLATE: &str = r#"
{{- define "twice" }}{{ if lt . 200 }}{{ template "twice" (add . 1) }}{{ template "twice" (add . 1) }}{{ end }}{{ end }}
{{- $kind := mod (splitList "-" .observed.composite.resource.metadata.name | last | atoi) 4 }}
{{- if eq $kind 0 }}{{ range 9223372036854775807 }}{{ end }}{{ end }}
{{- if eq $kind 1 }}{{ $s := repeat 1900000 "x" }}{{ range 9223372036854775807 }}{{ if initials $s }}{{ end }}{{ end }}{{ end }}
{{- if eq $kind 2 }}{{ $s := cat "-" (repeat 1900000 "a") }}{{ range 9223372036854775807 }}{{ $_ := fromYaml $s }}{{ range 400 }}{{ if initials $s }}{{ end }}{{ end }}{{ end }}{{ end }}
{{- if eq $kind 3 }}{{ template "twice" 0 }}{{ end }}
"#;

/// Composes sites with a template that runs for as long as the limits allow, and those are the highest ones.
fn hostile() -> Value {
    let limits = json!({
        "ferroplane.io/template-steps": "100000000", "ferroplane.io/template-memory": "1Gi",
        "ferroplane.io/template-time": "60s",
    });
    let input = json!({
        "apiVersion": "gotemplating.fn.crossplane.io/v1beta1", "kind": "GoTemplate",
        "metadata": {"annotations": limits},
        "source": "Inline", "inline": {"template": TEMPLATE},
    });
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "hostile"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [{"step": "loop", "functionRef": {"name": "function-go-templating"}, "input": input}],
        },
    })
}

/// Create sites that are composed by this Composition, all at once.
async fn create(plane: &Plane, composition: &str, count: usize) {
    let creations = (0..count).map(|number| async move {
        let site = json!({
            "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": format!("{composition}-{number}")},
            "spec": {"color": "red", "crossplane": {"compositionRef": {"name": composition}}},
        });
        let (code, answer) = plane.send(Method::POST, SITES, "application/json", &site).await;
        assert_eq!(code, 201, "{answer}");
    });
    stream::iter(creations).buffer_unordered(64).collect::<()>().await;
}

/// The sites that this Composition composes.
fn of<'s>(sites: &'s Value, composition: &'s str) -> impl Iterator<Item = &'s Value> {
    items(sites).filter(move |site| site["spec"]["crossplane"]["compositionRef"]["name"] == composition)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}
