//! Custom resources, from their definition to their end.

use super::plane;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Count, type: integer, jsonPath: .spec.replicas}
    - {name: Ratio, type: number, jsonPath: .spec.ratio}
    - {name: Running, type: boolean, jsonPath: .spec.running}
    - {name: Since, type: date, jsonPath: .metadata.creationTimestamp}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Tags, type: string, jsonPath: '.spec.tags[*]'}
    - {name: More, type: string, jsonPath: .spec.size, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A gadget does things.
        properties:
          spec:
            type: object
            description: What it should be.
            required: [size]
            properties:
              size: {type: string, description: How big it is., enum: [small, large]}
              replicas: {type: integer, default: 1}
              ratio: {type: number}
              running: {type: boolean}
              tags: {type: array, items: {type: string}}
            x-kubernetes-validations:
            - {rule: "self.replicas < 100", message: too many}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

const GADGET: &str = "
apiVersion: example.org/v1
kind: Gadget
metadata: {name: one}
spec: {size: small, ratio: 1.5, running: true, tags: [x, z]}
";

#[test]
fn custom_resources_are_defined_used_and_gone() {
    let Some(plane) = plane() else { return };
    let plane = plane.with("definition.yaml", DEFINITION).with("gadget.yaml", GADGET);
    plane.says("kubectl create -f definition.yaml");
    let met = plane.says("kubectl wait --for=condition=Established crd/gadgets.example.org --timeout=10s");
    assert_eq!(met, "customresourcedefinition.apiextensions.k8s.io/gadgets.example.org condition met\n");
    assert_eq!(plane.says("kubectl apply -f gadget.yaml"), "gadget.example.org/one created\n");
    assert_eq!(plane.says("kubectl apply -f gadget.yaml"), "gadget.example.org/one unchanged\n");
    assert_eq!(
        plane.says("kubectl apply -f gadget.yaml --server-side"),
        "gadget.example.org/one serverside-applied\n"
    );

    let ready = r#"{"status":{"replicas":1,"conditions":[{"type":"Ready","status":"True"}]}}"#;
    plane.says(&format!("kubectl patch gd one --subresource=status --type=merge -p '{ready}'"));
    assert_eq!(
        plane.rows("kubectl get gd -o wide"),
        ["NAME SIZE COUNT RATIO RUNNING SINCE READY TAGS MORE", "one small 1 1.5 true AGE True x small"]
    );
    plane.says("kubectl wait gd/one --for=condition=Ready --timeout=10s");
    plane.says("kubectl wait gd/one --for=jsonpath='{.spec.size}'=small --timeout=10s");
    let late = plane.fails("kubectl wait gd/one --for=condition=Nope --timeout=100ms", "");
    assert_eq!(late, "error: timed out waiting for the condition on gadgets/one\n");
    assert_eq!(plane.says("kubectl scale gd one --replicas=9"), "gadget.example.org/one scaled\n");
    assert!(plane.says("kubectl describe gd one").contains("  Replicas:  9\n"));

    let explained = plane.says("kubectl explain gadget.spec");
    assert!(explained.contains("DESCRIPTION:\n    What it should be.\n"), "{explained}");
    assert!(
        explained.contains("  size\t<string> -required-\n  enum: small, large\n    How big it is.\n"),
        "{explained}"
    );
    let strategic = plane.fails("kubectl patch gd one -p '{}' --type=strategic", "");
    assert!(strategic.contains(
        "error: application/strategic-merge-patch+json is not supported by example.org/v1, Kind=Gadget"
    ));
    let bad = plane.fails("kubectl apply -f -", &GADGET.replace("small", "medium"));
    assert!(
        bad.contains("spec.size: Unsupported value: \"medium\": supported values: \"small\", \"large\""),
        "{bad}"
    );
    let many = plane.fails("kubectl apply -f -", &GADGET.replace("size:", "replicas: 500, size:"));
    assert!(many.contains("spec: Invalid value: too many") || many.contains("too many"), "{many}");

    let gone = plane.says("kubectl delete crd gadgets.example.org --timeout=20s");
    assert_eq!(gone, "customresourcedefinition.apiextensions.k8s.io \"gadgets.example.org\" deleted\n");
    assert!(plane.fails("kubectl get gd", "").contains("the server could not find the requested resource"));
}
