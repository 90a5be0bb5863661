//! What administrators learn of an action that reaches for what it was not granted.

use ferroplane_testkit::plane::Plane;
use serde_json::json;

use super::log_records::LogRecords;
use super::{phase, run};

#[tokio::test]
async fn refused_access_of_an_action_is_audited_with_action_set_phase_and_function() {
    let (logged, _collecting) = LogRecords::collect();
    let plane = Plane::new().await;
    let stolen = json!({"apiVersion": "v1", "resource": "secrets", "name": "x", "namespace": "kube-system"});
    let args = json!({"operation": "get", "objectReference": stolen});
    let failed =
        run(&plane, &json!({"phases": [phase("KubeOps", "steal", &args)]}), &json!({}), "failed").await;
    assert_eq!(failed["status"]["errors"][0]["code"], "AccessNotGranted");
    let records = logged.containing("denied access to an object");
    let [record] = records.as_slice() else { panic!("{records:#?}") };
    assert!(record.starts_with("WARN audit:"), "{record}");
    let uid = failed["metadata"]["uid"].as_str().unwrap();
    for field in
        ["decision=\"deny\"", "kind=\"ActionSet\"", "name=\"s\"", "function=\"KubeOps\"", "/0/steal", uid]
    {
        assert!(record.contains(field), "{field}: {record}");
    }
}
