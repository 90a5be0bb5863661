"""Uses an API server with Python's clients, and says what it saw.

The argument names the client: kubernetes, kr8s, lightkube, or in-cluster for a program that has but a service account's
token. Each looks at its own results and fails loudly. The server is the one that KUBECONFIG names.
"""

import os
import sys
import tempfile
import threading
import time

NAMESPACE = "default"
GROUP, VERSION, PLURAL = "example.org", "v1", "gadgets"

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "maximum": 9, "default": 1}},
                            },
                            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}


def gadget(name, **spec):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def config_map(name, labels=None, **data):
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def saw(*words):
    print(*words, flush=True)


def eventually(what, holds):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError(f"never: {what}")


def use_kubernetes():
    import kubernetes
    from kubernetes import client, watch
    from kubernetes.client.exceptions import ApiException

    kubernetes.config.load_kube_config()

    def refused(call, *arguments, **options):
        try:
            call(*arguments, **options)
        except ApiException as error:
            return error.status, error.reason
        raise AssertionError("it was not refused")

    core = client.CoreV1Api()
    created = core.create_namespaced_config_map(NAMESPACE, config_map("one", {"app": "py"}, key="value"))
    saw("created", created.metadata.name, created.data)
    saw("refused", refused(core.create_namespaced_config_map, NAMESPACE, config_map("one")))
    saw("refused", refused(core.read_namespaced_config_map, "nobody", NAMESPACE))
    stale = core.read_namespaced_config_map("one", NAMESPACE)
    created.data["key"] = "second"
    core.replace_namespaced_config_map("one", NAMESPACE, created)
    saw("refused", refused(core.replace_namespaced_config_map, "one", NAMESPACE, stale))
    core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"strategic": "yes"}})
    core.patch_namespaced_config_map("one", NAMESPACE, [{"op": "remove", "path": "/data/key"}])
    saw("patched", core.read_namespaced_config_map("one", NAMESPACE).data)

    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    for number in range(5):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number}", {"app": "pages"}))
    first = core.list_namespaced_config_map(NAMESPACE, label_selector="app=pages", limit=2)
    token = first.metadata._continue
    second = core.list_namespaced_config_map(NAMESPACE, label_selector="app=pages", limit=2, _continue=token)
    saw("pages", [item.metadata.name for item in first.items + second.items], second.metadata.remaining_item_count)
    named = core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=page-3")
    saw("by field", [item.metadata.name for item in named.items])
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app=pages")
    events = []
    watcher = watch.Watch()
    options = {"resource_version": version, "label_selector": "app=pages", "timeout_seconds": 30}
    for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, **options):
        events.append(f"{event['type']} {event['object'].metadata.name}")
        if len(events) == 10:
            watcher.stop()
    saw("watched", events[0], "to", events[-1])

    extensions = client.ApiextensionsV1Api()
    extensions.create_custom_resource_definition(DEFINITION)

    def established():
        conditions = extensions.read_custom_resource_definition(f"{PLURAL}.{GROUP}").status.conditions or []
        return any(condition.type == "Established" and condition.status == "True" for condition in conditions)

    eventually("the definition is established", established)
    custom = client.CustomObjectsApi()
    place = (GROUP, VERSION, NAMESPACE, PLURAL)
    saw("defaulted", custom.create_namespaced_custom_object(*place, gadget("one"))["spec"])
    saw("refused", refused(custom.create_namespaced_custom_object, *place, gadget("big", size=10)))
    custom.patch_namespaced_custom_object(*place, "one", {"spec": {"size": 2}})
    status = {"status": {"phase": "Ready"}, "spec": {"size": 8}}
    both = custom.patch_namespaced_custom_object_status(*place, "one", status)
    saw("status", both["spec"], both["status"])
    apply = {"field_manager": "python", "force": True, "_content_type": "application/apply-patch+yaml"}
    # The client knows no answer but 200 to a patch, and drops the one that says that something was created.
    custom.patch_namespaced_custom_object(*place, "two", gadget("two", size=2), **apply)
    applied = custom.patch_namespaced_custom_object(*place, "two", gadget("two", size=3), **apply)
    saw("applied", applied["spec"], applied["metadata"]["managedFields"][0]["operation"])
    saw("listed", len(custom.list_namespaced_custom_object(*place)["items"]))

    # What does not know the kinds beforehand asks for them.
    dynamic = kubernetes.dynamic.DynamicClient(client.ApiClient())
    gadgets = dynamic.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Gadget")
    saw("dynamic", sorted(item.metadata.name for item in gadgets.get(namespace=NAMESPACE).items))
    forced = dynamic.server_side_apply(gadgets, gadget("two", size=4), field_manager="other", force_conflicts=True)
    saw("applied by force", forced.spec.size)
    try:
        dynamic.server_side_apply(gadgets, gadget("two", size=5), field_manager="third")
        raise AssertionError("there was no conflict")
    except kubernetes.dynamic.exceptions.ConflictError as error:
        saw("conflict", error.summary().splitlines()[0])

    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }
    apps = client.AppsV1Api()
    apps.create_namespaced_deployment(NAMESPACE, deployment)
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 4}})
    saw("scaled", apps.read_namespaced_deployment_scale("web", NAMESPACE).spec.replicas)
    utils_made = kubernetes.utils.create_from_dict(client.ApiClient(), config_map("made"))
    saw("made", utils_made[0].metadata.name)
    custom.delete_namespaced_custom_object(*place, "one")
    extensions.delete_custom_resource_definition(f"{PLURAL}.{GROUP}")
    eventually("the kind is gone", lambda: refused_with(404, custom.list_namespaced_custom_object, *place))
    saw("version", client.VersionApi().get_code().major)


