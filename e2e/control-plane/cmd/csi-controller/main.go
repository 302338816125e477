// Command csi-controller is the lab's storage array: the controller half of a CSI driver, behind the real
// external-attacher, that knows which node each volume is attached to and refuses a second one.
//
// It keeps what a storage array keeps (the attachments, in a file, so that a restart forgets nothing) and writes down
// each attach and detach with its time, which is what the lab's data-loss oracle judges by. Tests make it fail, hang or
// dawdle through a second socket; see control.go.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

func main() {
	endpoint := flag.String("endpoint", "csi.sock", "unix socket for the CSI services")
	control := flag.String("control", "csi-control.sock", "unix socket for the lab's control (HTTP)")
	name := flag.String("driver-name", "", "name of the CSI driver")
	state := flag.String("state-file", "csi-state.json", "file that holds the attachments over a restart")
	flag.Parse()
	log.SetFlags(log.Ldate | log.Ltime | log.Lmicroseconds | log.LUTC)
	if *name == "" {
		log.Fatal("--driver-name is required")
	}

	array, err := openArray(*state)
	if err != nil {
		log.Fatalf("cannot read the attachments: %v", err)
	}
	server := grpc.NewServer()
	driver := &driver{name: *name, array: array}
	csi.RegisterIdentityServer(server, driver)
	csi.RegisterControllerServer(server, driver)

	controlListener := listen(*control)
	go func() { log.Fatal(http.Serve(controlListener, controlHandler(array))) }()
	log.Fatal(server.Serve(listen(*endpoint)))
}

// listen replaces the socket of an earlier run: the lab's directory is the lab's own.
func listen(path string) net.Listener {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}
