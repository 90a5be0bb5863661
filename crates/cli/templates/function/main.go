// NAME labels every composed resource.
package main

import (
	"flag"
	"log"

	"github.com/crossplane/function-sdk-go"
)

func main() {
	address := flag.String("address", ":9443", "address to serve gRPC on")
	certificates := flag.String("tls-certs-dir", "/tls/server", "directory with tls.crt, tls.key and ca.crt")
	insecure := flag.Bool("insecure", false, "serve without TLS")
	debug := flag.Bool("debug", false, "log every call")
	flag.Parse()

	logger, err := function.NewLogger(*debug)
	if err != nil {
		log.Fatal(err)
	}
	server := &Function{log: logger}
	err = function.Serve(server,
		function.Listen("tcp", *address),
		function.MTLSCertificates(*certificates),
		function.Insecure(*insecure))
	if err != nil {
		log.Fatal(err)
	}
}
