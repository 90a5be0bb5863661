// Answers, one JSON line for each JSON line, what Kubernetes makes of definitions of custom resources and of
// custom resources.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apivalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	kjson "sigs.k8s.io/json"
)

type request struct {
	Op      string          `json:"op"`
	CRD     json.RawMessage `json:"crd"`
	OldCRD  json.RawMessage `json:"oldCrd"`
	Schema  json.RawMessage `json:"schema"`
	Object  json.RawMessage `json:"object"`
	Old     json.RawMessage `json:"old"`
	Version string          `json:"version"`
	V2      bool            `json:"v2"`
	Text    string          `json:"text"`
	Format  string          `json:"format"`
	Values  []string        `json:"values"`
	Drop    bool            `json:"drop"`
	Scoped  bool            `json:"namespaced"`
	Part    string          `json:"part"`
}

type fault struct {
	Reason string `json:"reason"`
	Field  string `json:"field"`
	Text   string `json:"text"`
}

type answer struct {
	Failure  string      `json:"failure,omitempty"`
	Errors   []fault     `json:"errors,omitempty"`
	Unknown  []string    `json:"unknown,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
	Object   interface{} `json:"object,omitempty"`
	Matches  []bool      `json:"matches,omitempty"`
	Document interface{} `json:"document,omitempty"`
	Costs    []costs     `json:"costs,omitempty"`
}

// What a rule may cost at most, and its message, and how often it may be evaluated in an object.
type costs struct {
	Rule    uint64 `json:"rule"`
	Message uint64 `json:"message"`
	Times   uint64 `json:"times"`
	Problem string `json:"problem,omitempty"`
}

func main() {
	reader := bufio.NewReaderSize(os.Stdin, 1<<20)
	writer := bufio.NewWriter(os.Stdout)
	defer writer.Flush()
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) == 0 {
			return
		}
		var r request
		var a answer
		if err := json.Unmarshal(line, &r); err != nil {
			a.Failure = "request: " + err.Error()
		} else {
			a = respond(&r)
		}
		bytes, merr := json.Marshal(a)
		if merr != nil {
			bytes, _ = json.Marshal(answer{Failure: merr.Error()})
		}
		writer.Write(bytes)
		writer.WriteByte('\n')
		if reader.Buffered() == 0 {
			writer.Flush()
		}
		if err != nil {
			return
		}
	}
}

func respond(r *request) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{Failure: fmt.Sprintf("panic: %v", p)}
		}
	}()
	switch r.Op {
	case "crd":
		return definition(r)
	case "object":
		return object(r)
	case "text":
		return text(r)
	case "format":
		return format(r)
	case "openapi":
		return openapi(r)
	case "cost":
		return cost(r)
	}
	return answer{Failure: "unknown operation"}
}

func faults(errs field.ErrorList) []fault {
	var all []fault
	for _, err := range errs {
		all = append(all, fault{Reason: string(err.Type), Field: err.Field, Text: err.Error()})
	}
	return all
}

func decode(raw json.RawMessage) (*apiv1.CustomResourceDefinition, *apiextensions.CustomResourceDefinition, error) {
	var crd apiv1.CustomResourceDefinition
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &crd); err != nil {
		return nil, nil, err
	}
	apiv1.SetObjectDefaults_CustomResourceDefinition(&crd)
	var internal apiextensions.CustomResourceDefinition
	if err := apiv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd.DeepCopy(), &internal, nil); err != nil {
		return nil, nil, err
	}
	return &crd, &internal, nil
}

func definition(r *request) answer {
	crd, internal, err := decode(r.CRD)
	if err != nil {
		return answer{Failure: "decode: " + err.Error()}
	}
	ctx := context.Background()
	if len(r.OldCRD) == 0 {
		return answer{Errors: faults(validation.ValidateCustomResourceDefinition(ctx, internal)), Object: crd}
	}
	_, old, err := decode(r.OldCRD)
	if err != nil {
		return answer{Failure: "decode: " + err.Error()}
	}
	return answer{Errors: faults(validation.ValidateCustomResourceDefinitionUpdate(ctx, internal, old)), Object: crd}
}

func props(raw json.RawMessage) (*apiextensions.JSONSchemaProps, error) {
	var v1 apiv1.JSONSchemaProps
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &v1); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	return &internal, apiv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &internal, nil)
}

func coerce(u map[string]interface{}, s *schema.Structural, drop bool) ([]string, error) {
	kind, foundKind, err := unstructured.NestedString(u, "kind")
	if err != nil {
		return nil, err
	}
	version, foundVersion, err := unstructured.NestedString(u, "apiVersion")
	if err != nil {
		return nil, err
	}
	meta, foundMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(u, objectmeta.ObjectMetaOptions{DropMalformedFields: drop, ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	unknown = append(unknown, pruning.PruneWithOptions(u, s, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(u, s)
	fieldErr, paths := objectmeta.CoerceWithOptions(nil, u, s, false, objectmeta.CoerceOptions{DropInvalidFields: drop, ReturnUnknownFieldPaths: true})
	if fieldErr != nil {
		return nil, fieldErr
	}
	unknown = append(unknown, paths...)
	if foundKind {
		u["kind"] = kind
	}
	if foundVersion {
		u["apiVersion"] = version
	}
	if foundMeta {
		if err := objectmeta.SetObjectMeta(u, meta); err != nil {
			return nil, err
		}
	}
	return unknown, nil
}

func object(r *request) answer {
	internal, err := props(r.Schema)
	if err != nil {
		return answer{Failure: "schema: " + err.Error()}
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return answer{Failure: "structural: " + err.Error()}
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return answer{Failure: "defaults: " + err.Error()}
	}
	validator, _, err := apivalidation.NewSchemaValidator(internal)
	if err != nil {
		return answer{Failure: "validator: " + err.Error()}
	}
	var u map[string]interface{}
	if err := utiljson.Unmarshal(r.Object, &u); err != nil {
		return answer{Failure: "object: " + err.Error()}
	}
	unknown, err := coerce(u, structural, r.Drop)
	if err != nil {
		return answer{Failure: "coerce: " + err.Error()}
	}
	defaulting.Default(u, structural)
	gv, _ := runtimeschema.ParseGroupVersion(fmt.Sprint(u["apiVersion"]))
	kind := gv.WithKind(fmt.Sprint(u["kind"]))
	ctx := context.Background()
	a := answer{Unknown: unknown}
	thing := &unstructured.Unstructured{Object: u}
	var old *unstructured.Unstructured
	if len(r.Old) > 0 {
		old = &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(r.Old, &old.Object); err != nil {
			return answer{Failure: "old: " + err.Error()}
		}
	}
	if r.Part == "" {
		strategy := customresource.NewStrategy(nil, r.Scoped, kind, validator, nil, structural, nil, nil, nil)
		if old == nil {
			a.Errors = faults(strategy.Validate(ctx, thing))
		} else {
			a.Errors = faults(strategy.ValidateUpdate(ctx, thing, old))
		}
		a.Object = u
		return a
	}
	var statusValidator apivalidation.SchemaValidator
	if status, ok := internal.Properties["status"]; ok {
		if statusValidator, _, err = apivalidation.NewSchemaValidator(&status); err != nil {
			return answer{Failure: "validator: " + err.Error()}
		}
	}
	strategy := customresource.NewStrategy(nil, r.Scoped, kind, validator, statusValidator, structural,
		&apiextensions.CustomResourceSubresourceStatus{}, nil, nil)
	switch {
	case old == nil:
		strategy.PrepareForCreate(ctx, thing)
		a.Errors = faults(strategy.Validate(ctx, thing))
		a.Warnings = strategy.WarningsOnCreate(ctx, thing)
	case r.Part == "status":
		thing.SetGeneration(old.GetGeneration())
		status := customresource.NewStatusStrategy(strategy)
		status.PrepareForUpdate(ctx, thing, old)
		a.Errors = faults(status.ValidateUpdate(ctx, thing, old))
		a.Warnings = status.WarningsOnUpdate(ctx, thing, old)
	default:
		thing.SetGeneration(old.GetGeneration())
		strategy.PrepareForUpdate(ctx, thing, old)
		a.Errors = faults(strategy.ValidateUpdate(ctx, thing, old))
		a.Warnings = strategy.WarningsOnUpdate(ctx, thing, old)
	}
	a.Object = thing.Object
	return a
}

func cost(r *request) answer {
	internal, err := props(r.Schema)
	if err != nil {
		return answer{Failure: "schema: " + err.Error()}
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return answer{Failure: "structural: " + err.Error()}
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(structural, model.SchemaDeclType(structural, true), celconfig.PerCallLimit, base, cel.NewExpressionsEnvLoader())
	if err != nil {
		return answer{Failure: "compile: " + err.Error()}
	}
	var a answer
	for _, result := range results {
		c := costs{Rule: result.MaxCost, Message: result.MessageExpressionMaxCost, Times: result.MaxCardinality}
		if result.Error != nil {
			c.Problem = result.Error.Detail
		}
		a.Costs = append(a.Costs, c)
	}
	return a
}

func text(r *request) answer {
	var into map[string]interface{}
	strict, err := kjson.UnmarshalStrict([]byte(r.Text), &into)
	if err != nil {
		return answer{Failure: err.Error()}
	}
	a := answer{Object: into}
	for _, err := range strict {
		a.Unknown = append(a.Unknown, err.Error())
	}
	return a
}

func format(r *request) answer {
	var a answer
	for _, value := range r.Values {
		a.Matches = append(a.Matches, strfmt.Default.Validates(r.Format, value))
	}
	return a
}

func openapi(r *request) answer {
	crd, _, err := decode(r.CRD)
	if err != nil {
		return answer{Failure: "decode: " + err.Error()}
	}
	if r.V2 {
		document, err := builder.BuildOpenAPIV2(crd, r.Version, builder.Options{V2: true, IncludeSelectableFields: true})
		if err != nil {
			return answer{Failure: err.Error()}
		}
		return answer{Document: document}
	}
	document, err := builder.BuildOpenAPIV3(crd, r.Version, builder.Options{V2: false, IncludeSelectableFields: true})
	if err != nil {
		return answer{Failure: err.Error()}
	}
	return answer{Document: document}
}
