package main

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// discover asks what there is, in the new form and in the old, and finds resources by all of their names.
func discover(ctx context.Context, config *rest.Config) {
	client := got(discovery.NewDiscoveryClientForConfig(config))
	version := got(client.ServerVersion())
	expect(version.Major == "1", "the version is 1.x", version)

	groups, resources, failed, err := client.GroupsAndMaybeResources()
	must(err)
	expect(len(failed) == 0, "no group fails", failed)
	expect(resources != nil, "resources come with the groups")
	saw("aggregated: core is %s", groups.Groups[0].PreferredVersion.GroupVersion)

	legacy := got(discovery.NewDiscoveryClientForConfig(config))
	legacy.UseLegacyDiscovery = true
	old, lists, err := legacy.ServerGroupsAndResources()
	must(err)
	expect(len(old) == len(groups.Groups), "both forms know the same groups", len(old), len(groups.Groups))
	for _, list := range lists {
		other := resources[got(schema.ParseGroupVersion(list.GroupVersion))]
		expect(other != nil, "both forms know the version", list.GroupVersion)
		for _, resource := range list.APIResources {
			found := false
			for _, candidate := range other.APIResources {
				if candidate.Name == resource.Name {
					found = true
					expect(candidate.Kind == resource.Kind && candidate.Namespaced == resource.Namespaced, "same kind",
						candidate, resource)
					expect(candidate.Verbs.String() == resource.Verbs.String(), "same verbs", candidate, resource)
				}
			}
			expect(found, "both forms know the resource", list.GroupVersion, resource.Name)
		}
	}
	saw("legacy: the same groups and resources")

	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	shortcuts := restmapper.NewShortcutExpander(mapper, client, nil)
	for _, name := range []string{"cm", "deploy", "crd", "leases", "sa"} {
		resource := got(shortcuts.ResourceFor(schema.GroupVersionResource{Resource: name}))
		kind := got(shortcuts.KindFor(schema.GroupVersionResource{Resource: name}))
		mapping := got(mapper.RESTMapping(kind.GroupKind()))
		saw("%s: %s, %s, %s", name, resource.GroupResource(), kind.Kind, scope(mapping))
	}

	paths := got(client.OpenAPIV3().Paths())
	document := got(paths["apis/apps/v1"].Schema("application/json"))
	var parsed struct {
		Paths map[string]any `json:"paths"`
	}
	must(json.Unmarshal(document, &parsed))
	_, found := parsed.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
	expect(found, "the description of apps/v1 has deployments")
	var v2 struct {
		Definitions map[string]any `json:"definitions"`
	}
	must(json.Unmarshal(got(client.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").DoRaw(ctx)), &v2))
	expect(len(v2.Definitions) > 100, "version 2 has definitions", len(v2.Definitions))
	saw("openapi: both versions")
}

func scope(mapping *meta.RESTMapping) string { return string(mapping.Scope.Name()) }
