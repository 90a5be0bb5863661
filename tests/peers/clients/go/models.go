package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	openapi "k8s.io/kube-openapi/pkg/util/proto"
)

// readModels reads what all kinds are like from the one document in protobuf, as older programs do.
func readModels(ctx context.Context, config *rest.Config) {
	client := got(discovery.NewDiscoveryClientForConfig(config))
	document := got(client.OpenAPISchema())
	var plain struct {
		Paths       map[string]any `json:"paths"`
		Definitions map[string]any `json:"definitions"`
	}
	request := client.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json")
	must(json.Unmarshal(got(request.DoRaw(ctx)), &plain))
	definitions := document.GetDefinitions().GetAdditionalProperties()
	expect(len(definitions) == len(plain.Definitions), "both forms have the same definitions", len(definitions),
		len(plain.Definitions))
	paths := document.GetPaths().GetPath()
	expect(len(paths) == len(plain.Paths), "both forms have the same paths", len(paths), len(plain.Paths))
	for _, path := range paths {
		if path.GetName() == "/apis/apps/v1/namespaces/{namespace}/deployments/{name}" {
			patch := path.GetValue().GetPatch()
			answer := patch.GetResponses().GetResponseCode()[0]
			saw("%s: %s, %s", patch.GetOperationId(), answer.GetName(), answer.GetValue().GetResponse().GetSchema().GetSchema().GetXRef())
		}
	}

	models := got(openapi.NewOpenAPIData(document))
	deployment := models.LookupModel("io.k8s.api.apps.v1.Deployment").(*openapi.Kind)
	kinds := deployment.GetExtensions()["x-kubernetes-group-version-kind"].([]any)
	saw("kind: %s", kinds[0].(map[any]any)["kind"])
	spec := deployment.Fields["spec"].(openapi.Reference).SubSchema().(*openapi.Kind)
	saw("replicas: %s, needed: %v", spec.Fields["replicas"].GetName(), spec.RequiredFields)
	template := spec.Fields["template"].(openapi.Reference).SubSchema().(*openapi.Kind)
	pod := template.Fields["spec"].(openapi.Reference).SubSchema().(*openapi.Kind)
	containers := pod.Fields["containers"].(*openapi.Array)
	saw("containers: %s by %v", containers.GetName(), containers.GetExtensions()["x-kubernetes-patch-merge-key"])
	labels := models.LookupModel("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").(*openapi.Kind).Fields["labels"]
	saw("labels: %s", fmt.Sprintf("%T of %s", labels, labels.(*openapi.Map).SubType.GetName()))
}