def refused_with(status, call, *arguments):
    try:
        call(*arguments)
        return False
    except Exception as error:
        return getattr(error, "status", None) == status


def use_kr8s():
    import kr8s
    from kr8s.objects import ConfigMap, CustomResourceDefinition, Deployment, new_class

    api = kr8s.api(kubeconfig=os.environ["KUBECONFIG"])
    saw("version", api.version()["major"], "known as somebody", api.whoami() != "")
    one = ConfigMap(config_map("one", {"app": "kr8s"}, key="value"))
    one.create()
    saw("exists", one.exists(), ConfigMap(config_map("two")).exists())
    one.patch({"data": {"more": "yes"}})
    one.label(colour="red")
    one.annotate({"example.org/note": "written"})
    again = ConfigMap.get("one", namespace=NAMESPACE)
    saw("patched", dict(again.data), dict(again.labels))
    names = [item.name for item in kr8s.get("configmaps", namespace=NAMESPACE, label_selector="colour=red")]
    fields = [item.name for item in kr8s.get("configmaps", namespace=NAMESPACE, field_selector={"metadata.name": "one"})]
    saw("selected", names, fields)

    definition = CustomResourceDefinition(DEFINITION)
    definition.create()

    def has_conditions():
        definition.refresh()
        return definition.raw["status"].get("conditions") is not None

    # There are none at first, and kr8s cannot wait for one of none.
    eventually("the definition has conditions", has_conditions)
    definition.wait("condition=Established", timeout=30)
    gadgets = new_class("Gadget", version=f"{GROUP}/{VERSION}", namespaced=True)
    first = gadgets(gadget("first", size=2))
    first.create()
    first.patch({"status": {"phase": "Ready"}}, subresource="status")
    first.refresh()
    saw("status", first.status.phase, "size", first.spec.size)

    seen = []

    def look():
        for kind, item in api.watch("configmaps", namespace=NAMESPACE, label_selector="app=watched"):
            seen.append(f"{kind} {item.name}")
            if len(seen) == 2:
                break

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    watched = ConfigMap(config_map("watched", {"app": "watched"}))
    watched.create()
    # It may have been there before the watch was, and is added all the same.
    eventually("it is seen", lambda: len(seen) == 1)
    watched.delete()
    looker.join(30)
    saw("watched", seen)

    deployment = Deployment(
        {
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
                },
            },
        }
    )
    deployment.create()
    deployment.patch({"spec": {"replicas": 3}})
    deployment.refresh()
    saw("replicas", deployment.replicas)
    owner = ConfigMap(config_map("owner"))
    owner.create()
    owned = ConfigMap(config_map("owned"))
    owned.create()
    owned.set_owner(owner)
    owner.delete()
    eventually("what is owned goes with its owner", lambda: not owned.exists())
    first.delete()
    first.wait("delete", timeout=30)
    kinds = {kind["kind"] for kind in api.api_resources()}
    saw("kinds", sorted({"Deployment", "ConfigMap", "Lease", "Role"} & kinds))


