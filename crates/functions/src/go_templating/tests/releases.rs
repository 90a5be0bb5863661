//! What releases of the original do differently, and what all of them do with the parts of a request that they share.

use ferroplane_wire::v1::Ready;

use super::*;

const META: &str = "meta.gotemplating.fn.crossplane.io/v1alpha1";

fn meta(kind: &str, rest: &str) -> String {
    format!("apiVersion: {META}\nkind: {kind}\n{rest}\n---\n")
}

fn message(release: Release, request: &Value) -> String {
    let answer = answer_as(release, request);
    answer["results"][0]["message"].as_str().unwrap_or_else(|| panic!("{answer:#}")).to_owned()
}

#[test]
fn kinds_of_documents_are_listed_in_the_words_of_the_release() {
    let request = request(&meta("Other", "a: 1"));
    for (release, words) in [
        (Release::V0_5, "must be CompositeConnectionDetails"),
        (Release::V0_6, "must be CompositeConnectionDetails or ExtraResources"),
        (Release::V0_7, "must be one of CompositeConnectionDetails, Context or ExtraResources"),
    ] {
        assert!(
            message(release, &request).ends_with(&format!(" - {words} (printed by line 1 of the template)"))
        );
    }
}

#[test]
fn template_sees_what_the_protocol_of_the_release_has() {
    let mut request = request(&named("a", "data: {sees: '{{ keys . | sortAlpha | join `,` }}'}"));
    let found = json!({"a": {"items": [{"resource": {"kind": "A"}}]}});
    request["extraResources"] = found.clone();
    request["requiredResources"] = found;
    request["credentials"] = json!({"a": {"credentialData": {"data": {"a": "YQ=="}}}});
    request["requiredSchemas"] = json!({"a": {}});
    for (release, sees) in [
        (Release::V0_4, "input,observed"),
        (Release::V0_5, "extraResources,input,observed"),
        (Release::V0_9, "credentials,extraResources,input,observed"),
        (Release::V0_12, "credentials,extraResources,input,observed,requiredResources,requiredSchemas"),
    ] {
        let answer = answer_as(release, &request);
        assert_eq!(answer["desired"]["resources"]["a"]["resource"]["data"]["sees"], sees, "{answer:#}");
    }
}

#[test]
fn field_of_a_later_release_is_refused() {
    for (field, value, before) in [
        ("environment", json!({"key": "a"}), Release::V0_9),
        ("options", json!([]), Release::V0_11),
        ("ttl", json!("5m"), Release::V0_12),
    ] {
        let mut request = request(&named("a", ""));
        request["input"][field] = value;
        assert!(message(before, &request).contains(&format!("unknown field `{field}`")), "{field}");
    }
    let mut listed = request("");
    listed["input"]["inline"] = json!({"templates": [named("a", "")]});
    assert!(message(Release::V0_11, &listed).contains("unknown field `inline.templates`"));
    // The first releases passed over what they did not know.
    assert_eq!(message(Release::V0_4, &listed), "invalid function input: inline.template should be provided");
    let mut other = request(&named("a", ""));
    other["input"]["ttl"] = json!("5m");
    assert!(answer_as(Release::V0_4, &other)["desired"]["resources"]["a"].is_object());
}

#[test]
fn annotations_that_are_no_map_are_refused() {
    let fault = |metadata: &str| message(Release::V0_12, &request(&format!("kind: A\nmetadata: {metadata}")));
    let words = "invalid annotations in resource '/, Kind=A resource-name=<nil>': .metadata.annotations accessor error: text is of the type string, expected map[string]interface{}";
    assert!(fault("text").starts_with(words), "{}", fault("text"));
    assert!(fault("{annotations: text}").starts_with(words), "{}", fault("{annotations: text}"));
}

#[test]
fn documents_about_the_context_add_up() {
    let documents = meta("Context", "data: {a: {b: 1}}") + &meta("Context", "data: {a: {c: 2}, d: 3}");
    let mut with_context = request(&documents);
    with_context["context"] = json!({"a": {"z": 0}});
    let context = answer_as(Release::V0_12, &with_context)["context"].clone();
    assert_eq!(context, json!({"a": {"b": 1, "c": 2, "z": 0}, "d": 3}));
    // Without a context in the request, the original begins anew with each document.
    let context = answer_as(Release::V0_12, &request(&documents))["context"].clone();
    assert_eq!(context, json!({"a": {"c": 2}, "d": 3}));
}

