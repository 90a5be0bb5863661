package main

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	openapibuilder "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// models are the schemas of all types, by name.
var models = sync.OnceValue(func() map[string]*spec.Schema {
	namer := openapibuilder.NewDefinitionNamer(scheme)
	definitions := openapi.GetOpenAPIDefinitions(func(path string) spec.Ref {
		name, _ := namer.GetDefinitionName(path)
		return spec.MustCreateRef("#/components/schemas/" + name)
	})
	models := map[string]*spec.Schema{}
	for path, definition := range definitions {
		name, extensions := namer.GetDefinitionName(path)
		schema := definition.Schema
		if definition, found := definition.Schema.Extensions[common.ExtensionV2Schema]; found && definition != nil {
			delete(schema.Extensions, common.ExtensionV2Schema)
		}
		for key, value := range extensions {
			schema.AddExtension(key, value)
		}
		models[name] = util.WrapRefs(&schema)
	}
	return models
})

var converter = sync.OnceValue(func() managedfields.TypeConverter {
	made, err := managedfields.NewTypeConverter(models(), false)
	if err != nil {
		panic(err)
	}
	return made
})

// typedObject tells whether server-side apply takes an object, and which fields it sees in it.
func typedObject(q question) answer {
	object, err := scheme.New(q.gvk())
	if err != nil {
		return answer{"failure": err.Error()}
	}
	if err := runtime.DecodeInto(codec(), []byte(q.Text), object); err != nil {
		return answer{"failure": err.Error()}
	}
	object.GetObjectKind().SetGroupVersionKind(q.gvk())
	typed, err := converter().ObjectToTyped(object)
	if err != nil {
		return answer{"failure": err.Error()}
	}
	set, err := typed.ToFieldSet()
	if err != nil {
		return answer{"failure": err.Error()}
	}
	text, err := set.ToJSON()
	if err != nil {
		return answer{"failure": err.Error()}
	}
	return answer{"fields": metav1.FieldsV1{Raw: text}}
}
