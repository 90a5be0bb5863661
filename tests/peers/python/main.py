"""The greeter, on the Python SDK: a function whose every visible deed a test can check.

The Go and TypeScript greeters do exactly the same under their own names; docs/peers.md says what that is.
"""

import click
import grpc
from crossplane.function import cli, request, resource, response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1

LANGUAGE = "python"
# The requirement under which an operation of a WatchOperation is given what changed.
WATCHED = "ops.crossplane.io/watched-resource"


class Greeter(grpcv1.FunctionRunnerServiceServicer):
    async def RunFunction(
        self, req: fnv1.RunFunctionRequest, _: grpc.aio.ServicerContext
    ) -> fnv1.RunFunctionResponse:
        rsp = response.to(req)
        spec = resource.struct_to_dict(req.observed.composite.resource).get("spec", {})
        if is_operation(req):
            spec = {"fail": resource.struct_to_dict(req.input).get("fail")}
        if spec.get("fail") == LANGUAGE:
            response.fatal(rsp, f"{LANGUAGE} was told to fail")
        else:
            greet(req, rsp, spec.get("greeting", "hello"))
        return rsp


def is_operation(req: fnv1.RunFunctionRequest) -> bool:
    """An operation observes nothing, and applies what has a name."""
    return not req.observed.HasField("composite")


def greet(req: fnv1.RunFunctionRequest, rsp: fnv1.RunFunctionResponse, greeting: str) -> None:
    replicas = int(resource.struct_to_dict(req.input).get("replicas", 1))

    data = {"greeting": f"{greeting} from {LANGUAGE}", "replicas": str(replicas)}
    # Absent on the first call: the plane fetches the settings only after the response asks for them.
    settings = request.get_required_resource(req, "settings")
    if settings and "theme" in settings.get("data", {}):
        data["theme"] = settings["data"]["theme"]

    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": data}
    if is_operation(req):
        namespace = resource.struct_to_dict(req.input).get("namespace", "default")
        config_map["metadata"] = {"name": f"greeting-{LANGUAGE}", "namespace": namespace}
    composed = rsp.desired.resources[LANGUAGE]
    resource.update(composed, config_map)
    composed.ready = fnv1.READY_TRUE

    if is_operation(req):
        rsp.output.update({"greetedBy": LANGUAGE, "replicas": replicas})
        watched = request.get_required_resource(req, WATCHED)
        if watched:
            metadata = watched["metadata"]
            rsp.output.update({"watched": metadata["name"], "isGone": "deletionTimestamp" in metadata})
    else:
        # Not `resource.update_status`, which replaces the status that earlier steps desire.
        status = rsp.desired.composite.resource.get_or_create_struct("status")
        status.get_or_create_struct("greetedBy")[LANGUAGE] = True

    response.normal(rsp, f"greeted from {LANGUAGE}")
    response.set_conditions(rsp, resource.Condition("GreetedPython", "True", "Greeted"))
    rsp.context[f"greeter.ferroplane.io/{LANGUAGE}"] = {"replicas": replicas}
    response.require_resources(rsp, "settings", "v1", "ConfigMap", match_name="settings", namespace="default")


@click.command()
@cli.standard_options
def main(**options) -> None:
    if options["insecure"]:
        # The SDK would open the same port twice, once with each kind of credentials.
        options["tls_certs_dir"] = None
    cli.run(Greeter(), **options)


if __name__ == "__main__":
    main()
