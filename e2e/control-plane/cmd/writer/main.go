// Command writer is everything that runs in a container of the lab's real nodes. One static binary is the whole image.
//
//	writer [pause]                         sleeps; without arguments it is the sandbox's own process
//	writer write FILE [--ignore-sigterm]   appends a line to FILE every 20 ms, for the volume oracle
//	writer network FILE                    writes the network plugin's configuration to FILE, then sleeps
//	writer image ARCHIVE                   packs this very binary into an OCI archive for `ctr images import`
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const usage = "usage: writer [pause | write FILE [--ignore-sigterm] | network FILE | image ARCHIVE]"

func main() {
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 0, slices.Equal(arguments, []string{"pause"}):
		sleep()
	case len(arguments) == 2 && arguments[0] == "write":
		err = write(arguments[1], false)
	case len(arguments) == 3 && arguments[0] == "write" && arguments[2] == "--ignore-sigterm":
		err = write(arguments[1], true)
	case len(arguments) == 2 && arguments[0] == "network":
		err = network(arguments[1])
	case len(arguments) == 2 && arguments[0] == "image":
		err = image(arguments[1])
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
}

// stopSignal is what the image asks the container runtime for in place of SIGTERM. Go's runtime ends a program by a
// SIGTERM that comes before the program could ignore it, but not by this one; a container that is deleted while it
// starts would else end at once, and hide what such containers can do.
const stopSignal = syscall.SIGWINCH

// sleep returns when the container is asked to stop.
func sleep() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, stopSignal, syscall.SIGTERM)
	<-stop
}

// network is what the DaemonSet of a network plugin does to a node: its pod makes the node's network ready.
func network(file string) error {
	const configuration = `{"cniVersion":"0.4.0","name":"lab","plugins":[{"type":"lab"}]}` + "\n"
	// By rename, because the container runtime watches the directory.
	if err := os.WriteFile(file+".new", []byte(configuration), 0o644); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	sleep()
	return nil
}
