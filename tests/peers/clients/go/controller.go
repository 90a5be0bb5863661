package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.org/website"

// Website is the kind that the controller is for.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Domain   string `json:"domain"`
		Replicas int64  `json:"replicas,omitempty"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitempty"`
}

// WebsiteList is what a server answers when asked for all of them.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

// DeepCopyObject lets caches hand out copies.
func (w *Website) DeepCopyObject() runtime.Object {
	copied := *w
	copied.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &copied
}

// DeepCopyObject lets caches hand out copies.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	copied := WebsiteList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopyObject().(*Website))
	}
	return &copied
}

type reconciler struct {
	client.Client
	recorder events.EventRecorder
}

// Reconcile keeps one ConfigMap per website, and says on the website that it is there.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Website
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(&site, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &site))
	}
	if controllerutil.AddFinalizer(&site, finalizer) {
		return ctrl.Result{}, r.Update(ctx, &site)
	}
	owner := applymetav1.OwnerReference().WithAPIVersion("example.org/v1").WithKind("Website").WithName(site.Name).
		WithUID(site.UID).WithController(true).WithBlockOwnerDeletion(true)
	page := applycorev1.ConfigMap(site.Name+"-page", site.Namespace).WithOwnerReferences(owner).
		WithData(map[string]string{"domain": site.Spec.Domain, "replicas": fmt.Sprint(site.Spec.Replicas)})
	if err := r.Apply(ctx, page, client.FieldOwner("website-controller"), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	if site.Status.Phase == "Published" {
		return ctrl.Result{}, nil
	}
	r.recorder.Eventf(&site, nil, corev1.EventTypeNormal, "Published", "Publish", "published %s", site.Spec.Domain)
	site.Status.Phase = "Published"
	return ctrl.Result{}, r.Status().Update(ctx, &site)
}

// runController runs an operator like any other, and lives through a website's life with it.
func runController(ctx context.Context, config *rest.Config) {
	define(ctx, config)
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	version := schema.GroupVersion{Group: "example.org", Version: "v1"}
	scheme.AddKnownTypes(version, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, version)
	ctrl.SetLogger(klog.Background())

	manager := got(ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "website-controller",
		LeaderElectionNamespace: namespace,
	}))
	must(ctrl.NewControllerManagedBy(manager).For(&Website{}).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{manager.GetClient(), manager.GetEventRecorder("website-controller")}))
	ended := make(chan error)
	running, stop := context.WithCancel(ctx)
	go func() { ended <- manager.Start(running) }()

	direct := got(client.New(config, client.Options{Scheme: scheme}))
	key := client.ObjectKey{Namespace: namespace, Name: "blog"}
	site := &Website{ObjectMeta: named("blog")}
	site.Spec.Domain = "blog.example.org"
	must(direct.Create(ctx, site))
	eventually(ctx, "the website is published", func() bool {
		must(direct.Get(ctx, key, site))
		return site.Status.Phase == "Published"
	})
	saw("published: finalizers %v, generation %d", site.Finalizers, site.Generation)

	// The page comes back, since the controller watches what it owns.
	page := &corev1.ConfigMap{}
	pageKey := client.ObjectKey{Namespace: namespace, Name: "blog-page"}
	must(direct.Get(ctx, pageKey, page))
	expect(metav1.IsControlledBy(page, site), "the website controls its page", page.OwnerReferences)
	uid := page.UID
	must(direct.Delete(ctx, page))
	eventually(ctx, "the page comes back", func() bool { return direct.Get(ctx, pageKey, page) == nil && page.UID != uid })
	base := site.DeepCopyObject().(*Website)
	site.Spec.Replicas = 3
	must(direct.Patch(ctx, site, client.MergeFrom(base)))
	eventually(ctx, "the page follows", func() bool {
		return direct.Get(ctx, pageKey, page) == nil && page.Data["replicas"] == "3"
	})
	saw("the page came back, and follows: %v", page.Data)

	var told eventsv1.EventList
	eventually(ctx, "an event is recorded", func() bool {
		must(direct.List(ctx, &told, client.InNamespace(namespace), client.MatchingFields{"regarding.name": "blog"}))
		return len(told.Items) > 0
	})
	saw("event: %s %q about %s", told.Items[0].Reason, told.Items[0].Note, told.Items[0].Regarding.Kind)
	var old corev1.EventList
	must(direct.List(ctx, &old, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": "blog", "reason": "Published"}))
	saw("the same in the old form: %q", old.Items[0].Message)

	must(direct.Delete(ctx, site, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	eventually(ctx, "the website and its page go", func() bool {
		return apierrors.IsNotFound(direct.Get(ctx, key, site)) && apierrors.IsNotFound(direct.Get(ctx, pageKey, page))
	})
	stop()
	select {
	case err := <-ended:
		must(err)
	case <-time.After(30 * time.Second):
		fail("the manager does not end")
	}
	saw("the website is gone, and its page with it")
}