def use_lightkube():
    import lightkube
    from lightkube import ApiError
    from lightkube.generic_resource import create_namespaced_resource
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import ConfigMap
    from lightkube.types import PatchType

    client = lightkube.Client(namespace=NAMESPACE, field_manager="lightkube")
    one = client.create(ConfigMap(metadata=ObjectMeta(name="one", labels={"app": "light"}), data={"key": "value"}))
    saw("created", one.metadata.name, one.data)
    try:
        client.create(ConfigMap(metadata=ObjectMeta(name="one")))
        raise AssertionError("created twice")
    except ApiError as error:
        saw("refused", error.status.code, error.status.reason, error.status.message)
    stale = client.get(ConfigMap, "one")
    one.data["key"] = "second"
    client.replace(one)
    try:
        client.replace(stale)
        raise AssertionError("replaced what had changed")
    except ApiError as error:
        saw("refused", error.status.code, error.status.reason)
    client.patch(ConfigMap, "one", {"data": {"merge": "yes"}}, patch_type=PatchType.MERGE)
    client.apply(ConfigMap.from_dict(config_map("applied", {"app": "light"}, key="mine")))
    try:
        client.apply(ConfigMap.from_dict(config_map("applied", key="theirs")), field_manager="other")
        raise AssertionError("applied over another manager")
    except ApiError as error:
        saw("refused", error.status.code, error.status.details.causes[0].field)
    client.apply(ConfigMap.from_dict(config_map("applied", key="theirs")), field_manager="other", force=True)
    saw("applied", client.get(ConfigMap, "applied").data)
    for number in range(5):
        client.create(ConfigMap(metadata=ObjectMeta(name=f"page-{number}", labels={"app": "pages"})))
    saw("pages", [item.metadata.name for item in client.list(ConfigMap, labels={"app": "pages"}, chunk_size=2)])
    saw("chosen", [item.metadata.name for item in client.list(ConfigMap, labels={"app": ["light", "x"]})])
    saw("by field", [item.metadata.name for item in client.list(ConfigMap, fields={"metadata.name": "one"})])

    client.create(CustomResourceDefinition.from_dict(DEFINITION))
    client.wait(CustomResourceDefinition, f"{PLURAL}.{GROUP}", for_conditions=["Established"])
    gadgets = create_namespaced_resource(GROUP, VERSION, "Gadget", PLURAL)
    created = client.create(gadgets(metadata={"name": "one"}, spec={"size": 2}))
    saw("generation", created["metadata"]["generation"] if isinstance(created, dict) else created.metadata.generation)
    client.patch(gadgets.Status, "one", {"status": {"phase": "Ready"}}, patch_type=PatchType.MERGE)
    final = client.get(gadgets, "one")
    saw("custom", final["spec"], final["status"])
    listed = client.list(ConfigMap)
    saw("listed", len(list(listed)) > 5)
    version = listed.resourceVersion
    client.delete(ConfigMap, "page-0")
    for kind, item in client.watch(ConfigMap, resource_version=version):
        saw("watched", kind, item.metadata.name)
        break
    client.deletecollection(ConfigMap)
    saw("left", [item.metadata.name for item in client.list(ConfigMap, labels={"app": "pages"})])
    client.create(
        Deployment.from_dict(
            {
                "metadata": {"name": "web"},
                "spec": {
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
                    },
                },
            }
        )
    )
    scale = client.get(Deployment.Scale, "web")
    scale.spec.replicas = 6
    saw("scaled", client.replace(scale, "web").spec.replicas)
    client.delete(gadgets, "one")


def use_in_cluster():
    """Gets a token as an administrator, and then knows nothing but what a pod knows."""
    import kubernetes
    from kubernetes import client
    from kubernetes.client.exceptions import ApiException
    from kubernetes.config.incluster_config import InClusterConfigLoader

    kubernetes.config.load_kube_config()
    core, rbac = client.CoreV1Api(), client.RbacAuthorizationV1Api()
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "robot"}})
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "list"]}]
    rbac.create_namespaced_role(NAMESPACE, {"metadata": {"name": "robot"}, "rules": rules})
    binding = {
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "robot"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": NAMESPACE}],
    }
    rbac.create_namespaced_role_binding(NAMESPACE, binding)
    request = {"spec": {"expirationSeconds": 600}}
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, request).status.token

    configuration = client.Configuration.get_default_copy()
    authority = core.read_namespaced_config_map("kube-root-ca.crt", NAMESPACE).data["ca.crt"]
    host, port = configuration.host.removeprefix("https://").split(":")
    with tempfile.TemporaryDirectory() as directory:
        for name, text in {"token": token, "ca.crt": authority}.items():
            with open(os.path.join(directory, name), "w") as file:
                file.write(text)
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        paths = [os.path.join(directory, name) for name in ("token", "ca.crt")]
        inside = client.Configuration()
        InClusterConfigLoader(token_filename=paths[0], cert_filename=paths[1], environ=environment).load_and_set(inside)
        robot = client.CoreV1Api(client.ApiClient(inside))
        robot.create_namespaced_config_map(NAMESPACE, config_map("by-robot", key="value"))
        saw("created by", robot.read_namespaced_config_map("by-robot", NAMESPACE).metadata.managed_fields[0].manager)
        who = client.AuthenticationV1Api(robot.api_client).create_self_subject_review({})
        saw("who", who.status.user_info.username)
        try:
            robot.delete_namespaced_config_map("by-robot", NAMESPACE)
            raise AssertionError("it may not delete")
        except ApiException as error:
            saw("refused", error.status, error.reason)


CLIENTS = {"kubernetes": use_kubernetes, "kr8s": use_kr8s, "lightkube": use_lightkube, "in-cluster": use_in_cluster}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CLIENTS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(CLIENTS)}")
    CLIENTS[sys.argv[1]]()
