// Command csi-addons-driver is the storage's side of CSI-Addons for the lab, behind its real sidecars: a socket for the controller, which shuts
// addresses out and lets them in again, and one for each node, which names the node's address.
//
// It writes down each call when it took effect, for the tests; it touches no volume.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// call is one that took effect: `fence` or `unfence`.
type call struct {
	At      time.Time `json:"at"`
	Verb    string    `json:"verb"`
	Clients []string  `json:"clients"`
}

// storage is who is shut out, and what was asked.
type storage struct {
	mu     sync.Mutex
	file   string
	Fenced []string `json:"fenced"`
	Calls  []call   `json:"calls"`
}

func (s *storage) note(verb string, cidrs []*fence.CIDR) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := call{At: time.Now().UTC(), Verb: verb, Clients: []string{}}
	for _, one := range cidrs {
		done.Clients = append(done.Clients, one.Cidr)
		s.Fenced = slices.DeleteFunc(s.Fenced, func(known string) bool { return known == one.Cidr })
		if verb == "fence" {
			s.Fenced = append(s.Fenced, one.Cidr)
		}
	}
	s.Calls = append(s.Calls, done)
	return s.save()
}

// save wants the lock held. It renames, so that a reader never finds half a file.
func (s *storage) save() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file+".new", s.file)
}

// driver answers on one socket: that of the controller, which has no address, or that of a node.
type driver struct {
	identity.UnimplementedIdentityServer
	fence.UnimplementedFenceControllerServer
	name    string
	address string
	storage *storage
}

func (d *driver) GetIdentity(context.Context, *identity.GetIdentityRequest) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *identity.ProbeRequest) (*identity.ProbeResponse, error) {
	return &identity.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (d *driver) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest) (*identity.GetCapabilitiesResponse, error) {
	service, abilities := identity.Capability_Service_NODE_SERVICE, identity.Capability_NetworkFence_GET_CLIENTS_TO_FENCE
	if d.address == "" {
		service, abilities = identity.Capability_Service_CONTROLLER_SERVICE, identity.Capability_NetworkFence_NETWORK_FENCE
	}
	return &identity.GetCapabilitiesResponse{Capabilities: []*identity.Capability{
		{Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: service}}},
		{Type: &identity.Capability_NetworkFence_{NetworkFence: &identity.Capability_NetworkFence{Type: abilities}}},
	}}, nil
}

func (d *driver) FenceClusterNetwork(_ context.Context, r *fence.FenceClusterNetworkRequest) (*fence.FenceClusterNetworkResponse, error) {
	return &fence.FenceClusterNetworkResponse{}, d.storage.note("fence", r.Cidrs)
}

func (d *driver) UnfenceClusterNetwork(_ context.Context, r *fence.UnfenceClusterNetworkRequest) (*fence.UnfenceClusterNetworkResponse, error) {
	return &fence.UnfenceClusterNetworkResponse{}, d.storage.note("unfence", r.Cidrs)
}

func (d *driver) GetFenceClients(context.Context, *fence.GetFenceClientsRequest) (*fence.GetFenceClientsResponse, error) {
	return &fence.GetFenceClientsResponse{Clients: []*fence.ClientDetails{
		{Id: "lab", Addresses: []*fence.CIDR{{Cidr: d.address + "/32"}}},
	}}, nil
}

// main serves `controller.sock`, and `NAME.sock` for each argument NAME=ADDRESS.
func main() {
	name := flag.String("driver-name", "", "name of the CSI driver")
	sockets := flag.String("sockets", ".", "directory of the sockets")
	file := flag.String("state-file", "storage.json", "what the storage knows")
	flag.Parse()
	log.SetFlags(log.Ldate | log.Ltime | log.Lmicroseconds | log.LUTC)
	s := &storage{file: *file, Fenced: []string{}, Calls: []call{}}
	if err := s.save(); err != nil {
		log.Fatal(err)
	}
	for _, node := range append([]string{"controller="}, flag.Args()...) {
		socket, address, _ := strings.Cut(node, "=")
		listener, err := net.Listen("unix", filepath.Join(*sockets, socket+".sock"))
		if err != nil {
			log.Fatal(err)
		}
		server := grpc.NewServer()
		d := &driver{name: *name, address: address, storage: s}
		identity.RegisterIdentityServer(server, d)
		fence.RegisterFenceControllerServer(server, d)
		go func() { log.Fatal(server.Serve(listener)) }()
	}
	select {}
}
