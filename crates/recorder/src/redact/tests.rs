//! What is left when secrets are taken out.

use serde_json::json;

use super::*;

fn object(value: Value) -> Struct {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    Struct::try_from(object).unwrap()
}

/// What is left of objects when the secrets of all of them are taken out.
fn redacted(values: &[Value]) -> Vec<Value> {
    let redactor = Redactor::new([1; 32]);
    let mut secrets = Secrets::new(&redactor);
    let objects: Vec<_> = values.iter().cloned().map(object).collect();
    for object in &objects {
        secrets.learn(object);
    }
    secrets.learn_name("default");
    secrets.close();
    let redact = |object: &Struct| secrets.object(object).unwrap_or_else(|| object.clone());
    objects.iter().map(|object| Value::Object(redact(object).json().unwrap().clone())).collect()
}

fn secret(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})
}

#[test]
fn equal_values_have_equal_placeholders_in_every_form() {
    let encoded = STANDARD.encode("sesame-open");
    let values = [
        secret(&json!({"a": encoded, "b": encoded, "c": STANDARD.encode("other-one"), "empty": ""})),
        json!({"kind": "ConfigMap", "data": {"text": format!("sesame-open {encoded} and more"), "key": "x"}}),
    ];
    let left = redacted(&values);
    let data = &left[0]["data"];
    assert_eq!(data["a"], data["b"]);
    assert_ne!(data["a"], data["c"]);
    assert_eq!(data["empty"], "");
    let placeholder = STANDARD.decode(data["a"].as_str().unwrap()).unwrap();
    let placeholder = String::from_utf8(placeholder).unwrap();
    let expected = format!("{placeholder} {} and more", STANDARD.encode(&placeholder));
    assert_eq!(left[1]["data"]["text"], expected);
    assert_eq!(left[1]["data"]["key"], "x");
}

#[test]
fn secret_that_is_broken_into_lines_is_known_by_its_value() {
    let values = [
        // What an API server takes for `sesame-open`: lines do not matter, nor do bits after the last byte.
        secret(&json!({"a": "c2VzYW1l\nLW9wZW4=\n", "b": "c2VzYW1lLW9wZW5="})),
        json!({"kind": "ConfigMap", "data": {"text": "sesame-open"}}),
    ];
    let left = redacted(&values);
    assert_eq!(left[0]["data"]["a"], left[0]["data"]["b"]);
    assert!(!left[1].to_string().contains("sesame-open"), "{}", left[1]);
}

#[test]
fn secrets_are_found_wherever_they_are_wrapped() {
    let inner = secret(&json!({"a": STANDARD.encode("sesame-open")}));
    let left = redacted(&[json!({"kind": "Object", "spec": {"forProvider": {"manifest": [inner]}}})]);
    assert!(!left[0].to_string().contains(&STANDARD.encode("sesame-open")), "{}", left[0]);
}

#[test]
fn fields_that_are_named_like_secrets_are() {
    let value = json!({"spec": {
        "password": "sesame-1", "admin_password": "sesame-2", "api-key": "sesame-3", "Token": "sesame-4",
        "passwordSecretRef": {"name": "kept", "key": "password"}, "fromConnectionSecretKey": "password",
        "tokens": "kept", "properties": {"password": {"type": "string"}},
    }});
    let left = redacted(std::slice::from_ref(&value)).remove(0);
    assert!(!left.to_string().contains("sesame"), "{left}");
    for kept in ["passwordSecretRef", "fromConnectionSecretKey", "tokens", "properties"] {
        assert_eq!(left["spec"][kept], value["spec"][kept], "{kept}");
    }
}

#[test]
fn names_with_anything_before_them_and_pairs_of_name_and_value_are_recognised() {
    let xr = json!({"spec": {
        "githubToken": "ghp_0123456789", "DB_ROOT_PASSWORD": "hunter2-hunter2", "gcp.credentials": "{private}",
        "env": [
            {"name": "DB_PASSWORD", "value": "correct horse"}, {"key": "api-token", "value": "battery staple"},
            {"name": "REGION", "value": "eu-north-1"},
        ],
    }});
    let text = redacted(&[xr])[0].to_string();
    for secret in ["ghp_", "hunter2", "private", "horse", "staple"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    for public in ["eu-north-1", "DB_PASSWORD", "api-token"] {
        assert!(text.contains(public), "{public}: {text}");
    }
    let named = json!({"spec": {"tokenTTL": "300 seconds", "passwordSecretRef": "some-secret", "existingSecret": "the-secret"}});
    assert_eq!(redacted(std::slice::from_ref(&named)), [named]);
}

#[test]
fn names_and_short_words_are_no_secrets_elsewhere() {
    let data = json!({"namespace": STANDARD.encode("default"), "port": STANDARD.encode("5432")});
    let other = json!({"kind": "ConfigMap", "metadata": {"namespace": "default"}, "data": {"port": "5432"}});
    assert_eq!(redacted(&[secret(&data), other.clone()])[1], other);
}

#[test]
fn what_holds_no_secret_is_left_as_it_is() {
    let redactor = Redactor::new([1; 32]);
    let mut secrets = Secrets::new(&redactor);
    let harmless = object(json!({"kind": "Bucket", "spec": {"writeConnectionSecretToRef": {"name": "x"}}}));
    secrets.learn(&harmless);
    secrets.close();
    assert!(!secrets.are_there() && secrets.object(&harmless).is_none());
    assert_eq!(secrets.text("words"), "words");
}
