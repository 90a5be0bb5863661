package main

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// path evaluates a template as a printer column does, and prints every result by itself.
func path(q question) (any, error) {
	template := jsonpath.New("column")
	if err := template.Parse(fmt.Sprintf("{%s}", text(q, "path"))); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	strict, _ := q["strict"].(bool)
	template.AllowMissingKeys(!strict)
	results, err := template.FindResults(q["object"])
	if err != nil {
		return nil, err
	}
	printed := []any{}
	for _, list := range results {
		texts := []string{}
		for _, result := range list {
			var out bytes.Buffer
			if err := template.PrintResults(&out, []reflect.Value{result}); err != nil {
				return nil, err
			}
			texts = append(texts, out.String())
		}
		printed = append(printed, texts)
	}
	return printed, nil
}

func table(q question) (any, error) {
	var columns []apiextensionsv1.CustomResourceColumnDefinition
	if err := into(q["columns"], &columns); err != nil {
		return nil, err
	}
	convertor, err := tableconvertor.New(columns)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, item := range q["objects"].([]any) {
		list.Items = append(list.Items, unstructured.Unstructured{Object: item.(map[string]any)})
	}
	list.SetResourceVersion("7")
	result, err := convertor.ConvertToTable(context.Background(), list, &metav1.TableOptions{})
	if err != nil {
		return nil, err
	}
	// The description of the name is prose, which is no matter of comparison.
	result.ColumnDefinitions[0].Description = ""
	for i := range result.Rows {
		result.Rows[i].Object.Object = nil
	}
	result.APIVersion, result.Kind = "meta.k8s.io/v1", "Table"
	return result, nil
}
