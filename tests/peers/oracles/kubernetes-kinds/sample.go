package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// sample makes an object of a kind by chance. The same seed always makes the same.
func sample(gvk schema.GroupVersionKind, seed uint64) []byte {
	kind, found := scheme.AllKnownTypes()[gvk]
	if !found {
		panic("no such kind")
	}
	object := newObject(kind)
	s := &sampler{rand.New(rand.NewPCG(seed, 1))}
	s.fill(reflect.ValueOf(object).Elem(), 0)
	object.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}

type sampler struct{ *rand.Rand }

func (s *sampler) chance(percent int) bool { return s.IntN(100) < percent }

func pick[T any](s *sampler, choices ...T) T { return choices[s.IntN(len(choices))] }

func (s *sampler) text() string {
	return pick(s, "", "a", "b-c", "Name", "nginx:latest", "nginx", "registry/app:v1", "10.0.0.1", "x.y/z", "ServiceAccount",
		"User", "Container", "RollingUpdate", "Recreate", "Größe", "a<b>&c")
}

// percent says how many fields are filled: fewer the deeper they are, so that objects stay small.
func percent(depth int) int { return max(8, 60-depth*9) }

func (s *sampler) fill(value reflect.Value, depth int) {
	if s.special(value) {
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		s.fill(value.Elem(), depth)
	case reflect.Struct:
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if isTypeMeta(field) {
				continue
			}
			isPlain := field.Type.Kind() == reflect.Struct && specials[field.Type] == ""
			if isPlain || s.chance(percent(depth)) {
				s.fill(value.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		length := s.IntN(3)
		value.Set(reflect.MakeSlice(value.Type(), length, length))
		for i := range length {
			s.fill(value.Index(i), depth+1)
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for range s.IntN(3) {
			key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
			key.SetString(pick(s, "a", "b.c/d", "cpu", "memory", "hugepages-2Mi", "app"))
			s.fill(item, depth+1)
			value.SetMapIndex(key, item)
		}
	case reflect.String:
		if choices := enumOf(value.Type()); len(choices) > 0 && s.chance(80) {
			value.SetString(pick(s, choices...))
			return
		}
		value.SetString(s.text())
	case reflect.Bool:
		value.SetBool(s.chance(60))
	case reflect.Int32:
		value.SetInt(int64(pick(s, 0, 1, 5, 80, 65536, -1, 2147483647)))
	case reflect.Int64:
		value.SetInt(pick[int64](s, 0, 1, 30, -7, 9007199254740993))
	case reflect.Float64:
		value.SetFloat(pick(s, 0, 1, 1.5, -2, 1e21))
	default:
		panic(fmt.Sprint("no such type: ", value.Type()))
	}
}

func (s *sampler) special(value reflect.Value) bool {
	var made any
	switch value.Interface().(type) {
	case resource.Quantity:
		made = resource.MustParse(pick(s, "0", "1", "100m", "0.5", "1Gi", "1e3", "1.5Mi", "1536Ki", "0.0001", "123456789", "-2", "3n"))
	case metav1.Time:
		made = metav1.NewTime(s.time())
	case metav1.MicroTime:
		made = metav1.NewMicroTime(s.time())
	case intstr.IntOrString:
		made = pick(s, intstr.FromInt32(0), intstr.FromInt32(80), intstr.FromString("http"), intstr.FromString("25%"), intstr.FromString(""))
	case runtime.RawExtension:
		made = runtime.RawExtension{Raw: []byte(pick(s, `{"a":1}`, `{}`, `{"kind":"A","b":[1.5,null,"x"]}`))}
	case metav1.FieldsV1:
		made = metav1.FieldsV1{Raw: []byte(`{"f:a":{"f:b":{}}}`)}
	case apiextensionsv1.JSON:
		made = apiextensionsv1.JSON{Raw: []byte(pick(s, `1`, `"x"`, `{"a":[true]}`, `[]`))}
	case apiextensionsv1.JSONSchemaPropsOrArray:
		made = apiextensionsv1.JSONSchemaPropsOrArray{Schema: s.schema()}
		if s.chance(30) {
			made = apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: []apiextensionsv1.JSONSchemaProps{*s.schema()}}
		}
	case apiextensionsv1.JSONSchemaPropsOrBool:
		made = apiextensionsv1.JSONSchemaPropsOrBool{Allows: s.chance(50)}
		if s.chance(50) {
			made = apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: s.schema()}
		}
	case apiextensionsv1.JSONSchemaPropsOrStringArray:
		made = apiextensionsv1.JSONSchemaPropsOrStringArray{Property: []string{s.text()}}
		if s.chance(50) {
			made = apiextensionsv1.JSONSchemaPropsOrStringArray{Schema: s.schema()}
		}
	case []byte:
		made = []byte(pick(s, "", "a", "secret", "\x00\xff\x10"))
	default:
		return false
	}
	value.Set(reflect.ValueOf(made))
	return true
}

func (s *sampler) schema() *apiextensionsv1.JSONSchemaProps {
	return &apiextensionsv1.JSONSchemaProps{Type: pick(s, "object", "string"), Description: s.text()}
}

func (s *sampler) time() time.Time {
	return time.Unix(pick[int64](s, 1700000000, 1, 951782400), pick[int64](s, 0, 123456789, 500000)).UTC()
}

var (
	enums     map[reflect.Type][]string
	findEnums sync.Once
)

// enumOf lists the values of a type of texts.
func enumOf(kind reflect.Type) []string {
	findEnums.Do(func() {
		enums = map[reflect.Type][]string{}
		lib := &library{books: map[string]*book{}}
		lib.definitions = openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/" + name) })
		for _, root := range roots() {
			lib.collect(root.kind)
		}
		for _, book := range lib.books {
			for _, kind := range book.types {
				lib.enumsOf(kind)
			}
		}
	})
	return enums[kind]
}

func (l *library) enumsOf(kind reflect.Type) {
	definition, _, _ := l.definition(kind)
	if definition == nil {
		return
	}
	for i := range kind.NumField() {
		field := kind.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		of := indirect(field.Type)
		if of.Kind() == reflect.Slice {
			of = indirect(of.Elem())
		}
		property := definition.Properties[name]
		values := property.Enum
		if property.Items != nil && property.Items.Schema != nil {
			values = append(values, property.Items.Schema.Enum...)
		}
		for _, value := range values {
			if text := fmt.Sprint(value); of.Kind() == reflect.String && len(enums[of]) < len(values) {
				enums[of] = append(enums[of], text)
			}
		}
	}
}
