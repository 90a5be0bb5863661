//! Responses, as JSON.

use serde_json::{Map, Value, json};

/// A response that keeps what earlier steps want.
pub(crate) fn to(request: &Value) -> Value {
    let mut response = json!({"meta": {"tag": request["meta"]["tag"].as_str().unwrap_or_default()}});
    for field in ["desired", "context"] {
        if !request[field].is_null() {
            response[field] = request[field].clone();
        }
    }
    response
}

/// A response that stops the pipeline.
pub(crate) fn fatal(request: &Value, message: &str) -> Value {
    let mut response = to(request);
    response["results"] = json!([{"severity": "SEVERITY_FATAL", "message": message}]);
    response
}

/// A response that asks for resources.
pub(crate) fn wants(request: &Value, selectors: Map<String, Value>) -> Value {
    let mut response = to(request);
    response["requirements"] = json!({"resources": selectors});
    response
}
