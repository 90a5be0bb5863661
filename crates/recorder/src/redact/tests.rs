//! What is left when secrets are taken out.

use serde_json::json;

use super::*;

fn object(value: Value) -> Struct {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    Struct::try_from(object).unwrap()
}

/// What is left of objects when the secrets of all of them are taken out.
fn redacted(values: &[Value]) -> Vec<Value> {
    let redactor = Redactor::new([1; 32], &[]);
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
fn words_of_a_name_may_be_divided_by_any_separator() {
    for name in ["private.key", "private_key", "api.key", "api-key", "pass-word", "pass_phrase"] {
        // Nothing else in the object says that there is a secret.
        let left = redacted(&[json!({"kind": "ConfigMap", "data": {name: "sesame-open"}})]).remove(0);
        assert!(!left.to_string().contains("sesame"), "{left}");
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
fn texts_and_numbers_in_lists_and_maps_that_are_named_like_secrets_are() {
    let xr = json!({"spec": {
        "passwords": ["sesame-1", {"user": "sesame-2", "pins": [12_345_678]}],
        "credentials": {"alice": "sesame-3", "more": {"text": "sesame-4", "policy": "Sesame"}},
        "githubTokens": ["sesame-5"], "password": {"password": {"password": "sesame"}},
        "env": [{"name": "DB_PASSWORD", "value": ["sesame-6"]}],
        "apiKey": {"type": "bearer", "key": "sesame-7"}, "password2": {"password": {"key": "sesame-8"}},
        "token": {"href": "https://bob:sesame-9@example.org"},
    }});
    let other = json!({"kind": "ConfigMap", "data": {"text": "sesame-3 and 12345678", "policy": "Sesame"}});
    let left = redacted(&[xr, other]);
    let text = left[0].to_string();
    assert!(!text.to_lowercase().contains("sesame") && !text.contains("12345678"), "{text}");
    let elsewhere = left[1].to_string();
    assert!(!elsewhere.contains("sesame") && !elsewhere.contains("12345678"), "{elsewhere}");
    // A word may be the value of any setting.
    assert_eq!(left[1]["data"]["policy"], "Sesame");
}

#[test]
fn references_settings_and_schemas_in_fields_that_are_named_like_secrets_are_kept() {
    let reference = json!({"namespace": "default", "name": "cloud", "key": "credentials"});
    let token = json!({"type": "object", "properties": {"token": {"type": "string", "description": "any"}}});
    let kept = json!({"spec": {
        "credentials": [{"name": "registry", "source": "Secret", "secretRef": reference}],
        "password": {"name": "login", "key": "password"},
        "adminPassword": {"valueFrom": {"secretKeyRef": reference}},
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "credential": {"type": "keyPair", "keyPair": {"idField": "id", "secretField": "text", "secret": {"name": "login"}}},
        "properties": {"password": {"type": "string", "minLength": 8}, "credentials": {"type": "array", "items": token}},
        "tokens": {"limit": 4096}, "token": {"apiVersion": "v1", "kind": "Secret", "matchName": "token"},
    }});
    assert_eq!(redacted(std::slice::from_ref(&kept)), [kept]);
}

#[test]
fn names_and_short_words_are_no_secrets_elsewhere() {
    let data = json!({"namespace": STANDARD.encode("default"), "port": STANDARD.encode("5432")});
    let other = json!({"kind": "ConfigMap", "metadata": {"namespace": "default"}, "data": {"port": "5432"}});
    assert_eq!(redacted(&[secret(&data), other.clone()])[1], other);
}

#[test]
fn what_holds_no_secret_is_left_as_it_is() {
    let redactor = Redactor::new([1; 32], &[]);
    let mut secrets = Secrets::new(&redactor);
    let harmless = object(json!({"kind": "Bucket", "spec": {"writeConnectionSecretToRef": {"name": "x"}}}));
    secrets.learn(&harmless);
    secrets.close();
    assert!(!secrets.are_there() && secrets.object(&harmless).is_none());
    assert_eq!(secrets.text("words"), "words");
}

#[test]
fn names_that_users_add_are_recognised() {
    let redactor = Redactor::new([1; 32], &["PIN".parse().unwrap(), "licence-key".parse().unwrap()]);
    let mut secrets = Secrets::new(&redactor);
    let xr = object(json!({"spec": {
        "pin": "1234", "door_pin": "5678", "licenceKey": "abc", "env": [{"name": "X_PIN", "value": "9"}], "pins": "kept",
    }}));
    secrets.learn(&xr);
    secrets.close();
    let left = secrets.object(&xr).unwrap();
    let left = Value::Object(left.json().unwrap().clone());
    for (path, is_kept) in
        [("pin", false), ("door_pin", false), ("licenceKey", false), ("env/0/value", false), ("pins", true)]
    {
        let text = left.pointer(&format!("/spec/{path}")).unwrap().as_str().unwrap();
        assert_eq!(!text.starts_with("redacted-"), is_kept, "{path}: {text}");
    }
    for bad in ["", "a", "--x", "a b c"] {
        assert!(bad.parse::<FieldName>().is_err(), "{bad}");
    }
}

#[test]
fn fields_that_the_definition_calls_secret_are_replaced_there_and_elsewhere() {
    let definition = json!({"metadata": {"annotations": {"ferroplane.io/sensitive-fields": "spec.door.pin"}},
    "spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {
        "phrase": {"type": "string", "format": "password"}, "code": {"type": "integer", "writeOnly": true},
    }}}}}}]}});
    let (fields, _) = SensitiveFields::of(definition.as_object().unwrap());
    let redactor = Redactor::new([1; 32], &[]);
    let mut secrets = Secrets::new(&redactor);
    let xr = object(
        json!({"spec": {"phrase": "open sesame", "code": 4711, "door": {"pin": "77"}, "size": "small"}}),
    );
    let composed = object(json!({"data": {"said": "he said open sesame", "door": "77"}}));
    secrets.learn_sensitive(&xr, &fields);
    secrets.close();
    let left = secrets.composite(&xr, &fields).unwrap();
    let left = &left.json().unwrap()["spec"];
    assert!(left["phrase"].as_str().unwrap().starts_with("redacted-"), "{left}");
    assert!(left["door"]["pin"].as_str().unwrap().starts_with("redacted-"), "{left}");
    assert_eq!((&left["code"], &left["size"]), (&json!(0), &json!("small")));
    let elsewhere = secrets.object(&composed).unwrap();
    let elsewhere = &elsewhere.json().unwrap()["data"];
    assert_eq!(elsewhere["said"], format!("he said {}", left["phrase"].as_str().unwrap()));
    // Too short to be looked for.
    assert_eq!(elsewhere["door"], "77");
}

