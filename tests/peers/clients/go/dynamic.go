package main

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
)

var websites = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "websites"}

func text() apiextensionsv1.JSONSchemaProps { return apiextensionsv1.JSONSchemaProps{Type: "string"} }

// define makes websites a kind, and waits until they are.
func define(ctx context.Context, config *rest.Config) {
	// Definitions are a built-in kind, so they too are sent as protobuf.
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	definitions := got(apiextensions.NewForConfig(config)).ApiextensionsV1().CustomResourceDefinitions()
	least, path := 0.0, ".status.selector"
	spec := apiextensionsv1.JSONSchemaProps{
		Type:     "object",
		Required: []string{"domain"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"domain":   text(),
			"replicas": {Type: "integer", Minimum: &least, Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
		},
		XValidations: apiextensionsv1.ValidationRules{{Rule: "self.domain == oldSelf.domain", Message: "domain is immutable"}},
	}
	status := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"phase": text(), "selector": text(), "replicas": {Type: "integer"},
	}}
	got(definitions.Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "websites.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org",
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "websites", Singular: "website", Kind: "Website", ListKind: "WebsiteList", ShortNames: []string{"web"},
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type:       "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": status},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{
						SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &path,
					},
				},
				SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".spec.domain"}},
			}},
		},
	}, metav1.CreateOptions{}))
	eventually(ctx, "websites are established", func() bool {
		definition := got(definitions.Get(ctx, "websites.example.org", metav1.GetOptions{}))
		for _, condition := range definition.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	})
}

func website(name, domain string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1",
		"kind":       "Website",
		"metadata":   map[string]any{"name": name, "namespace": namespace},
		"spec":       map[string]any{"domain": domain},
	}}
}

func at(object *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	return value
}

// useDynamicClient does everything there is to do with a kind that the program does not know.
func useDynamicClient(ctx context.Context, config *rest.Config) {
	define(ctx, config)
	client := got(dynamic.NewForConfig(config)).Resource(websites).Namespace(namespace)
	created := got(client.Create(ctx, website("blog", "blog.example.org"), metav1.CreateOptions{}))
	saw("created: replicas %v, generation %d", at(created, "spec", "replicas"), created.GetGeneration())
	_, err := client.Create(ctx, website("empty", ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	must(err)
	bad := website("bad", "bad.example.org")
	must(unstructured.SetNestedField(bad.Object, int64(-1), "spec", "replicas"))
	_, err = client.Create(ctx, bad, metav1.CreateOptions{})
	refused(err, apierrors.IsInvalid, "created with less than nothing")
	saw("%v", err)
	odd := website("odd", "odd.example.org")
	must(unstructured.SetNestedField(odd.Object, "x", "spec", "colour"))
	_, err = client.Create(ctx, odd, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	refused(err, apierrors.IsBadRequest, "created with an unknown field")
	saw("%v", err)
	must(unstructured.SetNestedField(created.Object, "other.example.org", "spec", "domain"))
	_, err = client.Update(ctx, created, metav1.UpdateOptions{})
	refused(err, apierrors.IsInvalid, "changed what is immutable")
	saw("%v", err)

	created = got(client.Get(ctx, "blog", metav1.GetOptions{}))
	must(unstructured.SetNestedField(created.Object, "Ready", "status", "phase"))
	must(unstructured.SetNestedField(created.Object, int64(9), "spec", "replicas"))
	written := got(client.UpdateStatus(ctx, created, metav1.UpdateOptions{}))
	saw("status: %v, replicas %v, generation %d", at(written, "status", "phase"), at(written, "spec", "replicas"), written.GetGeneration())
	_, err = client.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	refused(err, apierrors.IsConflict, "updated what had changed")

	patched := got(client.Patch(ctx, "blog", types.MergePatchType, []byte(`{"spec": {"replicas": 3}}`), metav1.PatchOptions{}))
	saw("patched: replicas %v, generation %d", at(patched, "spec", "replicas"), patched.GetGeneration())
	_, err = client.Patch(ctx, "blog", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
	refused(err, apierrors.IsUnsupportedMediaType, "patched strategically")
	wanted := website("shop", "shop.example.org")
	applied := got(client.Apply(ctx, "shop", wanted, metav1.ApplyOptions{FieldManager: "shopkeeper"}))
	again := got(client.Apply(ctx, "shop", wanted, metav1.ApplyOptions{FieldManager: "shopkeeper"}))
	expect(applied.GetResourceVersion() == again.GetResourceVersion(), "applied twice is applied once")
	must(unstructured.SetNestedField(wanted.Object, int64(5), "spec", "replicas"))
	got(client.Apply(ctx, "shop", wanted, metav1.ApplyOptions{FieldManager: "shopkeeper"}))
	phase := website("shop", "shop.example.org")
	phase.Object["status"] = map[string]any{"phase": "Open"}
	delete(phase.Object, "spec")
	opened := got(client.ApplyStatus(ctx, "shop", phase, metav1.ApplyOptions{FieldManager: "status"}))
	saw("applied: replicas %v, %v", at(opened, "spec", "replicas"), at(opened, "status", "phase"))

	selected := got(client.List(ctx, metav1.ListOptions{FieldSelector: "spec.domain=shop.example.org"}))
	everything := got(client.List(ctx, metav1.ListOptions{}))
	saw("listed: %d of %d %s", len(selected.Items), len(everything.Items), everything.GetKind())
	scaleWebsite(ctx, config)

	watcher := got(client.Watch(ctx, metav1.ListOptions{ResourceVersion: everything.GetResourceVersion()}))
	must(client.Delete(ctx, "blog", metav1.DeleteOptions{}))
	for event := range watcher.ResultChan() {
		object := event.Object.(*unstructured.Unstructured)
		saw("watched: %s %s", event.Type, object.GetName())
		if event.Type == "DELETED" {
			break
		}
	}
	watcher.Stop()
	definitions := got(apiextensions.NewForConfig(config)).ApiextensionsV1().CustomResourceDefinitions()
	must(definitions.Delete(ctx, "websites.example.org", metav1.DeleteOptions{}))
	eventually(ctx, "websites are no kind any more", func() bool {
		_, err := client.List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
	saw("the kind is gone with its objects")
}

// scaleWebsite scales as an autoscaler does, which knows only that something can be scaled.
func scaleWebsite(ctx context.Context, config *rest.Config) {
	client := got(discovery.NewDiscoveryClientForConfig(config))
	mapper := restmapper.NewDiscoveryRESTMapper(got(restmapper.GetAPIGroupResources(client)))
	scales := got(scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(client)))
	current := got(scales.Scales(namespace).Get(ctx, websites.GroupResource(), "shop", metav1.GetOptions{}))
	current.Spec.Replicas = 6
	changed := got(scales.Scales(namespace).Update(ctx, websites.GroupResource(), current, metav1.UpdateOptions{}))
	saw("scaled: %d", changed.Spec.Replicas)
}
