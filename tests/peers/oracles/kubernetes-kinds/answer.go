package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// A question is about an object of a kind.
type question struct {
	Op      string          `json:"op"`
	Group   string          `json:"group"`
	Version string          `json:"version"`
	Kind    string          `json:"kind"`
	Seed    uint64          `json:"seed"`
	Text    string          `json:"text"`
	Old     string          `json:"old"`
	Patch   json.RawMessage `json:"patch"`
}

type answer map[string]any

func (q question) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: q.Group, Version: q.Version, Kind: q.Kind}
}

var operations = map[string]func(question) answer{
	"sample":   func(q question) answer { return answer{"object": json.RawMessage(sample(q.gvk(), q.Seed))} },
	"read":     readObject,
	"patch":    patchObject,
	"typed":    typedObject,
	"validate": validateObject,
	"schemas":  func(question) answer { return answer{"schemas": models()} },
	"kinds":    func(question) answer { return answer{"kinds": kindNames()} },
}

func answerAll(input io.Reader, output io.Writer) error {
	in := bufio.NewScanner(input)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(output)
	defer func() { _ = out.Flush() }()
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return err
		}
		text, err := json.Marshal(reply(q))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return in.Err()
}

func reply(q question) (result answer) {
	defer func() {
		if p := recover(); p != nil {
			result = answer{"panic": fmt.Sprint(p)}
		}
	}()
	operation, found := operations[q.Op]
	if !found {
		return answer{"failure": "no such operation"}
	}
	return operation(q)
}

func kindNames() [][]string {
	var names [][]string
	for _, root := range roots() {
		names = append(names, []string{root.gvk.Group, root.gvk.Version, root.gvk.Kind})
	}
	return names
}

// readObject tells what becomes of a text: what a decoder says about it, what is kept of it, what it is with defaults,
// and its form in protobuf.
func readObject(q question) answer {
	gvk := q.gvk()
	options := kjson.SerializerOptions{Strict: true}
	serializer := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme, scheme, options)
	object, _, err := serializer.Decode([]byte(q.Text), &gvk, nil)
	result := answer{}
	if err != nil && !runtime.IsStrictDecodingError(err) {
		return answer{"failure": err.Error()}
	}
	if strict, is := runtime.AsStrictDecodingError(err); is {
		var texts []string
		for _, err := range strict.Errors() {
			texts = append(texts, err.Error())
		}
		result["strict"] = texts
	}
	var encoded bytes.Buffer
	proto := protobuf.NewSerializer(scheme, scheme)
	if err := proto.Encode(object, &encoded); err != nil {
		return answer{"failure": "encode: " + err.Error()}
	}
	result["protobuf"] = encoded.Bytes()
	result["read"] = stored(object)
	defaulted := object.DeepCopyObject()
	scheme.Default(defaulted)
	result["defaulted"] = stored(defaulted)
	result["internal"] = stored(throughInternal(defaulted, gvk))
	return result
}

// stored is the JSON of an object that was stored as protobuf.
func stored(object runtime.Object) json.RawMessage {
	var encoded bytes.Buffer
	proto := protobuf.NewSerializer(scheme, scheme)
	if err := proto.Encode(object, &encoded); err != nil {
		panic(err)
	}
	decoded, _, err := proto.Decode(encoded.Bytes(), nil, reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object))
	if err != nil {
		panic(err)
	}
	decoded.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	text, err := json.Marshal(decoded)
	if err != nil {
		panic(err)
	}
	return text
}

// throughInternal converts an object to the version that a server works with, and back.
func throughInternal(object runtime.Object, gvk schema.GroupVersionKind) runtime.Object {
	internal, err := scheme.ConvertToVersion(object.DeepCopyObject(), schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		panic(err)
	}
	back, err := scheme.ConvertToVersion(internal, gvk.GroupVersion())
	if err != nil {
		panic(err)
	}
	return back
}

func patchObject(q question) answer {
	object, err := scheme.New(q.gvk())
	if err != nil {
		return answer{"failure": err.Error()}
	}
	patched, err := strategicpatch.StrategicMergePatch([]byte(q.Text), q.Patch, object)
	if err != nil {
		return answer{"failure": err.Error()}
	}
	return answer{"patched": json.RawMessage(patched)}
}

func codec() runtime.Decoder {
	return kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme, scheme, kjson.SerializerOptions{})
}
