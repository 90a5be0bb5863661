// Answers what Kubernetes' field manager does to objects. One question per line of JSON, one answer per line.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

type question struct {
	Group    string    `json:"group"`
	Kind     string    `json:"kind"`
	Versions []version `json:"versions"`
	Deduced  bool      `json:"deduced"`
	Steps    []step    `json:"steps"`

	Sets  []json.RawMessage `json:"sets"`
	Scale *scale            `json:"scale"`
	Typed *typedQuestion    `json:"typed"`
}

// What the parts of the field manager do to objects of the first version.
type typedQuestion struct {
	Object json.RawMessage `json:"object"`
	Other  json.RawMessage `json:"other"`
	Fields json.RawMessage `json:"fields"`
}

type version struct {
	Name   string                           `json:"name"`
	Schema *apiextensionsv1.JSONSchemaProps `json:"schema"`
}

type step struct {
	Operation   string                `json:"op"`
	Version     string                `json:"version"`
	Manager     string                `json:"manager"`
	Subresource string                `json:"subresource"`
	Force       bool                  `json:"force"`
	Time        string                `json:"time"`
	Object      json.RawMessage       `json:"object"`
	Reset       map[string][][]string `json:"reset"`
	// Patterns of what may be written; a star stands for any step.
	Only map[string][][]string `json:"only"`
	// Other schemas from this step on, as if the definition had changed.
	Versions []version `json:"versions"`
}

type outcome struct {
	Object map[string]any       `json:"object,omitempty"`
	Error  string               `json:"error,omitempty"`
	Code   int32                `json:"code,omitempty"`
	Causes []metav1.StatusCause `json:"causes,omitempty"`
}

type scale struct {
	Version  string                      `json:"version"`
	Mappings map[string][]string         `json:"mappings"`
	Parent   []metav1.ManagedFieldsEntry `json:"parent"`
	Scale    []metav1.ManagedFieldsEntry `json:"scale"`
}

// Only changes apiVersion, and does not know versions that the definition does not have.
type convertor struct{ known map[schema.GroupVersion]bool }

func (c convertor) Convert(in, out, context any) error { return errors.New("not used") }

func (c convertor) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (c convertor) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	if !ok {
		return nil, fmt.Errorf("cannot convert %v to %v", from, target)
	}
	if !c.known[to.GroupVersion()] {
		return nil, runtime.NewNotRegisteredErrForKind("oracle", to)
	}
	out := in.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(to)
	return out, nil
}

type creater struct{}

func (creater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}

type defaulter struct{}

func (defaulter) Default(runtime.Object) {}

func typeConverter(q *question, versions []version) (managedfields.TypeConverter, error) {
	if q.Deduced {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group = q.Group
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: q.Kind, ListKind: q.Kind + "List", Plural: "things"}
	crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	for _, v := range versions {
		definition := apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: true}
		if v.Schema != nil {
			definition.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: v.Schema}
			internal := &apiextensions.JSONSchemaProps{}
			if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema, internal, nil); err != nil {
				return nil, err
			}
			structural, err := structuralschema.NewStructural(internal)
			if err != nil {
				return nil, err
			}
			if complaints := structuralschema.ValidateStructural(nil, structural); len(complaints) > 0 {
				return nil, complaints.ToAggregate()
			}
		}
		crd.Spec.Versions = append(crd.Spec.Versions, definition)
	}
	var documents []*spec3.OpenAPI
	for _, v := range versions {
		document, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{})
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	merged, err := builder.MergeSpecsV3(documents...)
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(merged.Components.Schemas, false)
}

func manager(q *question, versions []version, types managedfields.TypeConverter, s step) (*managedfields.FieldManager, error) {
	known := map[schema.GroupVersion]bool{}
	for _, v := range versions {
		known[schema.GroupVersion{Group: q.Group, Version: v.Name}] = true
	}
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	for version, paths := range s.Reset {
		set := fieldpath.NewSet()
		for _, names := range paths {
			set.Insert(path(names))
		}
		reset[fieldpath.APIVersion(version)] = set
	}
	filters := fieldpath.NewExcludeFilterSetMap(reset)
	for version, patterns := range s.Only {
		filters[fieldpath.APIVersion(version)] = only(patterns)
	}
	gvk := schema.GroupVersionKind{Group: q.Group, Version: s.Version, Kind: q.Kind}
	hub := gvk.GroupVersion()
	return managedfields.NewDefaultCRDFieldManager(types, convertor{known}, defaulter{}, creater{}, gvk, hub,
		s.Subresource, filters)
}

