package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// specials have a form in JSON that is not that of their Go type.
var specials = map[reflect.Type]string{
	reflect.TypeOf(resource.Quantity{}):                            "q",
	reflect.TypeOf(metav1.Time{}):                                  "t",
	reflect.TypeOf(metav1.MicroTime{}):                             "u",
	reflect.TypeOf(metav1.Duration{}):                              "D",
	reflect.TypeOf(intstr.IntOrString{}):                           "o",
	reflect.TypeOf(runtime.RawExtension{}):                         "r",
	reflect.TypeOf(metav1.FieldsV1{}):                              "F",
	reflect.TypeOf(apiextensionsv1.JSON{}):                         "j",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrArray{}):       "A",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrBool{}):        "B",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrStringArray{}): "S",
}

var (
	typeMeta  = reflect.TypeOf(metav1.TypeMeta{})
	bytesType = reflect.TypeOf([]byte{})
	message   = reflect.TypeOf((*interface{ Unmarshal([]byte) error })(nil)).Elem()
	reader    = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()
)

func isTypeMeta(field reflect.StructField) bool {
	return field.Anonymous && field.Type == typeMeta
}

func hasTypeMeta(kind reflect.Type) bool {
	for i := range kind.NumField() {
		if isTypeMeta(kind.Field(i)) {
			return true
		}
	}
	return false
}

func indirect(kind reflect.Type) reflect.Type {
	if kind.Kind() == reflect.Pointer {
		return kind.Elem()
	}
	return kind
}

// typeOf writes a type down as the tables do, with its name in Go where that does not follow.
func (l *library) typeOf(b *book, kind reflect.Type) string {
	if letter, found := specials[kind]; found {
		return letter
	}
	if kind.Kind() != reflect.Struct && reflect.PointerTo(kind).Implements(reader) {
		panic("reads JSON in its own way: " + kind.String())
	}
	name := ""
	if kind.PkgPath() != "" && kind.Kind() != reflect.Struct {
		name = l.nameOf(b, kind) + ":"
	}
	switch kind.Kind() {
	case reflect.String:
		return name + "s"
	case reflect.Bool:
		return name + "b"
	case reflect.Int32:
		return name + "i"
	case reflect.Int64:
		return name + "l"
	case reflect.Float64:
		return name + "d"
	case reflect.Struct:
		if reflect.PointerTo(kind).Implements(reader) {
			panic("reads JSON in its own way: " + kind.String())
		}
		if kind.PkgPath() == b.path {
			return "@" + kind.Name()
		}
		return "@" + bookName(kind.PkgPath()) + "/" + kind.Name()
	case reflect.Pointer:
		return l.typeOf(b, kind.Elem())
	case reflect.Slice:
		if kind == bytesType {
			return "y"
		}
		if kind.Elem().Kind() == reflect.Pointer {
			panic("list of pointers")
		}
		if kind.PkgPath() != "" && reflect.PointerTo(kind).Implements(message) {
			name = "%" + name
		}
		return name + "[" + l.typeOf(b, kind.Elem())
	case reflect.Map:
		if name == "" && kind.Key() != reflect.TypeOf("") {
			name = kind.String() + ":"
		}
		if kind.Key().Kind() != reflect.String {
			panic("a key that is no string")
		}
		return name + "{" + l.typeOf(b, kind.Elem())
	}
	panic(fmt.Sprint("no such type: ", kind))
}

// nameOf is what errors call a type. The package is left out where it is that of the table.
func (l *library) nameOf(b *book, kind reflect.Type) string {
	if kind.PkgPath() == b.path {
		return strings.SplitN(kind.String(), ".", 2)[1]
	}
	return kind.String()
}
