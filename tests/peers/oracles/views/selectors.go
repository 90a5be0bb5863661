package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func sets(q question) []map[string]string {
	var result []map[string]string
	if err := into(q["sets"], &result); err != nil {
		panic(err)
	}
	return result
}

func matches(selector labels.Selector, q question) any {
	result := []bool{}
	for _, set := range sets(q) {
		result = append(result, selector.Matches(labels.Set(set)))
	}
	return map[string]any{"text": selector.String(), "matches": result, "empty": selector.Empty()}
}

func labelSelector(q question) (any, error) {
	selector, err := labels.Parse(text(q, "selector"))
	if err != nil {
		return nil, err
	}
	return matches(selector, q), nil
}

func labelSelectorObject(q question) (any, error) {
	var object *metav1.LabelSelector
	if err := into(q["selector"], &object); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(object)
	if err != nil {
		return nil, err
	}
	return matches(selector, q), nil
}

func listSelector(q question) (any, error) {
	var object *metav1.LabelSelector
	if err := into(q["selector"], &object); err != nil {
		return nil, err
	}
	options := metavalidation.LabelSelectorValidationOptions{}
	return errorTexts(metavalidation.ValidateLabelSelector(object, options, field.NewPath("spec", "selector"))), nil
}

func fieldSelector(q question) (any, error) {
	selector, err := fields.ParseSelector(text(q, "selector"))
	if err != nil {
		return nil, err
	}
	result := []bool{}
	for _, set := range sets(q) {
		result = append(result, selector.Matches(fields.Set(set)))
	}
	return map[string]any{"text": selector.String(), "matches": result, "empty": selector.Empty()}, nil
}
