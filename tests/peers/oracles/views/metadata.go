package main

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func errorTexts(list field.ErrorList) any {
	result := []any{}
	for _, err := range list {
		result = append(result, map[string]string{"type": string(err.Type), "field": err.Field, "text": err.Error()})
	}
	return result
}

func segment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

var rules = map[string]validation.ValidateNameFunc{
	"subdomain": validation.NameIsDNSSubdomain,
	"label":     validation.NameIsDNSLabel,
	"1035":      validation.NameIsDNS1035Label,
	"segment":   segment,
	"qualified": func(name string, _ bool) []string { return utilvalidation.IsQualifiedName(name) },
	"value":     func(name string, _ bool) []string { return utilvalidation.IsValidLabelValue(name) },
}

func name(q question) (any, error) {
	prefix, _ := q["prefix"].(bool)
	problems := rules[text(q, "rule")](text(q, "name"), prefix)
	if problems == nil {
		problems = []string{}
	}
	return problems, nil
}

func metadata(q question) (any, error) {
	var meta metav1.ObjectMeta
	if err := into(q["meta"], &meta); err != nil {
		return nil, err
	}
	path := field.NewPath("metadata")
	rule := rules[text(q, "rule")]
	namespaced, _ := q["namespaced"].(bool)
	errs := validation.ValidateObjectMeta(&meta, namespaced, rule, path)
	if q["old"] != nil {
		var old metav1.ObjectMeta
		if err := into(q["old"], &old); err != nil {
			return nil, err
		}
		errs = append(errs, validation.ValidateObjectMetaUpdate(&meta, &old, path)...)
	}
	return errorTexts(errs), nil
}

func status(q question) (any, error) {
	resource := schema.GroupResource{Group: text(q, "group"), Resource: text(q, "resource")}
	kind := schema.GroupKind{Group: text(q, "group"), Kind: text(q, "kind")}
	name, message := text(q, "name"), text(q, "message")
	var err *apierrors.StatusError
	switch text(q, "which") {
	case "not-found":
		err = apierrors.NewNotFound(resource, name)
	case "already-exists":
		err = apierrors.NewAlreadyExists(resource, name)
	case "generate-name":
		err = apierrors.NewGenerateNameConflict(resource, name, 1)
	case "unauthorized":
		err = apierrors.NewUnauthorized(message)
	case "forbidden":
		err = apierrors.NewForbidden(resource, name, errors.New(message))
	case "conflict":
		err = apierrors.NewConflict(resource, name, errors.New(message))
	case "gone":
		err = apierrors.NewGone(message)
	case "expired":
		err = apierrors.NewResourceExpired(message)
	case "bad-request":
		err = apierrors.NewBadRequest(message)
	case "too-many":
		err = apierrors.NewTooManyRequests(message, 1)
	case "unavailable":
		err = apierrors.NewServiceUnavailable(message)
	case "method":
		err = apierrors.NewMethodNotSupported(resource, message)
	case "server-timeout":
		err = apierrors.NewServerTimeout(resource, message, 2)
	case "internal":
		err = apierrors.NewInternalError(errors.New(message))
	case "timeout":
		err = apierrors.NewTimeoutError(message, 1)
	case "too-large":
		err = apierrors.NewRequestEntityTooLargeError(message)
	case "generic":
		code := int(q["code"].(int64))
		err = apierrors.NewGenericServerResponse(code, http.MethodPatch, resource, name, message, 0, false)
	case "invalid":
		var list field.ErrorList
		path := field.NewPath("spec", "a")
		list = append(list, field.Invalid(path, message, "is wrong"), field.Required(path.Index(1), message))
		list = append(list, field.NotSupported(path.Key("k"), name, []string{"a", "b"}), field.Duplicate(path, int64(3)))
		list = append(list, field.Forbidden(path, ""), field.TooLong(path, "", 5), field.TooMany(path, 7, 5))
		list = append(list, field.Invalid(path, message, "is wrong"), field.TypeInvalid(path, 1.5, "must be"))
		err = apierrors.NewInvalid(kind, name, list[:q["count"].(int64)])
	}
	result := err.Status()
	result.APIVersion, result.Kind = "v1", "Status"
	return result, nil
}
