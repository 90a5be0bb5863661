//! `kubectl create`, which sends protobuf, and dry runs.

use super::plane;

#[test]
fn everything_is_created_by_its_own_command() {
    let Some(plane) = plane() else { return };
    for (command, said) in [
        ("namespace team", "namespace/team created"),
        ("configmap c1 --from-literal=a=b --from-literal=c=d", "configmap/c1 created"),
        ("secret generic s1 --from-literal=p=q", "secret/s1 created"),
        ("deployment d1 --image=nginx --replicas=2", "deployment.apps/d1 created"),
        (
            "role r1 --verb=get,list --resource=pods,deployments.apps",
            "role.rbac.authorization.k8s.io/r1 created",
        ),
        ("rolebinding b1 --role=r1 --user=bob", "rolebinding.rbac.authorization.k8s.io/b1 created"),
        ("clusterrole cr1 --verb=get --resource=nodes", "clusterrole.rbac.authorization.k8s.io/cr1 created"),
        ("serviceaccount a1", "serviceaccount/a1 created"),
        ("job j1 --image=busybox -- sleep 1", "job.batch/j1 created"),
        ("cronjob k1 --image=busybox --schedule='*/5 * * * *' -- date", "cronjob.batch/k1 created"),
        ("job j2 --from=cronjob/k1", "job.batch/j2 created"),
        ("service clusterip v1 --tcp=80:80", "service/v1 created"),
        ("ingress i1 --rule=a.example/x=v1:80", "ingress.networking.k8s.io/i1 created"),
        ("quota q1 --hard=pods=3", "resourcequota/q1 created"),
        ("pdb p1 --selector=app=web --min-available=1", "poddisruptionbudget.policy/p1 created"),
        ("priorityclass h1 --value=10", "priorityclass.scheduling.k8s.io/h1 created"),
    ] {
        assert_eq!(plane.says(&format!("kubectl create {command}")).trim_end(), said);
    }
    let rows = plane.rows("kubectl get secret,rolebinding,job,cronjob,ingress,pdb,pc");
    assert_eq!(
        rows,
        [
            "NAME TYPE DATA AGE",
            "secret/s1 Opaque 1 AGE",
            "NAME ROLE AGE",
            "rolebinding.rbac.authorization.k8s.io/b1 Role/r1 AGE",
            "NAME STATUS COMPLETIONS DURATION AGE",
            "job.batch/j1 Running 0/1 AGE",
            "job.batch/j2 Running 0/1 AGE",
            "NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE",
            "cronjob.batch/k1 */5 * * * * <none> False 0 <none> AGE",
            "NAME CLASS HOSTS ADDRESS PORTS AGE",
            "ingress.networking.k8s.io/i1 <none> a.example 80 AGE",
            "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE",
            "poddisruptionbudget.policy/p1 1 N/A 0 AGE",
            "NAME VALUE GLOBAL-DEFAULT AGE PREEMPTIONPOLICY",
            "priorityclass.scheduling.k8s.io/h1 10 false AGE PreemptLowerPriority",
        ]
    );
    let again = plane.fails("kubectl create configmap c1", "");
    assert_eq!(again, "error: failed to create configmap: configmaps \"c1\" already exists\n");
}

#[test]
fn names_are_generated() {
    let Some(plane) = plane() else { return };
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: gen-}}";
    let names = [(); 2].map(|()| plane.told("kubectl create -f - -o name", manifest));
    assert!(
        names[0].starts_with("configmap/gen-") && names[0].trim_end().len() == "configmap/gen-".len() + 5
    );
    assert_ne!(names[0], names[1]);
}

#[test]
fn a_dry_run_leaves_nothing_behind() {
    let Some(plane) = plane() else { return };
    let said = plane.says("kubectl create cm dry --from-literal=a=b --dry-run=server");
    assert_eq!(said, "configmap/dry created (server dry run)\n");
    let said = plane.says("kubectl apply -f web.yaml --dry-run=server");
    assert!(said.starts_with("deployment.apps/web created (server dry run)\n"), "{said}");
    assert!(plane.fails("kubectl get cm dry", "").contains("not found"));
}

#[test]
fn request_that_is_too_large_is_answered() {
    let Some(plane) = plane() else { return };
    // Five times what a request may carry: kubectl, which speaks HTTP/2, is still sending when that is known.
    plane.says("head -c 16000000 /dev/zero | tr '\\0' a > large");
    let said = plane.fails("kubectl create cm large --from-file=large", "");
    assert!(said.contains("entity too large: limit is 3145728"), "{said}");
    plane.says("kubectl create cm small");
}
