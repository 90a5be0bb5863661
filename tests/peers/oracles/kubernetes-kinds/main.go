// Knows the kinds of a Kubernetes API server from its own packages.
//
// `kubernetes-kinds tables SOURCE DIRECTORY` writes the facts about them as tables: SOURCE is where the module
// k8s.io/kubernetes is, for what its API server says about its resources. Without arguments it answers questions about
// objects, one JSON object per line, so that tests can compare.
package main

import (
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "tables":
		err = writeTables(os.Args[2], os.Args[3])
	case len(os.Args) == 1:
		err = answerAll(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("usage: kubernetes-kinds [tables SOURCE DIRECTORY]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
