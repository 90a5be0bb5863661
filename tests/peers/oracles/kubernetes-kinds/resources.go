package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resources is what the API server says about its resources when it is asked.
func resources(source string) (string, error) {
	var out strings.Builder
	for _, gv := range served {
		name := "apis__" + gv.Group + "__" + gv.Version + ".json"
		if gv.Group == "" {
			name = "api__v1.json"
		}
		text, err := os.ReadFile(filepath.Join(source, "api/discovery", name))
		if err != nil {
			return "", err
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(text, &list); err != nil {
			return "", err
		}
		sort.SliceStable(list.APIResources, func(i, j int) bool { return list.APIResources[i].Name < list.APIResources[j].Name })
		fmt.Fprintf(&out, "group %s %s\n", orDash(gv.Group), gv.Version)
		for _, resource := range list.APIResources {
			writeResource(&out, resource, gv.Group, gv.Version)
		}
	}
	return out.String(), nil
}

func writeResource(out *strings.Builder, resource metav1.APIResource, group, version string) {
	verbs := append([]string(nil), resource.Verbs...)
	sort.Strings(verbs)
	row := []string{resource.Name}
	if strings.Contains(resource.Name, "/") {
		row[0] = " " + resource.Name[strings.Index(resource.Name, "/"):]
	} else {
		row = append(row, resource.SingularName)
	}
	row = append(row, resource.Kind)
	if !strings.Contains(resource.Name, "/") {
		scope := "Cluster"
		if resource.Namespaced {
			scope = "Namespaced"
		}
		row = append(row, scope)
	}
	joined := strings.Join(verbs, ",")
	if joined == "create,delete,deletecollection,get,list,patch,update,watch" {
		joined = "all"
	}
	row = append(row, orDash(joined))
	if resource.Group != "" || resource.Version != "" {
		row = append(row, "g="+resource.Group+"/"+resource.Version)
	}
	if len(resource.ShortNames) > 0 {
		row = append(row, "s="+strings.Join(resource.ShortNames, ","))
	}
	if len(resource.Categories) > 0 {
		row = append(row, "c="+strings.Join(resource.Categories, ","))
	}
	if stored := storage(resource, group, version); stored != "" {
		row = append(row, "v="+stored)
	}
	fmt.Fprintln(out, strings.Join(row, " "))
}

// storage is the group version that a resource is stored as, if it is not its own.
func storage(resource metav1.APIResource, group, version string) string {
	if resource.StorageVersionHash == "" || hash(group, version, resource.Kind) == resource.StorageVersionHash {
		return ""
	}
	for _, gv := range served {
		if hash(gv.Group, gv.Version, resource.Kind) == resource.StorageVersionHash {
			return gv.Group + "/" + gv.Version
		}
	}
	// A version that the tables do not have: whoever serves only these stores its own.
	return ""
}

func hash(group, version, kind string) string {
	sum := sha256.Sum256([]byte(group + "/" + version + "/" + kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
