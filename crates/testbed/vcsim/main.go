// A vCenter for tests, which none of us wrote: govmomi's simulator over TLS.
//
// The one argument is a JSON file: where to listen, certificate and key, user and password, the control socket, and the BIOS UUID of each VM in the
// order of their names, and optionally the socket of each one's power. A line at the control socket sets a property of a VM or of its host: "vm 0 runtime.connectionState disconnected", "host 0
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
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

type settings struct {
	Address, Certificate, Key, User, Password, Control string
	Uuids, Sockets                                     []string
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A VM that a machine of the lab runs: the machine's power goes first, so that no Off is told of one that still has power.
type machine struct {
	*simulator.VirtualMachine
	socket string
	// The state that a command leads to, until the VM has followed in the command's task or that has taken too long. The VM's own lock guards both:
	// the simulator holds it during a call, so a second lock beside it would wait for itself.
	commanded string
	until     time.Time
}

// The VMs in the order of their names.
func machines(ctx *simulator.Context) []*simulator.VirtualMachine {
	var all []*simulator.VirtualMachine
	for _, it := range ctx.Map.All("VirtualMachine") {
		switch vm := it.(type) {
		case *machine:
			all = append(all, vm.VirtualMachine)
		case *simulator.VirtualMachine:
			all = append(all, vm)
		}
	}
	sort.Slice(all, func(a, b int) bool { return all[a].Name < all[b].Name })
	return all
}

func (m *machine) PowerOffVMTask(ctx *simulator.Context, c *types.PowerOffVM_Task) soap.HasFault {
	m.command("Off")
	return m.VirtualMachine.PowerOffVMTask(ctx, c)
}

func (m *machine) PowerOnVMTask(ctx *simulator.Context, c *types.PowerOnVM_Task) soap.HasFault {
	m.command("On")
	return m.VirtualMachine.PowerOnVMTask(ctx, c)
}

// Switches the machine. The VM follows in a task of its own.
func (m *machine) command(word string) {
	ask(m.socket, word)
	m.commanded, m.until = word, time.Now().Add(10*time.Second)
}

// The VM's power. Its lock is held.
func (m *machine) power() string {
	return map[bool]string{true: "On", false: "Off"}[m.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn]
}

// Whether a command's task still has to change the VM. Its lock is held.
func (m *machine) changing() bool {
	if m.commanded == m.power() {
		m.until = time.Time{}
	}
	return time.Now().Before(m.until)
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

// Asks a machine of the lab for its power, or switches it: "read", "On", "Off".
func ask(socket, line string) string {
	lab, err := net.Dial("unix", socket)
	check(err)
	defer lab.Close()
	fmt.Fprintln(lab, line)
	state, err := bufio.NewReader(lab).ReadString('\n')
	check(err)
	return strings.TrimSpace(state)
}

// Makes the VM that of a machine of the lab, which may also change by itself.
func follow(ctx *simulator.Context, number int, socket string) {
	m := &machine{VirtualMachine: machines(ctx)[number], socket: socket}
	ctx.Map.Put(m)
	for ; ; time.Sleep(100 * time.Millisecond) {
		ctx.WithLock(m, func() {
			if now := ask(socket, "read"); !m.changing() && now != m.power() {
				state := map[bool]types.VirtualMachinePowerState{
					true: types.VirtualMachinePowerStatePoweredOn, false: types.VirtualMachinePowerStatePoweredOff,
				}[now == "On"]
				check(change(ctx, fmt.Sprintf("vm %d runtime.powerState %s", number, state)))
			}
		})
	}
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
	for number, socket := range set.Sockets {
		go follow(ctx, number, socket)
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
