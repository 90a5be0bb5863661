package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func jsonPatch(q question) (any, error) {
	jsonpatch.AccumulatedCopySizeLimit = 3 * 1024 * 1024
	patch, err := jsonpatch.DecodePatch([]byte(text(q, "patch")))
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	document, err := json.Marshal(q["document"])
	if err != nil {
		return nil, err
	}
	result, err := patch.Apply(document)
	return json.RawMessage(result), err
}

func mergePatch(q question) (any, error) {
	document, err := json.Marshal(q["document"])
	if err != nil {
		return nil, err
	}
	result, err := jsonpatch.MergePatch(document, []byte(text(q, "patch")))
	return json.RawMessage(result), err
}

var kinds = map[string]any{
	"Pod":        &corev1.Pod{},
	"Service":    &corev1.Service{},
	"Deployment": &appsv1.Deployment{},
}

func strategic(q question) (any, error) {
	// Lists must have no room to grow, as those of an API server have none.
	document := runtime.DeepCopyJSON(q["document"].(map[string]any))
	patch := runtime.DeepCopyJSON(q["patch"].(map[string]any))
	return strategicpatch.StrategicMergeMapPatch(document, patch, kinds[text(q, "kind")])
}

// facts are the fields of all types that a kind is made of.
func facts(q question) (any, error) {
	types := map[string]any{}
	root := reflect.TypeOf(kinds[text(q, "kind")]).Elem()
	describe(root, types)
	return map[string]any{"root": root.Name(), "types": types}, nil
}

func describe(t reflect.Type, types map[string]any) {
	if _, done := types[t.Name()]; done {
		return
	}
	fields := map[string]any{}
	types[t.Name()] = fields
	describeFields(t, fields, types)
}

func describeFields(t reflect.Type, fields, types map[string]any) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct {
			describeFields(field.Type, fields, types)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		fact := map[string]any{"shape": shape(field.Type, types)}
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			fact["strategy"] = strategy
		}
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			fact["key"] = key
		}
		fields[name] = fact
	}
}

// shape is a type's name for a struct, ["…"] for a list, and the kind of anything else with an = before it.
func shape(t reflect.Type, types map[string]any) any {
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem(), types)
	case reflect.Struct:
		describe(t, types)
		return t.Name()
	case reflect.Slice:
		return []any{shape(t.Elem(), types)}
	default:
		return "=" + t.Kind().String()
	}
}
