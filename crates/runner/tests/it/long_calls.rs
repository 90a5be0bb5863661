//! Templates that never end do not hold up others.

use ferroplane_functions::builtin;
use ferroplane_runner::{Directory, Runner};
use ferroplane_wire::from_json;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::json;

const FUNCTION: &str = "templates";

/// A template that never ends uses the largest budget there is, so that it takes longer than a slice of time on any machine.
fn request(uid: &str, template: &str) -> RunFunctionRequest {
    from_json(&json!({
        "observed": {"composite": {"resource": {"apiVersion": "example.org/v1", "kind": "App", "metadata": {"uid": uid}}}},
        "input": {"metadata": {"annotations": {"ferroplane.io/template-steps": "100000000"}}, "source": "Inline", "inline": {"template": template}}
    }))
    .unwrap()
}

fn directory() -> Directory {
    let function = builtin("function-go-templating", None).unwrap();
    [(FUNCTION.to_owned(), Runner::Builtin(function))].into_iter().collect()
}

fn is_fatal(response: &RunFunctionResponse) -> bool {
    response.results.first().is_some_and(|result| result.severity == 1)
}

/// One worker has them all: whatever ran on it would hold up everything else.
#[tokio::test]
async fn hundred_templates_that_never_end_delay_no_other() {
    let directory = directory();
    let mut hostile = tokio::task::JoinSet::new();
    for number in 0..100 {
        let directory = directory.clone();
        let request = request(&format!("hostile-{number}"), "{{ range 9223372036854775807 }}{{ end }}");
        hostile.spawn(async move { directory.call(FUNCTION, &request).await });
    }
    // Each of them has come to where it waits before the others begin.
    tokio::task::yield_now().await;
    for number in 0..200 {
        let request = request(&format!("other-{number}"), "{{ range 10 }}{{ end }}");
        assert!(!is_fatal(&directory.call(FUNCTION, &request).await.unwrap()));
    }
    // A call that takes long itself waits for a slice of those that came before it, not until they have ended.
    let long = request("another", "{{ range 60000 }}{{ end }}");
    assert!(!is_fatal(&directory.call(FUNCTION, &long).await.unwrap()));
    let mut ended = 0;
    while let Some(first) = hostile.try_join_next() {
        assert!(is_fatal(&first.unwrap().unwrap()));
        ended += 1;
    }
    assert!(ended < 50, "{ended} of the hostile templates came first");
    hostile.shutdown().await;
}
