// Kanister's own controller, outside of a cluster.
//
// Kanister's program reads where the API server is from the files of its pod. This one reads a kubeconfig (KUBECONFIG), and follows the
// namespace that POD_NAMESPACE names. It uses the definitions that the API server has, and prints a line when it watches.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kanisterio/kanister/pkg/controller"
	// All functions of phases register themselves.
	_ "github.com/kanisterio/kanister/pkg/function"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kanister:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	if err := controller.New(config, nil).StartWatch(ctx, os.Getenv("POD_NAMESPACE")); err != nil {
		return fmt.Errorf("cannot start the controller: %w", err)
	}
	fmt.Println("watching")
	<-ctx.Done()
	return nil
}
