//! Templates that steps read from elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_functions::builtin;
use ferroplane_runner::{CallError, Directory, Runner, TemplateFetcher};
use ferroplane_wire::v1::RunFunctionRequest;
use ferroplane_wire::{Struct, from_json};
use serde_json::{Value, json};

const FUNCTION: &str = "function-go-templating";

fn request(input: &Value) -> RunFunctionRequest {
    let xr = json!({"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "shop"}});
    from_json(&json!({"observed": {"composite": {"resource": xr}}, "input": input})).unwrap()
}

fn remote(digit: &str) -> Value {
    json!({"source": "Remote", "remote": format!("git://git.example.org/t@{}", digit.repeat(40))})
}

/// The function, and how often it asked for templates. Those of commits of ones are there.
fn directory() -> (Directory, Arc<AtomicUsize>) {
    let function = Runner::Builtin(builtin(FUNCTION, None).unwrap());
    let mut directory: Directory = [(FUNCTION.to_owned(), function)].into_iter().collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {annotations: {{ setResourceNameAnnotation \"a\" | printf \"{%s}\" }}}\n";
    let files = json!({"data": {"a.yaml": template}}).as_object().unwrap().clone();
    let files = Struct::try_from(files).unwrap();
    directory.fetch_templates(TemplateFetcher::new(move |remote| {
        count.fetch_add(1, Ordering::Relaxed);
        let found = if remote.contains("@111") { Ok(files.clone()) } else { Err("it is away".to_owned()) };
        std::future::ready(found)
    }));
    (directory, asked)
}

#[tokio::test]
async fn templates_from_elsewhere_are_added_to_the_request() {
    let (directory, asked) = directory();
    let answer = directory.call(FUNCTION, &request(&remote("1"))).await.unwrap();
    assert!(answer.results.is_empty(), "{:?}", answer.results);
    assert_eq!(answer.desired.unwrap().resources().len(), 1);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn templates_that_are_not_there_fail_the_call() {
    let (directory, _) = directory();
    let error = directory.call(FUNCTION, &request(&remote("2"))).await.unwrap_err();
    assert!(matches!(error, CallError::Templates { .. }), "{error:?}");
    assert!(error.to_string().ends_with(": it is away"), "{error}");
}

#[tokio::test]
async fn nothing_is_fetched_for_inputs_that_name_no_place() {
    let (directory, asked) = directory();
    let inline = json!({"source": "Inline", "inline": {"template": "# x"}, "remote": remote("1")["remote"]});
    directory.call(FUNCTION, &request(&inline)).await.unwrap();
    // What is not pinned is for the function to complain about.
    let unpinned = json!({"source": "Remote", "remote": "git://git.example.org/t@main"});
    let answer = directory.call(FUNCTION, &request(&unpinned)).await.unwrap();
    assert!(answer.results[0].message.contains("pinned"), "{:?}", answer.results);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}
