"""Composes a ConfigMap with a greeting. Reads a RunFunctionRequest from stdin and writes a RunFunctionResponse to stdout."""

import json
import sys

from wit_world import exports


class Run(exports.Run):
    def run(self) -> None:
        request = json.load(sys.stdin)
        # What earlier steps want has to be passed on, or it is deleted.
        desired = request.get("desired", {})
        spec = request["observed"]["composite"]["resource"].get("spec", {})
        desired.setdefault("resources", {})["greeting"] = {
            "resource": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": "default"},
                "data": {"greeting": f"Hello, {spec.get('name', 'world')}!"},
            }
        }
        tag = request.get("meta", {}).get("tag", "")
        json.dump({"meta": {"tag": tag}, "desired": desired}, sys.stdout)
