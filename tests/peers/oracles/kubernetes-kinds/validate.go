package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	mutatingwebhook "k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	validatingwebhook "k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
)

type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// strategies are what a server does to objects of a kind before it stores them.
var strategies = map[string]strategy{
	"MutatingWebhookConfiguration": mutatingwebhook.Strategy, "ValidatingWebhookConfiguration": validatingwebhook.Strategy,
	"ControllerRevision": controllerrevision.Strategy, "DaemonSet": daemonset.Strategy, "Deployment": deployment.Strategy,
	"ReplicaSet": replicaset.Strategy, "StatefulSet": statefulset.Strategy,
	"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy, "CronJob": cronjob.Strategy, "Job": job.Strategy,
	"Lease": lease.Strategy, "ConfigMap": configmap.Strategy, "Endpoints": endpoint.Strategy, "Event": event.Strategy,
	"LimitRange": limitrange.Strategy, "Namespace": namespace.Strategy, "PersistentVolume": persistentvolume.Strategy,
	"PersistentVolumeClaim": persistentvolumeclaim.Strategy, "Pod": pod.Strategy, "PodTemplate": podtemplate.Strategy,
	"ReplicationController": replicationcontroller.Strategy, "ResourceQuota": resourcequota.Strategy,
	"Secret": secret.Strategy, "Service": service.Strategy, "ServiceAccount": serviceaccount.Strategy,
	"EndpointSlice": endpointslice.Strategy, "Ingress": ingress.Strategy, "IngressClass": ingressclass.Strategy,
	"NetworkPolicy": networkpolicy.Strategy, "RuntimeClass": runtimeclass.Strategy,
	"PodDisruptionBudget": poddisruptionbudget.Strategy, "ClusterRole": clusterrole.Strategy,
	"ClusterRoleBinding": clusterrolebinding.Strategy, "Role": role.Strategy, "RoleBinding": rolebinding.Strategy,
	"PriorityClass": priorityclass.Strategy, "StorageClass": storageclass.Strategy,
}

// validateObject tells what a server says about an object that is created, or that replaces an old one.
func validateObject(q question) answer {
	strategy, found := strategies[q.Kind]
	if !found {
		return answer{"failure": "no strategy"}
	}
	object, err := internal(q.Text, q.gvk())
	if err != nil {
		return answer{"failure": err.Error()}
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return answer{"failure": err.Error()}
	}
	ctx := request.WithRequestInfo(context.Background(), &request.RequestInfo{
		APIGroup: q.Group, APIVersion: q.Version, IsResourceRequest: true, Verb: "create",
	})
	ctx = request.WithNamespace(ctx, accessor.GetNamespace())
	if q.Old != "" {
		old, err := internal(q.Old, q.gvk())
		if err != nil {
			return answer{"failure": err.Error()}
		}
		return outcome(rest.BeforeUpdate(strategy, ctx, object, old), object, q.gvk())
	}
	rest.FillObjectMetaSystemFields(accessor)
	accessor.SetUID(types.UID("00000000-0000-0000-0000-000000000000"))
	return outcome(rest.BeforeCreate(strategy, ctx, object), object, q.gvk())
}

// internal is an object as a server works with it.
func internal(text string, gvk schema.GroupVersionKind) (runtime.Object, error) {
	object, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := runtime.DecodeInto(codec(), []byte(text), object); err != nil {
		return nil, err
	}
	scheme.Default(object)
	return scheme.ConvertToVersion(object, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
}

func outcome(err error, object runtime.Object, gvk schema.GroupVersionKind) answer {
	if err == nil {
		back, err := scheme.ConvertToVersion(object, gvk.GroupVersion())
		if err != nil {
			return answer{"failure": err.Error()}
		}
		return answer{"errors": []string{}, "stored": stored(back)}
	}
	status, is := err.(apierrors.APIStatus)
	if !is || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return answer{"failure": err.Error()}
	}
	var texts []string
	for _, cause := range status.Status().Details.Causes {
		texts = append(texts, cause.Field+": "+cause.Message)
	}
	return answer{"errors": texts}
}
