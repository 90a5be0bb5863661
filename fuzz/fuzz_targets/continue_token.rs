//! Whatever is given as a token to continue a list with, nothing is shown twice, nothing from elsewhere, and it ends.
#![no_main]

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method};
use libfuzzer_sys::fuzz_target;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;

// The first byte chooses the list and the size of its pages, the second whether the rest is a token or what is in one.
fuzz_target!(|data: &[u8]| {
    let [choice, form, rest @ ..] = data else { return };
    let namespace = fuzz::NAMESPACES[usize::from(choice % 2)];
    let path = match choice / 2 % 3 {
        0 => format!("/api/v1/namespaces/{namespace}/configmaps"),
        1 => format!("/apis/example.org/v1/namespaces/{namespace}/things"),
        _ => "/apis/example.org/v1/things".to_owned(),
    };
    let limit = choice / 6 % 4;
    let mut token = if form % 2 == 0 {
        let Ok(text) = str::from_utf8(rest) else { return };
        text.to_owned()
    } else {
        URL_SAFE_NO_PAD.encode(rest)
    };
    let mut seen = HashSet::new();
    for _ in 0..20 {
        let token_in_query = percent_encode(token.as_bytes(), NON_ALPHANUMERIC);
        let uri = fuzz::dry(&format!("{path}?limit={limit}&continue={token_in_query}"));
        let Some(uri) = uri else { return };
        let answer = fuzz::ask(&Method::GET, &uri, &HeaderMap::new(), &[]);
        let body: Value = serde_json::from_slice(&answer.body).expect("it is JSON");
        match answer.code {
            // 504: of a version that is yet to come.
            400 | 410 | 504 => return,
            200 => {}
            code => panic!("{code}: {body}"),
        }
        for item in body["items"].as_array().expect("it is a list") {
            let metadata = &item["metadata"];
            assert!(path.ends_with("v1/things") || metadata["namespace"] == namespace, "{item}");
            assert!(seen.insert(metadata["uid"].to_string()), "{item} is there twice");
        }
        match body["metadata"]["continue"].as_str().unwrap_or_default() {
            "" => return,
            next => next.clone_into(&mut token),
        }
    }
    panic!("it does not end");
});
