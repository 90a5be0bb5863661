// Puts a label on every resource that earlier steps want.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

const label = "labelizer.xfn.crossplane.io/processed"

type object = map[string]any

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot label resources:", err)
		os.Exit(1)
	}
}

func run() error {
	var request struct {
		Meta    object `json:"meta"`
		Desired object `json:"desired"`
		Context object `json:"context"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		return err
	}
	resources, _ := request.Desired["resources"].(object)
	for _, resource := range resources {
		if resource, ok := resource.(object); ok {
			child(child(child(resource, "resource"), "metadata"), "labels")[label] = "true"
		}
	}
	answer := object{"desired": request.Desired, "context": request.Context}
	if tag, ok := request.Meta["tag"]; ok {
		answer["meta"] = object{"tag": tag, "ttl": "60s"}
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// child returns the object in a field, which is made if it is not there.
func child(of object, field string) object {
	found, ok := of[field].(object)
	if !ok {
		found = object{}
		of[field] = found
	}
	return found
}
