package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"
)

// How deep objects are looked into for defaults. Types that contain themselves would go on forever.
const maxDepth = 14

// defaults are the values that fields get when an object does not say.
type defaults struct {
	types map[reflect.Type]map[string]string
}

// A step leads from a value to one inside it: a field, or the item of a list or map.
type step struct {
	field int
	item  bool
}

type finder struct {
	root root
	// What was seen for a field of a type: value to the paths that got it. The empty value is none.
	seen map[reflect.Type]map[string]map[string][]string
}

// findDefaults runs the defaulting of every kind on objects that have one thing each and nothing else.
func findDefaults(roots []root) *defaults {
	seen := map[reflect.Type]map[string]map[string][]string{}
	for _, root := range roots {
		// Items of a list are objects of their own.
		if strings.HasSuffix(root.gvk.Kind, "List") {
			continue
		}
		f := &finder{root, seen}
		f.visit(root.kind, nil, root.gvk.Kind, map[reflect.Type]int{})
	}
	return settle(seen)
}

// visit looks at the struct at the end of the steps, and at all structs below.
func (f *finder) visit(kind reflect.Type, steps []step, path string, nesting map[reflect.Type]int) {
	if kind.Kind() != reflect.Struct || specials[kind] != "" || len(steps) > maxDepth || nesting[kind] > 0 {
		return
	}
	if kind.PkgPath() == metaPackage {
		return
	}
	f.look(kind, steps, path)
	nesting[kind]++
	defer func() { nesting[kind]-- }()
	for i := range kind.NumField() {
		field := kind.Field(i)
		if isTypeMeta(field) {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		below := append(append([]step(nil), steps...), step{field: i})
		inner := indirect(field.Type)
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			below = append(below, step{item: true})
			inner = indirect(inner.Elem())
		}
		f.visit(inner, below, path+"."+name, nesting)
	}
}

// look defaults an object that has nothing but the way to one struct, and notes what that struct got.
func (f *finder) look(kind reflect.Type, steps []step, path string) {
	object := newObject(f.root.kind)
	build(reflect.ValueOf(object).Elem(), steps)
	scheme.Default(object)
	value, found := follow(reflect.ValueOf(object).Elem(), steps)
	if !found {
		// Defaulting took it away, so there is nothing to learn.
		return
	}
	for i := range kind.NumField() {
		field := kind.Field(i)
		if isTypeMeta(field) || field.Anonymous {
			continue
		}
		f.note(kind, field, value.Field(i), path)
	}
}

func (f *finder) note(kind reflect.Type, field reflect.StructField, value reflect.Value, path string) {
	text := ""
	isEmpty := (value.Kind() == reflect.Map || value.Kind() == reflect.Slice) && value.Len() == 0
	if !value.IsZero() && !isEmpty {
		raw, err := json.Marshal(value.Interface())
		if err != nil {
			panic(err)
		}
		text = strings.ReplaceAll(string(raw), " ", `\u0020`)
	}
	// Structs get what their own fields get.
	if field.Type.Kind() == reflect.Struct && specials[field.Type] == "" {
		text = ""
	}
	if f.seen[kind] == nil {
		f.seen[kind] = map[string]map[string][]string{}
	}
	if f.seen[kind][field.Name] == nil {
		f.seen[kind][field.Name] = map[string][]string{}
	}
	f.seen[kind][field.Name][text] = append(f.seen[kind][field.Name][text], path)
}

func build(value reflect.Value, steps []step) {
	for _, step := range steps {
		value = open(value)
		if !step.item {
			value = value.Field(step.field)
			if value.Kind() == reflect.Pointer {
				value.Set(reflect.New(value.Type().Elem()))
			}
			continue
		}
		switch value.Kind() {
		case reflect.Slice:
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
			value = value.Index(0)
		case reflect.Map:
			// Nothing in a map of structs is defaulted: they cannot be changed in place.
			value.Set(reflect.MakeMap(value.Type()))
			return
		}
	}
}

func open(value reflect.Value) reflect.Value {
	if value.Kind() == reflect.Pointer {
		return value.Elem()
	}
	return value
}

func follow(value reflect.Value, steps []step) (reflect.Value, bool) {
	for _, step := range steps {
		value = open(value)
		if !value.IsValid() {
			return value, false
		}
		if !step.item {
			value = value.Field(step.field)
			continue
		}
		if value.Kind() == reflect.Map {
			return reflect.Zero(indirect(value.Type().Elem())), value.Type().Elem().Kind() != reflect.Slice
		}
		if value.Len() == 0 {
			return value, false
		}
		value = value.Index(0)
	}
	value = open(value)
	return value, value.IsValid()
}

// settle keeps what holds wherever a type is used, or wherever it is used in some kinds.
//
// What one kind gets in one place and not in another is no fact of a table: whoever reads it has to know.
func settle(seen map[reflect.Type]map[string]map[string][]string) *defaults {
	found := &defaults{map[reflect.Type]map[string]string{}}
	for kind, fields := range seen {
		for field, values := range fields {
			fact, isSettled := fact(values)
			if !isSettled {
				fmt.Fprintf(os.Stderr, "not a fact: %s.%s\n", kind, field)
				continue
			}
			if fact == "" {
				continue
			}
			if found.types[kind] == nil {
				found.types[kind] = map[string]string{}
			}
			found.types[kind][field] = fact
		}
	}
	return found
}

func fact(values map[string][]string) (string, bool) {
	without := kindsOf(values[""])
	delete(values, "")
	if len(values) == 0 {
		return "", true
	}
	if len(values) > 1 {
		return "", false
	}
	for value, paths := range values {
		if len(without) == 0 {
			return "D=" + value, true
		}
		with := kindsOf(paths)
		for _, kind := range with {
			if slices.Contains(without, kind) {
				return "", false
			}
		}
		return "D@" + strings.Join(with, ",") + "=" + value, true
	}
	return "", true
}

// kindsOf are the kinds that paths start in.
func kindsOf(paths []string) []string {
	var kinds []string
	for _, path := range paths {
		kind, _, _ := strings.Cut(path, ".")
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	sort.Strings(kinds)
	return kinds
}
