// A function that composes robots: the first example of Crossplane's design of composition functions, on the Go SDK.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/adler32"
	"log"
	"os"

	function "github.com/crossplane/function-sdk-go"
	v1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	"github.com/crossplane/function-sdk-go/resource"
	"github.com/crossplane/function-sdk-go/response"
)

const externalName = "crossplane.io/external-name"

var colors = []string{"red", "green", "blue"}

func main() {
	address := flag.String("address", "0.0.0.0:9443", "where to listen")
	insecure := flag.Bool("insecure", false, "serve without TLS")
	certificates := flag.String("tls-certs-dir", os.Getenv("TLS_SERVER_CERTS_DIR"), "directory of tls.crt, tls.key and ca.crt")
	flag.Parse()

	err := function.Serve(&robots{},
		function.Listen("tcp", *address),
		function.MTLSCertificates(*certificates),
		function.Insecure(*insecure),
		// The SDK would also listen on port 8080, which several functions on one machine would fight over.
		function.WithMetricsServer(""),
	)
	log.Fatal(err)
}

type robots struct {
	v1.UnimplementedFunctionRunnerServiceServer
}

// RunFunction composes as many robots as the XR wants, or answers with the reason why it cannot.
func (*robots) RunFunction(_ context.Context, req *v1.RunFunctionRequest) (*v1.RunFunctionResponse, error) {
	rsp := response.To(req, response.DefaultTTL)
	if err := compose(req, rsp); err != nil {
		response.Fatal(rsp, err)
	}
	return rsp, nil
}

func compose(req *v1.RunFunctionRequest, rsp *v1.RunFunctionResponse) error {
	xr, err := request.GetObservedCompositeResource(req)
	if err != nil {
		return err
	}
	observed, err := request.GetObservedComposedResources(req)
	if err != nil {
		return err
	}
	desired, err := request.GetDesiredComposedResources(req)
	if err != nil {
		return err
	}
	count, err := xr.Resource.GetInteger("spec.count")
	if err != nil {
		return fmt.Errorf("cannot tell how many robots are wanted: %w", err)
	}
	parent := xr.Resource.GetAnnotations()[externalName]
	if parent == "" {
		parent = xr.Resource.GetName()
	}
	for i := range count {
		name := fmt.Sprintf("robot-%d", i)
		desired[resource.Name(name)] = robot(parent+"-"+name, observed[resource.Name(name)])
	}
	return response.SetDesiredComposedResources(rsp, desired)
}

func robot(name string, observed resource.ObservedComposed) *resource.DesiredComposed {
	robot := resource.NewDesiredComposed()
	robot.Resource.SetAPIVersion("iam.dummy.example.org/v1alpha1")
	robot.Resource.SetKind("Robot")
	robot.Resource.SetAnnotations(map[string]string{externalName: name})
	robot.Resource.Object["spec"] = map[string]any{"forProvider": map[string]any{"color": color(name, observed)}}
	return robot
}

// color is that of the robot if it exists. A new one has a color that follows from its name: a random one would change with every
// reconcile until the robot exists.
func color(name string, observed resource.ObservedComposed) string {
	if observed.Resource != nil {
		if color, err := observed.Resource.GetString("spec.forProvider.color"); err == nil && color != "" {
			return color
		}
	}
	return colors[adler32.Checksum([]byte(name))%uint32(len(colors))]
}
