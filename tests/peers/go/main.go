// The greeter, on the Go SDK: a function whose every visible deed a test can check.
//
// The Python and TypeScript greeters do exactly the same under their own names; docs/peers.md says what that is.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"strconv"

	function "github.com/crossplane/function-sdk-go"
	v1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	"github.com/crossplane/function-sdk-go/resource"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
)

const language = "go"

// watched is the requirement under which an operation of a WatchOperation is given what changed.
const watched = "ops.crossplane.io/watched-resource"

func main() {
	address := flag.String("address", "0.0.0.0:9443", "where to listen")
	insecure := flag.Bool("insecure", false, "serve without TLS")
	certificates := flag.String("tls-certs-dir", os.Getenv("TLS_SERVER_CERTS_DIR"), "directory of tls.crt, tls.key and ca.crt")
	flag.Parse()

	err := function.Serve(&greeter{},
		function.Listen("tcp", *address),
		function.MTLSCertificates(*certificates),
		function.Insecure(*insecure),
		// The SDK would also listen on port 8080, which several peers on one machine would fight over.
		function.WithMetricsServer(""),
	)
	log.Fatal(err)
}

type greeter struct {
	v1.UnimplementedFunctionRunnerServiceServer
}

// RunFunction greets, or answers with the reason why it cannot.
func (*greeter) RunFunction(ctx context.Context, req *v1.RunFunctionRequest) (*v1.RunFunctionResponse, error) {
	tellTrace(ctx)
	rsp := response.To(req, response.DefaultTTL)
	if err := greet(req, rsp); err != nil {
		response.Fatal(rsp, err)
	}
	return rsp, nil
}

// tellTrace says which trace a call belongs to, for whoever asks for it.
func tellTrace(ctx context.Context) {
	if os.Getenv("GREETER_TELL_TRACE") == "" {
		return
	}
	incoming, _ := metadata.FromIncomingContext(ctx)
	log.Printf("traceparent %q tracestate %q", incoming.Get("traceparent"), incoming.Get("tracestate"))
}

func greet(req *v1.RunFunctionRequest, rsp *v1.RunFunctionResponse) error {
	xr, err := request.GetObservedCompositeResource(req)
	if err != nil {
		return err
	}
	// An operation observes nothing, and applies what has a name.
	isOperation := req.GetObserved().GetComposite() == nil
	fail, _ := xr.Resource.GetString("spec.fail")
	if isOperation {
		fail = req.GetInput().GetFields()["fail"].GetStringValue()
	}
	if fail == language {
		return errors.New(language + " was told to fail")
	}
	greeting, err := xr.Resource.GetString("spec.greeting")
	if err != nil {
		greeting = "hello"
	}
	replicas := 1.0
	if value, ok := req.GetInput().GetFields()["replicas"]; ok {
		replicas = value.GetNumberValue()
	}

	data := map[string]any{
		"greeting": greeting + " from " + language,
		"replicas": strconv.FormatInt(int64(replicas), 10),
	}
	if theme, ok := settingsTheme(req); ok {
		data["theme"] = theme
	}
	namespace := ""
	if isOperation {
		namespace = "default"
		if value, ok := req.GetInput().GetFields()["namespace"]; ok {
			namespace = value.GetStringValue()
		}
	}
	if err := composeConfigMap(rsp, data, namespace); err != nil {
		return err
	}
	if isOperation {
		rsp.Output = &structpb.Struct{Fields: map[string]*structpb.Value{
			"greetedBy": structpb.NewStringValue(language),
			"replicas":  structpb.NewNumberValue(replicas),
		}}
		for _, item := range req.GetRequiredResources()[watched].GetItems() {
			metadata := item.GetResource().GetFields()["metadata"].GetStructValue()
			_, isGone := metadata.GetFields()["deletionTimestamp"]
			rsp.Output.Fields["watched"] = metadata.GetFields()["name"]
			rsp.Output.Fields["isGone"] = structpb.NewBoolValue(isGone)
		}
	} else if err := markGreeted(req, rsp); err != nil {
		return err
	}

	response.Normal(rsp, "greeted from "+language)
	response.ConditionTrue(rsp, "GreetedGo", "Greeted")
	response.SetContextKey(rsp, "greeter.ferroplane.io/"+language, structpb.NewStructValue(&structpb.Struct{
		Fields: map[string]*structpb.Value{"replicas": structpb.NewNumberValue(replicas)},
	}))
	requireSettings(rsp)
	return nil
}

// settingsTheme is absent on the first call: the plane fetches the settings only after the response asks for them.
func settingsTheme(req *v1.RunFunctionRequest) (string, bool) {
	for _, item := range req.GetRequiredResources()["settings"].GetItems() {
		data := item.GetResource().GetFields()["data"].GetStructValue()
		if theme, ok := data.GetFields()["theme"]; ok {
			return theme.GetStringValue(), true
		}
	}
	return "", false
}

func composeConfigMap(rsp *v1.RunFunctionResponse, data map[string]any, namespace string) error {
	configMap := resource.NewDesiredComposed()
	configMap.Resource.SetAPIVersion("v1")
	configMap.Resource.SetKind("ConfigMap")
	configMap.Resource.Object["data"] = data
	if namespace != "" {
		configMap.Resource.SetName("greeting-" + language)
		configMap.Resource.SetNamespace(namespace)
	}
	configMap.Ready = resource.ReadyTrue
	return response.SetDesiredComposedResources(rsp, map[resource.Name]*resource.DesiredComposed{language: configMap})
}

func markGreeted(req *v1.RunFunctionRequest, rsp *v1.RunFunctionResponse) error {
	xr, err := request.GetDesiredCompositeResource(req)
	if err != nil {
		return err
	}
	if err := xr.Resource.SetBool("status.greetedBy."+language, true); err != nil {
		return err
	}
	// The SDK forgets how ready an earlier step said the composite is.
	ready := req.GetDesired().GetComposite().GetReady()
	if err := response.SetDesiredCompositeResource(rsp, xr); err != nil {
		return err
	}
	rsp.Desired.Composite.Ready = ready
	return nil
}

func requireSettings(rsp *v1.RunFunctionResponse) {
	namespace := "default"
	rsp.Requirements = &v1.Requirements{Resources: map[string]*v1.ResourceSelector{"settings": {
		ApiVersion: "v1",
		Kind:       "ConfigMap",
		Match:      &v1.ResourceSelector_MatchName{MatchName: "settings"},
		Namespace:  &namespace,
	}}}
}
