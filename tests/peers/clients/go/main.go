// Uses an API server with client-go and controller-runtime, as operators do, and says what it saw.
//
// The first argument names a scenario. Each looks at its own results and fails loudly; docs/peers.md lists them.
// The server is the one that KUBECONFIG names. Nothing is assumed to be there but the namespace `default`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const namespace = "default"

var scenarios = map[string]func(context.Context, *rest.Config){
	"discovery":       discover,
	"models":          readModels,
	"typed":           useTypedClients,
	"workloads":       useWorkloads,
	"tokens":          useTokens,
	"dynamic":         useDynamicClient,
	"informers":       useInformers,
	"leader-election": electLeaders,
	"controller":      runController,
	"play-cluster":    playCluster,
}

func main() {
	if len(os.Args) != 2 || scenarios[os.Args[1]] == nil {
		names := make([]string, 0, len(scenarios))
		for name := range scenarios {
			names = append(names, name)
		}
		sort.Strings(names)
		fail("usage: %s %s", os.Args[0], strings.Join(names, "|"))
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS, config.Burst = -1, 0
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// Nothing here waits long on a healthy server, and a test should not wait for a sick one.
	if os.Args[1] != "play-cluster" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 60*time.Second)
		defer cancel()
	}
	scenarios[os.Args[1]](ctx, config)
}

func saw(format string, arguments ...any) { fmt.Printf(format+"\n", arguments...) }

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

// expect fails unless the claim holds; `seen` says what was there instead.
func expect(claim bool, what string, seen ...any) {
	if !claim {
		panic(fmt.Sprintf("not so: %s %+v", what, seen))
	}
}

// refused fails unless the server said no, and for this reason.
func refused(err error, is func(error) bool, what string) {
	if err == nil || !is(err) {
		panic(fmt.Sprintf("%s: got %v", what, err))
	}
}

// eventually asks again until the answer is yes.
func eventually(ctx context.Context, what string, holds func() bool) {
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		return holds(), nil
	})
	expect(err == nil, what)
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: namespace} }
