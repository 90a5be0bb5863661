//! Whatever is asked, the server answers, blames itself for nothing, and says what it says in the form it claims.
#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

// The first line is a method and a path, further lines are headers, what follows an empty line is the body.
fuzz_target!(|data: &[u8]| {
    let end = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(data.len());
    let (head, body) = (&data[..end], data.get(end + 2..).unwrap_or_default());
    let Ok(head) = str::from_utf8(head) else { return };
    let mut lines = head.lines();
    let Some((method, path)) = lines.next().and_then(|line| line.split_once(' ')) else { return };
    let (Ok(method), Some(uri)) = (method.parse::<Method>(), fuzz::dry(path)) else { return };
    let mut headers = HeaderMap::new();
    for (name, value) in lines.take(20).filter_map(|line| line.split_once(": ")) {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.append(name, value);
        }
    }
    let answer = fuzz::ask(&method, &uri, &headers, body);
    let text = String::from_utf8_lossy(&answer.body);
    // 504: what was asked for has not happened yet. Where Kubernetes says 500, without a reason, so do we.
    let is_excused = answer.code == 504 || answer.code == 500 && !text.contains("\"reason\":");
    assert!(answer.code < 500 || is_excused, "{} {}", answer.code, text);
    if answer.content_type == "application/json" && !answer.body.is_empty() {
        let value = serde_json::from_slice::<Value>(&answer.body).expect("it is JSON");
        if value["kind"] == "Status" && value["status"] == "Failure" {
            assert_eq!(value["code"], answer.code);
        }
    }
});