func only(patterns [][]string) fieldpath.Filter {
	var matchers []*fieldpath.SetMatcher
	for _, names := range patterns {
		var steps []any
		for _, name := range names {
			if name == "*" {
				steps = append(steps, fieldpath.MatchAnyPathElement())
			} else {
				steps = append(steps, name)
			}
		}
		matchers = append(matchers, fieldpath.MakePrefixMatcherOrDie(steps...))
	}
	return fieldpath.NewIncludeMatcherFilter(matchers...)
}

func path(names []string) fieldpath.Path {
	path := fieldpath.Path{}
	for _, name := range names {
		path = append(path, fieldpath.FieldNameElement(name))
	}
	return path
}

func run(q *question) (any, error) {
	versions := q.Versions
	types, err := typeConverter(q, versions)
	if err != nil {
		return nil, err
	}
	var live *unstructured.Unstructured
	outcomes := []outcome{}
	for _, s := range q.Steps {
		if s.Versions != nil {
			versions = s.Versions
			if types, err = typeConverter(q, versions); err != nil {
				return nil, err
			}
		}
		fields, err := manager(q, versions, types, s)
		if err != nil {
			return nil, err
		}
		result := perform(q, fields, live, s)
		if result.Object != nil {
			live = &unstructured.Unstructured{Object: result.Object}
		}
		if result.Error != "" && s.Operation == "apply" {
			result.Object = nil
		}
		if result.Object != nil {
			result.Object = live.DeepCopy().Object
		}
		outcomes = append(outcomes, result)
	}
	return map[string]any{"steps": outcomes}, nil
}

func perform(q *question, fields *managedfields.FieldManager, live *unstructured.Unstructured, s step) outcome {
	gvk := schema.GroupVersionKind{Group: q.Group, Version: s.Version, Kind: q.Kind}
	old := live.DeepCopy()
	if live == nil {
		empty, _ := creater{}.New(gvk)
		old = empty.(*unstructured.Unstructured)
	}
	// What is stored is read in the version of the request.
	old.SetGroupVersionKind(gvk)
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(s.Object, &object.Object); err != nil {
		return outcome{Error: err.Error()}
	}
	var result runtime.Object
	var err error
	if s.Operation == "apply" {
		result, err = fields.Apply(old, object, s.Manager, s.Force)
	} else {
		result, err = fields.Update(old, object.DeepCopy(), s.Manager)
		if err != nil {
			object.SetManagedFields(nil)
			return outcome{Error: err.Error(), Object: finish(object, s).Object}
		}
	}
	if err != nil {
		failed := outcome{Error: err.Error()}
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			failed.Code = status.Status().Code
			if details := status.Status().Details; details != nil {
				failed.Causes = details.Causes
			}
		}
		sort.SliceStable(failed.Causes, func(i, j int) bool { return failed.Causes[i].Message < failed.Causes[j].Message })
		return failed
	}
	return outcome{Object: finish(result.(*unstructured.Unstructured), s).Object}
}

// Puts the time of the step where the clock of the machine was read, and gives the object an identity.
func finish(object *unstructured.Unstructured, s step) *unstructured.Unstructured {
	entries := object.GetManagedFields()
	chosen, err := time.Parse(time.RFC3339, s.Time)
	if err != nil {
		panic(err)
	}
	for i := range entries {
		if entries[i].Time != nil && entries[i].Time.Year() > 2020 {
			entries[i].Time = &metav1.Time{Time: chosen}
		}
	}
	sort.SliceStable(entries, func(i, j int) bool { return before(entries[i], entries[j]) })
	if entries != nil {
		object.SetManagedFields(entries)
	}
	if object.GetUID() == "" {
		object.SetUID("uid")
	}
	return object
}

