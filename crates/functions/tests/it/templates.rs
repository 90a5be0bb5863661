//! Templates in the style of real compositions give what function-go-templating v0.4.1 gave.
//!
//! `tests/templates` has a directory for each domain: templates, and requests to call each of them with. `answers.jsonl` is what the
//! original answered, written by `compatibility function-go-templating --record`. `compatibility` compares them anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ferroplane_functions::builtin;
use ferroplane_golang::yaml::Documents;
use ferroplane_wire::v1::RunFunctionResponse;
use ferroplane_wire::{from_json, to_json};
use prost::Message as _;
use serde_json::{Value, json};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/templates")
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    entries
}

/// Every template with every request of its domain, by name.
fn cases() -> BTreeMap<String, Value> {
    let mut cases = BTreeMap::new();
    for domain in entries(&directory()).into_iter().filter(|path| path.is_dir()) {
        let text = std::fs::read_to_string(domain.join("requests.yaml")).unwrap();
        let requests = Documents::new(&text).map(|document| document.unwrap().value);
        let requests: Vec<_> = requests.filter(Value::is_object).collect();
        for file in
            entries(&domain).into_iter().filter(|path| path.extension().is_some_and(|it| it == "tmpl"))
        {
            let template = std::fs::read_to_string(&file).unwrap();
            for request in &requests {
                let mut request = request.clone();
                let name = request.as_object_mut().unwrap().remove("name").unwrap();
                let (domain, file) = (domain.file_name().unwrap(), file.file_stem().unwrap());
                let name = format!(
                    "{}/{} {}",
                    domain.to_str().unwrap(),
                    file.to_str().unwrap(),
                    name.as_str().unwrap()
                );
                request["input"] = json!({"source": "Inline", "inline": {"template": template}});
                cases.insert(name, request);
            }
        }
    }
    cases
}

fn answer(request: &Value) -> Value {
    let function = builtin("function-go-templating", Some("v0.4.1")).unwrap();
    let answer = function.run(&from_json(request).unwrap());
    // As over the wire, where every number is a double.
    to_json(&RunFunctionResponse::decode(answer.encode_to_vec().as_slice()).unwrap()).unwrap()
}

#[test]
fn templates_in_the_style_of_real_compositions_give_what_the_original_gave() {
    let recorded = std::fs::read_to_string(directory().join("answers.jsonl")).unwrap();
    let recorded = recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let recorded: BTreeMap<_, _> =
        recorded.map(|line| (line["case"].as_str().unwrap().to_owned(), line["answer"].clone())).collect();
    let cases = cases();
    assert_eq!(cases.keys().collect::<Vec<_>>(), recorded.keys().collect::<Vec<_>>());
    let mut composed = 0;
    for (name, request) in &cases {
        let answer = answer(request);
        composed += usize::from(answer["desired"]["resources"].is_object());
        assert_eq!(answer, recorded[name], "{name}");
    }
    let templates = cases.len() / 3;
    assert!(templates >= 200, "there are only {templates} templates");
    assert!(composed > cases.len() / 2, "only {composed} of {} compose something", cases.len());
}
