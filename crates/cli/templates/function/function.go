package main

import (
	"context"

	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	"github.com/crossplane/function-sdk-go/response"
)

// Function labels every composed resource.
type Function struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	log logging.Logger
}

// RunFunction adds the labels of the input to all desired composed resources.
func (f *Function) RunFunction(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	rsp := response.To(req, response.DefaultTTL)
	desired, err := request.GetDesiredComposedResources(req)
	if err != nil {
		response.Fatal(rsp, err)
		return rsp, nil
	}
	wanted := req.GetInput().GetFields()["labels"].GetStructValue().GetFields()
	for _, resource := range desired {
		labels := resource.Resource.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		for name, value := range wanted {
			labels[name] = value.GetStringValue()
		}
		resource.Resource.SetLabels(labels)
	}
	if err := response.SetDesiredComposedResources(rsp, desired); err != nil {
		response.Fatal(rsp, err)
		return rsp, nil
	}
	f.log.Debug("Labelled resources", "count", len(desired))
	return rsp, nil
}