func before(p, q metav1.ManagedFieldsEntry) bool {
	seconds := func(t *metav1.Time) int64 {
		if t == nil {
			return 0
		}
		return t.Unix()
	}
	switch {
	case p.Operation != q.Operation:
		return p.Operation < q.Operation
	case seconds(p.Time) != seconds(q.Time):
		return seconds(p.Time) < seconds(q.Time)
	case p.Manager != q.Manager:
		return p.Manager < q.Manager
	case p.APIVersion != q.APIVersion:
		return p.APIVersion < q.APIVersion
	}
	return p.Subresource < q.Subresource
}

func sets(raw []json.RawMessage) any {
	decoded := make([]fieldpath.Set, len(raw))
	for i := range raw {
		if err := decoded[i].FromJSON(bytes.NewReader(raw[i])); err != nil {
			return map[string]any{"error": err.Error(), "at": i}
		}
	}
	text := func(set *fieldpath.Set) string {
		out, err := set.ToJSON()
		if err != nil {
			return "error: " + err.Error()
		}
		return string(out)
	}
	a, b := &decoded[0], &decoded[1]
	paths := []string{}
	a.Iterate(func(p fieldpath.Path) { paths = append(paths, p.String()) })
	return map[string]any{
		"same": text(a), "union": text(a.Union(b)), "intersection": text(a.Intersection(b)),
		"difference": text(a.Difference(b)), "recursive": text(a.RecursiveDifference(b)),
		"leaves": text(a.Leaves()), "size": a.Size(), "paths": paths, "equal": a.Equals(b),
	}
}

func scaled(s *scale) (any, error) {
	mappings := managedfields.ResourcePathMappings{}
	for version, names := range s.Mappings {
		mappings[version] = nil
		if names != nil {
			mappings[version] = path(names)
		}
	}
	version, err := schema.ParseGroupVersion(s.Version)
	if err != nil {
		return nil, err
	}
	handler := managedfields.NewScaleHandler(s.Parent, version, mappings)
	below, err := handler.ToSubresource()
	if err != nil {
		return nil, err
	}
	above, err := handler.ToParent(s.Scale)
	if err != nil {
		return nil, err
	}
	return map[string]any{"subresource": below, "parent": above}, nil
}

func walk(q *question) (any, error) {
	types, err := typeConverter(q, q.Versions)
	if err != nil {
		return nil, err
	}
	object, other := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(q.Typed.Object, &object.Object); err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(q.Typed.Other, &other.Object); err != nil {
		return nil, err
	}
	set := &fieldpath.Set{}
	if err := set.FromJSON(bytes.NewReader(q.Typed.Fields)); err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	one, err := types.ObjectToTyped(object, typed.AllowDuplicates)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	two, err := types.ObjectToTyped(other)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	text := func(set *fieldpath.Set) string {
		out, err := set.ToJSON()
		if err != nil {
			return "error: " + err.Error()
		}
		return string(out)
	}
	fields, err := one.ToFieldSet()
	if err != nil {
		return nil, err
	}
	comparison, err := one.Compare(two)
	if err != nil {
		return nil, err
	}
	merged, err := one.Merge(two)
	if err != nil {
		return nil, err
	}
	reconciled, err := typed.ReconcileFieldSetWithSchema(set, one)
	if err != nil {
		return nil, err
	}
	if reconciled == nil {
		reconciled = set
	}
	return map[string]any{
		"fields": text(fields), "removed": text(comparison.Removed), "modified": text(comparison.Modified),
		"added": text(comparison.Added), "merged": merged.AsValue().Unstructured(), "reconciled": text(reconciled),
		"without": one.RemoveItems(set).AsValue().Unstructured(), "only": one.ExtractItems(set).AsValue().Unstructured(),
	}, nil
}

func answer(line []byte) any {
	q := &question{}
	if err := json.Unmarshal(line, q); err != nil {
		return map[string]any{"problem": err.Error()}
	}
	var result any
	var err error
	switch {
	case q.Sets != nil:
		result = sets(q.Sets)
	case q.Typed != nil:
		result, err = walk(q)
	case q.Scale != nil:
		result, err = scaled(q.Scale)
	default:
		result, err = run(q)
	}
	if err != nil {
		return map[string]any{"problem": err.Error()}
	}
	return result
}

func main() {
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := output.Encode(answer(line)); err != nil {
				panic(err)
			}
		}
		if err != nil {
			return
		}
	}
}
