// A small provider on controller-runtime, of the shape that providers of others have: it looks after notes, which "exist" in a system
// of its own, and says of each how it is doing.
//
// docs/peers.md says what it does.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "finalizer.managedresource.crossplane.io"

var note = schema.GroupVersionKind{Group: "notes.example.org", Version: "v1alpha1", Kind: "Note"}

func main() {
	probe := flag.String("probe", os.Getenv("PROBE"), "an address to connect to before anything else")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if *probe != "" {
		fmt.Println("probe:", reach(*probe))
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metrics.Options{BindAddress: ":8080"},
		LeaderElection:          true,
		LeaderElectionID:        "provider-notes",
		LeaderElectionNamespace: os.Getenv("POD_NAMESPACE"),
		// Whoever comes next need not wait until the lease is over.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	overstep(manager.GetAPIReader())
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(note)
	reconciler := &notes{client: manager.GetClient()}
	if err := ctrl.NewControllerManagedBy(manager).Named("notes").For(kind).Complete(reconciler); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

// reach says whether somebody listens at an address.
func reach(address string) string {
	connection, err := net.DialTimeout("tcp", address, 2*time.Second)
	if err != nil {
		return "unreachable"
	}
	connection.Close()
	return "reached"
}

// overstep tries what a provider of notes has no business with, and says how that went.
func overstep(reader client.Reader) {
	pods := &corev1.PodList{}
	err := reader.List(context.Background(), pods)
	fmt.Println("listing pods:", reason(err))
}

func reason(err error) string {
	if err == nil {
		return "allowed"
	}
	return string(apierrors.ReasonForError(err))
}

type notes struct {
	client client.Client
}

// Reconcile has a note exist, and says so, until it is deleted.
func (n *notes) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(note)
	if err := n.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if object.GetDeletionTimestamp() != nil {
		fmt.Println("deleted", object.GetName())
		object.SetFinalizers(nil)
		return ctrl.Result{}, client.IgnoreNotFound(n.client.Update(ctx, object))
	}
	if len(object.GetFinalizers()) == 0 {
		object.SetFinalizers([]string{finalizer})
		return ctrl.Result{}, n.client.Update(ctx, object)
	}
	return ctrl.Result{}, n.observe(ctx, object)
}

// observe writes what the other system would say, unless it stands there already.
func (n *notes) observe(ctx context.Context, object *unstructured.Unstructured) error {
	text, _, _ := unstructured.NestedString(object.Object, "spec", "forProvider", "text")
	upper := strings.ToUpper(text)
	written, _, _ := unstructured.NestedString(object.Object, "status", "atProvider", "text")
	if written == upper && written != "" {
		return nil
	}
	now := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
	condition := func(kind, reason string) any {
		return map[string]any{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now}
	}
	status := map[string]any{
		"atProvider": map[string]any{"text": upper, "by": os.Getenv("REVISION_NAME")},
		"conditions": []any{condition("Ready", "Available"), condition("Synced", "ReconcileSuccess")},
	}
	object.Object["status"] = status
	fmt.Println("wrote", object.GetName())
	return n.client.Status().Update(ctx, object)
}
