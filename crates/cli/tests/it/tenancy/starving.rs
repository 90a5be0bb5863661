//! A tenant who takes more than a fair share: others are still answered.

use std::time::Duration;

use ferroplane_testkit::{ApiClient, ApiWatch};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ground::{Tenants, Who};

/// Requests that are sent at once. More than one user is given places for.
const AT_ONCE: usize = 300;

/// Slow bodies: more than one user is given places for, and the number that once kept everybody from writing.
const SLOW: usize = 205;

/// Connections on which nothing is asked.
const IDLE: usize = 500;

/// `ConfigMaps` of a megabyte. A list of them is more than a connection holds by itself.
const LARGE: usize = 20;

/// Service accounts of the attacker that read nothing of what they ask for: more than one user is given memory for.
const READERS: usize = 8;

/// How long anybody else may wait for an answer.
const SOON: Duration = Duration::from_secs(5);

const MAPS: &str = "/api/v1/namespaces/red/configmaps";

/// Requests that are too much each by themselves, and the codes that refuse them. Returns the codes of writes that were refused.
pub(super) fn ask_too_much(tenants: &Tenants) -> Vec<u16> {
    let long = "x".repeat(4 << 20);
    let huge =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "huge"}, "data": {"a": long}});
    let deep = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep"}},"data":{}{}}}"#,
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    let selector = format!("{MAPS}?labelSelector={}", "a%3Db,".repeat(9_000));
    let owner =
        |n: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "own", "uid": format!("u{n}")});
    let owners: Vec<_> = (0..20_000).map(owner).collect();
    let burdened = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": owners}});
    let attempts = [
        ("a huge object", "POST", MAPS, huge.to_string(), &[413_u16][..]),
        ("a deep object", "POST", MAPS, deep, &[400]),
        ("a long selector", "GET", &selector, String::new(), &[400, 414, 431]),
        // It fits, so it may be stored; it must not take long.
        ("many owners", "POST", MAPS, burdened.to_string(), &[201, 413, 422]),
    ];
    let mut refused = Vec::new();
    for (what, method, path, body, codes) in &attempts {
        let answer = tenants.ask(Who::Red, method, path, &[("content-type", "application/json")], body);
        assert!(codes.contains(&answer.code), "{what}: {}", answer.code);
        refused.extend(Some(answer.code).filter(|code| *method == "POST" && *code >= 400));
    }
    refused
}

/// The refused writes without a line of their own in the audit log.
pub(super) fn untold(mut audit: Vec<Value>, refused: &[u16]) -> Vec<String> {
    let mut untold = Vec::new();
    for code in refused {
        let is_told = |line: &Value| {
            Some(&line["user"]["username"]) == Who::Red.account().map(Value::from).as_ref()
                && line["verb"] == "create"
                && line["requestURI"] == MAPS
                && line["responseStatus"]["code"] == u64::from(*code)
        };
        match audit.iter().position(is_told) {
            Some(index) => drop(audit.swap_remove(index)),
            None => untold.push(format!("a write that was refused ({code})")),
        }
    }
    untold
}

/// While one tenant watches and writes as much as it can, the other and the administrator are answered. Returns the codes of writes that
/// were refused.
pub(super) fn flood(tenants: &Tenants) -> Vec<u16> {
    tenants.runtime().block_on(async {
        let watches = watch_a_lot(tenants).await;
        others_write(tenants, "while-watched").await;
        let mut flood = write_a_lot(tenants);
        others_write(tenants, "while-flooded").await;
        let mut refused = Vec::new();
        while let Some(code) = flood.join_next().await {
            refused.extend(code.unwrap().filter(|code| *code >= 400));
        }
        drop(watches);
        refused
    })
}

/// While the bodies of one tenant do not come, the other and the administrator are answered.
pub(super) fn stall(tenants: &Tenants) {
    tenants.runtime().block_on(async {
        let mut slow = Vec::new();
        for _ in 0..SLOW {
            slow.push(tenants.stall().await.unwrap());
        }
        for n in 0..3 {
            others_write(tenants, &format!("while-stalled-{n}")).await;
        }
    });
}

/// While one tenant has many connections that it does not use, the other and the administrator are answered.
pub(super) fn occupy(tenants: &Tenants) {
    tenants.runtime().block_on(async {
        let mut idle = Vec::new();
        for _ in 0..IDLE {
            let mut client = ApiClient::connect(&tenants.address(Who::Red)).await.unwrap();
            // From now on the server knows whose it is, and does not close it as that of a stranger.
            client.send("GET", &format!("{MAPS}/own"), "").await.unwrap();
            idle.push(client);
        }
        others_write(tenants, "while-occupied").await;
    });
}

/// While many accounts of one tenant ask for large lists and do not read them, they have the memory of one user together, and the other
/// tenant and the administrator are answered.
pub(super) fn leave_unread(tenants: &Tenants) {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts:red"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/red/rolebindings";
    tenants.json(Who::Red, "POST", bindings, &binding.to_string());
    for n in 0..LARGE {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("large-{n}")},
            "data": {"a": "x".repeat(1_000_000)}});
        tenants.json(Who::Red, "POST", MAPS, &map.to_string());
    }
    let readers: Vec<_> = (0..READERS).map(|n| tenants.one_more_account(&format!("reader-{n}"))).collect();
    tenants.runtime().block_on(async {
        let mut unread = Vec::new();
        for address in &readers {
            let mut client = ApiClient::connect(address).await.unwrap();
            let answer = client.begin("GET", MAPS, "").await.unwrap();
            unread.push((client, answer));
        }
        let codes: Vec<_> = unread.iter().map(|(_, answer)| answer.status().as_u16()).collect();
        assert!(codes.contains(&200) && codes.contains(&429), "{codes:?}");
        assert!(codes.iter().all(|code| [200, 429].contains(code)), "{codes:?}");
        others_write(tenants, "while-unread").await;
    });
}

async fn watch_a_lot(tenants: &Tenants) -> Vec<ApiWatch> {
    let mut watches = Vec::new();
    for _ in 0..AT_ONCE {
        // The server may refuse some of them.
        if let Ok(client) = ApiClient::connect(&tenants.address(Who::Red)).await
            && let Ok(watch) = client.watch(&format!("{MAPS}?watch=true")).await
        {
            watches.push(watch);
        }
    }
    watches
}

/// Returns the codes of the answers, as far as there are any.
fn write_a_lot(tenants: &Tenants) -> JoinSet<Option<u16>> {
    let mut flood = JoinSet::new();
    for n in 0..AT_ONCE {
        let address = tenants.address(Who::Red);
        flood.spawn(async move {
            let body =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("flood-{n}")}});
            let mut client = ApiClient::connect(&address).await.ok()?;
            Some(client.send("POST", MAPS, &body.to_string()).await.ok()?.code)
        });
    }
    flood
}

async fn others_write(tenants: &Tenants, name: &str) {
    for (who, namespace) in [(Who::Blue, "blue"), (Who::Administrator, "default")] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
        let address = tenants.address(who);
        let writing = async {
            let mut client = ApiClient::connect(&address).await.unwrap();
            client.send("POST", &path, &body).await.unwrap()
        };
        let answer = tokio::time::timeout(SOON, writing).await.expect("others are answered soon");
        assert_eq!(answer.code, 201, "{who:?} is refused: {}", String::from_utf8_lossy(&answer.body));
    }
}
