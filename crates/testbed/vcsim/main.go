// A vCenter for tests, which none of us wrote: govmomi's simulator over TLS.
//
// The one argument is a JSON file: where to listen, certificate and key, user and password, the control socket, and the BIOS UUID of each VM in the
// order of their names. A line at the control socket sets a property of a VM or of its host: "vm 0 runtime.connectionState disconnected", "host 0
// runtime.connectionState notResponding"; "ok" answers it.
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

type settings struct {
	Address, Certificate, Key, User, Password, Control string
	Uuids                                              []string
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The VMs in the order of their names.
func machines(ctx *simulator.Context) []*simulator.VirtualMachine {
	var all []*simulator.VirtualMachine
	for _, it := range ctx.Map.All("VirtualMachine") {
		all = append(all, it.(*simulator.VirtualMachine))
	}
	sort.Slice(all, func(a, b int) bool { return all[a].Name < all[b].Name })
	return all
}

// A property's value in the type that it has.
func value(kind, name, word string) any {
	switch {
	case strings.HasSuffix(name, "powerState"):
		return types.VirtualMachinePowerState(word)
	case kind == "host":
		return types.HostSystemConnectionState(word)
	case strings.HasSuffix(name, "connectionState"):
		return types.VirtualMachineConnectionState(word)
	case name == "config.uuid":
		return word
	default:
		return word == "true"
	}
}

func change(ctx *simulator.Context, line string) error {
	words := strings.Fields(line)
	number, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	vm := machines(ctx)[number]
	reference := vm.Self
	if words[0] == "host" {
		reference = *vm.Runtime.Host
	}
	object := ctx.Map.Get(reference)
	changes := []types.PropertyChange{{Name: words[2], Val: value(words[0], words[2], words[3])}}
	ctx.WithLock(object, func() { ctx.Update(object, changes) })
	return nil
}

func main() {
	file, err := os.ReadFile(os.Args[1])
	check(err)
	var set settings
	check(json.Unmarshal(file, &set))
	model := simulator.VPX()
	// Hosts of their own, and VMs of the cluster's.
	model.Machine = len(set.Uuids)
	check(model.Create())
	certificate, err := tls.LoadX509KeyPair(set.Certificate, set.Key)
	check(err)
	model.Service.Listen = &url.URL{Host: set.Address, User: url.UserPassword(set.User, set.Password)}
	model.Service.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	ctx := model.Service.Context
	for number, uuid := range set.Uuids {
		check(change(ctx, fmt.Sprintf("vm %d config.uuid %s", number, uuid)))
	}
	defer model.Service.NewServer().Close()
	control, err := net.Listen("unix", set.Control)
	check(err)
	for {
		connection, err := control.Accept()
		check(err)
		line, err := bufio.NewReader(connection).ReadString('\n')
		check(err)
		check(change(ctx, line))
		fmt.Fprintln(connection, "ok")
		connection.Close()
	}
}
