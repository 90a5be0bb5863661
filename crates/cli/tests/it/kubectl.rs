//! `kubectl`, as people use it, against `ferroplane up`. What it says is what it says of a real API server.

mod access;
mod apply;
mod compose;
mod create;
mod custom;
mod damage;
mod functions;
mod get;
mod nodes;
mod protect;
mod remove;

use crate::peers::peer;
use crate::plane::Plane;

/// A deployment, a service and a config map.
const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "nginx:1", ports: [{containerPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {a: "1", b: "2"}
"#;

/// A control plane, if there is a kubectl to speak with it.
fn plane() -> Option<Plane> {
    peer("kubectl")?;
    Some(Plane::new().with("web.yaml", WEB))
}