#[test]
fn fields_that_a_definition_calls_secret_are_replaced_in_every_object_of_its_kinds() {
    let definition = json!({
        "metadata": {"annotations": {"ferroplane.io/sensitive-fields": "spec.pin,spec.code,spec.password"}},
        "spec": {"group": "example.org", "names": {"kind": "XVault"}, "claimNames": {"kind": "Vault"}},
    });
    let redactor = Redactor::new([1; 32], &[]).with(definition.as_object().unwrap()).unwrap();
    let spec = json!({"pin": "4711", "code": 4712, "password": "sesame-open"});
    let vault = |kind: &str| json!({"apiVersion": "example.org/v1", "kind": kind, "spec": spec});
    let wrapped = json!({"kind": "Object", "spec": {"forProvider": {"manifest": vault("XVault")}}});
    let mut other = vault("Vault");
    other["apiVersion"] = "example.com/v1".into();
    let mut secrets = Secrets::new(&redactor);
    let objects = [vault("XVault"), vault("Vault"), wrapped, other].map(object);
    for object in &objects {
        secrets.learn(object);
    }
    secrets.close();
    let left = objects.map(|it| Value::Object(secrets.object(&it).unwrap().json().unwrap().clone()));
    let expected = json!({
        "pin": redactor.placeholder(b"4711"), "code": 0, "password": redactor.placeholder(b"sesame-open"),
    });
    assert_eq!((&left[0]["spec"], &left[1]["spec"]), (&expected, &expected));
    assert_eq!(left[2]["spec"]["forProvider"]["manifest"]["spec"], expected);
    // Another kind of that name: what is secret there is known by name and value.
    assert_eq!((&left[3]["spec"]["pin"], &left[3]["spec"]["code"]), (&json!("4711"), &json!(4712)));
    assert_eq!(left[3]["spec"]["password"], expected["password"]);
    // A plan, too. There, the status of the composite resource has no kind.
    let own = json!({"metadata": {"annotations": {"ferroplane.io/sensitive-fields": "status.pin"}}});
    let (fields, _) = SensitiveFields::of(own.as_object().unwrap());
    let outcome = json!({"plan": {"apply": [{"object": vault("XVault")}], "status": {"pin": "4713"}}});
    let outcome: Value =
        serde_json::from_slice(&secrets.outcome(outcome.to_string().as_bytes(), Some(&fields))).unwrap();
    assert_eq!(outcome["plan"]["apply"][0]["object"]["spec"], expected);
    assert_eq!(outcome["plan"]["status"]["pin"], redactor.placeholder(b"4713"));
}

#[test]
fn numbers_in_fields_that_are_named_like_secrets_become_zero() {
    let env = json!([{"name": "DB_PASSWORD", "value": 1_234_567}, {"name": "PORT", "value": 5432}]);
    let xr = json!({"spec": {"password": 12_345_678, "replicas": 3, "env": env}});
    let left = redacted(&[xr, json!({"kind": "ConfigMap", "data": {"text": "it is 12345678"}})]);
    let spec = &left[0]["spec"];
    assert_eq!((&spec["password"], &spec["replicas"]), (&json!(0), &json!(3)));
    assert_eq!((&spec["env"][0]["value"], &spec["env"][1]["value"]), (&json!(0), &json!(5432)));
    assert!(left[1]["data"]["text"].as_str().unwrap().starts_with("it is redacted-"), "{}", left[1]);
}

#[test]
fn copy_that_kubectl_keeps_is_redacted_like_its_object() {
    let definition = json!({"metadata": {"annotations": {"ferroplane.io/sensitive-fields": "spec.pin,spec.code"}},
        "spec": {"group": "example.org", "names": {"kind": "XVault"}}});
    let redactor = Redactor::new([1; 32], &[]).with(definition.as_object().unwrap()).unwrap();
    let spec = json!({"pin": "4711", "code": 4712, "password": "abc", "size": "small"});
    let applied =
        json!({"apiVersion": "example.org/v1", "kind": "XVault", "metadata": {"name": "v"}, "spec": spec});
    let annotations = json!({LAST_APPLIED: format!("{applied}\n")});
    let expected = json!({
        "pin": redactor.placeholder(b"4711"), "code": 0, "password": redactor.placeholder(b"abc"), "size": "small",
    });
    // The copy may be all that is left of them.
    for spec in [spec, json!({"size": "large"})] {
        let mut xr = applied.clone();
        xr["metadata"]["annotations"] = annotations.clone();
        xr["spec"] = spec;
        let xr = object(xr);
        let mut secrets = Secrets::new(&redactor);
        secrets.learn(&xr);
        secrets.close();
        assert!(secrets.are_there());
        let left = secrets.object(&xr).unwrap();
        let copy = left.json().unwrap()["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(copy).unwrap()["spec"], expected);
    }
}
