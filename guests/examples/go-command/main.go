// Composes a ConfigMap with a greeting. Reads a RunFunctionRequest from stdin and writes a RunFunctionResponse to stdout.
//
//	GOOS=wasip1 GOARCH=wasm go build -o hello.wasm .
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

type object = map[string]any

func main() {
	var request struct {
		Meta     object `json:"meta"`
		Observed struct {
			Composite struct {
				Resource struct {
					Spec struct {
						Name string `json:"name"`
					} `json:"spec"`
				} `json:"resource"`
			} `json:"composite"`
		} `json:"observed"`
		Desired object `json:"desired"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		fmt.Fprintln(os.Stderr, "cannot read the request:", err)
		os.Exit(1)
	}
	// What earlier steps want has to be passed on, or it is deleted.
	desired := request.Desired
	if desired == nil {
		desired = object{}
	}
	resources, ok := desired["resources"].(object)
	if !ok {
		resources = object{}
		desired["resources"] = resources
	}
	resources["greeting"] = object{"resource": object{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   object{"namespace": "default"},
		"data":       object{"greeting": fmt.Sprintf("Hello, %s!", request.Observed.Composite.Resource.Spec.Name)},
	}}
	response := object{"meta": object{"tag": request.Meta["tag"]}, "desired": desired}
	if err := json.NewEncoder(os.Stdout).Encode(response); err != nil {
		os.Exit(1)
	}
}