#[test]
fn extra_resources_are_kept_in_the_context_as_go_writes_them() {
    let mut request = request(&named("a", ""));
    let detailed =
        json!({"resource": {"kind": "A"}, "connectionDetails": {"k": "YQ=="}, "ready": "READY_TRUE"});
    request["context"] = json!({"other": true});
    request["extraResources"] = json!({"extra": {"items": [detailed]}, "none": {}});
    request["requiredResources"] = json!({"required": {"items": [{"resource": {"kind": "B"}}]}});
    let kept = answer_as(Release::V0_12, &request)["context"][documents::EXTRA_RESOURCES].clone();
    let detailed =
        json!({"resource": {"kind": "A"}, "connection_details": {"k": "YQ=="}, "ready": Ready::True as i32});
    let required = json!({"items": [{"resource": {"kind": "B"}}]});
    assert_eq!(kept, json!({"extra": {"items": [detailed]}, "none": {}, "required": required}));
}

#[test]
fn readiness_of_the_composite_resource_is_what_this_step_says() {
    let mut earlier = request(&named("a", ""));
    earlier["desired"] = json!({"composite": {"resource": {}, "ready": "READY_TRUE"}});
    for release in [Release::V0_4, Release::V0_12] {
        let answer = answer_as(release, &earlier);
        assert_eq!(answer["desired"]["composite"].get("ready"), None, "{answer:#}");
    }
}

#[test]
fn nulls_of_documents_are_as_if_they_were_not_there() {
    let requirement = meta("ExtraResources", "requirements: {all: null, a: {kind: A, matchName: null}}");
    let answer = answer(
        &(requirement
            + &meta("ClaimConditions", "conditions: [{type: A, reason: null}]")
            + &meta("Context", "data: null")),
    );
    assert_eq!(answer.get("results"), None, "{answer:#}");
    assert_eq!(answer["requirements"]["resources"]["a"], json!({"kind": "A", "matchLabels": {}}));
    assert_eq!(answer["conditions"][0]["type"], "A");
}

#[test]
fn namespace_of_extra_resources_counts_since_v0_12() {
    let template = meta("ExtraResources", "requirements: {a: {kind: A, matchName: x, namespace: team}}");
    let asked = |release| answer_as(release, &request(&template))["requirements"].clone();
    assert_eq!(asked(Release::V0_11), json!({"extraResources": {"a": {"kind": "A", "matchName": "x"}}}));
    assert_eq!(
        asked(Release::V0_12),
        json!({"resources": {"a": {"kind": "A", "matchName": "x", "namespace": "team"}}})
    );
}

#[test]
fn conditions_are_structs_of_go() {
    let mut with_time = request("");
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Fine", "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 4,
    });
    with_time["observed"]["resources"]["db.main"]["resource"]["status"]["conditions"] = json!([condition]);
    let of = "getResourceCondition `Ready` (index .observed.resources `db.main`)";
    let shown = |template: String, request: &Value| printed(&template, request).unwrap();
    assert_eq!(
        shown(format!("{{{{ {of} }}}}"), &with_time),
        "{Ready True 2026-01-02 03:04:05 +0000 UTC Fine  4}"
    );
    assert_eq!(shown(format!("{{{{ ({of}).LastTransitionTime.Year }}}}"), &with_time), "2026");
    assert_eq!(
        shown(format!("{{{{ {of} | toJson }}}}"), &with_time),
        r#"{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"Fine","observedGeneration":4}"#
    );
    assert_eq!(
        shown("{{ getResourceCondition `A` . | toJson }}".to_owned(), &with_time),
        r#"{"type":"A","status":"Unknown","lastTransitionTime":null,"reason":""}"#
    );
    assert_eq!(
        shown(format!("{{{{ {of} | toYaml }}}}"), &with_time),
        "type: Ready\nstatus: \"True\"\nlasttransitiontime: \"2026-01-02T03:04:05Z\"\nreason: Fine\nmessage: \"\"\nobservedgeneration: 4\n"
    );
    // One that Go cannot read hides all of them.
    with_time["observed"]["resources"]["db.main"]["resource"]["status"]["conditions"][0]["status"] =
        json!(true);
    assert_eq!(shown(format!("{{{{ ({of}).Status }}}}"), &with_time), "Unknown");
}

#[test]
fn absent_source_is_told_with_what_helps_where_the_original_can_have_a_default() {
    let mut request = request("");
    request["input"] = json!({});
    assert_eq!(message(Release::V0_11, &request), "invalid function input: source is required");
    let told = message(Release::V0_12, &request);
    assert!(
        told.contains("source is required; ") && told.contains("ferroplane.io/native: \"false\""),
        "{told}"
    );
}
